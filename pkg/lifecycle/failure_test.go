package lifecycle

import (
	"slices"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

// The rules of the ECS agent about failed moves (handleEventError), with two
// differences: a failed call proves nothing, so an inspection decides what
// became of it; and a container that was started after all is kept.
func TestFailedMoves(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		pull   PullBehavior
		def    func(*taskdef.Container) // of the container that fails
		play   func(d *driver)
		status Status
		goal   Goal
		err    string // name of the latest failure
	}{
		{"manifest, default: continues without a digest", PullDefault, nil, func(d *driver) {
			d.fail(Resolve, 0, Permanent)
		}, StatusManifestPulled, Up, ErrCannotPullManifest},
		{"manifest, prefer-cached: continues without a digest", PullPreferCached, nil, func(d *driver) {
			d.fail(Resolve, 0, Permanent)
		}, StatusManifestPulled, Up, ErrCannotPullManifest},
		{"manifest timed out, default: continues at once", PullDefault, nil, func(d *driver) {
			d.fail(Resolve, 0, Timeout)
		}, StatusManifestPulled, Up, ErrTimeout},
		{"manifest, always: stops the task", PullAlways, nil, func(d *driver) {
			d.fail(Resolve, 0, Permanent)
		}, StatusStopped, Down, ErrCannotPullManifest},
		{"manifest, once: stops the task, essential or not", PullOnce, optional, func(d *driver) {
			d.fail(Resolve, 0, Permanent)
		}, StatusStopped, Down, ErrCannotPullManifest},
		{"manifest, for a while: nine attempts", PullAlways, nil, func(d *driver) {
			for n := range 9 {
				if d.s.Goal != Up {
					d.t.Fatalf("given up after %d attempts", n)
				}
				d.fail(Resolve, 0, Temporary)
				if n < 8 {
					d.wake()
				}
			}
		}, StatusStopped, Down, ErrCannotPullManifest},
		{"pod, a quota is used up: tried for about two minutes", PullAlways, nil, func(d *driver) {
			d.upTo(Pull)
			begun := d.at
			for n := range quotaAttempts {
				if d.s.Goal != Up {
					d.t.Fatalf("given up after %d attempts", n)
				}
				d.fail(Prepare, -1, QuotaUsedUp)
				if n < quotaAttempts-1 {
					d.wake()
				}
			}
			if took := d.at.Sub(begun); took < 75*time.Second || took > 3*time.Minute {
				d.t.Fatalf("given up after %s", took)
			}
		}, StatusManifestPulled, Down, ""},
		{"start, a quota is used up for a while: it starts then", PullAlways, nil, func(d *driver) {
			d.upTo(Start)
			for range quotaAttempts - 1 {
				d.fail(Start, 0, QuotaUsedUp)
				d.see(Inspect, 0, Created)
				d.wake()
			}
			d.see(Start, 0, Running)
		}, StatusRunning, Up, ""},
		{"manifest, slowly: one limit for all attempts", PullAlways, nil, func(d *driver) {
			for range 2 {
				d.at = d.at.Add(8 * time.Second)
				d.fail(Resolve, 0, Temporary)
				d.wake()
			}
			left := d.s.Containers[0].Retry.Left(ResolveLimit, d.at)
			if d.s.Goal != Up || left < 2*time.Second || left >= 4*time.Second {
				d.t.Fatalf("%v are left after two attempts", left)
			}
			d.at = d.at.Add(left - time.Millisecond)
			d.fail(Resolve, 0, Temporary)
		}, StatusStopped, Down, ErrCannotPullManifest},
		{"manifest, the owner died: as much time again", PullAlways, nil, func(d *driver) {
			d.at = d.at.Add(16 * time.Second)
			d.fail(Resolve, 0, Temporary)
			d.at = d.at.Add(time.Hour)
			d.do(Restarted{})
			if left := d.s.Containers[0].Retry.Left(ResolveLimit, d.at); left != ResolveLimit {
				d.t.Fatalf("%v are left", left)
			}
			d.fail(Resolve, 0, Temporary)
			d.wake()
		}, StatusNone, Up, ""},
		{"manifest and pull, a registry that is away, of ECS: a minute, and five attempts", PullDefault, nil, func(d *driver) {
			d.s.Options.GiveUp = true
			begun := d.at
			for !d.s.Containers[0].Resolved {
				d.at = d.at.Add(20 * time.Second)
				d.fail(Resolve, 0, Temporary)
				if !d.s.Containers[0].Resolved {
					d.wake()
				}
			}
			if took := d.at.Sub(begun); took < time.Minute || took > 90*time.Second {
				d.t.Fatalf("the digest took %s", took)
			}
			d.upTo(Pull)
			for n := 1; n <= 5; n++ {
				if d.s.Goal != Up {
					d.t.Fatalf("given up after %d pulls", n-1)
				}
				d.fail(Pull, 0, Temporary)
				if n < 5 {
					d.wake()
				}
			}
		}, StatusStopped, Down, ErrCannotPull},
		{"manifest and pull, a registry that is away: given up soon", PullDefault, nil, func(d *driver) {
			begun := d.at
			for n := 0; d.s.Goal == Up && !d.s.Containers[0].Resolved; n++ {
				d.fail(Resolve, 0, Temporary)
				if !d.s.Containers[0].Resolved {
					d.wake()
				}
			}
			d.upTo(Pull)
			d.fail(Pull, 0, Temporary)
			d.wake()
			d.fail(Pull, 0, Temporary)
			if took := d.at.Sub(begun); took > 25*time.Second {
				d.t.Fatalf("given up after %s", took)
			}
		}, StatusStopped, Down, ErrCannotPull},
		{"manifest, a registry that is away: a persistent task keeps trying", PullAlways, nil, func(d *driver) {
			d.s.Options.Persistent = true
			begun := d.at
			for range 30 {
				d.fail(Resolve, 0, Temporary)
				d.wake()
			}
			if took := d.at.Sub(begun); took < 5*time.Minute {
				d.t.Fatalf("30 attempts in %s", took)
			}
		}, StatusNone, Up, ""},
		{"pull, default: the container stops, and the task if it is essential", PullDefault, nil, func(d *driver) {
			d.upTo(Pull)
			d.fail(Pull, 0, Permanent)
		}, StatusStopped, Down, ErrCannotPull},
		{"pull, default: a container that is not essential stops alone", PullDefault, optional, func(d *driver) {
			d.upTo(Pull)
			d.fail(Pull, 0, Permanent)
		}, StatusStopped, Up, ErrCannotPull},
		{"pull, always: stops the task, essential or not", PullAlways, optional, func(d *driver) {
			d.upTo(Pull)
			d.fail(Pull, 0, Permanent)
		}, StatusStopped, Down, ErrCannotPull},
		{"pull, for a while: five attempts", PullDefault, nil, func(d *driver) {
			d.upTo(Pull)
			for range 4 {
				d.fail(Pull, 0, Temporary)
				for d.op(0).Kind != Pull {
					d.wake()
				}
			}
			if d.s.Goal != Up {
				d.t.Fatal("given up after four attempts")
			}
			d.fail(Pull, 0, Temporary)
		}, StatusStopped, Down, ErrCannotPull},
		{"create: no such container was made", PullDefault, nil, func(d *driver) {
			d.upTo(Create)
			d.fail(Create, 0, Permanent)
			d.see(Inspect, 0, Absent)
		}, StatusStopped, Down, ErrCannotCreate},
		{"create timed out and has worked: it is kept", PullDefault, nil, func(d *driver) {
			d.upTo(Create)
			d.fail(Create, 0, Timeout)
			d.see(Inspect, 0, Created)
		}, StatusCreated, Up, ""},
		{"create finds no image: it is pulled again, once", PullDefault, nil, func(d *driver) {
			d.upTo(Create)
			d.fail(Create, 0, NoImage)
			d.see(Inspect, 0, Absent)
			d.answer(Pull, 0, Failure{}, Result{ImageID: "image", Source: SourceRegistry})
			d.fail(Create, 0, NoImage)
			d.see(Inspect, 0, Absent)
		}, StatusStopped, Down, ErrCannotCreate},
		{"start failed: no stop is asked for", PullDefault, nil, func(d *driver) {
			d.upTo(Start)
			d.fail(Start, 0, Permanent)
			d.see(Inspect, 0, Created)
			for _, e := range d.asked {
				if _, ok := e.(StopContainer); ok {
					d.t.Error("a stop was asked for")
				}
			}
		}, StatusStopped, Down, ErrCannotStart},
		{"start timed out and has worked: it is kept", PullDefault, nil, func(d *driver) {
			d.upTo(Start)
			d.fail(Start, 0, Timeout)
			d.see(Inspect, 0, Running)
		}, StatusRunning, Up, ""},
		{"create failed for a while: five attempts", PullDefault, nil, func(d *driver) {
			d.upTo(Create)
			failTimes(d, 5, Create, Temporary, Absent)
		}, StatusStopped, Down, ErrCannotCreate},
		{"start failed for a while: three attempts where the pod has the network", PullDefault, nil, func(d *driver) {
			d.s.Task.Network = taskdef.NetworkAWSVPC
			d.upTo(Start)
			failTimes(d, 3, Start, Temporary, Created)
		}, StatusStopped, Down, ErrCannotStart},
		{"start failed for a while: eight attempts of a Kubernetes Pod", PullDefault, nil, func(d *driver) {
			d.s.Task.Network = taskdef.NetworkAWSVPC
			d.s.Task.Extensions.Pod = []byte("{}")
			d.upTo(Start)
			failTimes(d, 8, Start, Temporary, Created)
		}, StatusStopped, Down, ErrCannotStart},
		{"start timed out: three attempts", PullDefault, nil, func(d *driver) {
			d.upTo(Start)
			failTimes(d, 3, Start, Timeout, Created)
		}, StatusStopped, Down, ErrTimeout},
		{"start failed for a while: eight attempts where it begins with a network", PullDefault, nil, func(d *driver) {
			d.upTo(Start)
			failTimes(d, 8, Start, Temporary, Created)
		}, StatusStopped, Down, ErrCannotStart},
		{"start finds that the container has vanished", PullDefault, nil, func(d *driver) {
			d.upTo(Start)
			d.fail(Start, 0, Permanent)
			d.see(Inspect, 0, Absent)
		}, StatusStopped, Down, ErrCannotStart},
		{"a start that Podman calls an exit without a start counts as failed", PullDefault, nil, func(d *driver) {
			d.upTo(Start)
			d.fail(Start, 0, Permanent)
			d.answer(Inspect, 0, Failure{}, Result{Seen: Observed{Presence: Exited, ID: "id", ExitCode: 127}})
		}, StatusStopped, Down, ErrCannotStart},
		{"inspection failed: asked again, nothing is given up", PullDefault, nil, func(d *driver) {
			d.upTo(Stop)
			d.do(Hinted{Index: 0})
			for range 50 {
				d.fail(Inspect, 0, Permanent)
				d.wake()
			}
			d.see(Inspect, 0, Running)
		}, StatusRunning, Up, ""},
		{"stop failed: asked again, for ever", PullDefault, nil, func(d *driver) {
			d.upTo(Stop)
			d.do(StopRequested{By: "user"})
			for range 50 {
				d.fail(Stop, 0, Permanent)
				d.wake()
				d.see(Inspect, 0, Running)
			}
			if d.op(0).Kind != Stop {
				d.t.Errorf("a %s is in flight, not a stop", d.op(0).Kind)
			}
		}, StatusRunning, Down, ""},
		{"stop worked but it runs: asked again", PullDefault, nil, func(d *driver) {
			d.upTo(Stop)
			d.do(StopRequested{By: "user"})
			d.see(Stop, 0, Running)
			d.wake()
			if d.op(0).Kind != Stop {
				d.t.Errorf("a %s is in flight, not a stop", d.op(0).Kind)
			}
		}, StatusRunning, Down, ""},
		{"stop failed and it has exited: its code is kept", PullDefault, nil, func(d *driver) {
			d.upTo(Stop)
			d.do(StopRequested{By: "user"})
			d.fail(Stop, 0, Timeout)
			d.wake()
			d.see(Inspect, 0, Exited, 7)
			if c := d.s.Containers[0]; !c.HasExit || c.ExitCode != 7 {
				d.t.Errorf("exit code %v %d, want 7", c.HasExit, c.ExitCode)
			}
		}, StatusStopped, Down, ""},
		{"vanished while it ran: stopped, without an exit code", PullDefault, nil, func(d *driver) {
			d.upTo(Stop)
			d.do(Hinted{Index: 0})
			d.see(Inspect, 0, Absent)
			if d.s.Containers[0].HasExit {
				d.t.Error("it has an exit code")
			}
		}, StatusStopped, Down, ErrContainerVanished},
		{"killed for its memory: the failure says so", PullDefault, nil, func(d *driver) {
			d.upTo(Stop)
			d.do(Hinted{Index: 0})
			d.answer(Inspect, 0, Failure{}, Result{Seen: Observed{Presence: Exited, ID: "id", StartedAt: d.at, FinishedAt: d.at, ExitCode: 137, OOMKilled: true}})
		}, StatusStopped, Down, ErrOutOfMemory},
		{"lost a process to its memory and ended by itself: tolerated", PullDefault, nil, func(d *driver) {
			d.upTo(Stop)
			d.do(Hinted{Index: 0})
			d.answer(Inspect, 0, Failure{}, Result{Seen: Observed{Presence: Exited, ID: "id", StartedAt: d.at, FinishedAt: d.at, ExitCode: 7, OOMKilled: true}})
			if c := d.s.Containers[0]; c.Fatal() != "" || !c.Failures[0].Tolerated {
				d.t.Errorf("failures %+v, want one that is tolerated", c.Failures)
			}
		}, StatusStopped, Down, ErrOutOfMemory},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := container("a")
			if tt.def != nil {
				tt.def(&c)
			}
			d := drive(t, Options{Pull: tt.pull}, c, container("b"))
			tt.play(d)
			got := d.s.Containers[0]
			if got.Status() != tt.status || d.s.Goal != tt.goal {
				t.Errorf("it is %s and the goal %s; want %s and %s", got.Status(), d.s.Goal, tt.status, tt.goal)
			}
			name := ""
			if n := len(got.Failures); n > 0 {
				name = got.Failures[n-1].Name
			}
			if name != tt.err {
				t.Errorf("latest failure %q, want %q", name, tt.err)
			}
		})
	}
}

