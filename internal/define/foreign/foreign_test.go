package foreign_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/define/foreign"
	"github.com/podtask/podtask/pkg/taskdef"
)

// request reads the file "args" of a case: the file to read, then FLAG VALUE lines.
func request(t *testing.T, dir string) foreign.Request {
	t.Helper()
	args, err := os.ReadFile(filepath.Join(dir, "args"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(args)), "\n")
	q := foreign.Request{File: lines[0], Base: lines[0], Params: map[string]string{}}
	env := map[string]string{}
	q.Getenv = func(name string) string { return env[name] }
	for _, line := range lines[1:] {
		flag, value, _ := strings.Cut(line, " ")
		key, v, _ := strings.Cut(value, "=")
		switch flag {
		case "param":
			q.Params[key] = v
		case "env":
			env[key] = v
		case "service":
			q.Service = value
		case "environment":
			q.Environment = value
		case "name":
			q.Name = value
		default:
			t.Fatalf("%s: no flag %q", dir, flag)
		}
	}
	if q.Source, err = os.ReadFile(filepath.Join(dir, lines[0])); err != nil {
		t.Fatal(err)
	}
	q.Open = func(name string) ([]byte, error) {
		src, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, errors.New("there is no such file")
		}
		return src, nil
	}
	return q
}

// text writes what came of a file.
func text(t *testing.T, r foreign.Result, err error) string {
	t.Helper()
	var b strings.Builder
	if err != nil {
		return err.Error() + "\n"
	}
	fmt.Fprintf(&b, "%s: %s\n", r.Kind, r.Name)
	source := []byte(nil)
	if r.Definition != nil {
		source = r.Definition.JSON()
		var out bytes.Buffer
		if err := json.Indent(&out, source, "", "  "); err != nil {
			t.Fatal(err)
		}
		b.WriteString(out.String() + "\n")
	}
	for i, d := range r.Documents {
		if i > 0 {
			source = append(source, "\n---\n"...)
		}
		source = append(source, d.JSON()...)
		fmt.Fprintf(&b, "document %s %s\n", d.Member("kind").Text, d.Member("metadata").Member("name").Text)
	}
	name := "x.json"
	if r.Documents != nil {
		name = "x.yaml"
	}
	read, err := define.Reader{}.Read(define.Document{Name: name, Dir: "/srv", Source: source}, define.Changes{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range read.Problems {
		fmt.Fprintf(&b, "PROBLEM %s\n", r.Locate(p, source))
	}
	if r.Service != nil {
		fmt.Fprintf(&b, "podtask service create %s FILE %s\n", r.Name, foreign.Shell(r.Service.Flags...))
	}
	for _, s := range r.Schedules {
		fmt.Fprintf(&b, "podtask schedule create %s FILE %s\n", s.Name, foreign.Shell(s.Flags...))
	}
	list := func(what string, problems []taskdef.Problem) {
		for _, p := range problems {
			fmt.Fprintf(&b, "%s: %s\n", what, p)
		}
	}
	list("Lost", r.Lost)
	for _, p := range read.Warnings {
		fmt.Fprintf(&b, "Lost: %s\n", r.Locate(p, source))
	}
	for _, p := range read.Needs {
		fmt.Fprintf(&b, "Needs: %s\n", r.Locate(p, source))
	}
	return b.String()
}

// TestFiles reads the files below testdata, each case with its arguments and what is expected of it.
func TestFiles(t *testing.T) {
	t.Parallel()
	cases, err := filepath.Glob(filepath.Join("testdata", "*", "*", "args"))
	if err != nil || len(cases) == 0 {
		t.Fatal(cases, err)
	}
	for _, args := range cases {
		dir := filepath.Dir(args)
		t.Run(strings.TrimPrefix(dir, "testdata/"), func(t *testing.T) {
			t.Parallel()
			r, err := foreign.Read(request(t, dir))
			got := text(t, r, err)
			golden := filepath.Join(dir, "want")
			if os.Getenv("UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Error(diff)
			}
			if strings.Contains(got, "PROBLEM") {
				t.Error("the definition is not valid")
			}
		})
	}
}
