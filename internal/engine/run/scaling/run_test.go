package scaling

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/engine/act/observe"
	"github.com/podtask/podtask/internal/engine/run/schedule"
	"github.com/podtask/podtask/internal/engine/run/services"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/scaling"
	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef"
)

// world is a host with one service, whose copies share a load.
type world struct {
	t       *testing.T
	now     time.Time
	service service.State
	gone    bool
	refuse  error
	// load is in percent of a processor, over all copies; used is what each copy has used in microseconds.
	load     float64
	used     map[string]uint64
	requests uint64
	updates  []int
	calendar fixedCalendar
	store    *Store
	// endpoint is the address at which all copies answer.
	endpoint string
}

func (w *world) Dial(ctx context.Context, task lifecycle.State, i int, address string) (net.Conn, error) {
	if task.Task.Containers[i].Name != "app" || address != "127.0.0.1:9090" {
		return nil, fmt.Errorf("a connection to %s of container %d", address, i)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", w.endpoint)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	store, err := Open(t.TempDir(), state.OS{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, now: time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC), store: store, used: map[string]uint64{}}
	w.service = service.State{Name: "web", Status: service.Active, DesiredCount: 1, Deployments: []service.Deployment{{ID: "1", Rollout: service.Completed}}}
	w.copies()
	return w
}

// copies makes as many healthy copies as desired.
func (w *world) copies() {
	w.service.Tasks = nil
	for i := range w.service.DesiredCount {
		w.service.Tasks = append(w.service.Tasks, service.Task{ID: fmt.Sprint(i), Deployment: "1", Phase: service.Live, Seen: service.Observation{Running: true}, HealthyNow: true, HealthySince: w.now})
	}
}

func (w *world) State(string) (service.State, error) {
	if w.gone {
		return service.State{}, services.ErrNoService
	}
	return w.service, nil
}

func (w *world) Update(_ context.Context, _ string, c services.Change) (service.State, error) {
	if w.refuse != nil {
		return w.service, w.refuse
	}
	w.updates = append(w.updates, *c.DesiredCount)
	w.service.DesiredCount = *c.DesiredCount
	w.copies()
	return w.service, nil
}

func (w *world) Task(id string) (lifecycle.State, bool) {
	return lifecycle.State{ID: id, Task: taskdef.Task{CPU: 0.5, Memory: 100, Containers: []taskdef.Container{{Name: "side"}, {Name: "app"}}}}, true
}

func (w *world) Usage(_ context.Context, tasks []lifecycle.State) (all []*observe.Usage, err error) {
	for _, t := range tasks {
		all = append(all, &observe.Usage{At: w.now, Task: cgroups.Usage{CPUUsec: w.used[t.ID], Memory: &cgroups.Memory{Used: 25}}})
	}
	return all, nil
}

func (w *world) Memory() uint64 { return 1000 }

func (w *world) Requests(context.Context) map[string]uint64 {
	return map[string]uint64{"web": w.requests}
}

func (w *world) Connections() map[string]uint64 { return nil }

// fixedCalendar is due at its times.
type fixedCalendar struct {
	times []time.Time
	asked int
}

func (c *fixedCalendar) Check(context.Context, string) error { return nil }

func (c *fixedCalendar) Next(_ context.Context, _ []string, after time.Time) (time.Time, error) {
	c.asked++
	for _, t := range c.times {
		if t.After(after) {
			return t, nil
		}
	}
	return time.Time{}, nil
}

func (c *fixedCalendar) Between(_ context.Context, _ []string, after, until time.Time) (d schedule.Due, err error) {
	for _, t := range c.times {
		if t.After(after) && !t.After(until) {
			d.Latest, d.Count = t, d.Count+1
		}
	}
	return d, nil
}

func (w *world) runner() *Runner {
	r := &Runner{Store: w.store, Services: w, Host: w, Calendar: &w.calendar, Now: func() time.Time { return w.now }, Log: slog.New(slog.DiscardHandler)}
	r.meter, r.clock = meter{host: w}, clock{calendar: &w.calendar}
	return r
}

// run has rounds for a time.
func (w *world) run(r *Runner, d time.Duration) {
	w.t.Helper()
	for end := w.now.Add(d); w.now.Before(end); {
		w.now = w.now.Add(scaling.Interval)
		for _, t := range w.service.Tasks {
			w.used[t.ID] += uint64(w.load / 100 / float64(len(w.service.Tasks)) * float64(scaling.Interval.Microseconds()))
		}
		if err := r.Round(w.t.Context()); err != nil && w.refuse == nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) configure(c scaling.Config) {
	w.t.Helper()
	if _, err := w.store.Configure(w.t.Context(), "web", w.now, func(scaling.Config, bool) (scaling.Config, error) { return c, nil }); err != nil {
		w.t.Fatal(err)
	}
}

var byCPU = scaling.Config{Min: 1, Max: 8, Policies: []scaling.Policy{{Name: "cpu", Metric: scaling.CPU, Target: 50, OutCooldown: time.Minute, InCooldown: time.Minute}}}

// A copy has half a processor: a load of one processor at 50 percent needs four.
func TestCopiesFollowTheLoad(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.configure(byCPU)
	r := w.runner()
	w.load = 100
	w.run(r, 5*scaling.Interval)
	if w.service.DesiredCount != 4 {
		t.Fatalf("%d copies under load", w.service.DesiredCount)
	}
	if v := r.Rows("web")["cpu"]; !v.Known && w.now.IsZero() {
		t.Error("the value is not known")
	}
	w.load = 10
	w.run(r, 20*time.Minute)
	if w.service.DesiredCount != 1 {
		t.Errorf("%d copies at rest", w.service.DesiredCount)
	}
	s, err := w.store.Get("web")
	if err != nil || len(s.Activities) != 2 || s.Activities[0].To != 4 || s.Activities[1].To != 1 {
		t.Errorf("%v, %+v", err, s.Activities)
	}
}

// An agent that was killed begins its rows anew, and neither loses nor repeats a change.
func TestAKilledAgentScalesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.configure(byCPU)
	w.load = 100
	for range 5 {
		w.run(w.runner(), 2*scaling.Interval)
	}
	if len(w.updates) > 0 {
		t.Errorf("it scaled by two samples: %v", w.updates)
	}
	w.run(w.runner(), 5*scaling.Interval)
	w.run(w.runner(), 5*scaling.Interval)
	if w.service.DesiredCount != 4 || len(w.updates) != 1 {
		t.Errorf("%d copies, updates %v", w.service.DesiredCount, w.updates)
	}
}

func TestAChangeThatFailsIsNotedAndTriedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.configure(byCPU)
	r := w.runner()
	w.load, w.refuse = 100, errors.New("Podman is away")
	w.run(r, 5*scaling.Interval)
	s, err := w.store.Get("web")
	if err != nil || len(s.Activities) != 1 || s.Activities[0].Error == "" {
		t.Errorf("%v, %+v", err, s.Activities)
	}
	w.refuse = nil
	w.run(r, 5*scaling.Interval)
	if w.service.DesiredCount != 4 {
		t.Errorf("%d copies", w.service.DesiredCount)
	}
}

func TestARemovedServiceScalesNoMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.configure(byCPU)
	w.gone = true
	w.run(w.runner(), scaling.Interval)
	if _, err := w.store.Get("web"); err == nil {
		t.Error("its record is still there")
	}
}

func TestRequestsForEachCopy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.configure(scaling.Config{Min: 1, Max: 8, Policies: []scaling.Policy{{Name: "requests", Metric: scaling.Requests, Target: 60}}})
	r := w.runner()
	for range 5 {
		w.requests += 100 // in 20 s
		w.run(r, scaling.Interval)
	}
	if w.service.DesiredCount != 5 {
		t.Errorf("%d copies", w.service.DesiredCount)
	}
	w.requests = 0 // the proxy was started again
	w.run(r, scaling.Interval)
	if v := r.Rows("web")["requests"]; v.Known {
		t.Errorf("a count that begins anew has the rate %v", v.Value)
	}
}

// An action changes the bounds once at each of its times, also when the agent was away, and asks the calendar rarely.
func TestActionsAreDueOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	three := 3
	c := scaling.Config{Min: 1, Max: 4, Actions: []scaling.Action{{Name: "morning", Source: "x", Calendar: []string{"x"}, Min: &three}}}
	w.configure(c)
	w.calendar.times = []time.Time{w.now.Add(time.Minute), w.now.Add(24 * time.Hour)}
	r := w.runner()
	w.run(r, 10*time.Minute)
	if w.service.DesiredCount != 3 || w.calendar.asked > 2 {
		t.Errorf("%d copies; the calendar was asked %d times", w.service.DesiredCount, w.calendar.asked)
	}
	w.service.DesiredCount = 4
	w.copies()
	w.run(r, time.Hour)
	if w.service.DesiredCount != 4 {
		t.Error("the action was carried out again")
	}
	w.now = w.now.Add(48 * time.Hour)
	w.run(w.runner(), time.Minute)
	s, err := w.store.Get("web")
	if err != nil || len(s.Activities) != 3 {
		t.Errorf("%v: %+v", err, s.Activities)
	}
}

