package logdelivery

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/engine/facts/failpoint"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/facts/taskspec"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/logs/logfiles"
	"github.com/podtask/podtask/internal/sleep"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

// Deliverer looks after the log files of tasks.
type Deliverer struct {
	Log      *slog.Logger
	Fail     *failpoint.Point
	Settings config.Delivery
	Files    logfiles.Dir
	Locks    *state.Locks // one for each task whose files are looked after
	Podman   func(context.Context) (Podman, error)
	Events   *record.Events
	Senders  Senders

	counts func(Outcome) // nil: nothing does

	mu    sync.Mutex
	later map[string]bool // tasks of Later
}

// Senders makes the senders of containers.
type Senders interface {
	// Sends reports whether the output of container i is sent at all.
	Sends(s lifecycle.State, i int) bool
	// New returns a sender for container i, which was created. Close it if it is an io.Closer.
	New(ctx context.Context, s lifecycle.State, i int) (Sender, error)
	// Prepare makes what must exist before container i starts.
	Prepare(ctx context.Context, s lifecycle.State, i int) error
}

// Podman says where a container's conmon is to be reached.
type Podman interface {
	InspectContainer(ctx context.Context, name string) (libpod.Observed, error)
}

// Task is the state of a task.
type Task interface {
	State() lifecycle.State
	Watch(ctx context.Context, fn func(lifecycle.State) bool) error
}

// Segments are rotated at a quarter of what a log may take, within these bounds.
const (
	smallSegment = 64 << 10
	bigSegment   = 16 << 20
)

// pause is the least time between two looks at the files, so that a container that writes all
// the time does not keep the process busy.
const pause = 200 * time.Millisecond

// Delivery is the work for one task. Start makes it.
type Delivery struct {
	*Deliverer
	task       Task
	id         string
	most       int64 // bytes that the files of a container may take once delivered; 0: no limit
	containers []*container
	sends      bool          // output of a container is sent
	passed     chan struct{} // gets a value when all of a file was sent
	done       chan struct{} // closed when all is delivered, or no more will be
}

// container is one whose files are looked after.
type container struct {
	index int
	name  string // Podman's
	files logfiles.Files
	route *route // nil: its output is not sent
	over  chan struct{}
	sent  chan struct{} // closed when all was sent after its end, or no more will be
	// stop ends the route of a container whose log router has ended for good; nil: there is none.
	stop  context.CancelFunc
	ended bool      // over is closed
	asked time.Time // when conmon was told last to open its file again
	turn  int64     // the segment for which it was told
	deaf  bool      // it did not, and a warning said so
}

// Start looks after the files of a task until ctx ends; wait for the group. It works only
// while no other process does.
func (d *Deliverer) Start(ctx context.Context, t Task, wg *sync.WaitGroup) *Delivery {
	s := t.State()
	a := &Delivery{Deliverer: d, task: t, id: s.ID, most: s.Options.LogSize, passed: make(chan struct{}, 1), done: make(chan struct{})}
	for i, c := range s.Task.Containers {
		if !c.Log.Remote() {
			continue
		}
		one := &container{index: i, name: taskspec.ContainerName(s, i), files: d.Files.Of(s.ID, i), over: make(chan struct{}), sent: make(chan struct{})}
		if d.Senders.Sends(s, i) {
			one.route = newRoute(a, one)
			a.sends = true
		}
		a.containers = append(a.containers, one)
	}
	if len(a.containers) == 0 || s.Settled() && !a.placed() {
		close(a.done)
		return a
	}
	wg.Go(func() {
		defer close(a.done)
		if err := a.locked(ctx); err != nil && ctx.Err() == nil {
			d.Log.Warn("the logs of the task are not looked after", "task", s.ID, "error", err)
		}
	})
	return a
}

// placed reports whether there is a file.
func (a *Delivery) placed() bool {
	for _, c := range a.containers {
		if c.files.Placed() {
			return true
		}
	}
	return false
}

// locked does the work with the lock of the task's files.
func (a *Delivery) locked(ctx context.Context) error {
	if err := os.MkdirAll(a.Files.Task(a.id), 0o700); err != nil {
		return err
	}
	lock, err := a.Locks.LockWait(ctx, a.id)
	if err != nil {
		return err
	}
	defer a.release(lock)
	a.run(ctx)
	return nil
}

// release removes the lock of a task whose files were removed.
func (a *Delivery) release(lock *state.Lock) {
	if _, err := os.Stat(a.Files.Task(a.id)); errors.Is(err, fs.ErrNotExist) {
		_ = lock.Remove()
		return
	}
	_ = lock.Unlock()
}

