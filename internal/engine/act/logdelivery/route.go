package logdelivery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/engine/facts/failpoint"
	"github.com/podtask/podtask/internal/logs/logfiles"
	"github.com/podtask/podtask/internal/logs/logroute"
	"github.com/podtask/podtask/internal/sleep"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Sender delivers lines to a server. One goroutine at a time uses it.
type Sender interface {
	// Add takes in a line. It is called only while not Full.
	Add(logroute.Entry)
	Full() bool
	// Settle ends what waits for more lines and was begun before a time, and reports whether
	// anything still waits.
	Settle(before time.Time) (waits bool)
	// Send delivers a part of the lines and returns when the server has acknowledged it. It
	// has not moved when there was nothing left. After an error, a *logroute.SendError, the
	// lines are still there.
	Send(ctx context.Context) (logroute.Sent, error)
	Limits() logroute.Limits
}

// The events of a route.
const (
	eventStalled = "LOGS_STALLED"
	eventResumed = "LOGS_RESUMED"
	eventLost    = "LOGS_LOST"
)

// route sends the output of one container.
type route struct {
	delivery  *Delivery
	container *container
	sender    Sender
	awake     chan struct{}
	reader    *logfiles.Reader
	damaged   int64     // of reader, which were counted
	waiting   time.Time // since when the sender has lines; zero: it has none

	mu       sync.Mutex
	saved    logfiles.Route
	skip     int64 // segments before this one were given up
	failures int   // in a row
	stalled  bool  // an event said so
	// unreachable is closed when the server has failed to take anything several times in a row.
	unreachable     chan struct{}
	markUnreachable func()
}

func newRoute(a *Delivery, c *container) *route {
	unreachable := make(chan struct{})
	return &route{
		delivery: a, container: c, awake: make(chan struct{}, 1),
		unreachable: unreachable, markUnreachable: sync.OnceFunc(func() { close(unreachable) }),
	}
}

