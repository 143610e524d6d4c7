package services

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/podtask/podtask/pkg/service"
)

// The table of references is asked when a hook is new or a deployment begins; otherwise the answers stay.
func TestResolveAsksWhenItHasTo(t *testing.T) {
	t.Parallel()
	asked := 0
	var gone error
	a := &Services{Config: Config{ResolveHooks: func(m service.Method) (service.Method, error) {
		asked++
		m = withAnswers(m, service.Method{})
		for i := range m.Hooks {
			m.Hooks[i].Target.Command = []string{"/bin/answer"}
		}
		for i := range m.Alarms.Alarms {
			m.Alarms.Alarms[i].Target.Source = "http://query"
		}
		return m, gone
	}}}
	lambda := service.HookTarget{Kind: service.HookLambda, Value: "arn:smoke"}
	want := service.Method{
		Strategy: service.BlueGreen, Hooks: []service.Hook{{Name: "smoke", Target: lambda}},
		Alarms: service.Alarms{Enable: true, Alarms: []service.Alarm{{Name: "errors", Target: service.HookTarget{Kind: service.HookLambda, Value: "errors"}}}},
	}
	set := func(m service.Method) func(service.Config) service.Config {
		return func(c service.Config) service.Config { c.Method = m; return c }
	}
	c := Change{Config: set(want)}
	if err := a.resolve(t.Context(), service.Config{}, &c); err != nil || asked != 1 {
		t.Fatalf("asked %d times, %v", asked, err)
	}
	now := c.Config(service.Config{})
	if now.Method.Hooks[0].Target.Command == nil || now.Method.Alarms.Alarms[0].Target.Source == "" || want.Hooks[0].Target.Command != nil {
		t.Fatalf("%+v", now.Method)
	}
	gone = errors.New("the entry is gone")
	c = Change{Config: set(want)} // sent again without answers, as clients do
	if err := a.resolve(t.Context(), now, &c); err != nil || asked != 1 || c.Config(now).Method.Hooks[0].Target.Command == nil {
		t.Errorf("the same again: asked %d times, %v, %+v", asked, err, c.Config(now).Method)
	}
	for name, c := range map[string]Change{"a forced deployment": {Force: true, Config: set(want)}, "a new revision": {Spec: &service.Spec{}, Config: set(want)}} {
		if err := a.resolve(t.Context(), now, &c); !errors.Is(err, gone) {
			t.Errorf("%s: %v", name, err)
		}
	}
	more := want
	more.Hooks = append(more.Hooks, service.Hook{Name: "other", Target: service.HookTarget{Kind: service.HookLambda, Value: "arn:other"}})
	c = Change{Config: set(more)}
	if err := a.resolve(t.Context(), now, &c); !errors.Is(err, gone) {
		t.Errorf("another hook: %v", err)
	}
}

// A second call of a hook begins when the first has ended, also if that was given up; a call of another hook does not wait.
func TestAHookRunsOnceAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c calls
		began, end := make(chan string, 4), make(chan struct{})
		start := func(id, hook string) {
			c.start(t.Context(), id, hook, func(context.Context) {
				began <- id
				<-end
			})
			synctest.Wait()
		}
		start("first", "smoke")
		start("second", "smoke")
		c.cancelEnded(service.State{}) // neither is open in it: the second never begins, the first runs until it notices
		start("third", "smoke")
		start("other", "other")
		if len(began) != 2 || <-began != "first" || <-began != "other" {
			t.Error("another call of the hook runs beside the first")
		}
		close(end)
		c.jobs.Wait()
		if len(began) != 1 || <-began != "third" {
			t.Error("the third call did not begin after the first, alone")
		}
	})
}
