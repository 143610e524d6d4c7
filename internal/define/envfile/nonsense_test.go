//go:build !race

package envfile

import (
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/testing/nonsense"
)

func TestNonsenseInAnEnvironmentFileCostsLittle(t *testing.T) {
	nonsense.Check(t, "", func(text string) { _, _ = Parse(strings.NewReader(text)) })
}
