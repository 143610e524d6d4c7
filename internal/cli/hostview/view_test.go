package hostview

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/cli/top"
	"github.com/podtask/podtask/internal/cli/webui"
	"github.com/podtask/podtask/pkg/api"
)

// fake is the podtask of a host with one task and one service.
type fake struct {
	id   string
	mu   sync.Mutex
	done []string
	// ends is closed to end all connections; open waits for them.
	ends chan struct{}
	open sync.WaitGroup
	// besideErr is the reason for which some schedules are missing.
	besideErr error
}

func newFake(digit string) *fake {
	return &fake{id: strings.Repeat(digit, 32), ends: make(chan struct{})}
}

func (f *fake) Tasks(context.Context) ([]top.Task, error) {
	return []top.Task{{Task: api.Task{ID: f.id, Name: "web", Status: "RUNNING"}, Use: &top.Use{CPUPercent: 2}}}, nil
}

func (f *fake) Services(context.Context) ([]api.Service, error) {
	return []api.Service{{ServiceName: "shop"}}, nil
}

func (f *fake) Beside(context.Context) (console.Beside, error) {
	return console.Beside{Schedules: []console.Schedule{{Name: "nightly"}}, Stacks: []console.Stack{{Name: "market", Services: []string{"shop"}, Tasks: []string{"job"}}}}, f.besideErr
}

func (f *fake) Explain(_ context.Context, ref string) (top.Detail, error) {
	if ref != f.id && ref != "web" {
		return top.Detail{}, webui.ErrNotFound
	}
	return top.Detail{Task: api.Task{ID: f.id, Name: "web"}, Why: "it runs"}, nil
}

func (f *fake) Lines(_ context.Context, _ string, which webui.Lines, fn func(webui.Line) error) error {
	return fn(webui.Line{Container: "app", Text: fmt.Sprintf("%d of %s", which.Tail, f.id)})
}

func (f *fake) Host(context.Context) webui.Host {
	return webui.Host{Name: "its own name", Podman: "5.4.2", Local: true}
}

// Follow prints lines until its reader has gone.
func (f *fake) Follow(ctx context.Context, id string, fn func(top.Line) error) error {
	defer func() { _ = f.note("follow has ended", id) }()
	for i := range 3 {
		if err := fn(top.Line{Container: "app", Text: fmt.Sprint(i)}); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

func (f *fake) note(what, of string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done = append(f.done, what+" "+of)
	return nil
}

func (f *fake) Stop(_ context.Context, id string) error          { return f.note("stop", id) }
func (f *fake) Restart(context.Context, string) error            { return errors.New("it \x1b[31mcannot") }
func (f *fake) Continue(_ context.Context, service string) error { return f.note("continue", service) }
func (f *fake) Rollback(_ context.Context, service string) error { return f.note("rollback", service) }

// connect is Host.Open.
func (f *fake) connect(ctx context.Context) (Stream, error) {
	here, there := net.Pipe()
	f.mu.Lock()
	ends := f.ends
	f.mu.Unlock()
	f.open.Go(func() {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			select {
			case <-ends:
			case <-ctx.Done():
			}
			_ = there.Close()
		}()
		_ = Serve(ctx, there, there, f)
	})
	return here, nil
}

func (f *fake) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.ends)
	f.ends = make(chan struct{})
}