// load reads the position, once no other process changes it.
func (r *route) load() {
	saved, err := r.container.files.Load()
	if err != nil {
		r.delivery.Log.Warn("the output is sent again from the oldest that is there", "container", r.container.name, "error", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.saved = saved
}

// wake tells that there may be more to read.
func (r *route) wake() {
	select {
	case r.awake <- struct{}{}:
	default:
	}
}

// position is where delivery continues.
func (r *route) position() logroute.Position {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.saved.Position
}

// run sends until ctx ends, or the container has ended and all was sent.
func (r *route) run(ctx context.Context) {
	if !r.first(ctx) || !r.openSender(ctx) {
		return
	}
	if c, ok := r.sender.(io.Closer); ok {
		defer c.Close()
	}
	r.reader = r.container.files.Reader(r.position(), r.sender.Limits().LineBytes)
	defer func() { r.reader.Close() }()
	for ctx.Err() == nil && r.container.files.Placed() {
		over := closed(r.container.over) // before it is read to its end
		if err := r.fill(over); err != nil {
			r.delivery.Log.Warn("the log cannot be read", "container", r.container.name, "error", err)
			r.wait(ctx, time.Minute)
			continue
		}
		if left := r.due(over); left != 0 {
			r.wait(ctx, left)
			continue
		}
		waits := !r.sender.Full() && r.settle(over)
		switch moved := r.send(ctx); {
		case moved:
		case over:
			return
		case waits:
			r.waiting = time.Now()
		default:
			r.waiting = time.Time{}
		}
	}
}

// first waits for output, and is false if there will be none.
func (r *route) first(ctx context.Context) bool {
	for ctx.Err() == nil {
		over := closed(r.container.over)
		if left, err := r.container.files.Waiting(r.position()); err == nil && left > 0 {
			return true
		}
		if over {
			return false
		}
		r.wait(ctx, never)
	}
	return false
}

// openSender makes the sender of the route, trying again after errors. It returns false if ctx ends first.
func (r *route) openSender(ctx context.Context) bool {
	for ctx.Err() == nil {
		sender, err := r.delivery.Senders.New(ctx, r.delivery.task.State(), r.container.index)
		if err == nil {
			r.sender = sender
			return true
		}
		r.failed(ctx, err)
	}
	return false
}

// never is a wait without a limit.
const never = -1

// due is how long lines wait for others; 0: they are to be sent.
func (r *route) due(over bool) time.Duration {
	switch {
	case over, r.sender.Full():
		return 0
	case r.waiting.IsZero():
		return never
	}
	return max(0, r.sender.Limits().Wait-time.Since(r.waiting))
}

func closed(over <-chan struct{}) bool {
	select {
	case <-over:
		return true
	default:
		return false
	}
}

// settle ends what waits for more lines: all of it if there will be none.
func (r *route) settle(over bool) (waits bool) {
	before := time.Now().Add(-r.sender.Limits().Wait)
	if over {
		before = time.Unix(1<<40, 0)
	}
	return r.sender.Settle(before)
}

// fill reads until the sender has enough or there is no more.
func (r *route) fill(over bool) error {
	r.mu.Lock()
	skip := r.skip
	r.skip = 0
	r.mu.Unlock()
	if skip > 0 {
		r.reader.Close()
		mark := logroute.Mark{Segment: skip}
		r.reader, r.damaged = r.container.files.Reader(logroute.Position{mark, mark}, r.sender.Limits().LineBytes), 0
	}
	for !r.sender.Full() {
		e, err := r.reader.Next()
		switch {
		case err == io.EOF && over:
			for _, e := range r.reader.Rest() {
				r.sender.Add(e)
			}
			return nil
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		r.sender.Add(e)
		if r.waiting.IsZero() {
			r.waiting = time.Now()
		}
	}
	return nil
}

// wait returns when there may be more to do, at the latest after limit.
func (r *route) wait(ctx context.Context, limit time.Duration) {
	var late <-chan time.Time
	if limit > 0 {
		t := time.NewTimer(limit)
		defer t.Stop()
		late = t.C
	}
	over := r.container.over
	if closed(over) {
		over = nil
	}
	select {
	case <-r.awake:
	case <-over:
	case <-late:
	case <-ctx.Done():
	}
}

// lastAnswer limits the time that an answer may take when the process ends, so that what was sent is not
// sent again by the next one.
const lastAnswer = 3 * time.Second

// send sends once, and waits after an error. Moved is false when there was nothing to send.
func (r *route) send(ctx context.Context) (moved bool) {
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastAnswer, cancel) })()
	sent, err := r.sender.Send(sending)
	switch {
	case err != nil && sending.Err() != nil:
		return true
	case err != nil:
		r.failed(ctx, err)
		return true
	case !sent.Moved:
		return false
	}
	r.delivery.Fail.At(failpoint.LogAcknowledged)
	if err := r.acknowledged(ctx, sent); err != nil {
		r.delivery.Log.Warn("the position of a log is not saved; after a crash, output is sent again", "container", r.container.name, "error", err)
	}
	r.delivery.Fail.At(failpoint.LogPosition)
	return true
}

// acknowledged moves the position.
func (r *route) acknowledged(ctx context.Context, sent logroute.Sent) error {
	damaged := r.reader.Damaged - r.damaged
	r.damaged += damaged
	r.mu.Lock()
	defer r.mu.Unlock()
	r.delivery.tellPassed(r.saved.Position, sent)
	r.saved.Position = sent.Next
	if !sent.Until.IsZero() {
		r.saved.Until = sent.Until
	}
	r.saved.LostLines += sent.Lost + damaged
	r.delivery.count(r.container, Outcome{Lines: sent.Lines, Bytes: sent.Bytes, LostLines: sent.Lost + damaged})
	if r.saved.Error != "" {
		r.saved.Error, r.saved.Since = "", time.Time{}
	}
	r.failures = 0
	if r.stalled {
		r.stalled = false
		r.note(ctx, eventResumed, "")
	}
	if sent.Lost > 0 {
		r.note(ctx, eventLost, fmt.Sprintf("%d lines: %s", sent.Lost, sent.Why))
	}
	if damaged > 0 {
		r.note(ctx, eventLost, fmt.Sprintf("%d damaged lines of the log file", damaged))
	}
	return r.container.files.Save(r.saved)
}

// tellPassed has files pruned once all of one was sent.
func (a *Delivery) tellPassed(from logroute.Position, sent logroute.Sent) {
	if sent.Next.First().Segment == from.First().Segment {
		return
	}
	select {
	case a.passed <- struct{}{}:
	default:
	}
}

