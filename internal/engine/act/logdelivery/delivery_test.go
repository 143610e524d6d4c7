package logdelivery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/logs/logfiles"
	"github.com/podtask/podtask/internal/logs/logroute"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/internal/testing/logstest"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

const taskID = "0123456789abcdef0123456789abcdef"

// host is a machine with a task whose container writes, and a CloudWatch.
type host struct {
	t      testing.TB
	dir    string
	server *logstest.Server
	url    string
	files  logfiles.Files
	out    *os.File
	state  lifecycle.State
	// servers changes the senders, senders replaces them.
	servers func(*Servers)
	senders func(*Servers) Senders
}

func newHost(t testing.TB, groups ...string) *host {
	h := &host{t: t, dir: t.TempDir(), server: logstest.New(groups...)}
	web := httptest.NewServer(h.server)
	t.Cleanup(web.Close)
	h.url = web.URL
	h.state = lifecycle.State{
		ID: taskID, Task: taskdef.Task{Family: "shop", Containers: []taskdef.Container{{Name: "app", Log: &taskdef.LogConfiguration{
			Driver: logdriver.AWSLogs, Options: map[string]string{"awslogs-group": "shop", "awslogs-region": "r", "awslogs-stream-prefix": "p", "awslogs-force-flush-interval-seconds": "1"},
		}}}},
		Containers: make([]lifecycle.Container, 1), Options: lifecycle.Options{Logs: taskdef.LogsAuto},
	}
	h.files = logfiles.In(h.dir).Of(taskID, 0)
	if err := h.files.Place(); err != nil {
		t.Fatal(err)
	}
	var err error
	if h.out, err = os.OpenFile(h.files.Path(), os.O_WRONLY|os.O_APPEND, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.out.Close() })
	return h
}

func (h *host) write(last bool, text string) {
	if _, err := h.out.Write(logroute.Piece{Time: time.Now(), Last: last, Text: []byte(text)}.Append(nil)); err != nil {
		h.t.Fatal(err)
	}
}

// rotate makes a segment of the file, as conmon would.
func (h *host) rotate() {
	if _, err := h.files.Rotate(1, func(int64) error { return os.Rename(h.files.Path(), h.files.Path()+".old") }); err != nil {
		h.t.Error(err)
	}
	if err := h.files.Place(); err != nil {
		h.t.Error(err)
	}
	h.out.Close()
	h.out, _ = os.OpenFile(h.files.Path(), os.O_WRONLY|os.O_APPEND, 0)
}

// InspectContainer implements Podman.
func (*host) InspectContainer(context.Context, string) (libpod.Observed, error) {
	return libpod.Observed{}, nil
}

// testServers are the senders of a host without Podman.
func testServers(settings config.Delivery) *Servers {
	return &Servers{
		Settings: settings, Getenv: func(string) string { return "" },
		Podman: func(context.Context) (Describer, error) { return nil, errors.New("no Podman") },
		Secret: func(context.Context, lifecycle.State, int, string) ([]byte, error) { return []byte("hunter2"), nil },
	}
}

// process is a podtask that owns the task.
type process struct {
	*Delivery
	*host
	end func()

	mu      sync.Mutex
	now     lifecycle.State
	changed chan struct{}
	sum     Outcome
}

// counted is the sum of what was observed.
func (p *process) counted() Outcome {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sum
}

func (p *process) count(o Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sum = Outcome{o.Driver, p.sum.Lines + o.Lines, p.sum.Bytes + o.Bytes, p.sum.LostLines + o.LostLines, p.sum.LostBytes + o.LostBytes}
}

