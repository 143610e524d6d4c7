package imagestore_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/engine/act/effects"
	"github.com/podtask/podtask/internal/engine/act/imagestore"
	"github.com/podtask/podtask/internal/engine/facts/conn"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/internal/testing/enginetest"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// process has the image components of one process.
type process struct {
	policy  *config.Images
	tasks   *record.Tasks
	records imagestore.Records
	images  *imagestore.Resolver
	puller  *imagestore.Puller
	pruner  *imagestore.Pruner
	pulls   *imagestore.ProgressHub
	store   *store
}

// store is a state directory, a Podman and a registry.
type store struct {
	t        *testing.T
	dir      string
	podman   *enginetest.Fake
	env      map[string]string
	reg      imagestore.Registry
	progress func(imagestore.Progress) // nil: no reports
}

func newStore(t *testing.T) *store {
	t.Helper()
	p := enginetest.New(enginetest.Wall{})
	return &store{t: t, dir: t.TempDir(), podman: p, env: map[string]string{}, reg: p.Registry()}
}

// process returns another process on the store.
func (s *store) process() *process { return s.processWith(s.podman) }

func (s *store) processWith(podman conn.Podman) *process {
	s.t.Helper()
	getenv := func(k string) string { return s.env[k] }
	settings, err := config.FromEnvironment(getenv)
	if err != nil {
		s.t.Fatal(err)
	}
	tasks, records := s.open()
	lazy := &conn.Lazy{Dial: func(context.Context) (conn.Podman, error) { return podman, nil }}
	log := slog.New(slog.DiscardHandler)
	p := &process{policy: &settings.Images, tasks: tasks, records: records, pulls: &imagestore.ProgressHub{}, store: s}
	p.images = &imagestore.Resolver{Log: log, Getenv: getenv, Registry: s.reg, Podman: conn.As[imagestore.Podman](lazy), Secrets: conn.As[imagestore.SecretReader](lazy), Records: records}
	p.pruner = &imagestore.Pruner{
		Log: log, Getenv: getenv, Policy: p.policy, Podman: conn.As[imagestore.Podman](lazy), Facts: &conn.Facts{Podman: conn.As[conn.HostReader](lazy)},
		Tasks: tasks, Records: records, Free: imagestore.FreeSpace,
	}
	p.puller = &imagestore.Puller{
		Log: log, Root: os.DirFS("/"), Policy: p.policy, Registry: s.reg, Progress: s.progress, Podman: conn.As[imagestore.Podman](lazy),
		Resolver: p.images, Pruner: p.pruner, Records: records, Hub: p.pulls,
	}
	return p
}

// open opens the state directory.
func (s *store) open() (*record.Tasks, imagestore.Records) {
	s.t.Helper()
	tasks, err := state.Open(s.dir, state.OS{})
	if err != nil {
		s.t.Fatal(err)
	}
	locks, err := state.OpenLocks(s.dir, state.Holder{})
	if err != nil {
		s.t.Fatal(err)
	}
	records, err := imagestore.OpenRecords(filepath.Join(s.dir, "images"), state.OS{})
	if err != nil {
		s.t.Fatal(err)
	}
	return &record.Tasks{Store: tasks, Locks: locks}, records
}

// apply does what an effect requests.
func (p *process) apply(ctx context.Context, s lifecycle.State, e lifecycle.Effect) lifecycle.OpFinished {
	var r lifecycle.Result
	var err error
	switch e := e.(type) {
	case lifecycle.ResolveImage:
		r, err = p.images.Resolve(ctx, s, e)
	case lifecycle.PullImage:
		r, err = p.puller.Pull(ctx, s, e)
	default:
		err = fmt.Errorf("%T is not about an image", e)
	}
	return lifecycle.OpFinished{ID: e.Op(), Failure: effects.Failure(err), Result: r}
}

// record writes the record of a new task.
func (p *process) record(t *testing.T, task taskdef.Task) lifecycle.State {
	t.Helper()
	s := lifecycle.New(record.NewID(), "", task, lifecycle.Options{Pull: lifecycle.PullAlways}, time.Now())
	data, err := json.Marshal(s)
	if err == nil {
		err = p.tasks.Store.Put(s.ID, data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// state is a task of one container, with that pull behavior.
func (s *store) state(image string, b lifecycle.PullBehavior, more map[string]any) lifecycle.State {
	s.t.Helper()
	c := map[string]any{"name": "app", "image": image}
	for k, v := range more {
		c[k] = v
	}
	return lifecycle.New(strings.Repeat("ab", 16), "", taskOf(s.t, c), lifecycle.Options{Pull: b}, time.Now())
}

// taskOf parses a task of one container.
func taskOf(t *testing.T, container map[string]any) taskdef.Task {
	t.Helper()
	src, err := json.Marshal(map[string]any{"family": "app", "containerDefinitions": []any{container}})
	if err != nil {
		t.Fatal(err)
	}
	task, _, err := taskdef.Parse("app.json", src)
	if err != nil {
		t.Fatal(err)
	}
	return task
}

// bring resolves and pulls the image of a task.
func (s *store) bring(p *process, st lifecycle.State) (digest string, pulled lifecycle.OpFinished) {
	s.t.Helper()
	ref := st.Task.Containers[0].Image
	resolved := p.apply(s.t.Context(), st, lifecycle.ResolveImage{ID: 1, Ref: ref})
	if resolved.Failure.Class != lifecycle.OK {
		return "", resolved
	}
	return resolved.Result.Digest, p.apply(s.t.Context(), st, lifecycle.PullImage{ID: 2, Ref: ref, Digest: resolved.Result.Digest})
}

// calls counts the calls of a kind that Podman got.
func (s *store) calls(op string) (n int) {
	for _, c := range s.podman.Calls() {
		if c.Op == op {
			n++
		}
	}
	return n
}
