package hostview

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/cli/top"
	"github.com/podtask/podtask/internal/cli/webui"
	"github.com/podtask/podtask/pkg/api"
)

// View is the tasks and services of hosts. It implements top.Source, top.Actions and webui.Source. Close it.
type View struct {
	hosts  []*Host
	shell  func(ctx context.Context, host, id, container string) (*exec.Cmd, error)
	now    func() time.Time
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// New returns a view and begins to connect to its hosts, of which there is at least one. Shell returns a command
// that runs a shell in a container of a host.
func New(ctx context.Context, hosts []*Host, shell func(ctx context.Context, host, id, container string) (*exec.Cmd, error), now func() time.Time) *View {
	ctx, cancel := context.WithCancel(ctx)
	v := &View{hosts: hosts, shell: shell, now: now, ctx: ctx, cancel: cancel}
	for _, h := range hosts {
		v.wg.Go(func() { h.keep(ctx) })
	}
	return v
}

// Close ends all connections.
func (v *View) Close() {
	v.cancel()
	v.wg.Wait()
}

// Connected waits until the host is there, or returns the error. With several hosts it does not wait.
func (v *View) Connected(ctx context.Context) error {
	if v.several() {
		return nil
	}
	return v.hosts[0].connected(ctx)
}

func (v *View) several() bool { return len(v.hosts) > 1 }

// Hosts implements top.Hosts.
func (v *View) Hosts() (states []top.HostState) {
	for _, h := range v.hosts {
		s, why := h.state(v.now())
		states = append(states, top.HostState{Name: h.Name, Why: why, Tasks: len(s.tasks)})
	}
	return states
}

// sampleWait is the time that a look waits for hosts; the others show what they told last.
const sampleWait = time.Second

// Tasks implements top.Source. It fails for no host.
func (v *View) Tasks(ctx context.Context) (tasks []top.Task, _ error) {
	timer := time.NewTimer(sampleWait)
	defer timer.Stop()
	var samples []<-chan struct{}
	for _, h := range v.hosts {
		samples = append(samples, h.refresh(v.ctx, v.now))
	}
wait:
	for _, done := range samples {
		select {
		case <-done:
		case <-timer.C:
			break wait
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	for _, h := range v.hosts {
		s, _ := h.state(v.now())
		for _, t := range s.tasks {
			if v.several() {
				t.Host = h.Name
			}
			tasks = append(tasks, t)
		}
	}
	slices.SortStableFunc(tasks, func(a, b top.Task) int { return b.CreatedAt.Compare(a.CreatedAt) })
	return tasks, nil
}

// Services implements top.Source. With several hosts, a name is NAME@HOST.
func (v *View) Services(context.Context) (services []api.Service, _ error) {
	for _, h := range v.hosts {
		s, _ := h.state(v.now())
		for _, one := range s.services {
			if v.several() {
				one.ServiceName += "@" + h.Name
			}
			services = append(services, one)
		}
	}
	return services, nil
}

// Beside implements top.Source. With several hosts, names are NAME@HOST.
func (v *View) Beside(context.Context) (all console.Beside, err error) {
	for _, h := range v.hosts {
		s, _ := h.state(v.now())
		err = errors.Join(err, s.besideErr)
		at := func(name string) string {
			if v.several() {
				name += "@" + h.Name
			}
			return name
		}
		for _, one := range s.beside.Schedules {
			one.Name = at(one.Name)
			all.Schedules = append(all.Schedules, one)
		}
		for _, one := range s.beside.Stacks {
			one.Name, one.Services, one.Tasks = at(one.Name), slices.Clone(one.Services), slices.Clone(one.Tasks)
			for _, names := range [][]string{one.Services, one.Tasks} {
				for i := range names {
					names[i] = at(names[i])
				}
			}
			all.Stacks = append(all.Stacks, one)
		}
	}
	return all, err
}

// hostOf returns the host of a task in the latest samples. Of several that claim to have it, which may be one machine under two
// names, it is the first: what it shows is shown as its own.
func (v *View) hostOf(id string) *Host {
	if !v.several() {
		return v.hosts[0]
	}
	if all := v.hostsOf(id); len(all) > 0 {
		return all[0]
	}
	return nil
}

func (v *View) hostsOf(id string) (all []*Host) {
	for _, h := range v.hosts {
		if s, _ := h.state(v.now()); slices.ContainsFunc(s.tasks, func(t top.Task) bool { return t.ID == id }) {
			all = append(all, h)
		}
	}
	return all
}

// hostToChange returns the host of a task for an action. It is an error if several claim to have the task: the action
// could reach another one than it was meant for.
func (v *View) hostToChange(id string) (*Host, error) {
	if v.several() && len(v.hostsOf(id)) > 1 {
		return nil, errSeveral
	}
	if h := v.hostOf(id); h != nil {
		return h, nil
	}
	return nil, webui.ErrNotFound
}

// Find returns the ID of a task by its ID or name, which may be NAME@HOST.
func (v *View) Find(ctx context.Context, ref string) (id string, err error) {
	name, host, chosen := strings.Cut(ref, "@")
	var errs []error
	for _, h := range v.hosts {
		if chosen && h.Name != host {
			continue
		}
		var d top.Detail
		err := cmp.Or(h.connected(ctx), h.call(ctx, callExplain, name, &d))
		if err == nil {
			return d.Task.ID, nil
		}
		errs = append(errs, err)
	}
	if !slices.ContainsFunc(errs, func(err error) bool { return !errors.Is(err, webui.ErrNotFound) }) {
		return "", fmt.Errorf("there is no task %q", ref)
	}
	return "", errors.Join(errs...)
}

// change has the host of a task do something with it.
func (v *View) change(ctx context.Context, call, id string, result any) error {
	h, err := v.hostToChange(id)
	if err != nil {
		return err
	}
	return h.call(ctx, call, id, result)
}

// Explain implements top.Source.
func (v *View) Explain(ctx context.Context, id string) (d top.Detail, err error) {
	h := v.hostOf(id)
	if h == nil {
		return d, webui.ErrNotFound
	}
	if err := h.call(ctx, callExplain, id, &d); err != nil {
		return d, err
	}
	if err := checkTask(top.Task{Task: d.Task}); err != nil {
		return top.Detail{}, err
	}
	if v.several() && d.Task.ID != id { // what is done with it may go to another host
		return top.Detail{}, errOther
	}
	return d, nil
}

var (
	errOther   = errors.New("the host told of another task than the one that it was asked for")
	errSeveral = errors.New("several hosts have a task of this ID: choose one of them with --host")
)

// Lines implements webui.Source.
func (v *View) Lines(ctx context.Context, id string, which webui.Lines, fn func(webui.Line) error) error {
	h := v.hostOf(id)
	if h == nil {
		return webui.ErrNotFound
	}
	return follow(ctx, h, request{Call: callLines, Of: id, Lines: &which}, fn)
}

// Host implements webui.Source. Several hosts have their names only.
func (v *View) Host(ctx context.Context) webui.Host {
	if v.several() {
		var names []string
		for _, h := range v.hosts {
			names = append(names, h.Name)
		}
		return webui.Host{Name: strings.Join(names, ", ")}
	}
	h := webui.Host{Name: v.hosts[0].Name}
	_ = v.hosts[0].call(ctx, callHost, "", &h) // what is not known is empty
	h.Local = false
	return h
}

// Follow implements top.Source. When the connection breaks, it ends with an error.
func (v *View) Follow(ctx context.Context, id string, fn func(top.Line) error) error {
	h := v.hostOf(id)
	if h == nil {
		return webui.ErrNotFound
	}
	return follow(ctx, h, request{Call: callFollow, Of: id}, fn)
}

// Stop implements top.Actions.
func (v *View) Stop(ctx context.Context, id string) error { return v.change(ctx, callStop, id, nil) }

// Restart implements top.Actions.
func (v *View) Restart(ctx context.Context, id string) error {
	return v.change(ctx, callRestart, id, nil)
}

// Continue implements top.Actions.
func (v *View) Continue(ctx context.Context, service string) error {
	return v.ofService(ctx, callContinue, service)
}

// Rollback implements top.Actions.
func (v *View) Rollback(ctx context.Context, service string) error {
	return v.ofService(ctx, callRollback, service)
}

func (v *View) ofService(ctx context.Context, call, service string) error {
	name, host, _ := strings.Cut(service, "@")
	for _, h := range v.hosts {
		switch {
		case !v.several():
			return h.call(ctx, call, service, nil)
		case h.Name == host:
			return h.call(ctx, call, name, nil)
		}
	}
	return webui.ErrNotFound
}

// Shell implements top.Actions.
func (v *View) Shell(ctx context.Context, id, container string) (*exec.Cmd, error) {
	h, err := v.hostToChange(id)
	if err != nil {
		return nil, err
	}
	return v.shell(ctx, h.Name, id, container)
}

var (
	_ top.Source   = (*View)(nil)
	_ top.Actions  = (*View)(nil)
	_ top.Hosts    = (*View)(nil)
	_ webui.Source = (*View)(nil)
)
