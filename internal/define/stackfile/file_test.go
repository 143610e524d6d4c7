package stackfile

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/define/short"
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
	if f.Name != "shop" || !slices.Equal(web.Settings, []string{"--count=2", "--listen=8080=web:80", "--listen=127.0.0.1:8081=web:81"}) || web.After[0] != (short.Dependency{Name: "migrate", Is: "completed", Line: 9, Col: 13}) {
		t.Errorf("%+v", f)
	}
	if m := f.Members[1]; !m.Job || m.Service != "migrate" || m.After[0] != (short.Dependency{Name: "db", Line: 4, Col: 66}) || m.Line != 4 {
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
	for _, want := range []string{"stack.yaml:1:1: there is no key", "stack.yaml:3:9: there is no key", `stack.yaml:3:3: the member "web" has neither a file nor an image`, "stack.yaml:4:30: count is a whole number", "stack.yaml:4:48: it waits until", "stack.yaml:5:6: the member"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}

// A member with an image is a container in the short form; settings of services stay flags, with the words of Compose too.
func TestTimes(t *testing.T) {
	t.Parallel()
	f, problems := Parse("stack.yaml", []byte("members:\n  report: {image: i, at: ['Mon 03:00', rate(1 hour)], catch-up: true, memory: 64m}\n"))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if m := f.Members[0]; !slices.Equal(m.Times, []string{"--at=Mon 03:00", "--at=rate(1 hour)", "--catch-up=true"}) || !slices.Equal(m.Settings, []string{"--memory=64m"}) {
		t.Errorf("%+v", m)
	}
	if _, problems := Parse("f", []byte("members: {a: {image: i, at: daily, catch-up: maybe}}")); len(problems) != 1 || !strings.Contains(problems[0].String(), "catch-up is true or false") {
		t.Error(problems)
	}
	if !IsOfServices("--count=2") || IsOfServices("--memory=64m") || IsOfServices("--at=daily") {
		t.Error("the keys of services are others")
	}
}

func TestInline(t *testing.T) {
	t.Parallel()
	f, problems := Parse("stack.yaml", []byte("members:\n  web: {image: i, ports: [80], environment: {A: b}, count: 2, depends_on: [db]}\n  db: {image: j}\n"))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	web := f.Members[0]
	if got := string(web.Inline.JSON()); got != `{"containers":{"web":{"image":"i","ports":[80]}}}` || !slices.Equal(web.Settings, []string{"--env=A=b", "--count=2"}) || web.After[0].Name != "db" {
		t.Errorf("%s %+v", got, web)
	}
	for src, want := range map[string]string{
		"members: {a: {ports: [80], file: f}}":           "ports is a key of a member with an image",
		"members: {a: {ports: [80]}}":                    "has neither a file nor an image",
		"members: {a: {image: i, containerPort: 80}}":    `no key "containerPort" here`,
		"members: {a: {image: i, workingDirectory: /a}}": "write working_dir",
	} {
		if _, problems := Parse("f", []byte(src)); len(problems) != 1 || !strings.Contains(problems[0].String(), want) {
			t.Errorf("%s: %v", src, problems)
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
	f.Add([]byte("members: {a: {image: i, ports: [80], env: {A: b}}}"))
	f.Fuzz(func(t *testing.T, src []byte) {
		got, problems := Parse("stack.yaml", src)
		if len(problems) == 0 && len(got.Members) == 0 {
			t.Error("a stack without members is valid")
		}
	})
}
