package api

import (
	"cmp"
	"encoding/json"
	"math"
	"net/http"
	"time"

	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef"
)

// DeploymentMethod is the way in which the copies are replaced by those of another revision. Members that are absent in
// a request stay unchanged; a deployment keeps what it began with.
type DeploymentMethod struct {
	// Strategy is ROLLING, BLUE_GREEN, LINEAR or CANARY.
	Strategy string `json:"strategy,omitempty"`
	// Linear and Canary are for those strategies. Members of them that are absent have ECS's defaults:
	// 10 percent and 6 minutes, 5 percent and 10 minutes.
	Linear *TrafficStep `json:"linear,omitempty"`
	Canary *TrafficStep `json:"canary,omitempty"`
	// BakeSeconds is the time for which both revisions stay when the new one has all connections: up to 86400. With
	// ROLLING it is how long the deployment is watched when all copies are replaced.
	BakeSeconds *int `json:"bakeSeconds,omitempty"`
	// Hooks replace those that there are; an empty list removes them.
	Hooks        *[]Hook       `json:"hooks,omitempty"`
	EarlySuccess *EarlySuccess `json:"earlySuccess,omitempty"`
	Alarms       *Alarms       `json:"alarms,omitempty"`
}

// TrafficStep is the part of the connections that the new revision gets at a time.
type TrafficStep struct {
	// Percent has at most one decimal: 3 to 100 for LINEAR, 0.1 to 100 for CANARY.
	Percent *float64 `json:"percent,omitempty"`
	// BakeSeconds is the wait after a step but the last: up to 86400.
	BakeSeconds *int `json:"bakeSeconds,omitempty"`
}

// Hook is asked in stages of a deployment whether it may continue.
type Hook struct {
	Name string `json:"name"`
	// Stages are of RECONCILE_SERVICE, PRE_SCALE_UP, POST_SCALE_UP, TEST_TRAFFIC_SHIFT,
	// POST_TEST_TRAFFIC_SHIFT, PRE_PRODUCTION_TRAFFIC_SHIFT, PRODUCTION_TRAFFIC_SHIFT and
	// POST_PRODUCTION_TRAFFIC_SHIFT.
	Stages []string `json:"stages"`
	// Kind is COMMAND, URL, AWS_LAMBDA, TASK or PAUSE.
	Kind string `json:"kind"`
	// Target is the URL, the ARN, or the registered FAMILY[:REVISION] of a task that has to end with 0.
	Target string `json:"target,omitempty"`
	// Command is the program with its arguments, an absolute path.
	Command []string `json:"command,omitempty"`
	// TimeoutSeconds is for all calls in a stage together: up to 86400, or 1209600 for a pause; 86400 if absent.
	TimeoutSeconds int `json:"timeoutSeconds,omitempty"`
	// TimeoutAction is ROLLBACK or CONTINUE; ROLLBACK if absent.
	TimeoutAction string `json:"timeoutAction,omitempty"`
	// Details are passed to each call: any JSON value.
	Details json.RawMessage `json:"details,omitempty"`
}

// EarlySuccess ends a ROLLING deployment before all copies are replaced.
type EarlySuccess struct {
	Enable bool `json:"enable"`
	// HealthyPercent of the desired copies have to be healthy.
	HealthyPercent int `json:"healthyPercent"`
	// Deferred: the deployment has succeeded before the old copies are gone.
	Deferred bool `json:"deferred,omitempty"`
}

// Alarms end a deployment when one of them is raised.
type Alarms struct {
	Enable bool `json:"enable"`
	// Rollback returns to the revision before.
	Rollback bool `json:"rollback"`
	// Names are answered by references alarm:NAME of the configuration.
	Names []string `json:"names"`
}

