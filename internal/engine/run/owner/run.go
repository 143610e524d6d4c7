package owner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/podtask/podtask/internal/engine/act/effects"
	"github.com/podtask/podtask/internal/engine/act/endpoint"
	"github.com/podtask/podtask/internal/engine/act/leftover"
	"github.com/podtask/podtask/internal/engine/act/logdelivery"
	"github.com/podtask/podtask/internal/engine/decide/driver"
	"github.com/podtask/podtask/internal/engine/decide/loop"
	"github.com/podtask/podtask/internal/engine/facts/failpoint"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/facts/taskspec"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/transient"
)

// run carries out what a task's driver decides, during one call of Run.
type run struct {
	owner  *Owner
	all    *Owners
	driver *driver.Task
	ctx    context.Context // of all goroutines; ends with the run

	wg       sync.WaitGroup // other goroutines than jobs
	ops      loop.Jobs[lifecycle.OpID]
	watches  loop.Jobs[driver.Watch]
	endpoint *endpoint.Endpoint
	logs     *logdelivery.Delivery
	limits   atomic.Int64 // how often limits were asked for since applyLimits began; 0: it does not run
	tidy     tidy
	full     bool // the latest record did not fit on the disk
}

// Save implements loop.Actor.
func (r *run) Save(record []byte) error {
	r.all.Fail.At(failpoint.BeforeSave)
	err := r.all.Tasks.Store.Put(r.owner.id, record)
	if errors.Is(err, state.ErrNoSpace) {
		if !r.full { // not at each attempt
			r.all.Log.Error("the disk of the state directory is full or read-only: until it can be written, nothing of the task is started, and what is stopped is not recorded", "task", r.owner.id, "error", err)
		}
		r.full = true
		return transient.Mark(err)
	}
	if err != nil {
		return fmt.Errorf("save task %s: %w", r.owner.id, err)
	}
	if r.full {
		r.full = false
		r.all.Log.Info("the disk of the state directory can be written again", "task", r.owner.id)
	}
	r.all.Fail.At(failpoint.AfterSave)
	return nil
}

// Publish implements loop.Actor. If it fails, the next decision repeats the events.
func (r *run) Publish(ctx context.Context, d driver.TaskDecision) {
	if len(d.Publish) == 0 {
		return
	}
	var entries []json.RawMessage
	for _, t := range d.Publish {
		entries = append(entries, record.EncodeEvent(d.State, t))
	}
	if err := r.all.Events.Append(ctx, entries...); err != nil {
		r.all.Log.Warn("the event log lacks events for now", "task", r.owner.id, "error", err)
		return
	}
	r.driver.Published(d.Publish[len(d.Publish)-1].Seq)
	r.all.Fail.At(failpoint.AfterPublish)
}

// Act implements loop.Actor.
func (r *run) Act(_ context.Context, d driver.TaskDecision) {
	for _, e := range d.Start {
		r.ops.Start(r.ctx, e.Op(), func(ctx context.Context) { r.operate(ctx, d.State, e) })
	}
	for _, id := range d.Cancel {
		r.ops.Cancel(id)
	}
	for _, w := range d.Unwatch {
		r.watches.Cancel(w)
	}
	for _, w := range d.Watch {
		name := watched(d.State, w)
		r.watches.Start(r.ctx, w, func(ctx context.Context) { r.watch(ctx, w, name) })
	}
	switch d.Endpoint {
	case driver.CloseEndpoint:
		r.endpoint.Close()
	case driver.ResumeEndpoint:
		r.wg.Go(func() { r.endpoint.Resume(r.ctx, d.State) })
	}
	if d.ApplyLimits {
		r.requestLimits()
	}
}

// Rest implements loop.Actor.
func (r *run) Rest(d driver.TaskDecision, arrived []lifecycle.Event) ([]lifecycle.Event, driver.End) {
	return r.driver.Rest(d, arrived, d.AutoRemove && r.all.Tasks.InForeground(r.owner.id))
}

// Finish implements loop.Actor. It deletes the record of a task of which nothing is left.
func (r *run) Finish(ctx context.Context, d driver.TaskDecision, end driver.End) error {
	if end != driver.Removed {
		return nil
	}
	if d.RequestSweep {
		if err := r.all.Ledger.RequestSweep(ctx); err != nil {
			r.all.Log.Warn("the next sweep comes when it is due", "error", err)
		}
	}
	r.removeLeftovers(ctx, d.State, true)
	if err := r.removeSecrets(ctx, d.State); err != nil {
		return fmt.Errorf("remove the secrets of task %s: %w", r.owner.id, err)
	}
	r.all.Fail.At(failpoint.BeforeErase)
	if err := r.all.Tasks.Erase(d.State); err != nil {
		return fmt.Errorf("delete the record of task %s: %w", r.owner.id, err)
	}
	r.all.Fail.At(failpoint.AfterErase)
	r.all.Tasks.ForgetForeground(d.State)
	r.all.Logs.Forget(d.State)
	return r.owner.lock.Remove()
}

