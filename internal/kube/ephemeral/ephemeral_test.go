package ephemeral

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/engine/facts/conn"
	"github.com/podtask/podtask/internal/engine/facts/taskspec"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

const taskID = "0123456789abcdef0123456789abcdef"

// podmanStub is a Podman with containers that were created.
type podmanStub struct {
	mu         sync.Mutex
	containers map[string]libpod.Observed
	refusal    error
	stopped    []string
}

func (p *podmanStub) Host(context.Context) (libpod.Host, error) { return libpod.Host{}, nil }
func (p *podmanStub) Close() error                              { return nil }

func (p *podmanStub) InspectContainer(_ context.Context, name string) (libpod.Observed, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.containers[name], nil
}

func (p *podmanStub) CreateContainer(context.Context, libpod.ContainerSpec) (libpod.Observed, error) {
	return libpod.Observed{}, errors.New("nothing is created here")
}

func (p *podmanStub) StartContainer(_ context.Context, name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refusal != nil {
		return p.refusal
	}
	c := p.containers[name]
	c.Status, c.StartedAt = libpod.Running, time.Unix(1000, 0)
	p.containers[name] = c
	return nil
}

func (p *podmanStub) StopContainer(_ context.Context, id string, _ time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = append(p.stopped, id)
	return nil
}

func (p *podmanStub) WaitContainer(_ context.Context, name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.containers[name]
	c.Status, c.FinishedAt, c.ExitCode = libpod.Exited, time.Unix(1001, 0), 3
	p.containers[name] = c
	return nil
}

