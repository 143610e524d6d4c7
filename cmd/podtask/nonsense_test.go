//go:build !race && remote && containers_image_openpgp

package main

import (
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/nonsense"
)

func TestNonsenseInAFileOfVariablesCostsLittle(t *testing.T) {
	p := &program{environ: func() []string { return nil }}
	nonsense.Check(t, "", func(text string) { _, _ = parseEnvFile(p, strings.NewReader(text)) })
}