// Forget removes the lock of a task whose files were removed, unless a delivery that is about
// to end holds it and does so.
func (d *Deliverer) Forget(s lifecycle.State) {
	if !slices.ContainsFunc(s.Task.Containers, func(c taskdef.Container) bool { return c.Log.Remote() }) {
		return
	}
	if lock, err := d.Locks.Lock(s.ID); err == nil {
		_ = lock.Remove()
	}
}

// run works until ctx ends, or the task has settled and all was delivered.
func (a *Delivery) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var routes, others sync.WaitGroup
	changes := a.Files.Watch(a.id)
	for _, c := range a.containers {
		if c.route == nil {
			continue
		}
		c.route.load()
		ctx, stop := context.WithCancel(ctx)
		c.stop = stop
		routes.Go(func() {
			defer close(c.sent)
			defer stop()
			c.route.run(ctx)
		})
	}
	others.Go(func() {
		_ = a.task.Watch(ctx, a.observe)
		a.observe(a.task.State())
	})
	others.Go(func() { a.follow(ctx, changes) })
	for _, c := range a.containers {
		select {
		case <-c.over:
		case <-ctx.Done():
		}
	}
	routes.Wait()
	cancel()
	others.Wait()
	changes.Close()
	for _, c := range a.containers {
		_ = a.prune(ctx, c) // the next look tells
	}
}

// follow rotates and prunes files, and wakes routes, when files have changed or were sent.
func (a *Delivery) follow(ctx context.Context, changes *logfiles.Changes) {
	for ctx.Err() == nil {
		for _, c := range a.containers {
			a.rotate(ctx, c)
			if c.route != nil {
				c.route.wake()
			}
		}
		sleep.For(ctx, pause)
		changes.AwaitOr(ctx, a.passed)
	}
}

// observe ends the unfinished lines of containers that have ended, and the routes to a log router
// that has.
func (a *Delivery) observe(s lifecycle.State) bool {
	router := taskdef.RouterOf(s.Task, s.Options.Logs)
	for _, c := range a.containers {
		if router >= 0 && (s.Containers[router].Ended || s.Settled()) && c.stop != nil && taskdef.RoutedBy(s.Task, router, c.index) {
			c.stop()
		}
		if c.ended || !s.Containers[c.index].Ended && !s.Settled() {
			continue
		}
		if err := c.files.Seal(time.Now()); err != nil {
			a.Log.Warn("an unfinished line stays unfinished", "container", c.name, "error", err)
		}
		c.ended = true
		close(c.over)
	}
	return !s.Settled()
}

// segmentSize is the size at which a file is rotated.
func (a *Delivery) segmentSize() int64 {
	if a.most <= 0 {
		return bigSegment
	}
	return min(max(a.most/4, smallSegment), bigSegment)
}

// rotate does what is due for the files of a container.
func (a *Delivery) rotate(ctx context.Context, c *container) {
	pending, err := c.files.Rotate(a.segmentSize(), func(segment int64) error { return a.reopen(ctx, c, segment) })
	if errors.Is(err, fs.ErrNotExist) || ctx.Err() != nil {
		return // it was not created yet, or is being removed
	}
	if !pending && err == nil {
		c.deaf = false
	}
	if err == nil {
		err = a.prune(ctx, c)
	}
	if err != nil && !c.deaf {
		c.deaf = true
		a.Log.Warn("the log of a container cannot be rotated; it grows until it can", "container", c.name, "error", err)
	}
}

// prune removes what was delivered and is beyond the limit, and gives up the oldest of what
// waits when too much does.
func (a *Delivery) prune(ctx context.Context, c *container) error {
	if c.route == nil {
		_, err := c.files.Prune(a.most, func(logfiles.Segment) bool { return true })
		return err
	}
	delivered := c.route.position().First().Segment
	if _, err := c.files.Prune(a.most, func(s logfiles.Segment) bool { return s.Number < delivered }); err != nil || a.most <= 0 {
		return err
	}
	lost, err := c.files.Prune(a.most+a.Settings.Backlog, func(logfiles.Segment) bool { return true })
	c.route.giveUp(ctx, lost)
	return err
}

// patience is how long conmon may take to open its file again before it is told once more.
const patience = 5 * time.Second

// reopen tells conmon to leave the file of a segment: once for each, and again if it does not.
func (a *Delivery) reopen(ctx context.Context, c *container, segment int64) error {
	a.Fail.At(failpoint.LogLinked)
	if segment == c.turn && time.Since(c.asked) < patience {
		return nil
	}
	podman, err := a.Podman(ctx)
	if err != nil {
		return err
	}
	seen, err := podman.InspectContainer(ctx, c.name)
	if err != nil || seen.Status != libpod.Running {
		return err // the next run continues with the file that has two names
	}
	c.asked, c.turn = time.Now(), segment
	if err := logfiles.Reopen(seen.Control); err != nil {
		return err
	}
	a.Fail.At(failpoint.LogReopened)
	return nil
}

