package stack

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/define/convert/compose"
	"github.com/podtask/podtask/internal/engine/act/imagestore"
	"github.com/podtask/podtask/internal/engine/decide/stack"
	"github.com/podtask/podtask/internal/engine/run/stacks"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/api"
)

// callOf returns a call of `podtask stack up` with flags, and its store.
func callOf(t *testing.T, flags ...string) call {
	t.Helper()
	store, err := stacks.Open(t.TempDir(), state.OS{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := command.ParseWords("stack up", readingVerbs()[0].Flags, flags)
	if err != nil {
		t.Fatal(err)
	}
	return call{c: c, options: options{store: store, previews: 10, errOut: &bytes.Buffer{}, warn: t.Logf, environ: os.Environ}}
}

func previewOf(of, name string) stack.State {
	p := stack.Preview{Of: of, Name: name}.Ending(time.Hour, imagestore.Now())
	return stack.State{Name: p.Stack(), Preview: p}
}

// Two previews of different stacks may have one name: the second one does not take the first one over.
func TestAPreviewTakesNoOtherOver(t *testing.T) {
	t.Parallel()
	k := callOf(t)
	first, second := previewOf("shop", "pr-42"), previewOf("shop-pr", "42")
	if first.Name != second.Name {
		t.Fatal("they have two names")
	}
	for _, w := range []*wanted{{Name: first.Name, Preview: second.Preview}, {Name: first.Name}} {
		if err := k.admit(w, first); err == nil || !strings.Contains(err.Error(), "give --preview pr-42 and --name shop") {
			t.Errorf("%+v: %v", w.Preview, err)
		}
	}
	if err := k.admit(&wanted{Name: first.Name, Preview: previewOf("shop", "pr-42").Preview}, first); err != nil {
		t.Error(err)
	}
}

// Previews that are made at the same time are not more than there may be, and each is written down before it has a volume.
func TestPreviewsAtTheSameTimeAreCounted(t *testing.T) {
	t.Parallel()
	k := callOf(t)
	k.previews = 2
	var wg sync.WaitGroup
	var made sync.Map
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		wg.Go(func() {
			s := previewOf("shop", name)
			w := &wanted{Name: s.Name, Preview: s.Preview, Volumes: []compose.StackVolume{{Name: s.Name + "_data"}}}
			if err := k.admit(w, stack.State{Name: s.Name}); err != nil {
				return
			}
			if err := k.reserve(t.Context(), w, &s); err == nil {
				made.Store(s.Name, true)
			} else if !strings.Contains(err.Error(), "stack-previews allows 2") {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	all, err := k.store.All()
	if err != nil || len(all) != 2 {
		t.Errorf("%d previews are written down, %v", len(all), err)
	}
	for _, s := range all {
		if _, ok := made.Load(s.Name); !ok || s.Preview == nil {
			t.Errorf("%+v", s)
		}
		if err := k.reserve(t.Context(), &wanted{}, &s); err != nil { // a later up of it
			t.Error(err)
		}
		if step := stack.Next(stack.Start(s, stack.Change{Remove: true, Volumes: true})); step.Verb != stack.Volumes {
			t.Errorf("its end begins with %s", step.Verb)
		}
	}
}

// The file of a preview neither makes nor fills volumes that are another one's by their names.
func TestVolumesOfAPreview(t *testing.T) {
	t.Parallel()
	k := callOf(t)
	if err := k.store.Put(previewOf("shop", "pr-1_x")); err != nil {
		t.Fatal(err)
	}
	s := previewOf("shop", "pr-1")
	w := &wanted{Name: s.Name, Preview: s.Preview}
	for _, name := range []string{"data", "shop_data", "shop-pr-1_data", "shop-pr-1_x_data", "shop-pr-12_data"} {
		w.Volumes = append(w.Volumes, compose.StackVolume{Name: name})
	}
	if err := k.asPreview(w); err != nil || len(w.Volumes) != 1 || w.Volumes[0].Name != "shop-pr-1_data" {
		t.Errorf("%v, %v", w.Volumes, err)
	}
}

// Ports of one preview are not those of another whose name has more digits.
func TestPortsOfPreviews(t *testing.T) {
	t.Parallel()
	var m member
	if a, b := m.move("shop-pr-1", "18080", map[int]bool{}), m.move("shop-pr-11", "8080", map[int]bool{}); a == b {
		t.Errorf("both have %s", a)
	}
}

// At its timeout, a command that fills a volume is ended with all processes that it has started, and the volume is not marked as
// filled.
func TestACommandThatFillsForever(t *testing.T) {
	t.Parallel()
	runs := filepath.Join(t.TempDir(), "runs") // as long as a process has it open
	if err := syscall.Mkfifo(runs, 0o600); err != nil {
		t.Fatal(err)
	}
	running, err := os.OpenFile(runs, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer running.Close()
	k := callOf(t, "--timeout=300ms", "--fill=data=exec 3>"+runs+"; trap '' TERM; sleep 1000 & printf 'x\\033[2J'; wait; sleep 1000")
	w := &wanted{Name: "shop-pr-1", Preview: previewOf("shop", "pr-1").Preview, Volumes: []compose.StackVolume{{Name: "shop-pr-1_data"}}}
	w.Preview.Filling = []string{"shop-pr-1_data"}
	err = k.fill(t.Context(), w)
	if err == nil || !strings.Contains(err.Error(), "fill the volume shop-pr-1_data: its command has not ended after 300ms") || len(w.Preview.Filled) != 0 {
		t.Errorf("%v, filled %v", err, w.Preview.Filled)
	}
	_ = running.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := io.ReadAll(running); err != nil {
		t.Errorf("what the command has started runs on: %v", err)
	}
	k = callOf(t, "--fill=data=exit 3")
	if err := k.fill(t.Context(), w); err == nil || !strings.HasSuffix(err.Error(), "exit status 3") || len(w.Preview.Filled) != 0 {
		t.Errorf("%v, filled %v", err, w.Preview.Filled)
	}
	k = callOf(t, "--fill=data=test $PODTASK_VOLUME = shop-pr-1_data")
	if err := k.fill(t.Context(), w); err != nil || len(w.Preview.Filled) != 1 {
		t.Errorf("%v, filled %v", err, w.Preview.Filled)
	}
}

// What the command line maps, no file of the stack maps to something else.
func TestTheCommandLineMapsFirst(t *testing.T) {
	t.Parallel()
	k := callOf(t, "--map-volume=data=podman:test_data")
	k.definition = func(c *cli.Context, _ string) (d command.Definition, err error) {
		d.Changes.References, err = command.ParseReferences(c)
		return d, err
	}
	m := &member{Settings: &api.ServiceSettings{}, Text: []byte(`{"family": "web", "volumes": [{"name": "data", "efsVolumeConfiguration": {"fileSystemId": "fs-1"}}],
		"containerDefinitions": [{"name": "web", "image": "localhost/x", "mountPoints": [{"sourceVolume": "data", "containerPath": "/d"}]}]}`)}
	m.Settings.References = []api.Reference{{Match: "volume:data", Source: "podman:prod_data"}}
	if err := k.define(m); err != nil || len(m.task.Volumes) != 1 || m.task.Volumes[0].External != "test_data" {
		t.Errorf("%+v, %v", m.task.Volumes, err)
	}
	var s api.TaskSettings
	s.References = m.Settings.References
	if err := k.refer(m, &s); err != nil || s.References[0].Source != "podman:test_data" {
		t.Errorf("%v, %v", s.References, err)
	}
}
