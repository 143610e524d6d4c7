//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/podtask/podtask/internal/testing/registrytest"
	"github.com/podtask/podtask/test/testbed"
)

// patience bounds every wait, so that what never comes fails the test that
// waits for it and not the whole run. No assertion depends on it.
var patience = testbed.Patience

// box is one test's podtask: a state directory, a family, repositories.
type box struct {
	t      *testing.T
	dir    string
	family string
	env    []string

	mu     sync.Mutex
	follow *follower // nil until await is used
}

// newBox returns a box whose tasks are removed at the end of the test, and
// which fails the test when anything is left of them.
func newBox(t *testing.T) *box {
	t.Helper()
	b := &box{t: t, dir: t.TempDir(), family: familyOf(t)}
	b.env = append(os.Environ(), "XDG_STATE_HOME="+b.stateHome(), "REGISTRY_AUTH_FILE="+bed.auth, "NO_COLOR=1")
	b.throughSSH()
	t.Cleanup(b.checkNothingLeft)
	return b
}

func (b *box) stateHome() string { return filepath.Join(b.dir, "state") }

var (
	notInFamily = regexp.MustCompile(`[^a-z0-9]+`)
	runs        sync.Map // family to *atomic.Int64: how often -test.count has run the test
)

// familyOf is the test's name, and a number from its second run on: images and
// answers of the first must not serve it.
func familyOf(t *testing.T) string {
	name := strings.ToLower(strings.TrimPrefix(t.Name(), "Test"))
	name = strings.Trim(notInFamily.ReplaceAllString(name, "-"), "-")
	run, _ := runs.LoadOrStore(name, new(atomic.Int64))
	if n := run.(*atomic.Int64).Add(1); n > 1 {
		name = fmt.Sprintf("%s-%d", name, n)
	}
	return name
}

// process is a podtask that was started, in a process group of its own as a
// shell would.
type process struct {
	t        *testing.T
	cmd      *exec.Cmd
	out, err syncBuffer
	ended    chan struct{}
}

// result is what a podtask that has ended left.
type result struct {
	out, err string
	code     int // -1: killed by a signal
}

// start starts podtask.
func (b *box) start(args ...string) *process {
	b.t.Helper()
	return b.startWith(func(*exec.Cmd) {}, args...)
}

// startWith starts podtask after change has had its say.
func (b *box) startWith(change func(*exec.Cmd), args ...string) *process {
	b.t.Helper()
	p := &process{t: b.t, cmd: exec.Command(bed.podtask, args...), ended: make(chan struct{})}
	p.cmd.Env, p.cmd.Dir = b.env, b.dir
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	change(p.cmd)
	if err := p.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // the state says how it ended
	}()
	b.t.Cleanup(func() { p.signalAll(syscall.SIGKILL); <-p.ended })
	return p
}

// signalAll signals the process group, unless the process has ended and nothing that it
// started holds its output.
func (p *process) signalAll(sig syscall.Signal) {
	select {
	case <-p.ended:
	default:
		_ = syscall.Kill(-p.cmd.Process.Pid, sig)
	}
}

// wait returns when the process has ended. One that never does shows where its
// goroutines stand.
func (p *process) wait() result {
	p.t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case <-p.ended:
	case <-limit.C:
		p.signalAll(syscall.SIGQUIT)
		<-p.ended
		p.t.Fatalf("%v does not end; it printed %s\n%s", p.cmd.Args, &p.out, &p.err)
	}
	return result{p.out.String(), p.err.String(), p.cmd.ProcessState.ExitCode()}
}

// kill is kill -9.
func (p *process) kill() {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	<-p.ended
}

// interrupt is Ctrl-C: the terminal sends SIGINT to the whole process group.
func (p *process) interrupt() {
	p.t.Helper()
	if err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT); err != nil {
		p.t.Fatal(err)
	}
}

// interruptUntilEnded is Ctrl-C, again where nothing happens: a shell that is just starting
// a program may lose one.
func (p *process) interruptUntilEnded() {
	p.t.Helper()
	eventually(p.t, "the end after Ctrl-C", func() bool {
		p.signalAll(syscall.SIGINT)
		select {
		case <-p.ended:
			return true
		default:
			return false
		}
	})
}

// podtask runs podtask to its end.
func (b *box) podtask(args ...string) result {
	b.t.Helper()
	return b.start(args...).wait()
}

// want runs podtask and fails the test at another exit code.
func (b *box) want(code int, args ...string) result {
	b.t.Helper()
	return b.start(args...).want(code)
}

// want waits for the end and fails the test at another exit code.
func (p *process) want(code int) result {
	p.t.Helper()
	r := p.wait()
	if r.code != code {
		p.t.Fatalf("%v ended with code %d, want %d; it printed\n%s%s", p.cmd.Args, r.code, code, r.out, r.err)
	}
	return r
}

