//go:build e2e

//e2e:bed systemd

package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/podtask/podtask/test/testbed"
)

// sshd is an SSH server of this user on loopback, with its own keys, and the configuration of a client for it.
type sshd struct {
	dir  string // bin/ssh in it is the client with its configuration
	url  string
	stop func()
}

// startSSHD starts the server. Variables of the client that name where podtask's state is reach it.
func startSSHD(t *testing.T, dir string) sshd {
	t.Helper()
	const program = "/usr/sbin/sshd"
	if _, err := os.Stat(program); err != nil {
		t.Skip("there is no sshd here")
	}
	s := sshd{dir: dir}
	port := freePort(t)
	s.url = fmt.Sprintf("ssh://127.0.0.1:%d", port)
	for _, key := range []string{"host", "user"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, key)).CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen: %v %s", err, out)
		}
	}
	hostKey, err := os.ReadFile(filepath.Join(dir, "host.pub"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "there"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(bed.podtask, filepath.Join(dir, "there", "podtask")); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"sshd_config": fmt.Sprintf("Port %d\nListenAddress 127.0.0.1\nHostKey %[2]s/host\nAuthorizedKeysFile %[2]s/user.pub\nStrictModes no\nUsePAM no\nPidFile none\nMaxStartups 100\nMaxSessions 100\nPerSourcePenalties no\n"+
			"PasswordAuthentication no\nAcceptEnv XDG_STATE_HOME REGISTRY_AUTH_FILE NO_COLOR PODTASK_*\nSetEnv PATH=%[2]s/there:/usr/local/bin:/usr/bin:/bin XDG_RUNTIME_DIR=%[3]s\n", port, dir, bed.runtime),
		"ssh_config":  fmt.Sprintf("Host box\n  HostName 127.0.0.1\n  HostKeyAlias [127.0.0.1]:%[2]d\n  Port %[2]d\nHost *\n  IdentityFile %[1]s/user\n  IdentitiesOnly yes\n  UserKnownHostsFile %[1]s/known_hosts\n  StrictHostKeyChecking yes\n  SendEnv XDG_STATE_HOME REGISTRY_AUTH_FILE NO_COLOR PODTASK_*\n", dir, port),
		"known_hosts": fmt.Sprintf("[127.0.0.1]:%d %s", port, hostKey),
		"bin/ssh":     "#!/bin/sh\nexec /usr/bin/ssh -F " + dir + "/ssh_config \"$@\"\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(program, "-D", "-e", "-f", filepath.Join(dir, "sshd_config"))
	var log syncBuffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("sshd printed\n%s", &log)
		}
	}
	eventually(t, "the SSH server", func() bool { return strings.Contains(log.String(), "Server listening") })
	return s
}

// shared is the server of a run of all tests through ssh (BY_SSH=1 hack/e2e run).
var shared sharedSSHD

type sharedSSHD struct {
	once sync.Once
	sshd
	config string // of the user's ssh; removed at the end
}

// endSharedSSHD ends the shared server, if there is one.
func endSharedSSHD() {
	if shared.stop != nil {
		shared.stop()
		_ = os.Remove(shared.config)
		_ = os.RemoveAll(shared.dir)
	}
}

// path is a PATH in which ssh is the client of this server.
func (s sshd) path() string { return filepath.Join(s.dir, "bin") + ":" + os.Getenv("PATH") }

// bySSH lets the podtask of a box work through ssh.
func (b *box) bySSH(s sshd) {
	b.env = append(b.env, "PODTASK_HOST="+s.url, "PATH="+s.path())
}

// newSSHBox returns a box whose podtask works through ssh, and one that works here, with the same state. At
// the end no process of a session and no file is left.
func newSSHBox(t *testing.T) (far, near *box, s sshd) {
	t.Helper()
	near = newBox(t)
	s = startSSHD(t, t.TempDir())
	t.Cleanup(s.stop)
	far = &box{t: t, dir: near.dir, family: near.family, env: slices.Clone(near.env)}
	far.bySSH(s)
	t.Cleanup(func() {
		var left []string
		if !testbed.Until(func() bool { left = sessionsOf(near); return len(left) == 0 }) {
			t.Errorf("sessions are left: %q", left)
		}
		for _, dir := range []string{filepath.Join(bed.runtime, "podtask", "sessions"), filepath.Join(near.stateHome(), "podtask", "sessions")} {
			if entries, _ := os.ReadDir(dir); len(entries) > 0 && dir != filepath.Join(bed.runtime, "podtask", "sessions") {
				t.Errorf("files are left in %s: %v", dir, entries)
			}
		}
	})
	return far, near, s
}

