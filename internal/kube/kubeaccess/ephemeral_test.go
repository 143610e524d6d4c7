package kubeaccess

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/fstest"
	"time"

	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/engine/facts/conn"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/kube/ephemeral"
	"github.com/podtask/podtask/internal/kube/kubeserve"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// podmanStub is a Podman with containers.
type podmanStub struct {
	attacher
	containers map[string]libpod.Observed
}

func (p podmanStub) Host(context.Context) (libpod.Host, error) { return libpod.Host{}, nil }
func (p podmanStub) Close() error                              { return nil }

func (p podmanStub) InspectContainer(_ context.Context, name string) (libpod.Observed, error) {
	return p.containers[name], nil
}

func (p podmanStub) DescribeContainer(context.Context, string) (libpod.Description, error) {
	return libpod.Description{Stdin: true, TTY: true}, nil
}

// Ephemeral containers are found in Podman: the record of the task does not have them.
func TestEphemeralContainersAreReached(t *testing.T) {
	t.Parallel()
	const id = "0123456789abcdef0123456789abcdef"
	manifest := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop"},"spec":{"containers":[{"name":"main","image":"app:1"}]}}`
	d, err := define.Reader{}.Read(define.Document{Name: "pod", Source: []byte(manifest)}, define.Changes{})
	if err != nil || d.Err() != nil {
		t.Fatal(err, d.Err())
	}
	task := lifecycle.New(id, "", d.Task, lifecycle.Options{}, time.Unix(900, 0))
	began := time.Unix(1000, 0)
	p := podmanStub{containers: map[string]libpod.Observed{
		ephemeral.ContainerName(task, "look"):   {Status: libpod.Running, TaskID: id, ID: "c1", StartedAt: began},
		ephemeral.ContainerName(task, "theirs"): {Status: libpod.Running, TaskID: "another", ID: "c2"},
	}}
	e, err := engine.Open(engine.Config{
		StateDir: t.TempDir(), RuntimeDir: t.TempDir(), Getenv: func(string) string { return "" },
		Dial: func(context.Context) (conn.Podman, error) { return p, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	record, err := json.Marshal(task)
	if err == nil {
		err = e.Tasks.Store.Put(id, record)
	}
	if err != nil {
		t.Fatal(err)
	}
	a := New(e, fstest.MapFS{}, nil)
	s, i, err := a.container(t.Context(), kubeserve.Ref{Namespace: "shop", Pod: "web", Container: "look"})
	if err != nil || i != 1 || containerName(s, i) != ephemeral.ContainerName(task, "look") {
		t.Fatalf("container %d of %+v, %v", i, s.Task.Containers, err)
	}
	if c := s.Task.Containers[i]; !c.Interactive || !c.PseudoTerminal || !s.Containers[i].StartedAt.Equal(began) {
		t.Errorf("it is %+v, %+v", c, s.Containers[i])
	}
	if _, i, err = a.container(t.Context(), kubeserve.Ref{Namespace: "shop", Pod: "web", Container: "main"}); err != nil || i != 0 {
		t.Errorf("the container of the definition: %d, %v", i, err)
	}
	for _, name := range []string{"theirs", "none"} {
		if _, _, err := a.container(t.Context(), kubeserve.Ref{Namespace: "shop", Pod: "web", Container: name}); !errors.Is(err, kubeserve.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
