package hostview

import (
	"bufio"
	"compress/flate"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/cli/top"
	"github.com/podtask/podtask/internal/cli/webui"
	"github.com/podtask/podtask/internal/sleep"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/api"
)

// Stream is a connection to a Server. Read returns why it ended.
type Stream interface {
	io.ReadWriteCloser
}

// Host is a host of a View.
type Host struct {
	Name string
	// Open connects to the Server of the host.
	Open func(ctx context.Context) (Stream, error)

	asking sync.Mutex // one writer at a time

	mu      sync.Mutex // guards the fields below
	stream  Stream     // nil while there is no connection
	why     error      // there is none; nil while the first one is made
	changed chan struct{}
	last    int
	pending map[int]chan<- answer
	sample  sample
	busy    chan struct{} // closed when the next sample is there; nil if none is under way
}

// sample is what a host has told about its tasks and services.
type sample struct {
	at       time.Time // zero: nothing yet
	tasks    []top.Task
	services []api.Service
	beside   console.Beside
	// besideErr is the reason for which some of beside is missing.
	besideErr error
	err       error
}

// Times between two connections.
const (
	againFirst = time.Second
	againMost  = 15 * time.Second
)

// keep connects until ctx ends, again and again.
func (h *Host) keep(ctx context.Context) {
	wait := againFirst
	for {
		stream, err := h.Open(ctx)
		if err == nil {
			var used bool
			if used, err = h.use(ctx, stream); used {
				wait = againFirst
			}
			_ = stream.Close()
		}
		h.set(nil, err)
		if !sleep.For(ctx, wait) {
			return
		}
		wait = min(2*wait, againMost)
	}
}

// set stores the connection, or why there is none, and ends the requests of the one before.
func (h *Host) set(s Stream, why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stream, h.why = s, why
	for id, to := range h.pending {
		close(to)
		delete(h.pending, id)
	}
	if h.changed != nil {
		close(h.changed)
		h.changed = nil
	}
}

// use passes answers on until the stream ends. Used is false if the Server has not answered at all.
func (h *Host) use(ctx context.Context, s Stream) (used bool, err error) {
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	lines := bufio.NewScanner(flate.NewReader(bufio.NewReader(s)))
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var a answer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			return used, fmt.Errorf("its podtask answers something else: %w", err)
		}
		if !used {
			used = true
			h.set(s, nil)
			continue
		}
		h.mu.Lock()
		to := h.pending[a.ID]
		if !a.More {
			delete(h.pending, a.ID)
		}
		h.mu.Unlock()
		if to == nil {
			continue
		}
		if a.More && len(a.Result) > maxMore {
			return used, fmt.Errorf("its podtask answers something else: one of several results has more than %d bytes", maxMore)
		}
		select {
		case to <- a: // there is room, or a follower reads
		case <-ctx.Done():
			return used, context.Cause(ctx)
		}
		if !a.More {
			close(to)
		}
	}
	if err := lines.Err(); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return used, err
	}
	return used, errEnded
}

var errEnded = errors.New("its podtask has ended")

// call asks the host about a task or service.
func (h *Host) call(ctx context.Context, call, of string, result any) error {
	return h.request(ctx, request{Call: call, Of: of}, result, nil)
}

// follow asks for several results, which more gets.
func follow[T any](ctx context.Context, h *Host, r request, more func(T) error) error {
	return h.request(ctx, r, nil, func(text json.RawMessage) error {
		var one T
		if err := decode(text, &one); err != nil {
			return err
		}
		return more(one)
	})
}