// sessionsOf lists the processes of sessions that have the state of a box.
func sessionsOf(b *box) (found []string) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		env, err := os.ReadFile(filepath.Join(dir, "environ"))
		words := strings.Split(string(line), "\x00")
		if err == nil && len(words) > 1 && words[1] == "session" && bytes.Contains(env, []byte("XDG_STATE_HOME="+b.stateHome()+"\x00")) {
			found = append(found, filepath.Base(dir)+" "+strings.Join(words, " "))
		}
	}
	return found
}

// sshOf returns the ssh that a podtask has started.
func sshOf(p *process) (pid int) {
	eventually(p.t, "ssh of "+strings.Join(p.cmd.Args, " "), func() bool {
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", p.cmd.Process.Pid))
		all := string(children)
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.cmd.Process.Pid))
		for _, thread := range threads {
			more, _ := os.ReadFile(thread)
			all += " " + string(more)
		}
		for _, word := range strings.Fields(all) {
			name, _ := os.ReadFile("/proc/" + word + "/comm")
			if strings.TrimSpace(string(name)) == "ssh" {
				pid, _ = strconv.Atoi(word)
			}
		}
		return pid != 0
	})
	return pid
}

// Commands print on another host what they print there.
func TestHostBySSHPrintsWhatIsPrintedThere(t *testing.T) {
	t.Parallel()
	far, near, _ := newSSHBox(t)
	ref, _ := far.push("shell:1", shellImage(t))
	host := freePort(t)
	id := far.detach("--wait=running", "--name", far.family, far.define(ctr{
		Name: "app", Image: ref, Command: words("print from the app -- sleep forever"), Ports: []port{{Container: 80, Host: host}},
	}))
	for _, args := range [][]string{
		{"ps", "--format", "{{.ID}} {{.Name}} {{.Status}}"}, {"inspect", "--format", "{{.ID}} {{.Status}}", far.family}, {"logs", far.family}, {"port", far.family},
		{"events", "--stream=false", "--format", "json"}, {"image", "ls", "-q"}, {"exec", far.family, "sh", "-c", "echo a b; echo c >&2; exit 9"},
		{"inspect", "nobody"}, {"ps", "--nonsense"}, {"taskdef", "ls"}, {"schedule", "ls"}, {"unit", "ls"}, {"stats", "--no-stream", "--format", "{{.Name}}"},
	} {
		got, want := far.podtask(args...), near.podtask(args...)
		if got != want {
			t.Errorf("podtask %q: %d %q %q, there it is %d %q %q", args, got.code, got.out, got.err, want.code, want.out, want.err)
		}
	}
	far.want(0, "wait", "--condition", "running", id)
	in := far.file("in.txt", "some text\n")
	far.want(0, "cp", in, far.family+":/tmp/here")
	far.want(0, "cp", far.family+":/tmp/here", filepath.Join(far.dir, "out.txt"))
	if text, err := os.ReadFile(filepath.Join(far.dir, "out.txt")); err != nil || string(text) != "some text\n" {
		t.Errorf("cp brought %q, %v", text, err)
	}
	far.want(0, "pause", id)
	far.want(0, "unpause", id)
	if r := far.want(0, "stop", "-t", "1", far.family); r.out != id+"\n" {
		t.Errorf("stop printed %q", r.out)
	}
	far.want(0, "rm", far.family)
	if r := near.want(0, "ps", "-aq"); r.out != "" {
		t.Errorf("after rm there is %q", r.out)
	}
}

