package hostview

import (
	"compress/flate"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/podtask/podtask/internal/cli/top"
	"github.com/podtask/podtask/internal/cli/webui"
)

// Serve answers requests until in ends or ctx does.
func Serve(ctx context.Context, in io.Reader, out io.Writer, b Backend) error {
	compressed, err := flate.NewWriter(out, flate.BestSpeed)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &server{backend: b, out: compressed, running: make(map[int]context.CancelFunc), failed: cancel}
	defer s.wg.Wait()
	defer cancel()
	s.write(answer{})
	requests := json.NewDecoder(in)
	for ctx.Err() == nil {
		var r request
		if err := requests.Decode(&r); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("read a request: %w", err)
		}
		s.begin(ctx, r)
	}
	return context.Cause(ctx)
}

type server struct {
	backend Backend
	failed  func() // the other end is gone
	wg      sync.WaitGroup

	writing sync.Mutex
	out     *flate.Writer

	mu      sync.Mutex // guards running
	running map[int]context.CancelFunc
}

func (s *server) write(a answer) {
	text, err := json.Marshal(a)
	if err != nil {
		text, _ = json.Marshal(answer{ID: a.ID, Error: err.Error()})
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	_, err = s.out.Write(append(text, '\n'))
	if err = errors.Join(err, s.out.Flush()); err != nil {
		s.failed()
	}
}

// begin starts the work at a request, or ends that at an earlier one.
func (s *server) begin(ctx context.Context, r request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Call == callCancel {
		id, _ := strconv.Atoi(r.Of)
		if cancel := s.running[id]; cancel != nil {
			cancel()
		}
		return
	}
	if _, twice := s.running[r.ID]; twice || len(s.running) >= maxRequests {
		s.wg.Go(func() { s.write(answer{ID: r.ID, Error: "too many requests at once"}) })
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	s.running[r.ID] = cancel
	s.wg.Go(func() {
		a := s.answer(ctx, r)
		s.mu.Lock()
		delete(s.running, r.ID)
		s.mu.Unlock()
		cancel()
		s.write(a)
	})
}

func (s *server) answer(ctx context.Context, r request) answer {
	result, err := s.do(ctx, r)
	a := answer{ID: r.ID}
	if err == nil && result != nil {
		a.Result, err = json.Marshal(result)
	}
	if err != nil {
		a.Error, a.NotFound = err.Error(), errors.Is(err, webui.ErrNotFound)
	}
	return a
}

func (s *server) do(ctx context.Context, r request) (result any, err error) {
	switch r.Call {
	case callTasks:
		return s.backend.Tasks(ctx)
	case callServices:
		return s.backend.Services(ctx)
	case callBeside:
		return s.beside(ctx)
	case callExplain:
		return s.backend.Explain(ctx, r.Of)
	case callLines:
		return nil, s.lines(ctx, r)
	case callHost:
		return s.backend.Host(ctx), nil
	case callFollow:
		return nil, s.follow(ctx, r)
	case callStop:
		return nil, s.backend.Stop(ctx, r.Of)
	case callRestart:
		return nil, s.backend.Restart(ctx, r.Of)
	case callContinue:
		return nil, s.backend.Continue(ctx, r.Of)
	case callRollback:
		return nil, s.backend.Rollback(ctx, r.Of)
	}
	return nil, fmt.Errorf("%s %q", unknownCall, r.Call)
}

// beside lists what is known of schedules and stacks, with the reason for which some are missing.
func (s *server) beside(ctx context.Context) (result any, err error) {
	known, err := s.backend.Beside(ctx)
	if err == nil || len(known.Schedules)+len(known.Stacks) == 0 {
		return known, err
	}
	return besideAnswer{known, err.Error()}, nil
}

// unknownCall begins the error for a call that a Server does not know, which an earlier version is.
const unknownCall = "podtask of this host does not know the request"

func (s *server) follow(ctx context.Context, r request) error {
	return s.backend.Follow(ctx, r.Of, func(l top.Line) error { return s.more(ctx, r, l) })
}

func (s *server) lines(ctx context.Context, r request) error {
	if r.Lines == nil {
		return errors.New("the request does not say which lines")
	}
	return s.backend.Lines(ctx, r.Of, *r.Lines, func(l webui.Line) error { return s.more(ctx, r, l) })
}

// more writes one of several results.
func (s *server) more(ctx context.Context, r request, result any) error {
	text, err := json.Marshal(result)
	if err != nil {
		return err
	}
	s.write(answer{ID: r.ID, Result: text, More: true})
	return ctx.Err()
}
