package releases

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/engine/run/schedule"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// damages change a file as a full disk, a crash of the machine or a hand does.
var damages = map[string]func(path string, was []byte) error{
	"empty":     func(path string, _ []byte) error { return os.WriteFile(path, nil, 0o600) },
	"half":      func(path string, was []byte) error { return os.WriteFile(path, was[:len(was)/2], 0o600) },
	"zeros":     func(path string, was []byte) error { return os.WriteFile(path, make([]byte, len(was)), 0o600) },
	"null":      func(path string, _ []byte) error { return os.WriteFile(path, []byte("null"), 0o600) },
	"an object": func(path string, _ []byte) error { return os.WriteFile(path, []byte("{}"), 0o600) },
	"a list":    func(path string, _ []byte) error { return os.WriteFile(path, []byte("[1]"), 0o600) },
	"deep": func(path string, _ []byte) error {
		return os.WriteFile(path, []byte(strings.Repeat("[", 1<<20)), 0o600)
	},
	"other numbers": func(path string, was []byte) error {
		return os.WriteFile(path, []byte(digits.Replace(string(was))), 0o600)
	},
	"other texts": func(path string, was []byte) error {
		return os.WriteFile(path, []byte(strings.ReplaceAll(string(was), `":"`, `":"x`)), 0o600)
	},
	"gone":          func(path string, _ []byte) error { return os.Remove(path) },
	"a directory":   func(path string, _ []byte) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
	"a pipe":        func(path string, _ []byte) error { return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)) },
	"a device":      func(path string, _ []byte) error { return errors.Join(os.Remove(path), os.Symlink("/dev/zero", path)) },
	"a broken link": func(path string, _ []byte) error { return errors.Join(os.Remove(path), os.Symlink("/nowhere", path)) },
	"16 MiB more": func(path string, was []byte) error {
		return os.WriteFile(path, append(was, make([]byte, 16<<20)...), 0o600)
	},
}

var digits = strings.NewReplacer("1", "9", "2", "8", "3", "-7")

// A damaged file of any kind ends no process and hides nothing else: what belongs to other files is read, and nothing waits.
func TestDamagedFilesAreBorne(t *testing.T) {
	t.Parallel()
	const from = "testdata/0.1.0"
	seen := map[string]bool{}
	err := filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || seen[filepath.Dir(path)] {
			return err
		}
		seen[filepath.Dir(path)] = true // one file of each kind
		file, err := filepath.Rel(from, path)
		for name, damage := range damages {
			t.Run(file+" "+name, func(t *testing.T) {
				t.Parallel()
				damaged(t, from, file, damage)
			})
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// damaged reads a state directory of which one file is damaged.
func damaged(t *testing.T, from, file string, damage func(string, []byte) error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	was, err := os.ReadFile(filepath.Join(dir, file))
	if err == nil {
		err = damage(filepath.Join(dir, file), was)
	}
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		read(t, dir, filepath.Dir(file))
	}()
	select {
	case <-over:
	case <-time.After(time.Minute):
		t.Fatal("it waits for something")
	}
}

// read reads all that is in a state directory. Kind is the directory of the damaged file.
func read(t *testing.T, dir, kind string) {
	e, err := engine.Open(engine.Config{StateDir: dir, RuntimeDir: t.TempDir(), Getenv: func(string) string { return "" }})
	if err != nil {
		t.Errorf("nothing is read: %v", err)
		return
	}
	defer e.Close()
	states, errs := e.Tasks.States()
	if want := map[bool]int{true: 9, false: 10}[kind == "tasks"]; len(states) < want || kind != "tasks" && len(errs) > 0 {
		t.Errorf("%d tasks, want %d: %v", len(states), want, errs)
	}
	if content, err := e.Ledger.Read(); kind != "ledger" && (err != nil || len(content.Queue.Entries) < 5) {
		t.Errorf("%d entries in the ledger: %v", len(content.Queue.Entries), err)
	}
	all, err := engine.NewServices(t.Context(), e, engine.NewFleet(t.Context(), e), lifecycle.Options{})
	switch {
	case all == nil:
		t.Errorf("there are no services: %v", err)
	case len(all.States()) < map[bool]int{true: 1, false: 2}[kind == "services"]:
		t.Errorf("%d services: %v", len(all.States()), err)
	}
	c, err := define.OpenCatalog(dir, "test")
	if err != nil {
		t.Error(err)
		return
	}
	if revisions, err := c.List(); len(revisions) < map[bool]int{true: 1, false: 2}[strings.HasPrefix(kind, "taskdefs")] {
		t.Errorf("%d revisions: %v", len(revisions), err)
	}
	store, err := schedule.Open(dir, state.OS{})
	if err != nil {
		t.Error(err)
		return
	}
	if schedules, err := store.All(); len(schedules) < map[bool]int{true: 1, false: 2}[kind == "schedules"] {
		t.Errorf("%d schedules: %v", len(schedules), err)
	}
}
