package console

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podtask/podtask/internal/engine/act/imagestore"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/api"
)

// watchPull plays a pull of two layers to a view, a step every three seconds.
func watchPull(t *testing.T, mode string) (shown string) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { shown = playPull(mode) })
	return shown
}

func playPull(mode string) string {
	var out strings.Builder
	v := NewPullView(mode, &out, func(string) string { return "" })
	step := func(layer string, current, total int64, done bool) imagestore.Progress {
		return imagestore.Progress{Image: "r/app:1", Phase: imagestore.Pulling, Step: libpod.Progress{Layer: layer, Current: current, Total: total, Done: done}}
	}
	for _, p := range []imagestore.Progress{
		{Image: "r/app:1", Phase: imagestore.Waiting},
		{Image: "r/app:1", Phase: imagestore.Pulling},
		step("aaa", 1e6, 4e6, false), step("bbb", 5e5, 1e6, false), step("aaa", 4e6, 4e6, true), step("bbb", 0, 0, true),
		{Image: "r/other:1", Phase: imagestore.Pulling, Step: libpod.Progress{Line: "Copying blob sha256:abc"}},
		{Image: "r/app:1", Phase: imagestore.Done},
		{Image: "r/other:1", Phase: imagestore.Failed},
	} {
		v.Observe(wirePull(p))
		<-time.After(3 * time.Second)
		synctest.Wait()
	}
	<-time.After(time.Hour) // after the last there is nothing more to show
	return out.String()
}

func TestPullsInLines(t *testing.T) {
	t.Parallel()
	const want = "pulling 1 image for 10s  1.5 MB of 5 MB  30%\npulling 2 images for 20s  5 MB of 5 MB  100%\n"
	if got := watchPull(t, "plain"); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got := watchPull(t, "none"); got != "" {
		t.Errorf("none shows %q", got)
	}
}

func TestPullsOnATerminalHaveABarEach(t *testing.T) {
	t.Parallel()
	got := watchPull(t, "bar")
	for _, part := range []string{"app:1", "pulling", "1 MB of 4 MB  25%", "[######", "5 MB of 5 MB  100%", "other:1"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is missing in %q", part, got)
		}
	}
	if end := got[strings.LastIndex(got, "other:1"):]; !strings.Contains(end, "\x1b[") {
		t.Errorf("the last bar stays: %q", end)
	}
}

// Lines stand above the bars, and are written directly while there is none.
func TestLinesAboveBars(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	b := pullBars{out: &out}
	if _, done, _ := b.write([]byte("no\n")); done {
		t.Error("a line went to bars that are not there")
	}
	one := &pull{layers: map[string][2]int64{"a": {1, 2}}}
	b.update("r/app:1", one)
	if _, done, err := b.write([]byte("a line\n")); err != nil || !done {
		t.Errorf("%v %v", err, done)
	}
	one.ended = true
	b.update("r/app:1", one)
	b.update("r/app:1", one)
	b.clear()
	if !strings.Contains(out.String(), "a line\n") || b.live != nil {
		t.Errorf("%q", out.String())
	}
}

func TestPullsInJSON(t *testing.T) {
	t.Parallel()
	var phases []string
	var last api.Pull
	for line := range strings.Lines(watchPull(t, "json")) {
		var p api.Pull
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		phases = append(phases, p.Phase)
		if p.Layer != "" || p.Text != "" {
			last = p
		}
	}
	if got := strings.Join(phases, " "); got != "waiting pulling pulling pulling pulling pulling pulling done failed" {
		t.Errorf("phases %s", got)
	}
	if want := (api.Pull{Image: "r/other:1", Phase: "pulling", Text: "Copying blob sha256:abc"}); last != want {
		t.Errorf("got %+v, want %+v", last, want)
	}
}

// wirePull is the wire form of a step.
func wirePull(p imagestore.Progress) api.Pull {
	return api.Pull{
		Image: p.Image, Phase: string(p.Phase), Layer: p.Step.Layer, Current: p.Step.Current, Total: p.Step.Total,
		Done: p.Step.Done, Existed: p.Step.Existed, Text: p.Step.Line,
	}
}
