package services_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/run/services"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/internal/testing/enginehost"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/test/testbed"
)

// shellHook is a hook that is a line for a shell.
func shellHook(name string, stage service.Stage, script string) service.Hook {
	return service.Hook{Name: name, Stages: []service.Stage{stage}, Target: service.HookTarget{Kind: service.HookCommand, Command: []string{"/bin/sh", "-c", script}}}
}

// blueGreen are services of which deployments ask hooks.
func blueGreen(hooks ...service.Hook) service.Config {
	c := prudence
	c.Method = service.Method{Strategy: service.BlueGreen, Hooks: hooks}
	return c
}

// latest is the latest deployment of a service.
func latest(s service.State) service.Attempt { return s.History[len(s.History)-1] }

func ended(s service.State) bool { return latest(s).Ended() }

// A hook that is in progress is called again, with the details of its answer; one that fails has the deployment rolled back, with
// what it wrote.
func TestDeploymentsAskHooks(t *testing.T) {
	t.Parallel()
	a := startAgent(t, enginehost.New(t), state.OS{})
	log := filepath.Join(t.TempDir(), "log")
	// The first deployment asks, too.
	c := blueGreen(shellHook("migrate", service.PostScaleUp, `cat >>`+log+`; echo >>`+log+`; if grep -q '"step":2' `+log+`; then echo '{"hookStatus":"SUCCEEDED"}'; else echo '{"hookStatus":"IN_PROGRESS","callBackDelay":1,"hookDetails":{"step":2}}'; fi`))
	if _, err := a.services.Create(t.Context(), "web", copies(1, well...), 1, c); err != nil {
		t.Fatal(err)
	}
	if s := a.await("web", "its first deployment", ended); latest(s).Status != service.AttemptSuccessful {
		t.Fatalf("%+v\n%s", latest(s), events(s))
	}
	text, err := os.ReadFile(log)
	if lines := strings.Split(strings.TrimSpace(string(text)), "\n"); err != nil || len(lines) != 2 || strings.Contains(lines[0], "hookDetails") || !strings.Contains(lines[1], `"hookDetails":{"step":2}`) {
		t.Errorf("%v: the hook got\n%s", err, text)
	}
	next := copies(2, well...)
	failing := blueGreen(shellHook("smoke", service.PostScaleUp, "echo too slow >&2; exit 4"))
	if _, err := a.services.Update(t.Context(), "web", services.Change{Spec: &next, Config: func(service.Config) service.Config { return failing }}); err != nil {
		t.Fatal(err)
	}
	s := a.await("web", "the end of its second deployment", func(s service.State) bool { return latest(s).Number == 2 && ended(s) })
	if got := latest(s); got.Status != service.AttemptReturned || !strings.Contains(got.Reason, "smoke: it ended with exit status 4; it wrote: too slow") {
		t.Errorf("%s: %s", got.Status, got.Reason)
	}
	a.removed("web")
}

// An agent that ends in the middle of a hook has ended its program, and the next agent calls it again.
func TestAHookIsCalledAgainAfterAnEndOfTheAgent(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	a := startAgent(t, host, state.OS{})
	dir := t.TempDir()
	began := filepath.Join(dir, "began")
	if err := syscall.Mkfifo(began, 0o600); err != nil {
		t.Fatal(err)
	}
	script := `echo began >` + began + `; if mkdir ` + dir + `/once; then exec sleep 1000; fi; echo '{"hookStatus":"SUCCEEDED"}'`
	if _, err := a.services.Create(t.Context(), "web", copies(1, well...), 1, blueGreen(shellHook("once", service.PreScaleUp, script))); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if _, err := os.ReadFile(began); err != nil { // waits for the program
			t.Fatal(err)
		}
		if i == 0 {
			if err := os.Mkdir(filepath.Join(dir, "once"), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
				t.Fatal(err)
			}
			a.end()
			a = startAgent(t, host, state.OS{})
		}
	}
	if s := a.await("web", "the end of its deployment", ended); latest(s).Status != service.AttemptSuccessful {
		t.Errorf("%+v\n%s", latest(s), events(s))
	}
	a.removed("web")
}

// A Lambda function that nothing on this host answers is refused before anything begins; one that is answered keeps its answer when
// the entry is gone and only the count changes.
func TestHooksNeedAReference(t *testing.T) {
	t.Parallel()
	a := startAgent(t, enginehost.New(t), state.OS{})
	lambda := service.Hook{Name: "smoke", Stages: []service.Stage{service.PreScaleUp}, Target: service.HookTarget{Kind: service.HookLambda, Value: "arn:aws:lambda:r:1:function:smoke"}}
	_, err := a.services.Create(t.Context(), "web", copies(1, well...), 1, blueGreen(lambda))
	if !errors.As(err, new(*services.BadServiceError)) || !strings.Contains(err.Error(), `match = "arn:aws:lambda:r:1:function:smoke"`) {
		t.Errorf("created: %v", err)
	}
	if _, err := a.services.Create(t.Context(), "web", copies(1, well...), 1, prudence); err != nil {
		t.Fatal(err)
	}
	to := func(c service.Config) func(service.Config) service.Config {
		return func(service.Config) service.Config { return c }
	}
	if _, err := a.services.Update(t.Context(), "web", services.Change{Config: to(blueGreen(lambda))}); err == nil || !strings.Contains(err.Error(), "nothing on this host answers") {
		t.Errorf("updated: %v", err)
	}
	a.removed("web")
}