// The files and the variables of a run are those of this machine.
func TestHostBySSHRunsWithFilesOfThisMachine(t *testing.T) {
	t.Parallel()
	far, near, _ := newSSHBox(t)
	secret := far.file("token.txt", password+"\n")
	far.file("doc.env", "FROM_DOCUMENT=1\n")
	far.file("flag.env", "FROM_FLAG=2\nTAKEN\n")
	far.env = append(far.env, "TAKEN=3", "NAMED=4", "API_KEY=5")
	ref := far.testbox()
	path := far.file("web.json", fmt.Sprintf(`{"family": %q, "containerDefinitions": [{"name": "app", "image": %q, "essential": true,
	"command": ["env", "FROM_DOCUMENT", "--", "env", "FROM_FLAG", "--", "env", "TAKEN", "--", "env", "NAMED", "--", "env", "KEY", "--", "exit", "4"],
	"environmentFiles": [{"type": "s3", "value": "doc.env"}],
	"secrets": [{"name": "TOKEN", "valueFrom": "file:%s"}, {"name": "KEY", "valueFrom": "env:API_KEY"}]}]}`, far.family, ref, secret))
	for _, name := range []string{"web.json", path} {
		r := far.want(4, "run", "--rm", "--env-file", "flag.env", "-e", "NAMED", name)
		for _, line := range []string{"FROM_DOCUMENT=1", "FROM_FLAG=2", "TAKEN=3", "NAMED=4", "KEY=5"} {
			if !strings.Contains(r.out, line+"\n") {
				t.Errorf("%s: %s is missing in %q %s", name, line, r.out, r.err)
			}
		}
	}
	id := strings.TrimSpace(far.want(4, "run", "-d", "--wait=stopped", "--name", "kept", "--env-file", "flag.env", "-e", "NAMED", "web.json").out)
	if st := near.inspect(id); st.codes() != "app=4" {
		t.Errorf("detached: %s", st.codes())
	}
	if r := far.want(0, "plan", "web.json"); !strings.Contains(r.err, "from this machine: ") || !strings.Contains(r.err, "token.txt") || !strings.Contains(r.err, "images, volumes and mounts") {
		t.Errorf("plan says %q", r.err)
	}
	if r := far.want(125, "run", "--map-volume", "data=./data", "web.json"); !strings.Contains(r.err, "absolute") {
		t.Errorf("a relative volume: %s", r.err)
	}
	if r := far.want(125, "run", "--env-file", "none.env", "web.json"); !strings.Contains(r.err, "none.env") {
		t.Errorf("a file that is missing: %s", r.err)
	}
}

// longRunning are commands that last until something happens and end with the connection. Each prints its sign once it runs.
var longRunning = []struct {
	name     string
	args     []string
	sign     string
	terminal bool
}{
	{"wait", []string{"wait", "--condition", "stopped", "TASK"}, "", false},
	{"stats", []string{"stats", "TASK"}, "MEM", false},
	{"exec", []string{"exec", "TASK", "sh", "-c", "echo ready; exec sleep 3000"}, "ready", false},
	{"exec -i", []string{"exec", "-i", "TASK", "sh", "-c", "echo ready; cat; sleep 3000"}, "ready", false},
	{"exec -it", []string{"exec", "-it", "TASK", "--", "sh", "-c", "echo re''ady; exec sleep 3000"}, "ready", true},
	{"run", []string{"run", "--name", "TASK-2", "FILE"}, "from the app", false},
}

