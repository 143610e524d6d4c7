package main

import (
	"bytes"
	"encoding/xml"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestChooseIsTheSameForTheSameSeed(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{0, 1, 2, 1 << 63} {
		got := choose(seed, 100, 8)
		if !reflect.DeepEqual(got, choose(seed, 100, 8)) {
			t.Errorf("seed %d chooses differently", seed)
		}
		if len(slices.Compact(slices.Clone(got))) != 8 || got[0] < 1 || got[7] > 100 {
			t.Errorf("seed %d: %v, want 8 different numbers of 1 to 100", seed, got)
		}
	}
	if reflect.DeepEqual(choose(1, 100, 8), choose(2, 100, 8)) {
		t.Error("two seeds choose the same")
	}
	if got := choose(1, 3, 8); !reflect.DeepEqual(got, []int{1, 2, 3}) {
		t.Errorf("of 3: %v", got)
	}
	if got := choose(1, 0, 8); len(got) != 0 {
		t.Errorf("of none: %v", got)
	}
}

func TestSplit(t *testing.T) {
	t.Parallel()
	for command, want := range map[string][]string{
		"ps -a":                             {"ps", "-a"},
		"run IMAGE sh -c 'trap \"x\" TERM'": {"run", "IMAGE", "sh", "-c", `trap "x" TERM`},
		"":                                  nil,
	} {
		if got := split(command); !reflect.DeepEqual(got, want) {
			t.Errorf("split(%q) = %q, want %q", command, got, want)
		}
	}
}

func FuzzSplit(f *testing.F) {
	f.Add("run 'a b' c")
	f.Fuzz(func(t *testing.T, command string) {
		words := strings.Join(split(command), "")
		if strings.Contains(words, "'") {
			t.Errorf("split(%q) keeps a quote", command)
		}
	})
}

func TestLeftMounts(t *testing.T) {
	t.Parallel()
	info := `36 35 0:1 / /tmp/a/store/overlay/x/merged rw - overlay overlay rw
37 35 0:1 / /tmp/a/store/overlay-containers/x/userdata/shm rw - tmpfs shm rw
38 35 0:1 / /tmp/a/store/overlay rw - ext4 /dev/x rw
39 35 0:1 / /tmp/ab/store/overlay/x/merged rw - overlay overlay rw
short line`
	if got := leftMounts(info, "/tmp/a"); !reflect.DeepEqual(got, []string{"mount at merged", "mount at shm"}) {
		t.Errorf("%q", got)
	}
}

func TestCallsOf(t *testing.T) {
	t.Parallel()
	one, err := callsOf("mount")
	if err != nil || len(one) != 1 {
		t.Errorf("mount: %v, %v", one, err)
	}
	if all, err := callsOf("any"); err != nil || len(all) != len(syscalls) {
		t.Errorf("any: %v, %v", all, err)
	}
	if _, err := callsOf("getpid"); err == nil || !strings.Contains(err.Error(), "mount") {
		t.Errorf("getpid: %v, want an error that names what there is", err)
	}
}

// The checks of a scenario name what its commands make.
func TestScenariosAreSound(t *testing.T) {
	t.Parallel()
	for name, s := range scenarios {
		all := strings.Join(append(append([]string{s.kill}, s.before...), s.again...), "\n")
		if s.about == "" || s.kill == "" || len(s.again) == 0 {
			t.Errorf("%s: something is missing", name)
		}
		if s.exit != "" && !strings.Contains(all, "--name "+s.exit) {
			t.Errorf("%s: no command makes %s", name, s.exit)
		}
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []options{{scenarios: "nothing", kills: 1, syscall: "any"}, {kills: 0, syscall: "any"}, {kills: 1, when: -1, syscall: "any"}, {kills: 1, syscall: "x"},
		{kills: 1, syscall: "any", fault: "slow"}} {
		if o.check() == nil {
			t.Errorf("%+v: no error", o)
		}
	}
	if err := (&options{scenarios: "run,stop", kills: 1, syscall: "any"}).check(); err != nil {
		t.Error(err)
	}
}

var someResults = []result{
	{Kill: kill{"run", "podman", "any", 0, ""}, Count: 5, Missed: true},
	{Kill: kill{"run", "podman", "any", 2, ""}, Took: time.Second},
	{Kill: kill{"run", "podman", "any", 4, ""}, At: "podman:mount", Failures: []failure{{"left", "a <mount>"}, {"left", "b"}, {"exit", "137\x00"}}},
	{Kill: kill{"stop", "podman", "any", 0, ""}, Missed: true},
	{Kill: kill{"stop", "conmon", "any", 0, "full"}, Count: 9, Missed: true},
}

func TestTable(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	table(&b, "podman version 1", someResults)
	for _, want := range []string{
		"| run | podman | 5 | 2 | 1 | 0 | 0 | 0 | 0 | 1 | 0 | 1 |\n",
		"| stop | podman | 0 | 0 | 0 |",
		"| stop | conmon full | 9 | 0 | 0 |",
		"podman-crash -scenario run -program podman -syscall any -when 4 # podman:mount\n    left: a <mount>\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s\nhas no %q", b.String(), want)
		}
	}
}

