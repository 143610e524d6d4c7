package instance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podtask/podtask/internal/aws/instance/awscall"
	"github.com/podtask/podtask/internal/aws/instance/wire"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/internal/testing/ecsplane"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/taskdef"
)

// pipes is a listener whose connections are in memory, so that a bubble of synctest has them.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	// reset: connections that the server ends are reset, not closed.
	reset atomic.Bool
}

// piped is the client's end of a connection.
type piped struct {
	net.Conn
	of *pipes
}

func (c piped) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if errors.Is(err, io.EOF) && c.of.reset.Load() {
		err = syscall.ECONNRESET
	}
	return n, err
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return piped{ours, p}, nil
	case <-p.done:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// disk is that of the test, where nothing waits for it, and which may be full.
type disk struct {
	state.OS

	mu     sync.Mutex
	full   bool
	writes int
	// at, if not nil, is called before each write, with its number.
	at func(n int)
}

func (d *disk) SyncDir(string) error { return nil }

func (d *disk) Create(name string) (state.File, error) {
	d.mu.Lock()
	d.writes++
	n, full, at := d.writes, d.full, d.at
	d.mu.Unlock()
	if at != nil {
		at(n)
	}
	if full {
		return nil, syscall.ENOSPC
	}
	f, err := d.OS.Create(name)
	return quickFile{f}, err
}

func (d *disk) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.writes
}

func (d *disk) setAt(at func(n int)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = at
}

func (d *disk) setFull(full bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full = full
}

type quickFile struct{ state.File }

func (quickFile) Sync() error { return nil }

// lab is an instance with its control plane and a stub of the agent, under a false clock.
type lab struct {
	t        *testing.T
	plane    *ecsplane.Plane
	agent    *stubAgent
	config   Config
	disk     *disk
	listener *pipes
	stop     func() // of the instance
	finished chan struct{}
	err      error
}

// withLab runs a test in a bubble.
func withLab(t *testing.T, test func(*lab)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		listener := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
		transport := &http.Transport{DialContext: listener.dial, DisableKeepAlives: true}
		l := newLab(t, dir, ecsplane.New("http://127.0.0.1"), transport)
		l.listener = listener
		server := &http.Server{Handler: l.plane, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
		var serving sync.WaitGroup
		serving.Go(func() { _ = server.Serve(listener) })
		defer func() {
			l.kill()
			for _, p := range l.plane.Problems() {
				t.Error(p)
			}
			l.plane.End("acs", 0)
			l.plane.End("tcs", 0)
			close(listener.done)
			_ = server.Close()
			serving.Wait()
		}()
		test(l)
	})
}

// newLab returns an instance of a control plane.
func newLab(t *testing.T, dir string, plane *ecsplane.Plane, transport http.RoundTripper) *lab {
	l := &lab{t: t, plane: plane, agent: newStubAgent(), disk: new(disk)}
	l.config = Config{
		Cluster: "lab", Version: "1.0", Dir: filepath.Join(dir, "state"), Runtime: filepath.Join(dir, "run"), Agent: l.agent,
		Host: Host{CPU: 2048, Memory: 15744, Ports: []string{"22", "2375", "2376", "51678", "51679"}, Limits: true, AWSLogs: true, Arch: "amd64"},
		Log:  slog.New(slog.DiscardHandler), Pace: DefaultPace, Cleanup: 3 * time.Hour,
		Calls: &awscall.Client{HTTP: &http.Client{Transport: transport}, Region: ecsplane.Region,
			Endpoints: map[string]string{"ecs": "http://127.0.0.1", "ssm": "http://127.0.0.1", "secretsmanager": "http://127.0.0.1", "ecr": "http://127.0.0.1"},
			Credentials: func(context.Context) (awscall.Credentials, error) {
				return awscall.Credentials{AccessKeyID: ecsplane.KeyID, SecretAccessKey: ecsplane.Secret, SessionToken: ecsplane.Token}, nil
			}},
	}
	if testing.Verbose() {
		l.config.Log = slog.New(slog.NewTextHandler(testWriter{t}, nil))
	}
	return l
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s %s", time.Now().Format("15:04:05.000"), strings.TrimSpace(string(p)))
	return len(p), nil
}