// A time outside of the bounds of an action passes without effect, and is not asked for again and again.
func TestAnActionOutsideOfItsBounds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	three := 3
	w.calendar.times = []time.Time{w.now.Add(time.Minute)}
	w.configure(scaling.Config{Min: 1, Max: 4, Actions: []scaling.Action{{Name: "later", Source: "x", Calendar: []string{"x"}, Min: &three, Start: w.now.Add(time.Hour)}}})
	w.run(w.runner(), 2*time.Hour)
	if w.service.DesiredCount != 1 || w.calendar.asked > 3 {
		t.Errorf("%d copies; the calendar was asked %d times", w.service.DesiredCount, w.calendar.asked)
	}
}

func TestRunSamplesOnlyWhileThereAreRecords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.runner()
	asked, ticks := make(chan struct{}), make(chan time.Time)
	r.Tick = func(d time.Duration) <-chan time.Time {
		if d != scaling.Interval {
			t.Errorf("a tick of %s", d)
		}
		asked <- struct{}{}
		return ticks
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()
	select {
	case <-asked:
		t.Fatal("it samples without a record")
	default:
	}
	w.configure(byCPU)
	<-asked
	ticks <- w.now
	<-asked
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestTheShareOfACopy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		task        taskdef.Task
		cpu, memory float64
	}{
		"limits":       {taskdef.Task{CPU: 2, Memory: 512}, 2, 512},
		"reservations": {taskdef.Task{Containers: []taskdef.Container{{CPU: 512, MemoryReservation: 100}, {CPU: 1024, Memory: 200}}}, 1.5, 300},
		"nothing":      {taskdef.Task{}, 1, 1000},
	} {
		if cpu, memory := share(lifecycle.State{Task: c.task}, 1000); cpu != c.cpu || memory != c.memory {
			t.Errorf("%s: %v processors, %v bytes", name, cpu, memory)
		}
	}
}

// A clock that is set back by a year, as where it was wrong at a start, holds up neither actions nor changes.
func TestAClockThatIsSetBackHoldsNothingUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	five := 5
	c := byCPU
	c.Actions = []scaling.Action{{Name: "evening", Source: "x", Calendar: []string{"x"}, Min: &five}}
	w.configure(c)
	r := w.runner()
	w.load = 100
	w.run(r, 10*time.Minute)
	w.now = w.now.Add(-365 * 24 * time.Hour)
	w.load = 10
	w.run(r, 20*time.Minute)
	if w.service.DesiredCount != 1 {
		t.Errorf("it has %d copies and did not scale in", w.service.DesiredCount)
	}
	w.calendar.times = []time.Time{w.now.Add(time.Minute)}
	w.run(w.runner(), 5*time.Minute) // the clock of the runner before knows no time
	if w.service.DesiredCount != five {
		t.Errorf("it has %d copies: the action was not carried out", w.service.DesiredCount)
	}
}
