package cli

import (
	"context"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"podtask": func() { os.Exit(Main(context.Background(), os.Args, "")) }, composeProgram: serveCompose})
}