// newView returns a view of two hosts that answer, one that cannot be reached and one that says nothing.
func newView(t *testing.T) (v *View, a, b *fake) {
	t.Helper()
	a, b = newFake("a"), newFake("b")
	v = New(t.Context(), []*Host{
		{Name: "one", Open: a.connect},
		{Name: "gone", Open: func(context.Context) (Stream, error) { return nil, errors.New("ssh cannot \x1b[2Jconnect") }},
		{Name: "mute", Open: func(context.Context) (Stream, error) { here, _ := net.Pipe(); return here, nil }},
		{Name: "two", Open: b.connect},
	}, func(_ context.Context, host, id, container string) (*exec.Cmd, error) {
		return exec.Command("podtask", "--host", host, id, container), nil
	}, time.Now)
	t.Cleanup(v.Close)
	for _, i := range []int{0, 3} {
		if err := v.hosts[i].connected(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return v, a, b
}

// TestAHostThatIsDownHoldsUpNoOther: the list has the tasks of hosts that answer, and the reason of each other host.
func TestAHostThatIsDownHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	v, a, b := newView(t)
	tasks, err := v.Tasks(t.Context())
	if err != nil || len(tasks) != 2 {
		t.Fatalf("%v, %v", tasks, err)
	}
	for _, task := range tasks {
		if want := map[string]string{a.id: "one", b.id: "two"}[task.ID]; task.Host != want || task.Use == nil {
			t.Errorf("task %s is of host %q", task.ID, task.Host)
		}
	}
	want := map[string]string{"one": "", "two": "", "gone": "ssh cannot", "mute": "connecting"}
	for _, h := range v.Hosts() {
		if h.Why != "" && want[h.Name] == "" || !strings.Contains(h.Why, want[h.Name]) || strings.Contains(h.Why, "\x1b") {
			t.Errorf("host %s: %q", h.Name, h.Why)
		}
	}
	beside, err := v.Beside(t.Context())
	if err != nil || len(beside.Stacks) != 2 || beside.Schedules[1].Name != "nightly@two" || beside.Stacks[0].Name != "market@one" || beside.Stacks[0].Services[0] != "shop@one" || beside.Stacks[1].Tasks[0] != "job@two" {
		t.Errorf("besides there are %+v, %v", beside, err)
	}
	services, err := v.Services(t.Context())
	if err != nil || len(services) != 2 || services[0].ServiceName != "shop@one" || services[1].ServiceName != "shop@two" {
		t.Errorf("services: %v, %v", services, err)
	}
}

// TestADamagedRecordHidesNoOther: the schedules and stacks that a host can read are shown, and what it cannot read is named.
func TestADamagedRecordHidesNoOther(t *testing.T) {
	t.Parallel()
	f := newFake("a")
	f.besideErr = errors.New("schedule record 6e69: it is \x1b[2Jdamaged")
	v := New(t.Context(), []*Host{{Name: "one", Open: f.connect}}, nil, time.Now)
	t.Cleanup(v.Close)
	if err := v.Connected(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Tasks(t.Context()); err != nil {
		t.Fatal(err)
	}
	b, err := v.Beside(t.Context())
	if len(b.Schedules) != 1 || len(b.Stacks) != 1 || err == nil || !strings.HasPrefix(err.Error(), "one: schedule record 6e69") || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("%+v, %v", b, err)
	}
}

// TestCallsReachTheirHost: what concerns a task or a service goes to the host that has it.
func TestCallsReachTheirHost(t *testing.T) {
	t.Parallel()
	v, a, b := newView(t)
	ctx := t.Context()
	if _, err := v.Tasks(ctx); err != nil {
		t.Fatal(err)
	}
	if id, err := v.Find(ctx, "web@two"); err != nil || id != b.id {
		t.Errorf("found %s, %v", id, err)
	}
	d, err := v.Explain(ctx, b.id)
	if err != nil || d.Why != "it runs" || d.Task.ID != b.id {
		t.Errorf("explain: %v, %v", d, err)
	}
	if _, err := v.Explain(ctx, strings.Repeat("c", 32)); !errors.Is(err, webui.ErrNotFound) {
		t.Errorf("an unknown task: %v", err)
	}
	var lines []webui.Line
	err = v.Lines(ctx, a.id, webui.Lines{Tail: 7}, func(l webui.Line) error { lines = append(lines, l); return nil })
	if err != nil || len(lines) != 1 || lines[0].Text != "7 of "+a.id {
		t.Errorf("lines: %v, %v", lines, err)
	}
	if err := errors.Join(v.Stop(ctx, b.id), v.Continue(ctx, "shop@one"), v.Rollback(ctx, "shop@two")); err != nil {
		t.Error(err)
	}
	if err := v.Restart(ctx, a.id); err == nil || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("restart: %v", err)
	}
	cmd, err := v.Shell(ctx, b.id, "app")
	if err != nil || !slices.Equal(cmd.Args, []string{"podtask", "--host", "two", b.id, "app"}) {
		t.Errorf("shell: %v, %v", cmd, err)
	}
	enough := errors.New("enough")
	var got []string
	err = v.Follow(ctx, a.id, func(l top.Line) error {
		if got = append(got, l.Text); len(got) == 3 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || strings.Join(got, "") != "012" {
		t.Errorf("follow: %q, %v", got, err)
	}
	v.Close() // ends all requests
	a.open.Wait()
	b.open.Wait()
	if want := []string{"continue shop", "follow has ended " + a.id}; !slices.Equal(a.done, want) {
		t.Errorf("host one has done %q", a.done)
	}
	if want := []string{"stop " + b.id, "rollback shop"}; !slices.Equal(b.done, want) {
		t.Errorf("host two has done %q", b.done)
	}
}

// TestAConnectionThatBreaksIsMadeAgain: meanwhile the host has its reason, and its tasks stay in the list.
func TestAConnectionThatBreaksIsMadeAgain(t *testing.T) {
	t.Parallel()
	v, a, _ := newView(t)
	if _, err := v.Tasks(t.Context()); err != nil {
		t.Fatal(err)
	}
	followed := make(chan error, 1)
	begun := make(chan struct{}, 3)
	go func() {
		followed <- v.Follow(t.Context(), a.id, func(top.Line) error { begun <- struct{}{}; return nil })
	}()
	<-begun
	h := v.hosts[0]
	h.mu.Lock()
	h.changed = make(chan struct{})
	changed := h.changed
	h.mu.Unlock()
	a.cut()
	<-changed
	if err := <-followed; err == nil {
		t.Error("the logs ended without an error")
	}
	if tasks, err := v.Tasks(t.Context()); err != nil || len(tasks) != 2 {
		t.Errorf("%v, %v", tasks, err)
	}
	for why := "?"; why != ""; { // as long as there is no new sample
		if _, err := v.Tasks(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, why = h.state(time.Now())
	}
}

// TestHostileHosts: IDs and names of a host become arguments and links, so those that are none are refused.
func TestHostileHosts(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "--host=x", "../x", strings.Repeat("A", 32), strings.Repeat("a", 31) + "\n"} {
		if err := checkTask(top.Task{Task: api.Task{ID: id}}); err == nil {
			t.Errorf("the ID %q was taken", id)
		}
	}
	bad := api.Task{ID: strings.Repeat("a", 32), Containers: []api.Container{{Name: "-x"}}}
	if err := checkTask(top.Task{Task: bad}); err == nil {
		t.Error("a container -x was taken")
	}
	for _, name := range []string{"", "..", "a/b", "-x", "shop@two"} {
		if err := checkService(api.Service{ServiceName: name}); err == nil {
			t.Errorf("a service %q was taken", name)
		}
	}
}

// telling returns a connection to a host that gives the same answers, whatever it is asked for.
func telling(answers func(id int, call string) string) func(context.Context) (Stream, error) {
	return func(context.Context) (Stream, error) {
		here, there := net.Pipe()
		go func() {
			out, _ := flate.NewWriter(there, flate.BestSpeed)
			say := func(text string) bool {
				_, err := io.WriteString(out, text)
				return err == nil && out.Flush() == nil
			}
			say("{\"id\":0}\n")
			requests := json.NewDecoder(there)
			for {
				var r request
				if requests.Decode(&r) != nil || r.Call != callCancel && !say(answers(r.ID, r.Call)) {
					_ = there.Close()
					return
				}
			}
		}()
		return here, nil
	}
}

// TestHostileAnswers: a host that tells more than fits, something else, or several answers where there is one, has a reason in
// the view. It costs little, the other host is shown, and the view ends.
func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	good := `{"id":"` + strings.Repeat("c", 32) + `"}`
	one := func(result string) func(int, string) string {
		return func(id int, _ string) string { return fmt.Sprintf(`{"id":%d,"result":%s}`+"\n", id, result) }
	}
	for name, answers := range map[string]func(id int, call string) string{
		"empty tasks":       one("[" + strings.Repeat("{},", 1<<20) + "{}]"),
		"containers":        one(`[{"id":"` + strings.Repeat("c", 32) + `","containers":[` + strings.Repeat("{},", 1<<18) + "{}]}]"),
		"tasks without end": one("[" + strings.Repeat(good+",", maxEntries+1) + good + "]"),
		"one large text":    one(`[{"id":"` + strings.Repeat("c", 32) + `","name":"` + strings.Repeat("x", maxEntry) + `"}]`),
		"no list":           one(`{"a":1}`),
		"deep":              one(strings.Repeat("[", 1<<20)),
		"another list":      one("[1]"),
		"no JSON":           func(int, string) string { return "\x1b]0;x\a\n" },
		"answers without end": func(id int, _ string) string {
			return strings.Repeat(fmt.Sprintf(`{"id":%d,"more":true,"result":[]}`+"\n", id), 10*waiting)
		},
		"errors without end": func(id int, _ string) string {
			return strings.Repeat(fmt.Sprintf(`{"id":%d,"more":true,"error":"x"}`+"\n", id), 10*waiting)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			honest := newFake("a")
			v := New(t.Context(), []*Host{{Name: "bad", Open: telling(answers)}, {Name: "good", Open: honest.connect}}, nil, time.Now)
			for _, h := range v.hosts {
				if err := h.connected(t.Context()); err != nil {
					t.Fatal(err)
				}
				<-h.refresh(t.Context(), time.Now)
			}
			tasks, err := v.Tasks(t.Context())
			if err != nil || len(tasks) != 1 || tasks[0].ID != honest.id {
				t.Errorf("%d tasks, %v", len(tasks), err)
			}
			if why := v.Hosts()[0].Why; why == "" || len(why) > 1000 || strings.Contains(why, "\x1b") {
				t.Errorf("the reason is %q", why)
			}
			v.Close()
		})
	}
}