func TestPodIsGivenUpAfterEightAttempts(t *testing.T) {
	t.Parallel()
	for _, kind := range []Kind{Prepare, Launch} {
		d := drive(t, Options{}, container("a"))
		d.upTo(Pull)
		for n := range 8 {
			for n > 0 && d.op(-1).Kind != Prepare {
				d.wake()
			}
			if kind == Launch { // that the pod can be made does not count
				d.answer(Prepare, -1, Failure{}, Result{PodID: "pod"})
			}
			d.answer(kind, -1, Failure{Class: Temporary, Message: "busy"}, Result{})
		}
		if d.s.Goal != Down || d.s.Stop.Code != StopTaskFailedToStart || len(d.s.Sandbox.Failures) != 1 {
			t.Errorf("%s: goal %s, %+v, failures %v", kind, d.s.Goal, d.s.Stop, d.s.Sandbox.Failures)
		}
	}
}

// The infra container did not start, and the pod was discarded with what was created in it:
// a create that failed for that, or had its answer before, is made again and counts once.
func TestContainersAreCreatedAgainWithTheirPod(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("early"), container("late"))
	d.upTo(Pull)
	d.answer(Prepare, -1, Failure{}, Result{PodID: "pod"})
	for i := range 2 {
		d.answer(Pull, i, Failure{}, Result{ImageID: "image"})
	}
	d.see(Create, 0, Created)
	if d.op(-1).Kind != Launch || d.op(1).Kind != Create {
		t.Fatalf("in flight are %s and %s", d.op(-1).Kind, d.op(1).Kind)
	}
	d.fail(Launch, -1, Temporary)
	d.fail(Create, 1, Permanent)
	for i := range 2 {
		d.see(Inspect, i, Absent)
	}
	d.wake()
	d.launched(d.at)
	d.upTo(Stop)
	if d.s.Reported != StatusRunning || len(d.s.Containers[1].Failures) > 0 {
		t.Errorf("it is %s; failures %v", d.s.Reported, d.s.Containers[1].Failures)
	}
}

