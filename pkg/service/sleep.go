package service

import (
	"errors"
	"fmt"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

// Sleep configures when the copies of a service stop because nobody uses it, and the wait of the first connection after
// that.
type Sleep struct {
	// After is the time without use after which the service sleeps; 0 for never.
	After time.Duration `json:"after,omitempty"`
	// Hold bounds the time that a connection is held until a copy is healthy; 0 stands for DefaultHold.
	Hold time.Duration `json:"hold,omitempty"`
}

// DefaultHold bounds the time that a connection is held while a service wakes.
const DefaultHold = time.Minute

// MaxHold is the longest time that a connection may be held.
const MaxHold = time.Hour

// Sleeps reports whether the service ever sleeps.
func (c Sleep) Sleeps() bool { return c.After > 0 }

// Held returns the bound on the time that a connection is held while the service wakes.
func (c Sleep) Held() time.Duration {
	if c.Hold == 0 {
		return DefaultHold
	}
	return c.Hold
}

// Rest is whether a service sleeps.
type Rest struct {
	// Asleep: no copy runs, and the next connection wakes the service.
	Asleep bool `json:"asleep,omitempty"`
	// Waking: it was woken, and no copy has been healthy since. One copy is started before the others.
	Waking bool `json:"waking,omitempty"`
	// Since is the time at which it fell asleep, or was woken; zero before the first time.
	Since time.Time `json:"since,omitzero"`
	// Wakes counts how often it was woken.
	Wakes int `json:"wakes,omitempty"`
}

// Used is the use of the addresses and names of a service.
type Used struct {
	// Busy: a connection is open or waits, or that is not known. Otherwise there was none since IdleSince.
	Busy      bool
	IdleSince time.Time
	// Waiting: a connection waits for a copy.
	Waiting bool
}

func (Used) input() {}

// use is the known use of a service since the state was loaded.
type use struct {
	Used
	known bool
}

// sleepCause is the reason for which the copies of a sleeping service are stopped.
const sleepCause = "the service sleeps"

// Sleep returns the sleep of the service: by its configuration, else by its primary deployment.
func (s State) Sleep() Sleep { return s.Config.SleepOf(s.Primary().Task) }

// SleepOf returns the sleep of a service with copies of a task: by the configuration, else by the task.
func (c Config) SleepOf(t taskdef.Task) Sleep {
	if c.Sleep != nil {
		return *c.Sleep
	}
	return Sleep{After: t.Extensions.SleepAfter}
}

// target returns the number of copies to have now: none while the service sleeps, unless a deployment is to be tried,
// one until it is awake, and else as many as desired.
func (s State) target() int {
	switch {
	case s.Rest.Asleep && s.Deployments[0].Rollout != InProgress && s.staged() == nil:
		return 0
	case s.Rest.Asleep, s.Rest.Waking:
		return min(1, s.DesiredCount)
	}
	return min(s.DesiredCount, s.Deployments[0].Limit())
}

// rest decides whether the service sleeps.
func (s *State) rest(at time.Time) {
	if s.Status != Active {
		return
	}
	r, sleep := &s.Rest, s.Sleep()
	switch {
	case !sleep.Sleeps() || s.DesiredCount == 0:
		if r.Asleep && s.DesiredCount > 0 {
			s.wake(at, "it is not to sleep any more")
		}
		r.Asleep, r.Waking = false, false
	case r.Asleep && s.use.known && s.use.Busy:
		s.wake(at, "there is a connection")
	case r.Waking && s.Count("").Healthy > 0:
		r.Waking = false
	case !r.Asleep && s.mayRest(at):
		*r = Rest{Asleep: true, Since: at, Wakes: r.Wakes}
		s.Steady = false
		s.say(at, "falls asleep: it had no connection for %s. The next one wakes it.", span(sleep.After))
	}
}

// wake ends the sleep. Copies that finish their connections, and were not told to stop yet, go on.
func (s *State) wake(at time.Time, why string) {
	s.Rest = Rest{Waking: true, Since: at, Wakes: s.Rest.Wakes + 1}
	s.Steady = false
	s.say(at, "wakes: %s.", why)
	for i := range s.Tasks {
		if t := &s.Tasks[i]; t.Phase == Stopping && t.Cause == sleepCause && drains(*s, *t) && t.op != busy {
			t.Phase, t.Cause, t.notUntil = Live, "", time.Time{}
		}
	}
}

// mayRest reports whether the service has been without use for long enough, and nothing of it is under way. A copy that is
// protected is in use.
func (s *State) mayRest(at time.Time) bool {
	if !s.use.known || s.use.Busy || at.Before(s.restsAt()) || s.Deployments[0].Rollout != Completed || s.staged() != nil {
		return false
	}
	for _, t := range s.Tasks {
		if t.kept() && t.spared(at) {
			return false
		}
	}
	return true
}

// restsAt returns the time at which an unused service falls asleep.
func (s *State) restsAt() time.Time {
	since := s.use.IdleSince
	if s.Rest.Since.After(since) {
		since = s.Rest.Since
	}
	return since.Add(s.Sleep().After)
}

// wakeRest tells when the service may fall asleep.
func (s *State) wakeRest(sooner func(time.Time)) {
	if s.Sleep().Sleeps() && !s.Rest.Asleep && s.use.known && !s.use.Busy {
		sooner(s.restsAt())
	}
}

// moveRest moves the times of a service that may sleep, because the clock was set.
func (s *State) moveRest(by time.Duration) {
	for _, t := range []*time.Time{&s.Rest.Since, &s.use.IdleSince} {
		if !t.IsZero() {
			*t = t.Add(by)
		}
	}
}

// explainRest returns the reason for which the service does not serve: it sleeps, or wakes.
func (s State) explainRest() (reasons []Reason) {
	switch {
	case s.Rest.Asleep && s.target() > 0:
		return []Reason{{Code: WhyAsleep, Text: "it sleeps, and its deployment is tried with one copy"}}
	case s.Rest.Asleep:
		return []Reason{{Code: WhyAsleep, Text: fmt.Sprintf("it sleeps since %s, and the next connection wakes it", s.Rest.Since.UTC().Format(time.RFC3339))}}
	case s.Rest.Waking:
		return []Reason{{Code: WhyWaking, Text: "it is waking: its first copy is not healthy yet", Until: s.Rest.Since.Add(s.Sleep().Held()), Then: "clients that waited since then are told to come back"}}
	}
	return nil
}

// checkSleep returns what keeps a service from sleeping.
func checkSleep(t taskdef.Task, c Config) (errs []error) {
	sleep := c.SleepOf(t)
	if sleep.Hold != 0 && (sleep.Hold < time.Second || sleep.Hold > MaxHold) {
		errs = append(errs, fmt.Errorf("a connection is held for 1s to %s while a service wakes, not %s", span(MaxHold), sleep.Hold))
	}
	if sleep.After == 0 {
		return errs
	}
	if sleep.After < time.Second || sleep.After > taskdef.MaxSleepAfter {
		errs = append(errs, fmt.Errorf("a service sleeps after 1s to %s without a connection, not %s", span(taskdef.MaxSleepAfter), sleep.After))
	}
	ingress := t.Extensions.Ingress
	if c.Ingress != nil {
		ingress = *c.Ingress
	}
	if len(c.Listeners)+len(c.Names.Offered)+len(ingress) == 0 {
		errs = append(errs, errors.New("a service that sleeps needs an address that connections wake it by: add a listener, a name or a public address (--listen, --name-as, --ingress), or leave out sleepAfter (--sleep-after 0)"))
	}
	return errs
}