// operate does an effect and sends the answer.
func (r *run) operate(ctx context.Context, s lifecycle.State, e lifecycle.Effect) {
	began := time.Now()
	r.all.Fail.AtEffect(failpoint.BeforeEffect, e)
	r.tidyBefore(ctx, s, e)
	called := time.Now()
	answer := r.do(ctx, s, e)
	r.noteCutOff(e, answer.Failure, leftover.Window{Began: called, Ended: time.Now()})
	answer.Failure = r.reconsider(ctx, s, e, answer.Failure)
	if r.all.observe != nil {
		r.all.observe(e, time.Since(began), answer.Failure)
	}
	r.all.Fail.AtEffect(failpoint.AfterEffect, e)
	r.all.Log.Debug("operation", "task", s.ID, "effect", fmt.Sprintf("%T%+v", e, e), "took", time.Since(began), "failure", answer.Failure.String())
	r.send(answer)
}

// do does an effect, and the steps of log delivery that go with it.
func (r *run) do(ctx context.Context, s lifecycle.State, e lifecycle.Effect) lifecycle.OpFinished {
	switch e := e.(type) {
	case lifecycle.RemoveSandbox:
		r.logs.Drain(ctx, true)
	case lifecycle.FlushLogs:
		return lifecycle.OpFinished{ID: e.ID, Failure: effects.Failure(r.logs.Flush(ctx, e.Limit))}
	case lifecycle.StartContainer:
		if err := r.all.Logs.Prepare(ctx, s, e.Index); err != nil {
			return lifecycle.OpFinished{ID: e.Op(), Failure: effects.Failure(fmt.Errorf("the log driver in mode blocking: %w", err))}
		}
	}
	return r.all.Runtime.ApplyWith(ctx, r.endpoint, s, e)
}

// watched is the name of the container whose end is watched for; empty for the queue.
func watched(s lifecycle.State, w driver.Watch) string {
	switch w {
	case driver.Queue:
		return ""
	case driver.Infra:
		return libpod.InfraName(taskspec.PodName(s))
	default:
		return taskspec.ContainerName(s, int(w))
	}
}

// watch waits for a change and reports it. It lasts as long as a container runs: so it holds no state of the task.
func (r *run) watch(ctx context.Context, w driver.Watch, name string) {
	if w == driver.Queue {
		err := r.all.Ledger.Follow(ctx, func() { r.send(lifecycle.QueueMoved{}) })
		if ctx.Err() == nil {
			r.all.Log.Info("the queue cannot be watched; the task asks for its turn from time to time", "task", r.owner.id, "error", err)
		}
		return
	}
	r.all.Runtime.WaitEnd(ctx, name)
	if ctx.Err() == nil {
		r.send(lifecycle.Hinted{Index: int(w)})
	}
}

// limitsDeadline bounds one attempt to apply limits.
const limitsDeadline = 20 * time.Second

// requestLimits has the limits of the newest state applied.
func (r *run) requestLimits() {
	if r.limits.Add(1) == 1 { // otherwise a round runs, and another follows it
		r.wg.Go(r.applyLimits)
	}
}

// applyLimits puts the limits of the newest state on the slice until they are those that were asked for last.
func (r *run) applyLimits() {
	for asked := r.limits.Load(); ; asked = r.limits.Load() {
		ctx, cancel := context.WithTimeout(r.ctx, limitsDeadline)
		err := r.all.Slices.Change(ctx, r.owner.State())
		cancel()
		if err != nil && r.ctx.Err() == nil {
			r.all.Log.Warn("the task's limits could not be applied", "task", r.owner.id, "error", err)
		}
		if r.limits.CompareAndSwap(asked, 0) {
			return
		}
	}
}

func (r *run) send(ev lifecycle.Event) { r.owner.loop.Send(r.ctx, ev) }

// Run drives the task until it has settled: stopped, or removed. It returns nil
// then. If ctx ends before, the task is left as it is: containers keep running, and the
// next owner continues.
func (o *Owner) Run(ctx context.Context) error {
	runCtx, cancel := context.WithCancel(ctx)
	r := o.begin(ctx, runCtx)
	defer o.faults.Close()
	defer r.endpoint.Close()
	defer func() {
		cancel()
		r.ops.Wait()
		r.watches.Wait()
		r.wg.Wait()
	}()
	if err := o.loop.Run(ctx, r.driver, r, lifecycle.Restarted{}); err != nil {
		return err
	}
	if o.Latest().Goal != lifecycle.Gone {
		r.logs.Drain(ctx, false)
	}
	return nil
}

// begin prepares a run and starts what runs beside its loop. Copies of the state are on its stack, and none on that of Run.
func (o *Owner) begin(ctx, runCtx context.Context) *run {
	s := o.State()
	r := &run{owner: o, all: o.all, ctx: runCtx, tidy: tidy{doubted: make(map[int]int), began: make(map[int]bool)}}
	r.noteBefore(s, time.Now())
	r.driver = driver.NewTask(s, o.all.Events.LastPublished(ctx, s), driver.EncodeTask)
	r.endpoint = endpoint.New(o.all.Metadata, o, o.faults)
	r.wg.Go(func() { o.faults.Keep(runCtx) })
	sweep := o.all.Ledger.SweepIsDue(ctx)
	r.wg.Go(func() {
		if sweep {
			o.all.Sweep(ctx)
		}
		o.all.Prune(ctx, runCtx)
	})
	if s.Goal == lifecycle.Up && s.Sandbox.PodID == "" { // it takes several round trips to connect, and the slice is wanted soon
		r.wg.Go(func() { _, _ = r.all.Slices.User.Get(runCtx) })
	}
	r.logs = r.all.Logs.Start(runCtx, o, &r.wg)
	return r
}
