package stack

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Verb names what a step does.
type Verb string

// The verbs of steps.
const (
	Apply   Verb = "apply"   // make the member, or change it to what it is to be
	Await   Verb = "await"   // wait until a condition is true, or cannot come true any more
	Remove  Verb = "remove"  // remove the member, and wait until it is gone
	Discard Verb = "discard" // remove the task of the last run of a job
	Volumes Verb = "volumes" // remove the volumes of the stack
	Finish  Verb = "finish"  // nothing: the change has ended
	Stop    Verb = "stop"    // nothing: what is left could not be done now
)

// Step is the next thing that is done for a change.
type Step struct {
	Verb Verb
	// Name is the one of the member; empty for Volumes, Finish and Stop.
	Name string
	// Member names what Apply makes, and of which Await waits for a condition.
	Member Member
	Is     Condition
	// Had names what the host has of the member.
	Had Had
}

// Outcome names what came of a step.
type Outcome struct {
	// Failed gives the reason why the step cannot succeed; empty if it did.
	Failed string
	// Mark names what the agent called what was applied, Made is the time at which it made the service.
	Mark string
	Made time.Time
}

// Start returns the record with a new change. One that has not ended is abandoned for it: the new one begins with what is there. It
// waits for a job that another change has begun, instead of running it twice.
func Start(s State, c Change) State {
	if old := s.Change; old != nil {
		s = s.past(Abandoned, c.Began)
	}
	s.Last++
	c.Number, c.Target.Number, c.Way = s.Last, s.Last, Forward
	if c.Remove {
		c.Way, c.Target.Members = Clearing, nil
	}
	for n, h := range s.Have {
		if h.Unseen {
			if c.Touched == nil {
				c.Touched = make(map[string]Condition)
			}
			c.Touched[n] = ""
		}
	}
	s.Change = &c
	for _, v := range c.Target.Volumes {
		if !slices.Contains(s.Volumes, v) {
			s.Volumes = append(slices.Clone(s.Volumes), v)
		}
	}
	return s
}

// Resume returns the record for a process that continues the change of another one: what was seen may not be so any more, and what
// could not be done is tried again.
func Resume(s State) State {
	if s.Change == nil {
		return s
	}
	c := *s.Change
	c.Touched, c.Seen, c.Stuck = maps.Clone(c.Touched), nil, nil
	for n := range c.Touched {
		if m := c.Target.Find(n); m == nil || m.Kind != Job || c.Touched[n] != Completed {
			c.Touched[n] = ""
		}
	}
	s.Change = &c
	return s
}

// GiveUp returns the record with the change on its way back. It may be called while the change goes forward.
func GiveUp(s State, reason string) State {
	c := *s.Change
	c.Way, c.Reason, c.Seen, c.Stuck = Back, reason, nil, nil
	c.Touched = maps.Clone(c.Touched)
	for n := range c.Touched {
		c.Touched[n] = ""
	}
	s.Have = maps.Clone(s.Have)
	for n, h := range s.Have { // what a job did is not undone, so that it runs again with the next change
		if _, ran := c.Touched[n]; ran && h.Kind == Job {
			h.Print = ""
			s.Have[n] = h
		}
	}
	s.Change = &c
	return s
}

// goal names what the change goes to now.
func (s State) goal() Revision {
	if s.Change.Way == Back {
		return s.Current
	}
	return s.Change.Target
}

// Differs reports whether a member is to be applied: the host has something else, or that is not sure.
func (s State) Differs(m Member) bool {
	h, there := s.Have[m.Name]
	return !there || h.Kind != m.Kind || h.Object != m.Object || h.Print != m.Print
}

// skips reports whether a member is left as it is in a change that runs no jobs.
func (s State) skips(m Member) bool {
	return m.Kind == Job && (s.Change.SkipJobs || s.Change.Way == Back)
}

// Next returns the next step of the change.
func Next(s State) Step {
	c := s.Change
	goal := s.goal()
	if c.Way == Back {
		if step, found := s.surplus(goal, nil); found {
			return step
		}
	}
	if c.Way != Clearing {
		if step, found := s.ahead(goal); found {
			return step
		}
	}
	if c.Way == Clearing {
		if step, found := s.surplus(goal, nil); found {
			return step
		}
		if c.Remove && c.Volumes && len(s.Volumes) > 0 && len(s.Have) == 0 && c.Stuck[""] == "" {
			return Step{Verb: Volumes}
		}
	}
	if len(c.Stuck) > 0 && c.Way != Forward {
		return Step{Verb: Stop}
	}
	return Step{Verb: Finish}
}