// A hook that is a task: its end with 0 lets the deployment continue, and it is removed; another end has it rolled back, and the task
// stays for its logs. It is not run twice if the agent ends in between.
func TestAHookIsATask(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	start := func() *agent {
		a := startAgent(t, host, state.OS{})
		a.services.HookSpec = func(_ context.Context, definition string) (service.Spec, error) {
			script := map[string][]string{"migrate:1": {"sleep", "2s"}, "migrate:2": {"exit", "3"}}[definition]
			if script == nil {
				return service.Spec{}, errors.New("no such definition")
			}
			spec := copies(1, script...)
			spec.TaskDefinition, spec.Task.Family, spec.Task.Containers[0].HealthCheck = definition, "migrate", nil
			return spec, nil
		}
		return a
	}
	a := start()
	task := func(definition string) service.Hook {
		return service.Hook{Name: "migrate", Stages: []service.Stage{service.PreScaleUp}, Target: service.HookTarget{Kind: service.HookTask, Value: definition}}
	}
	if _, err := a.services.Create(t.Context(), "web", copies(1, well...), 1, blueGreen(task("migrate:3"))); !errors.As(err, new(*services.BadServiceError)) || !strings.Contains(err.Error(), "the hook migrate: no such definition") {
		t.Errorf("a definition that is not there: %v", err)
	}
	if _, err := a.services.Create(t.Context(), "web", copies(1, well...), 1, blueGreen(task("migrate:1"))); err != nil {
		t.Fatal(err)
	}
	id := func() (id string) {
		for _, s := range a.migrations() {
			if s.Status() == lifecycle.StatusRunning {
				id = s.ID
			}
		}
		return id
	}
	if !testbed.Until(func() bool { return id() != "" }) {
		t.Fatal("the task of the hook does not run")
	}
	a.end()
	a = start()
	if s := a.await("web", "its first deployment", ended); latest(s).Status != service.AttemptSuccessful {
		t.Fatalf("%+v\n%s", latest(s), events(s))
	}
	if left := a.migrations(); len(left) > 0 {
		t.Errorf("the task of the hook is left: %+v", left)
	}
	next := copies(2, well...)
	failing := blueGreen(task("migrate:2"))
	if _, err := a.services.Update(t.Context(), "web", services.Change{Spec: &next, Config: func(service.Config) service.Config { return failing }}); err != nil {
		t.Fatal(err)
	}
	s := a.await("web", "the end of its second deployment", func(s service.State) bool { return latest(s).Number == 2 && ended(s) })
	left := a.migrations()
	if got := latest(s); got.Status != service.AttemptReturned || len(left) != 1 || !strings.Contains(got.Reason, "the container app of the task "+left[0].ID+" ended with 3") {
		t.Fatalf("%s: %s, %d tasks", got.Status, got.Reason, len(left))
	}
	if err := a.fleet.Send(t.Context(), left[0].ID, lifecycle.RemoveRequested{By: "the test"}); err != nil {
		t.Error(err)
	}
	if err := a.fleet.Follow(t.Context(), left[0].ID, func(lifecycle.State) bool { return true }); !errors.As(err, new(*record.NotFoundError)) {
		t.Error(err)
	}
	a.removed("web")
}

// migrations are the tasks of the family migrate.
func (a *agent) migrations() (all []lifecycle.State) {
	states, _ := a.engine.Tasks.States()
	for _, s := range states {
		if s.Task.Family == "migrate" {
			all = append(all, s)
		}
	}
	return all
}

// An alarm that is raised while a deployment bakes has it rolled back.
func TestAnAlarmEndsADeployment(t *testing.T) {
	t.Parallel()
	a := startAgent(t, enginehost.New(t), state.OS{})
	if _, err := a.services.Create(t.Context(), "web", copies(1, well...), 1, prudence); err != nil {
		t.Fatal(err)
	}
	a.await("web", "its first deployment", ended)
	fire := filepath.Join(t.TempDir(), "fire")
	watched := blueGreen()
	watched.Method.Bake = time.Hour
	watched.Method.Alarms = service.Alarms{Enable: true, Rollback: true, Alarms: []service.Alarm{{Name: "errors", Target: service.HookTarget{Kind: service.HookCommand, Command: []string{"/bin/sh", "-c", "[ ! -e " + fire + " ]"}}}}}
	next := copies(2, well...)
	if _, err := a.services.Update(t.Context(), "web", services.Change{Spec: &next, Config: func(service.Config) service.Config { return watched }}); err != nil {
		t.Fatal(err)
	}
	a.await("web", "the bake time with an alarm that is watched", func(s service.State) bool {
		at := latest(s)
		return at.Number == 2 && at.Progress.Stage == service.Bake && at.Alarms != nil && at.Alarms.Watched
	})
	if err := os.WriteFile(fire, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := a.await("web", "the end of its second deployment", func(s service.State) bool { return latest(s).Number == 2 && ended(s) })
	if got := latest(s); got.Status != service.AttemptReturned || !strings.Contains(got.Reason, "the alarm errors was raised") {
		t.Errorf("%s: %s", got.Status, got.Reason)
	}
	a.removed("web")
}