// TestAHostSpeaksForItselfOnly: what a host tells of another task than the one that it is asked for, or of one that another
// host has too, leads to no action on the other host.
func TestAHostSpeaksForItselfOnly(t *testing.T) {
	t.Parallel()
	honest := newFake("a")
	claims := fmt.Sprintf(`[{"id":%q},{"id":%q}]`, honest.id, strings.Repeat("c", 32))
	bad := telling(func(id int, call string) string {
		result := claims
		switch call {
		case callExplain:
			result = fmt.Sprintf(`{"Task":{"id":%q,"name":"mine"}}`, honest.id)
		case callServices:
			result = "[]"
		}
		return fmt.Sprintf(`{"id":%d,"result":%s}`+"\n", id, result)
	})
	v := New(t.Context(), []*Host{{Name: "bad", Open: bad}, {Name: "good", Open: honest.connect}}, nil, time.Now)
	defer v.Close()
	for _, h := range v.hosts {
		if err := h.connected(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-h.refresh(t.Context(), time.Now)
	}
	if d, err := v.Explain(t.Context(), strings.Repeat("c", 32)); !errors.Is(err, errOther) {
		t.Errorf("the host told of the task %s, %v", d.Task.ID, err)
	}
	if err := v.Stop(t.Context(), honest.id); !errors.Is(err, errSeveral) {
		t.Errorf("a task of two hosts: %v", err)
	}
}

type pipe struct {
	io.Reader
	io.Writer
}

func (pipe) Close() error { return nil }

// FuzzAnswers: whatever a host sends, the connection ends with an error and nothing panics.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte("{\"id\":0}\n{\"id\":1,\"result\":[]}\n"))
	f.Add([]byte("{\"id\":0}\n{\"id\":1,\"more\":true}\n{\"id\":1}\n{\"id\":1}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var text bytes.Buffer
		w, _ := flate.NewWriter(&text, flate.BestSpeed)
		_, _ = w.Write(b)
		_ = w.Flush()
		h := &Host{Name: "box", pending: map[int]chan<- answer{1: make(chan answer, len(b)+1)}}
		if _, err := h.use(t.Context(), pipe{&text, io.Discard}); err == nil {
			t.Error("no error")
		}
		h.set(nil, errEnded)
	})
}
