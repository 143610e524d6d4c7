//go:build e2e

//e2e:bed systemd

//e2e:nightly

package e2e

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// shares are the tasks that have a share of the host or wait for one, as the ledger
// has them.
func (b *box) shares() (tasks []string) {
	b.t.Helper()
	file, err := os.ReadFile(filepath.Join(b.stateHome(), "podtask", "ledger", strings.Repeat("0", 32)+".json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		b.t.Fatal(err)
	}
	_, data, _ := strings.Cut(string(file), "\n")
	var ledger struct {
		Queue struct{ Entries []struct{ Task string } }
	}
	if err := json.Unmarshal([]byte(data), &ledger); err != nil {
		b.t.Fatal(err)
	}
	for _, e := range ledger.Queue.Entries {
		tasks = append(tasks, e.Task)
	}
	return tasks
}

// why is the code of what a task waits for, and the sentence.
func (b *box) why(ref string) (code, sentence string) {
	b.t.Helper()
	var answers []struct {
		Sentence string
		Why      []struct{ Code string }
	}
	if err := json.Unmarshal([]byte(b.want(0, "why", "--format", "json", ref).out), &answers); err != nil || len(answers) != 1 || len(answers[0].Why) == 0 {
		b.t.Fatalf("why %s: %+v, %v", ref, answers, err)
	}
	return answers[0].Why[0].Code, answers[0].Sentence
}

func (b *box) untilQueued(ref string) (sentence string) {
	b.t.Helper()
	eventually(b.t, ref+" is queued", func() bool {
		var code string
		code, sentence = b.why(ref)
		return code == "queued"
	})
	return sentence
}

func TestSecondTaskWithAStaticPortWaitsForTheFirst(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	fixed := freePort(t)
	file := b.web(port{Container: 8080, Host: fixed})
	first := b.detach("--name", "first", file)
	b.await("probe STOPPED")
	second := b.detach("--name", "second", file)
	if got := b.untilQueued("second"); !strings.Contains(got, " is queued: it waits for port ") || !strings.Contains(got, "used by first (") {
		t.Errorf("why says %q", got)
	}
	if got := b.want(0, "ps").out; !strings.Contains(got, "queued (port ") {
		t.Errorf("ps does not show it:\n%s", got)
	}
	if got := b.inspect("second"); got.PodID != "" || got.DesiredStatus != "RUNNING" {
		t.Errorf("in the queue it has pod %q and desired status %s", got.PodID, got.DesiredStatus)
	}
	b.want(0, "stop", first)
	b.want(0, "wait", "--condition", "running", second)
	eventually(t, "the second task serves", func() bool {
		return strings.Contains(b.want(0, "logs", second, "web").out+b.inspect(second).codes(), "probe=0")
	})
	b.askWeb(fixed)
	b.want(0, "stop", second)
	eventually(t, "all shares are given back", func() bool { return len(b.shares()) == 0 })
	wantClosed(t, fixed)
}

func TestQueuedTaskIsInterruptedAtOnce(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.env = append(b.env, "PODTASK_BUDGET_CPU=1")
	file := b.write(def{CPU: "1024", Containers: []ctr{{Name: "app", Command: words("sleep forever")}}})
	holder := b.detach("--limits", "best-effort", file)
	b.want(0, "wait", "--condition", "running", holder)
	p := b.start("run", "--limits", "best-effort", "--name", "waiter", file)
	eventually(t, "progress tells of the queue", func() bool { return strings.Contains(p.err.String(), "queued") })
	b.untilQueued("waiter")
	p.interrupt()
	if r := p.want(130); strings.Contains(r.err, "RUNNING") {
		t.Errorf("it ran: %s", r.err)
	}
	if left := b.shares(); len(left) != 1 || left[0] != holder {
		t.Errorf("shares: %v, want %s alone", left, holder)
	}
	b.want(125, "run", "--limits", "best-effort", b.write(def{CPU: "2048", Containers: []ctr{{Name: "app", Command: words("exit 0")}}}))
}

// It runs while no other test does: a hundred owners use up the inotify instances
// of most hosts' users.
func TestShortTasksGoThroughAQueueForFour(t *testing.T) {
	b := newBox(t)
	b.env = append(b.env, "PODTASK_BUDGET_CPU=1")
	file := b.write(def{CPU: "256", Containers: []ctr{{Name: "app", Command: words("print hello -- exit 3")}}})
	var runs []*process
	for i := range queueTasks {
		if i >= queueOwners {
			checkShort(t, runs[i-queueOwners])
		}
		runs = append(runs, b.start("run", "--quiet", "--rm", "--limits", "best-effort", file))
	}
	for _, p := range runs[max(queueTasks-queueOwners, 0):] {
		checkShort(t, p)
	}
	if left := b.shares(); len(left) > 0 {
		t.Errorf("shares are left: %v", left)
	}
	// The events tell how many pods were up at a time.
	now, most := 0, 0
	for _, e := range b.events() {
		if e.Container != "~infra" {
			continue
		}
		switch e.Status {
		case "RESOURCES_PROVISIONED":
			now++
			most = max(most, now)
		case "STOPPED":
			now--
		}
	}
	if now != 0 || most > 4 || most < 2 {
		t.Errorf("%d pods were up at a time, %d are still", most, now)
	}
}

// queueOwners is how many processes own tasks at a time.
const queueOwners = 100

// checkShort checks that a task ran, and that nothing of what it said was lost.
func checkShort(t *testing.T, p *process) {
	t.Helper()
	if r := p.want(3); !strings.Contains(r.out, "hello") {
		t.Errorf("it printed %q; %s", r.out, r.err)
	}
}

func TestDrainStopsTasksAndRefusesNewOnes(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.env = append(b.env, "PODTASK_BUDGET_CPU=1")
	file := b.write(def{CPU: "1024", Containers: []ctr{{Name: "app", Command: words("sleep forever")}}})
	running := b.detach("--limits", "best-effort", file)
	b.want(0, "wait", "--condition", "running", running)
	queued := b.detach("--limits", "best-effort", "--name", "waiter", file)
	b.untilQueued(queued)
	if out := b.want(0, "drain").out; out != queued+"\n"+running+"\n" {
		t.Errorf("drain printed %q, want first %s, then %s", out, queued, running)
	}
	if r := b.want(125, "run", "--limits", "best-effort", file); !strings.Contains(r.err, "draining") || !strings.Contains(r.err, "drain --undo") {
		t.Errorf("the refusal: %s", r.err)
	}
	for _, id := range []string{running, queued} {
		if code, sentence := b.why(id); code != "ended" || !strings.Contains(sentence, "stopped by podtask drain") {
			t.Errorf("why %s: %s: %s", id, code, sentence)
		}
	}
	b.want(0, "drain", "--undo")
	again := b.detach("--limits", "best-effort", file)
	b.want(0, "wait", "--condition", "running", again)
}

// gcIn returns what gc printed, without the leftovers of calls that a busy Podman did not complete.
func gcIn(b *box) string {
	b.t.Helper()
	lines := slices.Collect(strings.Lines(b.want(0, "gc").out))
	return strings.Join(slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "removed leftover ") }), "")
}