func TestJUnit(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := junit(&b, "podman version 1", someResults); err != nil {
		t.Fatal(err)
	}
	var got suites
	if err := xml.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatalf("%v:\n%s", err, b.String())
	}
	run := got.Suites[0]
	if run.Tests != 3 || run.Failures != 1 || run.Skipped != 1 || !strings.Contains(run.Cases[2].Failure.Message, "-when 4") {
		t.Errorf("%s", b.String())
	}
}

// TestMain also runs the tracer of the tests, in a process of its own.
func TestMain(m *testing.M) {
	if out := os.Getenv("TEST_TRACE"); out != "" {
		for _, shell := range []string{"sh", "busybox"} {
			traced[shell] = true
		}
		o := options{trace: out, programs: "", syscall: "kill", when: len(os.Getenv("TEST_WHEN")),
			instead: os.Getenv("TEST_INSTEAD"), refuse: os.Getenv("TEST_REFUSE"), attach: os.Getenv("TEST_ATTACH")}
		fail(o.traceOne(os.Args[1:]))
		return
	}
	os.Exit(m.Run())
}

// The shell makes three system calls kill; the tracer counts them, and kills at the second.
func TestTracerCountsAndKills(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ when, instead, want string }{
		{"", "", "3 false 0 -"},
		{"xx", "", "2 true 137 kill"},
		{"xx", "true", "3 true 0 kill"},
	} {
		got := traced3(t, "kill -0 $$; kill -0 $$; (kill -0 $$); exit 0", "TEST_WHEN="+test.when, "TEST_INSTEAD="+test.instead)
		if got != test.want {
			t.Errorf("when %q, instead %q: %s, want %s", test.when, test.instead, got, test.want)
		}
	}
}

// What runs before the command and has the word in its command line is killed too; its end ends the command.
func TestTracerAttaches(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	before := exec.Command("sh", "-c", `exec >"$0"; while :; do kill -0 $$; sleep 0.01; done`, pipe)
	if err := before.Start(); err != nil {
		t.Fatal(err)
	}
	defer before.Wait()
	defer before.Process.Kill()
	if got := traced3(t, "cat <"+pipe, "TEST_WHEN=xxx", "TEST_ATTACH="+pipe); got != "3 true 0 kill" {
		t.Errorf("%s", got)
	}
}

// From the second call on nothing below the directory changes, and what is elsewhere does.
func TestTracerRefuses(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	dir, other := filepath.Join(top, "store"), filepath.Join(top, "other")
	for _, d := range []string{dir, other} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	command := strings.ReplaceAll(`kill -0 $$; echo x >D/before; exec 7>D/open; kill -0 $$
echo x >D/a; cd D; echo x >b; echo x >&7; echo x >>before; mkdir ../other/c; read x <before || exit 4; [ ! -s open ] || exit 5; exit 6`, "D", dir)
	if got := traced3(t, command, "TEST_WHEN=xx", "TEST_REFUSE="+dir); got != "2 true 6 kill" {
		t.Errorf("%s", got)
	}
	for path, want := range map[string]bool{dir + "/before": true, dir + "/a": false, dir + "/b": false, other + "/c": true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s exists: %v, want %v", path, err == nil, want)
		}
	}
}

// traced3 traces a command of the shell, and returns the count, whether a call was hit, the exit code and the call.
func traced3(t *testing.T, command string, env ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "trace")
	cmd := exec.Command(os.Args[0], "sh", "-c", command)
	cmd.Env = append(append(os.Environ(), "TEST_TRACE="+file), env...)
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "refused") || strings.Contains(string(out), "needs Linux") {
		t.Skip(string(out))
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(data))
	return f[0] + map[bool]string{true: " true ", false: " false "}[f[1] != "0"] + f[2] + " " + f[3][strings.Index(f[3], ":")+1:]
}

