package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/engine/conn"
	"github.com/podtask/podtask/internal/engine/imagestore"
	"github.com/podtask/podtask/internal/engine/limits"
	"github.com/podtask/podtask/internal/engine/owner"
	"github.com/podtask/podtask/internal/testing/enginetest"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

const boxImage = "localhost/testbox:1"

// site is one user's machine with one vCPU for tasks.
type site struct {
	t      *testing.T
	podman *enginetest.Fake
	dir    string
	env    map[string]string
	reg    imagestore.Registry // nil: the real ones
}

func newSite(t *testing.T) *site {
	t.Helper()
	podman := enginetest.New(enginetest.Wall{})
	podman.Load(boxImage, enginetest.Image{})
	return &site{t: t, podman: podman, dir: t.TempDir(), env: map[string]string{"PODTASK_BUDGET_CPU": "1", "PODTASK_BUDGET_MEMORY": "none"}}
}

// process is another podtask on the machine.
func (s *site) process() *engine.Engine { return s.processOn(s.podman) }

func (s *site) processOn(podman conn.Podman) *engine.Engine {
	s.t.Helper()
	getenv := func(name string) string { return s.env[name] }
	settings, err := config.FromEnvironment(getenv)
	if err != nil {
		s.t.Fatal(err)
	}
	h, err := engine.Open(engine.Config{
		StateDir: filepath.Join(s.dir, "state"), RuntimeDir: filepath.Join(s.dir, "run"),
		Settings: settings, Getenv: getenv, Registry: s.reg,
		Dial: func(context.Context) (conn.Podman, error) { return podman, nil },
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = h.Close() })
	return h
}

// box is a task of one container with that many cpu units.
func (s *site) box(cpu int, port uint16, command ...string) taskdef.Task {
	s.t.Helper()
	c := map[string]any{"name": "app", "image": boxImage, "command": command}
	if port > 0 {
		c["portMappings"] = []any{map[string]any{"containerPort": 80, "hostPort": port}}
	}
	def := map[string]any{"family": "box", "containerDefinitions": []any{c}}
	if cpu > 0 {
		def["cpu"] = fmt.Sprint(cpu)
	}
	src, err := json.Marshal(def)
	if err != nil {
		s.t.Fatal(err)
	}
	task, problems, err := taskdef.Parse("box.json", src)
	if err != nil {
		s.t.Fatal(err, problems)
	}
	return task
}

var boxOptions = lifecycle.Options{Pull: lifecycle.PullNever, Limits: limits.BestEffort}

func (s *site) create(h *engine.Engine, task taskdef.Task, name string) string {
	s.t.Helper()
	st, err := h.Creator.Create(s.t.Context(), task, name, boxOptions)
	if err != nil {
		s.t.Fatal(err)
	}
	return st.ID
}

// ownedBox is a task with an owner in a process of its own.
type ownedBox struct {
	site  *site
	owner *owner.Owner
	id    string
	die   context.CancelFunc
	ended chan error
}

func (s *site) run(task taskdef.Task, name string) *ownedBox {
	s.t.Helper()
	h := s.process()
	return s.own(h, s.create(h, task, name))
}

// sleeper is a task with that many cpu units that runs, once admitted, until it is stopped.
func (s *site) sleeper(cpu int, name string) *ownedBox {
	s.t.Helper()
	return s.run(s.box(cpu, 0, "sleep", "forever"), name)
}

// running is a sleeper that runs.
func (s *site) running(cpu int, name string) *ownedBox {
	s.t.Helper()
	r := s.sleeper(cpu, name)
	r.untilRunning()
	return r
}

func (s *site) own(h *engine.Engine, id string) *ownedBox {
	s.t.Helper()
	o, err := h.Owners.Own(id)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, die := context.WithCancel(context.Background())
	r := &ownedBox{site: s, owner: o, id: id, die: die, ended: make(chan error, 1)}
	go func() {
		err := o.Run(ctx)
		r.ended <- errors.Join(err, o.Close())
	}()
	s.t.Cleanup(die)
	return r
}

// until waits for a state.
func (r *ownedBox) until(what string, fits func(lifecycle.State) bool) lifecycle.State {
	r.site.t.Helper()
	found := false
	if err := r.owner.Watch(r.site.t.Context(), func(s lifecycle.State) bool { found = fits(s); return !found }); err != nil || !found {
		r.site.t.Fatalf("%s is not %s: %s (%v)", r.id, what, r.owner.State().Status(), err)
	}
	return r.owner.State()
}

func (r *ownedBox) untilRunning() {
	r.site.t.Helper()
	r.until("running", func(s lifecycle.State) bool { return s.Status() == lifecycle.StatusRunning })
}

func (r *ownedBox) untilQueued() string {
	r.site.t.Helper()
	return r.until("queued", lifecycle.State.Queued).Sandbox.Queue
}

// end waits for the owner to end by itself.
func (r *ownedBox) end() {
	r.site.t.Helper()
	if err := <-r.ended; err != nil {
		r.site.t.Fatal(err)
	}
}

// kill ends the owner and leaves the task as it is.
func (r *ownedBox) kill() {
	r.die()
	<-r.ended
}

func (r *ownedBox) stop() {
	r.site.t.Helper()
	r.owner.Send(lifecycle.StopRequested{By: "test", Force: true})
	r.end()
}
