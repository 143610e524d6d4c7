//go:build e2e

//e2e:bed systemd

package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// faultURL is where a container injects faults.
const faultURL = "${ECS_AGENT_URI}/fault/v1/network-"

// faults are those that `fault status` lists.
func (b *box) faults(ref string) (kinds []string) {
	b.t.Helper()
	var list []struct{ Kind string }
	if err := json.Unmarshal([]byte(b.want(0, "fault", "status", ref, "--format=json").out), &list); err != nil {
		b.t.Fatal(err)
	}
	for _, f := range list {
		kinds = append(kinds, strings.TrimPrefix(f.Kind, "network-"))
	}
	return kinds
}

// post makes a request in the first container of a task, and returns the answer or its status.
func (b *box) post(ref, url, body string) string {
	b.t.Helper()
	out, err := exec.Command("podman", "exec", b.inspect(ref).Containers[0].RuntimeID, "/testbox", "send", "POST", url, body).CombinedOutput()
	if err != nil && len(out) == 0 {
		b.t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// hostCan reports whether the kernel of this host does what a script says in a network namespace of its own.
func hostCan(script string) bool {
	cmd := exec.Command("unshare", "--user", "--map-root-user", "--net", "sh", "-ec", script)
	cmd.Env = append(os.Environ(), "PATH=/usr/sbin:/sbin:"+os.Getenv("PATH"))
	return cmd.Run() == nil
}

// echoing starts a task that echoes UDP packets, and returns its port on this host.
func (b *box) echoing(network string, more obj, flags ...string) (hostPort int) {
	b.t.Helper()
	b.detach(append([]string{
		"--name", b.family, "--wait=running",
		b.write(def{Network: network, Containers: []ctr{{Name: "app", Command: words("echo 7000"), Ports: []port{{Container: 7000, Protocol: "udp"}}}}, More: more}),
	}, flags...)...)
	t := b.inspect(b.family)
	for _, p := range append(t.Ports, t.Containers[0].Ports...) {
		hostPort = p.HostPort
	}
	return hostPort
}

// echoes reports whether a packet comes back within a second.
func echoes(t *testing.T, port int) bool {
	t.Helper()
	c, err := net.Dial("udp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	if _, err := c.Write([]byte("hello")); err != nil {
		return false
	}
	_, err = c.Read(make([]byte, 16))
	return err == nil
}

// A fault needs its own network and a definition that allows it; what the kernel cannot do is refused with the reason.
func TestFaultsAreRefused(t *testing.T) {
	t.Parallel()
	const body = `{"DelayMilliseconds":100,"JitterMilliseconds":0,"Sources":["0.0.0.0/0"]}`
	for _, c := range []struct {
		network string
		enabled bool
		want    string
	}{{"awsvpc", false, "enableFaultInjection is not enabled for task: arn:aws:ecs:"}, {"host", true, "host mode is not supported"}} {
		t.Run(c.network, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			b.detach("--name", b.family, "--wait=running", b.write(def{Network: c.network, Containers: []ctr{{Name: "app", Command: words("sleep forever")}}, More: obj{"enableFaultInjection": c.enabled}}))
			if r := b.want(125, "fault", "start", b.family, "latency", "--delay=100ms"); !strings.Contains(r.err, c.want) {
				t.Errorf("%s", r.err)
			}
			for _, verb := range []string{"start", "status", "stop"} {
				if got := b.post(b.family, faultURL+"latency/"+verb, body); !strings.Contains(got, "400") {
					t.Errorf("%s: %s", verb, got)
				}
			}
			if got := b.faults(b.family); len(got) > 0 {
				t.Errorf("%s", got)
			}
		})
	}
	t.Run("the kernel", func(t *testing.T) {
		t.Parallel()
		able := hostCan("tc qdisc add dev lo root handle 1: prio; tc qdisc add dev lo parent 1:1 netem delay 1ms; tc filter add dev lo parent 1: protocol ip u32 match ip dst 0.0.0.0/0 flowid 1:1")
		b := newBox(t)
		port := b.echoing("", obj{"enableFaultInjection": true})
		if able {
			b.want(0, "fault", "start", b.family, "latency", "--delay=100ms")
			b.want(0, "fault", "stop", b.family)
			return
		}
		r := b.want(125, "fault", "start", b.family, "latency", "--delay=100ms")
		if !strings.Contains(r.err, "sch_netem") && !strings.Contains(r.err, "iproute2") {
			t.Errorf("the reason is %s", r.err)
		}
		if got := b.post(b.family, faultURL+"latency/start", body); !strings.Contains(got, "500") {
			t.Errorf("a container is told %s", got)
		}
		if got := b.faults(b.family); len(got) > 0 || !echoes(t, port) {
			t.Errorf("a fault that was refused is there: %s", got)
		}
	})
}

// A black hole swallows the packets for a port until it is stopped, its time is over, or its owner is killed. Where the host
// cannot do that, it says why.
func TestBlackHole(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	if !hostCan("nft add table ip x; nft add chain ip x c '{ type filter hook input priority 0; policy accept; }'; nft add rule ip x c udp dport 1 drop") {
		b.echoing("", obj{"enableFaultInjection": true})
		r := b.want(125, "fault", "start", b.family, "blackhole-port", "--port=7000", "--protocol=udp")
		if !strings.Contains(r.err, "install nftables") && !strings.Contains(r.err, "nf_tables") || len(b.faults(b.family)) > 0 {
			t.Errorf("%s", r.err)
		}
		return
	}
	agent := b.agent()
	port := b.echoing("", obj{"enableFaultInjection": true})
	eventually(t, "an echo", func() bool { return echoes(t, port) })

	const hole = `{"Port":7000,"Protocol":"udp","TrafficType":"ingress"}`
	if got := b.post(b.family, faultURL+"blackhole-port/start", hole); got != `{"Status":"running"}` {
		t.Fatalf("start: %s", got)
	}
	if echoes(t, port) {
		t.Error("a packet passes the black hole")
	}
	if got := b.post(b.family, faultURL+"blackhole-port/status", hole); got != `{"Status":"running"}` {
		t.Errorf("status: %s", got)
	}
	if r := b.want(0, "why", b.family); !strings.Contains(r.out, "ingress packets for port 7000/udp are dropped") {
		t.Errorf("why: %s", r.out)
	}
	if got := b.post(b.family, faultURL+"blackhole-port/stop", hole); got != `{"Status":"stopped"}` {
		t.Errorf("stop: %s", got)
	}
	if !echoes(t, port) {
		t.Error("no packet passes after the end of the black hole")
	}

	start := func(more ...string) {
		t.Helper()
		b.want(0, append([]string{"fault", "start", b.family, "blackhole-port", "--port=7000", "--protocol=udp"}, more...)...)
		if got := b.faults(b.family); len(got) != 1 || got[0] != "blackhole-port" || echoes(t, port) {
			t.Errorf("%s, and packets pass", got)
		}
	}
	start("--duration=3s")
	eventually(t, "the end of its time", func() bool { return echoes(t, port) })
	start()
	agent.kill()
	if echoes(t, port) {
		t.Error("the fault was gone before its owner was back")
	}
	second := b.agent()
	eventually(t, "the next owner removes the fault", func() bool { return echoes(t, port) && len(b.faults(b.family)) == 0 })
	start()
	b.want(0, "fault", "stop", b.family, "blackhole-port", "--port=7000")
	if !echoes(t, port) {
		t.Error("no packet passes after a stop by the command")
	}

	// Without an owner there are no new faults, and the command removes those of the last one.
	start()
	second.kill()
	if r := b.want(125, "fault", "start", b.family, "blackhole-port", "--port=7000"); !strings.Contains(r.err, "no process owns task") {
		t.Errorf("a start without an owner: %s", r.err)
	}
	b.want(0, "fault", "stop", b.family)
	if !echoes(t, port) || len(b.faults(b.family)) > 0 {
		t.Error("the fault of a dead owner is still there")
	}
	b.agent()
	if out := b.want(0, "events", "--format=json", "--stream=false", "--since=0").out; strings.Count(out, "FAULT_STARTED") != 5 || strings.Count(out, "FAULT_STOPPED") != 5 {
		t.Errorf("events:\n%s", out)
	}
}
