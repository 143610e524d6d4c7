//go:build e2e

package libpod_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/containers/podman/v5/pkg/bindings/containers"
	"github.com/containers/podman/v5/pkg/bindings/volumes"
	"github.com/containers/podman/v5/pkg/specgen"

	"github.com/podtask/podtask/internal/host/libpod"
)

// task is one task's pod in a test, removed at its end.
type task struct {
	*libpod.Client
	t   *testing.T
	id  string
	pod libpod.PodSpec
}

func newTask(t *testing.T) *task {
	t.Helper()
	id := strings.ToLower(rand.Text())
	k := &task{Client: dial(t), t: t, id: id, pod: libpod.PodSpec{Name: "pt-" + id, TaskID: id, Network: "none"}}
	t.Cleanup(func() {
		ctx, cancel := afterwards()
		defer cancel()
		if err := k.RemovePod(ctx, k.pod.Name, k.id); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	return k
}

// ensurePod creates or adopts a pod and starts it.
func ensurePod(ctx context.Context, k *task, p libpod.PodSpec) (libpod.Pod, error) {
	if _, err := k.CreatePod(ctx, p); err != nil {
		return libpod.Pod{}, err
	}
	return k.StartPod(ctx, p.Name, p.TaskID)
}

// up makes the pod.
func (k *task) up() libpod.Pod {
	k.t.Helper()
	p, err := ensurePod(within(k.t), k, k.pod)
	if err != nil {
		k.t.Fatal(err)
	}
	return p
}

// spec is a container of the task that runs the test program with args.
func (k *task) spec(name string, args ...string) libpod.ContainerSpec {
	return libpod.ContainerSpec{Name: k.pod.Name + "-" + name, Pod: k.pod.Name, TaskID: k.id, Image: image, Command: args}
}

// create creates s and returns its name.
func (k *task) create(s libpod.ContainerSpec) string {
	k.t.Helper()
	if _, err := k.CreateContainer(within(k.t), s); err != nil {
		k.t.Fatal(err)
	}
	return s.Name
}

// run creates and starts s and returns its name.
func (k *task) run(s libpod.ContainerSpec) string {
	k.t.Helper()
	k.create(s)
	if err := k.StartContainer(within(k.t), s.Name); err != nil {
		k.t.Fatal(err)
	}
	return s.Name
}

// ended waits for the container's end.
func (k *task) ended(name string) libpod.Observed {
	k.t.Helper()
	if err := k.WaitContainer(within(k.t), name); err != nil {
		k.t.Fatal(err)
	}
	return k.see(name)
}

func (k *task) see(name string) libpod.Observed {
	k.t.Helper()
	o, err := k.InspectContainer(within(k.t), name)
	if err != nil {
		k.t.Fatal(err)
	}
	return o
}

// ready waits until a container running "wait", "deaf" or "stubborn" handles signals.
func (k *task) ready(name string) {
	k.t.Helper()
	k.says(name, "ready")
}

// says waits until a container has written a line.
func (k *task) says(name, text string) {
	k.t.Helper()
	ctx, cancel := context.WithCancel(within(k.t))
	defer cancel()
	err := k.Logs(ctx, name, libpod.LogOptions{Follow: true}, func(l libpod.LogLine) {
		if l.Text == text {
			cancel()
		}
	})
	if !errors.Is(err, libpod.Canceled) {
		k.t.Fatalf("the container ended before it said %s: %v", text, err)
	}
}

// wantClass fails the test unless err has the class.
func wantClass(t *testing.T, err error, c libpod.Class) {
	t.Helper()
	t.Log(err)
	if !errors.Is(err, c) {
		t.Fatalf("got %v, want class %v", err, c)
	}
	var e *libpod.Error
	if !errors.As(err, &e) || e.Op == "" || e.Cause == "" || strings.Contains(e.Cause, "\n") {
		t.Errorf("not an error to show a user: %#v", err)
	}
}

// TestConformance holds what the interpreter relies on against the Podman at
// hand. Each name says the rule; most of them are traps.
func TestConformance(t *testing.T) {
	for _, c := range conformance {
		t.Run(strings.ReplaceAll(c.rule, " ", "_"), func(t *testing.T) {
			t.Parallel()
			c.check(newTask(t))
		})
	}
}

type conformanceRule struct {
	rule  string
	check func(k *task)
}

var conformance = []conformanceRule{
	{"creating and starting a pod twice returns the same pod with its infra process", func(k *task) {
		first, second := k.up(), k.up()
		if first.ID == "" || first.InfraPID == 0 || first.ID != second.ID || first.InfraID != second.InfraID || first.InfraPID != second.InfraPID {
			k.t.Errorf("first %+v, second %+v", first, second)
		}
	}},
	{"StartPod restarts the infra container of a stopped pod", func(k *task) {
		first := k.up()
		if err := k.StopPod(within(k.t), k.pod.Name, k.id, 10*time.Second); err != nil {
			k.t.Fatal(err)
		}
		if o := k.see(k.pod.Name + "-infra"); o.Status != libpod.Exited {
			k.t.Fatalf("infra container is %v after StopPod", o.Status)
		}
		second := k.up()
		if second.ID != first.ID || second.InfraPID == 0 {
			k.t.Errorf("first %+v, second %+v", first, second)
		}
	}},
	{"CreatePod refuses a pod of the same name with another specification", func(k *task) {
		k.up()
		other := k.pod
		other.Hostname = "elsewhere"
		_, err := ensurePod(within(k.t), k, other)
		wantClass(k.t, err, libpod.Conflict)
	}},
	{"CreatePod refuses another task's pod and names its owner", func(k *task) {
		k.up()
		other := k.pod
		other.TaskID = "another"
		_, err := ensurePod(within(k.t), k, other)
		wantClass(k.t, err, libpod.Conflict)
		if !strings.Contains(err.Error(), k.id) {
			k.t.Errorf("%v does not name the owner %s", err, k.id)
		}
	}},
	{"host port 0 is chosen by Podman and reported", func(k *task) {
		k.pod.Network = ""
		k.pod.Ports = []libpod.Port{{HostIP: "127.0.0.1", ContainerPort: 80}, {HostIP: "127.0.0.1", ContainerPort: 81, Protocol: "udp"}}
		p := k.up()
		if len(p.Ports) != 2 || p.Ports[0].ContainerPort != 80 || p.Ports[0].HostPort == 0 || p.Ports[0].Protocol != "tcp" || p.Ports[1].HostPort == 0 || p.Ports[1].Protocol != "udp" {
			k.t.Errorf("ports %v", p.Ports)
		}
	}},
	{"a taken host port is PortInUse and not Temporary", func(k *task) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			k.t.Fatal(err)
		}
		defer l.Close()
		k.pod.Network = ""
		k.pod.Ports = []libpod.Port{{HostIP: "127.0.0.1", HostPort: uint16(l.Addr().(*net.TCPAddr).Port), ContainerPort: 80}}
		_, err = ensurePod(within(k.t), k, k.pod)
		wantClass(k.t, err, libpod.PortInUse)
	}},
	{"an unknown network is an error and leaves nothing that RemovePod cannot clear", func(k *task) {
		k.pod.Network = "no-such-network-" + k.id
		if _, err := ensurePod(within(k.t), k, k.pod); err == nil {
			k.t.Error("no error")
		}
	}},
	{"removing and stopping what does not exist succeeds", func(k *task) {
		ctx := within(k.t)
		if err := errors.Join(k.StopPod(ctx, k.pod.Name, k.id, 10*time.Second), k.RemovePod(ctx, k.pod.Name, k.id), k.StopContainer(ctx, "absent-"+k.id, 0),
			k.RemoveContainer(ctx, "absent-"+k.id, k.id), k.WaitContainer(ctx, "absent-"+k.id)); err != nil {
			k.t.Error(err)
		}
		if o := k.see("absent-" + k.id); o.Status != libpod.Absent || o.ID != "" {
			k.t.Errorf("observed %+v", o)
		}
	}},
	{"CreateContainer twice adopts and StartContainer twice succeeds", func(k *task) {
		k.up()
		s := k.spec("a", "wait")
		s.Env = map[string]string{"B": "2", "A": "1"}
		first, err := k.CreateContainer(within(k.t), s)
		if err != nil {
			k.t.Fatal(err)
		}
		second, err := k.CreateContainer(within(k.t), s)
		if err != nil || first.ID != second.ID || first.ID == "" {
			k.t.Fatalf("first %+v, second %+v, %v", first, second, err)
		}
		if o := k.see(s.Name); o.Status != libpod.Created || o.PID != 0 || o.TaskID != k.id || o.Foreign || !o.StartedAt.IsZero() || o.ImageID == "" {
			k.t.Errorf("created: %+v", o)
		}
		k.run(s)
		k.run(s)
		if o := k.see(s.Name); o.Status != libpod.Running || o.PID == 0 || o.StartedAt.IsZero() || !o.FinishedAt.IsZero() {
			k.t.Errorf("running: %+v", o)
		}
	}},
	{"CreateContainer refuses its own name with another specification", func(k *task) {
		k.up()
		s := k.spec("a", "wait")
		k.create(s)
		s.Env = map[string]string{"NEW": "1"}
		_, err := k.CreateContainer(within(k.t), s)
		wantClass(k.t, err, libpod.Conflict)
	}},
	{"a foreign container of our name is refused and never removed", func(k *task) {
		name := foreign(k, "")
		_, err := k.CreateContainer(within(k.t), libpod.ContainerSpec{Name: name, TaskID: k.id, Image: image})
		wantClass(k.t, err, libpod.Conflict)
		wantClass(k.t, k.RemoveContainer(within(k.t), name, k.id), libpod.Conflict)
		if o := k.see(name); o.Status != libpod.Created || !o.Foreign {
			k.t.Errorf("foreign container: %+v", o)
		}
	}},
	{"RemovePod spares what the user put into the pod and names it", func(k *task) {
		k.up()
		ours := k.create(k.spec("a", "wait"))
		theirs := foreign(k, k.pod.Name)
		err := k.RemovePod(within(k.t), k.pod.Name, k.id)
		wantClass(k.t, err, libpod.Conflict)
		if !strings.Contains(err.Error(), theirs) {
			k.t.Errorf("%v does not name %s", err, theirs)
		}
		if o := k.see(theirs); o.Status != libpod.Created {
			k.t.Errorf("foreign container: %+v", o)
		}
		if o := k.see(ours); o.Status != libpod.Absent {
			k.t.Errorf("our container: %+v", o)
		}
	}},
	{"RemovePod kills what runs and leaves neither container nor volume", func(k *task) {
		k.up()
		k.ready(k.run(k.spec("a", "stubborn")))
		name := k.create(k.spec("b", "wait"))
		volume := volumeOf(k, name)
		if err := k.RemovePod(within(k.t), k.pod.Name, k.id); err != nil {
			k.t.Fatal(err)
		}
		if o := k.see(name); o.Status != libpod.Absent {
			k.t.Errorf("%+v", o)
		}
		found, err := k.List(within(k.t))
		if err != nil {
			k.t.Fatal(err)
		}
		if slices.ContainsFunc(found, func(f libpod.Found) bool { return f.TaskID == k.id }) {
			k.t.Error("List still finds the task")
		}
		wantNoVolume(k, volume)
	}},
	{"RemoveContainer takes the anonymous volume along", func(k *task) {
		k.up()
		name := k.create(k.spec("a", "wait"))
		volume := volumeOf(k, name)
		if err := k.RemoveContainer(within(k.t), name, k.id); err != nil {
			k.t.Fatal(err)
		}
		wantNoVolume(k, volume)
	}},
	{"an unknown image is NoImage whatever the status", func(k *task) {
		k.up()
		s := k.spec("a")
		s.Image = "localhost/no/such/image:here"
		_, err := k.CreateContainer(within(k.t), s)
		wantClass(k.t, err, libpod.NoImage)
		_, err = k.Image(within(k.t), s.Image)
		wantClass(k.t, err, libpod.NotFound)
	}},
	{"an unknown pod is NotFound", func(k *task) {
		_, err := k.CreateContainer(within(k.t), k.spec("a", "wait"))
		wantClass(k.t, err, libpod.NotFound)
	}},
	{"a command that does not exist is CommandNotFound and the container stays created", func(k *task) {
		k.up()
		s := k.spec("a")
		s.EntryPoint = []string{"/no/such/command"}
		k.create(s)
		wantClass(k.t, k.StartContainer(within(k.t), s.Name), libpod.CommandNotFound)
		if o := k.see(s.Name); o.Status != libpod.Created || o.ExitCode != 0 {
			k.t.Errorf("%+v", o)
		}
	}},
	{"a command that cannot be executed is CommandNotExecutable", func(k *task) {
		k.up()
		s := k.spec("a")
		s.EntryPoint = []string{"/notexec"}
		k.create(s)
		wantClass(k.t, k.StartContainer(within(k.t), s.Name), libpod.CommandNotExecutable)
	}},
	{"the exit code and the times survive", func(k *task) {
		k.up()
		o := k.ended(k.run(k.spec("a", "exit", "7")))
		if o.Status != libpod.Exited || o.ExitCode != 7 || o.StartedAt.IsZero() || o.FinishedAt.Before(o.StartedAt) || o.OOMKilled || o.PID != 0 {
			k.t.Errorf("%+v", o)
		}
	}},
	{"an exited container can be started again", func(k *task) {
		k.up()
		s := k.spec("a", "exit", "7")
		first := k.ended(k.run(s))
		second := k.ended(k.run(s))
		if second.ID != first.ID || !second.StartedAt.After(first.StartedAt) || second.ExitCode != 7 {
			k.t.Errorf("first %+v, second %+v", first, second)
		}
	}},
	{"waiting for a container that never started returns at once", func(k *task) {
		k.up()
		if o := k.ended(k.create(k.spec("a", "wait"))); o.Status != libpod.Created {
			k.t.Errorf("%+v", o)
		}
	}},
	{"stop with grace lets the program end itself", func(k *task) {
		k.up()
		name := k.run(k.spec("a", "wait"))
		k.ready(name)
		if err := errors.Join(k.StopContainer(within(k.t), name, time.Minute), k.StopContainer(within(k.t), name, time.Minute)); err != nil {
			k.t.Fatal(err)
		}
		if o := k.see(name); o.Status != libpod.Exited || o.ExitCode != 0 {
			k.t.Errorf("%+v", o)
		}
	}},
	{"stop kills what ignores its stop signal, paused or not", func(k *task) {
		k.up()
		s := k.spec("a", "deaf")
		s.StopSignal = "SIGUSR1"
		name := k.run(s)
		k.ready(name)
		if err := k.PauseContainer(within(k.t), name); err != nil && !strings.Contains(err.Error(), "does not have a cgroup") { // as without systemd
			k.t.Fatal(err)
		}
		if err := k.StopContainer(within(k.t), name, time.Second); err != nil {
			k.t.Fatal(err)
		}
		if o := k.see(name); o.Status != libpod.Exited || o.ExitCode != 137 {
			k.t.Errorf("%+v", o)
		}
		lines := k.logs(name, libpod.LogOptions{})
		if len(lines) != 2 || lines[1].Text != syscall.SIGUSR1.String() {
			k.t.Errorf("it said %v", lines)
		}
	}},
	{"the grace of one container does not delay the stop of others", func(k *task) {
		k.up()
		var names []string
		for i := range 3*runtime.NumCPU() + 4 { // Podman runs three stops for each processor, and one
			names = append(names, k.run(k.spec(fmt.Sprint("c", i), "deaf")))
		}
		ctx, cancel := context.WithCancel(k.t.Context())
		defer cancel()
		var stops sync.WaitGroup
		for _, name := range names {
			k.ready(name)
			stops.Go(func() { _ = k.StopContainer(ctx, name, 10*time.Minute) })
		}
		for _, name := range names {
			k.says(name, syscall.SIGTERM.String())
		}
		cancel()
		stops.Wait()
		for _, name := range names {
			if o := k.see(name); o.Status != libpod.Running {
				k.t.Errorf("%s is %v before its grace is over", name, o.Status)
			}
			if err := k.StopContainer(within(k.t), name, 0); err != nil {
				k.t.Error(err)
			}
		}
	}},
	{"stop with grace 0 kills at once", func(k *task) {
		k.up()
		name := k.run(k.spec("a", "stubborn"))
		k.ready(name)
		if err := k.StopContainer(within(k.t), name, 0); err != nil {
			k.t.Fatal(err)
		}
		if o := k.see(name); o.Status != libpod.Exited || o.ExitCode != 137 {
			k.t.Errorf("%+v", o)
		}
	}},
	{"stopping a container that never started succeeds and leaves it startable", func(k *task) {
		k.up()
		name := k.create(k.spec("a", "exit", "7"))
		if err := k.StopContainer(within(k.t), name, 0); err != nil {
			k.t.Fatal(err)
		}
		if err := k.StartContainer(within(k.t), name); err != nil {
			k.t.Fatal(err)
		}
		if o := k.ended(name); o.ExitCode != 7 {
			k.t.Errorf("%+v", o)
		}
	}},
	{"a canceled stop returns at once, and the next one kills", func(k *task) {
		k.up()
		name := k.run(k.spec("a", "stubborn"))
		k.ready(name)
		ctx, cancel := context.WithCancel(within(k.t))
		gone := make(chan error, 1)
		go func() { gone <- k.StopContainer(ctx, name, 3*time.Second) }()
		cancel()
		wantClass(k.t, <-gone, libpod.Canceled)
		if err := k.StopContainer(within(k.t), name, 0); err != nil {
			k.t.Fatal(err)
		}
		if o := k.see(name); o.Status != libpod.Exited || o.ExitCode != 137 {
			k.t.Errorf("%+v", o)
		}
	}},
	{"the environment is the image's and ours and nothing of the host's", func(k *task) {
		k.up()
		s := k.spec("a", "env")
		s.Env = map[string]string{"OURS": "a,b=c d"}
		lines := k.logs(k.run(s), libpod.LogOptions{Follow: true})
		for _, want := range []string{"FROM_IMAGE=yes", "OURS=a,b=c d"} {
			if !slices.ContainsFunc(lines, func(l libpod.LogLine) bool { return l.Text == want }) {
				k.t.Errorf("no %s in %v", want, lines)
			}
		}
		for _, l := range lines {
			if name, _, _ := strings.Cut(l.Text, "="); strings.Contains(strings.ToLower(name), "proxy") || name == "XDG_RUNTIME_DIR" || name == "NOTIFY_SOCKET" {
				k.t.Errorf("from the host: %s", l.Text)
			}
		}
	}},
	{"a working directory that the image lacks is made", func(k *task) {
		k.up()
		s := k.spec("a", "exit", "0")
		s.WorkDir = "/not/in/image"
		if o := k.ended(k.run(s)); o.Status != libpod.Exited || o.ExitCode != 0 {
			k.t.Errorf("%+v", o)
		}
	}},
	{"read only, init, terminal and limits are accepted together", func(k *task) {
		k.up()
		s := k.spec("a", "exit", "0")
		s.ReadOnly, s.Init, s.TTY, s.Stdin = true, true, true, true
		s.MemoryLimit, s.MemoryReservation, s.CPUShares, s.StopTimeout = 128<<20, 64<<20, 512, 1500*time.Millisecond
		if o := k.ended(k.run(s)); o.Status != libpod.Exited || o.ExitCode != 0 {
			k.t.Errorf("%+v", o)
		}
	}},
	{"the image's own health check is turned off", func(k *task) {
		k.up()
		name := k.run(k.spec("a", "wait"))
		_, err := k.Probe(within(k.t), name)
		wantClass(k.t, err, libpod.InvalidSpec)
	}},
	{"a probe tells about itself only", func(k *task) {
		k.up()
		good := k.run(k.probed("good", program, "exit", "0"))
		bad := k.run(k.probed("bad", program, "fail", "it hurts"))
		for range 2 {
			if r, err := k.Probe(within(k.t), good); err != nil || r != (libpod.ProbeResult{Healthy: true}) {
				k.t.Errorf("good: %+v, %v", r, err)
			}
			r, err := k.Probe(within(k.t), bad)
			if err != nil || r.Healthy || r.ExitCode == 0 {
				k.t.Errorf("bad: %+v, %v", r, err)
			}
			if r.Output != "" && r.Output != "it hurts" { // best effort on 4.3.1
				k.t.Errorf("output %q", r.Output)
			}
		}
	}},
	{"a probe whose command does not exist is unhealthy and not an error", func(k *task) {
		k.up()
		name := k.run(k.probed("a", "/no/such/probe"))
		if r, err := k.Probe(within(k.t), name); err != nil || r.Healthy {
			k.t.Errorf("%+v, %v", r, err)
		}
	}},
	{"a probe of a container that does not run is NotRunning", func(k *task) {
		k.up()
		s := k.probed("a", program, "exit", "0")
		s.Command = []string{"exit", "0"}
		k.create(s)
		_, err := k.Probe(within(k.t), s.Name)
		wantClass(k.t, err, libpod.NotRunning)
		k.ended(k.run(s))
		_, err = k.Probe(within(k.t), s.Name)
		wantClass(k.t, err, libpod.NotRunning)
		_, err = k.Probe(within(k.t), "absent-"+k.id)
		wantClass(k.t, err, libpod.NotFound)
	}},
	{"a probe that hangs ends with its context", func(k *task) {
		k.up()
		name := k.run(k.probed("a", program, "stubborn"))
		ctx, cancel := context.WithTimeout(within(k.t), 300*time.Millisecond)
		defer cancel()
		_, err := k.Probe(ctx, name)
		wantClass(k.t, err, libpod.Timeout)
	}},
	{"logs are whole lines in order with both streams", func(k *task) {
		k.up()
		name := k.run(k.spec("a", "say", "stdout", "one\ntwo", "stdout", " and a half\n", "stdout", "\nlast"))
		k.ended(name)
		var got []string
		for _, l := range k.logs(name, libpod.LogOptions{}) {
			got = append(got, string(l.Stream)+":"+l.Text)
		}
		if want := []string{"stdout:one", "stdout:two and a half", "stdout:", "stdout:last"}; !slices.Equal(got, want) {
			k.t.Errorf("got %q, want %q", got, want)
		}
		name = k.run(k.spec("b", "say", "stderr", "error\n"))
		k.ended(name)
		if got := k.logs(name, libpod.LogOptions{}); len(got) != 1 || got[0].Stream != libpod.Stderr || got[0].Text != "error" {
			k.t.Errorf("got %v", got)
		}
	}},
	{"a line longer than Podman's pieces comes back in one", func(k *task) {
		k.up()
		const n = 30000
		name := k.run(k.spec("a", "long", strconv.Itoa(n)))
		k.ended(name)
		for _, stamps := range []bool{false, true} {
			got := k.logs(name, libpod.LogOptions{Timestamps: stamps})
			if len(got) != 1 || len(got[0].Text) != n || strings.Trim(got[0].Text, "x") != "" || got[0].Time.IsZero() == stamps {
				k.t.Errorf("stamps %v: %d lines, the first of %d bytes at %v", stamps, len(got), len(got[0].Text), got[0].Time)
			}
		}
	}},
	{"tail gives the last lines", func(k *task) {
		k.up()
		name := k.run(k.spec("a", "say", "stdout", "1\n2\n3\n"))
		k.ended(name)
		if got := k.logs(name, libpod.LogOptions{Tail: 2}); len(got) != 2 || got[0].Text != "2" || got[1].Text != "3" {
			k.t.Errorf("got %v", got)
		}
	}},
	{"since leaves out what is older", func(k *task) {
		k.up()
		name := k.run(k.spec("a", "say", "stdout", "1\n2\n3\n"))
		o := k.ended(name)
		if got := k.logs(name, libpod.LogOptions{Since: o.StartedAt.Add(-time.Minute)}); len(got) != 3 {
			k.t.Errorf("since before: %v", got)
		}
		if got := k.logs(name, libpod.LogOptions{Since: o.FinishedAt.Add(time.Minute)}); len(got) != 0 {
			k.t.Errorf("since after: %v", got)
		}
	}},
	{"following ends with the container and gives all of it", func(k *task) {
		k.up()
		name := k.run(k.spec("a", "wait"))
		var lines []libpod.LogLine
		done := make(chan error, 1)
		ready := make(chan struct{})
		go func() {
			done <- k.Logs(within(k.t), name, libpod.LogOptions{Follow: true}, func(l libpod.LogLine) {
				if lines = append(lines, l); len(lines) == 1 {
					close(ready)
				}
			})
		}()
		<-ready
		if err := k.StopContainer(within(k.t), name, time.Minute); err != nil {
			k.t.Fatal(err)
		}
		if err := <-done; err != nil || len(lines) != 1 || lines[0].Text != "ready" {
			k.t.Errorf("%v, %v", lines, err)
		}
	}},
	{"logs of an absent container are NotFound", func(k *task) {
		wantClass(k.t, k.Logs(within(k.t), "absent-"+k.id, libpod.LogOptions{}, func(libpod.LogLine) {}), libpod.NotFound)
	}},
	{"List finds pod, infra and containers with their task", func(k *task) {
		pod := k.up()
		k.run(k.spec("a", "wait"))
		k.create(k.spec("b", "wait"))
		found, err := k.List(within(k.t))
		if err != nil {
			k.t.Fatal(err)
		}
		var got []string
		for _, f := range found {
			if f.TaskID == k.id {
				got = append(got, fmt.Sprint(f.Kind, " ", strings.TrimPrefix(f.Name, k.pod.Name), " ", f.Status))
				if f.Kind != libpod.KindPod && f.PodID != pod.ID {
					k.t.Errorf("%s is in pod %s", f.Name, f.PodID)
				}
			}
		}
		slices.Sort(got)
		if want := []string{"container -a running", "container -b created", "infra -infra running", "pod  absent"}; !slices.Equal(got, want) {
			k.t.Errorf("got %q, want %q", got, want)
		}
	}},
	{"events tell about our containers until canceled", func(k *task) {
		k.up()
		ctx, cancel := context.WithCancel(within(k.t))
		defer cancel()
		var mu sync.Mutex
		var actions []string
		died := make(chan struct{})
		done := make(chan error, 1)
		name := k.create(k.spec("a", "exit", "7"))
		go func() {
			done <- k.Events(ctx, func(e libpod.Event) {
				if e.Name != name {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if actions = append(actions, e.Action); e.Action == "died" && e.TaskID == k.id {
					select {
					case <-died:
					default:
						close(died)
					}
				}
			})
		}()
		// Nothing says when the stream is connected, so runs continue until one is seen.
		for {
			if err := k.StartContainer(within(k.t), name); err != nil {
				k.t.Fatal(err)
			}
			k.ended(name)
			select {
			case <-died:
				cancel()
				wantClass(k.t, <-done, libpod.Canceled)
				return
			case err := <-done:
				k.t.Fatalf("the stream ended: %v; seen %v", err, actions)
			case <-time.After(3 * time.Second):
			}
		}
	}},
	{"what was canceled before the call never reaches Podman", func(k *task) {
		k.up()
		ctx, cancel := context.WithCancel(within(k.t))
		cancel()
		s := k.spec("a", "wait")
		_, err := k.CreateContainer(ctx, s)
		wantClass(k.t, err, libpod.Canceled)
		if o := k.see(s.Name); o.Status != libpod.Absent {
			k.t.Errorf("%+v", o)
		}
	}},
	{"ten containers at once", func(k *task) {
		k.up()
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				s := k.spec(strconv.Itoa(i), "exit", strconv.Itoa(i))
				if _, err := k.CreateContainer(within(k.t), s); err != nil {
					k.t.Error(err)
				} else if err := k.StartContainer(within(k.t), s.Name); err != nil {
					k.t.Error(err)
				} else if err := k.WaitContainer(within(k.t), s.Name); err != nil {
					k.t.Error(err)
				} else if o, err := k.InspectContainer(within(k.t), s.Name); err != nil || o.ExitCode != i || o.Status != libpod.Exited {
					k.t.Errorf("%d: %+v, %v", i, o, err)
				}
			})
		}
		wg.Wait()
	}},
	{"the host is described", func(k *task) {
		h, err := k.Host(within(k.t))
		if err != nil {
			k.t.Fatal(err)
		}
		if !h.Rootless || h.CgroupManager == "" || h.CgroupVersion == "" || h.Runtime == "" || h.NetworkBackend == "" || h.EventLogger == "" || h.CPUs == 0 || h.Memory == 0 || h.Socket == "" || h.Version == "" {
			k.t.Errorf("%+v", h)
		}
		if v := k.Version(); v.Major < 4 {
			k.t.Errorf("version %v", v)
		}
	}},
}

