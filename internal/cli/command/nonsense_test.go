//go:build !race

package command

import (
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/testing/nonsense"
)

func TestNonsenseInAFileOfVariablesCostsLittle(t *testing.T) {
	p := &Program{Environ: func() []string { return nil }}
	nonsense.Check(t, "", func(text string) { _, _ = parseEnvFile(p, strings.NewReader(text)) })
}
