package driver

import (
	"bytes"
	"fmt"
	"slices"
	"time"
)

// Outcome is what every loop needs to know of a decision.
type Outcome[S any] struct {
	State S
	// Record is to be saved before anything else is done; nil: the last one is still valid.
	Record []byte
	// Timer is the time at which Tick is due; zero for never.
	Timer time.Time
	// Settled: nothing is left to do, so Rest decides what follows.
	Settled bool
	// Lowers: the decision only ends things, so it may be carried out although Record
	// cannot be saved. If the process is killed before a record is saved, its successor
	// starts from the last one.
	Lowers bool
	// Erases: Settled, and the record is to be deleted, so it need not be saved before.
	Erases bool
}

// Decision is what follows from a batch of events.
type Decision[S, F any, K comparable] struct {
	// State is the new state, and At the time of the step that led to it.
	State S
	At    time.Time
	// Record is the durable part of the state; nil when it has not changed.
	Record []byte
	// Start are the effects to start.
	Start []F
	// Watch are the watches to begin, and Unwatch those to end.
	Watch, Unwatch []K
	// Wake is the time at which the state wants to hear that time has passed; zero for never.
	Wake time.Time
	// Settled: nothing is left to do.
	Settled bool
}

// Outcome is what every loop needs to know of the decision.
func (d Decision[S, F, K]) Outcome() Outcome[S] {
	return Outcome[S]{State: d.State, Record: d.Record, Timer: d.Wake, Settled: d.Settled}
}

// End says whether a settled driver is done.
type End uint8

// The ends.
const (
	Continue End = iota // Step is to be called again, at once
	Stopped             // done; the record stays
	Removed             // done; the record is to be deleted, nothing else is left
)

// rules describe a state machine.
type rules[S, E, F any, K comparable] struct {
	step    func(S, time.Time, E) (S, []F)
	encode  func(S) ([]byte, error) // the durable part; nil: there are no records
	watches func(S) []K
	wake    func(S, time.Time) time.Time
	settled func(S) bool
	// annul takes effects out that were canceled by others of the same batch, and returns
	// the events that answer them; nil: none can be.
	annul func(effects []F) (left []F, answers []E)
}

// machine steps a state machine. A copy of it is independent.
type machine[S, E, F any, K comparable] struct {
	rules   *rules[S, E, F, K]
	state   S
	saved   []byte
	watched []K // never changed in place
}

// step takes in a batch of events, for which one save serves.
func (m *machine[S, E, F, K]) step(at time.Time, batch []E) (Decision[S, F, K], error) {
	d := Decision[S, F, K]{State: m.state, At: at}
	for len(batch) > 0 {
		for _, ev := range batch {
			var effects []F
			d.State, effects = m.rules.step(d.State, at, ev)
			d.Start = append(d.Start, effects...)
		}
		batch = nil
		if m.rules.annul != nil {
			d.Start, batch = m.rules.annul(d.Start)
		}
	}
	if m.rules.encode != nil {
		record, err := m.rules.encode(d.State)
		if err != nil {
			return d, fmt.Errorf("encode the record: %w", err)
		}
		if !bytes.Equal(record, m.saved) {
			d.Record, m.saved = record, record
		}
	}
	m.state = d.State
	d.Watch, d.Unwatch = m.watch(m.rules.watches(d.State))
	// Counted from the step: what becomes due during a long save is not lost.
	d.Wake = m.rules.wake(d.State, at)
	d.Settled = m.rules.settled(d.State)
	return d, nil
}

// Unsaved notes that the latest decision is carried out although its record could not be
// saved. The next decision has a record.
func (m *machine[S, E, F, K]) Unsaved() { m.saved = nil }

// watch returns which watches begin and which end when exactly the wanted ones are kept.
func (m *machine[S, E, F, K]) watch(wanted []K) (begin, end []K) {
	for _, k := range wanted {
		if !slices.Contains(m.watched, k) {
			begin = append(begin, k)
		}
	}
	for _, k := range m.watched {
		if !slices.Contains(wanted, k) {
			end = append(end, k)
		}
	}
	m.watched = wanted
	return begin, end
}

// watchEnded notes that a watch has reported and is over.
func (m *machine[S, E, F, K]) watchEnded(k K) {
	if i := slices.Index(m.watched, k); i >= 0 {
		m.watched = slices.Concat(m.watched[:i], m.watched[i+1:])
	}
}
