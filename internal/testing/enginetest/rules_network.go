package enginetest

import (
	"context"
	"errors"
	"slices"

	"github.com/podtask/podtask/internal/host/libpod"
)

// bridged makes the task's network and its pod, whose members are part of the network
// by themselves.
func (k *task) bridged() {
	k.t.Helper()
	k.bridgedBy(k.network())
}

func (k *task) bridgedBy(n libpod.NetworkSpec) {
	k.t.Helper()
	connect(k, n)
	apart(k)
}

// connect makes a network.
func connect(k *task, n libpod.NetworkSpec) {
	k.t.Helper()
	k.must(k.EnsureNetwork(k.ctx(), n))
	k.t.Cleanup(func() { k.clean(func(ctx context.Context) error { return k.RemoveNetwork(ctx, k.pod.Name, k.id) }) })
}

// samePort lets two members publish the same port.
func samePort(k *task) {
	k.t.Helper()
	fixed := libpod.Port{HostIP: "127.0.0.1", HostPort: k.FreePort(k.t), ContainerPort: 80, Protocol: "tcp"}
	a := k.see(k.run(k.member("a", "sleep forever", fixed)))
	b := k.see(k.run(k.member("b", "sleep forever", libpod.Port{HostIP: "127.0.0.1", ContainerPort: 80})))
	if !slices.Equal(a.Ports, []libpod.Port{fixed}) || len(b.Ports) != 1 || b.Ports[0].HostPort == 0 || b.Ports[0].HostPort == fixed.HostPort {
		k.t.Errorf("ports %v and %v", a.Ports, b.Ports)
	}
	if len(a.Addresses) == 0 || len(b.Addresses) == 0 {
		k.t.Errorf("addresses %v and %v", a.Addresses, b.Addresses)
	}
}

func (k *task) network() libpod.NetworkSpec {
	return libpod.NetworkSpec{Name: k.pod.Name, TaskID: k.id, Labels: map[string]string{"colour": "red"}}
}

// member is a container of the task's network, with the name a or b.
func (k *task) member(name, steps string, ports ...libpod.Port) libpod.ContainerSpec {
	s := k.spec(name, steps)
	s.Own = &libpod.OwnNetwork{Network: k.pod.Name, Aliases: []string{name}, Members: [][]string{{"a"}, {"b"}}, Place: int(name[0] - 'a'), Ports: ports}
	return s
}

