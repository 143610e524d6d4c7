package stackfile

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/testing/schemafile"
)

func TestParse(t *testing.T) {
	t.Parallel()
	src := `name: shop
members:
  db: {file: db.json, map-volume: data=podman:shop_data}
  migrate: {file: web.json, service: migrate, job: true, after: [db]}
  web:
    file: web.json
    count: 2
    listen: [8080=web:80, 127.0.0.1:8081=web:81]
    after: {migrate: completed}
`
	f, problems := Parse("stack.yaml", []byte(src))
	if len(problems) > 0 || !Is([]byte(src)) {
		t.Fatal(problems)
	}
	web := f.Members[2]
	if f.Name != "shop" || !slices.Equal(web.Settings, []string{"--count=2", "--listen=8080=web:80", "--listen=127.0.0.1:8081=web:81"}) || web.After[0] != (After{"migrate", "completed", 9}) {
		t.Errorf("%+v", f)
	}
	if m := f.Members[1]; !m.Job || m.Service != "migrate" || m.After[0] != (After{Name: "db", Line: 4}) || m.Line != 4 {
		t.Errorf("%+v", m)
	}
}

// All problems of a file are reported at once, each with its place.
func TestProblems(t *testing.T) {
	t.Parallel()
	_, problems := Parse("stack.yaml", []byte("nam: shop\nmembers:\n  web: {fil: web.json}\n  db: {file: db.json, count: two, after: {web: ready}}\n  x: 1\n"))
	var all []string
	for _, p := range problems {
		all = append(all, p.String())
	}
	text := strings.Join(all, "\n")
	for _, want := range []string{"stack.yaml:1:1: there is no key", "stack.yaml:3:9: there is no key", `stack.yaml:3:3: the member "web" has no file`, "stack.yaml:4:30: count is a whole number", "stack.yaml:4:48: a member waits until", "stack.yaml:5:6: the member"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}

func TestSchemaFile(t *testing.T) {
	t.Parallel()
	schemafile.Check(t, filepath.Join("..", "..", "..", "docs"), SchemaID, Schema())
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("name: a\nmembers: {a: {file: b, count: 1, after: [c]}}"))
	f.Add([]byte("members: {a: {after: {b: healthy}, listen: [1, {}]}}"))
	f.Fuzz(func(t *testing.T, src []byte) {
		got, problems := Parse("stack.yaml", src)
		if len(problems) == 0 && len(got.Members) == 0 {
			t.Error("a stack without members is valid")
		}
	})
}
