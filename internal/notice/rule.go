package notice

import (
	"path"
	"slices"
	"strings"
)

// Rule is a table [[notify]]: conditions, and filters of their subjects. Two rules have different names.
type Rule struct {
	Name string
	On   []Condition
	// Tasks, Services and Schedules are patterns (path.Match) of names, Tags are KEY or KEY=VALUE. A rule without any of
	// them is about everything; of each kind that it has, one must match.
	Tasks, Services, Schedules, Stacks, Tags []string
	// Quiet: no notice is sent when a condition is resolved.
	Quiet bool
}

// About is the subject of an event.
type About struct {
	// Kind and Name say it to people.
	Kind Kind   `json:"kind"`
	Name string `json:"name"`
	// The others are empty for what it is not: the ID of a task, its family and container, the service, schedule and
	// stack that it belongs to.
	Task      string            `json:"task,omitempty"`
	Family    string            `json:"family,omitempty"`
	Container string            `json:"container,omitempty"`
	Service   string            `json:"service,omitempty"`
	Schedule  string            `json:"schedule,omitempty"`
	Stack     string            `json:"stack,omitempty"`
	Tags      map[string]string `json:"tags,omitempty"`
}

// Matches reports whether the rule is about something.
func (r Rule) Matches(c Condition, a About) bool {
	return slices.Contains(r.On, c) && matches(r.Tasks, taskName(a)) && matches(r.Services, a.Service) && matches(r.Schedules, a.Schedule) &&
		matches(r.Stacks, a.Stack) && matchesTag(r.Tags, a.Tags)
}

func taskName(a About) string {
	if a.Kind == Task {
		return a.Name
	}
	return a.Family // of a copy or a run, whose own name nobody gave
}

func matches(patterns []string, name string) bool {
	return len(patterns) == 0 || name != "" && slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return ok && err == nil
	})
}

func matchesTag(wanted []string, tags map[string]string) bool {
	return len(wanted) == 0 || slices.ContainsFunc(wanted, func(w string) bool {
		key, value, exact := strings.Cut(w, "=")
		has, ok := tags[key]
		return ok && (!exact || has == value)
	})
}

// Never returns why a rule can match nothing; empty if it can.
func (r Rule) Never() string {
	able := func(kinds []Kind) bool {
		return (len(r.Services) == 0 || slices.Contains(kinds, Service)) && (len(r.Schedules) == 0 || slices.Contains(kinds, Schedule)) &&
			(len(r.Tasks)+len(r.Tags)+len(r.Stacks) == 0 || slices.ContainsFunc(kinds, func(k Kind) bool { return k != Host }))
	}
	if len(r.Services) > 0 && len(r.Schedules) > 0 {
		return "a task belongs to a service or to a schedule, not to both: write two [[notify]]"
	}
	var wrong []string
	for _, c := range r.On {
		if f, known := FactOf(c); known && !able(f.Kinds) {
			wrong = append(wrong, string(c))
		}
	}
	if len(wrong) > 0 {
		return "its filters never match " + strings.Join(wrong, ", ") + ": write a [[notify]] without them for that"
	}
	return ""
}
