package driver

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/podtask/podtask/pkg/lifecycle"
)

// Watch is something whose change the owner waits for and reports: the end of the
// container of that index with lifecycle.Hinted, or the Queue.
type Watch int

const (
	// Infra is the pod's infra container, whose end is reported like a container's.
	Infra Watch = lifecycle.InfraIndex
	// Queue is what tasks share. Each change is reported with lifecycle.QueueMoved.
	Queue Watch = lifecycle.InfraIndex - 1
)

// Endpoint says what becomes of the task's metadata endpoint.
type Endpoint uint8

// What may become of an endpoint.
const (
	KeepEndpoint   Endpoint = iota // as it is
	ResumeEndpoint                 // serve it again, where the previous owner did
	CloseEndpoint                  // the task has stopped
)

// LookInterval is how often a task looks at everything that runs (ECS agent: steady-state
// poll, 5 min): a watch may be lost without an error, and no watch reports that a user
// paused a container.
const LookInterval = 5 * time.Minute

// Task drives one task. A copy of it is independent; the methods of one must not be
// called concurrently.
type Task struct {
	machine[lifecycle.State, lifecycle.Event, lifecycle.Effect, Watch]
	published uint64          // Seq of the last transition in the event log
	quota     lifecycle.Quota // that was last to be applied
	resizes   int             // of the resources that were last to be applied
	resized   []time.Time     // when the containers that they were applied to had started; never changed in place
	look      time.Time       // when everything that runs is to be looked at
	backOffs  []backOff       // of the watches; never changed in place
	rewatch   time.Time       // when a watch that was put off may begin; zero: none was

	endpointResumed bool
	removalAsked    bool // by --rm, which asks once: a removal that failed is left to the user
	mayLeave        bool // see TaskDecision.RequestSweep

	before *Task // as it was before the latest step; see Undo
}

// TaskDecision is what follows from a batch of events of a task.
type TaskDecision struct {
	Decision[lifecycle.State, lifecycle.Effect, Watch]
	// Publish are the transitions that the event log lacks. Published reports that they
	// are there; until then each decision repeats them.
	Publish []lifecycle.Transition
	// Cancel are the operations to cancel. They still answer.
	Cancel []lifecycle.OpID
	// ApplyLimits: the quota of the state is to be applied to the task's slice, and changed
	// resources to its containers.
	ApplyLimits bool
	Endpoint    Endpoint
	// Look is the time at which everything that runs is to be looked at; zero: nothing runs.
	Look time.Time
	// AutoRemove: the task is to be removed now unless it is shown in the foreground,
	// which Rest must know.
	AutoRemove bool
	// RequestSweep: the task is removed, but an earlier owner died while it made something
	// that Podman may still finish. A sweep finds that.
	RequestSweep bool
}

var taskRules = rules[lifecycle.State, lifecycle.Event, lifecycle.Effect, Watch]{
	step:    lifecycle.Step,
	watches: taskWatches,
	wake:    lifecycle.State.Wake,
	settled: lifecycle.State.Settled,
	annul:   annul,
}

func taskWatches(s lifecycle.State) (watches []Watch) {
	for _, i := range s.Watches() {
		watches = append(watches, Watch(i))
	}
	if s.Queued() {
		watches = append(watches, Queue)
	}
	return watches
}

// EncodeTask encodes what a task's record holds.
func EncodeTask(s lifecycle.State) ([]byte, error) { return json.Marshal(s.Durable()) }

// NewTask returns the driver of a task in the state its record holds. encode encodes what
// of a state must be saved, EncodeTask for instance; nil saves nothing. published is the
// Seq of the last transition in the event log. The first event must be
// lifecycle.Restarted.
func NewTask(s lifecycle.State, published uint64, encode func(lifecycle.State) ([]byte, error)) *Task {
	r := taskRules
	r.encode = encode
	t := &Task{published: published, mayLeave: s.Sandbox.Dirty && s.Sandbox.Phase < lifecycle.SandboxStopped}
	t.rules, t.state = &r, s
	t.endpointResumed = s.Sandbox.Metadata == "" // this owner opens it itself
	return t
}

// State is the state after the latest step.
func (t *Task) State() lifecycle.State { return t.state }

// Saved is the record as the latest decisions had it saved; nil: none was.
func (t *Task) Saved() []byte { return t.saved }

// takeLimits reports whether limits are to be applied: they have changed since the slice was made, by this owner or
// by an earlier one, or a container has started that Podman gave those from before. An owner may have died right
// after a start. A container that is restarted for other resources may use more than those until it has stopped.
func (t *Task) takeLimits(s *lifecycle.State) bool {
	if s.Sandbox.Slice == "" || s.Goal != lifecycle.Up || s.Resizing() {
		return false
	}
	started := t.resized
	if s.Resizes > 0 {
		started = make([]time.Time, len(s.Containers))
		copy(started, t.resized)
		for i, c := range s.Containers {
			if c.Presence == lifecycle.Running {
				started[i] = c.StartedAt
			}
		}
	}
	if s.Options.Quota == t.quota && s.Resizes == t.resizes && slices.EqualFunc(started, t.resized, time.Time.Equal) {
		return false
	}
	t.quota, t.resizes, t.resized = s.Options.Quota, s.Resizes, started
	return true
}

