package stack

import (
	"strings"
	"testing"
)

// The service of a stack quotes what systemd would read otherwise, and a word that no unit can have is an error.
func TestUnitText(t *testing.T) {
	t.Parallel()
	text, err := unitText("shop", []string{"/opt/a b/podtask", "--state-dir", "/x%$Y"}, []string{"PATH=/bin"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ExecStart=\"/opt/a b/podtask\" \"--state-dir\" \"/x%%$$Y\" stack start shop\n", "ExecStop=", "After=podtask.socket podtask.service", "Environment=\"PATH=/bin\"\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if _, err := unitText("shop", []string{"a\nb"}, nil); err == nil {
		t.Error("a line break is in a unit")
	}
}