// A create in flight may have come before the discard or after it.
func TestContainerCreatedInADiscardedPodIsInspected(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a"))
	d.upTo(Pull)
	d.answer(Prepare, -1, Failure{}, Result{PodID: "pod"})
	d.answer(Pull, 0, Failure{}, Result{ImageID: "image"})
	d.fail(Launch, -1, Temporary)
	d.see(Create, 0, Created)
	d.see(Inspect, 0, Absent)
	d.wake()
	d.launched(d.at)
	d.see(Create, 0, Created)
	if d.op(0).Kind != Start {
		t.Errorf("a %s is in flight", d.op(0).Kind)
	}
}

// A command that has the address of the network can be created only when that is known.
func TestContainerThatNeedsItsAddressWaitsForTheNetwork(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a", func(c *taskdef.Container) { c.Command = []string{"serve", taskdef.PodIP} }))
	d.upTo(Pull)
	d.answer(Prepare, -1, Failure{}, Result{PodID: "pod"})
	d.answer(Pull, 0, Failure{}, Result{ImageID: "image"})
	if d.op(0).Busy() {
		t.Fatalf("a %s is in flight", d.op(0).Kind)
	}
	d.answer(Launch, -1, Failure{}, Result{})
	if d.op(0).Kind != Create {
		t.Errorf("a %s is in flight", d.op(0).Kind)
	}
}

