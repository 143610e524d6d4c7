package services_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/engine/act/limits"
	"github.com/podtask/podtask/internal/engine/run/fleet"
	"github.com/podtask/podtask/internal/engine/run/services"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/internal/testing/enginehost"
	"github.com/podtask/podtask/internal/testing/enginetest"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef"
)

// agent is an engine with a fleet and its services.
type agent struct {
	t        *testing.T
	host     *enginehost.Host
	engine   *enginehost.Engine
	fleet    *fleet.Fleet
	services *services.Services
	end      func()
}

// startAgent starts an agent whose records are written to fsys.
func startAgent(t *testing.T, host *enginehost.Host, fsys state.FS) *agent {
	t.Helper()
	host.FS = fsys
	a := &agent{t: t, host: host, engine: host.Open()}
	ctx, cancel := context.WithCancel(t.Context())
	a.fleet = engine.NewFleet(ctx, a.engine)
	var err error
	if a.services, err = engine.NewServices(ctx, a.engine, a.fleet, lifecycle.Options{Limits: limits.Off}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := a.fleet.Run(); err != nil {
			t.Errorf("the fleet: %v", err)
		}
	})
	wg.Go(a.services.Run)
	a.end = func() { cancel(); wg.Wait() }
	t.Cleanup(a.end)
	return a
}

// copies is a revision of a task definition, with what its container does.
func copies(revision int, command ...string) service.Spec {
	return service.Spec{TaskDefinition: fmt.Sprintf("web:%d", revision), Task: taskdef.Task{
		Family: "web", Revision: revision, Network: taskdef.NetworkBridge, Containers: []taskdef.Container{
			{Name: "app", Image: enginehost.RegistryImage, Essential: true, StopTimeout: time.Second, Command: command, HealthCheck: &taskdef.HealthCheck{
				Command: []string{"CMD", enginetest.Program, "exists", "/tmp/well"}, Interval: 5 * time.Second, Timeout: 2 * time.Second, Retries: 3,
			}},
		},
	}}
}

var (
	well     = []string{"write", "/tmp/well", "--", "serve"}
	prudence = service.Config{Breaker: service.Breaker{Enable: true, Rollback: true}}
)

// await waits until a service fits.
func (a *agent) await(name, what string, fits func(service.State) bool) service.State {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), time.Minute)
	defer cancel()
	var last service.State
	if err := a.services.Watch(ctx, name, func(s service.State) bool { last = s; return !fits(s) }); err != nil {
		a.t.Fatalf("wait for %s: %v: %+v\n%s", what, err, last.Tasks, events(last))
	}
	if !fits(last) {
		a.t.Fatalf("the service ended before it %s:\n%s", what, events(last))
	}
	return last
}

func events(s service.State) string {
	var text strings.Builder
	for _, e := range s.Events {
		fmt.Fprintln(&text, e.Message)
	}
	return text.String()
}

func steady(s service.State) bool { return s.Steady }

// running are the tasks of a service that have not stopped, by deployment.
func (a *agent) running(name string) map[string][]string {
	all, errs := a.engine.Tasks.States()
	for _, err := range errs {
		a.t.Error(err)
	}
	found := map[string][]string{}
	for _, s := range all {
		if s.Options.Service == name && s.Status() != lifecycle.StatusStopped {
			found[s.Options.Deployment] = append(found[s.Options.Deployment], s.ID)
		}
	}
	return found
}