func TestGCRemovesAPodThatNoTaskIsLeftFor(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	id := b.detach(b.define(ctr{Name: "app", Command: words("sleep forever")}))
	b.want(0, "wait", "--condition", "running", id)
	state := filepath.Join(b.stateHome(), "podtask")
	orphan, stranger := strings.Repeat("5", 32), strings.Repeat("6", 32)
	make := func(name, id, dir string) {
		b.podman("pod", "create", "--name", name, "--infra=false", "--label", "podtask.task-id="+id,
			"--label", "podtask.family="+b.family, "--label", "podtask.state-dir="+dir)
	}
	make(b.family+"-orphan", orphan, state)
	make(b.family+"-stranger", stranger, "/another/state")
	if out := gcIn(b); out != "removed pod "+b.family+"-orphan of task "+orphan[:12]+"\n" {
		t.Errorf("gc printed %q", out)
	}
	if out := gcIn(b); out != "" {
		t.Errorf("a second gc printed %q", out)
	}
	if got := b.inspect(id).Status; got != "RUNNING" {
		t.Errorf("the task that was there is %s", got)
	}
	if out := b.objects(); strings.Contains(out, "orphan") || !strings.Contains(out, "stranger") {
		t.Errorf("there is\n%s", out)
	}
	b.podman("pod", "rm", b.family+"-stranger")
}

func TestWhyAndTimelineOfATask(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	id := b.detach("--name", b.family, b.define(
		ctr{Name: "db", Command: words("sleep forever"), Health: healthyIf("exists /ready")},
		ctr{Name: "web", Command: words("exit 7"), DependsOn: []on{{"db", "HEALTHY"}}},
	))
	eventually(t, "web waits for db", func() bool { code, _ := b.why(id); return code == "dependency" })
	if _, got := b.why(id); !strings.Contains(got, "web waits for db to be healthy; db is up, but its health check has not passed yet") {
		t.Errorf("why says %q", got)
	}
	b.tell(id, "db", "/ready")
	b.want(0, "wait", id)
	if code, got := b.why(id); code != "ended" || !strings.Contains(got, "essential container web exited with code 7") {
		t.Errorf("why says %s: %q", code, got)
	}
	text := b.want(0, "timeline", id).out
	for _, want := range []string{"exited (7)", "(task)", "db ", "web ", "exit code 7", "█ healthy", "wait for db "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	b.want(0, "timeline", "--svg", "t.svg", id)
	picture, err := os.Open(filepath.Join(b.dir, "t.svg"))
	if err != nil {
		t.Fatal(err)
	}
	defer picture.Close()
	for d := xml.NewDecoder(picture); err == nil; {
		_, err = d.Token()
	}
	if !errors.Is(err, io.EOF) {
		t.Errorf("the picture: %v", err)
	}
}