// start starts the instance.
func (l *lab) start() {
	l.t.Helper()
	records, err := openRecords(l.config.Dir, l.disk)
	if err != nil {
		l.t.Fatal(err)
	}
	release, err := records.Lock()
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.finished = make(chan struct{})
	l.stop = cancel
	go func() {
		defer close(l.finished)
		defer release()
		l.err = Run(ctx, l.config, records)
	}()
}

// kill ends the instance. Nothing is written at its end, so this is as kill -9.
func (l *lab) kill() {
	if l.stop != nil {
		l.stop()
		<-l.finished
		l.stop = nil
	}
}

// restart kills the instance and starts it again.
func (l *lab) restart() {
	l.kill()
	l.start()
	l.wait("http", "DiscoverPollEndpoint", 2)
	synctest.Wait()
}

// join starts the instance and waits until both links are open.
func (l *lab) join() {
	l.t.Helper()
	l.start()
	l.wait("acs", "open", 1)
	l.wait("tcs", "open", 1)
}

// wait waits for a number of events, for at most a day.
func (l *lab) wait(on, op string, n int) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 24*time.Hour)
	defer cancel()
	if err := l.plane.WaitFor(ctx, on, op, n); err != nil {
		l.t.Fatalf("%d of %d %s on %s: %v", len(l.plane.Of(on, op)), n, op, on, err)
	}
}

// pass lets time of the false clock pass.
func (l *lab) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// payload sends tasks and waits for the ack.
func (l *lab) payload(id string, seq int, tasks ...any) {
	l.t.Helper()
	n := len(l.plane.Of("acs", "AckRequest"))
	if err := l.plane.Payload(id, seq, tasks...); err != nil {
		l.t.Fatal(err)
	}
	l.wait("acs", "AckRequest", n+1)
	synctest.Wait()
}

