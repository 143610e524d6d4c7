package pod

import (
	"testing"
	"time"
)

func TestMinimumAgeOfAPod(t *testing.T) {
	t.Parallel()
	const pinned = "x@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	for _, c := range []struct {
		age, image string
		bad        bool
	}{{"3d", "x:1", false}, {"3d", pinned, true}, {"0", pinned, false}, {"soon", "x:1", true}} {
		r, _, err := Parse("f", []byte("---\n{apiVersion: v1, kind: Pod, metadata: {name: p, annotations: {podtask/minimum-age: '"+c.age+"'}}, spec: {containers: [{name: a, image: '"+c.image+"'}]}}"), Options{})
		if (err != nil) != c.bad || err == nil && r.Task.Extensions.MinimumAge != c.age {
			t.Errorf("%+v: %v, %+v", c, err, r.Task.Extensions)
		}
	}
}

func TestSleepOfAPod(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"15m": 15 * time.Minute, "720h": 720 * time.Hour, "0": 0, "1ms": 0, "721h": 0, "soon": 0, "-1h": 0} {
		r, _, err := Parse("f", []byte("---\n{apiVersion: v1, kind: Pod, metadata: {name: p, annotations: {podtask/sleep-after: '"+text+"'}}, spec: {containers: [{name: a, image: x}]}}"), Options{})
		if (err != nil) != (want == 0) || r.Task.Extensions.SleepAfter != want {
			t.Errorf("%s: %v, %v", text, err, r.Task.Extensions.SleepAfter)
		}
	}
}
