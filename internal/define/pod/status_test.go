package pod

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podtask/podtask/pkg/lifecycle"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const digest = "sha256:0123456789012345678901234567890123456789012345678901234567890123"

// life steps the task of a Pod the way an owner does, in a world where every operation
// takes a second and the runs of a container end as its script says.
type life struct {
	t     *testing.T
	pod   Pod
	s     lifecycle.State
	at    time.Time
	tasks []lifecycle.Effect
	// exits are the exit codes of the runs of a container; after the last one it runs on.
	exits map[string][]int
	// fails are the failures of an operation on a container, each used once.
	fails map[string][]lifecycle.Failure
	// checks are the results of the checks of a container, by its name and their kind, and
	// of its hooks; after the last one all pass.
	checks  map[string][]bool
	started map[int]time.Time
	said    strings.Builder
	last    string
}

func live(t *testing.T, src string, o lifecycle.Options) *life {
	t.Helper()
	r, report, err := Parse("f", []byte(src), host)
	if err != nil || len(report.Needs) > 0 {
		t.Fatal(err, report.Needs)
	}
	l := &life{t: t, pod: r.Pod, at: epoch, exits: map[string][]int{}, fails: map[string][]lifecycle.Failure{}, started: map[int]time.Time{}}
	l.s = lifecycle.New(strings.Repeat("0", 32), "", r.Task, o, epoch)
	l.do(lifecycle.Restarted{})
	return l
}

func (l *life) do(ev lifecycle.Event) {
	l.t.Helper()
	var effects []lifecycle.Effect
	l.s, effects = lifecycle.Step(l.s, l.at, ev)
	l.tasks = append(l.tasks, effects...)
	if err := lifecycle.Check(l.s); err != nil {
		l.t.Fatal(err)
	}
	l.tell()
}

// tell adds the status to the transcript if it has changed.
func (l *life) tell() {
	status := StatusOf(l.pod, l.s, Seen{Host: []netip.Addr{netip.MustParseAddr("192.0.2.1")}})
	now := summary(status)
	if now == l.last {
		return
	}
	l.last = now
	fmt.Fprintf(&l.said, "%4.0f s %s\n", l.at.Sub(epoch).Seconds(), now)
	text, err := json.Marshal(status)
	if err != nil {
		l.t.Fatal(err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	var theirs corev1.PodStatus
	if err := dec.Decode(&theirs); err != nil {
		l.t.Errorf("not a PodStatus: %v: %s", err, text)
	}
	if again, err := json.Marshal(theirs); err != nil || !sameJSON(l.t, text, again) {
		l.t.Errorf("Kubernetes would write %s, not %s (%v)", again, text, err)
	}
}

// sameJSON compares documents without members that are null or empty.
func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	prune := func(src []byte) string {
		var v any
		if err := json.Unmarshal(src, &v); err != nil {
			t.Fatal(err)
		}
		out, _ := json.Marshal(pruned(v))
		return string(out)
	}
	return prune(a) == prune(b)
}

func pruned(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, in := range v {
			if v[k] = pruned(in); v[k] == nil {
				delete(v, k)
			}
		}
		if len(v) == 0 {
			return nil
		}
	case []any:
		for i := range v {
			v[i] = pruned(v[i])
		}
	}
	return v
}

func summary(s Status) string {
	var b strings.Builder
	b.WriteString(s.Phase)
	for _, list := range [][]ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
		for _, c := range list {
			fmt.Fprintf(&b, " %s:%s", c.Name, stateWord(c.State))
			if last := stateWord(c.LastState); last != "" {
				fmt.Fprintf(&b, "(after %s, restart %d)", last, c.RestartCount)
			}
			if c.Ready {
				b.WriteString("+")
			}
		}
	}
	b.WriteString(" |")
	for _, c := range s.Conditions {
		if c.Status == conditionTrue || c.Reason != "" {
			fmt.Fprintf(&b, " %s=%s", c.Type, strings.Trim(c.Status+"/"+c.Reason, "/"))
		}
	}
	return b.String()
}

func stateWord(s ContainerState) string {
	switch {
	case s.Waiting != nil:
		return s.Waiting.Reason
	case s.Running != nil:
		return "running"
	case s.Terminated != nil:
		return fmt.Sprintf("%s/%d", s.Terminated.Reason, s.Terminated.ExitCode)
	}
	return ""
}

// run lets the world continue until a number of moves, or until nothing happens any more.
func (l *life) run(moves int) {
	l.t.Helper()
	for range moves {
		switch i := l.due(); {
		case len(l.tasks) > 0:
			e := l.tasks[0]
			l.tasks = l.tasks[1:]
			l.at = l.at.Add(time.Second)
			l.answer(e)
		case i >= 0:
			l.at = l.at.Add(time.Second)
			l.do(lifecycle.Hinted{Index: i})
		default:
			wake := l.s.Wake(l.at)
			if wake.IsZero() {
				return
			}
			l.at = wake
			l.do(lifecycle.TimerFired{})
		}
	}
}

