package service

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/podtask/podtask/pkg/admission"
	"github.com/podtask/podtask/pkg/taskdef"
)

// MaxNumbered is the greatest count of copies with numbers: the record of their service has a definition for each.
const MaxNumbered = 64

// Numbered are copies that differ by a number, as the Pods of a StatefulSet. At most one task has a number at a time, and the
// next one with it starts when that one has ended. Copies start from the first on and stop from the last on. Each waits until
// those before it are healthy.
type Numbered struct {
	// First is the number of the first copy.
	First int `json:"first,omitempty"`
	// Tasks has the definition of each copy, in the order of their numbers; Task of the Spec is the first one.
	Tasks []taskdef.Task `json:"tasks"`
	// Parallel: copies start, and stop where there are too many, without a wait for others.
	Parallel bool `json:"parallel,omitempty"`
}

// Limit returns how many copies the spec can have: MaxCount where they are alike.
func (s Spec) Limit() int {
	if s.Numbered == nil {
		return MaxCount
	}
	return len(s.Numbered.Tasks)
}

// Of returns what the task is made of.
func (s Spec) Of(t Task) taskdef.Task {
	if n := s.Numbered; n != nil && t.Copy > 0 && t.Copy <= len(n.Tasks) {
		return n.Tasks[t.Copy-1]
	}
	return s.Task
}

// Tasks returns all that copies are made of.
func (s Spec) Tasks() []taskdef.Task {
	if s.Numbered != nil {
		return s.Numbered.Tasks
	}
	return []taskdef.Task{s.Task}
}

// checkNumbered returns what keeps numbered copies from being run like this.
func checkNumbered(spec Spec, count int, c Config) (errs []error) {
	if spec.Numbered == nil {
		return nil
	}
	if !c.Method.rolls() {
		errs = append(errs, fmt.Errorf("with the strategy %s two sets of copies run side by side, and a copy with a number is there once: use ROLLING", c.Method.Strategy))
	}
	if most := spec.Limit(); count > most {
		errs = append(errs, fmt.Errorf("%d copies are asked for, and the service has definitions of %d with numbers: `podtask service scale` and `podtask service update --count` add others, up to %d", count, most, MaxNumbered))
	}
	ports := make(map[int]admission.Need)
	for i, t := range spec.Numbered.Tasks[:min(count, spec.Limit())] {
		need := admission.NeedOf(t, false)
		for other, has := range ports {
			if i > 0 && has.Collides(need) {
				errs = append(errs, fmt.Errorf("the copies %d and %d cannot both have port %s of this host", other, spec.Numbered.First+i, need.Ports[0]))
				return errs
			}
		}
		ports[spec.Numbered.First+i] = need
	}
	return errs
}

// missing returns the copies that may be made now, by their place among the copies of the primary deployment, from 1.
func (s *State) missing() (copies []int) {
	spec := s.Primary().Spec
	for k := 1; k <= min(s.target(), spec.Limit()); k++ {
		i := slices.IndexFunc(s.Tasks, func(t Task) bool { return t.Copy == k && t.present() })
		if i < 0 {
			copies = append(copies, k)
		}
		if !spec.Numbered.Parallel && (i < 0 || !s.Tasks[i].Healthy()) {
			break
		}
	}
	return copies
}

// surplus: the copy is one more than is desired.
func (s *State) surplus(t Task, kept int) bool {
	if s.Primary().Numbered == nil {
		return kept > s.target()
	}
	return t.Copy > s.target()
}

// holdsStop: the copy has a number and stops when another one has ended.
func (s *State) holdsStop() bool {
	n := s.Primary().Numbered
	return n != nil && !n.Parallel && slices.ContainsFunc(s.Tasks, func(t Task) bool { return t.Phase == Stopping })
}

// laterFirst compares tasks by which of them is stopped first: that with the higher number.
func laterFirst(a, b *Task) int { return cmp.Or(b.Copy-a.Copy, b.Number-a.Number) }

// Offer is a name that tasks of the namespace reach copies by.
type Offer struct {
	Name
	// Copy is the place of the only copy that it leads to, from 1; 0 for all of them.
	Copy int
}

// Offers returns the names of the service. Copies with numbers have their own besides, in front of those of the service: of
// the name db, the copy with the host name db-0 has db-0.db.
func (s State) Offers() (all []Offer) {
	for _, n := range s.Config.Names.Offered {
		all = append(all, Offer{Name: n})
		numbered := s.Primary().Numbered
		if numbered == nil {
			continue
		}
		for i, t := range numbered.Tasks {
			own := n
			own.Name = hostOf(t) + "." + n.Name
			if hostOf(t) != "" && checkName(own.Name) == nil {
				all = append(all, Offer{Name: own, Copy: i + 1})
			}
		}
	}
	return all
}

// hostOf is the host name of the containers of a task, where they have one.
func hostOf(t taskdef.Task) string {
	for _, c := range t.Containers {
		if c.Net.Hostname != "" {
			return c.Net.Hostname
		}
	}
	return ""
}

// Only returns groups with no other copy than the one at a place; all of them for 0.
func (s State) Only(groups []Group, place int) (only []Group) {
	if place == 0 {
		return groups
	}
	for _, g := range groups {
		g.Copies = slices.DeleteFunc(slices.Clone(g.Copies), func(id string) bool { return s.task(id).Copy != place })
		if len(g.Copies) > 0 {
			only = append(only, g)
		}
	}
	return only
}
