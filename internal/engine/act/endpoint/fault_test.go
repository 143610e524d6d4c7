package endpoint_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/testing/enginehost"
	"github.com/podtask/podtask/pkg/fault"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/netns"
	"github.com/podtask/podtask/pkg/taskdef"
)

// networks are network namespaces, by a process in each, on a host with nft and tc.
type networks struct {
	mu    sync.Mutex // guards what follows
	rules map[int]string
	roots map[int]string // the handle of the discipline at the root
	// broken is the error of a program.
	broken map[string]error
	// dead: the process that calls is to be thought of as killed.
	dead bool
	// changed receives a value after each change, when there is room.
	changed chan struct{}
}

func newNetworks() *networks {
	return &networks{rules: make(map[int]string), roots: make(map[int]string), broken: make(map[string]error), changed: make(chan struct{}, 1)}
}

func (n *networks) Look(pid int) (netns.Network, error) {
	return netns.Network{ID: fmt.Sprintf("net:[%d]", pid), Interfaces: []string{"eth0"}}, nil
}

func (n *networks) Run(_ context.Context, pid int, input, program string, args ...string) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.dead {
		return "", errors.New("the process is dead")
	}
	if err := n.broken[program]; err != nil {
		return "", err
	}
	line := program + " " + strings.Join(args, " ")
	switch {
	case line == "nft -f -" && strings.Contains(input, "table ip6 "):
		return "", &netns.ProgramError{Program: program, Said: "no IPv6 here"} // which is no error of a network without
	case line == "nft -f -":
		_, table, _ := strings.Cut(input, "{\n")
		if n.rules[pid] = table; table == "" {
			delete(n.rules, pid)
		}
	case line == "tc -batch -" && n.roots[pid] == "":
		n.roots[pid] = fault.Root
		if err := n.broken["netem"]; err != nil {
			return "", err
		}
	case line == "tc qdisc show dev eth0":
		return "qdisc prio " + n.roots[pid] + " root refcnt 2 bands 3\n", nil
	case line == "tc qdisc del dev eth0 root handle "+fault.Root && n.roots[pid] == fault.Root:
		delete(n.roots, pid)
	default:
		return "", &netns.ProgramError{Program: program, Said: "cannot do " + line}
	}
	select {
	case n.changed <- struct{}{}:
	default:
	}
	return "", nil
}

// state describes all namespaces.
func (n *networks) state() (rules, roots int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.rules), len(n.roots)
}

// await waits until the namespaces have so many rules and disciplines.
func (n *networks) await(t *testing.T, rules, roots int) {
	t.Helper()
	for {
		gotRules, gotRoots := n.state()
		if gotRules == rules && gotRoots == roots {
			return
		}
		select {
		case <-n.changed:
		case <-t.Context().Done():
			t.Fatalf("%d namespaces have rules and %d disciplines, want %d and %d", gotRules, gotRoots, rules, roots)
		case <-time.After(time.Minute):
			t.Fatalf("%d namespaces have rules and %d disciplines, want %d and %d", gotRules, gotRoots, rules, roots)
		}
	}
}

var (
	hole    = fault.Fault{Kind: fault.BlackholePort, Port: 80, Protocol: "tcp", TrafficType: fault.Ingress}
	latency = fault.Fault{Kind: fault.Latency, DelayMilliseconds: 200, Sources: []string{"0.0.0.0/0"}, FlowsPercent: 100}
)

// sleeper is a task of containers that run until they are stopped.
func sleeper(host *enginehost.Host, network string, enabled bool, names ...string) taskdef.Task {
	var containers []any
	for _, name := range names {
		containers = append(containers, enginehost.Fields{"name": name, "image": enginehost.Image, "command": []string{"sleep", "forever"}})
	}
	return host.Parse(enginehost.Fields{"family": "web", "networkMode": network, "enableFaultInjection": enabled, "containerDefinitions": containers})
}

// faulty starts a task that can have faults, and waits until it runs.
func faulty(t *testing.T, host *enginehost.Host, n *networks, network string, names ...string) *enginehost.Process {
	t.Helper()
	e := host.Open()
	e.Metadata.Networks = n
	p := host.Own(e, host.Create(e, sleeper(host, network, true, names...), "", enginehost.Unlimited).ID)
	p.UntilRunning()
	return p
}

func code(err error) fault.Code {
	var refused *fault.Error
	if errors.As(err, &refused) {
		return refused.Code
	}
	return ""
}

