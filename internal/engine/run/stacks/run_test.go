package stacks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/engine/decide/stack"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// fakeAgent has services and tasks that steady and succeed at once.
type fakeAgent struct {
	Agent
	clock    time.Time
	services map[string]api.Service
	tasks    map[string]api.Task
	calls    []string
	stopCode string // of tasks; empty for those that end by themselves
	cut      bool   // the answer to the next creation is lost
}

func newAgent() *fakeAgent {
	return &fakeAgent{clock: time.Unix(1000, 0), services: map[string]api.Service{}, tasks: map[string]api.Task{}}
}

func (a *fakeAgent) called(what string) { a.calls = append(a.calls, what) }

// make makes a service as the agent does.
func (a *fakeAgent) make(name, definition string) api.Service {
	a.clock = a.clock.Add(time.Second)
	s := api.Service{
		ServiceName: name, Status: "ACTIVE", CreatedAt: a.clock, TaskDefinition: definition, Steady: true,
		Deployments: []api.Deployment{{ID: fmt.Sprintf("d%d", a.clock.Unix()), RolloutState: "COMPLETED"}},
	}
	a.services[name] = s
	return s
}

func (a *fakeAgent) Service(_ context.Context, name string) (api.Service, error) {
	if s, found := a.services[name]; found {
		return s, nil
	}
	return api.Service{}, api.Failed(api.NotFound, "no service %s", name)
}

func (a *fakeAgent) CreateService(_ context.Context, n api.NewService) (api.Service, error) {
	a.called("create " + n.ServiceName)
	made := a.make(n.ServiceName, n.TaskDefinition)
	if a.cut {
		a.cut = false
		return api.Service{}, errors.New("the connection was cut")
	}
	return made, nil
}

func (a *fakeAgent) UpdateService(_ context.Context, name string, u api.ServiceUpdate) (api.Service, error) {
	a.called("update " + name)
	s := a.services[name]
	s.TaskDefinition = u.TaskDefinition
	a.services[name] = s
	return s, nil
}

func (a *fakeAgent) RemoveService(_ context.Context, name string, _ bool) error {
	a.called("remove " + name)
	delete(a.services, name)
	return nil
}

func (a *fakeAgent) WatchService(ctx context.Context, name string, fn func(api.Service) bool) error {
	s, err := a.Service(ctx, name)
	if err == nil {
		fn(s)
	}
	return err
}

func (a *fakeAgent) Task(_ context.Context, ref string) (api.Task, error) {
	for _, t := range a.tasks {
		if t.ID == ref || t.Name == ref {
			return t, nil
		}
	}
	return api.Task{}, api.Failed(api.NotFound, "no task %s", ref)
}

func (a *fakeAgent) Create(_ context.Context, n api.NewTask) (api.Task, error) {
	a.called("run " + n.Name)
	if _, taken := a.tasks[n.Name]; taken {
		return api.Task{}, api.Failed(api.Conflict, "the name %s is in use", n.Name)
	}
	var zero api.ExitCode
	a.tasks[n.Name] = api.Task{ID: api.TaskID(n.ClientToken), Name: n.Name, Status: "STOPPED", StopCode: cmp.Or(a.stopCode, lifecycle.StopEssentialContainerExited), StoppedReason: "because", ExitCode: &zero}
	return a.tasks[n.Name], nil
}

func (a *fakeAgent) Watch(ctx context.Context, id string, fn func(api.Task) bool) error {
	t, err := a.Task(ctx, id)
	if err == nil {
		fn(t)
	}
	return err
}

func (a *fakeAgent) Remove(_ context.Context, id, _ string, _ bool) error {
	for name, t := range a.tasks {
		if t.ID == id {
			a.called("rm " + name)
			delete(a.tasks, name)
		}
	}
	return nil
}

type memory struct{ last stack.State }

func (m *memory) Put(s stack.State) error {
	data, err := json.Marshal(s)
	if err == nil {
		m.last = stack.State{}
		err = json.Unmarshal(data, &m.last)
	}
	return err
}

func runnerOf(a *fakeAgent) Runner {
	return Runner{
		Agent: a, Store: &memory{}, Now: func() time.Time { return a.clock },
		Definition: func(string) ([]byte, error) { return []byte("{}"), nil },
		Told:       func(stack.State, stack.Step, *stack.Outcome) {}, Failing: func(context.Context, stack.Step, string) {},
	}
}

// change carries out a change to members, or with none the removal of the stack.
func change(t *testing.T, a *fakeAgent, s stack.State, members ...stack.Member) stack.State {
	t.Helper()
	s = stack.Start(s, stack.Change{Began: a.clock, Target: stack.Revision{Members: members}, Remove: len(members) == 0})
	s, err := runnerOf(a).Run(t.Context(), s)
	if err != nil || s.Change != nil {
		t.Fatalf("the change has not ended: %v, %+v", err, s.Change)
	}
	return s
}

