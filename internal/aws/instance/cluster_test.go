package instance

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podtask/podtask/internal/testing/ecscluster"
	"github.com/podtask/podtask/internal/testing/ecsplane"
)

// clusterLab is a cluster with two instances, whose agents run each task at once.
type clusterLab struct {
	t         *testing.T
	cluster   *ecscluster.Cluster
	instances []*lab
}

// withCluster runs a test in a bubble.
func withCluster(t *testing.T, test func(*clusterLab)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		listener := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
		transport := &http.Transport{DialContext: listener.dial, DisableKeepAlives: true}
		cluster, err := ecscluster.New("http://127.0.0.1", filepath.Join(dir, "cluster"))
		if err != nil {
			t.Fatal(err)
		}
		c := &clusterLab{t: t, cluster: cluster}
		server := &http.Server{Handler: cluster.Instances(), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
		ctx, cancel := context.WithCancel(context.Background())
		var working sync.WaitGroup
		working.Go(func() { _ = server.Serve(listener) })
		for n := range 2 {
			l := newLab(t, filepath.Join(dir, fmt.Sprint(n)), cluster.Plane, transport)
			l.config.Cleanup = 1000 * time.Hour
			working.Go(func() { l.agent.runAll(ctx) })
			c.instances = append(c.instances, l)
			l.start()
			l.wait("acs", "open", n+1)
		}
		defer func() {
			for _, l := range c.instances {
				l.kill()
			}
			for _, p := range cluster.Problems() {
				t.Error(p)
			}
			cluster.Kill()
			cancel()
			close(listener.done)
			_ = server.Close()
			working.Wait()
		}()
		test(c)
	})
}

// givenUp is about how long an agent tries to pull an image before it gives up.
const givenUp = 44 * time.Second

// runAll has tasks run as soon as they are made, unless their registry is away.
func (a *stubAgent) runAll(ctx context.Context) {
	for {
		a.mu.Lock()
		changed := a.changed
		var later <-chan time.Time
		for _, t := range a.tasks {
			if t.Status != "NONE" {
				continue
			}
			if wait := givenUp - time.Since(t.CreatedAt); a.registryAway {
				if wait > 0 {
					later = time.After(wait)
					continue
				}
				t.Containers[0].Reason = "CannotPullContainerError: the registry does not answer"
				enter(t, t.Containers[0].Name, "STOPPED")
				enter(t, "", "STOPPED")
				t.StoppedAt = time.Now()
				a.notify()
				continue
			}
			for i := range t.Containers {
				t.Containers[i].ImageDigest, t.Containers[i].RuntimeID = digest, t.ID+t.ID
				enter(t, t.Containers[i].Name, "MANIFEST_PULLED")
				enter(t, t.Containers[i].Name, "RUNNING")
			}
			enter(t, "", "RUNNING")
			t.StartedAt = time.Now()
			a.notify()
		}
		a.mu.Unlock()
		select {
		case <-changed:
		case <-later:
		case <-ctx.Done():
			return
		}
	}
}

func (a *stubAgent) setRegistryAway(away bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.registryAway = away
	a.notify()
}

func (c *clusterLab) call(operation string, in any) {
	c.t.Helper()
	if err := c.cluster.Call(c.t.Context(), operation, in, nil); err != nil {
		c.t.Fatal(err)
	}
}

// register registers a revision of the definition web.
func (c *clusterLab) register() {
	c.t.Helper()
	c.call("RegisterTaskDefinition", map[string]any{"family": "web", "networkMode": "bridge", "requiresCompatibilities": []string{"EXTERNAL"},
		"containerDefinitions": []any{map[string]any{"name": "app", "image": "localhost/web:1", "memory": 64, "command": []string{"serve"}}}})
}

// until waits for at most an hour of the false clock.
func (c *clusterLab) until(what string, is func() bool) {
	c.t.Helper()
	for range 3600 {
		synctest.Wait()
		if is() {
			return
		}
		<-time.After(time.Second)
	}
	c.t.Fatalf("%s does not come; the copies are %+v", what, c.cluster.Copies("web"))
}

// settled: the service is steady, with copies of a revision alone.
func (c *clusterLab) settled(revision, count int) {
	c.t.Helper()
	c.until(fmt.Sprintf("steady with revision %d", revision), func() bool {
		copies := c.cluster.Copies("web")
		return len(copies) == count && c.cluster.Steady("web") && !slices.ContainsFunc(copies, func(k ecscluster.Copy) bool { return k.Revision != revision || !k.Running })
	})
}

// on counts the copies on an instance.
func (c *clusterLab) on(instance int) (n int) {
	for _, k := range c.cluster.Copies("web") {
		if k.Instance == ecsplane.InstanceARN(instance) {
			n++
		}
	}
	return n
}

// check checks that what ECS knows is what the agents have, and that no task was made twice.
func (c *clusterLab) check() {
	c.t.Helper()
	known := make(map[string]bool)
	for _, k := range c.cluster.Copies("web") {
		known[nameOf(ecscluster.ARN(k.ID))] = true
	}
	runs := make(map[string]bool)
	for n, l := range c.instances {
		made := make(map[string]int)
		for _, m := range l.agent.made {
			made[m.Name]++
		}
		for name, times := range made {
			if times != 1 {
				c.t.Errorf("instance %d made %s %d times", n+1, name, times)
			}
		}
		all, _ := l.agent.Tasks(c.t.Context())
		for _, t := range all {
			if t.Status != "STOPPED" {
				runs[t.Name] = true
			}
		}
	}
	if !maps.Equal(known, runs) {
		c.t.Errorf("ECS knows %v, and the agents run %v", slices.Sorted(maps.Keys(known)), slices.Sorted(maps.Keys(runs)))
	}
}

