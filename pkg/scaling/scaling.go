package scaling

import (
	"fmt"
	"math"
	"slices"
	"time"
)

const (
	// Interval is the time between two samples.
	Interval = 20 * time.Second
	// outSamples is the number of samples in a row above a target that scale out.
	outSamples = 3
	// InAfter is the time below a target after which a service scales in.
	InAfter = 15 * time.Minute
	// comfort is the part of a target below which a service scales in, and stays afterwards.
	comfort = 0.9
	// gap is the longest time between two samples of one row.
	gap = 3 * Interval
	// maxActivities is the number of the latest activities that are kept.
	maxActivities = 100
)

// State is the record of the scaling of a service.
type State struct {
	Service string    `json:"service"`
	Created time.Time `json:"created"`
	Config  Config    `json:"config"`
	// Out and In are the latest changes in each direction; Before is the number of copies before Out.
	Out    time.Time `json:"out,omitzero"`
	In     time.Time `json:"in,omitzero"`
	Before int       `json:"before,omitempty"`
	// Decided is the latest time for which it is decided whether an action is due.
	Decided time.Time `json:"decided"`
	// Activities are the latest changes, the newest last.
	Activities []Activity `json:"activities,omitempty"`
	// Held is the reason for which a policy that wants a change does not get it; empty for none.
	Held Held `json:"held,omitzero"`
}

// Activity is a change of the number of copies, or of the bounds.
type Activity struct {
	// Number counts the activities of the service.
	Number int       `json:"number"`
	At     time.Time `json:"at"`
	From   int       `json:"from"`
	To     int       `json:"to"`
	// Policy or Action is its name; both are empty for a change because of the bounds.
	Policy string `json:"policy,omitempty"`
	Action string `json:"action,omitempty"`
	Cause  string `json:"cause"`
	// Error is the reason for which the service could not be changed.
	Error string `json:"error,omitempty"`
}

// Reason is a reason not to scale.
type Reason string

// The reasons.
const (
	AtMax     Reason = "at-maximum"
	AtMin     Reason = "at-minimum"
	NoRoom    Reason = "no-room"   // copies wait for room on the host
	Deploying Reason = "deploying" // a deployment is under way
	Cooling   Reason = "cooling"   // a cool-down
	Halted    Reason = "suspended"
)

// Held is a change that a policy wants and does not get.
type Held struct {
	Reason Reason    `json:"reason"`
	Policy string    `json:"policy,omitempty"`
	Since  time.Time `json:"since"`
	// Until is the end of a cool-down.
	Until time.Time `json:"until,omitzero"`
}

// Mend returns the record with no time after now: the clock was set back since. Set: it was.
func (s State) Mend(now time.Time) (mended State, set bool) {
	for _, t := range []*time.Time{&s.Out, &s.In, &s.Decided} {
		if t.After(now) {
			*t, set = now, true
		}
	}
	return s, set
}

// Facts is a service as it is now.
type Facts struct {
	// Desired is the desired count.
	Desired int
	// Away: it is being removed, or sleeps or wakes, and is left alone.
	Away bool
	// Waiting: a copy waits for room on the host.
	Waiting bool
	// Deploying: a deployment is under way.
	Deploying bool
}

// Sample has the metrics of a service at a time, as averages over its healthy copies.
type Sample struct {
	At time.Time
	// Copies is the number of copies that the averages are of, Desired the desired count.
	Copies, Desired int
	// Values has no entry for what is not known; Problems has the reason, if there is one.
	Values   map[Metric]float64
	Problems map[Metric]string
}

// Rows are summaries of the latest samples of a service, by policy. They are not saved: after a restart, rows begin anew.
type Rows map[string]Row

// Row is a summary of the latest samples of a policy.
type Row struct {
	// Above is the number of samples in a row above the target.
	Above int
	// Below is the time of the first of the samples in a row below comfort; zero if the latest was not.
	Below time.Time
	// Latest is the time of the latest sample.
	Latest time.Time
	// Value is the latest value; Known: there is one. Problem is the reason if there is none.
	Value   float64
	Known   bool
	Problem string
}