// DeploymentProgress is the progress of a deployment with stages.
type DeploymentProgress struct {
	// Stage is the present one, or the last one of a deployment that has ended, and Since when it began.
	Stage string    `json:"stage"`
	Since time.Time `json:"since"`
	// Until is the time at which the wait of the stage ends.
	Until time.Time `json:"until,omitzero"`
	// Green is the id of the new deployment, Blue that of the one which it replaces.
	Green string `json:"green"`
	Blue  string `json:"blue,omitempty"`
	// Percent and TestPercent are green's parts of the connections to the listeners and the test listeners.
	Percent     float64 `json:"percent"`
	TestPercent float64 `json:"testPercent"`
	// Steps counts the shifts that have begun.
	Steps int `json:"steps"`
	// Returning: green goes, and blue stays.
	Returning bool `json:"returning"`
	// Hooks are the latest calls, oldest first.
	Hooks []HookCall `json:"hooks"`
}

// HookCall is a hook in a stage of a deployment.
type HookCall struct {
	ID    string `json:"id"`
	Hook  string `json:"hook"`
	Stage string `json:"stage"`
	// Step is that of the shift, from 1; absent in stages that come once.
	Step int `json:"step,omitempty"`
	// Status is IN_PROGRESS, AWAITING_ACTION (a pause), SUCCEEDED, FAILED or TIMED_OUT.
	Status    string    `json:"status"`
	StartedAt time.Time `json:"startedAt"`
	ExpiresAt time.Time `json:"expiresAt"`
	// Reason explains why it failed, with the end of its output.
	Reason string `json:"reason,omitempty"`
}

// ContinueRequest decides about a pause: the body of POST /v1/services/SERVICE/continue.
type ContinueRequest struct {
	// Hook is the name or the id of the pause; absent: the only one that waits.
	Hook string `json:"hook,omitempty"`
	// Rollback gives the deployment up.
	Rollback bool `json:"rollback,omitempty"`
}

// Method returns a method with the changes of a request.
func (d DeploymentMethod) Method(m service.Method) service.Method {
	if d.Strategy != "" {
		if s := service.Strategy(d.Strategy); s != m.Strategy {
			m.Strategy, m.Step = s, map[service.Strategy]service.Increment{service.Linear: service.LinearStep, service.Canary: service.CanaryStep}[s]
		}
	}
	if d.Linear != nil {
		m.Step = d.Linear.increment(service.LinearStep)
	}
	if d.Canary != nil {
		m.Step = d.Canary.increment(service.CanaryStep)
	}
	if n := d.BakeSeconds; n != nil {
		m.Bake = taskdef.Span(*n, time.Second)
	}
	if d.Hooks != nil {
		m.Hooks = nil
		for _, h := range *d.Hooks {
			m.Hooks = append(m.Hooks, h.hook())
		}
	}
	if e := d.EarlySuccess; e != nil {
		m.Early = service.EarlySuccess(*e)
	}
	if a := d.Alarms; a != nil {
		m.Alarms = service.Alarms{Enable: a.Enable, Rollback: a.Rollback}
		for _, name := range a.Names {
			m.Alarms.Alarms = append(m.Alarms.Alarms, service.Alarm{Name: name, Target: service.HookTarget{Kind: service.HookLambda, Value: name}})
		}
	}
	return m
}

// Check returns what is wrong with the members that a Method cannot have. Present is the strategy of the
// service; empty for ROLLING.
func (d DeploymentMethod) Check(present service.Strategy) error {
	strategy := service.Strategy(d.Strategy)
	if strategy == "" {
		strategy = cmp.Or(present, service.Rolling)
	}
	switch {
	case d.Linear != nil && d.Canary != nil:
		return Failed(BadRequest, "linear and canary: a deployment has one strategy, give one of them")
	case d.Linear != nil && strategy != service.Linear:
		return Failed(BadRequest, "linear: the strategy is %s, which has no such steps: set the strategy LINEAR", strategy)
	case d.Canary != nil && strategy != service.Canary:
		return Failed(BadRequest, "canary: the strategy is %s, which has no such step: set the strategy CANARY", strategy)
	}
	for name, step := range map[string]*TrafficStep{"linear": d.Linear, "canary": d.Canary} {
		if step != nil && step.Percent != nil && !tenths(*step.Percent) {
			return Failed(BadRequest, "%s.percent: %v is not 0.1 to 100 in steps of 0.1", name, *step.Percent)
		}
	}
	return nil
}

