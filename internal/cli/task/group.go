package task

import (
	"github.com/podtask/podtask/internal/cli/part"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// groups finds tasks by names that are not their own: the name of a service, or one of a part, such as a schedule.
type groups struct {
	tasks    *record.Tasks
	stateDir string
	build    part.Build
}

// find returns the tasks of a name; none if nothing has it. They are copies of a service if service is true.
func (g groups) find(name string) (states []lifecycle.State, service bool) {
	if copies := g.tasks.Copies(name); len(copies) > 0 {
		return copies, true
	}
	for _, p := range g.build.Parts {
		if p.Task == nil {
			continue
		}
		if id, found := p.Task(g.stateDir, name); found {
			if s, recorded := g.tasks.Lookup(id); recorded {
				return []lifecycle.State{s}, false
			}
		}
	}
	return nil, false
}

// one returns the task of a name to work in: of the copies of a service the newest that runs.
func (g groups) one(name string) (s lifecycle.State, found bool) {
	states, _ := g.find(name)
	for _, c := range states {
		if !found || len(c.Running()) > 0 {
			s, found = c, true
		}
	}
	return s, found
}
