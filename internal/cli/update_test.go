package cli

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
		"no number":            {[]string{"--cpus", "many"}, `--cpus is a number of CPUs such as 1.5, or 0 for what the definition says, not "many"`},
		"no size":              {[]string{"--memory", "much"}, `--memory is a size of 6m or more such as 512m, or 0 for what the definition says, not "much"`},
		"too little":           {[]string{"--memory", "1m"}, `6m or more such as 512m, or 0 for what the definition says, not "1m"`},
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
