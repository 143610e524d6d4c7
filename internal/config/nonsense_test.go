//go:build !race

package config

import (
	"testing"

	"github.com/podtask/podtask/internal/testing/nonsense"
)

func TestNonsenseCostsLittle(t *testing.T) {
	nonsense.Check(t, "", func(text string) { parse([]byte(text), "f") })
	nonsense.Check(t, "", func(text string) { _, _ = parseSecretMap("/f", text) })
}
