package main

import (
	"bytes"
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
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
	for _, o := range []options{{scenarios: "nothing", kills: 1, syscall: "any"}, {kills: 0, syscall: "any"}, {kills: 1, when: -1, syscall: "any"}, {kills: 1, syscall: "x"}} {
		if o.check() == nil {
			t.Errorf("%+v: no error", o)
		}
	}
	if err := (&options{scenarios: "run,stop", kills: 1, syscall: "any"}).check(); err != nil {
		t.Error(err)
	}
}

var someResults = []result{
	{Kill: kill{"run", "podman", "any", 0}, Count: 5, Missed: true},
	{Kill: kill{"run", "podman", "any", 2}, Took: time.Second},
	{Kill: kill{"run", "podman", "any", 4}, At: "podman:mount", Failures: []failure{{"left", "a <mount>"}, {"left", "b"}, {"exit", "137\x00"}}},
	{Kill: kill{"stop", "podman", "any", 0}, Missed: true},
}

func TestTable(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	table(&b, "podman version 1", someResults)
	for _, want := range []string{
		"| run | podman | 5 | 2 | 1 | 0 | 0 | 0 | 1 | 0 | 1 |\n",
		"| stop | podman | 0 | 0 | 0 |",
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
		for _, shell := range []string{"sh", "dash", "bash", "busybox"} {
			traced[shell] = true
		}
		o := options{trace: out, program: "", syscall: "kill", when: len(os.Getenv("TEST_WHEN"))}
		fail(o.traceOne(os.Args[1:]))
		return
	}
	os.Exit(m.Run())
}

// The shell makes three system calls kill; the tracer counts them, and kills at the second.
func TestTracerCountsAndKills(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ when, want string }{{"", "3 false 0 -"}, {"xx", "2 true 137 kill"}} {
		file := filepath.Join(t.TempDir(), "trace")
		cmd := exec.Command(os.Args[0], "sh", "-c", "kill -0 $$; kill -0 $$; (kill -0 $$); exit 0")
		cmd.Env = append(os.Environ(), "TEST_TRACE="+file, "TEST_WHEN="+test.when)
		out, err := cmd.CombinedOutput()
		if strings.Contains(string(out), "refused") {
			t.Skip("ptrace is refused here")
		}
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		f := strings.Fields(string(data))
		if got := f[0] + map[bool]string{true: " true ", false: " false "}[f[1] != "0"] + f[2] + " " + f[3][strings.Index(f[3], ":")+1:]; got != test.want {
			t.Errorf("when %q: %s, want %s", test.when, got, test.want)
		}
	}
}
