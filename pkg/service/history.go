package service

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Attempt is an entry of a service's history: the attempt to bring all copies to a revision,
// or back where that does not work. ECS calls it a service deployment. The last one may not
// have ended; those before it have, and do not change anymore.
type Attempt struct {
	// Number counts the attempts of the service, from 1.
	Number int           `json:"number"`
	Status AttemptStatus `json:"status"`
	// Reason explains why the attempt was given up.
	Reason string `json:"reason,omitempty"`
	// Target is the revision to which the copies are brought, Sources are those that there
	// were copies of before.
	Target  Share   `json:"target"`
	Sources []Share `json:"sources,omitempty"`
	// Return is set when the attempt was given up for an earlier revision.
	Return  *Return     `json:"return,omitempty"`
	Breaker BreakerUse  `json:"breaker"`
	Bounds  *Bounds     `json:"bounds,omitempty"`
	Times   AttemptTime `json:"times"`
	// Method is the method of the attempt. Progress is nil for one without stages, Alarms for one without
	// alarms.
	Method   Method    `json:"method,omitzero"`
	Progress *Progress `json:"progress,omitempty"`
	Alarms   *AlarmUse `json:"alarms,omitempty"`
}

// AttemptTime are the moments of an attempt; StoppedAt and EndedAt are zero until they come.
type AttemptTime struct {
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
	// StoppedAt is the time at which the attempt was given up without a success of its own.
	StoppedAt time.Time `json:"stoppedAt,omitzero"`
	EndedAt   time.Time `json:"endedAt,omitzero"`
}

// AttemptStatus is the status of an attempt.
type AttemptStatus string

// The statuses of ECS's service deployments. An attempt begins, and is given up, in the step
// that takes in the request, so it is never PENDING, STOP_REQUESTED or ROLLBACK_REQUESTED.
const (
	AttemptRunning     AttemptStatus = "IN_PROGRESS"
	AttemptReturning   AttemptStatus = "ROLLBACK_IN_PROGRESS"
	AttemptSuccessful  AttemptStatus = "SUCCESSFUL"
	AttemptStopped     AttemptStatus = "STOPPED"
	AttemptReturned    AttemptStatus = "ROLLBACK_SUCCESSFUL"
	AttemptNotReturned AttemptStatus = "ROLLBACK_FAILED"
)

// Share counts the copies of a revision.
type Share struct {
	// Deployment is the id of the revision's deployment.
	Deployment string `json:"deployment"`
	// Requested is the number of copies that are to be, Running and Pending how many of them run or do
	// not yet. When the attempt has ended, they are those of its end.
	Requested int `json:"requested"`
	Running   int `json:"running"`
	Pending   int `json:"pending"`
}

// Return is the way of an attempt back to an earlier revision.
type Return struct {
	// Deployment is the id of that revision's deployment.
	Deployment string    `json:"deployment"`
	StartedAt  time.Time `json:"startedAt"`
	// Stage is the stage in which the attempt was given up; empty if it has no stages.
	Stage Stage `json:"stage,omitempty"`
}

// BreakerUse is the circuit breaker of an attempt. The tasks that failed are counted without
// one, too.
type BreakerUse struct {
	Breaker
	Failures  int  `json:"failures"`
	Threshold int  `json:"threshold"`
	Tripped   bool `json:"tripped,omitempty"`
}

// Revision is the definition and the configuration of the copies of a deployment, as it was when that began. It
// never changes.
type Revision struct {
	// Deployment is an id.
	Deployment string    `json:"deployment"`
	CreatedAt  time.Time `json:"createdAt"`
	// TaskDefinition is FAMILY:REVISION.
	TaskDefinition string  `json:"taskDefinition"`
	Images         []Image `json:"images"`
	// Client is the ClientConfig.Client of that time.
	Client json.RawMessage `json:"client,omitempty"`
}

// Image is the image of a container.
type Image struct {
	Container string `json:"container"`
	Image     string `json:"image"`
}

// keptAttempts is the length of the history.
const keptAttempts = 10

// clone copies what a step may change.
func (a Attempt) clone() Attempt {
	if a.Progress != nil {
		p := *a.Progress
		p.Calls = slices.Clone(p.Calls)
		a.Progress = &p
	}
	if a.Alarms != nil {
		alarms := *a.Alarms
		a.Alarms = &alarms
	}
	return a
}

