package taskdef

import (
	"testing"

	"github.com/podtask/podtask/internal/testing/nonsense"
)

func TestNonsenseCostsLittle(t *testing.T) {
	for _, head := range []string{"", "family: f\nx: "} {
		nonsense.Check(t, head, func(text string) {
			_, _, _ = Parse("f.yaml", []byte(text))
			_, _, _ = Settings{}.ParseOverride("o", []byte(text))
		})
	}
	nonsense.Check(t, "arn:aws:secretsmanager:", func(text string) { _, _ = ParseSecretValue(text) })
}
