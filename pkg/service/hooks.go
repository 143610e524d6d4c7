package service

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// keptCalls is the number of ended calls of hooks that an attempt keeps.
const keptCalls = 20

// shifts reports whether connections move in the stage; its hooks are called on the way back too.
func (s Stage) shifts() bool { return s == TestShift || s == Production }

func (h Hook) timeout() time.Duration { return cmp.Or(h.Timeout, DefaultHookTimeout) }

// callHooks begins the calls of the hooks of the present stage. Those of the way back are called if what
// they saw begin was begun.
func (s *State) callHooks(at time.Time, a *Attempt) {
	p := a.Progress
	begun := map[Stage]bool{TestShift: p.TestBegun, Production: p.Steps > 0}
	if !p.Back {
		p.TestBegun = p.TestBegun || p.Stage == TestShift
	}
	for _, h := range a.Method.Hooks {
		if !slices.Contains(h.Stages, p.Stage) || p.Back && (!p.Stage.shifts() || !begun[p.Stage] || h.Target.Kind == HookPause) {
			continue
		}
		c := HookCall{Hook: h.Name, Stage: p.Stage, Step: p.step(), Returning: p.Back, Status: HookInProgress, StartedAt: at, UpdatedAt: at, ExpiresAt: at.Add(h.timeout())}
		c.ID = s.callID(a, c)
		if h.Target.Kind == HookPause {
			c.ID, c.Status = "ecs-pause-"+c.ID, HookAwaiting
			s.say(at, "(deployment %s) pauses in the stage %s (hook %s, %s).", p.Green, p.Stage, h.Name, c.ID)
		} else {
			c.ID = "ecs-lambda-" + c.ID
		}
		p.Calls = append(p.Calls, c)
	}
}

// step is the number of the step of production in the present stage; 0 in others.
func (p Progress) step() int {
	switch {
	case p.Back:
		return 0
	case p.Stage == Production:
		return p.Steps
	case p.Stage == PreProduction:
		return p.Steps + 1
	}
	return 0
}

// callID is the same each time, as the ids of tasks are.
func (s *State) callID(a *Attempt, c HookCall) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d/%s/%s/%d/%t", s.ID, a.Number, c.Hook, c.Stage, c.Step, c.Returning))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Open reports whether the hook has not ended.
func (c HookCall) Open() bool { return c.Status == HookInProgress || c.Status == HookAwaiting }

// isOf reports whether the call is of the present stage.
func (c HookCall) isOf(p *Progress) bool {
	return c.Stage == p.Stage && c.Step == p.step() && c.Returning == p.Back
}

// answered reports whether the attempt may leave its stage, as far as hooks are concerned.
func (a *Attempt) answered() bool {
	return !slices.ContainsFunc(a.Progress.Calls, HookCall.Open)
}

// refused explains why a hook ends the attempt; empty if none does.
func (a *Attempt) refused() string {
	for _, c := range a.Progress.Calls {
		if !c.isOf(a.Progress) {
			continue
		}
		switch h, _ := a.hook(c.Hook); {
		case c.Status == HookFailed:
			return fmt.Sprintf("%s hooks failed: %s: %s", c.Stage, c.Hook, cmp.Or(c.Reason, "it said FAILED"))
		case c.Status != HookTimedOut || h.OnTimeout == TimeoutContinue:
		case h.Target.Kind == HookPause:
			return fmt.Sprintf("%s pause timed out: %s got no answer in %s", c.Stage, c.Hook, h.timeout())
		default:
			return fmt.Sprintf("%s hooks failed: %s has not succeeded in %s", c.Stage, c.Hook, h.timeout())
		}
	}
	return ""
}

func (a *Attempt) hook(name string) (Hook, bool) {
	i := slices.IndexFunc(a.Method.Hooks, func(h Hook) bool { return h.Name == name })
	if i < 0 {
		return Hook{}, false
	}
	return a.Method.Hooks[i], true
}

// expire ends the calls whose time is over.
func (s *State) expire(at time.Time, a *Attempt) {
	for i := range a.Progress.Calls {
		c := &a.Progress.Calls[i]
		if c.Open() && !at.Before(c.ExpiresAt) {
			c.end(at, HookTimedOut, c.Reason)
			s.say(at, "(deployment %s) the hook %s of the stage %s has used up its time.", a.Progress.Green, c.Hook, c.Stage)
		}
	}
}

func (c *HookCall) end(at time.Time, status HookStatus, reason string) {
	c.Status, c.UpdatedAt, c.Reason, c.NextCall, c.op = status, at, reason, time.Time{}, idle
}

// closeCalls ends the calls that are open, because their attempt is given up.
func (a *Attempt) closeCalls(at time.Time) {
	if a.Progress == nil {
		return
	}
	for i := range a.Progress.Calls {
		if c := &a.Progress.Calls[i]; c.Open() {
			c.end(at, HookFailed, "the deployment was given up before it answered")
		}
	}
}

// prune forgets calls that ended long ago.
func (a *Attempt) prune() {
	if n := len(a.Progress.Calls); n > keptCalls && a.answered() {
		a.Progress.Calls = slices.Clone(a.Progress.Calls[n-keptCalls:])
	}
}