func TestAServiceOnTwoInstances(t *testing.T) {
	withCluster(t, func(c *clusterLab) {
		c.register()
		c.call("CreateService", map[string]any{"cluster": "lab", "serviceName": "web", "taskDefinition": "web:1", "desiredCount": 4, "launchType": "EXTERNAL"})
		c.settled(1, 4)
		if c.on(1) != 2 || c.on(2) != 2 {
			t.Errorf("%d and %d copies", c.on(1), c.on(2))
		}
		c.register()
		c.call("UpdateService", map[string]any{"cluster": "lab", "service": "web", "taskDefinition": "web:2"})
		c.settled(2, 4)
		c.check()

		instance := map[string]any{"cluster": "lab", "containerInstances": []string{ecsplane.InstanceARN(1)}, "status": "DRAINING"}
		c.call("UpdateContainerInstancesState", instance)
		c.until("the drain", func() bool { return c.on(1) == 0 })
		c.settled(2, 4)
		if c.on(2) != 4 {
			t.Errorf("%d copies on the instance that is left", c.on(2))
		}
		c.check()
		instance["status"] = "ACTIVE"
		c.call("UpdateContainerInstancesState", instance)

		// A copy that fails is replaced.
		failed := c.cluster.Copies("web")[0]
		c.instances[1].agent.end(nameOf(ecscluster.ARN(failed.ID)), 1)
		c.settled(2, 4)
		c.check()
		c.call("DeleteService", map[string]any{"cluster": "lab", "service": "web", "force": true})
		c.until("its end", func() bool { return len(c.cluster.Copies("web")) == 0 })
		c.check()
		for id, told := range c.cluster.Told() {
			if !slices.Equal(told, []string{"PENDING", "RUNNING", "STOPPED"}) {
				t.Errorf("%s was told as %v", id, told)
			}
		}
	})
}

// An instance loses its registry. ECS is told that the copies there cannot start, with the reason, so that the deployment goes on:
// its copies run on the other instance. When the registry is back, they come here again.
func TestADeploymentLeavesAnInstanceWithoutItsRegistry(t *testing.T) {
	withCluster(t, func(c *clusterLab) {
		c.register()
		c.call("CreateService", map[string]any{"cluster": "lab", "serviceName": "web", "taskDefinition": "web:1", "desiredCount": 4, "launchType": "EXTERNAL"})
		c.settled(1, 4)
		c.instances[0].agent.setRegistryAway(true)
		c.register()
		c.call("UpdateService", map[string]any{"cluster": "lab", "service": "web", "taskDefinition": "web:2"})
		c.settled(2, 4)
		if c.on(1) != 0 || c.on(2) != 4 {
			t.Errorf("%d copies on the instance without its registry, %d on the other", c.on(1), c.on(2))
		}
		c.check()
		failed := 0
		for _, body := range c.cluster.Plane.Of("http", "SubmitTaskStateChange") {
			if s := decode(t, body); s.Status == "STOPPED" && len(s.Containers) == 1 && strings.HasPrefix(s.Containers[0].Reason, "CannotPullContainerError") {
				failed++
			}
		}
		if failed == 0 {
			t.Error("ECS is not told of a copy that cannot start")
		}

		c.instances[0].agent.setRegistryAway(false)
		c.register()
		c.call("UpdateService", map[string]any{"cluster": "lab", "service": "web", "taskDefinition": "web:3"})
		c.settled(3, 4)
		if c.on(1) == 0 {
			t.Error("no copy is placed where the registry is back")
		}
		c.check()
	})
}

// Each part is killed at each second of an update in turn; the update goes on, and nothing is made twice or left.
func TestEachPartIsKilledDuringAnUpdate(t *testing.T) {
	parts := map[string]func(c *clusterLab) (back func()){
		"the first instance":  func(c *clusterLab) func() { c.instances[0].kill(); return c.instances[0].start },
		"the second instance": func(c *clusterLab) func() { c.instances[1].kill(); return c.instances[1].start },
		"the first agent": func(c *clusterLab) func() {
			c.instances[0].agent.setAway(true)
			return func() { c.instances[0].agent.setAway(false) }
		},
		"the second agent": func(c *clusterLab) func() {
			c.instances[1].agent.setAway(true)
			return func() { c.instances[1].agent.setAway(false) }
		},
		"the control plane": func(c *clusterLab) func() { c.cluster.Kill(); return c.cluster.Start },
	}
	for _, part := range slices.Sorted(maps.Keys(parts)) {
		t.Run(part, func(t *testing.T) {
			withCluster(t, func(c *clusterLab) {
				c.register()
				c.call("CreateService", map[string]any{"cluster": "lab", "serviceName": "web", "taskDefinition": "web:1", "desiredCount": 4, "launchType": "EXTERNAL"})
				c.settled(1, 4)
				for revision := 2; revision < 9; revision++ {
					c.register()
					c.call("UpdateService", map[string]any{"cluster": "lab", "service": "web", "taskDefinition": fmt.Sprintf("web:%d", revision)})
					<-time.After(time.Duration(revision-2) * time.Second)
					back := parts[part](c)
					<-time.After(3 * time.Second)
					back()
					c.settled(revision, 4)
					c.check()
				}
				for id, told := range c.cluster.Told() {
					if want := []string{"PENDING", "RUNNING", "STOPPED"}; !slices.Equal(told, want[:min(len(told), 3)]) || len(told) > 3 {
						t.Errorf("%s was told as %v", id, told)
					}
				}
			})
		})
	}
}
