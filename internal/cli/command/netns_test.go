package command

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/netnshelper"
)

// The helper ends before the packages initialize that only the rest of the program needs.
func TestTheHelperInitializesLittle(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, netnshelper.Argument, "nonsense")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 125 || !strings.Contains(string(out), "Error: ") {
		t.Fatalf("%v: %s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		for _, heavy := range []string{"jsonschema", "internal/aws/awsapi", "pkg/taskdef", "net/http"} {
			if strings.HasPrefix(line, "init ") && strings.Contains(line, heavy+" @") {
				t.Errorf("before the helper: %s", line)
			}
		}
	}
}
