package connect

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOwnerGetsOnlyWhatItNeedsOfTheEnvironment(t *testing.T) {
	t.Parallel()
	in := []string{"PATH=/bin", "CONTAINER_HOST=x", "XDG_RUNTIME_DIR=/r", "AWS_SECRET_ACCESS_KEY=s", "https_proxy=p", "PODTASK_LOG_LEVEL=debug", "PASSWORD=s"}
	want := []string{"PATH=/bin", "CONTAINER_HOST=x", "XDG_RUNTIME_DIR=/r", "https_proxy=p", "PODTASK_LOG_LEVEL=debug"}
	if diff := cmp.Diff(want, OwnerEnvironment(in)); diff != "" {
		t.Error(diff)
	}
}