// detach runs a task in the background and returns its id.
func (b *box) detach(args ...string) string {
	b.t.Helper()
	return strings.TrimSpace(b.want(0, append([]string{"run", "-d"}, args...)...).out)
}

// task is what inspect says: the keys that scripts rely on.
type task struct {
	ID, Name, Family, Status, DesiredStatus, Health string
	StopCode, StoppedReason, PodID, Slice           string
	CreatedAt                                       time.Time
	ExitCode                                        *int
	Observed                                        bool
	Limits                                          string
	UnappliedLimits                                 []string
	Owner                                           struct {
		PID   int
		Alive bool
	}
	Ports      []published
	Containers []struct {
		Name, Image, ImageDigest, ImageSource, RuntimeID, Status, Reason string
		ExitCode                                                         *int
		RestartCount                                                     int
		RestartAt                                                        *time.Time
		Ports                                                            []published
		Addresses                                                        []string
		Paused                                                           bool
		Runs                                                             []struct{ ExitCode int }
		Errors                                                           []struct{ Name, Message string }
	}
}

type published struct {
	ContainerPort, HostPort int
	Protocol, HostIP        string
}

func (b *box) inspect(ref string) task {
	b.t.Helper()
	var tasks []task
	if err := json.Unmarshal([]byte(b.want(0, "inspect", ref).out), &tasks); err != nil || len(tasks) != 1 {
		b.t.Fatalf("inspect: %d tasks, %v", len(tasks), err)
	}
	return tasks[0]
}

// codes are the exit codes of the containers as "name=code", "name" for one
// without, in the order of the definition.
func (t task) codes() string {
	var words []string
	for _, c := range t.Containers {
		word := c.Name
		if c.ExitCode != nil {
			word += fmt.Sprintf("=%d", *c.ExitCode)
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// podman runs podman and returns its trimmed output.
func (b *box) podman(args ...string) string {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, "podman", args...).Output()
	if err != nil {
		var exit *exec.ExitError
		errors.As(err, &exit)
		b.t.Fatalf("podman %s: %v %s", strings.Join(args, " "), err, exit.Stderr)
	}
	return strings.TrimSpace(string(out))
}

// oldPodman reports whether Podman is that of Debian 12.
func (b *box) oldPodman() bool {
	b.t.Helper()
	return strings.HasPrefix(b.podman("version", "--format", "{{.Client.Version}}"), "4.3.")
}

// tell makes a file in a container, for steps that wait for one.
func (b *box) tell(ref, container, file string) {
	b.t.Helper()
	for _, c := range b.inspect(ref).Containers {
		if c.Name == container {
			b.touch(c.RuntimeID, file)
			return
		}
	}
	b.t.Fatalf("task %s has no container %s", ref, container)
}

// touch makes a file in a container of Podman's. Where the container ends for it, the
// end may take the writer along: podman exec then says 137, or that the container is gone.
func (b *box) touch(id, file string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "podman", "exec", id, "/testbox", "write", file)
	out, err := cmd.CombinedOutput()
	gone := strings.Contains(string(out), "has already been removed") || strings.Contains(string(out), "no such container")
	if err != nil && cmd.ProcessState.ExitCode() != 137 && !gone {
		b.t.Fatalf("write %s: %v %s", file, err, out)
	}
}

// running lists the family's containers that run, the infra container left out.
func (b *box) running() string {
	b.t.Helper()
	return b.podman("ps", "--format", "{{.Names}}", "--filter", "label=podtask.container", "--filter", "label=podtask.family="+b.family)
}

// objects lists what exists of the family in Podman.
func (b *box) objects() string {
	b.t.Helper()
	found, err := testbed.Labeled("podtask.family=" + b.family)
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.Join(found, "\n")
}

// repository is a repository of this test alone.
func (b *box) repository(name string) string { return b.family + "/" + name }

// push puts an image into the registry and returns its reference and digest.
func (b *box) push(name string, img v1.Image) (ref, digest string) {
	b.t.Helper()
	digest, err := bed.reg.Push(b.repository(name), img)
	if err != nil {
		b.t.Fatal(err)
	}
	return bed.reg.Ref(b.repository(name)), digest
}

// testbox pushes the image of testbox and returns its reference.
func (b *box) testbox() string {
	b.t.Helper()
	ref, _ := b.push("testbox:1", bed.image)
	return ref
}

// freshImage is testbox with a layer that no local storage has yet.
func (b *box) freshImage(salt string) v1.Image {
	b.t.Helper()
	h := fnv.New64a()
	fmt.Fprint(h, bed.reg.Addr(), b.family, salt)
	img, err := registrytest.Image(v1.Config{Entrypoint: []string{"/testbox"}, Env: []string{"SALT=" + salt}},
		registrytest.File{Path: "/tmp/", Mode: 0o1777},
		registrytest.File{Path: "/testbox", Data: bed.testbox},
		registrytest.File{Path: "/salt", Data: registrytest.Random(1<<16, h.Sum64())})
	if err != nil {
		b.t.Fatal(err)
	}
	return img
}

// requests lists the requests for the test's own repositories whose method and
// path the expression matches.
func (b *box) requests(expression string) []registrytest.Request {
	match := regexp.MustCompile(expression)
	var found []registrytest.Request
	for _, r := range bed.reg.Log() {
		if strings.HasPrefix(r.Path, "/v2/"+b.family+"/") && match.MatchString(r.Method+" "+r.Path) {
			found = append(found, r)
		}
	}
	return found
}

// fault is a fault for requests to one of the test's own repositories.
func (b *box) fault(method, repository, what string, times int, do registrytest.Action) *registrytest.Rule {
	rule := bed.reg.Fault(method, "^/v2/"+b.repository(repository)+"/"+what, times, do)
	b.t.Cleanup(rule.Remove)
	return rule
}

// arrived waits for the first request that a fault catches.
func (b *box) arrived(rule *registrytest.Rule) {
	b.t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case <-rule.Arrived():
	case <-limit.C:
		b.t.Fatal("the request never comes")
	}
}

