package lifecycle

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

func TestTaskStatusIsThatOfItsLeastAdvancedContainer(t *testing.T) {
	t.Parallel()
	none, resolved := Container{}, Container{Resolved: true, Digest: "sha256:d"}
	pulled := Container{Resolved: true, Pulled: true}
	created := Container{Pulled: true, Presence: Created}
	running := Container{Presence: Running}
	ended := Container{Ended: true}
	for _, tt := range []struct {
		name       string
		containers []Container
		reported   Status
		goal       Goal
		phase      SandboxPhase
		want       Status
	}{
		{"nothing yet", []Container{none, none}, StatusNone, Up, SandboxAbsent, StatusNone},
		{"one digest of two", []Container{resolved, none}, StatusNone, Up, SandboxAbsent, StatusNone},
		{"all digests", []Container{resolved, resolved}, StatusNone, Up, SandboxAbsent, StatusManifestPulled},
		{"pulled counts as manifest pulled", []Container{pulled, pulled}, StatusNone, Up, SandboxAbsent, StatusManifestPulled},
		{"one created", []Container{created, pulled}, StatusNone, Up, SandboxReady, StatusManifestPulled},
		{"all created", []Container{created, created}, StatusManifestPulled, Up, SandboxReady, StatusCreated},
		{"one running", []Container{created, running}, StatusCreated, Up, SandboxReady, StatusCreated},
		{"all running", []Container{running, running}, StatusCreated, Up, SandboxReady, StatusRunning},
		{"one ended, one running", []Container{ended, running}, StatusCreated, Up, SandboxReady, StatusRunning},
		{"one ended, one created", []Container{ended, created}, StatusNone, Up, SandboxReady, StatusCreated},
		{"never back", []Container{running, none}, StatusRunning, Up, SandboxReady, StatusRunning},
		{"not RUNNING on the way down", []Container{running, running}, StatusCreated, Down, SandboxReady, StatusCreated},
		{"not STOPPED while one runs", []Container{ended, running}, StatusRunning, Down, SandboxReady, StatusRunning},
		{"not STOPPED while the ports are held", []Container{ended, ended}, StatusRunning, Down, SandboxReady, StatusRunning},
		{"stopped", []Container{ended, ended}, StatusRunning, Down, SandboxStopped, StatusStopped},
		{"removed", []Container{ended, ended}, StatusStopped, Gone, SandboxRemoved, StatusStopped},
	} {
		s := State{Containers: tt.containers, Reported: tt.reported, Goal: tt.goal, Sandbox: Sandbox{Phase: tt.phase}}
		if got := s.Status(); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestHistoryTellsEachStatusOnceAndInOrder(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a"), container("b", pinned), container("c", checked))
	d.upTo(Stop)
	d.wake()
	d.answer(Probe, 2, Failure{}, Result{Probe: ProbeResult{Healthy: true}})
	d.do(Restarted{}) // hearsay again: nothing is told twice
	for i := range 3 {
		d.see(Inspect, i, Running)
	}
	d.fail(Probe, 2, Canceled)
	d.end(0, 0)
	d.see(Stop, 1, Exited, 143)
	d.see(Stop, 2, Exited, 143)
	d.answer(Halt, -1, Failure{}, Result{})
	d.do(RemoveRequested{By: "user"})
	d.answer(Remove, -1, Failure{}, Result{})
	got := d.history()
	wantLines(t, got[:3], []string{"a MANIFEST_PULLED", "c MANIFEST_PULLED", "MANIFEST_PULLED"})
	for name, want := range map[string]string{
		"a ":     "MANIFEST_PULLED PULLED CREATED RUNNING STOPPED",
		"b ":     "PULLED CREATED RUNNING STOPPED", // its reference held the digest
		"c ":     "MANIFEST_PULLED PULLED CREATED RUNNING HEALTHY STOPPED",
		"~infra": "RESOURCES_PROVISIONED STOPPED",
		"":       "MANIFEST_PULLED CREATED RUNNING STOPPED",
	} {
		var of []string
		for _, line := range got {
			subject, status, found := strings.Cut(line, " ")
			if !found {
				subject, status = "", line
			}
			if subject == strings.TrimSpace(name) {
				of = append(of, status)
			}
		}
		if strings.Join(of, " ") != want {
			t.Errorf("of %q it tells %s, want %s", name, of, want)
		}
	}
	if !d.s.Settled() || got[len(got)-1] != "STOPPED" {
		t.Errorf("settled: %v; the last line is %q, want the task's STOPPED", d.s.Settled(), got[len(got)-1])
	}
}

func TestManifestPulledIsNotToldWithoutAFoundDigest(t *testing.T) {
	t.Parallel()
	for name, play := range map[string]func() *driver{
		"all references are pinned": func() *driver {
			return drive(t, Options{}, container("a", pinned))
		},
		"there is no digest": func() *driver {
			d := drive(t, Options{}, container("a"))
			d.answer(Resolve, 0, Failure{}, Result{})
			return d
		},
		"the failure was tolerated": func() *driver {
			d := drive(t, Options{}, container("a"))
			d.fail(Resolve, 0, Permanent)
			return d
		},
	} {
		d := play()
		d.upTo(Start)
		for _, line := range d.history() {
			if strings.HasSuffix(line, "MANIFEST_PULLED") {
				t.Errorf("%s: %q is told", name, line)
			}
		}
		if d.s.Containers[0].Status() != StatusCreated {
			t.Errorf("%s: it continues no further than %s", name, d.s.Containers[0].Status())
		}
	}
}

func TestPinnedReferenceNeedsNoRegistry(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{Pull: PullAlways}, container("a", pinned))
	for _, e := range d.asked {
		if _, ok := e.(ResolveImage); ok {
			t.Error("it is resolved")
		}
	}
	if got := d.s.Containers[0].Digest; got != "sha256:"+strings.Repeat("a", 64) {
		t.Errorf("digest %q", got)
	}
}

func TestHistoryIsBoundedAndKeepsItsNumbers(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a", checked))
	d.upTo(Stop)
	for range maxHistory {
		d.wake()
		d.answer(Probe, 0, Failure{}, Result{Probe: ProbeResult{Healthy: true}})
		for d.s.Containers[0].Health.Status == HealthHealthy {
			d.wake()
			d.answer(Probe, 0, Failure{}, Result{Probe: ProbeResult{ExitCode: 1}})
		}
	}
	h := d.s.History
	if len(h) != maxHistory || h[len(h)-1].Seq < 2*maxHistory {
		t.Errorf("%d lines up to number %d; want %d and more than twice that", len(h), h[len(h)-1].Seq, maxHistory)
	}
}

func TestExitCodeOfTheTask(t *testing.T) {
	t.Parallel()
	exited := func(code int, after time.Duration) Container {
		return Container{Ended: true, HasExit: true, ExitCode: code, StartedAt: epoch, FinishedAt: epoch.Add(after)}
	}
	failed := func(code int) Container {
		return Container{Ended: true, Failures: []Failure{{Class: Permanent, ExitCode: code}}}
	}
	for _, tt := range []struct {
		name       string
		containers []Container
		optional   []int
		decided    string
		want       int
	}{
		{"the only one", []Container{exited(3, 1)}, nil, "", 3},
		{"success", []Container{exited(0, 1)}, nil, "", 0},
		{"the first to end", []Container{exited(3, 2), exited(4, 1)}, nil, "", 4},
		{"the first to end, with success", []Container{exited(143, 2), exited(0, 1)}, nil, "", 0},
		{"both at once: the one that decided", []Container{exited(143, 1), exited(5, 1)}, nil, "b", 5},
		{"one that is not essential does not count", []Container{exited(9, 1), exited(2, 2)}, []int{0}, "", 2},
		{"none ever ran", []Container{{Ended: true}}, nil, "", 125},
		{"none ever ran, for a dependency's sake", []Container{{Ended: true, HasExit: true, ExitCode: exitDependency}}, nil, "", 125},
		{"a command that was not found", []Container{failed(127)}, nil, "", 127},
		{"a command that could not be invoked", []Container{failed(126)}, nil, "", 126},
		{"what ran counts more than what was not found", []Container{failed(127), exited(1, 1)}, nil, "", 1},
		{"not found, but not essential", []Container{failed(127), {Ended: true}}, []int{0}, "", 125},
	} {
		s := State{Containers: tt.containers, Stop: StopReason{Container: tt.decided}}
		for i := range tt.containers {
			c := container(string(rune('a' + i)))
			c.Essential = !slices.Contains(tt.optional, i)
			s.Task.Containers = append(s.Task.Containers, c)
		}
		if got := s.ExitCode(); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestFirstStopReasonStays(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a"), container("b"))
	d.upTo(Stop)
	d.end(0, 3)
	first := d.s.Stop
	if first.Code != StopEssentialContainerExited || first.Container != "a" {
		t.Fatalf("%+v", first)
	}
	d.do(StopRequested{By: "user", Force: true})
	d.do(RemoveRequested{By: "user"})
	if d.s.Stop != first || d.s.Goal != Gone || !d.s.Force {
		t.Errorf("stop %+v, goal %s, force %v", d.s.Stop, d.s.Goal, d.s.Force)
	}
}

func TestSavedStateReadsBackAsItWas(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		tape := make([]byte, 400)
		for i := range tape {
			tape[i] = byte(r.Uint32())
		}
		s := playTape(t, tape, nil)
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var back State
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		if err := Check(back); err != nil {
			t.Error(err)
		}
		if !reflect.DeepEqual(s, back) {
			t.Fatalf("seed %d: was\n%s\nis\n%+v", seed, text, back)
		}
	}
}

func TestCheckNoticesAnEditedRecord(t *testing.T) {
	t.Parallel()
	for want, spoil := range map[string]func(*State){
		"32 hex digits":               func(s *State) { s.ID = "1" },
		"family":                      func(s *State) { s.Task.Family = "" },
		"containers for a definition": func(s *State) { s.Containers = s.Containers[:1] },
		"goal is UP":                  func(s *State) { s.Stop.Code = StopUserInitiated },
		"without a stop reason":       func(s *State) { s.Goal = Down },
		"has ended but a inspect": func(s *State) {
			s.Goal, s.Stop.Code = Down, "x"
			s.Containers[0].Op, s.NextOp = Op{ID: 90, Kind: Inspect}, 91
			s.Containers[0].Ended = true
		},
		"essential a has ended":         func(s *State) { s.Containers[0].Ended = true },
		"no start time":                 func(s *State) { s.Containers[0].StartedAt = time.Time{} },
		"exited but has not ended":      func(s *State) { s.Containers[0].Presence = Exited },
		"without a sandbox":             func(s *State) { s.Sandbox.Dirty = false },
		"is impossible":                 func(s *State) { s.NextOp = 1; s.Containers[0].Op = Op{ID: 5, Kind: Stop} },
		"(idle) is impossible":          func(s *State) { s.Containers[0].Op.ID = 1 },
		"but containers have not ended": func(s *State) { s.Sandbox.Phase = SandboxStopped },
		"history has a gap":             func(s *State) { s.History[1].Seq = 9 },
		"was reported STOPPED":          func(s *State) { s.Containers[0].Reported = StatusStopped },
	} {
		d := drive(t, Options{}, container("a"), container("b", func(c *taskdef.Container) { c.Essential = false }))
		d.upTo(Stop)
		s := clone(d.s)
		s.History = slices.Clone(s.History)
		spoil(&s)
		if err := Check(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not noticed: %v", want, err)
		}
	}
}

// A task whose last container starts and ends between two looks was RUNNING, if
// nothing essential had ended before.
func TestRunningIsToldOfATaskThatEndsAtOnce(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		first func(*taskdef.Container) // of a
		play  func(*driver)
		want  bool
	}{
		{"one container", nil, nil, true},
		{"the other runs", nil, func(d *driver) { d.see(Start, 0, Running); d.see(Start, 1, Exited, 0) }, true},
		{"the other, not essential, had ended", optional, func(d *driver) { d.see(Start, 0, Exited, 0); d.see(Start, 1, Exited, 0) }, true},
		{"the other, essential, had ended", nil, func(d *driver) {
			d.see(Start, 0, Exited, 0)
			d.at = d.at.Add(time.Second)
			d.see(Start, 1, Exited, 0)
		}, false},
		{"the other, essential, turns out to have ended before", nil, func(d *driver) {
			d.see(Start, 0, Running)
			d.do(Hinted{Index: 0})
			d.at = d.at.Add(time.Second)
			d.see(Start, 1, Running)
			d.answer(Inspect, 0, Failure{}, Result{Seen: Observed{Presence: Exited, StartedAt: epoch, FinishedAt: epoch}})
		}, false},
		{"a stop was asked for before", nil, func(d *driver) {
			d.see(Start, 0, Running)
			d.do(StopRequested{By: "user"})
			d.see(Start, 1, Exited, 0)
		}, false},
	} {
		var d *driver
		if tt.play == nil {
			d = drive(t, Options{}, container("a"))
			d.upTo(Start)
			d.see(Start, 0, Exited, 0)
		} else {
			first := container("a")
			if tt.first != nil {
				tt.first(&first)
			}
			d = drive(t, Options{}, first, container("b"))
			d.upTo(Start)
			tt.play(d)
		}
		got := slices.Contains(d.history(), "RUNNING")
		if got != tt.want {
			t.Errorf("%s: RUNNING is told: %v\n\t%s", tt.name, got, strings.Join(d.history(), "\n\t"))
		}
	}
}
