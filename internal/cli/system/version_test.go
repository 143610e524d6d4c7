package system

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/pkg/api"
)

// noTasks is a server without tasks.
type noTasks struct{ api.Backend }

// The version of an agent is shown, and that it is another program than this one; a socket without an agent is left
// alone.
func TestVersionOfTheAgent(t *testing.T) {
	t.Parallel()
	e, err := engine.Open(engine.Config{StateDir: t.TempDir(), RuntimeDir: t.TempDir(), Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	socket := filepath.Join(t.TempDir(), "podtask.sock")
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	if a := findAgent(t.Context(), e.Tasks, socket, "v0.2.0"); a != nil {
		t.Errorf("without an agent there is %+v", a)
	}

	unlock, err := e.Tasks.LockAgent()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	version := api.ThisVersion("v0.1.0")
	version.PID = 4711
	go func() { served <- api.NewServer(noTasks{}, version).Serve(ctx, l) }()
	a := findAgent(t.Context(), e.Tasks, socket, "v0.2.0")
	if a == nil || a.Version != "v0.1.0" || a.PID != 4711 || !a.Differs {
		t.Fatalf("the agent is %+v", a)
	}
	if text := a.String(); !strings.Contains(text, "not this version") || !strings.Contains(text, "systemctl --user restart podtask") {
		t.Errorf("it says %q", text)
	}
	if a := findAgent(t.Context(), e.Tasks, socket, "v0.1.0"); a == nil || a.Differs || a.String() != "v0.1.0, process 4711" {
		t.Errorf("the agent of the same version is %v", a)
	}
	cancel()
	<-served
	if a := findAgent(t.Context(), e.Tasks, socket, "v0.1.0"); a == nil || !strings.Contains(a.String(), "does not answer") {
		t.Errorf("an agent that does not answer is %v", a)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
}
