package notice

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// State is the memory of what was told, and the messages that are still to be sent. It is safe to store: it has no secret.
type State struct {
	// Cursor is the number of the last event that was taken in.
	Cursor uint64 `json:"cursor"`
	// Open are the conditions that are not well, by Condition and subject.
	Open map[string]Open `json:"open,omitempty"`
	// Restarts are the times of the latest restarts, by what was restarted.
	Restarts map[string][]time.Time `json:"restarts,omitempty"`
	Rules    map[string]RuleState   `json:"rules,omitempty"`
	// Outbox are messages to deliver, the oldest first, and Log those that were, or were given up.
	Outbox []Message `json:"outbox,omitempty"`
	Log    []Sent    `json:"log,omitempty"`
}

// Open is a condition that is not well.
type Open struct {
	Condition Condition `json:"condition"`
	Subject   string    `json:"subject"`
	About     About     `json:"about"`
	Since     time.Time `json:"since"`
	// Last is the time of the latest event of it.
	Last time.Time `json:"last"`
	// WellAt is since when it is well; zero if it is not.
	WellAt time.Time `json:"wellAt,omitzero"`
	// Gone: the task of which it was said has ended, so that another one may be the first that is well.
	Gone bool   `json:"gone,omitempty"`
	Seq  uint64 `json:"seq"`
	// Told has the time of the latest message for each rule.
	Told map[string]time.Time `json:"told,omitempty"`
}

// RuleState is the state of a rule.
type RuleState struct {
	// From and Length are the present window of time, Sent how many messages were sent on their own in it.
	From   time.Time     `json:"from,omitzero"`
	Length time.Duration `json:"length,omitempty"`
	Sent   int           `json:"sent,omitempty"`
	// Held are the messages that are held back, of which the first Samples are kept; First and Last are the events.
	Held    int       `json:"held,omitempty"`
	Samples []Message `json:"samples,omitempty"`
	// Attempts counts failures in a row to deliver the oldest message, Next is when to try again.
	Attempts int       `json:"attempts,omitempty"`
	Next     time.Time `json:"next,omitzero"`
	Error    string    `json:"error,omitempty"`
}

// Message is a notice for one rule.
type Message struct {
	ID      string    `json:"id"`
	Rule    string    `json:"rule"`
	Created time.Time `json:"created"`
	// Count is the number of notices for which the message stands; the fields below belong to the first one.
	Count     int       `json:"count"`
	Condition Condition `json:"condition"`
	// Well: the condition is resolved. Since is the time at which it began.
	Well    bool      `json:"well,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	At      time.Time `json:"at"`
	Seq     uint64    `json:"seq,omitempty"`
	Subject string    `json:"subject"`
	About   About     `json:"about"`
	Status  string    `json:"status,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	// ExitCode of a task that has failed.
	ExitCode *int `json:"exitCode,omitempty"`
	// Others are further ones of Count, a sentence each.
	Others []string `json:"others,omitempty"`
	// Test: a person asked for it.
	Test bool `json:"test,omitempty"`
}

// Sent is a message that was delivered or given up.
type Sent struct {
	Message
	Done time.Time `json:"done"`
	// Error is the reason for giving it up; empty if it was delivered.
	Error string `json:"error,omitempty"`
}

const (
	// maxOpen, maxRestarts and maxLog bound the state.
	maxOpen, maxRestarts, maxLog = 1000, 1000, 100
	// openTime limits the memory of a condition of which nothing is heard.
	openTime = 7 * 24 * time.Hour
	// againTime is the time after the last message from which a condition that happens again is told again.
	againTime = 6 * time.Hour
)

// Check returns an error for a state that no version has written, such as one that was edited.
func Check(s State) error {
	messages := slices.Clone(s.Outbox)
	for name, r := range s.Rules {
		if r.Attempts < 0 || r.Sent < 0 || r.Held < 0 || r.Held < len(r.Samples) || r.Held > 0 && len(r.Samples) == 0 || r.Length < 0 || r.Length > windowMax {
			return fmt.Errorf("the numbers of the rule %q are no numbers of messages", name)
		}
		messages = append(messages, r.Samples...)
	}
	for _, m := range messages {
		if len(m.ID) != 2*idBytes {
			return fmt.Errorf("a message has the id %q", m.ID)
		}
	}
	for what, at := range s.Restarts {
		if len(at) == 0 {
			return fmt.Errorf("the restarts of %q have no times", what)
		}
	}
	return nil
}

// clone copies what a step may change.
func (s State) clone() State {
	s.Open, s.Restarts, s.Rules = maps.Clone(s.Open), maps.Clone(s.Restarts), maps.Clone(s.Rules)
	if s.Open == nil {
		s.Open = map[string]Open{}
	}
	if s.Restarts == nil {
		s.Restarts = map[string][]time.Time{}
	}
	if s.Rules == nil {
		s.Rules = map[string]RuleState{}
	}
	s.Outbox, s.Log = slices.Clone(s.Outbox), slices.Clone(s.Log)
	return s
}

// prune forgets what nobody asks for any more.
func (s *State) prune(now time.Time) {
	maps.DeleteFunc(s.Open, func(_ string, o Open) bool { return now.Sub(o.Last) > openTime })
	maps.DeleteFunc(s.Restarts, func(_ string, at []time.Time) bool { return now.Sub(at[len(at)-1]) > loopTime })
	for len(s.Open) > maxOpen {
		delete(s.Open, oldest(s.Open, func(o Open) time.Time { return o.Last }))
	}
	for len(s.Restarts) > maxRestarts {
		delete(s.Restarts, oldest(s.Restarts, func(at []time.Time) time.Time { return at[len(at)-1] }))
	}
	s.Log = s.Log[max(0, len(s.Log)-maxLog):]
}

// oldest returns the key of the oldest value.
func oldest[T any](all map[string]T, at func(T) time.Time) (key string) {
	for _, k := range slices.Sorted(maps.Keys(all)) {
		if key == "" || at(all[k]).Before(at(all[key])) {
			key = k
		}
	}
	return key
}