// removed removes a service and checks that nothing is left of it.
func (a *agent) removed(name string) {
	a.t.Helper()
	if _, err := a.services.Remove(a.t.Context(), name, true); err != nil {
		a.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(a.t.Context(), time.Minute)
	defer cancel()
	if err := a.services.Watch(ctx, name, func(service.State) bool { return true }); err != nil && !errors.Is(err, services.ErrNoService) {
		a.t.Fatal(err)
	}
	if all, errs := a.engine.Tasks.States(); len(all)+len(errs) > 0 {
		a.t.Errorf("%d tasks are left, %v", len(all), errs)
	}
	if left := a.host.Podman.Left(""); len(left) != 0 {
		a.t.Errorf("left in Podman: %v", left)
	}
	if records, err := filepath.Glob(filepath.Join(a.host.StateDir(), "services", "*")); err != nil || len(records) > 0 {
		a.t.Errorf("left: %v, %v", records, err)
	}
}

func TestServiceKeepsItsCopies(t *testing.T) {
	t.Parallel()
	a := startAgent(t, enginehost.New(t), state.OS{})
	if _, err := a.services.Create(t.Context(), "web", copies(1, well...), 3, prudence); err != nil {
		t.Fatal(err)
	}
	if _, err := a.services.Create(t.Context(), "web", copies(1, well...), 1, prudence); !errors.Is(err, services.ErrServiceExists) {
		t.Errorf("a second one of that name: %v", err)
	}
	a.await("web", "three copies", steady)
	first := a.running("web")["web/1"]
	if len(first) != 3 {
		t.Fatalf("%v run", a.running("web"))
	}
	s, err := a.engine.Tasks.Find("web-2")
	if err != nil || s.Options.Service != "web" {
		t.Errorf("task web-2: %+v, %v", s.Options, err)
	}

	// A user stops one and removes another one by force.
	if err := a.fleet.Send(t.Context(), first[0], lifecycle.StopRequested{By: "test"}); err != nil {
		t.Fatal(err)
	}
	if err := a.fleet.Send(t.Context(), first[1], lifecycle.RemoveRequested{By: "test", Force: true}); err != nil {
		t.Fatal(err)
	}
	s5 := a.await("web", "replacements", func(s service.State) bool { return s.LastTask == 5 && s.Steady })
	if s5.BackOff.Streak != 0 {
		t.Errorf("%d failures:\n%s", s5.BackOff.Streak, events(s5))
	}

	two := 2
	if _, err := a.services.Update(t.Context(), "web", services.Change{DesiredCount: &two}); err != nil {
		t.Fatal(err)
	}
	a.await("web", "two copies", steady)
	if n := len(a.running("web")["web/1"]); n != 2 {
		t.Errorf("%d copies, want 2", n)
	}
	if _, err := a.services.Remove(t.Context(), "web", false); !errors.As(err, new(*services.BadServiceError)) {
		t.Errorf("removal of a service that is not scaled to 0: %v", err)
	}
	a.removed("web")
}

func TestServiceRollsAndReturns(t *testing.T) {
	t.Parallel()
	a := startAgent(t, enginehost.New(t), state.OS{})
	if _, err := a.services.Create(t.Context(), "web", copies(1, well...), 2, prudence); err != nil {
		t.Fatal(err)
	}
	a.await("web", "steady", steady)
	good, bad := copies(2, well...), copies(3, "exit", "3")
	before, err := a.services.State("web")
	if err == nil {
		_, err = a.services.Update(t.Context(), "web", services.Change{From: &before, Spec: &good})
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.services.Update(t.Context(), "web", services.Change{From: &before, Spec: &bad}); !errors.Is(err, services.ErrChanged) {
		t.Errorf("a change of a state that was: %v", err)
	}
	a.await("web", "the second revision", func(s service.State) bool { return s.Steady && s.Primary().ID == "web/2" })
	kept := a.running("web")["web/2"]
	if _, err := a.services.Update(t.Context(), "web", services.Change{Spec: &bad}); err != nil {
		t.Fatal(err)
	}
	s := a.await("web", "the return", func(s service.State) bool { return s.Steady && s.Rollbacks == 1 })
	if now := a.running("web"); len(now) != 1 || fmt.Sprint(now["web/2"]) != fmt.Sprint(kept) {
		t.Errorf("%v run, want %v:\n%s", now, kept, events(s))
	}
	if s, err := a.services.Rollback(t.Context(), "web", false); err != nil || s.Primary().ID != "web/1" {
		t.Errorf("rolled back to %s, %v", s.Primary().ID, err)
	}
	a.await("web", "the first revision", func(s service.State) bool { return s.Steady && s.Primary().ID == "web/1" })
	a.removed("web")
}

// Whenever the agent dies, be it before or after any save, the next one continues where it
// stopped, and there are never more copies than there may be.
func TestServiceSurvivesTheAgentsDeathAtAnySave(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		for n := 1; n <= 13; n += 3 {
			t.Run(fmt.Sprintf("save %d, done %t", n, after), func(t *testing.T) {
				t.Parallel()
				host := enginehost.New(t)
				deadly := &deadlyFS{after: after, died: make(chan struct{})}
				deadly.left.Store(int64(n))
				first := startAgent(t, host, deadly)
				second := copies(2, well...)
				if _, err := first.services.Create(t.Context(), "web", copies(1, well...), 2, prudence); err == nil {
					go first.roll(second, deadly)
				}
				<-deadly.died
				first.end()

				next := startAgent(t, host, state.OS{})
				if _, err := next.services.State("web"); errors.Is(err, services.ErrNoService) {
					if n > 1 || after {
						t.Fatal("the service is forgotten")
					}
					return
				}
				_, _ = next.services.Update(t.Context(), "web", services.Change{Spec: &second})
				next.await("web", "steady", func(s service.State) bool {
					if running := next.running("web"); len(running["web/1"])+len(running["web/2"])+len(running["web/3"]) > 3 {
						t.Errorf("%v run at once", running)
					}
					return s.Steady && s.Primary().TaskDefinition == "web:2"
				})
				if running := next.running("web"); len(running) != 1 || len(running[next.must("web").Primary().ID]) != 2 {
					t.Errorf("%v run", running)
				}
				next.removed("web")
			})
		}
	}
}

// A service whose disk hangs is stuck until it does no more.
func TestServiceThatIsStuckIsNamed(t *testing.T) {
	t.Parallel()
	disk := &hangingFS{renames: make(chan struct{}), goOn: make(chan struct{})}
	a := startAgent(t, enginehost.New(t), disk)
	if _, err := a.services.Create(t.Context(), "web", copies(1, well...), 1, prudence); err != nil {
		t.Fatal(err)
	}
	a.await("web", "steady", steady)
	if stuck := a.services.Stuck(time.Hour); len(stuck) > 0 {
		t.Errorf("%v are stuck", stuck)
	}
	disk.hangs.Store(true)
	second := copies(2, well...)
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = a.services.Update(t.Context(), "web", services.Change{Spec: &second}) })
	<-disk.renames
	if stuck := a.services.Stuck(0); len(stuck) != 1 || stuck[0] != "web" {
		t.Errorf("stuck: %v", stuck)
	}
	disk.hangs.Store(false)
	close(disk.goOn)
	wg.Wait()
	a.await("web", "steady again", steady)
	a.removed("web")
}

