//go:build e2e

package e2e

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/testing/registrytest"
)

// Rows 13 and 25 are among these.
func TestContainersReachEachOtherByNamesAndHaveTheirOwn(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.want(0, "run", "--quiet", "--name", b.family, b.write(def{Containers: []ctr{
		{Name: "db", Essential: optional, Command: words("serve 8080"), StopTimeout: 2},
		{Name: "web", DependsOn: []on{{"alone", "SUCCESS"}, {"apart", "SUCCESS"}}, Command: words("await http://store:8080/ -- await http://db:8080/ -- resolve extra.example -- resolve me -- resolver -- where"), More: obj{
			"links": []string{"db:store"}, "extraHosts": []obj{{"hostname": "extra.example", "ipAddress": "192.0.2.7"}},
			"dnsSearchDomains": []string{"example.org"}, "hostname": "me",
		}},
		{Name: "other", Essential: optional, Command: words("cannot resolve extra.example -- cannot get http://127.0.0.1:8080/")},
		// Its own name servers, which do not answer, hide no container from it.
		{Name: "apart", Command: words("resolve db -- resolve store -- await http://db:8080/"), Essential: optional, More: obj{"dnsServers": []string{"192.0.2.53"}}},
		{Name: "alone", Essential: optional, Command: words("interfaces -- cannot resolve db"), More: obj{"disableNetworking": true}},
	}}))
	got := b.lines(b.family, "web")
	for _, want := range []string{"extra.example 192.0.2.7", "me ", "example.org", "host=me"} {
		if !strings.Contains(got, want) {
			t.Errorf("web printed %s, without %q", got, want)
		}
	}
	b.wantLines(b.family, "alone", "interfaces lo", "cannot resolve")
	if got := b.lines(b.family, "apart"); !strings.Contains(got, "db ") || !strings.Contains(got, "store ") {
		t.Errorf("apart printed %s", got)
	}
	// A link is a START dependency.
	events := b.events()
	at := func(what string) int {
		return slices.IndexFunc(events, func(e event) bool { return e.String() == what })
	}
	if at("db RUNNING") > at("web RUNNING") {
		t.Error("the linked container started last")
	}
}

// Row 13: containers of a bridged task do not share localhost.
func TestTwoContainersOfABridgedTaskListenOnTheSamePort(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	fixed := freePort(t)
	serve := func(name string, p port) ctr {
		return ctr{Name: name, Command: words("serve 80"), Ports: []port{p}, Environment: []envVar{{"GREETING", "hello from " + name}}, StopTimeout: 2, More: obj{"user": "0"}}
	}
	id := b.detach(b.define(serve("one", port{Container: 80, Host: fixed}), serve("two", port{Container: 80}),
		ctr{Name: "probe", Essential: optional, DependsOn: []on{{"one", "START"}, {"two", "START"}}, Command: words(
			"await http://one/env/GREETING -- await http://two/env/GREETING -- cannot get http://127.0.0.1/")}))
	b.await("probe STOPPED")
	b.wantLines(id, "probe", "hello from one", "hello from two", "cannot get")
	task := b.inspect(id)
	hosts := map[string]int{}
	for _, c := range task.Containers {
		if c.Name == "probe" {
			continue
		}
		if len(c.Ports) != 1 || c.Ports[0].ContainerPort != 80 || c.Ports[0].HostPort == 0 || len(c.Addresses) == 0 {
			t.Fatalf("container %s: ports %v, addresses %v", c.Name, c.Ports, c.Addresses)
		}
		hosts[c.Name] = c.Ports[0].HostPort
		b.wantAnswer(c.Ports[0].HostPort, "hello from "+c.Name)
	}
	if hosts["one"] != fixed || hosts["two"] == fixed || len(task.Ports) != 2 {
		t.Errorf("host ports %v, the task's %v; one asked for %d", hosts, task.Ports, fixed)
	}
	// Another task has a network of its own.
	b.want(0, "run", "--quiet", b.define(ctr{Name: "spy", Command: words("cannot resolve one")}, ctr{Name: "second", Essential: optional, Command: words("cannot resolve two")}))
	// Another owner finds the same containers.
	b.killOwner(id)
	b.want(0, "stop", id)
	for _, p := range hosts {
		wantClosed(t, p)
	}
}

