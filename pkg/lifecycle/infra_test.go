package lifecycle

import (
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

// joined lets containers share the pod's network where they would have their own.
func (d *driver) joined() *driver {
	d.s.Task.Extensions.Network = taskdef.NetworkShared
	return d
}

// infra answers the look at the infra container; the zero time: it does not run.
func (d *driver) infra(started time.Time) {
	d.t.Helper()
	var seen Observed
	if !started.IsZero() {
		seen = Observed{Presence: Running, StartedAt: started}
	}
	d.answer(Inspect, -1, Failure{}, Result{Seen: seen})
}

// up brings a task up whose infra container has started at a time.
func (d *driver) upSince(infra time.Time) {
	d.t.Helper()
	d.upTo(Pull)
	d.launched(infra)
	d.at = d.at.Add(time.Second)
	d.upTo(Stop)
	if !d.s.WatchesInfra() || d.s.Reported != StatusRunning {
		d.t.Fatalf("it is %s; its infra container is watched: %t", d.s.Reported, d.s.WatchesInfra())
	}
}

func TestLostNetworkStopsTheTask(t *testing.T) {
	t.Parallel()
	for name, now := range map[string]time.Duration{"killed": -1, "killed and started again": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := drive(t, Options{}, container("a"), container("b", optional)).joined()
			d.upSince(epoch)
			d.do(Hinted{Index: InfraIndex})
			if d.s.WatchesInfra() {
				t.Error("it is watched while it is looked at")
			}
			seen := time.Time{}
			if now > 0 {
				seen = epoch.Add(now)
			}
			d.infra(seen)
			if d.s.Goal != Up {
				t.Fatal("it stops before anybody has looked at the containers")
			}
			d.see(Inspect, 0, Running)
			d.see(Inspect, 1, Running)
			if d.s.Goal != Down || d.s.Stop.Code != StopInfrastructureHealth || !strings.Contains(d.s.Stop.Reason, "infra container") {
				t.Fatalf("goal %s: %+v", d.s.Goal, d.s.Stop)
			}
			d.see(Stop, 0, Exited, 143)
			d.see(Stop, 1, Exited, 143)
			d.answer(Halt, -1, Failure{}, Result{})
			if d.s.Status() != StatusStopped {
				t.Errorf("it is %s", d.s.Status())
			}
		})
	}
}

// The end of the whole pod ends its containers too: then that is reported.
func TestContainerThatEndsWithItsPodIsTheReason(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a"))
	d.upSince(epoch)
	d.do(Hinted{Index: InfraIndex})
	d.infra(time.Time{})
	d.see(Inspect, 0, Exited, 137)
	if d.s.Stop.Code != StopEssentialContainerExited || d.s.Stop.Container != "a" {
		t.Errorf("%+v", d.s.Stop)
	}
}

func TestFalseAlarmAboutTheInfraContainer(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a"))
	d.upSince(epoch)
	d.do(Hinted{Index: InfraIndex})
	if got := d.s.Explain()[0]; got.Code != WhyInspect || !strings.Contains(got.Text, "its pod is still up") {
		t.Errorf("why: %+v", got)
	}
	d.fail(Inspect, -1, Temporary)
	if got := d.s.Explain()[0]; got.Code != WhyRetry || !strings.HasPrefix(got.Text, "inspecting its pod failed once") {
		t.Errorf("why: %+v", got)
	}
	d.wake()
	d.infra(epoch)
	if d.s.Goal != Up || !d.s.WatchesInfra() || len(d.asked) > 0 {
		t.Errorf("goal %s, watched: %t, asked %v", d.s.Goal, d.s.WatchesInfra(), d.asked)
	}
}

// A pod that was started again with its containers is as good as the one before.
func TestContainersThatWereStartedAfterTheirInfraContainerGoOn(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a"))
	d.upSince(epoch)
	d.at = d.at.Add(time.Minute)
	d.do(Hinted{Index: InfraIndex})
	d.infra(d.at)
	d.started[0] = d.at.Add(time.Second)
	d.see(Inspect, 0, Running)
	d.infra(d.at)
	if d.s.Goal != Up || !d.s.WatchesInfra() || d.s.Containers[0].Restarts != 1 {
		t.Errorf("goal %s: %+v; restarts %d", d.s.Goal, d.s.Stop, d.s.Containers[0].Restarts)
	}
}

// What the next owner finds is compared with what the record says.
func TestNextOwnerFindsALostNetwork(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a"))
	d.upSince(epoch)
	d.do(Restarted{})
	d.see(Inspect, 0, Running)
	d.infra(epoch.Add(time.Hour))
	d.do(Restarted{}) // what was found out is not forgotten
	d.see(Inspect, 0, Running)
	if d.s.Goal != Down || d.s.Stop.Code != StopInfrastructureHealth {
		t.Errorf("goal %s: %+v", d.s.Goal, d.s.Stop)
	}
}

// If nothing of the task runs, nothing can lose its network: the pod is started again.
func TestPodIsMendedBeforeARestart(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a", restarting(taskdef.RestartPolicy{BackOff: time.Minute, AttemptPeriod: time.Minute})))
	d.upSince(epoch)
	d.end(0, 1)
	if d.s.WatchesInfra() {
		t.Error("it is watched, and nothing runs")
	}
	d.do(Hinted{Index: InfraIndex})
	d.launched(d.at)
	d.wake()
	delete(d.started, 0)
	d.see(Start, 0, Running)
	if d.s.Goal != Up || !d.s.WatchesInfra() {
		t.Errorf("goal %s: %+v", d.s.Goal, d.s.Stop)
	}
}