// ahead returns the next step toward a revision.
func (s State) ahead(goal Revision) (Step, bool) {
	c := s.Change
	ordered := Order(goal.Members)
	for _, m := range ordered {
		if !s.Differs(m) || s.skips(m) || c.Stuck[m.Name] != "" {
			continue
		}
		if step, found := s.before(goal, m); found {
			return step, true
		}
		if s.blocked(goal, m) {
			continue
		}
		return s.apply(goal, m), true
	}
	for _, m := range ordered {
		seen, touched := c.Touched[m.Name]
		if is := m.Kind.Whole(); touched && seen != is && !s.Differs(m) && !s.skips(m) && c.Stuck[m.Name] == "" {
			return Step{Verb: Await, Name: m.Name, Member: m, Is: is, Had: s.Have[m.Name]}, true
		}
	}
	return Step{}, false
}

// apply returns the next step for a member whose dependencies are as it wants them.
func (s State) apply(goal Revision, m Member) Step {
	h, there := s.Have[m.Name]
	switch {
	case there && (h.Kind != m.Kind || h.Object != m.Object): // it could not become the other
		return Step{Verb: Remove, Name: m.Name, Had: h}
	case h.Kind == Job && h.Run > 0 && h.Run != s.Change.Number:
		return Step{Verb: Discard, Name: m.Name, Had: h}
	}
	if len(m.Takes) > 0 {
		if step, found := s.surplus(goal, m.Takes); found {
			return step
		}
	}
	return Step{Verb: Apply, Name: m.Name, Member: m, Had: h}
}

// Whole is the condition of a member that is as it is wanted.
func (k Kind) Whole() Condition {
	switch k {
	case Job:
		return Completed
	case Schedule:
		return Started
	}
	return Healthy
}

// before returns the first dependency of a member for which it is to wait.
func (s State) before(goal Revision, m Member) (Step, bool) {
	for _, d := range m.After {
		of := goal.Find(d.Name)
		if of == nil || s.Differs(*of) || s.skips(*of) || s.Change.Stuck[of.Name] != "" {
			continue
		}
		is := d.Is
		if of.Kind == Job {
			is = Completed
			if _, ran := s.Change.Touched[of.Name]; !ran {
				continue // it has succeeded in an earlier change
			}
		}
		if !reached(s.Change.Touched[of.Name], is) && !reached(s.Change.Seen[of.Name], is) {
			return Step{Verb: Await, Name: of.Name, Member: *of, Is: is, Had: s.Have[of.Name]}, true
		}
	}
	return Step{}, false
}

// blocked reports whether a member waits for one that cannot be put back now, or needs an address of one that cannot be removed now.
func (s State) blocked(goal Revision, m Member) bool {
	for n, h := range s.Have {
		if s.Change.Stuck[n] != "" && n != m.Name && slices.ContainsFunc(m.Takes, func(t string) bool { return slices.Contains(h.Takes, t) }) {
			return true
		}
	}
	return slices.ContainsFunc(m.After, func(d Dependency) bool {
		of := goal.Find(d.Name)
		return of != nil && s.Differs(*of) && !s.skips(*of)
	})
}

func reached(seen, is Condition) bool {
	return seen == is || seen == Healthy && is == Started
}

// surplus returns the removal of a member that the revision does not have; with addresses, of one that holds any of them. What waits
// for others goes first.
func (s State) surplus(goal Revision, takes []string) (Step, bool) {
	ordered := Order(append(slices.Clone(s.Current.Members), s.Change.Target.Members...))
	names := slices.Sorted(maps.Keys(s.Have))
	place := func(name string) int {
		return slices.IndexFunc(ordered, func(m Member) bool { return m.Name == name })
	}
	slices.SortStableFunc(names, func(a, b string) int { return place(b) - place(a) })
	for _, n := range names {
		h := s.Have[n]
		m := goal.Find(n)
		kept := m != nil && m.Kind == h.Kind && m.Object == h.Object
		holds := len(takes) == 0 || slices.ContainsFunc(takes, func(t string) bool { return slices.Contains(h.Takes, t) })
		if !kept && holds && s.Change.Stuck[n] == "" {
			return Step{Verb: Remove, Name: n, Had: h}, true
		}
	}
	return Step{}, false
}