// Podman keeps the address of a container in a task's network, as after the death of its
// service in the middle of a start. The container gets another address, and is reached at
// that which the hosts files of the others contain.
func TestContainerWhoseAddressIsKept(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	id := b.detach(b.define(
		ctr{Name: "client", Command: words("await http://web/env/GREETING -- sleep forever"), StopTimeout: 1},
		ctr{Name: "gate", Essential: optional, Command: words("write /tmp/up -- sleep forever"), StopTimeout: 1, Health: healthyIf("exists /tmp/go")},
		ctr{Name: "web", Command: words("serve 80"), Environment: []envVar{{"GREETING", "hello from web"}}, StopTimeout: 2, More: obj{"user": "0"}, DependsOn: []on{{"gate", "HEALTHY"}}},
	))
	b.await("gate RUNNING")
	network := strings.TrimSpace(b.podman("network", "ls", "--quiet", "--filter", "label=podtask.task-id="+id))
	subnet := netip.MustParsePrefix(strings.TrimSpace(b.podman("network", "inspect", "--format", "{{(index .Subnets 0).Subnet}}", network)))
	place := subnet.Addr().Next().Next().Next().Next() // behind those of the gateway, client and gate
	// By its ID: Podman would pull a name that it misses.
	image := strings.TrimSpace(b.podman("inspect", "--format", "{{.Image}}", b.inspect(id).Containers[1].RuntimeID))
	holder := b.podman("run", "--detach", "--pull=never", "--network", network, "--ip", place.String(), image, "sleep", "forever")
	remove := func() { b.podman("rm", "--force", "--time", "0", holder) }
	defer func() { remove() }()
	b.touch(b.inspect(id).Containers[1].RuntimeID, "/tmp/go")
	b.await("web RUNNING")
	web := b.inspect(id).Containers[2]
	if slices.Contains(web.Addresses, place.String()) {
		t.Errorf("web has the address %s, which Podman gave to another container", place)
	}
	remove()
	remove = func() {}
	b.await("client RUNNING")
	eventually(t, "an answer to client", func() bool {
		return strings.Contains(b.podtask("logs", id, "client").out, "hello from web")
	})
	b.want(0, "stop", id)
}

// Tasks on one of the user's networks reach each other by the names of their containers,
// whether these share a namespace or not; the network is there before and after.
func TestTasksJoinANetwork(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	network := b.family + "-net"
	run := func(mode string, cs ...ctr) string {
		return b.write(def{Network: mode, Containers: cs, More: obj{"x-podtask": obj{"network": network}}})
	}
	server := func(name string, at int) ctr {
		return ctr{Name: name, Command: words(fmt.Sprintf("serve %d", at)), Environment: []envVar{{"GREETING", "hello from " + name}}, StopTimeout: 2, More: obj{"user": "0"}}
	}
	apart := run("bridge", server("one", 80), server("two", 80))
	if r := b.want(125, "run", "--quiet", apart); !strings.Contains(r.err, "podman network create "+network) {
		t.Errorf("without the network: %s", r.err)
	}
	b.podman("network", "create", network)
	defer b.podman("network", "rm", "--force", network)
	first, second := b.detach("--wait=running", apart), b.detach("--wait=running", run("awsvpc", server("three", 81), server("four", 82)))
	client := ctr{Name: "client", Command: words(
		"await http://one/env/GREETING -- await http://two/env/GREETING -- await http://three:81/env/GREETING -- await http://four:82/env/GREETING")}
	third := b.detach(run("", client, server("five", 83)))
	b.await("client STOPPED")
	b.wantLines(third, "client", "hello from one", "hello from two", "hello from three", "hello from four")
	b.want(0, "rm", "--force", first, second, third)
	if got := b.podman("network", "ls", "--quiet", "--filter", "name="+network); strings.TrimSpace(got) == "" {
		t.Error("the user's network is gone")
	}
}

// The ports and the metadata endpoint of a container come back with it.
func TestRestartedContainerOfABridgedTaskHasItsPortsAgain(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	id := b.detach(b.define(
		ctr{Name: "web", Command: words("await " + metadataURI + " -- serve 80"), Ports: []port{{Container: 80}}, Environment: []envVar{{"GREETING", "hello"}}, Restart: restarts(0), StopTimeout: 2, More: obj{"user": "0"}},
		ctr{Name: "client", Command: words("sleep forever"), StopTimeout: 1},
	))
	b.await("web RUNNING")
	host := func() int {
		for _, c := range b.inspect(id).Containers {
			if c.Name == "web" && len(c.Ports) == 1 {
				return c.Ports[0].HostPort
			}
		}
		t.Fatal("web has no port")
		return 0
	}
	first := host()
	b.wantAnswer(first, "hello")
	for range 3 {
		restarts := b.inspect(id).Containers[0].RestartCount
		b.podman("kill", b.inspect(id).Containers[0].RuntimeID)
		eventually(t, "web is restarted", func() bool {
			c := b.inspect(id).Containers[0]
			return c.RestartCount > restarts && c.Status == "RUNNING" && c.RestartAt == nil
		})
		b.wantAnswer(first, "hello")
	}
	if again := host(); again != first {
		t.Errorf("host port %d became %d", first, again)
	}
	b.want(0, "stop", id)
}

