package convert_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/dotenv"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/podtask/podtask/internal/define/composefile"
	"github.com/podtask/podtask/internal/define/convert"
	"github.com/podtask/podtask/internal/define/convert/compose"
	"github.com/podtask/podtask/internal/define/convert/quadlet"
	"github.com/podtask/podtask/internal/unitfile/taskunit"
	"github.com/podtask/podtask/pkg/taskdef"
)

// A file of testdata/cases has files of other programs, the first of which is read or
// converted, and what is to come of it: lines of the definition and of the unit, all losses, files, or an error.
func TestCasesOfOtherPrograms(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/cases/*.txtar")
	if err != nil || len(files) < 23 {
		t.Fatalf("%d cases, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			dir, first := t.TempDir(), ""
			want := map[string]string{}
			for _, f := range a.Files {
				if name, ok := strings.CutPrefix(f.Name, "want/"); ok {
					want[name] = strings.ReplaceAll(string(f.Data), "DIR", dir)
					continue
				}
				if first == "" {
					first = f.Name
				}
				if err := os.WriteFile(filepath.Join(dir, f.Name), f.Data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			r, err := readCase(t, filepath.Join(dir, first))
			checkCase(t, r, err, want)
		})
	}
}

// readCase reads a definition, or converts what is none.
func readCase(t *testing.T, file string) (convert.Result, error) {
	t.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	switch filepath.Ext(file) {
	case ".container":
		return quadlet.Convert("x", []taskunit.File{taskunit.Read(file, string(src))}, quadlet.Manager{User: "ann", UID: "1000", Group: "ann", GID: "1000", Home: "/srv/home/ann", Runtime: "/run/user/1000", Config: "/srv/home/ann/.config"})
	case ".json":
		task, _, err := taskdef.Parse(filepath.Base(file), src)
		if err != nil {
			return convert.Result{}, err
		}
		text, err := json.Marshal(task)
		return convert.Result{Definition: text}, err
	}
	vars := map[string]string{}
	if env, err := os.ReadFile(filepath.Join(filepath.Dir(file), ".env")); err == nil {
		if vars, err = dotenv.ParseWithLookup(bytes.NewReader(env), nil); err != nil {
			t.Fatal(err)
		}
	}
	return compose.Convert(file, "x", src, compose.Options{Load: composefile.Load, Override: compose.Override(file), Lookup: func(name string) (string, bool) { v, ok := vars[name]; return v, ok }})
}

func checkCase(t *testing.T, r convert.Result, err error, want map[string]string) {
	t.Helper()
	if message, fails := want["error"]; fails {
		if err == nil || !strings.Contains(err.Error(), strings.TrimSpace(message)) {
			t.Errorf("the error is %v, want %s", err, message)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"definition": string(r.Definition), "unit": r.Unit} {
		for line := range strings.Lines(want[name]) {
			if line = strings.TrimSpace(line); !strings.Contains(text, line) {
				t.Errorf("the %s has no %s:\n%s", name, line, text)
			}
		}
	}
	if lost, told := want["lost"]; told {
		if diff := cmp.Diff(strings.TrimSpace(lost), strings.Join(r.Lost, "\n")); diff != "" {
			t.Error(diff)
		}
	}
	for _, f := range r.Files {
		if diff := cmp.Diff(strings.TrimSpace(want["file/"+f.Name]), strings.TrimSpace(string(f.Data))); diff != "" {
			t.Errorf("%s: %s", f.Name, diff)
		}
		delete(want, "file/"+f.Name)
	}
	for name := range want {
		if strings.HasPrefix(name, "file/") {
			t.Errorf("there is no %s", name)
		}
	}
}
