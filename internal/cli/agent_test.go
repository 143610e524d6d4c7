package cli

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/parts"
	"github.com/podtask/podtask/pkg/api"
)

// startAgent runs an agent in this process. Signal sends it a signal; end waits for its
// exit code.
func (w *world) startAgent(args ...string) (socket string, signal func(os.Signal), end func() (code int, stderr string)) {
	w.t.Helper()
	var said bytes.Buffer
	var mu sync.Mutex // guards said
	signals := make(chan chan<- os.Signal, 1)
	p := &command.Program{
		Stdin: strings.NewReader(""), Stdout: io.Discard, Getenv: w.getenv, Environ: func() []string { return nil }, Patience: time.Second,
		Stderr: console.WriterFunc(func(b []byte) (int, error) { mu.Lock(); defer mu.Unlock(); return said.Write(b) }),
		Notify: func(c chan<- os.Signal, _ ...os.Signal) { signals <- c },
	}
	done := make(chan int, 1)
	go func() {
		done <- runLine(context.WithoutCancel(w.t.Context()), p, parts.Build(), append([]string{"podtask", "agent"}, args...))
	}()
	to := <-signals
	socket = filepath.Join(w.getenv("XDG_RUNTIME_DIR"), "podtask", "podtask.sock")
	end = sync.OnceValues(func() (int, string) {
		code := <-done
		mu.Lock()
		defer mu.Unlock()
		return code, said.String()
	})
	signal = func(s os.Signal) { to <- s }
	w.t.Cleanup(func() {
		select {
		case to <- syscall.SIGTERM:
		default:
		}
		end()
	})
	return socket, signal, end
}

func TestAgentServesUntilItIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	task := w.create("web")
	held := w.lock(task.ID) // owned by another process: no Podman is needed for it
	socket, signal, end := w.startAgent("--log-format=json")
	c, err := api.Dial(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if v, err := c.Version(t.Context()); err != nil || v.Role != "agent" || v.PID != os.Getpid() || v.StateDir == "" {
		t.Errorf("version %+v, %v", v, err)
	}
	tasks, err := c.Tasks(t.Context())
	if err != nil || len(tasks) != 1 || tasks[0].ID != task.ID {
		t.Errorf("tasks %+v, %v", tasks, err)
	}
	if err := c.Adopt(t.Context(), task.ID); !api.Is(err, api.Conflict) {
		t.Errorf("adopting a task that is owned: %v", err)
	}
	if err := c.Remove(t.Context(), "web", "me", false); !api.Is(err, api.Conflict) {
		t.Errorf("removing a task that has not stopped: %v", err)
	}
	if _, err := c.Task(t.Context(), "none"); !api.Is(err, api.NotFound) {
		t.Errorf("a task that is not there: %v", err)
	}

	unix := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	defer unix.CloseIdleConnections()
	resp, err := unix.Get("http://podtask/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(body), `podtask_tasks{status="NONE"} 1`) {
		t.Errorf("metrics: %v\n%s", err, body)
	}

	if _, stderr, code := w.podtask("agent"); code != command.ExitOwnFailure || !strings.Contains(stderr, "there is an agent already") {
		t.Errorf("a second agent: %d %s", code, stderr)
	}
	signal(syscall.SIGUSR1)
	signal(syscall.SIGHUP)
	signal(syscall.SIGTERM)
	code, said := end()
	for _, want := range []string{"state asked for by SIGUSR1", "the configuration is read", "the agent has ended"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is missing in\n%s", want, said)
		}
	}
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	if _, err := os.Stat(socket); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
	if err := held.Close(); err != nil {
		t.Error(err)
	}
}

func TestNewTasksAreCheckedBeforeAnythingIsMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	socket, _, _ := w.startAgent()
	c, err := api.Dial(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const good = `{"family":"web","containerDefinitions":[{"name":"app","image":"app:1"}]}`
	for name, n := range map[string]api.NewTask{
		"no containers":    {Definition: []byte(`{"family":"web"}`)},
		"no JSON":          {Definition: []byte(`[]`)},
		"a placeholder":    {Definition: []byte(strings.ReplaceAll(good, "app:1", "app:${TAG}"))},
		"the name":         {Definition: []byte(good), Name: "-x"},
		"when to pull":     {Definition: []byte(good), TaskOptions: api.TaskOptions{Pull: "sometimes"}},
		"the limits":       {Definition: []byte(good), TaskOptions: api.TaskOptions{Limits: "some"}},
		"not an ECS field": {Definition: []byte(strings.Replace(good, `"family"`, `"networkMode":"moon","family"`, 1))},
	} {
		if _, err := c.Create(t.Context(), n); !api.Is(err, api.BadRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if tasks, err := c.Tasks(t.Context()); err != nil || len(tasks) > 0 {
		t.Errorf("tasks %+v, %v", tasks, err)
	}
}

// Every default of the configuration is a value that those who use it accept.
func TestDefaultsOfTheConfigurationAreAccepted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var flags []string
	for _, k := range config.Keys() {
		if k.Default != "" && k.Verb == "" {
			flags = append(flags, "--"+k.Name+"="+k.Default)
		}
	}
	if len(flags) < 5 {
		t.Fatalf("only %q", flags)
	}
	if _, stderr, code := w.podtask(append(flags, "ps", "-q")...); code != 0 || stderr != "" {
		t.Errorf("%v: %d %s", flags, code, stderr)
	}
	if _, stderr, code := w.podtask("--image-min-free", "some", "ps"); code != command.ExitOwnFailure || !strings.Contains(stderr, "image-min-free") {
		t.Errorf("a size that is none: %d %s", code, stderr)
	}
}

// Of several agents that start at once, those that come too late are not told to end process 0, which is all of a shell.
func TestAnAgentThatHasNotSaidWhoItIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	unlock, err := w.host().Tasks.LockAgent()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unlock() }()
	stateDir, _, err := command.Dirs(w.getenv, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(stateDir, "locks", "00000000000000000000000000000001"), 0); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := w.podtask("agent"); code != command.ExitOwnFailure || !strings.Contains(stderr, "which starts at this moment") || strings.Contains(stderr, "kill") {
		t.Errorf("%d %s", code, stderr)
	}
}
