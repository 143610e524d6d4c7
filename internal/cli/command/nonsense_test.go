//go:build !race

package command

import (
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/testing/nonsense"
)

func TestNonsenseInAFileOfVariablesCostsLittle(t *testing.T) {
	environ := func() []string { return nil }
	nonsense.Check(t, "", func(text string) { _, _ = parseEnvFile(environ, strings.NewReader(text)) })
}
