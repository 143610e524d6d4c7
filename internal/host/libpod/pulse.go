package libpod

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// A service that is stopped or frozen accepts connections and answers nothing, so that each call
// to it lasts until its own limit, which is minutes for some. It does not even answer a ping.

const (
	// pulseAfter is the time that a call takes before the service is pinged beside it.
	pulseAfter = 3 * time.Second
	// pulseLimit limits the time that the service may take to answer a ping.
	pulseLimit = 7 * time.Second
	// pulsePause is the time between two pings.
	pulsePause = 5 * time.Second
	// lostPulse is the number of pings in a row without an answer after which a service that
	// is not stopped counts as hung for good: it may only be slow.
	lostPulse = 3
)

// pulse notices that the service hangs, and then ends the calls in flight. It pings only while
// a call takes long. It is safe for concurrent use.
type pulse struct {
	log  *slog.Logger // may be nil
	ping func(context.Context) error
	// ending is called after each ping without an answer, with their number in a row. It returns
	// what ends the service, so that the next call starts another one; nil to leave it alone.
	ending func(missed int) (end func())
	// socket names the service in errors.
	socket func() string

	mu     sync.Mutex
	calls  map[*pulseCall]struct{}
	flying bool               // a ping is in flight
	stop   context.CancelFunc // ends it; may be nil
	next   *time.Timer        // the planned ping; may be nil
	missed int                // pings in a row without an answer
	// since is the time of the first ping without an answer; zero if there is none.
	since time.Time
}

// pulseCall is a call in flight.
type pulseCall struct {
	cancel context.CancelCauseFunc
	late   *time.Timer
}

// watch returns the context of a call, which ends when the service hangs. done must be called
// with the error of the call and returns the error to report.
func (p *pulse) watch(ctx context.Context) (watched context.Context, done func(error) error) {
	watched, cancel := context.WithCancelCause(ctx)
	call := &pulseCall{cancel: cancel}
	p.mu.Lock()
	if p.calls == nil {
		p.calls = make(map[*pulseCall]struct{})
	}
	p.calls[call] = struct{}{}
	call.late = time.AfterFunc(pulseAfter, p.begin)
	p.mu.Unlock()
	return watched, func(err error) error {
		p.leave(call)
		var hangs, e *Error
		if errors.As(context.Cause(watched), &hangs) && errors.As(err, &e) && e.Class == Canceled {
			err = &Error{Op: e.Op, Object: e.Object, Class: hangs.Class, Cause: hangs.Cause}
		}
		cancel(nil)
		return err
	}
}

func (p *pulse) leave(call *pulseCall) {
	p.mu.Lock()
	defer p.mu.Unlock()
	call.late.Stop()
	delete(p.calls, call)
	if len(p.calls) > 0 {
		return
	}
	p.since = time.Time{}
	p.unplan()
	if p.stop != nil {
		p.stop()
	}
}

// unplan cancels the planned ping. The caller holds mu.
func (p *pulse) unplan() {
	if p.next != nil {
		p.next.Stop()
		p.next = nil
	}
}

// outageAfter is the time after which the service counts as not responding to a ping.
const outageAfter = time.Second

// outageSince returns since when calls in flight wait for a service that does not answer pings;
// zero if it answers, or nothing waits.
func (p *pulse) outageSince(now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since.IsZero() || now.Sub(p.since) < outageAfter {
		return time.Time{}
	}
	return p.since
}

// Outage is a Podman service that does not answer although calls wait for it.
type Outage struct {
	Socket string
	// Since is the time of the first call without an answer.
	Since time.Time
	// Replaced: podtask has started the service, and replaces it if it stays silent.
	Replaced bool
}

// Outage reports whether calls in flight wait for a service that does not even answer a ping. It
// asks nothing of Podman, and is false while no call takes long.
func (c *Client) Outage() (Outage, bool) {
	since := c.pulse.outageSince(time.Now())
	return Outage{c.service.path(), since, c.service.own()}, !since.IsZero()
}

// begin pings the service unless that is done already, and plans the next ping if calls are
// still in flight then.
func (p *pulse) begin() {
	p.mu.Lock()
	if p.flying || len(p.calls) == 0 {
		p.mu.Unlock()
		return
	}
	p.flying = true
	p.unplan()
	if p.since.IsZero() {
		p.since = time.Now()
	}
	ctx, cancel := context.WithTimeout(context.Background(), pulseLimit)
	p.stop = cancel
	p.mu.Unlock()

	err := p.ping(ctx)
	missed := err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded)
	cancel()
	if missed {
		p.miss()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !missed {
		p.since = time.Time{}
	}
	if err == nil && p.missed > 0 {
		p.missed = 0
		p.tell("Podman's service works again", slog.LevelInfo)
	}
	p.flying, p.stop = false, nil
	if len(p.calls) > 0 {
		p.next = time.AfterFunc(pulsePause, p.begin)
	}
}

// miss ends the calls in flight.
func (p *pulse) miss() {
	p.mu.Lock()
	p.missed++
	missed := p.missed
	p.mu.Unlock()
	hangs := &Error{Class: Unavailable, Cause: hungCause(p.socket())}
	end := p.ending(missed)
	if end != nil {
		hangs.Cause = "Podman's service did not answer for 10 seconds and was ended; the next call starts another one"
		defer end() // after the calls: they would report a connection that broke
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if missed == 1 {
		p.tell(hangs.Cause, slog.LevelWarn)
	}
	if end != nil {
		p.since = time.Time{}
	}
	for call := range p.calls {
		call.cancel(hangs)
	}
}

func (p *pulse) tell(text string, level slog.Level) {
	if p.log != nil {
		p.log.Log(context.Background(), level, text)
	}
}

// hungCause describes a service that hangs at a socket, and the remedy.
func hungCause(socket string) string {
	return fmt.Sprintf("Podman's service at %s has not answered for 10 seconds, and is asked again: if it does not continue, end it "+
		"(systemctl --user kill -s KILL podman.service, unless it was started in another way)", socket)
}

// pingOnce asks the service for a sign of life over a connection of its own. It never starts
// a service.
func (s *service) pingOnce(ctx context.Context) error {
	once := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", s.path())
	}}
	defer once.CloseIdleConnections()
	return ping(ctx, once)
}

// ending returns what ends podtask's own service if it is stopped, or has missed so many pings
// that it is not just slow; nil otherwise.
func (s *service) ending(missed int) (end func()) {
	if !s.own() {
		return nil
	}
	pid := s.pid()
	if pid <= 0 || missed < lostPulse && !stoppedProcess(pid) {
		return nil
	}
	return s.end
}

// stoppedProcess reports whether a signal has stopped a process, or a debugger.
func stoppedProcess(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, found := strings.Cut(string(data[strings.LastIndexByte(string(data), ')')+1:]), " ")
	return found && rest != "" && (rest[0] == 'T' || rest[0] == 't')
}