// A fault is in each network of its task, and gone after a stop and at the end of the task.
func TestFaultsAreInAllNetworksOfATask(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		network  string
		names    []string
		networks int
	}{{"awsvpc", []string{"app"}, 1}, {"awsvpc", []string{"app", "db"}, 1}, {"bridge", []string{"app"}, 1}, {"bridge", []string{"app", "db"}, 2}} {
		t.Run(fmt.Sprintf("%s/%d", c.network, len(c.names)), func(t *testing.T) {
			t.Parallel()
			host, n := enginehost.New(t), newNetworks()
			p := faulty(t, host, n, c.network, c.names...)
			faults := p.Owner.Faults()
			for _, f := range []fault.Fault{hole, latency} {
				if err := faults.Start(t.Context(), f, 0); err != nil {
					t.Fatal(err)
				}
			}
			if rules, roots := n.state(); rules != c.networks || roots != c.networks {
				t.Errorf("%d namespaces have rules and %d disciplines, want %d", rules, roots, c.networks)
			}
			if got := fault.Active(p.Owner.State().Faults); len(got) != 2 || got[0].Since.IsZero() {
				t.Errorf("%+v", got)
			}
			begun := func(h lifecycle.Transition) bool {
				return h.Status == lifecycle.FaultStarted && h.Reason == latency.String()
			}
			if h := p.Owner.State().History; !slices.ContainsFunc(h, begun) {
				t.Errorf("the history does not say when it began: %+v", h)
			}
			if err := faults.Start(t.Context(), latency, 0); code(err) != fault.Conflict {
				t.Errorf("%v", err)
			}
			if err := faults.Stop(t.Context(), fault.Fault{Kind: fault.Latency}); err != nil {
				t.Fatal(err)
			}
			if rules, roots := n.state(); rules != c.networks || roots != 0 {
				t.Errorf("after a stop: %d namespaces have rules and %d disciplines", rules, roots)
			}
			if err := faults.Stop(t.Context(), fault.Fault{}); err != nil {
				t.Fatal(err)
			}
			if rules, roots := n.state(); rules != 0 || roots != 0 || len(p.Owner.State().Faults) > 0 {
				t.Errorf("after the last stop: %d namespaces have rules and %d disciplines, %+v", rules, roots, p.Owner.State().Faults)
			}
			p.Stop()
		})
	}
}

// A fault that the host cannot do is undone, and the error says what is missing.
func TestARefusedFaultLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, program string
		err           error
		f             fault.Fault
		want          string
	}{
		{"no nft", "nft", &netns.MissingError{Program: "nft"}, hole, "install nftables"},
		{"no nf_tables", "nft", &netns.ProgramError{Program: "nft", Said: "Error: Could not process rule:\n  Operation not supported"}, hole, "nf_tables loaded?): Error: Could not process rule: Operation not supported"},
		{"no tc", "tc", &netns.MissingError{Program: "tc"}, latency, "tc is missing on this host: install iproute2"},
		{"no sch_netem", "netem", &netns.ProgramError{Program: "tc", Said: "Error: Specified qdisc kind is unknown."}, latency, "it needs sch_netem"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			host, n := enginehost.New(t), newNetworks()
			n.broken[c.program] = c.err
			p := faulty(t, host, n, "awsvpc", "app")
			err := p.Owner.Faults().Start(t.Context(), c.f, 0)
			if code(err) != fault.Failed || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
			s := p.Owner.State()
			if rules, roots := n.state(); rules != 0 || roots != 0 || len(s.Faults) > 0 {
				t.Errorf("%d namespaces have rules and %d disciplines, %+v", rules, roots, s.Faults)
			}
			other := latency
			if c.f.Shaped() {
				other = hole
			}
			if err := p.Owner.Faults().Start(t.Context(), other, 0); err != nil {
				t.Errorf("what the host can do after that: %v", err)
			}
			if slices.ContainsFunc(s.History, func(h lifecycle.Transition) bool { return strings.HasPrefix(h.Status, "FAULT") }) {
				t.Errorf("what never was is in the history: %+v", s.History)
			}
			p.Stop()
		})
	}
}

func TestTasksThatCannotHaveFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, network string
		enabled       bool
		want          string
	}{
		{"not enabled", "awsvpc", false, "enableFaultInjection is not enabled for task: arn:aws:ecs:"},
		{"the network of the host", "host", true, "host mode is not supported"},
		{"no network", "none", true, "none mode is not supported"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			host, n := enginehost.New(t), newNetworks()
			e := host.Open()
			e.Metadata.Networks = n
			p := host.Own(e, host.Create(e, sleeper(host, c.network, c.enabled, "app"), "", enginehost.Unlimited).ID)
			p.UntilRunning()
			if err := p.Owner.Faults().Start(t.Context(), hole, 0); code(err) != fault.Invalid || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
			if rules, _ := n.state(); rules > 0 {
				t.Error("the network was changed")
			}
			p.Stop()
		})
	}
}

