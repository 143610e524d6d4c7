//go:build !race

package images

import (
	"testing"

	"github.com/podtask/podtask/internal/testing/nonsense"
)

func TestNonsenseCostsLittle(t *testing.T) {
	nonsense.Check(t, "", func(text string) { _, _ = ParseRef(text) })
	nonsense.Check(t, "a/b:c@sha256:", func(text string) { _, _ = ParseRef(text) })
	nonsense.Check(t, `{"auths": `, func(text string) { _, _ = ParseLogin([]byte(text), Ref{}) })
}