// eventually waits for what no event reports, such as the end of a process of another
// user.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	if !testbed.Until(holds) {
		t.Fatalf("never: %s", what)
	}
}

// checkNothingLeft removes the test's tasks and proves that nothing is left of
// them anywhere, nor the password in anything podtask keeps.
func (b *box) checkNothingLeft() {
	ids := map[string]bool{}
	for _, e := range b.events() {
		ids[e.Task] = true
	}
	if r := b.podtask("rm", "--force", "--all"); r.code != 0 {
		b.t.Errorf("rm --force --all: code %d\n%s%s", r.code, r.out, r.err)
	}
	if r := b.podtask("ps", "--all", "--quiet"); r.code != 0 || r.out != "" {
		b.t.Errorf("ps after rm: code %d\n%s%s", r.code, r.out, r.err)
	}
	if out := b.objects(); out != "" {
		b.t.Errorf("left in Podman:\n%s", out)
	}
	eventually(b.t, "the end of all owners", func() bool { return len(b.owners()) == 0 })
	secrets, err := testbed.Secrets()
	if err != nil {
		b.t.Error(err)
	}
	for id := range ids {
		if found, _ := filepath.Glob(filepath.Join(bed.runtime, "podtask", "tasks", id[:12]+"*")); len(found) > 0 {
			b.t.Errorf("left: %v", found)
		}
		if strings.Contains(strings.Join(secrets, " "), "podtask-"+id) {
			b.t.Errorf("left among the secrets: %v", secrets)
		}
		if bed.name != "plain" {
			// systemd starts the unit of an owner that was killed again; without a task it ends.
			eventually(b.t, "the end of the owner's unit", func() bool {
				out, err := unitsOf("podtask-owner-*", id)
				return err == nil && len(out) == 0
			})
			if out, err := unitsOf("podtask*", id); err != nil || len(out) > 0 {
				b.t.Errorf("left in systemd: %s %v", out, err)
			}
		}
	}
	b.checkNoPassword()
}

// unitsOf lists the units of a task whose names begin like a pattern.
func unitsOf(pattern, id string) ([]byte, error) {
	return exec.Command("systemctl", "--user", "list-units", "--all", "--plain", "--no-legend", pattern+id[:12]+"*").Output()
}

// owners are the podtask processes with this box's state directory.
func (b *box) owners() (pids []string) {
	mark := []byte("XDG_STATE_HOME=" + b.stateHome() + "\x00")
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environs {
		dir := filepath.Dir(path)
		exe, _ := os.Readlink(filepath.Join(dir, "exe"))
		environ, _ := os.ReadFile(path)
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		words := strings.Split(string(line), "\x00")
		session := len(words) > 1 && words[1] == "session" // of what follows events through ssh
		if exe == bed.podtask && bytes.Contains(environ, mark) && !b.following(filepath.Base(dir)) && !session {
			pids = append(pids, filepath.Base(dir))
		}
	}
	return pids
}

func (b *box) checkNoPassword() {
	_ = filepath.WalkDir(b.stateHome(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		if data, err := os.ReadFile(path); err == nil && bytes.Contains(data, []byte(password)) {
			b.t.Errorf("the registry's password is in %s", path)
		}
		return nil
	})
}

// syncBuffer can be read while a process writes.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}
