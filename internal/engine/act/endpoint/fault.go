package endpoint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/engine/facts/taskspec"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/fault"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/netns"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Networks looks at network namespaces and runs programs of the host in them. Its errors are those of
// netns.Networks.
type Networks interface {
	Look(pid int) (netns.Network, error)
	Run(ctx context.Context, pid int, input, program string, args ...string) (output string, err error)
}

// Faults are the network faults of a task while this process owns it. The state of the task says which there
// are to be, and is saved first; Faults makes its network namespaces so. No fault outlives its owner: a new
// owner clears all of them, whatever became of the one before.
type Faults struct {
	factory *Factory
	task    Task
	// ready is closed when the faults of an earlier owner are gone.
	ready chan struct{}

	mu sync.Mutex // one changes the network at a time
	// known are the namespaces that may have faults.
	known map[string]network
}

// network is a namespace with faults.
type network struct {
	pid    int // of a process in it
	faults []fault.Fault
}

// Times that may pass.
const (
	// faultLimit bounds one change of the network.
	faultLimit = 30 * time.Second
	// faultPause is the time for which a change that failed is not tried again; it doubles up to faultPauseMost.
	faultPause     = time.Second
	faultPauseMost = 30 * time.Second
	// requestLimit bounds a request, and saveLimit how long it waits for the record.
	requestLimit = time.Minute
	saveLimit    = 10 * time.Second
	// faultEnd limits the time that the end of an owner may take to clear them.
	faultEnd = 10 * time.Second
)

// NewFaults returns the faults of a task. There are none until Keep has begun.
func NewFaults(m *Factory, t Task) *Faults {
	return &Faults{factory: m, task: t, ready: make(chan struct{}), known: make(map[string]network)}
}

// Enabled reports whether a task can have faults.
func (f *Faults) Enabled(s lifecycle.State) bool {
	return s.Task.FaultInjection && f.factory.Networks != nil
}

// Refused returns why the task cannot have faults now; nil if it can.
func (f *Faults) Refused() error {
	switch s := f.task.State(); {
	case !s.Task.FaultInjection:
		return fault.Refuse(fault.Invalid, "enableFaultInjection is not enabled for task: %s", taskspec.TaskARN(s))
	case s.Task.Network == taskdef.NetworkHost:
		return fault.Refuse(fault.Invalid, "host mode is not supported: the task shares the network of the host, which the fault would disturb. Please use awsvpc or bridge mode.")
	case s.Task.Network == taskdef.NetworkNone:
		return fault.Refuse(fault.Invalid, "none mode is not supported. Please use awsvpc or bridge mode.")
	case f.factory.Networks == nil:
		return fault.Refuse(fault.Failed, "this process cannot enter the network of the task")
	case s.Goal != lifecycle.Up:
		return fault.Refuse(fault.Conflict, "the task is stopping or has stopped")
	}
	return nil
}

// Start injects a fault for a time, or for 0 until it is stopped, and returns when the task has it. An error is a
// *fault.Error.
func (f *Faults) Start(ctx context.Context, add fault.Fault, duration time.Duration) error {
	if problems := add.Problems(); len(problems) > 0 {
		return fault.Refuse(fault.Invalid, "%s", strings.Join(problems, "; "))
	}
	return f.change(ctx, func(s lifecycle.State) error {
		runs := func(c lifecycle.Container) bool { return c.Presence == lifecycle.Running }
		if !slices.ContainsFunc(s.Containers, runs) {
			return fault.Refuse(fault.Conflict, "no container of the task runs yet")
		}
		add.Since, add.Until = time.Time{}, time.Time{}
		if duration > 0 {
			add.Until = f.factory.now().UTC().Round(0).Add(duration)
		}
		planned, err := fault.Add(s.Faults, add)
		if err != nil {
			return err
		}
		if err := f.save(ctx, planned, ""); err != nil {
			f.task.Send(lifecycle.FaultsChanged{Faults: s.Faults}) // it may be saved later
			return err
		}
		if err := f.apply(ctx, s, planned); err != nil {
			undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), faultLimit)
			defer cancel()
			if undone := errors.Join(f.save(undo, s.Faults, ""), f.apply(undo, s, s.Faults)); undone != nil {
				f.factory.Log.Warn("a fault that failed is not removed yet", "task", s.ID, "error", undone)
			}
			return fault.Refuse(fault.Failed, "%s", reasonOf(err))
		}
		planned = slices.Clone(planned) // the state has the other one
		for i := range planned {
			if planned[i].Since.IsZero() {
				planned[i].Since = f.factory.now().UTC().Round(0)
			}
		}
		return f.save(ctx, planned, "")
	})
}