func (l *life) name(i int) string { return l.s.Task.Containers[i].Name }

// due is a container whose run is over; -1 for none.
func (l *life) due() int {
	for i, c := range l.s.Containers {
		if c.Presence == lifecycle.Running && !c.Stale && len(l.exits[l.name(i)]) > 0 {
			return i
		}
	}
	return -1
}

func (l *life) answer(e lifecycle.Effect) {
	l.t.Helper()
	out := lifecycle.OpFinished{ID: e.Op()}
	trouble := func(i int) bool {
		f := l.fails[l.name(i)]
		if len(f) == 0 {
			return false
		}
		out.Failure, l.fails[l.name(i)] = f[0], f[1:]
		return true
	}
	switch e := e.(type) {
	case lifecycle.AdmitTask:
		out.Result.Admitted = true
	case lifecycle.CreateSandbox:
		out.Result.PodID = "pod"
	case lifecycle.RunSandbox:
	case lifecycle.ResolveImage:
		out.Result.Digest = digest
	case lifecycle.PullImage:
		if !trouble(e.Index) {
			out.Result.ImageID, out.Result.Source = "image", lifecycle.SourceRegistry
		}
	case lifecycle.CreateContainer:
		out.Result.Seen = lifecycle.Observed{Presence: lifecycle.Created, ID: "id"}
	case lifecycle.StartContainer:
		l.started[e.Index] = l.at
		out.Result.Seen = lifecycle.Observed{Presence: lifecycle.Running, ID: "id", StartedAt: l.at}
	case lifecycle.InspectContainer:
		out.Result.Seen = lifecycle.Observed{Presence: lifecycle.Running, ID: "id", StartedAt: l.started[e.Index]}
		if codes := l.exits[l.name(e.Index)]; len(codes) > 0 {
			l.exits[l.name(e.Index)] = codes[1:]
			out.Result.Seen.Presence, out.Result.Seen.FinishedAt, out.Result.Seen.ExitCode = lifecycle.Exited, l.at, codes[0]
			out.Result.Seen.OOMKilled = codes[0] == 137
		}
	case lifecycle.StopContainer:
		out.Result.Seen = lifecycle.Observed{Presence: lifecycle.Exited, ID: "id", StartedAt: l.started[e.Index], FinishedAt: l.at, ExitCode: 143}
	case lifecycle.CheckHealth:
		out.Result.Probe.Healthy = l.passes(l.name(e.Index) + " " + e.Probe.String())
	case lifecycle.RunHook:
		out.Result.Probe.Healthy = l.passes(l.name(e.Index) + " " + e.Hook.String())
	case lifecycle.StopSandbox, lifecycle.RemoveSandbox, lifecycle.ReleaseTask:
	case lifecycle.CancelOp:
		return
	default:
		l.t.Fatalf("no answer to %T", e)
	}
	l.do(out)
}

func (l *life) passes(check string) bool {
	results := l.checks[check]
	if len(results) == 0 {
		return true
	}
	l.checks[check] = results[1:]
	return results[0]
}

