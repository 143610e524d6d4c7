package leftover

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/cgroups"
)

const id = "0123456789abcdef0123456789abcdef"

// fakePodman knows what it is given, and removes names from its storage.
type fakePodman struct {
	known libpod.Inventory
	freed []string
	// records is a namespace that it knows from a time on.
	records string
	at      time.Time
	// asked is called at the end of each Inventory.
	asked func()
}

func (p *fakePodman) Inventory(context.Context) (libpod.Inventory, error) {
	if p.records != "" && !time.Now().Before(p.at) {
		p.known.Namespaces[p.records] = true
	}
	known := p.known
	known.Containers = maps.Clone(known.Containers)
	if p.asked != nil {
		p.asked()
	}
	return known, nil
}

func (p *fakePodman) FreeStorage(_ context.Context, name string) error {
	p.freed = append(p.freed, name)
	return nil
}

func newRemover(t *testing.T, p *fakePodman) *Remover {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "netns"), 0o700); err != nil {
		t.Fatal(err)
	}
	return &Remover{
		Log: slog.New(slog.DiscardHandler), Dir: filepath.Join(dir, "interrupted"), RunDir: dir,
		Podman:  func(context.Context) (Podman, error) { return p, nil },
		Manager: func(context.Context) (*cgroups.User, error) { return nil, errors.New("no manager") },
	}
}

// namespace makes the file of a network namespace at a time.
func (r *Remover) namespace(t *testing.T, name string, at time.Time) string {
	t.Helper()
	path := filepath.Join(r.RunDir, "netns", name)
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, at, at)); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOnlyWhatAnInterruptedCallLeftIsRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &fakePodman{known: libpod.Inventory{
			Pods: map[string]bool{}, Containers: map[string]bool{}, Namespaces: map[string]bool{},
			StorageOnly: []string{"podtask-web-0123456789ab-infra", "podtask-web-ffffffffffff-infra", "mine"},
		}}
		r := newRemover(t, p)
		began := time.Now()
		inside, outside := began.Add(time.Second), began.Add(time.Minute)
		lost := r.namespace(t, "netns-lost", inside)
		used, later := r.namespace(t, "netns-used", inside), r.namespace(t, "netns-later", outside)
		p.known.Namespaces[used] = true
		if removed, err := r.Remove(t.Context(), id, true); err != nil || removed != nil {
			t.Errorf("without a note it removes %v, %v", removed, err)
		}
		r.Note(id, Window{Began: began, Ended: began.Add(2 * time.Second)})
		removed, err := r.Remove(t.Context(), id, true)
		if err != nil || len(removed) != 2 {
			t.Errorf("it removes %v, %v", removed, err)
		}
		if !slices.Equal(p.freed, []string{"podtask-web-0123456789ab-infra"}) {
			t.Errorf("it frees %v", p.freed)
		}
		for path, want := range map[string]bool{lost: false, used: true, later: true} {
			if _, err := os.Stat(path); (err == nil) != want {
				t.Errorf("%s is there: %t", filepath.Base(path), err == nil)
			}
		}
		if left, err := r.Noted(); err != nil || len(left) != 0 {
			t.Errorf("notes are left: %v, %v", left, err)
		}
	})
}

// A namespace that Podman records a moment later is in use.
func TestWhatPodmanIsAboutToRecordStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &fakePodman{known: libpod.Inventory{Namespaces: map[string]bool{}}}
		r := newRemover(t, p)
		began := time.Now()
		path := r.namespace(t, "netns-new", began)
		r.Note(id, Window{Began: began, Ended: began})
		p.records, p.at = path, began.Add(settleTime/2)
		if removed, err := r.Remove(t.Context(), id, false); err != nil || len(removed) > 0 {
			t.Errorf("it removes %v, %v", removed, err)
		}
		if left, _ := r.Noted(); len(left) != 1 {
			t.Errorf("notes: %v", left)
		}
	})
}

// A container that is being created is in the storage first.
func TestContainerThatIsBeingCreatedStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &fakePodman{}
		p.known.StorageOnly = []string{"podtask-web-0123456789ab-early", "podtask-web-0123456789ab-left"}
		p.asked = func() {
			p.known.StorageOnly = []string{"podtask-web-0123456789ab-left", "podtask-web-0123456789ab-late"}
		}
		r := newRemover(t, p)
		r.Note(id, Window{Began: time.Now(), Ended: time.Now()})
		if _, err := r.Remove(t.Context(), id, false); err != nil || !slices.Equal(p.freed, []string{"podtask-web-0123456789ab-left"}) {
			t.Errorf("it frees %v, %v", p.freed, err)
		}
	})
}

// A container that is created and started while Podman is asked keeps its monitor.
func TestMonitorThatIsStartedMeanwhileStays(t *testing.T) {
	t.Parallel()
	const id = "fedcba9876543210fedcba9876543210" // other tests would end the monitors of theirs
	lost := monitor(t, id, "lost")
	var started func() error
	p := &fakePodman{known: libpod.Inventory{Containers: map[string]bool{}}}
	p.asked = func() {
		p.known.Containers["new"] = true
		started = monitor(t, id, "new")
	}
	r := newRemover(t, p)
	r.Note(id, Window{Began: time.Now(), Ended: time.Now()})
	removed, err := r.Remove(t.Context(), id, false)
	if err != nil || len(removed) != 1 || !strings.Contains(removed[0], "lost") {
		t.Errorf("it removes %v, %v", removed, err)
	}
	if err := lost(); err == nil {
		t.Error("the monitor that Podman does not know was not killed")
	}
	if err := started(); err != nil {
		t.Errorf("the monitor of the new container: %v", err)
	}
}

// monitor starts a process that looks like the monitor of a container of a task. end has it
// exit, and returns an error if it was killed before.
func monitor(t *testing.T, id, container string) (end func() error) {
	t.Helper()
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("echo runs\nread line\nexit 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", script, "-n", "podtask-web-"+id[:12]+"-"+container, "-c", container)
	cmd.Args[0] = "conmon"
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := stdout.Read(make([]byte, 1)); err != nil { // before, it may have no command line
		t.Fatal(err)
	}
	end = sync.OnceValue(func() error { return errors.Join(stdin.Close(), cmd.Wait()) })
	t.Cleanup(func() { _ = end() })
	return end
}

func TestNamesOfATask(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"podtask-web-0123456789ab-app": true, "podtask-a-b-0123456789ab-infra": true,
		"podtask-web-0123456789ab": false, "web-0123456789ab-app": false, "podtask-web-ffffffffffff-app": false,
	} {
		if got := ofTask(name, id); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if p := (process{args: strings.Fields("conmon -c 12 -n podtask-x")}); p.flag("-c") != "12" || p.flag("-n") != "podtask-x" || p.flag("-x") != "" {
		t.Errorf("flags of %v", p.args)
	}
}

// Two processes may sweep at a time.
func TestNotesThatAnotherProcessRemovedAreNoError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &fakePodman{known: libpod.Inventory{StorageOnly: []string{"podtask-web-0123456789ab-infra"}}}
		r := newRemover(t, p)
		r.Note(id, Window{Began: time.Now(), Ended: time.Now()})
		r.Podman = func(ctx context.Context) (Podman, error) { return p, os.RemoveAll(r.Dir) }
		if removed, err := r.Remove(t.Context(), id, true); err != nil || len(removed) != 1 {
			t.Errorf("it removes %v, %v", removed, err)
		}
	})
}