// hangingFS lets a record of a service hang, while it is told so.
type hangingFS struct {
	state.OS
	hangs         atomic.Bool
	renames, goOn chan struct{}
}

func (f *hangingFS) Rename(from, to string) error {
	if f.hangs.Load() && filepath.Base(filepath.Dir(to)) == "services" {
		f.renames <- struct{}{}
		<-f.goOn
	}
	return f.OS.Rename(from, to)
}

// roll updates the service once it is steady, and lets the disk die when it is again.
func (a *agent) roll(to service.Spec, disk *deadlyFS) {
	_ = a.services.Watch(a.t.Context(), "web", func(s service.State) bool { return !s.Steady })
	_, _ = a.services.Update(a.t.Context(), "web", services.Change{Spec: &to})
	_ = a.services.Watch(a.t.Context(), "web", func(s service.State) bool { return !s.Steady })
	disk.die()
}

func (a *agent) must(name string) service.State {
	s, err := a.services.State(name)
	if err != nil {
		a.t.Fatal(err)
	}
	return s
}

// deadlyFS writes no more from a service's n-th save on; with after, that one still is.
type deadlyFS struct {
	state.OS
	after bool
	left  atomic.Int64
	once  sync.Once
	died  chan struct{}
}

func (d *deadlyFS) die() { d.once.Do(func() { close(d.died) }) }

func (d *deadlyFS) Rename(from, to string) error {
	if filepath.Base(filepath.Dir(to)) == "services" || d.left.Load() <= 0 {
		if d.left.Add(-1) <= 0 {
			err := os.ErrPermission
			if d.after && d.left.Load() == 0 {
				err = d.OS.Rename(from, to)
			}
			d.die()
			return err
		}
	}
	return d.OS.Rename(from, to)
}

// Requests to a service that is removed at that time are told so, and not that the agent ends.
func TestRequestsToAServiceThatGoes(t *testing.T) {
	t.Parallel()
	a := startAgent(t, enginehost.New(t), state.OS{})
	for range 20 {
		if _, err := a.services.Create(t.Context(), "web", copies(1, well...), 0, prudence); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				var err error
				for ; !errors.Is(err, services.ErrNoService); _, err = a.services.Update(t.Context(), "web", services.Change{Notes: []string{"a note"}}) {
					if err != nil && !errors.As(err, new(*services.BadServiceError)) {
						t.Error(err)
						return
					}
				}
			})
		}
		if _, err := a.services.Remove(t.Context(), "web", false); err != nil {
			t.Error(err)
		}
		wg.Wait()
	}
}
