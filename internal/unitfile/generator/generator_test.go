package generator

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const good, bad = "[Task]\nDefinition=./web.json\n[Install]\nWantedBy=default.target\n", "[Task]\nDefinition=./web.json\nFoo=1\n"

// generate runs the program on units given as name and text in turn.
func generate(t *testing.T, args []string, units ...string) (code int, stdout, stderr string) {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(units); i += 2 {
		if err := os.WriteFile(filepath.Join(dir, units[i]), []byte(units[i+1]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var out, errs bytes.Buffer
	g := &generator{stdout: &out, stderr: &errs, uid: 1000, version: "1.2.3", executable: func() (string, error) { return "/opt/gen", nil },
		getenv: func(k string) string { return map[string]string{"PODTASK_UNIT_DIRS": dir}[k] }}
	code = g.main(append([]string{"podtask-user-generator"}, args...))
	return code, out.String(), errs.String()
}

func TestDryRun(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{{"-dryrun"}, {"--dryrun", "-user"}, {"-no-kmsg-log", "-v", "-dryrun"}} {
		code, out, errs := generate(t, flags, "bad.task", bad, "good.task", good)
		if code != 1 || !strings.HasPrefix(out, "---good-task.service---\n# Automatically generated for podtask by /opt/gen\n[Unit]\n") || strings.Contains(out, "bad") {
			t.Errorf("%q: exit code %d, stdout\n%s", flags, code, out)
		}
		if !strings.Contains(errs, "bad.task:3: there is no key Foo in [Task]") {
			t.Errorf("%q: stderr %s", flags, errs)
		}
		if said := strings.Contains(errs, "2 units in 1 directories make 1 services"); said != slices.Contains(flags, "-v") {
			t.Errorf("%q: stderr %s", flags, errs)
		}
	}
	if code, out, errs := generate(t, []string{"-dryrun"}, "good.task", good); code != 0 || out == "" || errs != "" {
		t.Errorf("a good unit: exit code %d, %q", code, errs)
	}
}

func TestWritesForSystemd(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "generator")
	code, out, errs := generate(t, []string{"-no-kmsg-log", dir, dir + ".early", dir + ".late"}, "good.task", good, "bad.task", bad)
	if code != 1 || out != "" || !strings.Contains(errs, "bad.task:3") {
		t.Errorf("exit code %d, %q, %q", code, out, errs)
	}
	if target, err := os.Readlink(dir + "/default.target.wants/good-task.service"); err != nil || target != "../good-task.service" {
		t.Errorf("link: %q, %v", target, err)
	}
	if _, err := os.Stat(dir + ".early"); err == nil {
		t.Error("it wrote to the second directory")
	}
}

func TestNothingToDo(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "generator")
	if code, _, errs := generate(t, []string{"-no-kmsg-log", dir}); code != 0 || errs != "" {
		t.Errorf("exit code %d, %q", code, errs)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	if code, out, _ := generate(t, []string{"-version"}); code != 0 || out != "1.2.3\n" {
		t.Errorf("-version: %d, %q", code, out)
	}
	if code, _, errs := generate(t, []string{"-no-kmsg-log"}); code != 1 || !strings.Contains(errs, "no directory") {
		t.Errorf("no directory: %d, %q", code, errs)
	}
	if code, _, _ := generate(t, []string{"-nonsense"}); code != 1 {
		t.Errorf("an unknown flag: %d", code)
	}
}

func BenchmarkGenerator(b *testing.B) {
	dir := b.TempDir()
	for _, n := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
		if err := os.WriteFile(filepath.Join(dir, n+".task"), []byte(good), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	g := &generator{stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}, uid: 1000, executable: os.Executable,
		getenv: func(k string) string { return map[string]string{"PODTASK_UNIT_DIRS": dir}[k] }}
	for b.Loop() {
		g.stdout.(*bytes.Buffer).Reset()
		if code := g.main([]string{"g", "-dryrun"}); code != 0 {
			b.Fatal(code)
		}
	}
}

// BenchmarkAgainstQuadlet runs the program and Podman's own generator in turn, each as
// systemd does, on ten units, and the program once more where there is no unit. The
// metrics are milliseconds of each, by the clock from start to end, and "of-quadlet" our
// time as a share of Quadlet's. A start is to take less than 20 ms.
func BenchmarkAgainstQuadlet(b *testing.B) {
	dir := b.TempDir()
	ours := filepath.Join(dir, "podtask-user-generator")
	quadlet := filepath.Join(dir, "quadlet")
	for program, pkg := range map[string]string{ours: "github.com/podtask/podtask/cmd/podtask-user-generator", quadlet: "github.com/containers/podman/v5/cmd/quadlet"} {
		build := exec.Command("go", "build", "-tags", "remote containers_image_openpgp", "-ldflags", "-s -w", "-o", program, pkg)
		if out, err := build.CombinedOutput(); err != nil {
			b.Fatalf("%v: %v %s", build.Args, err, out)
		}
	}
	for i := range 10 {
		for ext, text := range map[string]string{".task": good, ".container": "[Container]\nImage=registry.example/web:1\n[Install]\nWantedBy=default.target\n"} {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("web%d%s", i, ext)), []byte(text), 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	out := filepath.Join(dir, "services")
	none := b.TempDir()
	var spent [3]time.Duration
	for b.Loop() {
		if err := os.RemoveAll(out); err != nil { // systemd's are empty
			b.Fatal(err)
		}
		for i, run := range []struct {
			units   string
			command []string
		}{{dir, []string{ours, out + "/ours"}}, {dir, []string{quadlet, "-user", out + "/quadlet"}}, {none, []string{ours, out + "/none"}}} {
			cmd := exec.Command(run.command[0], append([]string{"-no-kmsg-log"}, run.command[1:]...)...)
			cmd.Env = append(os.Environ(), "PODTASK_UNIT_DIRS="+run.units, "QUADLET_UNIT_DIRS="+run.units)
			begin := time.Now()
			if text, err := cmd.CombinedOutput(); err != nil {
				b.Fatalf("%v: %v %s", cmd.Args, err, text)
			}
			spent[i] += time.Since(begin)
		}
	}
	for _, made := range []string{"ours/web9-task.service", "quadlet/web9.service"} {
		if _, err := os.Stat(filepath.Join(out, made)); err != nil {
			b.Error(err)
		}
	}
	for i, name := range []string{"ms-ours", "ms-quadlet", "ms-start"} {
		b.ReportMetric(spent[i].Seconds()*1e3/float64(b.N), name)
	}
	b.ReportMetric(0, "ns/op") // of all three
	b.ReportMetric(float64(spent[0])/float64(spent[1]), "of-quadlet")
}

// Units with very many problems do not fill the log.
func TestFewProblemsAreLogged(t *testing.T) {
	t.Parallel()
	unit := "[Task]\n" + strings.Repeat("Foo=1\n", 3000)
	_, _, logged := generate(t, []string{"-no-kmsg-log", t.TempDir()}, "bad.task", unit)
	_, _, printed := generate(t, []string{"-dryrun"}, "bad.task", unit)
	if n := strings.Count(logged, "\n"); n > maxLogged+2 || !strings.Contains(logged, "more problems") {
		t.Errorf("%d lines are logged", n)
	}
	if n := strings.Count(printed, "\n"); n < 3000 {
		t.Errorf("%d lines are printed", n)
	}
}
