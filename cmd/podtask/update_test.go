package main

import (
	"strings"
	"testing"
)

func TestUpdateRefusesWhatIsNoLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.owned(w.create("web"))
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"nothing":              {nil, "nothing to change"},
		"no number":            {[]string{"--cpus", "many"}, "--cpus"},
		"too little":           {[]string{"--memory", "1m"}, "--memory"},
		"less than nothing":    {[]string{"--cpus", "-1"}, "out of range"},
		"not a number at all":  {[]string{"--cpus", "NaN"}, "out of range"},
		"a weight too much":    {[]string{"--io-weight", "10001"}, "out of range"},
		"a task without limit": {[]string{"--memory", "64m"}, "--limits off"},
	} {
		_, errs, code := w.podtask(append([]string{"update", "web"}, tt.args...)...)
		if code != 125 || !strings.Contains(errs, tt.want) {
			t.Errorf("%s: code %d, %s; want %q", name, code, errs, tt.want)
		}
	}
	if len(o.events) > 0 {
		t.Errorf("the owner was sent %v", o.events)
	}
}