// Stop removes the faults that like Matches, and returns when the task does not have them. That there are none is
// no error.
func (f *Faults) Stop(ctx context.Context, like fault.Fault) error {
	return f.change(ctx, func(s lifecycle.State) error {
		left := fault.Remove(s.Faults, like)
		if len(left) < len(s.Faults) {
			if err := f.save(ctx, left, "stopped"); err != nil {
				return err
			}
		}
		if err := f.apply(ctx, s, left); err != nil {
			return fault.Refuse(fault.Failed, "%s", reasonOf(err))
		}
		return nil
	})
}

// change makes one change of the faults of a task that can have some.
func (f *Faults) change(ctx context.Context, do func(lifecycle.State) error) error {
	if err := f.Refused(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	select {
	case <-f.ready:
	case <-ctx.Done():
		return fault.Refuse(fault.Failed, "the faults of an earlier owner of the task are not removed yet")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.Refused(); err != nil {
		return err
	}
	s := f.task.State()
	s.Faults = fault.Active(s.Faults) // nothing else is starting
	err := do(s)
	if refused := (*fault.Error)(nil); err == nil || errors.As(err, &refused) {
		return err
	}
	return fault.Refuse(fault.Failed, "%v", err)
}

// save returns when the record of the task has these faults, without those whose time is over meanwhile.
func (f *Faults) save(ctx context.Context, faults []fault.Fault, reason string) error {
	ended := fault.Refuse(fault.Conflict, "the task is stopping or has stopped")
	if !f.task.Send(lifecycle.FaultsChanged{Faults: faults, Reason: reason}) {
		return ended
	}
	ctx, cancel := context.WithTimeout(ctx, saveLimit)
	defer cancel()
	saved := false
	err := f.task.Watch(ctx, func(s lifecycle.State) bool {
		saved = sameFaults(f.lasting(s.Faults), f.lasting(faults))
		return !saved && !s.Settled()
	})
	switch {
	case saved:
		return nil
	case err != nil:
		return fmt.Errorf("save the faults of the task: %w", err)
	}
	return ended
}

// lasting are the faults whose time is not over.
func (f *Faults) lasting(faults []fault.Fault) []fault.Fault {
	now := f.factory.now()
	return slices.DeleteFunc(slices.Clone(faults), func(x fault.Fault) bool { return !x.Until.IsZero() && !now.Before(x.Until) })
}

// sameFaults compares the faults of two states of a task.
func sameFaults(a, b []fault.Fault) bool {
	return len(a) == 0 && len(b) == 0 || reflect.DeepEqual(a, b)
}

// Keep makes the networks of the task as its state says, until ctx ends: first without any fault of an earlier
// owner, then whenever a fault ends or a container gets another network.
func (f *Faults) Keep(ctx context.Context) {
	if !f.Enabled(f.task.State()) {
		return
	}
	changed := make(chan struct{}, 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { _ = f.task.Watch(ctx, f.notice(changed)) })
	pause, cleared := faultPause, f.isReady()
	for {
		var again <-chan time.Time
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
		for {
			err := f.keepOnce(ctx, !cleared)
			if err == nil {
				if pause = faultPause; !cleared {
					cleared = true
					close(f.ready)
				}
				break
			}
			if ctx.Err() != nil {
				return
			}
			f.factory.Log.Warn("the network of the task is not as it should be; it is tried again", "task", f.task.State().ID, "error", err, "in", pause)
			again, pause = time.After(pause), min(2*pause, faultPauseMost)
			select {
			case <-ctx.Done():
				return
			case <-again:
			}
		}
	}
}

func (f *Faults) isReady() bool {
	select {
	case <-f.ready:
		return true
	default:
		return false
	}
}

// notice returns a function that reports states in which the networks may have to be changed. The first is one
// without the faults of an earlier owner.
func (f *Faults) notice(changed chan<- struct{}) func(lifecycle.State) bool {
	type seen struct {
		faults  []fault.Fault
		started []time.Time
	}
	var last *seen
	return func(s lifecycle.State) bool {
		now := &seen{faults: s.Faults}
		for _, c := range s.Containers {
			at := c.StartedAt
			if c.Presence != lifecycle.Running {
				at = time.Time{}
			}
			now.started = append(now.started, at)
		}
		if first := last == nil; first && len(s.Faults) > 0 || !first && reflect.DeepEqual(last, now) {
			return !s.Settled()
		}
		last = now
		select {
		case changed <- struct{}{}:
		default: // what comes next takes the newest state
		}
		return !s.Settled()
	}
}

// keepOnce makes the networks as the state says. With all, what an earlier owner has left is removed.
func (f *Faults) keepOnce(ctx context.Context, all bool) error {
	ctx, cancel := context.WithTimeout(ctx, faultLimit)
	defer cancel()
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.task.State()
	if all && s.Sandbox.Dirty {
		found, err := f.networks(ctx, s)
		if err != nil {
			return err
		}
		for id, n := range found {
			if err := f.sweep(ctx, n.pid); err != nil {
				return err
			}
			f.known[id] = network{pid: n.pid}
		}
	}
	faults := fault.Active(s.Faults)
	if len(faults) < len(s.Faults) { // nothing is starting: who asked for it has given up
		f.task.Send(lifecycle.FaultsChanged{Faults: faults})
	}
	return f.apply(ctx, s, faults)
}

// apply gives all networks of the task these faults. The caller holds mu.
func (f *Faults) apply(ctx context.Context, s lifecycle.State, faults []fault.Fault) error {
	ctx, cancel := context.WithTimeout(ctx, faultLimit)
	defer cancel()
	dirty := slices.ContainsFunc(slices.Collect(maps.Values(f.known)), func(n network) bool { return len(n.faults) > 0 })
	if len(faults) == 0 && !dirty {
		return nil
	}
	found, err := f.networks(ctx, s)
	if err != nil {
		return err
	}
	for id := range f.known {
		if _, there := found[id]; !there {
			delete(f.known, id) // its containers are gone, and the faults with it
		}
	}
	var errs []error
	for id, n := range found {
		before := f.known[id].faults
		if sameRules(before, faults) {
			continue
		}
		now, err := f.set(ctx, n, before, faults)
		f.known[id] = network{pid: n.pid, faults: now}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// sameRules compares what faults do to a network.
func sameRules(a, b []fault.Fault) bool {
	timeless := func(all []fault.Fault) []fault.Fault {
		all = slices.Clone(all)
		for i := range all {
			all[i].Since, all[i].Until = time.Time{}, time.Time{}
		}
		return all
	}
	return sameFaults(timeless(a), timeless(b))
}

// found is a network namespace of the task.
type found struct {
	netns.Network
	pid int
}

// networks returns the network namespaces of the task that exist, by their names.
func (f *Faults) networks(ctx context.Context, s lifecycle.State) (map[string]found, error) {
	var names []string
	if !separate(s) {
		names = append(names, libpod.InfraName(taskspec.PodName(s)))
	}
	for i, c := range s.Containers {
		if _, own := taskspec.OwnNetwork(s, i); own && !c.Ended {
			names = append(names, taskspec.ContainerName(s, i))
		}
	}
	podman, err := f.factory.Podman(ctx)
	if err != nil {
		return nil, err
	}
	all := make(map[string]found)
	for _, name := range names {
		seen, err := podman.InspectContainer(ctx, name)
		switch {
		case errors.Is(err, libpod.NotFound):
			continue
		case err != nil:
			return nil, err
		case seen.PID == 0:
			continue
		}
		n, err := f.factory.Networks.Look(seen.PID)
		if err != nil {
			return nil, err
		}
		all[n.ID] = found{n, seen.PID}
	}
	return all, nil
}

// set gives a network with the faults before others, and returns those that it may have now: after, or on an error
// what could not be undone.
func (f *Faults) set(ctx context.Context, n found, before, after []fault.Fault) (now []fault.Fault, err error) {
	holes, err := f.setRules(ctx, n, holesOf(before), holesOf(after))
	if err != nil {
		return slices.Concat(holes, shapedOf(before)), err
	}
	shaped, err := f.setDisciplines(ctx, n, shapedOf(before), shapedOf(after))
	return slices.Concat(holes, shaped), err
}

func holesOf(all []fault.Fault) []fault.Fault {
	return slices.DeleteFunc(slices.Clone(all), fault.Fault.Shaped)
}

func shapedOf(all []fault.Fault) []fault.Fault {
	return slices.DeleteFunc(slices.Clone(all), func(x fault.Fault) bool { return !x.Shaped() })
}

// setRules puts the rules of black holes in place of others, and returns those that may be there now. nft changes a
// family whole or not at all. A network without IPv6 may be on a host without it.
func (f *Faults) setRules(ctx context.Context, n found, before, after []fault.Fault) (now []fault.Fault, err error) {
	if sameRules(before, after) {
		return before, nil
	}
	changed := false
	for _, family := range fault.Families() {
		_, err := f.factory.Networks.Run(ctx, n.pid, fault.Rules(family, after), "nft", "-f", "-")
		switch {
		case err == nil:
			changed = true
		case family != "ip" && !n.IPv6:
		case !changed:
			return before, err
		default:
			if _, undone := f.factory.Networks.Run(ctx, n.pid, fault.Rules("ip", before), "nft", "-f", "-"); undone != nil {
				return slices.Concat(before, after), err
			}
			return before, err
		}
	}
	return after, nil
}

// setDisciplines puts the disciplines of a fault in place of those that are there, and returns the faults that may be
// there now.
func (f *Faults) setDisciplines(ctx context.Context, n found, before, after []fault.Fault) (now []fault.Fault, err error) {
	if sameRules(before, after) {
		return before, nil
	}
	if err := f.clearDisciplines(ctx, n); err != nil {
		return before, err
	}
	for _, x := range after {
		if len(n.Interfaces) == 0 {
			return nil, errors.New("the network of the task has no interface that leads out")
		}
		for _, device := range n.Interfaces {
			if _, err := f.factory.Networks.Run(ctx, n.pid, fault.Disciplines(device, x), "tc", "-batch", "-"); err != nil {
				if f.clearDisciplines(ctx, n) != nil { // tc stops in the middle
					now = after
				}
				return now, err
			}
		}
	}
	return after, nil
}

// clearDisciplines removes podtask's queueing disciplines, and no other ones.
func (f *Faults) clearDisciplines(ctx context.Context, n found) error {
	for _, device := range n.Interfaces {
		out, err := f.factory.Networks.Run(ctx, n.pid, "", "tc", "qdisc", "show", "dev", device)
		if err != nil {
			return err
		}
		if !strings.Contains(out, " "+fault.Root+" root") {
			continue
		}
		if _, err := f.factory.Networks.Run(ctx, n.pid, "", "tc", "qdisc", "del", "dev", device, "root", "handle", fault.Root); err != nil {
			return err
		}
	}
	return nil
}

// sweep removes all faults from a network of which nothing is known. What a host cannot do has not been done.
func (f *Faults) sweep(ctx context.Context, pid int) error {
	n, err := f.factory.Networks.Look(pid)
	if err != nil {
		return err
	}
	_, rules := f.setRules(ctx, found{n, pid}, []fault.Fault{{Kind: fault.BlackholePort}}, nil)
	disciplines := f.clearDisciplines(ctx, found{n, pid})
	var failed *netns.ProgramError
	var missing *netns.MissingError
	for _, err := range []error{rules, disciplines} {
		if err != nil && !errors.As(err, &failed) && !errors.As(err, &missing) {
			return err
		}
	}
	return nil
}

// Close removes the faults, before another process becomes the owner. It is called when Keep has returned.
func (f *Faults) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), faultEnd)
	defer cancel()
	if !f.Enabled(f.task.State()) {
		return
	}
	if !f.isReady() {
		if err := f.keepOnce(ctx, true); err != nil {
			f.factory.Log.Warn("faults of an earlier owner stay until the task has its next owner", "task", f.task.State().ID, "error", err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, n := range f.known {
		delete(f.known, id)
		if len(n.faults) == 0 {
			continue
		}
		seen, err := f.factory.Networks.Look(n.pid)
		if err != nil || seen.ID != id {
			continue // it is gone, or the process is another one
		}
		if _, err := f.set(ctx, found{seen, n.pid}, n.faults, nil); err != nil {
			f.factory.Log.Warn("a fault stays until the task has its next owner", "task", f.task.State().ID, "error", err)
		}
	}
}

// reasonOf explains why a fault could not be injected, and what helps.
func reasonOf(err error) string {
	var missing *netns.MissingError
	var failed *netns.ProgramError
	switch {
	case errors.As(err, &missing) && missing.Program == "nft":
		return "nft is missing on this host: install nftables"
	case errors.As(err, &missing):
		return missing.Program + " is missing on this host: install iproute2"
	case errors.Is(err, context.DeadlineExceeded):
		return "request timed out"
	case errors.As(err, &failed) && failed.Program == "nft":
		return "the kernel of this host or its nft refuses the rules (is the module nf_tables loaded?): " + oneLine(failed.Said)
	case errors.As(err, &failed) && failed.Program == "tc":
		return "the kernel of this host refuses the fault; it needs sch_netem, sch_prio and cls_u32, and cls_bpf for a part of the connections (as root: modprobe -a sch_netem sch_prio cls_u32 cls_bpf): " + oneLine(failed.Said)
	}
	return err.Error()
}

// oneLine joins what a program has printed.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if most := 300; len(text) > most {
		text = text[:most] + "…"
	}
	return text
}