// Observe adds a sample.
func (r Rows) Observe(c Config, s Sample) Rows {
	next := make(Rows, len(c.Policies))
	for _, p := range c.Policies {
		row := r[p.Name]
		v, known := s.Values[p.Metric]
		if s.At.Sub(row.Latest) > gap || s.At.Before(row.Latest) || !known || s.Copies == 0 {
			row.Above, row.Below = 0, time.Time{}
		}
		row.Latest, row.Value, row.Known, row.Problem = s.At, v, known && s.Copies > 0, s.Problems[p.Metric]
		if row.Known {
			row.take(p, s)
		}
		next[p.Name] = row
	}
	return next
}

func (r *Row) take(p Policy, s Sample) {
	above, below := r.Value > p.Target, r.Value < p.Target*comfort
	if len(p.Steps) > 0 {
		n := p.stepped(r.Value, s.Desired)
		above, below = n > s.Desired, n < s.Desired
	}
	if above {
		r.Above++
	} else {
		r.Above = 0
	}
	switch {
	case !below:
		r.Below = time.Time{}
	case r.Below.IsZero():
		r.Below = s.At
	}
}

// Decide returns the record after a sample, and the number of copies that the service is to have, which is that of the
// facts if nothing changes. The sample was observed by the rows. Actions that are due come in order.
func Decide(s State, f Facts, rows Rows, sample Sample, due []Action) (next State, desired int, changed bool) {
	d := decision{State: s, facts: f, rows: rows, sample: sample, now: sample.At}
	d.Activities = slices.Clone(s.Activities)
	for _, a := range due {
		d.act(a)
	}
	d.desired = f.Desired
	if !f.Away && f.Desired > 0 {
		d.scale()
	} else {
		d.Held = Held{}
	}
	if d.Held.Reason == s.Held.Reason && d.Held.Policy == s.Held.Policy {
		d.Held.Since = s.Held.Since
	}
	return d.State, d.desired, d.desired != f.Desired || len(due) > 0 || d.Held != s.Held
}

// decision is one call of Decide.
type decision struct {
	State
	facts   Facts
	rows    Rows
	sample  Sample
	now     time.Time
	desired int
}

// act takes over the bounds of an action.
func (d *decision) act(a Action) {
	if d.Config.Suspended.Scheduled {
		return
	}
	before := d.Config
	d.Config = d.Config.apply(a)
	d.note(Activity{
		From: d.facts.Desired, To: d.facts.Desired, Action: a.Name,
		Cause: fmt.Sprintf("the scheduled action %s changes the bounds from %d-%d to %d-%d", a.Name, before.Min, before.Max, d.Config.Min, d.Config.Max),
	})
}

func (d *decision) scale() {
	d.Held = Held{}
	switch c := d.Config; {
	case d.facts.Desired < c.Min:
		d.set(c.Min, "", fmt.Sprintf("the minimum is %d", c.Min))
		return
	case d.facts.Desired > c.Max:
		d.set(c.Max, "", fmt.Sprintf("the maximum is %d", c.Max))
		return
	}
	if !d.out() {
		d.in()
	}
}

// out scales out if a policy wants to, and reports whether one does.
func (d *decision) out() bool {
	best, policy := d.facts.Desired, Policy{}
	for _, p := range d.Config.Policies {
		row := d.rows[p.Name]
		if row.Above < outSamples {
			continue
		}
		if n := d.wanted(p, row); n > best {
			best, policy = n, p
		}
	}
	switch {
	case policy.Name == "":
		return slices.ContainsFunc(d.Config.Policies, func(p Policy) bool { return d.rows[p.Name].Above > 0 })
	case d.Config.Suspended.Out:
		d.hold(Halted, policy, time.Time{})
	case d.facts.Desired >= d.Config.Max:
		d.hold(AtMax, policy, time.Time{})
	case d.facts.Waiting:
		d.hold(NoRoom, policy, time.Time{})
	default:
		before := d.facts.Desired
		d.set(min(best, d.Config.Max), policy.Name, d.cause(policy, "above", ""))
		d.Out, d.Before = d.now, before
	}
	return true
}

