package define

import (
	"strings"
	"testing"

	"github.com/podtask/podtask/pkg/taskdef"
)

// The message alone says what is missing: a node of Kubernetes writes nothing else into a Pod's status.
func TestWhatIsLeftOpenIsNamed(t *testing.T) {
	t.Parallel()
	err := error(&NeedsError{Needs: []taskdef.Problem{
		{File: "pod.yaml", Pointer: "/spec/volumes/0", Message: "the claim database is not known", Fix: "give a path"},
		{Pointer: "/spec/volumes/1", Message: "the claim cache is not known"},
	}})
	for _, want := range []string{"/spec/volumes/0: the claim database is not known; give a path", "/spec/volumes/1: the claim cache"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %q", want, err)
		}
	}
}
