package messages

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

func stateWith(path string) lifecycle.State {
	c := taskdef.Container{Name: "a", Extensions: taskdef.ContainerExtensions{Kube: taskdef.Kube{MessagePath: path}}}
	return lifecycle.State{ID: "0123", Task: taskdef.Task{Containers: []taskdef.Container{c}}, Containers: make([]lifecycle.Container, 1)}
}

func TestMessagesOfRuns(t *testing.T) {
	t.Parallel()
	stateDir := t.TempDir()
	d, s := In(stateDir), stateWith("/dev/termination-log")
	var spec libpod.ContainerSpec
	for range 2 { // an effect may be repeated
		spec = libpod.ContainerSpec{}
		if err := d.Mount(&spec, s, 0); err != nil {
			t.Fatal(err)
		}
	}
	if len(spec.Binds) != 1 || spec.Binds[0].Path != "/dev/termination-log" || spec.Binds[0].ReadOnly {
		t.Fatalf("%+v", spec.Binds)
	}
	file := spec.Binds[0].HostPath
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("%v, %v: a user of the container who is not root cannot write", info, err)
	}
	want := func(now, before string) {
		t.Helper()
		if a, b := d.Read(s, 0); a != now || b != before {
			t.Errorf("%q and %q, want %q and %q", a, b, now, before)
		}
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want("", "")
	write("first")
	want("first", "")
	for n, text := range []string{"second", "third"} {
		last, _ := d.Read(s, 0)
		s.Containers[0].Restarts = n + 1
		for range 2 { // by the next owner, when the run may have begun
			if err := d.Begin(s, 0, n+1); err != nil {
				t.Fatal(err)
			}
		}
		want("", last)
		write(text)
		if err := d.Begin(s, 0, n+1); err != nil {
			t.Fatal(err)
		}
		want(text, last)
	}
	write(strings.Repeat("x", Limit) + "the end\xff")
	if now, _ := d.Read(s, 0); len(now) > Limit+2 || !strings.HasSuffix(now, "the end\ufffd") {
		t.Errorf("%d bytes: %q", len(now), now[max(0, len(now)-20):])
	}
	if left, _ := filepath.Glob(file + "*"); len(left) != 2 {
		t.Errorf("files %v", left)
	}
	if err := d.Remove(s.ID); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(stateDir, "messages", "*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestNoMessages(t *testing.T) {
	t.Parallel()
	d, s := In(t.TempDir()), stateWith("")
	var spec libpod.ContainerSpec
	if err := d.Mount(&spec, s, 0); err != nil || spec.Binds != nil {
		t.Errorf("%v, %+v", err, spec)
	}
	if err := d.Begin(s, 0, 1); err != nil {
		t.Error(err)
	}
	if now, before := d.Read(s, 0); now+before != "" {
		t.Error(now, before)
	}
}
