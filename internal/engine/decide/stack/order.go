package stack

import (
	"fmt"
	"slices"
	"strings"
)

// Problem names what is wrong with a member; After is the name of the dependency that it is about, if it is about one.
type Problem struct {
	Member, After, Text string
}

// Problems returns all that is wrong with members: names that are there twice, dependencies on what is not among them, conditions that
// never come true, and circles. Members without a problem can be put in order.
func Problems(members []Member) (all []Problem) {
	tell := func(m Member, after, format string, args ...any) {
		all = append(all, Problem{m.Name, after, fmt.Sprintf(format, args...)})
	}
	if len(members) > MaxMembers {
		all = append(all, Problem{Text: fmt.Sprintf("a stack has up to %d services, jobs and schedules, not %d", MaxMembers, len(members))})
	}
	r := Revision{Members: members}
	objects := make(map[string]string)
	for i, m := range members {
		switch {
		case r.Find(m.Name) != &members[i]:
			tell(m, "", "there are two members with the name %s", m.Name)
		case objects[m.Object] != "":
			tell(m, "", "%s and %s would both be %s on this host: give one of them another name", objects[m.Object], m.Name, m.Object)
		}
		objects[m.Object] = m.Name
		for _, d := range m.After {
			of := r.Find(d.Name)
			switch {
			case d.Name == m.Name:
				tell(m, d.Name, "%s waits for itself", m.Name)
			case of == nil:
				tell(m, d.Name, "%s waits for %s, which is not in the stack", m.Name, d.Name)
			case d.Is == Completed && of.Kind != Job:
				tell(m, d.Name, "%s waits for %s to complete, and that is a %s, which never ends", m.Name, d.Name, of.Kind)
			case d.Is == Healthy && of.Kind == Schedule:
				tell(m, d.Name, "%s waits for %s to be healthy, and that is a schedule, whose tasks run later: wait until it is started", m.Name, d.Name)
			case d.Is == Healthy && of.Kind == Job:
				tell(m, d.Name, "%s waits for %s to be healthy, and that is a job: wait for it to complete", m.Name, d.Name)
			}
		}
	}
	for _, circle := range circles(members) {
		tell(*r.Find(circle[0]), circle[1], "%s wait for each other in a circle: none of them could be first", strings.Join(append(circle, circle[0]), " → "))
	}
	return all
}

// circles returns a circle for each group of members that wait for each other.
func circles(members []Member) (all [][]string) {
	r := Revision{Members: members}
	const walking, known = 1, 2
	seen := make(map[string]int)
	var path []string
	var walk func(m *Member)
	walk = func(m *Member) {
		seen[m.Name] = walking
		path = append(path, m.Name)
		for _, d := range m.After {
			of := r.Find(d.Name)
			switch {
			case of == nil || of == m || of.Name == m.Name:
			case seen[of.Name] == walking:
				all = append(all, slices.Clone(path[slices.Index(path, of.Name):]))
			case seen[of.Name] == 0:
				walk(of)
			}
		}
		path = path[:len(path)-1]
		seen[m.Name] = known
	}
	for i := range members {
		if seen[members[i].Name] == 0 {
			walk(&members[i])
		}
	}
	return all
}

// Awaits returns the services that a member waits for, past jobs, which wait for others themselves.
func (r Revision) Awaits(m Member) (all []Dependency) {
	seen := map[string]bool{}
	var walk func(of Member)
	walk = func(of Member) {
		for _, d := range of.After {
			next := r.Find(d.Name)
			switch {
			case next == nil || seen[d.Name]:
			case next.Kind == Service:
				seen[d.Name] = true
				all = append(all, d)
			case next.Kind == Job:
				seen[d.Name] = true
				walk(*next)
			}
		}
	}
	walk(m)
	return all
}

// Order returns members so that each comes after those that it waits for, those that wait for least first. In a circle, which Problems
// reports, the order is that of the list.
func Order(members []Member) []Member {
	depth := make(map[string]int)
	for range members { // a way through the graph is no longer than that
		for _, m := range members {
			for _, d := range m.After {
				depth[m.Name] = min(max(depth[m.Name], depth[d.Name]+1), len(members))
			}
		}
	}
	ordered := slices.Clone(members)
	slices.SortStableFunc(ordered, func(a, b Member) int { return depth[a.Name] - depth[b.Name] })
	return ordered
}
