package lifecycle

import (
	"encoding"
	"fmt"
	"strings"
	"testing"
)

// enum is what each of the small types can do.
type enum[T any] interface {
	*T
	encoding.TextUnmarshaler
}

func checkEnum[T interface {
	~uint8
	comparable
	fmt.Stringer
	encoding.TextMarshaler
}, P enum[T]](t *testing.T, n T) {
	t.Helper()
	seen := make(map[string]bool)
	for v := T(0); v < n; v++ {
		text, err := v.MarshalText()
		if err != nil || string(text) != v.String() || v.String() == "" || seen[v.String()] {
			t.Errorf("%T(%d): text %q, name %q, error %v; or not unique", v, v, text, v, err)
		}
		seen[v.String()] = true
		back := n
		if err := P(&back).UnmarshalText(text); err != nil || back != v {
			t.Errorf("%q gives %v back, not %v (%v)", text, back, v, err)
		}
	}
	if _, err := n.MarshalText(); err == nil || !strings.Contains(n.String(), "invalid") {
		t.Errorf("%T(%d) is beyond the last value and has the name %q", n, n, n)
	}
	for _, unknown := range []string{"", "nonsense", " " + T(0).String(), "0"} {
		back := T(1)
		if err := P(&back).UnmarshalText([]byte(unknown)); err == nil || back != 1 {
			t.Errorf("%T takes %q for %v (%v)", back, unknown, back, err)
		}
	}
}

func TestEnumsKeepTheirNames(t *testing.T) {
	t.Parallel()
	checkEnum(t, numGoal)
	checkEnum(t, numPresence)
	checkEnum(t, numSandboxPhase)
	checkEnum(t, numReservation)
	checkEnum(t, numHealth)
	checkEnum(t, numStatus)
	checkEnum(t, numClass)
	checkEnum(t, numKind)
	checkEnum(t, numPullBehavior)
}

// Records and scripts hold these words: a change breaks what was saved.
func TestStatusesHaveTheNamesOfTheModel(t *testing.T) {
	t.Parallel()
	want := "NONE MANIFEST_PULLED PULLED CREATED RUNNING RESOURCES_PROVISIONED STOPPED"
	var got []string
	for s := range numStatus {
		got = append(got, s.String())
	}
	if strings.Join(got, " ") != want {
		t.Errorf("%s, want %s", got, want)
	}
}
