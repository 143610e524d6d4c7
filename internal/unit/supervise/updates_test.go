package supervise

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/podtask/podtask/internal/unit/rollback"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// registry maps references to digests.
type registry map[string]string

func (r registry) Digest(_ context.Context, _ lifecycle.State, ref string) (string, error) {
	if digest, ok := r[ref]; ok {
		return digest, nil
	}
	return "", errors.New("unknown image")
}

// running returns a task and the state in which its only image has a digest.
func running(digest string) (taskdef.Task, lifecycle.State) {
	task := taskdef.Task{Containers: []taskdef.Container{{Name: "app", Image: "r.example/app:1"}}}
	return task, lifecycle.State{Task: task, Containers: []lifecycle.Container{{Digest: digest}}}
}

func TestReloadComparesDigests(t *testing.T) {
	t.Parallel()
	task, st := running("old")
	bad := &rollback.Record{Good: map[string]string{}, Bad: map[string]string{"r.example/app:1": "new"}}
	for name, tt := range map[string]struct {
		registry registry
		record   *rollback.Record
		differs  bool
		fails    bool
	}{
		"same digest":         {registry: registry{"r.example/app:1": "old"}},
		"new digest":          {registry: registry{"r.example/app:1": "new"}, differs: true},
		"digest known as bad": {registry: registry{"r.example/app:1": "new"}, record: bad},
		"registry fails":      {fails: true},
	} {
		u := updates{images: tt.registry, record: tt.record}
		differs, err := u.checker()(context.Background(), task, st)
		if differs != tt.differs || (err != nil) != tt.fails {
			t.Errorf("%s: differs %v, %v", name, differs, err)
		}
	}
}

func TestFailedImagesAreRolledBack(t *testing.T) {
	t.Parallel()
	warnings := 0
	var reports []string
	u := updates{
		unit: Unit{Name: "web"}, images: registry{"r.example/app:1": "new"}, stateDir: t.TempDir(),
		warn:   func(string, ...any) { warnings++ },
		report: func(status, _ string) { reports = append(reports, status) },
	}
	u.open()
	task, old := running("old")
	if u.onTrial(task, old) || u.failed(task, old) {
		t.Error("the first images are on trial")
	}
	u.succeeded(task, old)
	_, updated := running("new")
	if !u.onTrial(task, updated) || !u.failed(task, updated) || warnings != 1 {
		t.Errorf("new images that fail are not rolled back, %d warnings", warnings)
	}
	if !slices.Equal(reports, []string{"SUCCESSFUL", "ROLLBACK_SUCCESSFUL"}) {
		t.Errorf("the event log gets %q", reports)
	}
	next := updates{unit: u.unit, images: u.images, stateDir: u.stateDir, warn: u.warn}
	next.open()
	if got := next.choose(context.Background(), task).Containers[0].Image; got != "r.example/app:1@old" {
		t.Errorf("after a restart the unit runs %s", got)
	}
}

// systemd 262 ignores that a service is ready after it has said that it stops.
func TestServiceThatMayBeRolledBackDoesNotSayThatItStops(t *testing.T) {
	t.Parallel()
	s := &Supervisor{updates: updates{unit: Unit{Name: "web"}, images: registry{}, stateDir: t.TempDir(), warn: func(string, ...any) {}, report: func(string, string) {}}}
	s.updates.open()
	task, old := running("old")
	s.updates.succeeded(task, old)
	_, updated := running("new")
	asked := updated
	asked.Stop.Code = lifecycle.StopUserInitiated
	for name, tt := range map[string]struct {
		run  taskRun
		st   lifecycle.State
		want bool
	}{
		"new images":                 {taskRun{}, updated, true},
		"good images":                {taskRun{}, old, false},
		"images that have been good": {taskRun{announced: true}, updated, false},
		"a user stops it":            {taskRun{}, asked, false},
	} {
		tt.run.Supervisor, tt.run.task = s, task
		if got := tt.run.mayRollBack(tt.st); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestWithoutAutomaticUpdates(t *testing.T) {
	t.Parallel()
	u := updates{images: registry{}}
	task, st := running("old")
	u.succeeded(task, st)
	if u.onTrial(task, st) || u.failed(task, st) || !sameTask(u.choose(context.Background(), task), task) {
		t.Error("a unit without automatic updates remembers images")
	}
}