// A link that breaks ends each command with an error, and leaves nothing on the other host: no session, and no
// command in the container. A task that ran in the foreground is stopped there.
func TestHostBySSHLinkThatBreaks(t *testing.T) {
	t.Parallel()
	far, near, _ := newSSHBox(t)
	ref, _ := far.push("shell:1", shellImage(t))
	file := far.define(ctr{Name: "app", Image: ref, Command: words("print from the app -- sleep forever"), StopTimeout: 2})
	far.detach("--wait=running", "--name", far.family, far.define(ctr{Name: "app", Image: ref, Command: words("print from the app -- sleep forever"), Ports: []port{{Container: 80, Host: freePort(t)}}}))
	for _, c := range longRunning {
		args := slices.Clone(c.args)
		for i, a := range args {
			args[i] = strings.NewReplacer("TASK", far.family, "FILE", file).Replace(a)
		}
		var p *process
		printed := func() string { return p.out.String() + p.err.String() }
		if c.terminal {
			onScreen := far.onTerminal(args...)
			p, printed = onScreen.process, onScreen.screen.String
		} else {
			p = far.start(args...)
		}
		eventually(t, c.name+" to run", func() bool {
			return strings.Contains(printed(), c.sign) && len(sessionsOf(near)) > 1
		})
		if err := syscall.Kill(sshOf(p), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		r := p.wait()
		if c.terminal { // what it has printed is still on its way to the screen
			eventually(t, c.name+" to say why it ended", func() bool { return strings.Contains(printed(), "broke") })
		}
		if r.code != 125 || !strings.Contains(printed(), "broke") {
			t.Errorf("%s ended with %d and printed %s", c.name, r.code, printed())
		}
		eventually(t, "the end of the session of "+c.name, func() bool { return len(sessionsOf(near)) == 0 })
	}
	eventually(t, "the end of commands in the container", func() bool { return !strings.Contains(near.top(), "sleep 3000") })
	near.want(0, "wait", far.family+"-2")
	if st := near.inspect(far.family + "-2"); st.Status != "STOPPED" {
		t.Errorf("the task of the broken run is %s", st.Status)
	}
}

// Ctrl-C reaches what runs on the other host.
func TestHostBySSHCtrlC(t *testing.T) {
	t.Parallel()
	far, near, _ := newSSHBox(t)
	ref, _ := far.push("shell:1", shellImage(t))
	file := far.define(ctr{Name: "app", Image: ref, Command: words("print from the app -- sleep forever")})
	p := far.start("run", "--name", far.family, file)
	eventually(t, "the output", func() bool { return strings.Contains(p.out.String(), "from the app") })
	p.interrupt()
	p.want(143)
	if st := near.inspect(far.family); st.Status != "STOPPED" || !strings.Contains(st.StoppedReason, "SIGINT") {
		t.Errorf("after Ctrl-C: %s %s", st.Status, st.StoppedReason)
	}
	near.want(0, "rm", far.family)

	far.shell()
	sh := far.onTerminal("exec", far.family) // a shell
	before := sh.settings()
	sh.see("#")
	sh.resize(50, 132)
	eventually(t, "the new size", func() bool {
		sh.keysIn("stty size\n")
		return sh.screen.cut("50 132")
	})
	interruptAndExit(sh, before, func() {
		eventually(t, "the sleep", func() bool { return strings.Contains(near.top(), "sleep 1000") })
	})
	q := far.start("logs", "-f", far.family)
	eventually(t, "the session", func() bool { return len(sessionsOf(near)) > 1 })
	q.interrupt()
	if r := q.wait(); r.code != 130 {
		t.Errorf("logs -f after Ctrl-C: %d %s", r.code, r.err)
	}
}

// Ports of a task and the page of podtask ui are reached from here.
func TestHostBySSHForwardsPorts(t *testing.T) {
	t.Parallel()
	far, near, _ := newSSHBox(t)
	far.detach("--wait=running", "--name", far.family, far.web(port{Container: 8080, Host: freePort(t)}))
	p := far.start("port-forward", far.family, "0:8080")
	eventually(t, "the forwarded port", func() bool { return strings.Contains(p.out.String(), " -> ") })
	var local int
	if _, err := fmt.Sscanf(p.out.String(), "127.0.0.1:%d ", &local); err != nil {
		t.Fatal(err)
	}
	near.askWeb(local)
	p.interrupt()
	p.want(130)
	if r := far.want(125, "port-forward", far.family, "81"); !strings.Contains(r.err, "publishes no TCP port 81") {
		t.Errorf("a port that is not published: %s", r.err)
	}

	ui := far.start("ui")
	eventually(t, "the link", func() bool { return strings.Contains(ui.out.String(), "/open/") })
	link := strings.TrimSpace(ui.out.String())
	name, rest, _ := strings.Cut(strings.TrimPrefix(link, "http://"), "/")
	_, portOf, _ := strings.Cut(name, ":")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+portOf+"/"+rest, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = name
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || len(resp.Cookies()) != 1 {
		t.Errorf("the page: %s", resp.Status)
	}
	ui.interrupt()
	ui.want(130)
}

// An image of this machine is sent without a registry. Here both machines have the same Podman.
func TestHostBySSHGetsImages(t *testing.T) {
	t.Parallel()
	far, near, _ := newSSHBox(t)
	ref, _ := far.push("sent:1", far.freshImage("sent"))
	near.podman("pull", "--quiet", "--authfile", bed.auth, ref)
	if r := far.want(0, "push", ref); !strings.Contains(r.out, ref) {
		t.Errorf("push printed %q %s", r.out, r.err)
	}
	if r := far.want(125, "push", "localhost/none:1"); !strings.Contains(r.err, "there is no image localhost/none:1 on this machine") {
		t.Errorf("an image that is missing: %s", r.err)
	}
}

// What cannot work says why in one sentence, before anything is done.
func TestHostBySSHThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	far, near, s := newSSHBox(t)
	if err := os.Remove(filepath.Join(s.dir, "there", "podtask")); err != nil {
		t.Fatal(err)
	}
	if r := far.want(125, "ps"); !strings.Contains(r.err, "podtask host setup "+s.url) {
		t.Errorf("without podtask: %s", r.err)
	}
	for text, want := range map[string]string{
		"#!/bin/sh\nprintf '\\033[2Jhello\\n'; exit 3\n":                                             "before podtask answered",
		"#!/bin/sh\nexec cat /dev/zero\n":                                                            "does not answer as podtask does",
		"#!/bin/sh\necho 'podtask-session {\"protocol\":1,\"version\":\"0.1.0\"}'; cat >/dev/null\n": "",
	} {
		if err := os.WriteFile(filepath.Join(s.dir, "there", "podtask"), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		if want == "" {
			continue // builds of a working tree have no version to compare
		}
		r := far.podtask("ps")
		if r.code != 125 || !strings.Contains(r.err, want) || strings.Contains(r.err, "\x1b") {
			t.Errorf("%q: %d %q", text, r.code, r.err)
		}
		if err := os.Remove(filepath.Join(s.dir, "there", "podtask")); err != nil {
			t.Fatal(err)
		}
	}
	far.env = append(near.env, "PATH="+s.path(), fmt.Sprintf("PODTASK_HOST=ssh://127.0.0.1:%d", freePort(t)))
	if r := far.want(125, "ps"); !strings.Contains(r.err, "ssh cannot connect to") {
		t.Errorf("without a server: %s", r.err)
	}
}

// Services and units are installed and changed through ssh; a secret that only this machine has cannot be one
// of a service, whose copies start later.
func TestHostBySSHHasServicesAndUnits(t *testing.T) {
	t.Parallel()
	far, near, _ := newSSHBox(t)
	near.agent()
	far.env = append(far.env, "PODTASK_SOCKET="+near.agentSocket())
	far.define(ctr{Name: "app", Command: words("sleep forever")})
	path := far.define(ctr{Name: "app", Command: words("sleep forever")})
	far.want(0, "service", "create", far.family, path, "--count=1", "--wait")
	if r := far.want(0, "service", "ls", "-q"); r.out != far.family+"\n" {
		t.Errorf("service ls printed %q", r.out)
	}
	far.want(0, "service", "update", far.family, "--force", "--wait")
	if r := far.want(0, "__complete", "--", "service", "ps", ""); !strings.Contains(r.out, far.family+"\n") {
		t.Errorf("completion printed %q", r.out)
	}
	far.file("token.txt", password)
	secret := far.file("secret.json", fmt.Sprintf(`{"family": %q, "containerDefinitions": [{"name": "app", "image": %q, "secrets": [{"name": "T", "valueFrom": "file:token.txt"}]}]}`, far.family, far.testbox()))
	if r := far.want(125, "service", "create", "other", secret); !strings.Contains(r.err, "podman secret create") {
		t.Errorf("a service with a secret of this machine: %s", r.err)
	}
	if r := far.want(125, "--host", "ssh://a,b,c", "service", "update", far.family); !strings.Contains(r.err, "Kubernetes and ECS") {
		t.Errorf("several hosts: %s", r.err)
	}
	far.want(0, "service", "rm", "--force", "--wait", far.family)
}

// The definition of a task of another host is written here, and runs there again. What was sent for one run is not in it.
func TestHostBySSHImportsATask(t *testing.T) {
	t.Parallel()
	far, _, s := newSSHBox(t)
	far.file("token.txt", password)
	far.file("web.env", "LEVEL=debug\n")
	far.file("web.json", fmt.Sprintf(`{"family": %q, "containerDefinitions": [{"name": "app", "image": %q, "command": ["env", "LEVEL", "--", "sleep", "forever"],
	"environmentFiles": [{"type": "s3", "value": "web.env"}], "secrets": [{"name": "TOKEN", "valueFrom": "file:token.txt"}]}]}`, far.family, far.testbox()))
	far.want(0, "run", "-d", "--wait=running", "--name", far.family, "web.json")
	r := far.want(0, "import", "--output", "units", far.family)
	if !strings.Contains(r.err, "Lost: app: secret TOKEN") || !strings.Contains(r.err, "Next: podtask run ") || !strings.Contains(r.out, "units/"+far.family+".task\n") {
		t.Errorf("import printed %q %q", r.out, r.err)
	}
	if r := far.want(0, "--host", s.url, "generate", "--from", far.family, "--output", "again"); !strings.Contains(r.err, "Next: podtask --host "+s.url+" run ") {
		t.Errorf("generate printed %q %q", r.out, r.err)
	}
	far.want(0, "rm", "--force", far.family)
	made := filepath.Join("units", far.family+".json")
	text, err := os.ReadFile(filepath.Join(far.dir, made))
	if err != nil || strings.Contains(string(text), password) || strings.Contains(string(text), "SENT") {
		t.Errorf("the definition is %s %v", text, err)
	}
	again, err := os.ReadFile(filepath.Join(far.dir, "again", far.family+".json"))
	if err != nil || string(again) != string(text) {
		t.Errorf("generate made %s %v", again, err)
	}
	far.want(0, "run", "-d", "--wait=running", "--name", far.family, made)
	eventually(t, "the variable of the file", func() bool { return strings.Contains(far.podtask("logs", far.family).out, "LEVEL=debug\n") })
	if r := far.podtask("import", "nobody"); r.code == 0 || !strings.Contains(r.err, "nobody") {
		t.Errorf("a task that is not there: %d %q", r.code, r.err)
	}
	far.want(0, "rm", "--force", far.family)
}

// TestHostSetup: a host with Podman and ssh gets podtask and its agent. It is not parallel, because the agent has
// the socket that every command finds.
func TestHostSetup(t *testing.T) {
	b := newBox(t)
	s := startSSHD(t, t.TempDir())
	t.Cleanup(s.stop)
	if err := os.Remove(filepath.Join(s.dir, "there", "podtask")); err != nil {
		t.Fatal(err)
	}
	b.env = append(b.env, "PATH="+s.path())
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	mine := []string{".config/systemd/user/podtask.service", ".config/systemd/user/podtask.socket"}
	beside, err := filepath.Glob(filepath.Join(filepath.Dir(bed.podtask), "podtask*"))
	if err != nil || len(beside) < 5 {
		t.Fatalf("beside podtask are %q, %v", beside, err)
	}
	for _, program := range beside {
		mine = append(mine, filepath.Join(".local", "bin", filepath.Base(program)))
	}
	for _, name := range mine {
		if _, err := os.Lstat(filepath.Join(home, name)); err == nil {
			t.Skipf("there is %s already", name)
		}
	}
	t.Cleanup(func() {
		_ = exec.Command("systemctl", "--user", "disable", "--now", "podtask.socket", "podtask.service").Run()
		for _, name := range mine {
			_ = os.Remove(filepath.Join(home, name))
		}
		_ = exec.Command("systemctl", "--user", "daemon-reload").Run()
	})
	if r := b.want(125, "--host", s.url, "ps"); !strings.Contains(r.err, "podtask host setup") {
		t.Errorf("before: %s", r.err)
	}
	if r := b.want(125, "host", "setup", s.url); !strings.Contains(r.err, "--yes") {
		t.Errorf("without --yes: %s", r.err)
	}
	r := b.podtask("host", "setup", "--yes", s.url) // the doctor may find something
	for _, name := range mine {
		if _, err := os.Lstat(filepath.Join(home, name)); err != nil {
			t.Errorf("%v; it printed\n%s%s", err, r.out, r.err)
		}
	}
	if out, err := exec.Command("systemctl", "--user", "is-active", "podtask.service").Output(); err != nil {
		t.Errorf("the agent is %s %v; it printed\n%s%s", out, err, r.out, r.err)
	}
	if r := b.want(0, "--host", s.url, "ps", "-q"); r.out != "" {
		t.Errorf("after: %q", r.out)
	}
}