func tenths(percent float64) bool {
	n := percent * 10
	return n >= 1 && n <= 1000 && math.Abs(n-math.Round(n)) < 1e-6
}

func (s TrafficStep) increment(i service.Increment) service.Increment {
	if s.Percent != nil {
		i.Part = service.Permille(math.Round(*s.Percent * 10))
	}
	if s.BakeSeconds != nil {
		i.Bake = taskdef.Span(*s.BakeSeconds, time.Second)
	}
	return i
}

func (h Hook) hook() service.Hook {
	w := service.Hook{
		Name: h.Name, Target: service.HookTarget{Kind: service.HookKind(h.Kind), Value: h.Target, Command: h.Command},
		Timeout: taskdef.Span(h.TimeoutSeconds, time.Second), OnTimeout: service.TimeoutAction(h.TimeoutAction), Details: h.Details,
	}
	for _, s := range h.Stages {
		w.Stages = append(w.Stages, service.Stage(s))
	}
	return w
}

func fromMethod(m service.Method) DeploymentMethod {
	bake, hooks := int(m.Bake.Seconds()), []Hook{}
	d := DeploymentMethod{Strategy: string(m.Strategy), BakeSeconds: &bake, Hooks: &hooks}
	percent, stepBake := m.Step.Part.Percent(), int(m.Step.Bake.Seconds())
	switch step := (TrafficStep{Percent: &percent, BakeSeconds: &stepBake}); m.Strategy {
	case "":
		d.Strategy = string(service.Rolling)
	case service.Linear:
		d.Linear = &step
	case service.Canary:
		d.Canary = &step
	case service.Rolling, service.BlueGreen:
	}
	for _, h := range m.Hooks {
		w := Hook{Name: h.Name, Stages: []string{}, Kind: string(h.Target.Kind), Target: h.Target.Value, TimeoutSeconds: int(h.Timeout.Seconds()), TimeoutAction: string(h.OnTimeout), Details: h.Details}
		if h.Target.Kind == service.HookCommand {
			w.Command = h.Target.Command
		}
		for _, s := range h.Stages {
			w.Stages = append(w.Stages, string(s))
		}
		hooks = append(hooks, w)
	}
	if e := m.Early; e != (service.EarlySuccess{}) {
		d.EarlySuccess = (*EarlySuccess)(&e)
	}
	if a := m.Alarms; a.Enable || len(a.Alarms) > 0 {
		d.Alarms = &Alarms{Enable: a.Enable, Rollback: a.Rollback, Names: []string{}}
		for _, alarm := range a.Alarms {
			d.Alarms.Names = append(d.Alarms.Names, alarm.Name)
		}
	}
	return d
}

func fromProgress(a service.Attempt) *DeploymentProgress {
	p := a.Progress
	if p == nil {
		return nil
	}
	w := &DeploymentProgress{
		Stage: string(p.Stage), Since: p.Since, Green: p.Green, Blue: p.Blue, Percent: p.Weight.Percent(), TestPercent: p.TestWeight.Percent(),
		Steps: p.Steps, Returning: p.Back, Hooks: []HookCall{},
	}
	if wait := a.Wait(); wait > 0 && !a.Ended() {
		w.Until = p.Since.Add(wait)
	}
	for _, c := range p.Calls {
		w.Hooks = append(w.Hooks, HookCall{ID: c.ID, Hook: c.Hook, Stage: string(c.Stage), Step: c.Step, Status: string(c.Status), StartedAt: c.StartedAt, ExpiresAt: c.ExpiresAt, Reason: c.Reason})
	}
	return w
}

func serveContinueService(w http.ResponseWriter, r *http.Request, k ServiceBackend) error {
	var q ContinueRequest
	if err := readBody(w, r, "decision", &q); err != nil {
		return err
	}
	s, err := k.ContinueService(r.Context(), r.PathValue("service"), q)
	return reply(w, s, err)
}
