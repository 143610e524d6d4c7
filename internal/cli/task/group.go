package task

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/podtask/podtask/internal/cli/part"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/service"
)

// groups finds tasks by names that are not their own: the name of a service, or one of a part, such as a schedule.
type groups struct {
	tasks  *record.Tasks
	owners *connect.Connector
	build  part.Build
	errOut io.Writer // says what a command waits for
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
		if id, found := p.Task(g.owners.StateDir, name); found {
			if s, recorded := g.tasks.Lookup(id); recorded {
				return []lifecycle.State{s}, false
			}
		}
	}
	return nil, false
}

// one returns the task of a name to work in: of the copies of a service the newest that runs. A service that sleeps is woken, and
// has no copy any more once the last one was cleaned up. Without one it returns the given error.
func (g groups) one(ctx context.Context, name string, gone error) (s lifecycle.State, found bool, err error) {
	states, service := g.find(name)
	newest := func(states []lifecycle.State) {
		for _, c := range states {
			if !found || len(c.Running()) > 0 {
				s, found = c, true
			}
		}
	}
	if newest(states); !found || service && len(s.Running()) == 0 {
		if _, err := g.wake(ctx, name, "podtask exec", true); err != nil {
			return s, false, err
		}
		newest(g.tasks.Copies(name))
	}
	if !found {
		return s, false, gone
	}
	return s, true, nil
}

// wake wakes a service that sleeps; by is the command that asks. With wait it waits until a copy is healthy, for the time that a
// connection would be held. It does nothing to one that does not sleep, and without an agent. Known: there is a service of this name.
func (g groups) wake(ctx context.Context, name, by string, wait bool) (known bool, err error) {
	client := g.owners.DialAgent(ctx)
	if client == nil {
		return false, nil
	}
	defer client.Close()
	s, err := client.Service(ctx, name)
	if connect.IsGone(err) {
		return false, nil
	}
	if err != nil || s.Sleep != api.SleepAsleep && s.Sleep != api.SleepWaking {
		return err == nil, err
	}
	if _, err := client.WakeService(ctx, name, by); err != nil {
		return true, err
	}
	if !wait {
		fmt.Fprintf(g.errOut, "service %s sleeps: waking it\n", name)
		return true, nil
	}
	hold := time.Duration(s.HoldSeconds) * time.Second
	if hold == 0 {
		hold = service.DefaultHold
	}
	fmt.Fprintf(g.errOut, "service %s sleeps: waking it, for at most %s\n", name, hold)
	limited, cancel := context.WithTimeoutCause(ctx, hold, fmt.Errorf("service %s has no healthy copy after %s; see `podtask why %s`", name, hold, name))
	defer cancel()
	return true, client.WatchService(limited, name, func(s api.Service) bool { return s.Sleep != api.SleepAwake })
}