// probed is a container that stays, with a probe.
func (k *task) probed(name string, command ...string) libpod.ContainerSpec {
	s := k.spec(name, "wait")
	s.Health = &libpod.Health{Command: append([]string{"CMD"}, command...), Retries: 3}
	return s
}

// logs collects all lines.
func (k *task) logs(name string, o libpod.LogOptions) []libpod.LogLine {
	k.t.Helper()
	var lines []libpod.LogLine
	if err := k.Logs(within(k.t), name, o, func(l libpod.LogLine) { lines = append(lines, l) }); err != nil {
		k.t.Fatal(err)
	}
	return lines
}

// foreign makes a container as another tool would, in pod if not empty, removed
// before the task is.
func foreign(k *task, pod string) string {
	k.t.Helper()
	conn, err := raw(within(k.t))
	if err != nil {
		k.t.Fatal(err)
	}
	s := specgen.NewSpecGenerator(image, false)
	s.Name, s.Pod = "foreign-"+k.id, pod
	if _, err := containers.CreateWithSpec(conn, s, nil); err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() {
		ctx, cancel := afterwards()
		defer cancel()
		conn, err := raw(ctx)
		if err == nil {
			_, err = containers.Remove(conn, s.Name, new(containers.RemoveOptions).WithForce(true).WithVolumes(true))
		}
		if err != nil {
			k.t.Errorf("clean up: %v", err)
		}
	})
	return s.Name
}

// volumeOf returns the name of the container's anonymous volume.
func volumeOf(k *task, container string) string {
	k.t.Helper()
	conn, err := raw(within(k.t))
	if err != nil {
		k.t.Fatal(err)
	}
	data, err := containers.Inspect(conn, container, nil)
	if err != nil {
		k.t.Fatal(err)
	}
	for _, m := range data.Mounts {
		if m.Type == "volume" {
			return m.Name
		}
	}
	k.t.Fatal("the image's VOLUME made no volume")
	return ""
}

func wantNoVolume(k *task, name string) {
	k.t.Helper()
	conn, err := raw(within(k.t))
	if err != nil {
		k.t.Fatal(err)
	}
	if there, err := volumes.Exists(conn, name, nil); err != nil || there {
		k.t.Errorf("the anonymous volume was left behind (%v)", err)
	}
}