func TestWhoseInfraContainerIsWatched(t *testing.T) {
	t.Parallel()
	for mode, want := range map[taskdef.NetworkMode]bool{
		taskdef.NetworkBridge: true, taskdef.NetworkAWSVPC: true, taskdef.NetworkHost: false, taskdef.NetworkNone: false,
	} {
		d := drive(t, Options{}, container("a"))
		d.upSince(epoch)
		d.s.Task.Network = mode
		if got := d.s.WatchesInfra(); got != want {
			t.Errorf("one container, %s: %t", mode, got)
		}
	}
	d := drive(t, Options{}, container("a"), container("b"))
	d.upTo(Stop)
	if d.s.WatchesInfra() {
		t.Error("that of containers with networks of their own is")
	}
}

// Only what containers share needs an infra container to hold it.
func TestWhoNeedsAnInfraContainer(t *testing.T) {
	t.Parallel()
	one, two := []taskdef.Container{container("a")}, []taskdef.Container{container("a"), container("b")}
	pod := taskdef.TaskExtensions{Pod: []byte("{}")}
	labeled := container("a")
	labeled.Labels = map[string]string{AutoUpdateLabel: "registry"}
	updated := driveAsIs(t, Options{AutoUpdate: "registry"}, taskdef.Task{Network: taskdef.NetworkBridge, Containers: one})
	if updated.s.Sandbox.NoInfra {
		t.Error("podman auto-update fails for a pod without an infra container")
	}
	for name, c := range map[string]struct {
		task taskdef.Task
		want bool
	}{
		"alone, updated by Podman":       {taskdef.Task{Network: taskdef.NetworkBridge, Containers: []taskdef.Container{labeled}}, true},
		"alone, in bridge mode":          {taskdef.Task{Network: taskdef.NetworkBridge, Containers: one}, false},
		"alone, in awsvpc mode":          {taskdef.Task{Network: taskdef.NetworkAWSVPC, Containers: one}, false},
		"alone, on the host's network":   {taskdef.Task{Network: taskdef.NetworkHost, Containers: one}, false},
		"alone, without a network":       {taskdef.Task{Network: taskdef.NetworkNone, Containers: one}, false},
		"alone, by a program":            {taskdef.Task{Network: taskdef.NetworkBridge, Containers: one, Extensions: taskdef.TaskExtensions{Network: taskdef.NetworkPasta}}, false},
		"alone, on a network of others":  {taskdef.Task{Network: taskdef.NetworkBridge, Containers: one, Extensions: taskdef.TaskExtensions{Network: "front"}}, true},
		"alone, a Kubernetes Pod":        {taskdef.Task{Network: taskdef.NetworkAWSVPC, Containers: one, Extensions: pod}, true},
		"alone, PIDs of the task":        {taskdef.Task{Network: taskdef.NetworkBridge, Containers: one, PIDMode: taskdef.PIDTask}, true},
		"two in bridge mode":             {taskdef.Task{Network: taskdef.NetworkBridge, Containers: two}, false},
		"two in bridge mode, one IPC":    {taskdef.Task{Network: taskdef.NetworkBridge, Containers: two, IPCMode: taskdef.IPCTask}, true},
		"two on a network of others":     {taskdef.Task{Network: taskdef.NetworkBridge, Containers: two, Extensions: taskdef.TaskExtensions{Network: "front"}}, false},
		"two in awsvpc mode":             {taskdef.Task{Network: taskdef.NetworkAWSVPC, Containers: two}, true},
		"two in bridge mode, by program": {taskdef.Task{Network: taskdef.NetworkBridge, Containers: two, Extensions: taskdef.TaskExtensions{Network: taskdef.NetworkShared}}, true},
	} {
		if got := !driveAsIs(t, Options{}, c.task).s.Sandbox.NoInfra; got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

// A pod without an infra container is ready when it exists. It is made sure of by the next
// owner, and has no network that could be lost.
func TestPodWithoutInfraContainer(t *testing.T) {
	t.Parallel()
	d := driveAsIs(t, Options{}, taskdef.Task{Network: taskdef.NetworkAWSVPC, Containers: []taskdef.Container{container("a")}})
	d.upTo(Pull)
	d.answer(Prepare, -1, Failure{}, Result{PodID: "pod"})
	if d.s.Sandbox.Phase != SandboxReady || d.op(-1).Busy() {
		t.Fatalf("the pod is %s, and a %s is in flight", d.s.Sandbox.Phase, d.op(-1).Kind)
	}
	d.upTo(Stop)
	if d.s.Reported != StatusRunning || d.s.WatchesInfra() {
		t.Fatalf("it is %s; its infra container is watched: %t", d.s.Reported, d.s.WatchesInfra())
	}
	d.do(Hinted{Index: InfraIndex})
	if d.op(-1).Busy() {
		t.Errorf("a hint about no infra container causes a %s", d.op(-1).Kind)
	}
	d.do(Restarted{})
	d.see(Inspect, 0, Running)
	if d.op(-1).Busy() || d.s.Goal != Up {
		t.Errorf("a %s is in flight, the goal is %s", d.op(-1).Kind, d.s.Goal)
	}
}

// Its containers set up their networks, which may not be there yet when a host boots.
func TestStartsWithANetworkOfTheirOwnAreTriedEightTimes(t *testing.T) {
	t.Parallel()
	d := driveAsIs(t, Options{}, taskdef.Task{Network: taskdef.NetworkAWSVPC, Containers: []taskdef.Container{container("a")}})
	d.upTo(Start)
	failTimes(d, 7, Start, Temporary, Created)
	if d.s.Goal != Up {
		t.Fatal("it is given up before")
	}
	d.wake()
	d.fail(Start, 0, Temporary)
	d.see(Inspect, 0, Created)
	if d.s.Goal != Down {
		t.Error("it is not given up")
	}
}
