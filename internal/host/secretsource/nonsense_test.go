//go:build !race

package secretsource

import (
	"testing"

	"github.com/podtask/podtask/internal/testing/nonsense"
)

func TestNonsenseCostsLittle(t *testing.T) {
	for _, head := range []string{"", "command:/bin/x ", "podman:"} {
		nonsense.Check(t, head, func(text string) { _, _ = Parse(text) })
	}
}
