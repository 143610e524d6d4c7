package serve_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/serve"
	"github.com/podtask/podtask/internal/serve/ownerapi"
	"github.com/podtask/podtask/internal/testing/enginehost"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// agentOf is an agent of a host, and what ends it.
func agentOf(host *enginehost.Host) (b serve.AgentBackend, e *enginehost.Engine, end func()) {
	e = host.Open()
	f, end := host.RunFleet(e)
	return serve.NewAgentBackend(ownerapi.Host{Engine: e, Log: slog.New(slog.DiscardHandler), StateDir: host.StateDir(), Patience: time.Minute}, nil, f, nil), e, end
}

// request asks for a task whose program ends at once.
func request(token string) api.NewTask {
	definition, _ := json.Marshal(enginehost.Fields{"family": "job", "containerDefinitions": []any{enginehost.Fields{"name": "app", "image": enginehost.Image, "command": []string{"exit", "0"}}}})
	return api.NewTask{Definition: definition, ClientToken: token, TaskOptions: api.TaskOptions{Pull: "never"}}
}

func stopped(s lifecycle.State) bool { return s.Status() == lifecycle.StatusStopped && s.Settled() }

// A request that is repeated runs nothing twice: while its task runs, when it has ended, after a restart of the agent, and
// when it was removed.
func TestARequestWithATokenIsOneTask(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	b, e, end := agentOf(host)
	create := func() api.Task {
		t.Helper()
		made, err := b.Create(t.Context(), request("job 1"))
		if err != nil {
			t.Fatal(err)
		}
		if made.ID != api.TaskID("job 1") {
			t.Errorf("the ID is %s", made.ID)
		}
		return made
	}
	id := create().ID
	create()
	host.Await(e, id, stopped)
	if again := create(); again.Status != "STOPPED" {
		t.Errorf("the task that has ended is %s", again.Status)
	}
	end()
	b, e, _ = agentOf(host)
	create()
	if other, err := b.Create(t.Context(), request("job 2")); err != nil || other.ID == id {
		t.Errorf("another token: %s, %v", other.ID, err)
	}
	host.Await(e, api.TaskID("job 2"), stopped)

	if err := b.Remove(t.Context(), id, "the test", false); err != nil {
		t.Fatal(err)
	}
	host.AwaitRemoval(e, id)
	if _, err := b.Create(t.Context(), request("job 1")); !api.Is(err, api.Gone) {
		t.Errorf("after the removal: %v", err)
	}
	b, _, _ = agentOf(host)
	if _, err := b.Create(t.Context(), request("job 1")); !api.Is(err, api.Gone) {
		t.Errorf("after a restart of the agent: %v", err)
	}
	if n := host.Starts(); n != 2 {
		t.Errorf("two tasks started %d programs", n)
	}
}

// Requests at the same time are one task, and each gets it or is told to ask again.
func TestRequestsWithATokenAtTheSameTime(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	b, e, _ := agentOf(host)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for {
				made, err := b.Create(t.Context(), request("job"))
				if api.Is(err, api.Busy) {
					continue
				}
				if err != nil || made.ID != api.TaskID("job") {
					t.Errorf("%s, %v", made.ID, err)
				}
				return
			}
		})
	}
	wg.Wait()
	host.Await(e, api.TaskID("job"), stopped)
	if n := host.Starts(); n != 1 {
		t.Errorf("%d programs were started", n)
	}
}

// A token is void only if nothing is made of it: a client that voids it while requests with it are on the way has no task, or is told
// of it.
func TestAVoidTokenMakesNoTask(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	b, e, _ := agentOf(host)
	made := 0
	for n := range 40 {
		token := strings.Repeat("y", n+1)
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := b.Create(t.Context(), request(token)); err != nil && !api.Is(err, api.Gone) && !api.Is(err, api.Busy) {
				t.Error(err)
			}
		})
		err := b.Void(t.Context(), token)
		for api.Is(err, api.Busy) {
			err = b.Void(t.Context(), token)
		}
		wg.Wait()
		switch {
		case api.Is(err, api.Conflict):
			made++
			host.Await(e, api.TaskID(token), stopped)
		case err != nil:
			t.Error(err)
		default:
			if _, err := b.Create(t.Context(), request(token)); !api.Is(err, api.Gone) {
				t.Errorf("a void token: %v", err)
			}
			if err := b.Void(t.Context(), token); err != nil {
				t.Errorf("void again: %v", err)
			}
		}
	}
	if n := host.Starts(); n != made {
		t.Errorf("%d tasks were made, %d programs were started", made, n)
	}
}

