package connect_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/engine/act/limits"
	"github.com/podtask/podtask/internal/engine/facts/conn"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/run/owner"
	"github.com/podtask/podtask/internal/serve"
	"github.com/podtask/podtask/internal/serve/ownerapi"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/internal/testing/enginetest"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

const image = "registry.example/testbox:1"

// ownerFlag makes the test binary play the process `podtask owner`.
const ownerFlag = "--play-owner"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == ownerFlag {
		if err := playOwner(os.Args[2], os.Args[len(os.Args)-1]); err != nil {
			fmt.Fprintln(os.Stderr, "Error: "+err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// playOwner receives a task and serves it for a while.
func playOwner(dir, id string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	e, err := open(dir, enginetest.New(enginetest.Wall{}))
	if err != nil {
		return err
	}
	host := hostOf(dir, e)
	o, err := e.Owners.Receive(ctx, id, host.OfferSocket(id))
	if err != nil {
		if pipe, openErr := os.OpenFile(filepath.Join(dir, "received"), os.O_WRONLY, 0); openErr == nil {
			_, _ = fmt.Fprint(pipe, err)
			_ = pipe.Close()
		}
		return err
	}
	l, err := api.Listen(host.Socket(id))
	if err != nil {
		return err
	}
	return api.NewServer(ownerapi.Backend{Owner: o, History: ownerapi.NewHistory(e), Pid: os.Getpid()}, api.ThisVersion("")).Serve(ctx, l)
}

func open(dir string, podman *enginetest.Fake) (*engine.Engine, error) {
	return engine.Open(engine.Config{
		StateDir: dir, RuntimeDir: filepath.Join(dir, "run"), Getenv: func(string) string { return "" },
		Dial:     func(context.Context) (conn.Podman, error) { return podman, nil },
		Registry: podman.Registry(),
	})
}

func hostOf(dir string, e *engine.Engine) ownerapi.Host {
	return ownerapi.Host{Engine: e, Log: slog.New(slog.DiscardHandler), StateDir: dir, RuntimeDir: filepath.Join(dir, "run"), Patience: time.Minute}
}

// bed is one user's Podman and state directory, for several processes.
type bed struct {
	t      *testing.T
	dir    string
	podman *enginetest.Fake
}

func newBed(t *testing.T) *bed {
	b := &bed{t: t, dir: t.TempDir(), podman: enginetest.New(enginetest.Wall{})}
	b.podman.Push(image, enginetest.Image{})
	return b
}

// engine is podtask as one process has it.
func (b *bed) engine() *engine.Engine {
	b.t.Helper()
	e, err := open(b.dir, b.podman)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { e.Close() })
	return e
}

func (b *bed) connector() *connect.Connector {
	return &connect.Connector{
		Host: hostOf(b.dir, b.engine()), AgentSocket: filepath.Join(b.dir, "run", "podtask.sock"),
		Warnf: func(format string, args ...any) { b.t.Errorf(format, args...) },
	}
}

// create records a task that the connector's process owns. Until stop is called, another process
// tries all the time to become its owner, and must not succeed.
func (b *bed) create(c *connect.Connector) (o *owner.Owner, stop func()) {
	b.t.Helper()
	return b.createAs(c, record.NewID())
}

func (b *bed) createAs(c *connect.Connector, id string) (o *owner.Owner, stop func()) {
	b.t.Helper()
	def := taskdef.Task{Family: "web", Network: taskdef.NetworkBridge, Containers: []taskdef.Container{
		{Name: "app", Image: image, Essential: true, StopTimeout: time.Second, Command: []string{"serve"}},
	}}
	o, err := c.Engine.Creator.Record(b.t.Context(), owner.Launch{ID: id, Task: def, Options: lifecycle.Options{Limits: limits.Off}})
	if err != nil {
		b.t.Fatal(err)
	}
	rival := b.engine()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for tried := false; !tried || ctx.Err() == nil; tried = true {
			if stolen, err := rival.Owners.Own(id); !errors.Is(err, state.ErrLocked) {
				b.t.Errorf("another process became the owner: %v", err)
				if err == nil {
					stolen.Close()
				}
				return
			}
		}
	})
	stop = func() { cancel(); wg.Wait() }
	b.t.Cleanup(stop)
	return o, stop
}