func podOf(policy, init, containers string) string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"restartPolicy": %q, "initContainers": [%s], "containers": [%s]}}`, policy, init, containers)
}

// TestStatusOfLives follows Pods from their beginning to their end.
func TestStatusOfLives(t *testing.T) {
	t.Parallel()
	const one, two = `{"name": "one", "image": "app:1"}`, `{"name": "one", "image": "app:1"}, {"name": "two", "image": "app:1"}`
	const probed = `{"name": "one", "image": "app:1", "startupProbe": {"tcpSocket": {"port": 1}, "periodSeconds": 5}, "readinessProbe": {"exec": {"command": ["a"]}, "failureThreshold": 1}}`
	const alive = `{"name": "one", "image": "app:1", "livenessProbe": {"grpc": {"port": 1}, "failureThreshold": 1}, "lifecycle": {"preStop": {"exec": {"command": ["a"]}}}}`
	const hooked = `{"name": "one", "image": "app:1", "lifecycle": {"postStart": {"exec": {"command": ["a"]}}}}`
	const init = `{"name": "prepare", "image": "app:1"}`
	const sidecar = `{"name": "proxy", "image": "app:1", "restartPolicy": "Always"}`
	denied := lifecycle.Failure{Class: lifecycle.Permanent, Message: "access denied"}
	away := lifecycle.Failure{Class: lifecycle.Temporary, Message: "the registry is away"}
	lives := []struct {
		name, src string
		exits     map[string][]int
		fails     map[string][]lifecycle.Failure
		options   lifecycle.Options
		checks    map[string][]bool
		moves     int
		stop      bool
	}{
		{name: "runs until it is stopped", src: podOf("Always", "", one), moves: 12, stop: true},
		{name: "succeeds", src: podOf("Never", init, one), exits: map[string][]int{"prepare": {0}, "one": {0}}, moves: 60},
		{name: "fails", src: podOf("Never", "", one), exits: map[string][]int{"one": {3}}, moves: 60},
		{name: "out of memory", src: podOf("Never", "", one), exits: map[string][]int{"one": {137}}, moves: 60},
		{name: "is restarted on failure until it succeeds", src: podOf("OnFailure", "", one), exits: map[string][]int{"one": {1, 2, 0}}, moves: 80},
		{name: "restarts for ever", src: podOf("Always", "", two), exits: map[string][]int{"one": {0, 137}}, moves: 40},
		{name: "init container fails", src: podOf("Never", init, one), exits: map[string][]int{"prepare": {1}}, moves: 60},
		{name: "init container is tried again", src: podOf("Always", init, one), exits: map[string][]int{"prepare": {1, 0}}, moves: 60},
		{name: "sidecar stops last", src: podOf("Never", init+","+sidecar, one), exits: map[string][]int{"prepare": {0}, "one": {0}}, moves: 80},
		{name: "image cannot be pulled", src: podOf("Always", "", two), fails: map[string][]lifecycle.Failure{"two": {denied}}, options: lifecycle.Options{Pull: lifecycle.PullAlways}, moves: 60},
		{name: "is checked before it is ready", src: podOf("Always", "", probed), checks: map[string][]bool{"one startup": {false, false}, "one readiness": {true, false}}, moves: 40},
		{name: "is not alive twice", src: podOf("Always", "", alive), checks: map[string][]bool{"one liveness": {true, false, true, false}}, moves: 60},
		{name: "is not alive and never restarted", src: podOf("Never", "", alive), checks: map[string][]bool{"one liveness": {true, false}}, moves: 60},
		{name: "hook fails", src: podOf("Always", "", hooked), checks: map[string][]bool{"one post-start": {false}}, moves: 20},
		{name: "ends with its last container", src: podOf("Never", "", two), exits: map[string][]int{"one": {3}}, moves: 40, stop: true},
		{name: "is too late", src: strings.Replace(podOf("Never", "", one), `"spec": {`, `"spec": {"activeDeadlineSeconds": 30, `, 1), moves: 40},
		{name: "registry is away for a while", src: podOf("Always", "", one), fails: map[string][]lifecycle.Failure{"one": {away, away}}, moves: 20},
	}
	var b strings.Builder
	for _, tt := range lives {
		l := live(t, tt.src, tt.options)
		for name, codes := range tt.exits {
			l.exits[name] = codes
		}
		for name, f := range tt.fails {
			l.fails[name] = f
		}
		l.checks = tt.checks
		l.run(tt.moves)
		if tt.stop {
			l.do(lifecycle.StopRequested{By: "the test"})
			l.run(tt.moves)
		}
		fmt.Fprintf(&b, "%s:\n%s", tt.name, l.said.String())
	}
	golden(t, "testdata/status.want", b.String())
}

func TestStatusInDetail(t *testing.T) {
	t.Parallel()
	l := live(t, podOf("OnFailure", "", `{"name": "one", "image": "docker.io/library/app:1", "resources": {"limits": {"memory": "64Mi"}}}`), lifecycle.Options{})
	l.exits["one"] = []int{3, 0}
	l.run(60)
	s := StatusOf(l.pod, l.s, Seen{Pod: []netip.Addr{netip.MustParseAddr("10.0.0.9"), netip.MustParseAddr("fd00::9")}})
	c := s.ContainerStatuses[0]
	if s.Phase != Succeeded || s.PodIP != "10.0.0.9" || len(s.PodIPs) != 2 || s.QOSClass != Burstable || !s.StartTime.Equal(epoch.Add(2*time.Second)) {
		t.Errorf("%+v", s)
	}
	if c.ImageID != "docker.io/library/app@"+digest || c.ContainerID != "podman://id" || c.RestartCount != 1 || *c.Started {
		t.Errorf("%+v", c)
	}
	if last := c.LastState.Terminated; last == nil || last.ExitCode != 3 || last.Reason != endedError || !last.FinishedAt.After(last.StartedAt.Time) {
		t.Errorf("last state %+v", last)
	}
	if now := c.State.Terminated; now == nil || now.ExitCode != 0 || now.Reason != endedCompleted || !now.StartedAt.After(c.LastState.Terminated.FinishedAt.Time) {
		t.Errorf("state %+v", now)
	}
}

func TestObjectIsThePodWithItsStatus(t *testing.T) {
	t.Parallel()
	l := live(t, podOf("Always", "", `{"name": "one", "image": "app:1"}`), lifecycle.Options{})
	l.pod.UID = "u-1"
	text, err := l.pod.Object(StatusOf(l.pod, l.s, Seen{}))
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	var theirs corev1.Pod
	if err := dec.Decode(&theirs); err != nil {
		t.Fatal(err)
	}
	if theirs.Kind != "Pod" || theirs.UID != "u-1" || theirs.Namespace != "default" || len(theirs.Spec.Containers) != 1 || theirs.Status.Phase != corev1.PodPending {
		t.Errorf("%+v", theirs)
	}
}