// call returns the open call of an id; nil if there is none.
func (s *State) call(id string) (*Attempt, *HookCall) {
	if a := s.staged(); a != nil {
		for i := range a.Progress.Calls {
			if c := &a.Progress.Calls[i]; c.ID == id && c.Open() {
				return a, c
			}
		}
	}
	return nil, nil
}

// answer takes in what a hook answered.
func (s *State) answer(at time.Time, in HookAnswered) {
	a, c := s.call(in.ID)
	if c == nil || c.Status != HookInProgress || c.Number != in.Number || c.op != busy {
		return
	}
	switch in.Status {
	case HookSucceeded:
		c.end(at, HookSucceeded, "")
	case HookInProgress:
		delay := in.CallBackDelay
		if delay <= 0 {
			delay = DefaultCallBackDelay
		}
		c.NextCall, c.UpdatedAt, c.op = at.Add(delay), at, idle
		if merged, changed := merge(a.Progress.Details[c.Hook], in.Details); changed {
			a.Progress.Details = maps.Clone(a.Progress.Details)
			if a.Progress.Details == nil {
				a.Progress.Details = make(map[string]json.RawMessage)
			}
			a.Progress.Details[c.Hook] = merged
		}
	default:
		c.end(at, HookFailed, cmp.Or(in.Reason, "it said FAILED"))
		if c.Returning {
			s.say(at, "(deployment %s) the hook %s failed on the way back, which continues: %s.", a.Progress.Green, c.Hook, c.Reason)
		}
	}
}

// merge adds the members of an object to those of another, or replaces what is no object.
func merge(old, more json.RawMessage) (merged json.RawMessage, changed bool) {
	if len(more) == 0 || string(more) == "null" {
		return old, false
	}
	var a, b map[string]json.RawMessage
	if json.Unmarshal(old, &a) != nil || json.Unmarshal(more, &b) != nil || a == nil || b == nil {
		return more, true
	}
	maps.Copy(a, b)
	merged, err := json.Marshal(a)
	if err != nil {
		return more, true
	}
	return merged, true
}

// resolve takes in what a user decides about a pause.
func (s *State) resolve(at time.Time, in ContinueRequested) {
	a, c := s.call(in.ID)
	if c == nil || c.Status != HookAwaiting {
		return
	}
	if in.Rollback {
		c.end(at, HookFailed, "a user asked for a rollback")
		return
	}
	c.end(at, HookSucceeded, "")
	s.say(at, "(deployment %s) continues after the pause %s.", a.Progress.Green, c.Hook)
}

// HookRequest returns what the call of an id is about, and whether it is still open.
func (s State) HookRequest(id string) (r HookRequest, open bool) {
	a, c := s.call(id)
	if c == nil {
		return r, false
	}
	p := a.Progress
	r = HookRequest{HookCall: *c, Attempt: a.Number, Green: p.Green, TestWeights: map[string]Permille{}, ProductionWeights: map[string]Permille{}}
	r.Config, _ = a.hook(c.Hook)
	r.Details, _ = merge(r.Config.Details, p.Details[c.Hook])
	share := func(weight Permille) map[string]Permille {
		m := map[string]Permille{p.Green: weight}
		if p.Blue != "" {
			m[p.Blue] = Whole - weight
		}
		return m
	}
	switch p.Stage {
	case TestShift:
		r.TestWeights = share(p.TestWeight)
	case PreProduction, Production:
		r.ProductionWeights = share(p.Weight)
	}
	return r, true
}

// Pause returns the id of the pause that the attempt waits at, of those of a name if it is not empty.
func (s State) Pause(name string) (id string, err error) {
	a := s.staged()
	if a == nil {
		return "", fmt.Errorf("service %s has no deployment under way that could be paused", s.Name)
	}
	var names, ids []string
	for _, c := range a.Progress.Calls {
		if c.Status == HookAwaiting && (name == "" || name == c.Hook || name == c.ID) {
			ids, names = append(ids, c.ID), append(names, c.Hook)
		}
	}
	switch {
	case len(ids) == 1:
		return ids[0], nil
	case len(ids) > 1:
		return "", fmt.Errorf("the deployment of service %s waits at %d pauses: name one of %s", s.Name, len(ids), strings.Join(names, ", "))
	case name != "":
		return "", fmt.Errorf("the deployment of service %s does not wait at a pause %s", s.Name, name)
	}
	return "", fmt.Errorf("the deployment of service %s does not wait at a pause; it is in the stage %s", s.Name, a.Progress.Stage)
}

// startCalls returns the calls of hooks that are due.
func (s *State) startCalls(at time.Time) (effects []Effect) {
	a := s.staged()
	if a == nil {
		return nil
	}
	for i := range a.Progress.Calls {
		c := &a.Progress.Calls[i]
		if c.Status == HookInProgress && c.op == idle && !at.Before(c.NextCall) {
			c.op = busy
			c.Number++
			effects = append(effects, CallHook{ID: c.ID, Number: c.Number})
		}
	}
	return effects
}