// serve serves an agent until the test ends.
func (b *bed) serve(backend api.Backend, socket string) {
	b.t.Helper()
	l, err := api.Listen(socket)
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := api.NewServer(backend, api.ThisVersion("")).Serve(ctx, l); err != nil {
			b.t.Error(err)
		}
	})
	b.t.Cleanup(func() { cancel(); wg.Wait() })
}

func TestTasksAreGivenToTheAgentWithTheirLock(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	c, agent := b.connector(), b.engine()
	ctx, cancel := context.WithCancel(context.Background())
	fleet := engine.NewFleet(ctx, agent)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := fleet.Run(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	b.serve(serve.NewAgentBackend(hostOf(b.dir, agent), nil, fleet, nil), c.AgentSocket)
	for range 5 {
		o, stop := b.create(c)
		if !c.GiveToAgent(t.Context(), o) {
			t.Error("the agent did not receive the task")
		}
		if err := o.Close(); err != nil { // has no effect any more
			t.Error(err)
		}
		if fleet.Owner(o.ID()) == nil {
			t.Error("the agent does not own the task")
		}
		stop()
	}
}

// onlyOwner is a server that adopts no task, such as an agent of an older version that waits for
// the lock in vain.
type onlyOwner struct{ api.Backend }

func (onlyOwner) Task(_ context.Context, id string) (api.Task, error) { return api.Task{ID: id}, nil }

func TestTaskStaysWithItsCreatorIfNoAgentReceivesIt(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(b *bed, socket string){
		"no agent":                   func(*bed, string) {},
		"an agent that does not ask": func(b *bed, socket string) { b.serve(onlyOwner{}, socket) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			c := b.connector()
			prepare(b, c.AgentSocket)
			o, stop := b.create(c)
			if c.GiveToAgent(t.Context(), o) {
				t.Error("the task counts as given")
			}
			stop()
			if err := o.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A new process becomes the owner: the lock is never free until that process ends.
func TestTasksAreHandedToANewOwnerWithTheirLock(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	c := b.connector()
	l := &connect.Launcher{Connector: c, Getenv: func(string) string { return "" }, Environ: func() []string { return nil }, Executable: os.Executable, Flags: []string{ownerFlag, b.dir}}
	id := record.NewID()
	handover := l.BeginHandover(t.Context(), id) // its process starts now, and waits for the task
	defer handover.Close()
	o, stop := b.createAs(c, id)
	err := handover.Give(t.Context(), o)
	stop()
	holder, held := c.Engine.Tasks.Holder(o.ID())
	if err != nil || !held || holder.PID == os.Getpid() {
		t.Fatalf("owned by process %d (%v): %v", holder.PID, held, err)
	}
	if err := syscall.Kill(holder.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	next, err := c.Engine.Owners.OwnWait(t.Context(), o.ID())
	if err != nil {
		t.Fatal(err)
	}
	if err := next.Close(); err != nil {
		t.Error(err)
	}
}

// A process that waits for a task that is not created ends, and nothing is left.
func TestOwnerOfATaskThatIsNotCreatedEnds(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	c := b.connector()
	l := &connect.Launcher{Connector: c, Getenv: func(string) string { return "" }, Environ: func() []string { return nil }, Executable: os.Executable, Flags: []string{ownerFlag, b.dir}}
	pipe := filepath.Join(b.dir, "received")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	id := record.NewID()
	l.BeginHandover(t.Context(), id).Close()
	if _, err := os.Stat(c.OfferSocket(id)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket stays: %v", err)
	}
	if said, err := os.ReadFile(pipe); err != nil || !strings.Contains(string(said), owner.ErrNotOffered.Error()) {
		t.Errorf("the process received %q, %v", said, err)
	}
}

// Without a new owner, the task is released: the next command may own it.
func TestTaskIsReleasedIfNoOwnerStarts(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	c := b.connector()
	l := &connect.Launcher{Connector: c, Getenv: func(string) string { return "" }, Environ: func() []string { return nil }, Executable: func() (string, error) { return filepath.Join(b.dir, "none"), nil }}
	o, stop := b.create(c)
	stop()
	if err := l.HandOver(t.Context(), o); err == nil {
		t.Error("a program that is not there was started")
	}
	next, err := c.Engine.Owners.Own(o.ID())
	if err != nil {
		t.Fatal(err)
	}
	if err := next.Close(); err != nil {
		t.Error(err)
	}
}