// Ended reports whether the attempt has ended.
func (a Attempt) Ended() bool { return a.Status != AttemptRunning && a.Status != AttemptReturning }

// Aim is the deployment to which the copies are brought: the target, or that of the return.
func (a Attempt) Aim() string {
	if a.Return != nil {
		return a.Return.Deployment
	}
	return a.Target.Deployment
}

// History are the latest attempts of a service, the oldest first.
type History []Attempt

// current returns the attempt that has not ended; nil for none.
func (h History) current() *Attempt {
	if n := len(h); n > 0 && !h[n-1].Ended() {
		return &h[n-1]
	}
	return nil
}

// Revisions are those that a history names, and those of which there are copies.
type Revisions []Revision

func (r Revisions) has(deployment string) bool {
	return slices.ContainsFunc(r, func(r Revision) bool { return r.Deployment == deployment })
}

// of returns the revision of a deployment.
func (r Revisions) of(deployment string) (found Revision, known bool) {
	i := slices.IndexFunc(r, func(r Revision) bool { return r.Deployment == deployment })
	if i < 0 {
		return Revision{}, false
	}
	return r[i], true
}

// Why an attempt is not stopped.
var (
	ErrNoAttempt = errors.New("no such deployment")
	ErrEnded     = errors.New("the deployment has ended")
	ErrNoReturn  = errors.New("no earlier deployment was completed, so there is nothing to return to")
)

// StopAttempt returns the input that gives up the attempt of a number: for the deployment of
// RollbackTarget or, with abort, for none. One that is on its way back continues.
func StopAttempt(s State, number int, abort bool) (Input, error) {
	i := slices.IndexFunc(s.History, func(a Attempt) bool { return a.Number == number })
	if i < 0 {
		return nil, ErrNoAttempt
	}
	_, back := s.RollbackTarget()
	switch a := s.History[i]; {
	case a.Ended():
		return nil, fmt.Errorf("%w: it is %s", ErrEnded, a.Status)
	case abort:
		return AbortRequested{}, nil
	case a.Status == AttemptReturning:
		return TimerFired{}, nil // there is nothing to change
	case !back:
		return nil, ErrNoReturn
	}
	return RollbackRequested{}, nil
}

// Shares counts the copies that there are, by revision, the primary one first.
func Shares(s State) (all []Share) {
	for _, d := range s.Deployments {
		if d.Primary || s.Count(d.ID).Present > 0 {
			all = append(all, shareOf(s, d.ID))
		}
	}
	return all
}

// shareOf counts the copies of a revision.
func shareOf(s State, deployment string) Share {
	c := s.Count(deployment)
	return Share{Deployment: deployment, Running: c.Running, Pending: c.Pending, Requested: s.Wanted(deployment)}
}

// Wanted is the number of copies that a deployment is to have now.
func (s State) Wanted(deployment string) int {
	if a := s.staged(); a != nil && !a.rolls() {
		return s.wants(a, deployment)
	} else if deployment == s.Primary().ID {
		return s.target()
	}
	return s.keptOf(deployment)
}

// beginAttempt adds an attempt to bring the copies to the primary deployment, from what there
// was before.
func (s *State) beginAttempt(at time.Time, m Method, sources []Share) {
	a := Attempt{Number: 1, Status: AttemptRunning, Target: Share{Deployment: s.Primary().ID}, Times: AttemptTime{CreatedAt: at, UpdatedAt: at}}
	if n := len(s.History); n > 0 {
		a.Number = s.History[n-1].Number + 1
	}
	for _, old := range sources {
		if old.Deployment != a.Target.Deployment {
			a.Sources = append(a.Sources, old)
		}
	}
	a.Method = m
	a.Progress = s.plan(at, a.Method, s.shift())
	if a.Progress != nil && len(a.Method.Alarms.names()) > 0 && !a.Progress.Back {
		a.Alarms = &AlarmUse{NextCheck: at}
	}
	s.History = append(s.History, a)
	if n := len(s.History); n > keptAttempts {
		s.History = slices.Clone(s.History[n-keptAttempts:])
	}
	s.beginStages(at)
}

// beginStages begins the first stage of the attempt.
func (s *State) beginStages(at time.Time) {
	if a := s.staged(); a != nil {
		rows, i := a.row()
		s.begin(at, a, rows[i])
	}
}

