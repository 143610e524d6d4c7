package releases

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/define/catalog"
	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/engine/run/schedule"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/service"
)

// Each directory has running tasks of an ECS definition, a Pod and services with a
// listener and without, a task that failed, one with a secret, and the ledger, image records, event log
// and catalog that belong to them; those of releases also schedules and a task that waits in the queue.
// hack/release-fixtures makes them.
func TestStateOfReleasesIsRead(t *testing.T) {
	t.Parallel()
	releases, err := filepath.Glob(filepath.Join("testdata", "*"))
	if err != nil || len(releases) == 0 {
		t.Fatalf("no releases: %v", err)
	}
	for _, from := range releases {
		t.Run(filepath.Base(from), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
				t.Fatal(err)
			}
			e, err := engine.Open(engine.Config{StateDir: dir, RuntimeDir: t.TempDir(), Getenv: func(string) string { return "" }})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			checkTasks(t, e)
			checkServices(t, e)
			checkCatalog(t, dir)
			checkSchedules(t, dir)
			content, err := e.Ledger.Read()
			if err != nil || len(content.Queue.Entries) < 5 {
				t.Errorf("%d entries in the ledger: %v", len(content.Queue.Entries), err)
			}
		})
	}
}

func checkTasks(t *testing.T, e *engine.Engine) {
	t.Helper()
	states, errs := e.Tasks.States()
	if len(errs) > 0 || len(states) < 8 {
		t.Fatalf("%d tasks, %v", len(states), errs)
	}
	named := map[string]lifecycle.State{}
	for _, s := range states {
		if err := lifecycle.Check(s); err != nil {
			t.Errorf("task %s: %v", s.Name, err)
		}
		if err := s.Task.Check(); err != nil {
			t.Errorf("the definition of task %s: %v", s.Name, err)
		}
		named[s.Name] = s
	}
	for name, want := range map[string]lifecycle.Status{"shop": lifecycle.StatusRunning, "pod": lifecycle.StatusRunning, "ex": lifecycle.StatusStopped} {
		if s, ok := named[name]; !ok || s.Status() != want {
			t.Errorf("task %s: there is one: %v, %v, want %v", name, ok, s.Status(), want)
		}
	}
	if code := named["ex"].ExitCode(); code != 3 {
		t.Errorf("the exit code of ex is %d, want 3", code)
	}
}

func checkServices(t *testing.T, e *engine.Engine) {
	t.Helper()
	all, err := engine.NewServices(t.Context(), e, engine.NewFleet(t.Context(), e), lifecycle.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(all.States()); n != 2 {
		t.Errorf("%d services, want 2", n)
	}
	for _, s := range all.States() {
		if err := service.Check(s); err != nil || !s.Steady {
			t.Errorf("service %s: steady %v, %v", s.Name, s.Steady, err)
		}
	}
}

func checkCatalog(t *testing.T, dir string) {
	t.Helper()
	c, err := define.OpenCatalog(dir, "test")
	if err != nil {
		t.Fatal(err)
	}
	all, err := c.List()
	if err != nil || len(all) != 2 {
		t.Fatalf("%d revisions, %v", len(all), err)
	}
	for _, r := range all {
		rev, src, err := c.Find(catalog.Ref{Family: r.Family, Revision: r.Revision})
		if err != nil {
			t.Error(err)
			continue
		}
		d, err := define.Reader{}.Read(define.Registered(rev, src), define.Changes{})
		if err == nil {
			err = d.Err()
		}
		if err != nil {
			t.Errorf("%s:%d: %v", r.Family, r.Revision, err)
		}
	}
}

func checkSchedules(t *testing.T, dir string) {
	t.Helper()
	store, err := schedule.Open(dir, state.OS{})
	if err != nil {
		t.Fatal(err)
	}
	all, err := store.All()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		return // before-0.1.0 has none
	}
	for _, s := range all {
		if err := schedule.Check(s); err != nil {
			t.Errorf("schedule %s: %v", s.Name, err)
		}
	}
	if len(all) != 2 || all[0].Name != "nightly" || !all[0].CatchUp || len(all[0].Runs) != 1 || all[1].Name != "paused" || !all[1].Paused {
		t.Errorf("the schedules are %+v", all)
	}
}
