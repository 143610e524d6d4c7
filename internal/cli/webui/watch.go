package webui

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/cli/top"
	"github.com/podtask/podtask/pkg/api"
)

const (
	// freshness is how old what a page shows may be: windows that ask at the same time share one look at the host.
	freshness = time.Second
	// memory is how long usage is remembered.
	memory = 15 * time.Minute
	// Pace is the time between two looks while no page asks.
	Pace = 5 * time.Second
	// interest is how long usage is measured after the last page was shown.
	interest = 10 * time.Minute
)

// look is what one look at the host has found.
type look struct {
	at       time.Time
	tasks    []top.Task
	services []api.Service
	// servicesProblem explains why there are no services.
	servicesProblem error
	schedules       []console.Schedule
	stacks          []console.Stack
	inStack         top.Stacks
	// besideProblem is the reason for which some schedules or stacks are missing.
	besideProblem error
	host          Host
	// agentLost: an agent ran earlier.
	agentLost bool
}

// sample is the usage of a task at a time.
type sample struct {
	at time.Time
	top.Use
}

// watch looks at the host and remembers what tasks used. It is safe for concurrent use.
type watch struct {
	mu        sync.Mutex // held during a look
	last      *look
	past      map[string][]sample // by the ID of the task, oldest first
	agentSeen bool
	asked     time.Time // by a page
}

// forget has the next page look at the host, as after a change.
func (w *watch) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = nil
}

// look returns what is on the host now, or was a moment ago.
func (s *Server) look(ctx context.Context) (look, error) {
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	s.watch.asked = s.now()
	return s.lookNow(ctx)
}

// lookNow is look without the lock.
func (s *Server) lookNow(ctx context.Context) (look, error) {
	w := &s.watch
	now := s.now()
	if w.last != nil && now.Sub(w.last.at) < freshness {
		return *w.last, nil
	}
	tasks, err := s.source.Tasks(ctx)
	if err != nil {
		return look{}, err
	}
	l := look{at: now, tasks: tasks, host: s.source.Host(ctx)}
	l.services, l.servicesProblem = s.source.Services(ctx)
	beside, err := s.source.Beside(ctx)
	l.schedules, l.stacks, l.inStack, l.besideProblem = beside.Schedules, beside.Stacks, top.NewStacks(beside.Stacks), err
	l.agentLost = w.agentSeen && l.host.Agent == ""
	w.agentSeen = w.agentSeen || l.host.Agent != ""
	past := map[string][]sample{}
	for _, t := range tasks {
		samples := w.past[t.ID]
		for len(samples) > 0 && now.Sub(samples[0].at) > memory {
			samples = samples[1:]
		}
		if t.Use != nil {
			samples = append(samples, sample{now, *t.Use})
		}
		if len(samples) > 0 {
			past[t.ID] = samples
		}
	}
	w.past, w.last = past, &l
	return l, nil
}

// used returns what a task used since a time, oldest first.
func (w *watch) used(id string, since time.Time) []sample {
	w.mu.Lock()
	defer w.mu.Unlock()
	samples := w.past[id]
	for len(samples) > 0 && samples[0].at.Before(since) {
		samples = samples[1:]
	}
	return slices.Clone(samples)
}

// Watch measures what tasks use at each tick, until ctx ends, so that a page that is opened later has a past to show. It rests
// when no page was shown for ten minutes.
func (s *Server) Watch(ctx context.Context, tick <-chan time.Time) {
	for {
		s.watch.mu.Lock()
		if s.watch.asked.IsZero() {
			s.watch.asked = s.now() // the page is about to be opened
		}
		if s.now().Sub(s.watch.asked) < interest {
			_, _ = s.lookNow(ctx) // a page shows the error
		}
		s.watch.mu.Unlock()
		select {
		case <-tick:
		case <-ctx.Done():
			return
		}
	}
}
