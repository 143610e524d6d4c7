package instance

import (
	"context"
	"encoding/json"
	"testing"
	"testing/fstest"
	"time"

	"github.com/podtask/podtask/internal/aws/instance/wire"
	"github.com/podtask/podtask/pkg/api"
)

// stubUsage has all containers of the stub use more each time.
type stubUsage struct{ agent *stubAgent }

func (u stubUsage) Read(context.Context) map[string]Use {
	u.agent.mu.Lock()
	defer u.agent.mu.Unlock()
	out := make(map[string]Use)
	for _, t := range u.agent.tasks {
		for _, c := range t.Containers {
			if c.Status == "RUNNING" {
				ran := time.Since(t.StartedAt)
				out[c.RuntimeID] = Use{CPU: ran / 2, Memory: 8 << 20, Received: uint64(ran.Seconds()) * 100, Written: 4096}
			}
		}
	}
	return out
}

func messages[T any](t *testing.T, l *lab, kind string) (out []T) {
	t.Helper()
	for _, body := range l.plane.Of("tcs", kind) {
		var m T
		if err := json.Unmarshal(body, &m); err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	return out
}

func TestTelemetry(t *testing.T) {
	withLab(t, func(l *lab) {
		l.config.Usage = stubUsage{l.agent}
		l.join()
		l.wait("tcs", wire.TypeMetrics, 1)
		if m := messages[wire.Metrics](t, l, wire.TypeMetrics)[0]; !m.Metadata.Idle || !m.Metadata.Final || m.Tasks != nil {
			t.Errorf("idle: %+v", m)
		}
		checked := simple(1)
		checked["containers"].([]any)[0].(map[string]any)["healthCheckType"] = "docker"
		checked["containers"].([]any)[0].(map[string]any)["dockerConfig"] = map[string]string{"config": `{"HealthCheck":{"Test":["CMD","true"]}}`, "hostConfig": "{}"}
		checked["containers"].([]any)[0].(map[string]any)["restartPolicy"] = map[string]any{"enabled": true}
		tasks := []any{checked}
		for n := 2; n <= 12; n++ {
			tasks = append(tasks, simple(n))
		}
		l.payload("payload-1", 1, tasks...)
		for n := 1; n <= 12; n++ {
			l.agent.resolve(name(n))
			l.agent.step(name(n), func(t *api.Task) { t.Containers[0].RuntimeID = t.ID })
			l.agent.step(name(n), func(t *api.Task) {
				enter(t, "main", "RUNNING")
				enter(t, "", "RUNNING")
				t.StartedAt = time.Now()
			})
		}
		since := time.Now()
		l.agent.step(name(1), func(t *api.Task) {
			t.Containers[0].Health = &api.Health{Status: "HEALTHY"}
			t.History = append(t.History, api.Transition{At: since, Container: "main", Status: "HEALTHY"})
		})
		if err := l.plane.Say("acs", "HeartbeatMessage", map[string]any{"healthy": true, "messageId": "hb"}); err != nil {
			t.Fatal(err)
		}
		l.pass(50 * time.Second)
		if h := messages[wire.Health](t, l, wire.TypeHealth); len(h) != 2 || h[0].Tasks[0].Containers[0].Status != "HEALTHY" || !h[0].Tasks[0].Containers[0].Since.Equal(since) || h[0].Tasks[0].Version != "3" {
			t.Errorf("health: %+v", h)
		}
		if s := messages[wire.InstanceStatus](t, l, wire.TypeInstanceStatus); len(s) != 1 || s[0].Statuses[0].Status != "OK" || s[0].Statuses[0].Type != "ContainerRuntime" {
			t.Errorf("instance: %+v", s)
		}
		m := messages[wire.Metrics](t, l, wire.TypeMetrics)
		if len(m) != 5 {
			t.Fatalf("%d messages", len(m))
		}
		first, last := m[3], m[4]
		if len(first.Tasks) != 10 || len(last.Tasks) != 2 || first.Metadata.Final || !last.Metadata.Final || first.Metadata.MessageID != last.Metadata.MessageID || first.Metadata.Idle {
			t.Errorf("%d and %d tasks, %+v, %+v", len(first.Tasks), len(last.Tasks), first.Metadata, last.Metadata)
		}
		c := first.Tasks[0].Containers[0]
		if c.CPU == nil || c.CPU.Count != 1 || c.CPU.Sum <= 0 || c.Memory.Sum != 8 || c.Network.RxBytesPerSecond.Sum != 100 || c.Storage.Write.Sum != 4096 || c.Restarts == nil {
			t.Errorf("%+v", c)
		}
		if c := first.Tasks[1].Containers[0]; c.Restarts != nil {
			t.Errorf("%+v", c)
		}
		l.agent.setAway(true)
		if err := l.plane.Say("acs", "HeartbeatMessage", map[string]any{"healthy": true, "messageId": "hb"}); err != nil {
			t.Fatal(err)
		}
		l.pass(20 * time.Second)
		if s := messages[wire.InstanceStatus](t, l, wire.TypeInstanceStatus); len(s) != 2 || s[1].Statuses[0].Status != "IMPAIRED" {
			t.Errorf("instance: %+v", s)
		}
		l.agent.setAway(false)
		l.pass(time.Minute)
	})
}

func TestUsageOfContainers(t *testing.T) {
	t.Parallel()
	id := "66d7bcfc255b64272a3419a2bdf3fc8501b607e056d0c205154b9555eae551ed"
	group := "user.slice/podtask1.slice/libpod-" + id + ".scope"
	root := fstest.MapFS{
		"proc/12/cgroup":                       {Data: []byte("0::/" + group + "/container\n")},
		"proc/12/status":                       {Data: []byte("RssAnon:\t 2048 kB\n")},
		"proc/12/net/dev":                      {Data: []byte("h\nh\n eth0: 586 1 0 0 0 0 0 0 90 1 0 0 0 0 0 0\n lo: 9 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\n")},
		"proc/13/cgroup":                       {Data: []byte("0::/init.scope\n")},
		"sys/fs/cgroup/" + group + "/cpu.stat": {Data: []byte("usage_usec 1500000\n")},
	}
	got := HostUsage{root}.Read(t.Context())
	if want := (Use{CPU: 1500 * time.Millisecond, Memory: 2 << 20, Received: 586, Sent: 90}); len(got) != 1 || got[id] != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