// request sends a request, whose ID it sets. More gets the answers before the last one; nil for a call that has none.
func (h *Host) request(ctx context.Context, r request, result any, more func(json.RawMessage) error) error {
	id, answers, err := h.ask(r)
	if err != nil {
		return err
	}
	last := false
	defer func() {
		if !last {
			h.cancel(id, answers)
		}
	}()
	for {
		select {
		case a, ok := <-answers:
			last = !ok || !a.More
			switch {
			case !ok:
				return h.down()
			case a.NotFound:
				return webui.ErrNotFound
			case a.Error != "":
				return errors.New(term.Line(a.Error))
			case a.More && more == nil:
				return errors.New("its podtask gives several answers where there is one")
			case a.More:
				if err := more(a.Result); err != nil {
					return err
				}
			case result != nil && len(a.Result) > 0:
				return decode(a.Result, result)
			default:
				return nil
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// down returns why there is no connection.
func (h *Host) down() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.why == nil {
		return fmt.Errorf("%s: connecting", h.Name)
	}
	return fmt.Errorf("%s: %w", h.Name, h.why)
}

func (h *Host) ask(r request) (id int, answers <-chan answer, err error) {
	h.mu.Lock()
	s := h.stream
	if s == nil {
		h.mu.Unlock()
		return 0, nil, h.down()
	}
	if h.pending == nil {
		h.pending = make(map[int]chan<- answer)
	}
	h.last++
	id = h.last
	to := make(chan answer, waiting)
	h.pending[id] = to
	h.mu.Unlock()
	r.ID = id
	return id, to, h.send(s, r)
}

func (h *Host) send(s Stream, r request) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	h.asking.Lock()
	defer h.asking.Unlock()
	if _, err := s.Write(append(text, '\n')); err != nil {
		return h.down()
	}
	return nil
}

// cancel ends a request, and reads what still comes.
func (h *Host) cancel(id int, answers <-chan answer) {
	h.mu.Lock()
	s := h.stream
	h.mu.Unlock()
	if s != nil {
		_ = h.send(s, request{Call: callCancel, Of: strconv.Itoa(id)})
	}
	go func() {
		for range answers { // ends with the answer, or with the connection
		}
	}()
}

// connected waits for the first connection and returns the error if it fails.
func (h *Host) connected(ctx context.Context) error {
	for {
		h.mu.Lock()
		s, why := h.stream, h.why
		if h.changed == nil {
			h.changed = make(chan struct{})
		}
		changed := h.changed
		h.mu.Unlock()
		switch {
		case s != nil:
			return nil
		case why != nil:
			return why
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// refresh begins to take a sample, unless one is under way; the channel is closed when it is there.
func (h *Host) refresh(ctx context.Context, now func() time.Time) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.busy != nil {
		return h.busy
	}
	done := make(chan struct{})
	h.busy = done
	go func() {
		var s sample
		if s.tasks, s.err = list(ctx, h, callTasks, checkTask); s.err == nil {
			s.services, s.err = list(ctx, h, callServices, checkService)
		}
		if s.err == nil {
			s.beside, s.besideErr = h.besides(ctx)
		}
		s.at = now()
		h.mu.Lock()
		defer h.mu.Unlock()
		if s.err != nil { // what it told last stays
			s.tasks, s.services, s.beside = h.sample.tasks, h.sample.services, h.sample.beside
			s.at = h.sample.at
		}
		h.sample, h.busy = s, nil
		close(done)
	}()
	return done
}

// besides asks for schedules and stacks. Those that are known come with an error.
func (h *Host) besides(ctx context.Context) (console.Beside, error) {
	var a besideAnswer
	err := h.call(ctx, callBeside, "", &a)
	switch {
	case err != nil && strings.Contains(err.Error(), unknownCall): // its podtask has none
		err = nil
	case err == nil && a.Problem != "":
		err = errors.New(term.Line(a.Problem))
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", h.Name, err)
	}
	return a.Beside, err
}

// silence is the age from which on a sample counts as old.
const silence = 5 * time.Second

// state returns the latest sample, and why there is no newer one; empty if there is nothing to say.
func (h *Host) state(now time.Time) (s sample, why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s = h.sample
	switch {
	case h.stream == nil && h.why == nil:
		return s, "connecting"
	case h.stream == nil:
		return s, term.Line(h.why.Error()) + "; connecting again"
	case s.err != nil:
		return s, term.Line(s.err.Error())
	case s.at.IsZero():
		return s, "reading its tasks"
	case now.Sub(s.at) > silence && h.busy != nil:
		return s, fmt.Sprintf("it has not answered for %s", now.Sub(s.at).Round(time.Second))
	}
	return s, ""
}
