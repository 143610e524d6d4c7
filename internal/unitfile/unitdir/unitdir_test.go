package unitdir

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podtask/podtask/internal/unitfile/taskunit"
)

// tree makes files in a new directory and returns it.
func tree(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range files {
		path := filepath.Join(dir, f)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("[Task]\nDefinition=x.json\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestSearchOrder(t *testing.T) {
	t.Parallel()
	dir := tree(t, "run/containers/systemd/r.task", "own/h.task", "own/sub/deep/s.task", "own/x.task.d/d.conf",
		"admin/a.task", "admin/team/t.task", "admin/1000/mine.task", "admin/1000/in/m.task", "admin/1001/theirs.task",
		"vendor/1000/v.task", "vendor/1001/theirs.task")
	if err := os.Symlink(dir+"/own", dir+"/own/sub/loop"); err != nil {
		t.Fatal(err)
	}
	got := searchBelow(dir+"/own", dir+"/run", []string{dir + "/admin", dir + "/vendor"}, 1000)
	for i := range got {
		got[i] = strings.TrimPrefix(got[i], dir)
	}
	want := []string{"/run/containers/systemd", "/own", "/own/sub", "/own/sub/deep", "/admin", "/admin/1000", "/admin/1000/in", "/admin/team", "/vendor", "/vendor/1000"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSearchByEnvironment(t *testing.T) {
	t.Parallel()
	dir := tree(t, "a/b/x.task", "c/y.task")
	env := map[string]string{"PODTASK_UNIT_DIRS": dir + "/a:" + dir + "/none:" + dir + "/c", "HOME": dir}
	got, err := Search(func(k string) string { return env[k] }, 1000)
	if want := []string{dir + "/a", dir + "/a/b", dir + "/c"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	env["PODTASK_UNIT_DIRS"] = "units"
	if _, err := Search(func(k string) string { return env[k] }, 1000); err == nil {
		t.Error("a relative directory is accepted")
	}
}

func TestHome(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ config, home, want string }{
		{"/c", "/h", "/c/containers/systemd"},
		{"", "/h", "/h/.config/containers/systemd"},
		{"relative", "/h", "/h/.config/containers/systemd"},
		{"", "", ""},
	} {
		env := map[string]string{"XDG_CONFIG_HOME": tt.config, "HOME": tt.home}
		if got := Home(func(k string) string { return env[k] }); got != tt.want {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}

func TestLoadSurvivesOddFiles(t *testing.T) {
	t.Parallel()
	dir := tree(t, "good.task", "note.txt", "web.container")
	if err := os.Symlink("/dev/null", dir+"/masked.task"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir+"/nowhere", dir+"/broken.task"); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(dir+"/pipe.task", 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/big.task", make([]byte, maxSize+1), 0o644); err != nil {
		t.Fatal(err)
	}
	sources, problems := Load([]string{dir})
	var names, said []string
	for _, s := range sources {
		names = append(names, s.Name)
	}
	for _, p := range problems {
		said = append(said, strings.TrimPrefix(p.String(), dir+"/"))
	}
	if want := []string{"good.task", "masked.task", "web.container"}; !slices.Equal(names, want) {
		t.Errorf("read %q, want %q", names, want)
	}
	want := []string{"big.task: cannot be read: it is larger than 1 MiB", "broken.task: cannot be read: no such file or directory", "pipe.task: cannot be read: it is not a regular file"}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Error(diff)
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "generator")
	web := taskunit.Service{Name: "web-task.service", Text: "[Unit]\n", Source: "web.task", Links: []taskunit.Link{{Path: "default.target.wants/web-task.service", Target: "../web-task.service"}}}
	if err := Write(dir, []taskunit.Service{web}); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(dir + "/default.target.wants/web-task.service"); err != nil || string(text) != web.Text {
		t.Errorf("through the link: %q, %v", text, err)
	}
	other := taskunit.Service{Name: "db-task.service", Source: "db.task"}
	err := Write(dir, []taskunit.Service{{Name: web.Name, Text: "mine", Source: "other.task"}, other})
	if err == nil || !strings.Contains(err.Error(), "other.task") {
		t.Errorf("a file of another program: %v", err)
	}
	if text, _ := os.ReadFile(dir + "/web-task.service"); string(text) != web.Text {
		t.Errorf("it was overwritten: %q", text)
	}
	if _, err := os.Stat(dir + "/db-task.service"); err != nil {
		t.Errorf("the other service was not written: %v", err)
	}
}

func TestProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	self := func() (string, error) { return dir + "/podtask-user-generator", nil }
	env := map[string]string{}
	getenv := func(k string) string { return env[k] }
	if got := Program(getenv, self); got != "podtask" {
		t.Errorf("without a podtask beside it: %q", got)
	}
	if err := os.WriteFile(dir+"/podtask", nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := Program(getenv, self); got != dir+"/podtask" {
		t.Errorf("with one: %q", got)
	}
	env["PODTASK_PROGRAM"] = "/opt/podtask"
	if got := Program(getenv, self); got != "/opt/podtask" {
		t.Errorf("by the environment: %q", got)
	}
}

func TestSync(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	source := func(name, rest string) taskunit.Source {
		return taskunit.Source{Name: name, File: taskunit.Read("/units/"+name, "[Task]\nDefinition=x.json\n"+rest+"[Install]\nWantedBy=default.target\n")}
	}
	generate := func(sources ...taskunit.Source) []taskunit.Service {
		services, problems := taskunit.Generate(sources, taskunit.Options{Program: "podtask", Generator: "a test"})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		return services
	}
	if err := os.WriteFile(dir+"/mine.service", []byte("[Service]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	timed := taskunit.Source{Name: "timed.task", File: taskunit.Read("/units/timed.task", "[Task]\nDefinition=x.json\nOnCalendar=daily\n")}
	sleeps := taskunit.Source{Name: "sleeps.task", File: taskunit.Read("/units/sleeps.task", "[Task]\nDefinition=x.json\nPublishPort=127.0.0.1:8081:80\nListenStream=8080\n")}
	if err := Sync(dir, generate(source("a.task", ""), source("b.task", ""), timed, sleeps)); err != nil {
		t.Fatal(err)
	}
	for _, made := range []string{"timed-task.timer", "timers.target.wants/timed-task.timer", "sleeps-task.socket", "sockets.target.wants/sleeps-task.socket", "sleeps-task-proxy.service"} {
		if _, err := os.Stat(filepath.Join(dir, made)); err != nil {
			t.Error(err)
		}
	}
	if err := Sync(dir, generate(source("b.task", "Pull=never\n"), source("mine.task", "ServiceName=mine\n"))); err == nil || !strings.Contains(err.Error(), "mine.task") {
		t.Errorf("a service of another program is in the way: %v", err)
	}
	var left []string
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, _ error) error {
		if !d.IsDir() {
			left = append(left, strings.TrimPrefix(path, dir+"/"))
		}
		return nil
	})
	if want := []string{"b-task.service", "default.target.wants/b-task.service", "mine.service"}; !slices.Equal(left, want) {
		t.Errorf("there are %q, want %q", left, want)
	}
	if text, _ := os.ReadFile(dir + "/b-task.service"); !strings.Contains(string(text), "--pull=never") {
		t.Errorf("it was not renewed:\n%s", text)
	}
	if text, _ := os.ReadFile(dir + "/mine.service"); string(text) != "[Service]\n" {
		t.Errorf("the user's service was changed:\n%s", text)
	}
}

// Reading ends however much there is: directories without end, and files.
func TestUnitsAreBounded(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for i := range 60 {
		for j := range 20 {
			if err := os.MkdirAll(filepath.Join(root, fmt.Sprint(i), fmt.Sprint(j)), 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, loop := range []string{"loop", "1/loop"} {
		if err := os.Symlink(root, filepath.Join(root, loop)); err != nil {
			t.Fatal(err)
		}
	}
	large := "[Task]\nDefinition=" + strings.Repeat("a", 1<<20-100) + "\n"
	for i := range 30 {
		if err := os.WriteFile(filepath.Join(root, fmt.Sprintf("u%d.task", i)), []byte(large), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dirs, err := Search(func(string) string { return root }, 1000)
	if err != nil {
		t.Fatal(err)
	}
	sources, problems := Load(dirs)
	if len(dirs) > maxDirs || len(sources) > 18 {
		t.Errorf("%d directories and %d units are read", len(dirs), len(sources))
	}
	if len(problems) != 30-len(sources)+1 {
		t.Errorf("problems %v", problems)
	}
}
