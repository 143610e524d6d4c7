package uuid

import (
	"regexp"
	"testing"
)

func TestNewIsRandomAndOfVersion4(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	a, b := New(), New()
	if a == b || !form.MatchString(a) || !form.MatchString(b) {
		t.Errorf("%q and %q are not two random UUIDs of version 4", a, b)
	}
}
