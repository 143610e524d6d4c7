package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/importer"
	"github.com/podtask/podtask/internal/define/composefile"
	"github.com/podtask/podtask/internal/define/convert/compose"
	"github.com/podtask/podtask/internal/parts"
	"github.com/podtask/podtask/internal/unitfile/taskunit"
)

// Compose files of realistic size become definitions that are valid, and what is lost of each
// is in its file lost. At night they run, with podtask and with podman-compose
// (TestComposeFilesSideBySide).
func TestComposeFilesAreImported(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../test/e2e/testdata/compose/*/*compose.y*ml")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d Compose files, %v", len(files), err)
	}
	for _, file := range files {
		dir := filepath.Dir(file)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			run := func(want int, args ...string) (stderr string) {
				var out, problems bytes.Buffer
				getenv := func(name string) string {
					return map[string]string{"HOME": home, "IMAGE": "registry.example/testbox:1"}[name]
				}
				p := &command.Program{Executable: withCompose(t), Stdin: strings.NewReader(""), Stdout: &out, Stderr: &problems, Getenv: getenv, Environ: func() []string {
					return []string{"HOME=" + home, "IMAGE=registry.example/testbox:1"}
				}}
				if code := runLine(t.Context(), p, parts.Build(), append([]string{"podtask"}, args...)); code != want {
					t.Fatalf("%v ends with %d:\n%s%s", args, code, &out, &problems)
				}
				return problems.String()
			}
			args := []string{"import", "--output", home}
			for profile := range strings.Lines(text(t, filepath.Join(dir, "profiles"))) {
				args = append(args, "--profile", strings.TrimSpace(profile))
			}
			lost, next, _ := strings.Cut(run(0, append(args, filepath.Join(private(t, dir), filepath.Base(file)))...), "Next: ")
			if want := "podtask run -d --wait=healthy --name " + filepath.Base(dir) + " "; !strings.HasPrefix(next, want) && !strings.HasPrefix(next, "podtask service create") {
				t.Errorf("the next command is %q, want %q", next, want)
			}
			golden := filepath.Join(dir, "lost")
			if os.Getenv("UPDATE_GOLDEN") != "" && lost != text(t, golden) {
				if err := os.WriteFile(golden, []byte(lost), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(text(t, golden), lost); diff != "" {
				t.Error(diff)
			}
			name := filepath.Join(home, filepath.Base(dir))
			run(0, "validate", "--strict", name+".json")
			unit := taskunit.Source{Name: filepath.Base(name) + ".task", File: taskunit.Read(name+".task", text(t, name+".task"))}
			if services, problems := taskunit.Generate([]taskunit.Source{unit}, taskunit.Options{Program: "podtask"}); len(services) != 1 || len(problems) > 0 {
				t.Errorf("the unit makes %d services: %v", len(services), problems)
			}
			definition := text(t, name+".json")
			for line := range strings.Lines(text(t, filepath.Join(dir, "observe"))) {
				if words := strings.Fields(line); words[1] == "env" && !slices.Contains([]string{"TIER", "REGION", "QUOTED"}, words[2]) && !strings.Contains(definition, `"name": "`+words[2]+`"`) {
					t.Errorf("%s is not in the definition", words[2])
				}
			}
		})
	}
}

func TestNameOfAComposeFile(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ file, first, name string }{
		{"compose.yaml", "name: shop\n", "shop"},
		{"docker-compose.yml", "name: shop\n", "shop"},
		{"compose.yaml", "", "dir"},
		{"compose.yaml", "name: ${PROJECT}\n", "dir"}, // it may be another tomorrow
		{"other.yaml", "name: shop\n", "other"},
	} {
		dir := filepath.Join(t.TempDir(), "dir")
		file := filepath.Join(dir, tt.file)
		if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(file, []byte(tt.first+"services: {app: {image: registry.example/app}}\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
		var out, problems bytes.Buffer
		p := &command.Program{Executable: withCompose(t), Stdin: strings.NewReader(""), Stdout: &out, Stderr: &problems, Getenv: func(string) string { return "" }, Environ: func() []string { return nil }}
		if code := runLine(t.Context(), p, parts.Build(), []string{"podtask", "import", "--dry-run", file}); code != 0 || !strings.HasPrefix(out.String(), "---"+tt.name+".json---") {
			t.Errorf("%s with %q: %d %s%s", tt.file, tt.first, code, &out, &problems)
		}
	}
}

// TestComposeFilesAreReadAsDefinitions: what a command says of a Compose file is what it says of the definition that import writes, and of what
// is lost.
func TestComposeFilesAreReadAsDefinitions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := func(stdin string, args ...string) (code int, out, problems string) {
		var o, e bytes.Buffer
		p := &command.Program{Executable: withCompose(t), Stdin: strings.NewReader(stdin), Stdout: &o, Stderr: &e, Getenv: func(name string) string {
			return map[string]string{"HOME": dir}[name]
		}, Environ: func() []string { return []string{"HOME=" + dir, "TAG=2", "TOKEN=one\ntwo"} }}
		code = runLine(t.Context(), p, parts.Build(), append([]string{"podtask"}, args...))
		return code, o.String(), e.String()
	}
	for _, test := range []struct {
		name, text string
		code       int
		want       []string
	}{
		{"valid.yaml", "services:\n  web:\n    image: registry.example/web:${TAG}\n    networks: [a]\nnetworks: {a: {}}\n", 0, []string{"Warning: Lost: ", ":4: web.networks"}},
		{"copies.yaml", "services:\n  web: {image: registry.example/web, deploy: {replicas: 3}, pids_limit: 10}\n", 0, []string{"--count 3", "--pids-limit 10"}},
		{"unknown.yaml", "services:\n  web: {image: registry.example/web, restat: always}\n", command.ExitOwnFailure, []string{"unknown.yaml:2: ", `did you mean "restart"?`}},
		{"secret.yaml", "services:\n  web: {image: registry.example/web, configs: [t]}\nconfigs: {t: {content: \"${TOKEN}\"}}\n", command.ExitOwnFailure, []string{"podtask import", "podtask stack up"}},
		{"pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: services, image: registry.example/web}]}\n", 0, nil},
	} {
		file := filepath.Join(dir, test.name)
		if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, problems := run("", "validate", file)
		if code != test.code || strings.Contains(problems, "one\ntwo") {
			t.Errorf("%s: %d %s%s", test.name, code, out, problems)
		}
		for _, want := range test.want {
			if !strings.Contains(problems, want) {
				t.Errorf("%s: without %q: %s", test.name, want, problems)
			}
		}
	}
	if code, out, problems := run("services: {web: {image: registry.example/web}}\n", "plan", "-"); code != 0 || !strings.Contains(out, "registry.example/web") {
		t.Errorf("standard input: %d %s%s", code, out, problems)
	}
	if code, _, problems := run("", "validate", "--strict", filepath.Join(dir, "valid.yaml")); code != command.ExitInvalid {
		t.Errorf("--strict: %d %s", code, problems)
	}
}

// serveCompose is podtask-compose, which this test program is under that name.
func serveCompose() {
	if err := compose.Serve(os.Stdin, os.Stdout, composefile.Load); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// withCompose returns the executable of a program that has podtask-compose beside it.
func withCompose(t *testing.T) func() (string, error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(self, filepath.Join(dir, importer.ComposeProgram)); err != nil {
		t.Fatal(err)
	}
	return func() (string, error) { return filepath.Join(dir, "podtask"), nil }
}

// text is the content of a file; empty if there is none.
func text(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(data)
}

// private copies a directory, with files that only their owner can read: a checkout gives them the modes of its umask, and
// secrets of other modes are listed.
func private(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), filepath.Base(dir))
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(to, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		return os.Chmod(path, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}
