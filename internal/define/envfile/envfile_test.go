package envfile

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/pkg/taskdef"
)

func TestEnvironmentFilesComeBelowTheDefinitionAndEarlierOnesFirst(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) taskdef.EnvironmentFile {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return taskdef.EnvironmentFile{Path: path}
	}
	task := taskdef.Task{Containers: []taskdef.Container{{
		Name:        "app",
		Environment: []taskdef.EnvVar{{Name: "SET", Value: "definition"}},
		Secrets:     []taskdef.Secret{{Name: "TOKEN"}},
		EnvironmentFiles: []taskdef.EnvironmentFile{
			file("a.env", "# comment\n\nSET=a\nBOTH=first\nTOKEN=a\nQUOTED=\"x\" \r\n"),
			file("b.env", "\ufeffBOTH=second\nLAST=b=c"),
			file("c.env", "\ufeffMARKED=1\r\n"),
		},
	}}}
	got, err := Read(t.Context(), nil, task)
	if err != nil {
		t.Fatal(err)
	}
	want := []taskdef.EnvVar{{Name: "SET", Value: "definition"}, {Name: "BOTH", Value: "first"}, {Name: "QUOTED", Value: `"x" `}, {Name: "LAST", Value: "b=c"}, {Name: "MARKED", Value: "1"}}
	if diff := cmp.Diff(got.Containers[0].Environment, want); diff != "" {
		t.Errorf("-got +want:\n%s", diff)
	}
	if len(task.Containers[0].Environment) != 1 {
		t.Error("the task itself was changed")
	}
}

func TestEveryEnvironmentFileThatCannotBeReadIsNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.env")
	if err := os.WriteFile(bad, []byte("A=1\nhunter2 without equals\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	long, pipe := filepath.Join(dir, "long.env"), filepath.Join(dir, "pipe.env")
	if err := os.WriteFile(long, []byte(strings.Repeat("A=hunter2\n", maxEnvironment/10+1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Read(t.Context(), nil, taskdef.Task{Containers: []taskdef.Container{
		{Name: "a", EnvironmentFiles: []taskdef.EnvironmentFile{{Path: filepath.Join(dir, "none.env")}, {Path: bad}}},
		{Name: "b", EnvironmentFiles: []taskdef.EnvironmentFile{{Path: dir}, {Path: long}, {Path: pipe}}},
	}})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"none.env", "bad.env: line 2", "container b", "long.env: the file has more than 1048576 bytes", "pipe.env is not a regular file"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error quotes the file: %v", err)
	}
}

func FuzzParseEnvironment(f *testing.F) {
	for _, text := range []string{"A=1\n", "# c\n\nA=b=c\r\n", "=x", "A", "A B=1", "A=\x00", strings.Repeat("A", 100)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		vars, err := Parse(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, v := range vars {
			if v.Name == "" || strings.ContainsAny(v.Name, "= \t\n") || strings.ContainsAny(v.Value, "\n\x00") {
				t.Errorf("%q gives %+v", text, v)
			}
		}
	})
}