// Watching reports whether something is watched and has not reported a change yet.
func (t *Task) Watching(w Watch) bool { return slices.Contains(t.watched, w) }

// Rewatch is the time at which a watch that was put off may begin; zero if none was.
func (t *Task) Rewatch() time.Time { return t.rewatch }

// Step takes in a batch of events.
func (t *Task) Step(at time.Time, batch []lifecycle.Event) (TaskDecision, error) {
	before := *t
	before.before = nil
	t.before = &before
	step, err := t.step(at, t.takeHints(at, batch))
	if err != nil {
		return TaskDecision{}, err
	}
	t.delayWatches(&step)
	d := TaskDecision{Decision: step}
	d.Start, d.Cancel = separate(step.Start)
	s := &d.State
	for _, tr := range s.History {
		if tr.Seq > t.published {
			d.Publish = append(d.Publish, tr)
		}
	}
	d.ApplyLimits = t.takeLimits(s)
	switch {
	case s.Sandbox.Phase >= lifecycle.SandboxStopped:
		d.Endpoint = CloseEndpoint
	case (s.Sandbox.Metadata != "" || s.Options.Namespace != "" && s.Sandbox.Phase == lifecycle.SandboxReady) && !t.endpointResumed:
		t.endpointResumed, d.Endpoint = true, ResumeEndpoint
	}
	d.Look = t.nextLook(at, s)
	d.AutoRemove = d.Settled && s.Goal == lifecycle.Down && s.Options.Remove && !t.removalAsked
	d.RequestSweep = d.Settled && s.Goal == lifecycle.Gone && t.mayLeave
	return d, nil
}

// nextLook is an interval after the first step, or after the last look. A clock that was
// set back does not delay it further.
func (t *Task) nextLook(at time.Time, s *lifecycle.State) time.Time {
	if latest := at.Add(LookInterval); t.look.IsZero() || t.look.After(latest) {
		t.look = latest
	}
	if len(s.Watches()) == 0 {
		return time.Time{}
	}
	return t.look
}

// annul takes the operations out that were canceled in the batch that asked for them. They
// are not carried out, as if they had been canceled at once.
func annul(effects []lifecycle.Effect) (left []lifecycle.Effect, answers []lifecycle.Event) {
	_, canceled := separate(effects)
	for _, e := range effects {
		_, cancels := e.(lifecycle.CancelOp)
		switch {
		case !slices.Contains(canceled, e.Op()) || cancels && !asked(effects, e.Op()):
			left = append(left, e)
		case !cancels:
			answers = append(answers, lifecycle.OpFinished{ID: e.Op(), Failure: lifecycle.Failure{Class: lifecycle.Canceled, Message: "canceled"}})
		}
	}
	return left, answers
}

// asked reports whether one of the effects is the operation.
func asked(effects []lifecycle.Effect, id lifecycle.OpID) bool {
	return slices.ContainsFunc(effects, func(e lifecycle.Effect) bool {
		_, cancels := e.(lifecycle.CancelOp)
		return !cancels && e.Op() == id
	})
}

// separate takes the cancellations out of effects.
func separate(effects []lifecycle.Effect) (start []lifecycle.Effect, cancel []lifecycle.OpID) {
	for _, e := range effects {
		if c, ok := e.(lifecycle.CancelOp); ok {
			cancel = append(cancel, c.ID)
			continue
		}
		start = append(start, e)
	}
	return start, cancel
}

// Outcome is what every loop needs to know of the decision.
func (d TaskDecision) Outcome() Outcome[lifecycle.State] {
	o := d.Decision.Outcome()
	if o.Timer.IsZero() || !d.Look.IsZero() && d.Look.Before(o.Timer) {
		o.Timer = d.Look
	}
	o.Lowers = d.State.Goal != lifecycle.Up && !slices.ContainsFunc(d.Start, makes)
	o.Erases = d.Settled && d.State.Goal == lifecycle.Gone
	return o
}

// Tick returns the events of a timer that has fired.
func (t *Task) Tick(at time.Time) []lifecycle.Event {
	batch := []lifecycle.Event{lifecycle.TimerFired{}}
	if t.look.IsZero() || at.Before(t.look) {
		return batch
	}
	t.look = at.Add(LookInterval)
	for _, i := range t.state.Watches() {
		batch = append(batch, lifecycle.Hinted{Index: i})
	}
	return batch
}

// Published reports that the event log holds the transitions up to seq.
func (t *Task) Published(seq uint64) { t.published = seq }

// Rest decides what a settled task does, given the events that have arrived since and
// whether the task is shown in the foreground. If it continues, Step is to be called with
// the batch. What was sent before the end, a removal for instance, is still done; --rm
// leaves the removal of a task in the foreground to the process that shows it.
func (t *Task) Rest(d TaskDecision, arrived []lifecycle.Event, foreground bool) (batch []lifecycle.Event, end End) {
	switch {
	case d.AutoRemove && !foreground:
		t.removalAsked = true
		return slices.Insert(arrived, 0, lifecycle.Event(lifecycle.RemoveRequested{By: "--rm"})), Continue
	case d.State.Goal == lifecycle.Gone:
		return arrived, Removed
	case len(arrived) > 0:
		return arrived, Continue
	}
	return nil, Stopped
}