// returnTo has the attempt go back to what is the primary deployment now. One that is on its way back
// already, or has ended, is followed by another.
func (s *State) returnTo(at time.Time, m Method, reason string, sources []Share) {
	a := s.History.current()
	if a == nil || a.Status == AttemptReturning {
		s.stopAttempt(at, reason)
		s.beginAttempt(at, m, sources)
		return
	}
	a.closeCalls(at)
	a.Status, a.Reason, a.Times.StoppedAt, a.Times.UpdatedAt = AttemptReturning, reason, at, at
	a.Return = &Return{Deployment: s.Primary().ID, StartedAt: at}
	if p := a.Progress; p != nil {
		a.Return.Stage = p.Stage
		if p.Green == s.Primary().ID { // it was on its way back already
			p.swap()
		}
		p.Regrow = p.Stage == CleanUp || p.Blue != s.Primary().ID
		p.Back, p.Blue, p.Stage = true, s.Primary().ID, ScaleUp
		s.beginStages(at)
	}
}

// stopAttempt ends the attempt without a success.
func (s *State) stopAttempt(at time.Time, reason string) {
	a := s.History.current()
	if a == nil {
		return
	}
	a.closeCalls(at)
	if a.Status == AttemptReturning {
		a.Status, a.Reason = AttemptNotReturned, a.Reason+"; then "+reason
	} else {
		a.Status, a.Reason = AttemptStopped, reason
	}
	a.Times.StoppedAt, a.Times.UpdatedAt, a.Times.EndedAt = at, at, at
}

// completeAttempt ends the attempt: all copies are where it brings them.
func (s *State) completeAttempt(at time.Time) {
	s.tally(at)
	a := s.History.current()
	status := AttemptSuccessful
	if a.Status == AttemptReturning {
		status = AttemptReturned
	}
	a.Status, a.Times.UpdatedAt, a.Times.EndedAt = status, at, at
}

// resumeAttempt continues the last attempt: it had ended with no copies, which proves nothing.
func (s *State) resumeAttempt(at time.Time) {
	a := &s.History[len(s.History)-1]
	if !a.Ended() {
		return
	}
	a.Status, a.Times = AttemptRunning, AttemptTime{CreatedAt: a.Times.CreatedAt, UpdatedAt: at}
	a.Progress, a.Alarms = nil, nil // there was nothing to shift
	if a.Return != nil {
		a.Status, a.Times.StoppedAt = AttemptReturning, a.Return.StartedAt
	}
}

// tripBreaker notes that too many tasks of the attempt have failed.
func (s *State) tripBreaker(at time.Time) {
	s.tally(at)
	if a := s.History.current(); a.Status == AttemptRunning {
		a.Breaker.Tripped = true
	}
}

// tally notes how far the attempt is.
func (s *State) tally(at time.Time) {
	a := s.History.current()
	if a == nil {
		return
	}
	before := *a
	a.Target, a.Sources = shareOf(*s, a.Target.Deployment), slices.Clone(a.Sources)
	for i := range a.Sources {
		a.Sources[i] = shareOf(*s, a.Sources[i].Deployment)
	}
	if a.Status == AttemptRunning {
		a.Breaker = BreakerUse{Breaker: s.Config.Breaker, Failures: s.Primary().FailedTasks, Threshold: s.Threshold()}
		a.Bounds = s.Config.Bounds
	}
	if a.Target != before.Target || a.Breaker != before.Breaker || !slices.Equal(a.Sources, before.Sources) {
		a.Times.UpdatedAt = at
	}
}

// recall makes a history of a record that has none, because an earlier version wrote it: of
// the deployments that a rollback may return to, and of the primary one.
func (s *State) recall() {
	if len(s.History) > 0 {
		return
	}
	known := slices.DeleteFunc(slices.Clone(s.Completed), func(d Deployment) bool { return d.ID == s.Primary().ID })
	slices.Reverse(known)
	for i, d := range append(known, s.Primary()) {
		a := Attempt{Number: i + 1, Target: Share{Deployment: d.ID}, Times: AttemptTime{CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt}}
		switch d.Rollout {
		case InProgress:
			a.Status = AttemptRunning
		case Completed:
			a.Status, a.Times.EndedAt = AttemptSuccessful, d.UpdatedAt
		case Failed:
			a.Status, a.Reason, a.Times.StoppedAt, a.Times.EndedAt = AttemptStopped, d.Reason, d.UpdatedAt, d.UpdatedAt
		}
		s.History = append(s.History, a)
	}
	s.noteRevision(s.Primary(), s.Config.Client)
	for _, d := range slices.Concat(known, s.Deployments) {
		s.noteRevision(d, nil)
	}
}

