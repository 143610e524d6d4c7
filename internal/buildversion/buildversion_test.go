package buildversion

import "testing"

func TestOf(t *testing.T) {
	t.Parallel()
	if got := Of("v1.2.3"); got != "v1.2.3" {
		t.Errorf("the version of the linker v1.2.3 became %q", got)
	}
	if Of("") == "" {
		t.Error("without a linker there is no version")
	}
}
