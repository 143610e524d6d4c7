package suggest

import (
	"strings"
	"testing"
)

func TestClosest(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"folow": "follow", "follwo": "follow", "plul": "pull", "LOG_LEVEL": "log-level", "pul": "pull", "follow": "follow",
		"down": "", "x": "", "": "", strings.Repeat("l", 100): "", "levl": "",
	} {
		if got := Closest(word, []string{"drain", "follow", "log-level", "pull"}); got != want {
			t.Errorf("%s: %q, want %q", word, got, want)
		}
	}
	if got := Closest("ab", []string{"aa", "ac"}); got != "aa" {
		t.Errorf("of two that are equally close: %q", got)
	}
}