// A task whose program never started leaves no trace: the same request makes it.
func TestATaskThatNeverRanIsMadeAgain(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	b, e, _ := agentOf(host)
	n := request("job")
	n.Definition = json.RawMessage(strings.ReplaceAll(string(n.Definition), enginehost.Image, "localhost/none:1"))
	made, err := b.Create(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	host.Await(e, made.ID, stopped)
	if err := b.Remove(t.Context(), made.ID, "the test", false); err != nil {
		t.Fatal(err)
	}
	host.AwaitRemoval(e, made.ID)
	_, err = b.Create(t.Context(), request("job"))
	for api.Is(err, api.Busy) { // its owner lets go of it just now: clients repeat the request
		_, err = b.Create(t.Context(), request("job"))
	}
	if err != nil {
		t.Fatal(err)
	}
	host.Await(e, made.ID, stopped)
	if n := host.Starts(); n != 1 {
		t.Errorf("%d programs were started", n)
	}
}

// A client that goes away at any moment of its request, and repeats it, has one task.
func TestAClientThatGoesAwayHasOneTask(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	b, e, _ := agentOf(host)
	const requests = 50
	for n := range requests {
		token := strings.Repeat("x", n+1)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Duration(n)*100*time.Microsecond, cancel)
		_, _ = b.Create(ctx, request(token))
		cancel()
		for {
			_, err := b.Create(t.Context(), request(token))
			if err == nil {
				break
			}
			if !api.Is(err, api.Busy) {
				t.Fatal(err)
			}
		}
		host.Await(e, api.TaskID(token), stopped)
	}
	if n := host.Starts(); n != requests {
		t.Errorf("%d programs were started by %d requests", n, requests)
	}
	states, errs := e.Tasks.States()
	if len(states) != requests || len(errs) > 0 {
		t.Errorf("there are %d tasks, %v", len(states), errs)
	}
}

// A task that may give up ends when another one keeps its host port, and waits while that one stops. Others wait.
func TestATaskGivesUpWhenItsPortIsKept(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	b, e, _ := agentOf(host)
	create := func(giveUp bool) string {
		t.Helper()
		definition, _ := json.Marshal(enginehost.Fields{"family": "web", "containerDefinitions": []any{enginehost.Fields{
			"name": "app", "image": enginehost.Image, "command": []string{"serve"}, "portMappings": []any{enginehost.Fields{"containerPort": 80, "hostPort": 18080}}}}})
		made, err := b.Create(t.Context(), api.NewTask{Definition: definition, GiveUp: giveUp, TaskOptions: api.TaskOptions{Pull: "never"}})
		if err != nil {
			t.Fatal(err)
		}
		return made.ID
	}
	running := func(s lifecycle.State) bool { return s.Status() == lifecycle.StatusRunning }
	first := create(true)
	host.Await(e, first, running)
	second := create(true)
	s := host.Await(e, second, stopped)
	if s.Stop.Code != lifecycle.StopTaskFailedToStart || !strings.HasPrefix(s.Stop.Reason, "CannotStartContainerError: the host port 18080/tcp is in use by task "+first[:12]) {
		t.Errorf("it stopped because of %+v", s.Stop)
	}
	waiting := create(false)
	if err := b.Stop(t.Context(), first, "the test", false); err != nil {
		t.Fatal(err)
	}
	host.Await(e, waiting, running)
}

// Who got the answer to a stop or a removal finds it in the record, which outlives the agent.
func TestAnAnsweredRequestToEndIsRecorded(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	b, e, _ := agentOf(host)
	definition, _ := json.Marshal(enginehost.Fields{"family": "job", "containerDefinitions": []any{enginehost.Fields{"name": "app", "image": enginehost.Image, "command": []string{"sleep", "forever"}}}})
	for _, tt := range []struct {
		goal lifecycle.Goal
		ask  func(id string) error
	}{
		{lifecycle.Down, func(id string) error { return b.Stop(t.Context(), id, "the test", false) }},
		{lifecycle.Gone, func(id string) error { return b.Remove(t.Context(), id, "the test", true) }},
	} {
		made, err := b.Create(t.Context(), api.NewTask{Definition: definition, TaskOptions: api.TaskOptions{Pull: "never"}})
		if err == nil {
			err = tt.ask(made.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
		s, err := e.Tasks.Get(made.ID)
		if missing := new(record.NotFoundError); errors.As(err, &missing) && tt.goal == lifecycle.Gone {
			continue
		}
		if err != nil || s.Goal < tt.goal {
			t.Errorf("the goal on the disk is %s, %v, want %s", s.Goal, err, tt.goal)
		}
	}
}