func TestToleratedFailureNeverHidesALaterOne(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a"))
	d.fail(Resolve, 0, Permanent)
	d.fail(Pull, 0, Permanent)
	c := d.s.Containers[0]
	if len(c.Failures) != 2 || !c.Failures[0].Tolerated || c.Failures[1].Tolerated || c.Fatal() != c.Failures[1].String() {
		t.Errorf("failures %+v, fatal %q", c.Failures, c.Fatal())
	}
}

func TestBackoffStaysInItsBounds(t *testing.T) {
	t.Parallel()
	want := []time.Duration{0, 250, 500, 1000, 2000, 4000, 8000, 16000, 30000, 30000}
	for n := 1; n < 100; n++ {
		full := want[min(n, len(want)-1)] * time.Millisecond
		for _, jitter := range []uint64{0, 1, 1 << 20, 1<<63 - 1, 1<<64 - 1} {
			if d := backoff(n, jitter); d > full || d <= full*4/5 {
				t.Errorf("attempt %d, jitter %d: %s, want more than %s and at most %s", n, jitter, d, full*4/5, full)
			}
		}
	}
	if d := backoff(0, 0); d != backoffBase {
		t.Errorf("attempt 0: %s", d)
	}
}

func TestJitterIsRepeatable(t *testing.T) {
	t.Parallel()
	s := drive(t, Options{}, container("a"), container("b")).s
	same := drive(t, Options{}, container("a"), container("b")).s
	if jitter(&s, 0) != jitter(&same, 0) || jitter(&s, 0) == jitter(&s, 1) {
		t.Error("it is not the same for the same container, or the same for two")
	}
}

// What runs is what is reported: a local copy stands in for what the registry has
// and could not give.
func TestLocalCopyIsReportedByItsOwnDigest(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]string{"pulled once": "sha256:old", "built here": ""} {
		d := drive(t, Options{Pull: PullDefault}, container("app"))
		d.upTo(Pull)
		d.answer(Pull, 0, Failure{}, Result{ImageID: "image", Source: SourceCache, Digest: own})
		if got := d.s.Containers[0].Digest; got != own {
			t.Errorf("%s: digest %q, want %q", name, got, own)
		}
		i := slices.IndexFunc(d.s.History, func(h Transition) bool { return h.Status == StatusPulled.String() })
		if i < 0 || d.s.History[i].Digest != own || d.s.History[i].Reason == "" {
			t.Errorf("%s: history %+v", name, d.s.History)
		}
	}
}
