//go:build remote && containers_image_openpgp

package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"podtask": main, composeProgram: serveCompose})
}