func decode(t *testing.T, body json.RawMessage) (c wire.StateChange) {
	t.Helper()
	if err := json.Unmarshal(body, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// states are the changes of a task that ECS was told, refused ones too.
func (l *lab) states(task int) (out []wire.StateChange) {
	l.t.Helper()
	for _, body := range l.plane.Of("http", "SubmitTaskStateChange") {
		c := decode(l.t, body)
		if c.Task == ecsplane.TaskARN(task) {
			out = append(out, c)
		}
	}
	return out
}

// statuses are those of states.
func (l *lab) statuses(task int) (out []string) {
	l.t.Helper()
	for _, c := range l.states(task) {
		out = append(out, c.Status)
	}
	return out
}

func (l *lab) expect(task int, want ...string) {
	l.t.Helper()
	synctest.Wait()
	if got := l.statuses(task); !slices.Equal(got, want) {
		l.t.Errorf("task %d: %v, want %v", task, got, want)
	}
}

// simple is a task with one container.
func simple(n int, changes ...func(map[string]any)) map[string]any {
	t := map[string]any{
		"arn": ecsplane.TaskARN(n), "family": "fam", "version": "3", "desiredStatus": "RUNNING", "networkMode": "bridge", "launchType": "EXTERNAL",
		"containers": []any{map[string]any{"name": "main", "image": "localhost/bb:1", "command": []string{"sleep", "600"}, "cpu": 10, "memory": 64, "essential": true,
			"dockerConfig": map[string]string{"config": "{}", "hostConfig": `{"NetworkMode":"bridge","CapAdd":[]}`}, "overrides": "{}"}},
	}
	for _, c := range changes {
		c(t)
	}
	return t
}

func desired(status string) func(map[string]any) {
	return func(t map[string]any) { t["desiredStatus"] = status }
}

// stubAgent runs tasks as a test says.
type stubAgent struct {
	mu      sync.Mutex
	tasks   map[string]*api.Task
	changed chan struct{}
	made    []api.NewTask
	refuse  error // of the next Create
	away    bool
	stops   int
	asked   int // calls, but for those of a watch that goes on
	// manual: tasks that are asked to stop run until a test ends them. Strict: definitions are read as
	// podtask reads them.
	manual, strict bool
	// quick: tasks have ended as soon as they are made.
	quick bool
	// registryAway: pulls fail, and the agent gives them up after a while. It is read by runAll.
	registryAway bool
	busy         int // how many calls of Void find a request on the way
	lost         int // how many answers of Create are lost from now on
	gone         map[string]bool
}

func newStubAgent() *stubAgent {
	return &stubAgent{tasks: make(map[string]*api.Task), gone: make(map[string]bool), changed: make(chan struct{})}
}

var errAway = errors.New("no process serves the socket")

func (a *stubAgent) Create(_ context.Context, n api.NewTask) (api.Task, error) {
	a.mu.Lock()
	a.asked++
	defer a.mu.Unlock()
	if a.away {
		return api.Task{}, errAway
	}
	if err := a.refuse; err != nil {
		a.refuse = nil
		return api.Task{}, err
	}
	if a.strict {
		if _, _, err := taskdef.Parse("task", n.Definition); err != nil {
			return api.Task{}, api.Failed(api.BadRequest, "%v", err)
		}
	}
	id := api.TaskID(n.ClientToken)
	if t := a.tasks[id]; t != nil {
		return clone(t), a.lose()
	}
	if a.gone[id] {
		return api.Task{}, api.Failed(api.Gone, "it was removed")
	}
	for _, t := range a.tasks {
		if t.Name == n.Name && t.Status != "STOPPED" {
			return api.Task{}, api.Failed(api.Conflict, "the name is in use")
		}
	}
	var d struct {
		Family     string
		Containers []struct {
			Name, Image string
			Essential   bool
		} `json:"containerDefinitions"`
		Tags []struct{ Key, Value string }
	}
	if err := json.Unmarshal(n.Definition, &d); err != nil {
		return api.Task{}, api.Failed(api.BadRequest, "%v", err)
	}
	t := &api.Task{ID: id, Name: n.Name, Family: d.Family, Status: "NONE", NetworkMode: "bridge", Tags: make(map[string]string), CreatedAt: time.Now()}
	for _, tag := range d.Tags {
		t.Tags[tag.Key] = tag.Value
	}
	for _, c := range d.Containers {
		t.Containers = append(t.Containers, api.Container{Name: c.Name, Image: c.Image, Status: "NONE", Essential: c.Essential})
	}
	a.tasks[t.ID] = t
	a.made = append(a.made, n)
	a.notify()
	if a.quick {
		for _, status := range []string{"RUNNING", "STOPPED"} {
			for i := range t.Containers {
				t.Containers[i].RuntimeID, t.Containers[i].ExitCode = "1", new(api.ExitCode)
				enter(t, t.Containers[i].Name, status)
			}
			enter(t, "", status)
		}
	}
	return clone(t), a.lose()
}

// lose loses an answer; the lock is held.
func (a *stubAgent) lose() error {
	if a.lost == 0 {
		return nil
	}
	a.lost--
	return io.ErrUnexpectedEOF
}

func (a *stubAgent) notify() {
	close(a.changed)
	a.changed = make(chan struct{})
}

// find returns the task by its ID or name; the lock is held.
func (a *stubAgent) find(ref string) *api.Task {
	if t := a.tasks[ref]; t != nil {
		return t
	}
	for _, t := range a.tasks {
		if t.ID == ref || t.Name == ref {
			return t
		}
	}
	return nil
}

func (a *stubAgent) Task(_ context.Context, ref string) (api.Task, error) {
	a.mu.Lock()
	a.asked++
	defer a.mu.Unlock()
	if a.away {
		return api.Task{}, errAway
	}
	if t := a.find(ref); t != nil {
		return clone(t), nil
	}
	return api.Task{}, api.Failed(api.NotFound, "no such task")
}

func clone(t *api.Task) api.Task {
	c := *t
	c.Containers, c.History = slices.Clone(t.Containers), slices.Clone(t.History)
	return c
}

func (a *stubAgent) Tasks(context.Context) (out []api.Task, err error) {
	a.mu.Lock()
	a.asked++
	defer a.mu.Unlock()
	for _, t := range a.tasks {
		out = append(out, clone(t))
	}
	return out, nil
}

func (a *stubAgent) Watch(ctx context.Context, id string, fn func(api.Task) bool) error {
	a.mu.Lock()
	a.asked++
	a.mu.Unlock()
	for last := -1; ; {
		a.mu.Lock()
		t, changed, away := a.find(id), a.changed, a.away
		var now api.Task
		news := t != nil && len(t.History) != last
		if news {
			now = clone(t)
		}
		a.mu.Unlock()
		switch {
		case away:
			return io.ErrUnexpectedEOF
		case t == nil:
			return api.Failed(api.NotFound, "no such task")
		}
		if news {
			last = len(now.History)
			if !fn(now) || now.Status == "STOPPED" {
				return nil
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (a *stubAgent) Stop(_ context.Context, id, _ string, _ bool) error {
	a.mu.Lock()
	a.asked++
	if a.away {
		a.mu.Unlock()
		return errAway
	}
	a.stops++
	t := a.find(id)
	if a.manual && t != nil {
		a.mu.Unlock()
		return nil
	}
	a.mu.Unlock()
	if t == nil {
		return api.Failed(api.NotFound, "no such task")
	}
	a.end(t.Name, 143)
	return nil
}

func (a *stubAgent) Remove(_ context.Context, id, _ string, _ bool) error {
	a.mu.Lock()
	a.asked++
	defer a.mu.Unlock()
	if a.find(id) == nil {
		return api.Failed(api.NotFound, "no such task")
	}
	delete(a.tasks, id)
	a.gone[id] = true
	a.notify()
	return nil
}

func (a *stubAgent) Void(_ context.Context, token string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked++
	switch id := api.TaskID(token); {
	case a.away:
		return errAway
	case a.busy > 0:
		a.busy--
		return api.Failed(api.Busy, "a request is carried out")
	case a.tasks[id] != nil:
		return api.Failed(api.Conflict, "it exists")
	default:
		a.gone[id] = true
	}
	return nil
}

func (a *stubAgent) Version(context.Context) (api.Version, error) {
	a.mu.Lock()
	a.asked++
	defer a.mu.Unlock()
	if a.away {
		return api.Version{}, errAway
	}
	return api.Version{Version: "1.0"}, nil
}

func (a *stubAgent) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked
}

func (a *stubAgent) setAway(away bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.away = away
	a.notify()
}

// step changes a task by its name.
func (a *stubAgent) step(name string, change func(*api.Task)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.find(name)
	if t == nil {
		panic("there is no task " + name)
	}
	change(t)
	a.notify()
}

// enter is a step in which a container, or the task for an empty name, enters a status.
func enter(t *api.Task, container, status string) {
	t.History = append(t.History, api.Transition{Seq: uint64(len(t.History) + 1), At: time.Now(), Container: container, Status: status})
	if container == "" {
		t.Status = status
	}
	for i := range t.Containers {
		if t.Containers[i].Name == container {
			t.Containers[i].Status = status
		}
	}
}

// digest is the digest of all images of the stub.
const digest = "sha256:98a0c52994e5cb7c38d48a190e8496a7723a90423aaef1c39c14677918a8bcd0"

// resolve has the digests of all images.
func (a *stubAgent) resolve(name string) {
	a.step(name, func(t *api.Task) {
		for i := range t.Containers {
			t.Containers[i].ImageDigest = digest
			enter(t, t.Containers[i].Name, "MANIFEST_PULLED")
		}
		enter(t, "", "MANIFEST_PULLED")
	})
}

// runs has all containers run.
func (a *stubAgent) runs(name string) {
	a.step(name, func(t *api.Task) {
		for i := range t.Containers {
			t.Containers[i].RuntimeID = fmt.Sprintf("%064x", i+1)
			enter(t, t.Containers[i].Name, "RUNNING")
		}
		enter(t, "", "RUNNING")
		t.StartedAt = time.Now()
	})
}

// end has all containers exit with a code.
func (a *stubAgent) end(name string, code int) {
	a.step(name, func(t *api.Task) {
		if t.Status == "STOPPED" {
			return
		}
		for i := range t.Containers {
			c := api.ExitCode(code)
			if t.Containers[i].RuntimeID != "" {
				t.Containers[i].ExitCode = &c
			}
			enter(t, t.Containers[i].Name, "STOPPED")
		}
		enter(t, "", "STOPPED")
		t.StoppedAt = time.Now()
	})
}

// name is that of the agent's task.
func name(task int) string { return nameOf(ecsplane.TaskARN(task)) }

// life takes a task from its digests to its end.
func (l *lab) life(task, code int) {
	l.t.Helper()
	synctest.Wait()
	l.agent.resolve(name(task))
	synctest.Wait()
	l.agent.runs(name(task))
	synctest.Wait()
	l.agent.end(name(task), code)
	synctest.Wait()
}
