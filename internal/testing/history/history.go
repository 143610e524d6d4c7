package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// Request is a request about one service or task.
type Request struct {
	// Of is the service, or the client token of the task.
	Of string
	// Do is one of the verbs of the model.
	Do string
	// Value describes a service as one text: its count, definition and grace period.
	Value string
	// Task is the id of the task that a request names.
	Task string
}

// Answer is the answer to a request.
type Answer struct {
	// Lost: there was no answer. The request may have been done.
	Lost bool
	// Refused is the exception of a request that was not done.
	Refused string
	// Status describes the service or the task, Value as in Request, and Task is the ID of a task.
	Status, Value, Task string
	// Down: the task is to be stopped.
	Down bool
}

// never stands for the time of an answer that was lost.
const never = time.Duration(math.MaxInt64)

// event is a request with its answer. Times are since the first request.
type event struct {
	client       int
	call, answer time.Duration
	Request
	Answer
}

// Recorder records requests of clients. It is safe for concurrent use.
type Recorder struct {
	mu     sync.Mutex
	begun  time.Time
	events []event
}

// Do sends a request and records it with its answer. With sent false it did not reach the agent, and nothing is recorded.
func (r *Recorder) Do(client int, q Request, send func() (a Answer, sent bool)) Answer {
	r.mu.Lock()
	if r.begun.IsZero() {
		r.begun = time.Now()
	}
	call := time.Since(r.begun)
	r.mu.Unlock()
	a, sent := send()
	r.mu.Lock()
	defer r.mu.Unlock()
	e := event{client, call, time.Since(r.begun), q, a}
	if a.Lost {
		e.answer = never
	}
	if sent {
		r.events = append(r.events, e)
	}
	return a
}

// Count returns how many requests were recorded, and how many answers were lost.
func (r *Recorder) Count() (all, lost int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Lost {
			lost++
		}
	}
	return len(r.events), lost
}

// State is the state of a service or a task in a model. The zero value is that of one that was never made.
type State struct {
	Status, Value, Task string
	Down                bool
}

// Model returns the state after a request, and whether the agent can have answered so. A lost answer can be any.
type Model func(s State, q Request, a Answer) (State, bool)

// Check returns nil if there is an order of the requests that explains all answers. The error has the requests about one service or
// task up to the first answer that no order explains. It gives up after limit for each of them.
func (r *Recorder) Check(m Model, limit time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := make(map[string][]event)
	for _, e := range r.events {
		of[e.Of] = append(of[e.Of], e)
	}
	for _, events := range of {
		slices.SortFunc(events, func(a, b event) int { return cmp.Compare(a.call, b.call) })
		switch m.check(events, limit) {
		case porcupine.Illegal:
			return m.explain(events, limit)
		case porcupine.Unknown:
			return fmt.Errorf("%s: no order of %d requests was found in %s", events[0].Of, len(events), limit)
		}
	}
	return nil
}

func (m Model) check(events []event, limit time.Duration) porcupine.CheckResult {
	var all []porcupine.Operation
	for _, e := range events {
		all = append(all, porcupine.Operation{ClientId: e.client, Input: e.Request, Output: e.Answer, Call: int64(e.call), Return: int64(e.answer)})
	}
	return porcupine.CheckOperationsTimeout(porcupine.Model{
		Init: func() any { return State{} },
		Step: func(state, q, a any) (bool, any) {
			next, ok := m(state.(State), q.(Request), a.(Answer))
			return ok, next
		},
	}, all, limit)
}

// explain finds the first answer that cannot have been, and lists the requests that were sent until then.
func (m Model) explain(events []event, limit time.Duration) error {
	ends := slices.Clone(events)
	slices.SortFunc(ends, func(a, b event) int { return cmp.Compare(a.answer, b.answer) })
	end := ends[len(ends)-1]
	for _, e := range ends {
		if m.check(until(events, e.answer), limit) == porcupine.Illegal {
			end = e
			break
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: no order of these requests explains the answer at %s:\n", end.Of, short(end.answer))
	for _, e := range until(events, end.answer) {
		mark := ""
		if e.call == end.call && e.client == end.client {
			mark = "   <-- cannot be"
		}
		fmt.Fprintf(&b, "  %10s to %10s  client %d  %s%s\n", short(e.call), short(e.answer), e.client, e, mark)
	}
	return fmt.Errorf("%s", b.String())
}

// until are the events up to a time. What has no answer then has lost it.
func until(events []event, end time.Duration) (some []event) {
	for _, e := range events {
		if e.answer > end {
			e.answer, e.Answer = never, Answer{Lost: true}
		}
		if e.call <= end {
			some = append(some, e)
		}
	}
	return some
}

func short(d time.Duration) string {
	if d == never {
		return "no answer"
	}
	return d.Round(time.Microsecond).String()
}

// String returns a request and its answer for people.
func (e event) String() string {
	text := strings.Join(slices.DeleteFunc([]string{e.Do, e.Request.Value, e.Request.Task}, func(s string) bool { return s == "" }), " ")
	switch {
	case e.Lost:
		return text + ": no answer"
	case e.Refused != "":
		return text + ": " + e.Refused
	}
	answer := []string{e.Status, e.Answer.Value, e.Answer.Task}
	if e.Down {
		answer = append(answer, "to be stopped")
	}
	answer = slices.DeleteFunc(answer, func(s string) bool { return s == "" })
	return text + ": " + cmp.Or(strings.Join(answer, " "), "done")
}
