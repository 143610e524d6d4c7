//go:build e2e

//e2e:bed systemd

package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// injections are what a hostile author, or a program that writes units from the input of
// others, puts into values. A service that runs /injected is a fault.
var injections = []string{
	"\rExecStartPre=/injected", "\x00ExecStartPre=/injected", "\u2028ExecStartPre=/injected", "\x0bExecStartPre=/injected",
	"\\\rExecStartPre=/injected", "\\", "\\\\", "%n", "%%", "$(/injected)", "`/injected`", "\"", "'", " ; /injected", ";/injected",
	"\\x0aExecStartPre=/injected", "\\nExecStartPre=/injected", "\\012ExecStartPre=/injected", "a\\\n  b", "\ufeff", "\u202e", "\xff\xfe", "[Service]",
	" #", "=", "==", "\t", "%{x}", "|/injected", "&& /injected", "-/injected", "+/injected", strings.Repeat("a", 5000),
}

var hostileKeys = []string{
	"[Unit]", "[Task]", "[Service]", "[Install]", "[Quadlet]", "[X-Mine]", "[Container]", "Description=", "After=", "Wants=", "Definition=", "TaskName=",
	"ServiceName=", "Environment=", "EnvironmentFile=", "PodtaskArgs=", "GlobalArgs=", "Network=", "Notify=", "AutoUpdate=", "Restart=", "Nice=", "Type=",
	"WantedBy=", "Alias=", "DefaultInstance=", "DefaultDependencies=", "Slice=", "MapSecret=", "ListenStream=", "SleepAfter=", "Var=", "Pull=", "Unknown=",
}

// hostileUnit is the text of a unit; most of the lines make sense.
func hostileUnit(r *rand.Rand) string {
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	var text strings.Builder
	few := func() string {
		if r.IntN(4) == 0 {
			return pick(injections)
		}
		return ""
	}
	fmt.Fprintf(&text, "[Unit]\nDescription=a%s\n[Task]\nDefinition=a.json%s\n", few(), few())
	for range r.IntN(4) {
		key, value := pick(hostileKeys), pick([]string{"a", "web.json", "true", "A=b", "5", ""})
		if strings.HasPrefix(key, "[") {
			value = ""
		}
		if r.IntN(3) == 0 {
			value += pick(injections)
		}
		text.WriteString(key + value + pick([]string{"\n", "\n", "\n", "\n\n", "\r\n", "\\\n", "\\\\\n"}))
	}
	return text.String()
}

// The real generator makes services of thousands of hostile units in little time and
// memory, and systemd finds nothing in them that their authors did not write.
func TestGeneratorOnHostileUnits(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	units, out := t.TempDir(), t.TempDir()
	names := append([]string{"", "@", "@b", "-", " x", "é", "%i", "\n[Service]\nExecStartPre=-injected", "\\x2f"}, "a;b", "a$b")
	for i := range 3000 {
		name := fmt.Sprintf("u%d%s.task", i, names[r.IntN(len(names))])
		if err := os.WriteFile(filepath.Join(units, name), []byte(hostileUnit(r)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	special := filepath.Join(units, "special")
	if err := os.MkdirAll(filepath.Join(special, "u1.task.d"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"zero.task": "/dev/zero", "loop.task": "loop.task", "up": "..", "mem.task": "/proc/self/mem", "u1.task.d/zero.conf": "/dev/zero"} {
		if err := os.Symlink(target, filepath.Join(special, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(special, "pipe.task"), 0o600); err != nil {
		t.Fatal(err)
	}
	large := "[Task]\n" + strings.Repeat("[X-"+strings.Repeat("b", 100)+"]\n", 4000)
	if err := os.WriteFile(filepath.Join(special, "large.task"), []byte(large), 0o600); err != nil {
		t.Fatal(err)
	}

	generator := exec.Command(filepath.Join(filepath.Dir(bed.podtask), "podtask-user-generator"), "-no-kmsg-log", out)
	generator.Env = append(os.Environ(), "PODTASK_UNIT_DIRS="+units, "PODTASK_PROGRAM="+bed.podtask)
	if err := generator.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(patience, func() { _ = generator.Process.Kill() })
	_ = generator.Wait() // 1 because of the units with problems
	if !late.Stop() || generator.ProcessState.ExitCode() != 1 {
		t.Fatalf("the generator ended as %s", generator.ProcessState)
	}
	services, err := filepath.Glob(filepath.Join(out, "*.service"))
	if err != nil || len(services) < 100 {
		t.Fatalf("%d services, %v", len(services), err)
	}
	t.Logf("%d services of 3000 units in %s of processor time", len(services), generator.ProcessState.UserTime())
	said, _ := exec.Command("systemd-analyze", append([]string{"--user", "verify", "--recursive-errors=no"}, services[:100]...)...).CombinedOutput()
	for line := range strings.Lines(string(said)) {
		if strings.Contains(line, "injected is not executable") || strings.Contains(line, "ommand /injected") {
			t.Errorf("systemd-analyze: %s", line)
		}
	}
}