// The pauses after failures in a row.
const (
	firstPause  = time.Second
	longestWait = time.Minute
)

// maxError limits the bytes of an error, which may quote a log server.
const maxError = 500

// brief is an error as one line for the state of a route, events and the log.
func brief(err error) string {
	text := term.Line(err.Error())
	return strings.ToValidUTF8(text[:min(len(text), maxError)], "")
}

// failed notes an error and waits before the next attempt.
func (r *route) failed(ctx context.Context, err error) {
	wait := time.Duration(0)
	if failed, ok := errors.AsType[*logroute.SendError](err); ok {
		wait = failed.Pause
	}
	r.mu.Lock()
	r.failures++
	n := r.failures
	text := brief(err)
	if wait == 0 || wait > firstPause {
		if r.saved.Error == "" {
			r.saved.Since = time.Now().UTC()
		}
		if changed := r.saved.Error != text; changed {
			r.saved.Error = text
			_ = r.container.files.Save(r.saved) // it is for users
		}
		if !r.stalled && (wait > 0 || n > 2) {
			r.stalled = true
			r.markUnreachable()
			debug.FreeOSMemory() // what the attempts took, with those of the other routes
			r.note(ctx, eventStalled, text)
			r.delivery.Log.Warn("the output of a container waits to be sent", "container", r.container.name, "error", text)
		}
	}
	r.mu.Unlock()
	if wait == 0 {
		wait = min(firstPause<<min(n-1, 10), longestWait)
		wait = wait/2 + rand.N(wait)
	}
	sleep.For(ctx, wait)
}

// note adds an event.
func (r *route) note(ctx context.Context, status, reason string) {
	s := r.delivery.task.State()
	r.delivery.Events.Note(context.WithoutCancel(ctx), s, lifecycle.Transition{
		At: time.Now().UTC(), Container: s.Task.Containers[r.container.index].Name, Status: status, Reason: reason,
	})
}

// giveUp continues behind segments that were removed before they were sent.
func (r *route) giveUp(ctx context.Context, lost []logfiles.Segment) {
	if len(lost) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var bytes int64
	from := r.saved.Position.First()
	for _, s := range lost {
		bytes += s.Size
		if s.Number == from.Segment {
			bytes -= min(from.Offset, s.Size)
		}
		r.skip = s.Number + 1
	}
	r.saved.LostBytes += bytes
	r.delivery.count(r.container, Outcome{LostBytes: bytes})
	_ = r.container.files.Save(r.saved) // the next batch saves it too
	r.note(ctx, eventLost, fmt.Sprintf("%d bytes: more than log-backlog waited to be sent", bytes))
}

// routerEnded explains why the rest of the lines cannot be sent any more.
const routerEnded = "the log router has ended"

// tellLeft says what was not sent. With lost, or where it was for a log router that has ended, it
// is counted as lost, once.
func (r *route) tellLeft(ctx context.Context, lost, routed bool) {
	saved, _ := r.container.files.Load() // a damaged one is that of the beginning
	left, err := r.container.files.Waiting(saved.Position)
	if err != nil || left == 0 {
		return
	}
	if routed {
		saved.Error, saved.Since = routerEnded, time.Now().UTC()
		saved.LostBytes += left
		if end, err := logfiles.End(r.container.files); err == nil {
			saved.Position = end
		}
		_ = r.container.files.Save(saved)
		r.delivery.count(r.container, Outcome{LostBytes: left})
		r.note(ctx, eventLost, fmt.Sprintf("%d bytes: %s", left, routerEnded))
		r.delivery.Log.Warn("not all output of a container reached the log router", "container", r.container.name, "bytes", left)
		return
	}
	why := saved.Error
	if why == "" {
		why = "there was not enough time"
	}
	if lost {
		r.delivery.count(r.container, Outcome{LostBytes: left})
		r.note(ctx, eventLost, fmt.Sprintf("%d bytes, removed with the task: %s", left, why))
		r.delivery.Log.Warn("the task is removed before all output of a container was sent", "container", r.container.name, "bytes", left, "error", why)
		return
	}
	r.delivery.Log.Warn("not all output of a container was sent; an agent continues with it", "container", r.container.name, "bytes", left, "error", why)
}
