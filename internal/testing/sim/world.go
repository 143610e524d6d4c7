package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/engine/decide/driver"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Budget says how often each kind of unfriendly move may be made.
type Budget struct {
	Faults   int // an operation fails, or a health check does
	Splits   int // an operation acts now and answers later
	Lates    int // an answer is delivered once more
	Exits    int // a container ends by itself
	Vanishes int // a user removes a container from Podman
	Alarms   int // the driver hints at a container that continues
	Requests int // a user asks to stop, kill or remove
	Crashes  int // the owner dies and another one starts
	Reboots  int // the machine does
	Clocks   int // the clock is set back
	Queues   int // there is no room for the task yet
	Outages  int // an operation fails because Podman is away
	Meddles  int // a user pauses, resumes or restarts a container, or kills the infra container
}

// World is a task's state and what is really so. The zero value is of no use;
// New makes one. It is not safe for concurrent use.
type World struct {
	state lifecycle.State
	now   time.Time
	// stepped is the time of the latest step, from which the driver's timer runs.
	stepped time.Time
	truth   []truth
	// pod is what Podman has, the sandbox's phases taken as words for it.
	pod lifecycle.SandboxPhase
	podTruth
	// share is what the task really has of the host: none, asked for or held.
	share   lifecycle.Reservation
	flights []flight
	// late holds answers that may be delivered once more.
	late        []*lifecycle.OpFinished // shared with other worlds
	left, given Budget
	// lasting: Podman was away for longer than an outage may last.
	lasting bool

	trail *trail
	// driver drives the task in a full world, which keeps what is only written down
	// (history, texts, the record). That tells worlds apart that have the same future, so
	// a world that is explored has none, and steps only.
	driver *driver.Task
	// tell, if set, is called after each step, in this world and all that come
	// of it.
	tell func(before, after lifecycle.State, ev lifecycle.Event, effects []lifecycle.Effect)
}

// podTruth is what is so of the pod and its infra container.
type podTruth struct {
	// made: the pod exists, whether or not its infra container runs.
	made bool
	// podRuns is how often the infra container was started, podStarted when, last, since
	// epoch. podKilled: it does not run because a user killed it.
	podRuns    int
	podStarted time.Duration
	podKilled  bool
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// New returns the world in which a valid task has just been submitted.
func New(t taskdef.Task, o lifecycle.Options, b Budget) (w *World, err error) {
	defer catch(&err)
	if err := t.Check(); err != nil {
		return nil, err
	}
	w = blank(t, o, b)
	w.step(lifecycle.Restarted{})
	return w, nil
}

func blank(t taskdef.Task, o lifecycle.Options, b Budget) *World {
	return &World{
		state: lifecycle.New(strings.Repeat("0", 32), "", t, o, epoch),
		now:   epoch,
		truth: make([]truth, len(t.Containers)),
		left:  b, given: b,
		trail: &trail{move: move{verb: submit}},
	}
}

func (w *World) clone() *World {
	n := *w
	n.truth = slices.Clone(w.truth)
	n.flights = slices.Clone(w.flights)
	if w.driver != nil {
		d := *w.driver
		n.driver = &d
	}
	return &n
}

// step delivers an event, takes in the effects and checks the outcome.
func (w *World) step(ev lifecycle.Event) {
	old := w.state
	effects := drive(w, ev)
	w.stepped = w.now
	for i := range w.state.Containers {
		noteHealth(w, i)
	}
	for _, e := range effects {
		w.ask(e)
	}
	checkStep(w, &old)
	if w.tell != nil {
		w.tell(old, w.state, ev, effects)
	}
	if w.driver == nil {
		forget(w)
	}
}

// drive has the driver take in an event, if there is one.
func drive(w *World, ev lifecycle.Event) (effects []lifecycle.Effect) {
	if w.driver == nil {
		w.state, effects = lifecycle.Step(w.state, w.now, ev)
		return effects
	}
	old := w.state
	d, err := w.driver.Step(w.now, []lifecycle.Event{ev})
	if err != nil {
		w.broken(SavedIsAll, "%v", err)
	}
	w.state = d.State
	if news := newReports(&old, &w.state); !slices.Equal(d.Publish, news) {
		w.broken(ReportsOnce, "published are %v, new are %v", d.Publish, news)
	}
	if n := len(d.Publish); n > 0 {
		w.driver.Published(d.Publish[n-1].Seq)
	}
	effects = d.Start
	for _, id := range d.Cancel {
		effects = append(effects, lifecycle.CancelOp{ID: id})
	}
	return effects
}

// newDriver returns the driver of a task whose whole history is published.
func newDriver(s lifecycle.State) *driver.Task {
	published := uint64(0)
	if n := len(s.History); n > 0 {
		published = s.History[n-1].Seq
	}
	return driver.NewTask(s, published, driver.EncodeTask)
}

// forget drops what has no influence on the future.
func forget(w *World) {
	w.state.History = nil
	w.state.Sandbox.Failures = nil
	for i := range w.state.Containers {
		c := &w.state.Containers[i]
		c.Runs = nil
		if len(c.Failures) == 0 {
			continue
		}
		lost := lostImage(c)
		c.Failures = nil
		if lost {
			c.Failures = imageLost
		}
	}
}

var imageLost = []lifecycle.Failure{{Class: lifecycle.NoImage, Tolerated: true}}

func lostImage(c *lifecycle.Container) bool {
	return slices.ContainsFunc(c.Failures, func(f lifecycle.Failure) bool { return f.Class == lifecycle.NoImage })
}

// name is a slot's name in messages.
func (w *World) name(slot int) string {
	if slot == sandbox {
		return "the sandbox"
	}
	return w.state.Task.Containers[slot].Name
}