// The requests of a line see the ID of the answer before, and the service gets SIGTERM at the end.
func TestRequests(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		lines string
		want  int
		seen  string
	}{
		{`POST /containers/c/exec {"Cmd":[]}` + "\nPOST /exec/ID/start {}", 0, `POST /v4.0.0/libpod/containers/c/exec {"Cmd":[]}, POST /v4.0.0/libpod/exec/00ff/start {}`},
		{"POST /bad &\nDELETE /pods/p?force=true", 1, "DELETE /v4.0.0/libpod/pods/p?force=true , POST /v4.0.0/libpod/bad "},
		{"POST /cut", 1, "POST /v4.0.0/libpod/cut "},
		{"POST /wait &\nPOST /bad", 1, ""},
	} {
		var mu sync.Mutex
		var seen []string
		socket := filepath.Join(t.TempDir(), "s")
		listener, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if r.Method != "GET" {
				mu.Lock()
				seen = append(seen, r.Method+" "+r.URL.String()+" "+string(body))
				mu.Unlock()
			}
			switch {
			case strings.HasSuffix(r.URL.Path, "/bad"):
				http.Error(w, "no", http.StatusInternalServerError)
			case strings.HasSuffix(r.URL.Path, "/wait"):
				<-r.Context().Done()
			case strings.HasSuffix(r.URL.Path, "/cut"):
				panic(http.ErrAbortHandler)
			default:
				io.WriteString(w, `{"Id":"00ff"}`)
			}
		})}
		go server.Serve(listener)
		defer server.Close()
		service := exec.Command("sleep", "60")
		if err := service.Start(); err != nil {
			t.Fatal(err)
		}
		tr := tracer{rest: socket + "\n" + test.lines, root: service.Process.Pid, answered: make(chan int, 1)}
		tr.request()
		service.Wait()
		if status := service.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGTERM {
			t.Errorf("%s: the service ended with %v", test.lines, service.ProcessState)
		}
		mu.Lock()
		slices.Sort(seen)
		if got := tr.exit(0); got != test.want || test.seen != "" && strings.Join(seen, ", ") != test.seen {
			t.Errorf("%s: %d after %q, want %d after %q", test.lines, got, strings.Join(seen, ", "), test.want, test.seen)
		}
		mu.Unlock()
	}
}

// A command whose helper was killed, or whose disk was full, either worked or says why not.
func TestCheckError(t *testing.T) {
	t.Parallel()
	exists := filepath.Join(t.TempDir(), "podman")
	if err := os.WriteFile(exists, []byte("#!/bin/sh\nexit 0\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	b := &bed{dir: t.TempDir(), podman: exists, deadline: time.Minute, token: "-"}
	if err := os.Mkdir(filepath.Join(b.dir, "tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		kill string
		exit int
		out  string
		gone string
		bad  bool
	}{
		{"rm -f c", 0, "", "", false},
		{"rm -f c", 125, "Error: no space left on device", "", false},
		{"rm -f c", 125, "", "", true},
		{"rm -f c", 2, "panic: nil", "", true},
		{"rm -f c", 139, "x", "", true},
		{"rm -f c", 255, "Error: exec failed", "", false},
		{"DELETE /x", 1, "DELETE /x: " + noAnswer + "EOF", "", true},
		{"rm -f c", 0, "", "container c", true},
		{"DELETE /containers/c", 0, "", "container c", true},
		{"kube play KUBE", 0, "", "pod p", false},
		{"rm -f c", 125, "Error: x", "container c", false},
	} {
		var r result
		b.checkError(&r, scenario{kill: test.kill, gone: test.gone}, test.exit, test.out)
		if got := len(r.Failures) > 0; got != test.bad {
			t.Errorf("%+v: %v", test, r.Failures)
		}
	}
}

func TestLongOutputIsCut(t *testing.T) {
	t.Parallel()
	var r result
	r.fail("error", "x: %s", "level=error\npanic: open a: read-only file system\n\ngoroutine 1 [running]:")
	r.fail("next", "%s", strings.Repeat("x", 2000))
	if got := r.Failures[0].Seen; got != "panic: open a: read-only file system" {
		t.Errorf("%q", got)
	}
	if got := r.Failures[1].Seen; len(got) != 1004 {
		t.Errorf("%d bytes", len(got))
	}
}

func TestRestScenarios(t *testing.T) {
	t.Parallel()
	for name := range restCalls {
		s := scenarios["rest-"+name]
		if !isRequest(s.kill) || len(s.again) == 0 {
			t.Errorf("rest-%s: %+v", name, s)
		}
	}
	if (kill{"run", "podman", "any", 3, "full"}).String() != "podman-crash -scenario run -program podman -syscall any -when 3 -fault full" {
		t.Error("the fault is missing")
	}
}