// noteRevision keeps the revision of a deployment that begins.
func (s *State) noteRevision(d Deployment, client json.RawMessage) {
	if s.Revisions.has(d.ID) {
		return
	}
	r := Revision{Deployment: d.ID, CreatedAt: d.CreatedAt, TaskDefinition: d.TaskDefinition, Client: client}
	for _, c := range d.Task.Containers {
		r.Images = append(r.Images, Image{Container: c.Name, Image: c.Image})
	}
	s.Revisions = append(s.Revisions, r)
}

// pruneRevisions forgets the revisions that nothing names anymore.
func (s *State) pruneRevisions() {
	named := make(map[string]bool)
	for _, d := range slices.Concat(s.Deployments, s.Completed) {
		named[d.ID] = true
	}
	for _, a := range s.History {
		named[a.Target.Deployment], named[a.Aim()] = true, true
		if p := a.Progress; p != nil {
			named[p.Blue], named[p.Green] = true, true
		}
		for _, old := range a.Sources {
			named[old.Deployment] = true
		}
	}
	s.Revisions = slices.DeleteFunc(s.Revisions, func(r Revision) bool { return !named[r.Deployment] })
}

// checkHistory returns what is wrong with a history.
func checkHistory(s State) error {
	if len(s.History) > keptAttempts {
		return fmt.Errorf("the history has %d attempts", len(s.History))
	}
	for i, a := range s.History {
		switch last := i == len(s.History)-1; {
		case i > 0 && a.Number != s.History[i-1].Number+1:
			return fmt.Errorf("attempt %d follows %d", a.Number, s.History[i-1].Number)
		case !a.Ended() && !last:
			return fmt.Errorf("attempt %d has not ended, and there is a later one", a.Number)
		case last && a.Aim() != s.Primary().ID:
			return fmt.Errorf("attempt %d leads to deployment %s, and %s is the primary one", a.Number, a.Aim(), s.Primary().ID)
		case last && s.Status == Active && a.Ended() == (s.Primary().Rollout == InProgress):
			return fmt.Errorf("attempt %d is %s, and its deployment %s", a.Number, a.Status, s.Primary().Rollout)
		}
		if err := checkProgress(s, a, i == len(s.History)-1); err != nil {
			return err
		}
		for _, id := range append([]string{a.Target.Deployment, a.Aim()}, deployments(a.Sources)...) {
			if !s.Revisions.has(id) {
				return fmt.Errorf("attempt %d names deployment %s, of which there is no revision", a.Number, id)
			}
		}
	}
	return nil
}

// checkProgress returns what is wrong with the progress of an attempt, or of the last one.
func checkProgress(s State, a Attempt, last bool) error {
	p := a.Progress
	if p == nil {
		return nil
	}
	if _, i := a.row(); i < 0 && !a.Ended() {
		return fmt.Errorf("attempt %d is in the stage %q, which it does not have", a.Number, p.Stage)
	}
	if p.Weight < 0 || p.Weight > Whole || p.TestWeight < 0 || p.TestWeight > Whole {
		return fmt.Errorf("attempt %d has the weights %d and %d", a.Number, p.Weight, p.TestWeight)
	}
	if !last || a.Ended() {
		return nil
	}
	for _, id := range []string{p.Blue, p.Green} {
		if _, listed := s.Deployment(id); id != "" && !listed {
			return fmt.Errorf("attempt %d shifts connections of deployment %s, which is not there", a.Number, id)
		}
	}
	for _, c := range p.Calls {
		if _, known := a.hook(c.Hook); !known || c.ID == "" {
			return fmt.Errorf("attempt %d calls the hook %q, which it does not have", a.Number, c.Hook)
		}
	}
	return nil
}

func deployments(shares []Share) (ids []string) {
	for _, s := range shares {
		ids = append(ids, s.Deployment)
	}
	return ids
}