// A fault ends after its time, by the clock of the owner.
func TestAFaultEndsAfterItsTime(t *testing.T) {
	t.Parallel()
	host, n := enginehost.New(t), newNetworks()
	p := faulty(t, host, n, "awsvpc", "app")
	if err := p.Owner.Faults().Start(t.Context(), latency, time.Second); err != nil {
		t.Fatal(err)
	}
	s := p.Until("without faults", func(s lifecycle.State) bool { return len(s.Faults) == 0 })
	n.await(t, 0, 0)
	if last := s.History[len(s.History)-1]; last.Status != lifecycle.FaultStopped || !strings.HasSuffix(last.Reason, "its time is over") {
		t.Errorf("%+v", last)
	}
	p.Stop()
}

// A fault that was recorded and not begun, because who asked for it has given up, does not come to be.
func TestAFaultThatNobodyWaitsForIsDropped(t *testing.T) {
	t.Parallel()
	host, n := enginehost.New(t), newNetworks()
	p := faulty(t, host, n, "awsvpc", "app")
	if err := p.Owner.Faults().Stop(t.Context(), fault.Fault{}); err != nil { // those of an earlier owner are gone
		t.Fatal(err)
	}
	p.Owner.Send(lifecycle.FaultsChanged{Faults: []fault.Fault{latency}})
	if err := p.Owner.Faults().Start(t.Context(), hole, 0); err != nil {
		t.Fatal(err)
	}
	n.await(t, 1, 0)
	if got := p.Owner.State().Faults; len(got) != 1 || got[0].Kind != fault.BlackholePort {
		t.Errorf("%+v", got)
	}
	p.Stop()
}

// The owner is killed: the next one removes the faults, at whatever moment that was, before it takes requests.
func TestTheNextOwnerRemovesFaults(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"awsvpc", "bridge"} {
		for _, recorded := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/recorded=%t", network, recorded), func(t *testing.T) {
				t.Parallel()
				host, n := enginehost.New(t), newNetworks()
				p := faulty(t, host, n, network, "app", "db")
				for _, f := range []fault.Fault{hole, latency} {
					if err := p.Owner.Faults().Start(t.Context(), f, 0); err != nil {
						t.Fatal(err)
					}
				}
				if !recorded { // it is killed between the record and the change of the network
					n.mu.Lock()
					n.dead = true
					n.mu.Unlock()
					p.Owner.Send(lifecycle.FaultsChanged{Reason: "stopped"})
					p.Until("without faults", func(s lifecycle.State) bool { return len(s.Faults) == 0 })
				}
				n.mu.Lock()
				n.dead = true
				n.mu.Unlock()
				p.Kill()
				if rules, roots := n.state(); rules == 0 || roots == 0 {
					t.Fatal("the dead owner has removed something")
				}
				n.mu.Lock()
				n.dead = false
				n.mu.Unlock()
				e := host.Open()
				e.Metadata.Networks = n
				p = host.Own(e, p.ID)
				n.await(t, 0, 0)
				if err := p.Owner.Faults().Start(t.Context(), latency, 0); err != nil {
					t.Errorf("a fault of the next owner: %v", err)
				}
				if s := p.Owner.State(); len(s.Faults) != 1 {
					t.Errorf("%+v", s.Faults)
				}
				p.Stop()
			})
		}
	}
}

// An owner that ends and leaves its task leaves no fault.
func TestAnOwnerThatEndsRemovesItsFaults(t *testing.T) {
	t.Parallel()
	host, n := enginehost.New(t), newNetworks()
	p := faulty(t, host, n, "awsvpc", "app")
	if err := errors.Join(p.Owner.Faults().Start(t.Context(), latency, 0), p.Owner.Faults().Start(t.Context(), hole, time.Hour)); err != nil {
		t.Fatal(err)
	}
	p.Kill()
	if rules, roots := n.state(); rules != 0 || roots != 0 {
		t.Errorf("%d namespaces have rules and %d disciplines", rules, roots)
	}
	e := host.Open()
	e.Metadata.Networks = n
	host.Own(e, p.ID).Stop()
}
