package taskunit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/testing/nonsense"
)

func TestNonsenseCostsLittle(t *testing.T) {
	generate := func(text string) {
		Generate([]Source{{Name: "x.task", File: Read("/u/x.task", text)}}, Options{Program: "/bin/podtask", Generator: "test"})
	}
	for _, head := range []string{"", "[Task]\nDefinition="} {
		nonsense.Check(t, head, generate)
	}
	// As many sections as a unit may have.
	var b strings.Builder
	for i := range maxLines / 2 {
		fmt.Fprintf(&b, "[a%d]\nb = 1\n", i)
	}
	generate(b.String())
}

func TestUnitThatIsTooLongIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"[Task]\nDefinition=" + strings.Repeat("x", maxText), "[Task]\nDefinition=x" + strings.Repeat("\n", maxLines)} {
		services, problems := Generate([]Source{{Name: "x.task", File: Read("/u/x.task", text)}}, Options{Program: "/bin/podtask", Generator: "test"})
		if len(services) > 0 || len(problems) == 0 || !strings.Contains(problems[0].Message, "at most") {
			t.Errorf("%d services, problems %v", len(services), problems)
		}
	}
}