// Drain waits until all was sent of what the containers wrote, at most as long as the
// configuration says, and tells what is left. It is called when the containers have ended.
// With lost, what is left is given up, and a server that cannot be reached is not waited for again
// if it had its time after the end of the task.
func (a *Delivery) Drain(ctx context.Context, lost bool) {
	most := a.Settings.Drain
	switch {
	case !a.sends && !lost:
		return
	case !a.sends:
		most = min(most, patience) // nothing may be made again once it was removed
	}
	limit := time.NewTimer(most)
	defer limit.Stop()
	s := a.task.State()
	ended := s.StoppedAt()
	had := lost && !ended.IsZero() && time.Since(ended) >= a.Settings.Drain
	if !a.await(ctx, limit.C, had) {
		return
	}
	router := taskdef.RouterOf(s.Task, s.Options.Logs)
	for _, c := range a.containers {
		if c.route != nil {
			c.route.tellLeft(ctx, lost, taskdef.RoutedBy(s.Task, router, c.index))
		}
	}
}

// await waits until all was sent, or for the limit. With giveUp, it stops waiting as soon as the servers
// of all that is left cannot be reached. It returns false if ctx has ended.
func (a *Delivery) await(ctx context.Context, limit <-chan time.Time, giveUp bool) bool {
	unreachable := make(chan struct{})
	if giveUp {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			if a.onlyUnreachable(ctx) {
				close(unreachable)
			}
		}()
	}
	select {
	case <-a.done:
	case <-unreachable:
	case <-limit:
	case <-ctx.Done():
		return false
	}
	return true
}

// onlyUnreachable waits until each route has sent all or has a server that cannot be reached. It is
// false if there is none of the latter, or ctx has ended.
func (a *Delivery) onlyUnreachable(ctx context.Context) (some bool) {
	for _, c := range a.containers {
		if c.route == nil {
			continue
		}
		select {
		case <-c.sent:
		case <-c.route.unreachable:
			some = true
		case <-ctx.Done():
			return false
		}
	}
	return some
}

// Flush waits until the log router of the task has taken the lines of the containers that log to
// it, at most as long as limit. They have ended. It returns an error only if ctx ended.
func (a *Delivery) Flush(ctx context.Context, limit time.Duration) error {
	s := a.task.State()
	router := taskdef.RouterOf(s.Task, s.Options.Logs)
	late := time.NewTimer(limit)
	defer late.Stop()
	for _, c := range a.containers {
		if c.route == nil || !taskdef.RoutedBy(s.Task, router, c.index) {
			continue
		}
		select {
		case <-c.sent:
		case <-a.done:
		case <-late.C:
			a.Log.Warn("the log router is stopped before it has taken all lines", "task", s.ID, "container", c.name)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Prepare makes what must exist before container i of a task starts, if its definition wants
// that (mode blocking).
func (d *Deliverer) Prepare(ctx context.Context, s lifecycle.State, i int) error {
	if c := s.Task.Containers[i]; !c.Log.Remote() || c.Log.Options["mode"] != "blocking" || !d.Senders.Sends(s, i) {
		return nil
	}
	return d.Senders.Prepare(ctx, s, i)
}

// Later delivers what is left of a task that has settled, in a group that the caller waits for
// after it has ended ctx.
func (d *Deliverer) Later(ctx context.Context, s lifecycle.State, wg *sync.WaitGroup) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.later[s.ID] || !d.leftOf(s) {
		return
	}
	if d.later == nil {
		d.later = make(map[string]bool)
	}
	d.later[s.ID] = true
	a := d.Start(ctx, settled{s}, wg)
	wg.Go(func() {
		<-a.done
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.later, s.ID)
	})
}

// leftOf reports whether output of a task is still to be sent.
func (d *Deliverer) leftOf(s lifecycle.State) bool {
	for i, c := range s.Task.Containers {
		if !c.Log.Remote() || c.Log.Driver == logdriver.FireLens || !d.Senders.Sends(s, i) {
			continue
		}
		files := d.Files.Of(s.ID, i)
		r, _ := files.Load()
		if left, err := files.Waiting(r.Position); err == nil && left > 0 {
			return true
		}
	}
	return false
}

// settled is a task that has no owner because nothing is left to decide.
type settled struct{ s lifecycle.State }

// State implements Task.
func (t settled) State() lifecycle.State { return t.s }

// Watch implements Task.
func (t settled) Watch(_ context.Context, fn func(lifecycle.State) bool) error {
	fn(t.s)
	return nil
}
