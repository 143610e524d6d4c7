//go:build e2e && bed_vm

package vm

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// address is that of the machine. What comes from the loopback reaches a task over its loopback.
const address = "10.0.2.15"

// defineEcho writes the definition of a task with a network of its own that echoes UDP packets and may have faults.
func defineEcho(t *testing.T) (path string) {
	t.Helper()
	leavesNothing(t)
	app := box("app", "echo 7000", 0)
	app.Ports = []map[string]any{{"containerPort": 7000, "protocol": "udp"}}
	data, err := json.Marshal(map[string]any{"family": "faulty", "enableFaultInjection": true, "containerDefinitions": []container{app}})
	path = filepath.Join(t.TempDir(), "faulty.json")
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// echoes sends packets, one after the other, and returns how long those took that came back within a second.
func echoes(t *testing.T, port, packets int) (took []time.Duration) {
	t.Helper()
	c, err := net.Dial("udp", net.JoinHostPort(address, strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	answer := make([]byte, 64)
	for i := range packets {
		sent, text := time.Now(), fmt.Sprintf("packet %d", i)
		if _, err := c.Write([]byte(text)); err != nil {
			continue // the answer to an earlier one: nothing listens
		}
		_ = c.SetReadDeadline(sent.Add(time.Second))
		for {
			n, err := c.Read(answer)
			if err != nil {
				break
			}
			if string(answer[:n]) == text { // not an earlier one
				took = append(took, time.Since(sent))
				break
			}
		}
	}
	return took
}

// burst sends packets without waiting for each, and returns how many came back.
func burst(t *testing.T, port, packets int) (back int) {
	t.Helper()
	c, err := net.Dial("udp", net.JoinHostPort(address, strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const window = 10 // what waits in queues is not lost
	for sent := 0; sent < packets; sent += window {
		for range window {
			_, _ = c.Write([]byte("packet"))
		}
		for range window {
			_ = c.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
			if _, err := c.Read(make([]byte, 64)); err != nil {
				break
			}
			back++
		}
	}
	return back
}

func median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// Latency and loss are as asked for, measured in packets of a task, and gone after a stop, after their time, and
// after kill -9 of the owner.
func TestFaults(t *testing.T) {
	id := detach(t, defineEcho(t))
	t1 := inspect(t, id)
	port := t1.Containers[0].Ports[0].HostPort
	eventually(t, "an echo", func() bool { return len(echoes(t, port, 1)) == 1 })
	before := median(echoes(t, port, 20))
	fault := func(args ...string) string {
		t.Helper()
		return podtask(t, append([]string{"fault"}, args...)...)
	}

	const delay = 200 * time.Millisecond
	fault("start", id, "latency", "--delay=200ms")
	late := echoes(t, port, 20)
	if len(late) < 15 {
		t.Fatalf("of 20 packets came back %v", late)
	}
	t.Logf("latency of 200 ms: %s before, then %s at least, %s in the middle", before, slices.Min(late), median(late))
	// No packet is early. netem is never late by itself, but this machine is slow.
	if slices.Min(late) < delay-5*time.Millisecond || median(late) > delay+before+100*time.Millisecond {
		t.Errorf("%v", late)
	}
	if out := podtask(t, "why", id); !strings.Contains(out, "200 ms late") {
		t.Errorf("why: %s", out)
	}
	if _, errs, code := command(t, bin(), "fault", "start", id, "packet-loss", "--loss=1"); code != 125 || !strings.Contains(errs, "There is already one network latency fault running") {
		t.Errorf("loss beside latency: code %d, %s", code, errs)
	}
	fault("stop", id, "latency")
	if after := median(echoes(t, port, 20)); after > delay/2 {
		t.Errorf("after the stop a packet takes %s", after)
	}

	// The same by the container itself, as software for ECS does.
	post := func(verb, body string) string {
		t.Helper()
		return must(t, "podman", "exec", t1.Containers[0].RuntimeID, "/testbox", "send", "POST", "${ECS_AGENT_URI}/fault/v1/network-latency/"+verb, body)
	}
	if got := post("start", `{"DelayMilliseconds":150,"JitterMilliseconds":0,"Sources":["0.0.0.0/0"],"SourcesToFilter":["192.0.2.0/24"]}`); got != `{"Status":"running"}` {
		t.Errorf("start: %s", got)
	}
	late = echoes(t, port, 20)
	t.Logf("latency of 150 ms, injected by the container: %s in the middle of %d packets", median(late), len(late))
	if got := median(late); got < 145*time.Millisecond || got > 150*time.Millisecond+before+100*time.Millisecond {
		t.Errorf("%v", late)
	}
	if got := post("status", "") + post("stop", ""); got != `{"Status":"running"}{"Status":"stopped"}` {
		t.Errorf("status and stop: %s", got)
	}
	if after := median(echoes(t, port, 20)); after > delay/2 {
		t.Errorf("after the stop by the container a packet takes %s", after)
	}

	fault("start", id, "latency", "--delay=200ms", "--to=192.0.2.0/24", "--to=2001:db8::1")
	if others := median(echoes(t, port, 20)); others > delay/2 {
		t.Errorf("a packet to another network takes %s", others)
	}
	fault("stop", id)

	const sent = 1000
	fault("start", id, "packet-loss", "--loss=20")
	back := burst(t, port, sent)
	t.Logf("loss of 20%%: %d of %d packets are lost", sent-back, sent)
	if lost := float64(sent-back) / sent; lost < 0.14 || lost > 0.26 { // five standard deviations are 6%
		t.Errorf("%.1f%% are lost", 100*lost)
	}
	fault("stop", id)
	if back := burst(t, port, 100); back < 99 {
		t.Errorf("after the stop %d of 100 packets come back", back)
	}

	// A part of the connections: each of a hundred has its own port, and so a band of its own.
	fault("start", id, "packet-loss", "--loss=100", "--flows=50")
	dead := 0
	for range 100 {
		if burst(t, port, 1) == 0 {
			dead++
		}
	}
	t.Logf("all packets of 50%% of the connections: %d of 100 connections", dead)
	if dead < 25 || dead > 75 { // five standard deviations
		t.Errorf("%d of 100 connections are disturbed", dead)
	}
	fault("stop", id)

	// This kernel has nf_tables and not its families ip and ip6.
	_, errs, code := command(t, bin(), "fault", "start", id, "blackhole-port", "--port=7000", "--protocol=udp")
	if code != 125 || !strings.Contains(errs, "is the module nf_tables loaded?") {
		t.Errorf("a black hole: code %d, %s", code, errs)
	}
	if out := podtask(t, "fault", "status", id, "--format=json"); out != "[]" {
		t.Errorf("after a fault that was refused: %s", out)
	}
	fault("start", id, "latency", "--delay=300ms", "--duration=5s")
	eventually(t, "the end of its time", func() bool {
		took := echoes(t, port, 3)
		return len(took) == 3 && slices.Max(took) < 200*time.Millisecond
	})

	fault("start", id, "latency", "--delay=300ms")
	killOwner(t, id)
	eventually(t, "the next owner removes the faults", func() bool {
		took := echoes(t, port, 3)
		return len(took) == 3 && slices.Max(took) < 200*time.Millisecond
	})
	if out := podtask(t, "fault", "status", id, "--format=json"); out != "[]" {
		t.Errorf("after kill -9: %s", out)
	}
	pid := must(t, "podman", "inspect", "--format", "{{.State.Pid}}", inspect(t, id).Containers[0].RuntimeID)
	if out := must(t, "sudo", "nsenter", "--target", pid, "--net", "tc", "qdisc", "show"); strings.Contains(out, "fa17:") {
		t.Errorf("in the network of the task:\n%s", out)
	}
}