// Begin returns the record as it is saved before a step is done, and the step with what the record says of its member.
func Begin(s State, step Step) (State, Step) {
	if step.Verb == Remove { // if it is wanted after all, it is applied again
		h := s.Have[step.Name]
		h.Print = ""
		s.Have = maps.Clone(s.Have)
		s.Have[step.Name] = h
	}
	if step.Verb != Apply {
		return s, step
	}
	c := *s.Change
	c.Touched = maps.Clone(c.Touched)
	if c.Touched == nil {
		c.Touched = make(map[string]Condition)
	}
	c.Touched[step.Name] = ""
	s.Change = &c
	h := s.Have[step.Name]
	takes := slices.Concat(h.Takes, step.Member.Takes)
	h = Had{Object: step.Member.Object, Kind: step.Member.Kind, Takes: takes, Made: h.Made, Definition: step.Member.Definition}
	if h.Kind == Job {
		h.Run, h.Token = c.Number, tokenOf(s, step.Name)
	}
	s.Have = maps.Clone(s.Have)
	if s.Have == nil {
		s.Have = make(map[string]Had)
	}
	s.Have[step.Name] = h
	step.Had = h
	return s, step
}

// tokenOf returns the token of the run of a job in the present change.
func tokenOf(s State, job string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "stack %s\n%s\n%d\n%d", s.Name, job, s.Change.Number, s.Change.Began.UnixNano()))
	return hex.EncodeToString(sum[:])
}

// End returns the record after a step.
func End(s State, step Step, o Outcome, at time.Time) State {
	c := *s.Change
	c.Touched, c.Seen, c.Stuck = maps.Clone(c.Touched), maps.Clone(c.Seen), maps.Clone(c.Stuck)
	s.Change = &c
	s.Have = maps.Clone(s.Have)
	if o.Failed != "" && step.Verb != Finish && step.Verb != Stop {
		return s.failed(step, o.Failed, at)
	}
	switch step.Verb {
	case Apply:
		h := s.Have[step.Name]
		h.Print, h.Takes, h.Mark, h.Made, h.Unseen = step.Member.Print, step.Member.Takes, o.Mark, o.Made, h.Kind == Job
		s.Have[step.Name] = h
	case Await:
		if h := s.Have[step.Name]; step.Is == Completed {
			h.Unseen = false
			s.Have[step.Name] = h
		}
		switch {
		case s.touched(step.Name):
			c.Touched[step.Name] = step.Is
		case c.Seen == nil:
			c.Seen = map[string]Condition{step.Name: step.Is}
		default:
			c.Seen[step.Name] = step.Is
		}
	case Remove:
		delete(s.Have, step.Name)
		delete(c.Touched, step.Name)
	case Discard:
		h := s.Have[step.Name]
		h.Run, h.Unseen = 0, false
		s.Have[step.Name] = h
	case Volumes:
		s.Volumes = nil
	case Finish:
		return s.finish(at)
	}
	return s
}

// failed returns the record after a step that failed.
func (s State) failed(step Step, reason string, at time.Time) State {
	c := s.Change
	if h, there := s.Have[step.Name]; there && step.Verb == Await && s.touched(step.Name) {
		h.Print, h.Unseen = "", false // what it has does not work
		s.Have[step.Name] = h
	}
	if c.Way == Forward {
		c.Failed = step.Name
		if c.Keep {
			c.Reason = reason
			return s.past(Kept, at)
		}
		return GiveUp(s, reason)
	}
	if c.Stuck == nil {
		c.Stuck = make(map[string]string)
	}
	c.Stuck[step.Name] = reason
	return s
}

func (s State) touched(name string) bool {
	_, is := s.Change.Touched[name]
	return is
}

// finish ends a way of the change.
func (s State) finish(at time.Time) State {
	c := s.Change
	switch c.Way {
	case Forward:
		c.Way, c.Stuck = Clearing, nil
		if s.Current.Number > 0 {
			s.Before = append(slices.Clone(s.Before), s.Current)
			s.Before = s.Before[max(0, len(s.Before)-maxBefore):]
		}
		s.Current = c.Target
		return s
	case Back:
		return s.past(PutBack, at)
	}
	return s.past(Done, at)
}

// past returns the record without its change, which has ended.
func (s State) past(r Result, at time.Time) State {
	c := s.Change
	s.History = append(slices.Clone(s.History), Past{Number: c.Number, Result: r, Began: c.Began, Ended: at, Source: c.Target.Source, Failed: c.Failed, Reason: c.Reason})
	s.History = s.History[max(0, len(s.History)-maxHistory):]
	s.Change = nil
	return s
}

// Empty reports whether there is nothing left of a stack, so that its record can be removed. The record of a preview stays:
// it says when the volumes are removed.
func (s State) Empty() bool {
	return s.Change == nil && len(s.Have) == 0 && s.Current.Number == 0 && s.Preview == nil
}