// A pod is RESOURCES_PROVISIONED when its network is there: its ports are taken, though no
// container of the task has started.
func TestResourcesAreProvisionedWhenTheNetworkIsReady(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	fixed := freePort(t)
	b.push("late:1", b.freshImage("late"))
	release := make(chan struct{})
	b.fault("GET", "late", "blobs/", 0, registrytest.Hang(release))
	p := b.start("run", "--name", b.family, b.write(def{Network: "awsvpc", Containers: []ctr{
		{Name: "late", Image: bed.reg.Ref(b.repository("late:1")), Command: words("exit 0"), Ports: []port{{Container: fixed, Host: fixed}}},
		{Name: "side", Command: words("sleep forever"), Essential: optional, DependsOn: []on{{"late", "START"}}, StopTimeout: 1},
	}}))
	b.await("~infra RESOURCES_PROVISIONED")
	if l, err := net.Listen("tcp", fmt.Sprintf(":%d", fixed)); err == nil {
		l.Close()
		t.Errorf("port %d is free", fixed)
	}
	task := b.inspect(b.family)
	if len(task.Ports) != 1 || task.Ports[0].HostPort != fixed {
		t.Errorf("ports %v", task.Ports)
	}
	infra := b.podman("pod", "inspect", "--format", "{{.InfraContainerID}}", task.PodID)
	if got := b.podman("inspect", "--format", "{{.State.Status}}", infra); got != "running" {
		t.Errorf("the infra container is %s", got)
	}
	if c := task.Containers[0]; c.RuntimeID != "" {
		t.Errorf("the container is made: %+v", c)
	}
	close(release)
	p.want(0)
	inOrder(t, b.events(), "~infra RESOURCES_PROVISIONED", "late PULLED", "late RUNNING")
}

func TestNetworkModeNoneHasLoopbackOnly(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.want(0, "run", "--quiet", "--name", b.family, b.write(def{Network: "none", Containers: []ctr{{Name: "app", Command: words("interfaces")}}}))
	b.wantLines(b.family, "app", "interfaces lo")
}

// Row 13.
func TestNetworkModeHostHasHostsOfItsOwn(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.want(0, "run", "--quiet", "--name", b.family, b.write(def{Network: "host", Containers: []ctr{
		{Name: "app", Command: words("resolve extra.example -- resolver"), More: obj{"extraHosts": []obj{{"hostname": "extra.example", "ipAddress": "192.0.2.7"}}, "dnsServers": []string{"192.0.2.53"}}},
	}}))
	b.wantLines(b.family, "app", "extra.example 192.0.2.7", "nameserver 192.0.2.53")
}

// Row 24, and a range.
func TestSamePortTwiceAndARangeGetHostPorts(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	d := def{Containers: []ctr{{
		Name: "web", Command: words("serve 8080"), Environment: []envVar{{"GREETING", "hello from " + b.family}}, StopTimeout: 2,
		More: obj{"portMappings": []obj{{"containerPort": 8080}, {"containerPort": 8080}, {"containerPortRange": "9000-9003"}}},
	}, {Name: "probe", Essential: optional, Command: words("await http://web:8080/")}}}
	id := b.detach(b.write(d))
	b.await("probe STOPPED")
	var twice, ranged []int
	for _, p := range b.inspect(id).Ports {
		if p.ContainerPort == 8080 {
			b.askWeb(p.HostPort)
			twice = append(twice, p.HostPort)
		} else {
			ranged = append(ranged, p.HostPort)
		}
	}
	if len(twice) != 2 || twice[0] == twice[1] {
		t.Errorf("port 8080 is on %v, want two host ports", twice)
	}
	if len(ranged) != 4 {
		t.Fatalf("the range is on %v", ranged)
	}
	for i, p := range ranged {
		if p != ranged[0]+i {
			t.Errorf("the range is on %v, which is not in one piece", ranged)
		}
	}
	// Another owner finds the same pod.
	b.killOwner(id)
	b.want(0, "stop", id)
	for _, p := range twice {
		wantClosed(t, p)
	}
}