func web(version string) stack.Member {
	return stack.Member{Name: "web", Object: "shop-web", Kind: stack.Service, Print: version, Definition: "shop-web:" + version, Request: json.RawMessage("{}")}
}

func migrate() stack.Member {
	return stack.Member{Name: "migrate", Object: "shop-migrate", Kind: stack.Job, Print: "m", Definition: "shop-migrate:1", Request: json.RawMessage("{}")}
}

func (a *fakeAgent) wantCalls(t *testing.T, want ...string) {
	t.Helper()
	if strings.Join(a.calls, ", ") != strings.Join(want, ", ") {
		t.Errorf("the agent was asked to %v, not to %v", a.calls, want)
	}
	a.calls = nil
}

func TestAStackMakesChangesAndRemovesItsOwn(t *testing.T) {
	t.Parallel()
	a := newAgent()
	s := change(t, a, stack.State{Name: "shop"}, migrate(), web("1"))
	a.wantCalls(t, "run shop-migrate-1", "create shop-web")
	s = change(t, a, s, migrate(), web("2"))
	a.wantCalls(t, "update shop-web")
	change(t, a, s)
	a.wantCalls(t, "remove shop-web", "rm shop-migrate-1")
}

// A service or a task of somebody else that has the name of a member is neither changed, taken for the member, nor removed.
func TestAStackLeavesAloneWhatIsNotItsOwn(t *testing.T) {
	t.Parallel()
	a := newAgent()
	s := change(t, a, stack.State{Name: "shop"}, web("1"))
	delete(a.services, "shop-web") // a person removes it, and makes another one of the name
	a.make("shop-web", "mine:1")
	a.wantCalls(t, "create shop-web")
	s = stack.Start(s, stack.Change{Began: a.clock, Target: stack.Revision{Members: []stack.Member{web("2")}}})
	s, err := runnerOf(a).Run(t.Context(), s)
	if err != nil || s.Change == nil || !strings.Contains(s.Change.Stuck["web"], "not of this stack") {
		t.Errorf("%v: the change is %+v", err, s.Change)
	}
	stopped := runnerOf(a).StopAll(t.Context(), s, func(string) {})
	started := runnerOf(a).StartAll(t.Context(), s, func(string) {})
	for what, err := range map[string]error{"stop": stopped, "start": started} {
		if err == nil || !strings.Contains(err.Error(), "not of this stack") {
			t.Errorf("%s: %v", what, err)
		}
	}
	change(t, a, s)
	a.wantCalls(t)

	a = newAgent()
	a.make("shop-web", "theirs:1") // made by another stack while this one was pulling its images
	s = change(t, a, stack.State{Name: "shop"}, web("1"))
	if a.wantCalls(t); s.History[0].Result != stack.PutBack || len(s.Have) != 0 {
		t.Errorf("the change ended with %+v, it has %v", s.History, s.Have)
	}

	a = newAgent()
	var zero api.ExitCode
	a.tasks["shop-migrate-1"] = api.Task{ID: "theirs", Name: "shop-migrate-1", Status: "STOPPED", ExitCode: &zero}
	s = change(t, a, stack.State{Name: "shop"}, migrate())
	if a.wantCalls(t, "run shop-migrate-1"); s.History[0].Result != stack.PutBack || !strings.Contains(s.History[0].Reason, "shop-migrate-1 is in use") || a.tasks["shop-migrate-1"].ID != "theirs" {
		t.Errorf("the task of somebody else counts as the job: %+v", s.History)
	}
}

// A job that somebody has stopped has not done its work, whatever its exit code.
func TestAJobThatWasStoppedHasFailed(t *testing.T) {
	t.Parallel()
	a := newAgent()
	a.stopCode = lifecycle.StopUserInitiated
	s := change(t, a, stack.State{Name: "shop"}, migrate())
	if s.History[0].Result != stack.PutBack || !strings.Contains(s.History[0].Reason, "it was stopped before its end: because") {
		t.Errorf("the change ended with %+v", s.History)
	}
}

// A process that ended right after the agent had made a service: the next one knows it again.
func TestWhatAnEndedProcessMadeIsKnownAgain(t *testing.T) {
	t.Parallel()
	a := newAgent()
	s := stack.Start(stack.State{Name: "shop"}, stack.Change{Began: a.clock, Target: stack.Revision{Members: []stack.Member{web("1")}}})
	r, kept := runnerOf(a), &memory{}
	r.Store, a.cut = kept, true
	if _, err := r.Run(t.Context(), s); err == nil {
		t.Fatal("the answer was not lost")
	}
	a.wantCalls(t, "create shop-web")
	before := kept.last
	s, err := runnerOf(a).Run(t.Context(), stack.Resume(before))
	if a.wantCalls(t, "update shop-web"); err != nil || s.History[0].Result != stack.Done {
		t.Errorf("%v: %+v", err, s.History)
	}
	change(t, a, before) // or the stack is removed
	a.wantCalls(t, "remove shop-web")
}