var networkRules = []rule{
	{"a network is made once found by List and removed once", func(k *task) {
		k.bridged()
		k.must(k.EnsureNetwork(k.ctx(), k.network()))
		if n := k.networks(); n != 1 {
			k.t.Errorf("List finds %d networks", n)
		}
		k.must(k.RemovePod(k.ctx(), k.pod.Name, k.id), k.RemoveNetwork(k.ctx(), k.pod.Name, k.id), k.RemoveNetwork(k.ctx(), k.pod.Name, k.id))
		if n := k.networks(); n != 0 {
			k.t.Errorf("List finds %d networks after the removal", n)
		}
	}},
	{"the network of another task is neither adopted nor removed", func(k *task) {
		k.bridged()
		other := k.network()
		other.TaskID = "another"
		k.wantClass(k.EnsureNetwork(k.ctx(), other), libpod.Conflict)
		k.wantClass(k.RemoveNetwork(k.ctx(), k.pod.Name, "another"), libpod.Conflict)
		if n := k.networks(); n != 1 {
			k.t.Errorf("List finds %d networks", n)
		}
	}},
	{"a network that a container is part of is not removed", func(k *task) {
		k.bridged()
		k.run(k.member("a", "sleep forever"))
		k.wantClass(k.RemoveNetwork(k.ctx(), k.pod.Name, k.id), libpod.Temporary)
	}},
	{"two members publish the same port each on its own host port", func(k *task) {
		k.bridged()
		samePort(k)
	}},
	{"two members of a pod that shares its IPC namespace publish the same port", func(k *task) {
		connect(k, k.network())
		k.pod.Network, k.pod.OwnNetworks, k.pod.ShareIPC = "", true, true
		k.up()
		samePort(k)
	}},
	{"a member has the address of its place in any start order and after a stop", func(k *task) {
		k.bridged()
		a, b := k.create(k.member("a", "sleep forever")), k.run(k.member("b", "sleep forever"))
		k.must(k.StartContainer(k.ctx(), a))
		low, high := k.see(a).Addresses, k.see(b).Addresses
		if len(low) != 1 || len(high) != 1 || low[0].Next() != high[0] {
			k.t.Fatalf("addresses %v and %v", low, high)
		}
		for _, name := range []string{b, a} {
			before := k.see(name).Addresses
			k.must(k.StopContainer(k.ctx(), name, 0))
			k.must(k.StartContainer(k.ctx(), name))
			if after := k.see(name).Addresses; !slices.Equal(after, before) {
				k.t.Errorf("addresses %v became %v", before, after)
			}
		}
	}},
	{"on a network with IPv6 a member has an address of each kind and both again after a stop", func(k *task) {
		n := k.network()
		n.IPv6 = true
		k.bridgedBy(n)
		a, b := k.run(k.member("a", "sleep forever")), k.run(k.member("b", "sleep forever"))
		first, second := k.see(a).Addresses, k.see(b).Addresses
		if len(first) != 2 || len(second) != 2 || !first[0].Is4() || !first[1].Is6() || first[0].Next() != second[0] || first[1].Next() != second[1] {
			k.t.Fatalf("addresses %v and %v", first, second)
		}
		k.must(k.StopContainer(k.ctx(), a, 0), k.StartContainer(k.ctx(), a))
		if after := k.see(a).Addresses; !slices.Equal(after, first) {
			k.t.Errorf("addresses %v became %v", first, after)
		}
	}},
	{"a member that asks for another address is told which one it lacks", func(k *task) {
		k.bridged()
		first := k.run(k.member("a", "sleep forever"))
		own := k.see(first).Addresses
		k.must(k.RemoveContainer(k.ctx(), first, k.id))
		s := k.member("a", "sleep forever")
		s.Own.Spare = 7
		o := k.see(k.run(s))
		if len(own) != 1 || len(o.Addresses) != 1 || len(o.Missing) != 1 || o.Addresses[0] == own[0] || o.Missing[0].Addr() != own[0] || !o.Missing[0].Contains(o.Addresses[0]) {
			k.t.Errorf("before: %v, then %v without %v", own, o.Addresses, o.Missing)
		}
	}},
	{"a member that has run gets another address when it is set up if Podman keeps its own", func(k *task) {
		k.bridged()
		name := k.run(k.member("a", "sleep forever"))
		own := k.see(name).Addresses
		k.must(k.StopContainer(k.ctx(), name, 0))
		holder := k.member("b", "sleep forever")
		holder.Own.Place = k.member("a", "").Own.Place
		k.run(holder)
		k.wantClass(k.StartContainer(k.ctx(), name), libpod.Interrupted)
		o, err := k.setUp(name)
		k.must(err, k.StartContainer(k.ctx(), name))
		if len(own) != 1 || len(o.Addresses) != 1 || len(o.Missing) != 1 || o.Addresses[0] == own[0] || o.Missing[0].Addr() != own[0] || !o.Missing[0].Contains(o.Addresses[0]) {
			k.t.Errorf("before: %v, then %v without %v", own, o.Addresses, o.Missing)
		}
		if after := k.see(name); after.Status != libpod.Running || !slices.Equal(after.Addresses, o.Addresses) {
			k.t.Errorf("after the start: %+v", after)
		}
	}},
	{"a member that is connected to no network is connected again when it is set up", func(k *task) {
		k.bridged()
		name := k.run(k.member("a", "sleep forever"))
		own := k.see(name).Addresses
		k.must(k.StopContainer(k.ctx(), name, 0))
		k.Disconnect(k.t, name, k.pod.Name)
		if o := k.see(name); !o.Disconnected {
			k.t.Errorf("not seen: %+v", o)
		}
		o, err := k.setUp(name)
		k.must(err, k.StartContainer(k.ctx(), name))
		if o.Disconnected || len(o.Addresses) != 1 || len(o.Missing) != 1 || o.Addresses[0] == own[0] || o.Missing[0].Addr() != own[0] {
			k.t.Errorf("before: %v, then %+v", own, o)
		}
		if after := k.wantStatus(name, libpod.Running); !slices.Equal(after.Addresses, o.Addresses) {
			k.t.Errorf("after the start: %+v", after)
		}
	}},
	{"a taken host port of a member is PortInUse at its start", func(k *task) {
		k.bridged()
		name := k.create(k.member("a", "sleep forever", libpod.Port{HostIP: "127.0.0.1", HostPort: k.TakePort(k.t), ContainerPort: 80}))
		k.wantClass(k.StartContainer(k.ctx(), name), libpod.PortInUse)
		if o := k.see(name); o.Status == libpod.Running {
			k.t.Errorf("it runs: %+v", o)
		}
		k.must(k.RemoveContainer(k.ctx(), name, k.id))
		k.wantStatus(name, libpod.Absent)
	}},
	{"a member on an unknown network is refused", func(k *task) {
		k.bridged()
		s := k.member("a", "sleep forever")
		s.Own.Network = "no-such-network-" + k.id
		if _, err := k.CreateContainer(k.ctx(), s); err == nil {
			k.wantFailedStart(s.Name)
		}
	}},
	{"a container that is set up has a process and runs nothing until it is started", func(k *task) {
		k.bridged()
		name := k.create(k.member("a", "print ran -- sleep forever"))
		first, err := k.setUp(name)
		k.must(err)
		second, err := k.setUp(name)
		k.must(err)
		if o := k.wantStatus(name, libpod.Created); first.PID == 0 || first.PID != second.PID || o.PID != first.PID || len(o.Addresses) == 0 {
			k.t.Errorf("processes %d and %d: %+v", first.PID, second.PID, o)
		}
		k.wantTexts(name, libpod.LogOptions{})
		k.must(k.StartContainer(k.ctx(), name))
		if o := k.wantStatus(name, libpod.Running); o.PID != first.PID {
			k.t.Errorf("process %d became %d", first.PID, o.PID)
		}
		if running, err := k.setUp(name); err != nil || running.PID != first.PID {
			k.t.Errorf("of a running container: %d, %v", running.PID, err)
		}
	}},
	{"stopping what is set up undoes it and it can be started later", func(k *task) {
		k.bridged()
		name := k.create(k.member("a", "exit 3"))
		_, err := k.setUp(name)
		k.must(err, k.StopContainer(k.ctx(), name, 0))
		if o := k.see(name); o.Status == libpod.Running || o.PID != 0 || !o.StartedAt.IsZero() {
			k.t.Errorf("%+v", o)
		}
		k.must(k.StartContainer(k.ctx(), name))
		k.wantExit(name, 3)
	}},
	{"a container that has exited can be set up and started again with its ports", func(k *task) {
		k.bridged()
		name := k.run(k.member("a", "exit 3", libpod.Port{HostIP: "127.0.0.1", ContainerPort: 80}))
		first := k.wantExit(name, 3)
		set, err := k.setUp(name)
		for range 20 { // Podman may still clean up after the exit, which takes the new process away
			if err == nil {
				break
			}
			set, err = k.setUp(name)
		}
		k.must(err)
		if o := k.see(name); set.PID == 0 || o.Status != libpod.Created {
			k.t.Errorf("process %d, %+v", set.PID, o)
		}
		k.must(k.StartContainer(k.ctx(), name))
		if second := k.wantExit(name, 3); !slices.Equal(first.Ports, second.Ports) || len(second.Ports) != 1 {
			k.t.Errorf("ports %v, then %v", first.Ports, second.Ports)
		}
	}},
	{"what keeps a container from being started keeps it from being set up", func(k *task) {
		k.bridged()
		s := k.member("a", "")
		s.EntryPoint = []string{"/nowhere"}
		name := k.create(s)
		_, err := k.setUp(name)
		k.wantClass(err, libpod.CommandNotFound)
		k.wantClass(k.StartContainer(k.ctx(), name), libpod.CommandNotFound)
		k.wantStatus(name, libpod.Created)
	}},
}

// setUp initializes a container that is like member a.
// It tries again as the engine does: Podman 4 may end a new process when it cleans up after the one before.
func (k *task) setUp(name string) (o libpod.Observed, err error) {
	for range 3 {
		if o, err = k.InitContainer(k.ctx(), name, *k.member("a", "").Own); !errors.Is(err, libpod.Temporary) {
			break
		}
	}
	return o, err
}

// networks counts the task's networks in List.
func (k *task) networks() (n int) {
	k.t.Helper()
	found, err := k.List(k.ctx())
	k.must(err)
	for _, f := range found {
		if f.Kind == libpod.KindNetwork && f.TaskID == k.id && f.Labels["colour"] == "red" {
			n++
		}
	}
	return n
}

// wantFailedStart fails the test if the container can be started.
func (k *task) wantFailedStart(name string) {
	k.t.Helper()
	if err := k.StartContainer(k.ctx(), name); err == nil {
		k.t.Errorf("%s was started", name)
	}
}