func (h *host) process() *process {
	h.t.Helper()
	locks, err := state.OpenLocks(h.dir, state.Holder{})
	if err != nil {
		h.t.Fatal(err)
	}
	events, err := state.OpenLog(h.dir, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	settings := config.Default().Delivery
	settings.AWSLogsEndpoint, settings.Drain = h.url, time.Minute
	log := slog.New(slog.DiscardHandler)
	servers := testServers(settings)
	if h.servers != nil {
		h.servers(servers)
	}
	d := &Deliverer{
		Log: log, Settings: settings, Files: logfiles.In(h.dir), Locks: locks, Events: &record.Events{Log: log, Store: events},
		Podman: func(context.Context) (Podman, error) { return h, nil }, Senders: servers,
	}
	if h.senders != nil {
		d.Senders = h.senders(servers)
	}
	p := &process{host: h, now: h.state, changed: make(chan struct{})}
	d.Observe(p.count)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	p.Delivery = d.Start(ctx, p, &wg)
	p.end = sync.OnceFunc(func() { cancel(); wg.Wait() })
	h.t.Cleanup(p.end)
	return p
}

// State implements Task.
func (p *process) State() lifecycle.State {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// Watch implements Task.
func (p *process) Watch(ctx context.Context, fn func(lifecycle.State) bool) error {
	for {
		p.mu.Lock()
		now, changed := p.now, p.changed
		p.mu.Unlock()
		if !fn(now) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// change changes the state of the task.
func (p *process) change(fn func(*lifecycle.State)) {
	p.mu.Lock()
	fn(&p.now)
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
}

// exit ends the container, and waits until its output was sent.
func (p *process) exit() {
	p.change(func(s *lifecycle.State) { s.Containers = []lifecycle.Container{{Ended: true}} })
	p.Drain(p.t.Context(), false)
}

// await waits until the server has n events.
func (h *host) await(n int) {
	h.t.Helper()
	for {
		changed := h.server.Changed()
		if len(h.got()) >= n {
			return
		}
		select {
		case <-changed:
		case <-h.t.Context().Done():
			h.t.Fatal("never")
		}
	}
}

func (h *host) got() []string { return h.server.Messages("shop", "p/app/"+taskID) }

func (h *host) want(texts ...string) {
	h.t.Helper()
	if got := h.got(); !slices.Equal(got, texts) {
		h.t.Errorf("the stream has %.300q, want %.300q", got, texts)
	}
}

var errFound = errors.New("found")

// awaitEvent waits until an event begins with a text.
func (p *process) awaitEvent(text string) {
	p.t.Helper()
	err := p.Events.Read(p.t.Context(), 0, true, func(e record.Event) error {
		if strings.HasPrefix(e.Status+" "+e.Reason, text) {
			return errFound
		}
		return nil
	})
	if !errors.Is(err, errFound) {
		p.t.Fatalf("no event %s: %v", text, err)
	}
}

// events are what the event log says.
func (p *process) events() string {
	var all []string
	_ = p.Events.Read(p.t.Context(), 0, false, func(e record.Event) error {
		all = append(all, e.Status+" "+e.Reason)
		return nil
	})
	return strings.Join(all, "\n")
}

func TestOutputIsSentOnceThoughOwnersChange(t *testing.T) {
	t.Parallel()
	h := newHost(t, "shop")
	first := h.process()
	h.write(true, "one")
	h.await(1)
	first.end()
	h.write(true, "two")
	h.write(false, "prompt> ")
	second := h.process()
	h.await(2)
	second.exit()
	h.want("one", "two", "prompt> ")
	if got := second.counted(); got.Lines != 2 || got.Bytes != int64(len("twoprompt> ")) || got.LostLines+got.LostBytes != 0 {
		t.Errorf("counted are %+v", got)
	}
	route, err := h.files.Load()
	if left, _ := h.files.Waiting(route.Position); err != nil || left != 0 || route.Error != "" {
		t.Errorf("%d bytes are left: %+v, %v", left, route, err)
	}
	second.end()
	h.process().exit()
	h.want("one", "two", "prompt> ")
}

// What was read for the next request, while the one before was acknowledged, is sent by the next
// owner.
func TestWhatWasReadIsNotDelivered(t *testing.T) {
	t.Parallel()
	h := newHost(t, "shop")
	h.state.Task.Containers[0].Log.Options["awslogs-force-flush-interval-seconds"] = "3600"
	const lines, fit = 5, 4
	var want []string
	part := strings.Repeat("x", 8<<10) // as conmon reads
	for i := range lines {
		for range 30 {
			h.write(false, part)
		}
		h.write(true, fmt.Sprint(i))
		want = append(want, strings.Repeat(part, 30)+fmt.Sprint(i))
	}
	first := h.process()
	h.await(fit)
	first.end()
	h.want(want[:fit]...)
	h.process().exit()
	h.want(want...)
}

func TestWhatStandsStillIsShown(t *testing.T) {
	t.Parallel()
	h := newHost(t, "shop")
	denied := true
	h.server.Fail(func(r logstest.Request) *logstest.Failure {
		if denied && r.Operation == "PutLogEvents" {
			return &logstest.Failure{Status: 400, Code: "AccessDeniedException", Message: "not you"}
		}
		return nil
	})
	p := h.process()
	h.write(true, "one")
	for len(h.server.Requests("PutLogEvents")) == 0 {
		<-h.server.Changed()
	}
	p.end()
	route, err := h.files.Load()
	if err != nil || !strings.Contains(route.Error, "not you") || route.Since.IsZero() || route.Position != (logroute.Position{}) {
		t.Errorf("the route is %+v, %v", route, err)
	}
	if got := p.events(); !strings.Contains(got, "LOGS_STALLED AccessDeniedException: not you") {
		t.Errorf("the events are %s", got)
	}
	h.server.Fail(nil)
	h.process().exit()
	h.want("one")
	if route, err := h.files.Load(); err != nil || route.Error != "" {
		t.Errorf("the route is %+v, %v", route, err)
	}
}

func TestBacklogIsGivenUpFromItsOldestEnd(t *testing.T) {
	t.Parallel()
	h := newHost(t) // without the group, nothing is taken
	p := h.process()
	h.write(true, "segment 1")
	for len(h.server.Requests("PutLogEvents")) == 0 {
		<-h.server.Changed()
	}
	p.end() // from now on the test alone prunes
	c := p.containers[0]
	for n := range 4 {
		h.rotate()
		h.write(true, fmt.Sprint("segment ", n+2))
	}
	p.Delivery.most, p.Settings.Backlog = 1, 150
	if err := p.prune(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if all, err := h.files.Segments(); err != nil || len(all) > 3 || all[len(all)-1].Number != 5 {
		t.Errorf("the segments are %+v, %v", all, err)
	}
	if got := p.events(); !strings.Contains(got, "LOGS_LOST") || !strings.Contains(got, "log-backlog") {
		t.Errorf("the events are %s", got)
	}
}

// Files that were sent go, though the container writes nothing more: all but the newest two.
func TestFilesGoWhenTheyWereSent(t *testing.T) {
	t.Parallel()
	h := newHost(t, "shop")
	h.state.Options.LogSize = 1
	for range 4 {
		h.write(true, "text")
		h.rotate()
	}
	h.write(true, "last")
	h.process()
	h.await(5)
	for left := 5; left > 2; runtime.Gosched() {
		all, err := h.files.Segments()
		if err != nil {
			t.Fatal(err)
		}
		left = len(all)
	}
}

func TestADefinitionAloneSendsNothing(t *testing.T) {
	t.Parallel()
	h := newHost(t, "shop")
	v := testServers(config.Delivery{})
	if v.Sends(h.state, 0) {
		t.Error("auto sends without credentials or an endpoint")
	}
	v = testServers(config.Delivery{AWSLogsEndpoint: h.url})
	if !v.Sends(h.state, 0) {
		t.Error("auto does not send to an endpoint")
	}
	for _, mode := range []string{taskdef.LogsLocal, ""} {
		if h.state.Options.Logs = mode; v.Sends(h.state, 0) {
			t.Errorf("%q sends", mode)
		}
	}
}

func TestATaskThatIsRemovedLeavesNoLock(t *testing.T) {
	t.Parallel()
	h := newHost(t, "shop")
	p := h.process()
	h.write(true, "one")
	p.exit()
	<-p.done
	if err := p.Files.Remove(taskID); err != nil {
		t.Fatal(err)
	}
	p.Forget(p.State())
	if left, _ := os.ReadDir(h.dir + "/locks"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// Lines of one file reach each kind of server, with what is known of the container without
// Podman, and no variable that is a secret.
func TestEachDriverHasASender(t *testing.T) {
	t.Parallel()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	address := "udp://" + conn.LocalAddr().String()
	for driver, options := range map[logdriver.Driver]map[string]string{
		logdriver.Syslog: {"syslog-address": address, "tag": "{{.Name}}"},
		logdriver.GELF:   {"gelf-address": address, "gelf-compression-type": "none", "env-regex": "."},
	} {
		h := newHost(t)
		c := &h.state.Task.Containers[0]
		c.Log = &taskdef.LogConfiguration{Driver: driver, Options: options}
		c.Environment = []taskdef.EnvVar{{Name: "STAGE", Value: "test"}}
		h.write(true, "hello")
		p := h.process()
		b := make([]byte, 1<<16)
		n, _, err := conn.ReadFrom(b)
		if got := string(b[:n]); err != nil || !strings.Contains(got, "hello") || !strings.Contains(got, "-app") || driver == logdriver.GELF && !strings.Contains(got, `"_STAGE":"test"`) {
			t.Errorf("%s: %s, %v", driver, got, err)
		}
		p.exit()
		if route, err := h.files.Load(); err != nil || route.Position.First().Offset == 0 {
			t.Errorf("%s: the route is %+v, %v", driver, route, err)
		}
	}
}

func TestSecretsAreNoAttributes(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.state.Task.Containers[0].Secrets = []taskdef.Secret{{Name: "PASSWORD"}}
	v := testServers(config.Delivery{})
	v.Podman = func(context.Context) (Describer, error) { return described{}, nil }
	o := v.origin(t.Context(), h.state, 0)
	if got := strings.Join(o.ContainerEnv, " "); got != "STAGE=test PATH=/bin" || o.Command() != "/app -v" || o.ContainerID != "id" {
		t.Errorf("got %+v", o)
	}
}

type described struct{}

// DescribeContainer implements Describer.
func (described) DescribeContainer(context.Context, string) (libpod.Description, error) {
	return libpod.Description{ID: "id", Command: []string{"/app", "-v"}, Env: []string{"STAGE=test", "PASSWORD=hunter2", "PATH=/bin"}}, nil
}

// A token that cannot be read stands in the way of sending, visibly, until it can be.
func TestASenderThatCannotBeMadeIsTriedAgain(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Splunk hunter2" {
			t.Errorf("the header is %v", r.Header)
		}
	}))
	defer server.Close()
	h.state.Task.Containers[0].Log = &taskdef.LogConfiguration{
		Driver: logdriver.Splunk, Options: map[string]string{"splunk-url": server.URL}, SecretOptions: []taskdef.Secret{{Name: logdriver.SplunkToken}},
	}
	h.write(true, "hello")
	fail := true
	h.servers = func(v *Servers) {
		v.Secret = func(context.Context, lifecycle.State, int, string) ([]byte, error) {
			if fail {
				fail = false
				return nil, errors.New("no such file")
			}
			return []byte("hunter2"), nil
		}
	}
	h.process().exit()
	if route, err := h.files.Load(); err != nil || route.Error != "" || route.Position.First().Offset == 0 {
		t.Errorf("the route is %+v, %v", route, err)
	}
}

// routerSocket listens where the log router of the task does.
func routerSocket(t *testing.T, h *host) net.Listener {
	t.Helper()
	files := logfiles.In(h.dir).Router(taskID)
	if err := files.Place(nil); err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(files.Sockets()) // the path is longer than that of a socket may be
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	_ = os.Remove(filepath.Join(files.Sockets(), "fluent.sock")) // of the run before, as fluent-bit does
	l, err := net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/fluent.sock", dir.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// router is a log router on a socket in the directory that it is given.
func router(t *testing.T, h *host, answers bool) (records func() []string) {
	t.Helper()
	server := &logstest.Forward{Silent: !answers}
	go server.Serve(routerSocket(t, h))
	return func() (all []string) {
		for _, r := range server.Records() {
			all = append(all, r.Tag+" "+r.Members["log"]+" "+r.Members["source"]+" "+r.Members["container_name"])
		}
		return all
	}
}

func (h *host) routed() {
	h.state.Task.Network = taskdef.NetworkHost
	h.state.Task.Containers = append(h.state.Task.Containers, taskdef.Container{Name: "router", FireLens: &taskdef.FireLens{Type: "fluentbit"}})
	h.state.Containers = make([]lifecycle.Container, 2)
	h.state.Task.Containers[0].Log = &taskdef.LogConfiguration{Driver: logdriver.FireLens, Options: map[string]string{"Name": "null"}}
	h.servers = func(v *Servers) { v.Files = logfiles.In(h.dir) }
}

func TestLinesReachTheRouterOfTheTask(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.routed()
	records := router(t, h, true)
	h.write(true, "one")
	h.write(false, "prompt> ")
	p := h.process()
	p.change(func(s *lifecycle.State) { s.Containers = []lifecycle.Container{{Ended: true}, {}} })
	<-p.done
	want := "app-firelens-" + taskID
	if got := strings.Join(records(), "|"); !strings.HasPrefix(got, want+" one stdout /podtask-") || !strings.Contains(got, "|"+want+" prompt>  stdout /podtask-") {
		t.Errorf("the router has %s", got)
	}
	p.end()
	if left, _ := h.files.Waiting(p.containers[0].route.position()); left != 0 {
		t.Errorf("%d bytes are left", left)
	}
}

// Lines for a router that has ended for good are lost, and said to be, once; nothing waits for it.
func TestARouterThatHasEndedTakesNoMore(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.routed()
	router(t, h, false)
	h.write(true, "one")
	p := h.process()
	p.change(func(s *lifecycle.State) { s.Containers = []lifecycle.Container{{}, {Ended: true}} })
	p.change(func(s *lifecycle.State) { s.Containers = []lifecycle.Container{{Ended: true}, {Ended: true}} })
	<-p.done
	for range 2 {
		p.Drain(t.Context(), false)
	}
	if got := p.events(); strings.Count(got, "LOGS_LOST") != 1 || !strings.Contains(got, "the log router has ended") {
		t.Errorf("the events are %s", got)
	}
	if p.leftOf(p.State()) {
		t.Error("an agent would continue")
	}
	routes, err := p.Routes(p.State())
	if err != nil || len(routes) != 1 || routes[0].WaitingBytes != 0 || routes[0].LostBytes == 0 || routes[0].Error == "" || routes[0].Stalled() {
		t.Errorf("the routes are %+v, %v", routes, err)
	}
	if got := p.counted(); got.LostBytes != routes[0].LostBytes || got.Lines != 0 || got.Driver != "awsfirelens" {
		t.Errorf("counted are %+v", got)
	}
}

// mortal is a listener whose connections can be cut.
type mortal struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

func (m *mortal) Accept() (net.Conn, error) {
	conn, err := m.Listener.Accept()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		m.conns = append(m.conns, conn)
	}
	return conn, err
}

func (m *mortal) kill() {
	m.Listener.Close()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.conns {
		c.Close()
	}
}

// A router that was not there yet, then died before it acknowledged, gets all lines when it is
// there again. Until then no line counts as delivered, and the flush before its stop ends in time.
func TestARouterThatComesBackGetsWhatWaited(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.routed()
	h.write(true, "one")
	p := h.process() // no router listens
	for changed := true; changed; {
		route, err := h.files.Load()
		changed = err != nil || route.Error == ""
		runtime.Gosched()
	}
	took := make(chan string, 100)
	first := &mortal{Listener: routerSocket(t, h)}
	silent := &logstest.Forward{Silent: true, Took: func(r logstest.Record) { took <- r.Members["log"] }}
	go silent.Serve(first)
	if got := <-took; got != "one" {
		t.Fatalf("the router took %q", got)
	}
	p.change(func(s *lifecycle.State) { s.Containers = []lifecycle.Container{{Ended: true}, {}} })
	if err := p.Flush(t.Context(), time.Millisecond); err != nil {
		t.Errorf("the flush: %v", err)
	}
	h.write(true, "two")
	if at := p.containers[0].route.position(); at != (logroute.Position{}) {
		t.Errorf("the position is %+v, though nothing was acknowledged", at)
	}
	first.kill()
	records := router(t, h, true)
	<-p.done
	if got := strings.Join(records(), "|"); !strings.Contains(got, " one ") || !strings.Contains(got, " two ") {
		t.Errorf("the second router has %s", got)
	}
	if got := p.events(); strings.Contains(got, "LOGS_LOST") {
		t.Errorf("the events are %s", got)
	}
}
