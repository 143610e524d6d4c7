package convert_test

import (
	"testing"

	"github.com/podtask/podtask/internal/define/composefile"
	"github.com/podtask/podtask/internal/define/convert/compose"
	"github.com/podtask/podtask/internal/define/convert/quadlet"
	"github.com/podtask/podtask/internal/testing/nonsense"
	"github.com/podtask/podtask/internal/unitfile/taskunit"
)

func TestNonsenseCostsLittle(t *testing.T) {
	for _, head := range []string{"", "services:\n  a: ", "services: {a: {image: x, command: "} {
		nonsense.Check(t, head, func(text string) {
			_, _ = compose.Convert("c.yaml", "x", []byte(text), compose.Options{Load: composefile.Load})
		})
	}
	nonsense.Check(t, "[Container]\nImage=", func(text string) {
		_, _ = quadlet.Convert("x", []taskunit.File{taskunit.Read("x.container", text)}, quadlet.Manager{})
	})
}
