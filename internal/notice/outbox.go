package notice

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"time"
)

const (
	// windowTime is the time in which a rule sends up to windowCount messages on their own. While more come, the next
	// windows are each twice as long, up to windowMax, and send one message with a count.
	windowTime, windowMax = time.Minute, 15 * time.Minute
	windowCount           = 5
	// maxOutbox limits the messages of a rule that wait to be delivered; further ones are held back.
	maxOutbox = 20
	// maxSamples limits the names of notices that are held back.
	maxSamples = 10
	// firstPause, longestPause: the pause after a failure to deliver, which doubles.
	firstPause, longestPause = 5 * time.Second, 15 * time.Minute
	// maxAfter is the longest pause that a server may ask for, farthest the longest one of all.
	maxAfter = time.Hour
	farthest = max(maxAfter, longestPause*3/2)
	// keepTime limits the attempts to deliver a message, of which there are keepAttempts at least: the clock may have been set.
	// maxRefused limits those for one that is refused.
	keepTime     = 3 * 24 * time.Hour
	keepAttempts = 50
	maxRefused   = 5
)

// idBytes is the number of the bytes of an ID, which is written in hexadecimal digits.
const idBytes = 16

func id(rule, what string, at time.Time, seq uint64) string {
	sum := sha256.Sum256([]byte(rule + "\x00" + what + "\x00" + strconv.FormatInt(at.UnixNano(), 10) + "\x00" + strconv.FormatUint(seq, 10)))
	return hex.EncodeToString(sum[:idBytes])
}

// send puts a message into the outbox, or holds it back.
func (s *step) send(m Message) {
	r := s.Rules[m.Rule]
	if r.Held == 0 && (s.now.Sub(r.From) >= max(r.Length, windowTime) || s.now.Before(r.From)) {
		r.From, r.Length, r.Sent = s.now, windowTime, 0
	}
	if r.Sent < windowCount && r.Held == 0 && s.waiting(m.Rule) < maxOutbox {
		r.Sent++
		s.Outbox = append(s.Outbox, m)
	} else {
		r.Held++
		if len(r.Samples) < maxSamples {
			r.Samples = append(slices.Clone(r.Samples), m)
		}
	}
	s.Rules[m.Rule] = r
}

func (s *State) waiting(rule string) (n int) {
	for _, m := range s.Outbox {
		if m.Rule == rule {
			n++
		}
	}
	return n
}

// flush sends what was held back in windows that have ended, as one message for a rule.
func (s *step) flush() {
	for _, rule := range s.rules {
		r := s.Rules[rule.Name]
		if r.Held == 0 || s.now.Before(r.From.Add(r.Length)) && !s.now.Before(r.From) || s.waiting(rule.Name) >= maxOutbox {
			continue
		}
		m := r.Samples[0]
		if r.Held > 1 {
			m.Count, m.Created = r.Held, s.now
			for _, o := range r.Samples[1:] {
				m.Others = append(m.Others, o.Title())
			}
			m.ID = id(rule.Name, "held "+strconv.Itoa(r.Held)+" "+m.ID, s.now, m.Seq)
		}
		s.Outbox = append(s.Outbox, m)
		r = RuleState{From: s.now, Length: min(2*r.Length, windowMax), Sent: windowCount, Attempts: r.Attempts, Next: r.Next, Error: r.Error}
		s.Rules[rule.Name] = r
	}
}

// Due returns the messages to deliver now: for each rule the oldest one.
func Due(s State, now time.Time) (due []Message) {
	seen := map[string]bool{}
	for _, m := range s.Outbox {
		if !seen[m.Rule] && !now.Before(s.Rules[m.Rule].Next) {
			due = append(due, m)
		}
		seen[m.Rule] = true
	}
	return due
}

// Delivered notes that a message has arrived.
func Delivered(s State, id string, now time.Time) State {
	return s.done(id, now, "")
}

func (s State) done(id string, now time.Time, failure string) State {
	i := slices.IndexFunc(s.Outbox, func(m Message) bool { return m.ID == id })
	if i < 0 {
		return s
	}
	s = s.clone()
	m := s.Outbox[i]
	s.Outbox = slices.Delete(s.Outbox, i, i+1)
	s.Log = append(s.Log, Sent{Message: m, Done: now, Error: failure})
	s.Log = s.Log[max(0, len(s.Log)-maxLog):]
	r := s.Rules[m.Rule]
	r.Attempts, r.Next, r.Error = 0, time.Time{}, failure
	s.Rules[m.Rule] = r
	return s
}

// Failure is the reason for an undelivered message.
type Failure struct {
	Text string
	// Refused: the server does not want this message. After is when it wants to be asked again at the earliest.
	Refused bool
	After   time.Duration
}

// NotDelivered notes that a message has not arrived. Spread, from 0 to 1, spreads the next attempts of hosts.
func NotDelivered(s State, id string, now time.Time, f Failure, spread float64) State {
	i := slices.IndexFunc(s.Outbox, func(m Message) bool { return m.ID == id })
	if i < 0 {
		return s
	}
	m := s.Outbox[i]
	r := s.Rules[m.Rule]
	r.Attempts++
	if f.Refused && r.Attempts >= maxRefused {
		return s.done(id, now, fmt.Sprintf("given up after %d attempts: %s", r.Attempts, f.Text))
	}
	if now.Sub(m.Created) > keepTime && r.Attempts >= keepAttempts {
		return s.done(id, now, "given up after three days: "+f.Text)
	}
	pause := longestPause
	if r.Attempts < 10 {
		pause = min(firstPause<<(r.Attempts-1), longestPause)
	}
	pause += time.Duration(spread * float64(pause) / 2)
	r.Next, r.Error = now.Add(max(pause, min(f.After, maxAfter))), f.Text
	s = s.clone()
	s.Rules[m.Rule] = r
	return s
}

// Next returns when Step or Due has something to do without an event; zero for never.
func Next(s State) (at time.Time) {
	sooner := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	for _, o := range s.Open {
		if !o.WellAt.IsZero() {
			sooner(o.WellAt.Add(settleOf(o.Condition)))
		}
	}
	for name, r := range s.Rules {
		if r.Held > 0 && s.waiting(name) < maxOutbox {
			sooner(r.From.Add(r.Length))
		}
	}
	seen := map[string]bool{}
	for _, m := range s.Outbox {
		if !seen[m.Rule] {
			sooner(s.Rules[m.Rule].Next)
		}
		seen[m.Rule] = true
	}
	return at
}