// cause is the reason for which a policy changes the number of copies.
func (d *decision) cause(p Policy, side, since string) string {
	value := number(d.rows[p.Name].Value)
	if len(p.Steps) > 0 {
		return fmt.Sprintf("%s is %s%s, in a step of policy %s", p.Metric, value, since, p.Name)
	}
	return fmt.Sprintf("%s is %s, %s the target %s of policy %s%s", p.Metric, value, side, number(p.Target), p.Name, since)
}

// wanted returns the number of copies that brings a metric back to its target, or that a step makes. In the cool-down of a scale-out the
// load is that of the copies before it, and a step counts from them.
func (d *decision) wanted(p Policy, r Row) int {
	copies := d.sample.Copies
	if len(p.Steps) > 0 {
		copies = d.facts.Desired
	}
	if d.now.Before(d.Out.Add(p.OutCooldown)) && d.Before > 0 {
		copies = min(copies, d.Before)
	}
	if len(p.Steps) > 0 {
		return p.stepped(r.Value, copies)
	}
	return ceil(float64(copies) * r.Value / p.Target)
}

// enough returns the number of copies that is left when a policy removes some.
func (d *decision) enough(p Policy, r Row) int {
	if len(p.Steps) > 0 {
		return max(1, p.stepped(r.Value, d.facts.Desired))
	}
	return max(1, ceil(float64(d.sample.Copies)*r.Value/(p.Target*comfort)))
}

// in scales in if all policies agree.
func (d *decision) in() {
	fewest, cool := 1, time.Time{}
	var policy Policy
	for _, p := range d.Config.Policies {
		if !p.removes() {
			continue
		}
		row := d.rows[p.Name]
		if !row.Known || row.Below.IsZero() || row.Latest.Sub(row.Below) < InAfter {
			return
		}
		if n := d.enough(p, row); n >= fewest {
			fewest, policy = n, p
		}
		for _, at := range []time.Time{d.Out, d.In} {
			if !at.IsZero() && at.Add(p.InCooldown).After(cool) {
				cool = at.Add(p.InCooldown)
			}
		}
	}
	if policy.Name == "" || fewest >= d.facts.Desired {
		return
	}
	switch {
	case d.Config.Suspended.In:
		d.hold(Halted, policy, time.Time{})
	case d.facts.Desired <= max(d.Config.Min, 1):
		d.hold(AtMin, policy, time.Time{})
	case d.facts.Deploying:
		d.hold(Deploying, policy, time.Time{})
	case d.now.Before(cool):
		d.hold(Cooling, policy, cool)
	default:
		d.set(max(fewest, d.Config.Min, 1), policy.Name, d.cause(policy, "below", fmt.Sprintf(" for %s", InAfter)))
		d.In = d.now
	}
}

func (d *decision) hold(r Reason, p Policy, until time.Time) {
	d.Held = Held{Reason: r, Policy: p.Name, Since: d.now, Until: until}
}

// set changes the desired count. Rows begin anew: the caller drops them.
func (d *decision) set(n int, policy, cause string) {
	if n == d.facts.Desired {
		return
	}
	d.note(Activity{From: d.facts.Desired, To: n, Policy: policy, Cause: cause})
	d.desired = n
}

func (d *decision) note(a Activity) {
	a.At, a.Number = d.now, 1
	if n := len(d.Activities); n > 0 {
		a.Number = d.Activities[n-1].Number + 1
	}
	d.Activities = append(d.Activities, a)
	d.Activities = d.Activities[max(0, len(d.Activities)-maxActivities):]
}

// Fail notes that the latest change was not made.
func (s State) Fail(err error) State {
	s.Activities = slices.Clone(s.Activities)
	if n := len(s.Activities); n > 0 {
		s.Activities[n-1].Error = err.Error()
	}
	return s
}

// ceil rounds up, within what a service may have.
func ceil(v float64) int {
	const noise = 1e-9 // of a division that has no rest
	return int(math.Ceil(min(v, MaxCopies) - noise))
}

// number prints a value with at most one digit after the point.
func number(v float64) string {
	if v == math.Trunc(v) {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.1f", v)
}