// podTask is a task of a Pod whose container mounts a volume.
func podTask() lifecycle.State {
	t := taskOf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"name":"main","image":"app:1","volumeMounts":[{"name":"data","mountPath":"/data"}]}],"volumes":[{"name":"data","emptyDir":{}}]}}`)
	return lifecycle.New(taskID, "", t, lifecycle.Options{}, time.Unix(900, 0))
}

func taskOf(manifest string) taskdef.Task {
	d, err := define.Reader{}.Read(define.Document{Name: "pod", Source: []byte(manifest)}, define.Changes{})
	if err == nil {
		err = d.Err()
	}
	if err != nil {
		panic(err)
	}
	return d.Task
}

func newContainers(t *testing.T, p *podmanStub) *Containers {
	t.Helper()
	stateDir := t.TempDir()
	e, err := engine.Open(engine.Config{
		StateDir: stateDir, RuntimeDir: t.TempDir(), Getenv: func(string) string { return "" },
		Dial: func(context.Context) (conn.Podman, error) { return p, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	record, err := json.Marshal(podTask())
	if err == nil {
		err = e.Tasks.Store.Put(taskID, record)
	}
	if err != nil {
		t.Fatal(err)
	}
	return New(e, stateDir, define.Reader{})
}

func named(name string) string { return ContainerName(podTask(), name) }

func TestAContainerIsStartedOnce(t *testing.T) {
	t.Parallel()
	p := &podmanStub{containers: map[string]libpod.Observed{named("look"): {Status: libpod.Created, TaskID: taskID, ID: "c1"}}}
	c := newContainers(t, p)
	r := Request{Task: taskID, Name: "look"}
	s, err := c.Start(t.Context(), r)
	if err != nil || !s.Running || s.ID != "c1" || s.StartedAt.IsZero() {
		t.Fatalf("%+v, %v", s, err)
	}
	s, err = c.Await(t.Context(), taskID, "look")
	if err != nil || s.Running || s.ExitCode != 3 || s.FinishedAt.IsZero() {
		t.Errorf("the end is %+v, %v", s, err)
	}
	if s, err = c.Start(t.Context(), r); err != nil || s.Running || s.ExitCode != 3 {
		t.Errorf("a second start: %+v, %v", s, err)
	}
	if s, err = c.Await(t.Context(), taskID, "gone"); err != nil || s.Exists {
		t.Errorf("one that is not there: %+v, %v", s, err)
	}
}

func TestACommandThatCannotBeStarted(t *testing.T) {
	t.Parallel()
	p := &podmanStub{containers: map[string]libpod.Observed{named("look"): {Status: libpod.Created, TaskID: taskID, ID: "c1"}}}
	p.refusal = &libpod.Error{Class: libpod.CommandNotFound, Cause: "no such file"}
	s, err := newContainers(t, p).Start(t.Context(), Request{Task: taskID, Name: "look"})
	if !errors.Is(err, ErrCommand) || s.ID != "c1" || s.Running {
		t.Errorf("%+v, %v", s, err)
	}
}

// A container of that name may be one of another task, or a user's.
func TestAContainerOfAnotherTaskIsLeftAlone(t *testing.T) {
	t.Parallel()
	p := &podmanStub{containers: map[string]libpod.Observed{named("look"): {Status: libpod.Running, TaskID: "another", ID: "c1"}}}
	c := newContainers(t, p)
	if _, err := c.Start(t.Context(), Request{Task: taskID, Name: "look"}); !errors.Is(err, ErrInvalid) {
		t.Errorf("the start: %v", err)
	}
	if err := c.Stop(t.Context(), taskID, "look", time.Second); err != nil || len(p.stopped) != 0 {
		t.Errorf("stopped %q, %v", p.stopped, err)
	}
	if s, err := c.Await(t.Context(), taskID, "look"); err != nil || s.Exists {
		t.Errorf("its state is %+v, %v", s, err)
	}
}

func TestADefinitionThatThisHostCannotRun(t *testing.T) {
	t.Parallel()
	p := &podmanStub{containers: map[string]libpod.Observed{}}
	c := newContainers(t, p)
	for name, definition := range map[string]string{
		"no definition": `nonsense`,
		"a claim":       `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"name":"look","image":"tools:1","volumeMounts":[{"name":"d","mountPath":"/d"}]}],"volumes":[{"name":"d","persistentVolumeClaim":{"claimName":"c"}}]}}`,
		"two":           `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"name":"a","image":"a:1"},{"name":"b","image":"b:1"}]}}`,
	} {
		if _, err := c.Start(t.Context(), Request{Task: taskID, Name: "look", Definition: []byte(definition)}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Its volumes are those of the task, its names and secrets its own.
func TestAContainerBesideThoseOfATask(t *testing.T) {
	t.Parallel()
	definition := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"name":"look","image":"tools:1","volumeMounts":[%s]}],` +
		`"volumes":[{"name":"host","hostPath":{"path":"/srv"}},{"name":"data","emptyDir":{}},{"name":"scratch","emptyDir":{}}]}}`
	from := taskOf(strings.Replace(definition, "%s", `{"name":"data","mountPath":"/d"},{"name":"host","mountPath":"/h"}`, 1))
	from.Containers[0].Secrets = []taskdef.Secret{{Name: "PW"}}
	task := podTask()
	s, i, err := beside(task, from, 2)
	if err != nil || i != 3 || len(task.Task.Containers) != 1 || len(task.Task.Volumes) != 1 {
		t.Fatalf("index %d, %v; the task is %+v", i, err, task.Task)
	}
	spec := taskspec.Container(s, i, "image")
	if spec.Name != named("look") || spec.TaskID != taskID || spec.Pod != taskspec.PodName(task) {
		t.Errorf("its names are %q, %q, %q", spec.Name, spec.TaskID, spec.Pod)
	}
	if len(spec.Volumes) != 1 || spec.Volumes[0].Name != taskspec.VolumeName(task, 0) || len(spec.Binds) != 1 || spec.Binds[0].HostPath != "/srv" {
		t.Errorf("it mounts %+v and %+v", spec.Volumes, spec.Binds)
	}
	if got := taskspec.Secrets(only(s, i)); len(got) != 1 || !strings.Contains(got[0].Name, "-c3-") {
		t.Errorf("its secrets are %+v", got)
	}
	from = taskOf(strings.Replace(definition, "%s", `{"name":"scratch","mountPath":"/s"}`, 1))
	if _, _, err := beside(task, from, 0); err == nil || !strings.Contains(err.Error(), "/s") {
		t.Errorf("a volume that the task does not have: %v", err)
	}
}

func TestTheProcessesOfATarget(t *testing.T) {
	t.Parallel()
	p := &podmanStub{containers: map[string]libpod.Observed{named("main"): {Status: libpod.Running, TaskID: taskID, PID: 42}}}
	if path, err := processesOf(t.Context(), p, podTask(), "main"); err != nil || path != "/proc/42/ns/pid" {
		t.Errorf("%s, %v", path, err)
	}
	if _, err := processesOf(t.Context(), p, podTask(), "other"); !errors.Is(err, ErrInvalid) {
		t.Errorf("a target that is not there: %v", err)
	}
	p.containers[named("main")] = libpod.Observed{Status: libpod.Exited, TaskID: taskID}
	if _, err := processesOf(t.Context(), p, podTask(), "main"); err == nil || errors.Is(err, ErrInvalid) {
		t.Errorf("a target that does not run: %v", err)
	}
}
