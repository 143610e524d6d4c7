package scaling

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/podtask/podtask/internal/lazy"
)

// MaxSteps is the largest number of steps of a policy, as on AWS.
const MaxSteps = 20

// Step changes the number of copies while a metric is at least From and below To. Its text is FROM..TO=CHANGE, of which a bound may be
// missing. CHANGE is +N or -N copies, +N% or -N%, or N copies as their number: ChangeInCapacity, PercentChangeInCapacity and
// ExactCapacity of Application Auto Scaling, whose bounds are distances from the threshold of an alarm.
type Step struct {
	From, To float64 // infinite without a bound
	By       int
	Percent  bool
	Exact    bool
}

var stepText = lazy.MustCompile(`^(-?[0-9]{1,15}(?:\.[0-9]{1,9})?)?\.\.(-?[0-9]{1,15}(?:\.[0-9]{1,9})?)?=([+-])?([0-9]{1,4})(%)?$`)

// ParseStep reads FROM..TO=CHANGE.
func ParseStep(text string) (s Step, err error) {
	wrong := fmt.Errorf("%q is no step: write FROM..TO=CHANGE, such as 70..85=+1, 85..=+50%%, ..20=-1 or 100..=4", text)
	m := stepText.FindStringSubmatch(text)
	if m == nil {
		return s, wrong
	}
	s = Step{From: math.Inf(-1), To: math.Inf(1), Exact: m[3] == "", Percent: m[5] != ""}
	for i, bound := range []*float64{&s.From, &s.To} {
		if m[i+1] != "" {
			*bound, _ = strconv.ParseFloat(m[i+1], 64) // it has digits
		}
	}
	s.By, _ = strconv.Atoi(m[3] + m[4])
	if s.By == 0 || s.Exact && s.Percent || s.From >= s.To {
		return s, wrong
	}
	return s, nil
}

// String is the step as ParseStep reads it.
func (s Step) String() string {
	bound := func(v float64) string {
		if math.IsInf(v, 0) {
			return ""
		}
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	change := fmt.Sprintf("%+d", s.By)
	if s.Exact {
		change = strconv.Itoa(s.By)
	}
	if s.Percent {
		change += "%"
	}
	return bound(s.From) + ".." + bound(s.To) + "=" + change
}

// MarshalText implements encoding.TextMarshaler.
func (s Step) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Step) UnmarshalText(text []byte) (err error) {
	*s, err = ParseStep(string(text))
	return err
}

// apply returns the number of copies after the step. A percentage is rounded as AWS does, to less change but to one copy at least; it
// changes at least as many copies as least.
func (s Step) apply(copies, least int) int {
	change := s.By
	switch {
	case s.Exact:
		return s.By
	case s.Percent:
		change = copies * s.By / 100 // towards zero
		if size := max(least, 1); change > -size && change < size {
			change = size
			if s.By < 0 {
				change = -size
			}
		}
	}
	return min(max(copies+change, 0), MaxCopies)
}

// stepped returns the number of copies that the steps of a policy make of a number; the same one where there is no step.
func (p Policy) stepped(value float64, copies int) int {
	for _, s := range p.Steps {
		if value >= s.From && value < s.To {
			return s.apply(copies, p.MinAdjustment)
		}
	}
	return copies
}

// removes reports whether the policy can remove copies.
func (p Policy) removes() bool {
	return !p.OnlyOut && (len(p.Steps) == 0 || slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Exact || s.By < 0 }))
}

// StepsText is the steps behind each other.
func StepsText(steps []Step) string {
	words := make([]string, len(steps))
	for i, s := range steps {
		words[i] = s.String()
	}
	return strings.Join(words, " ")
}

// checkSteps returns what is wrong with the steps of a policy.
func (p Policy) checkSteps() error {
	switch percent := slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Percent }); {
	case p.Target != 0:
		return fmt.Errorf("policy %q: it has steps and a target: it has one of them", p.Name)
	case len(p.Steps) > MaxSteps:
		return fmt.Errorf("policy %q: there are %d steps, more than %d", p.Name, len(p.Steps), MaxSteps)
	case p.MinAdjustment < 0 || p.MinAdjustment > MaxCopies || p.MinAdjustment > 0 && !percent:
		return fmt.Errorf("policy %q: the least change is 0 to %d copies, for steps in percent, not %d", p.Name, MaxCopies, p.MinAdjustment)
	}
	for i, s := range p.Steps {
		for _, t := range p.Steps[:i] {
			if s.From < t.To && t.From < s.To {
				return fmt.Errorf("policy %q: the steps %s and %s overlap", p.Name, t, s)
			}
		}
	}
	return nil
}
