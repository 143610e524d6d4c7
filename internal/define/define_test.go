package define

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/pkg/taskdef"
)

// The message alone says what is missing: a node of Kubernetes writes nothing else into a Pod's status.
func TestWhatIsLeftOpenIsNamed(t *testing.T) {
	t.Parallel()
	err := error(&NeedsError{Needs: []taskdef.Problem{
		{File: "pod.yaml", Pointer: "/spec/volumes/0", Message: "the claim database is not known", Fix: "give a path"},
		{Pointer: "/spec/volumes/1", Message: "the claim cache is not known"},
	}})
	for _, want := range []string{"/spec/volumes/0: the claim database is not known; give a path", "/spec/volumes/1: the claim cache"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %q", want, err)
		}
	}
}

// A definition in the short form is read, judged and kept like one of ECS, and what is said of it has its place in the file.
func TestReadShort(t *testing.T) {
	t.Parallel()
	read := func(src string) Definition {
		t.Helper()
		d, err := Reader{}.Read(Document{Name: "web.yaml", Dir: "/app", Source: []byte(src)}, Changes{})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := read("containers:\n  web:\n    image: localhost/web\n    ports: [80]\n    volumes: ['./site:/site']\n")
	long, err := Reader{}.Read(Document{Name: "web.json", Source: d.Text()}, Changes{})
	if err != nil || d.Err() != nil || long.Err() != nil {
		t.Fatal(err, d.Err(), long.Err())
	}
	same := func(a, b any) bool {
		x, _ := json.Marshal(a)
		y, _ := json.Marshal(b)
		return string(x) == string(y)
	}
	one, err1 := d.Digest()
	two, err2 := long.Digest()
	if !same(d.Task, long.Task) || one != two || err1 != nil || err2 != nil || d.Task.Volumes[0].HostPath != "/app/site" {
		t.Errorf("%+v is not %+v", d.Task, long.Task)
	}
	d = read("containers:\n  web:\n    imag: Web\n    ports: ['99999:80']\n    after: [db]\n    memory: 1m\n")
	var got []string
	for _, p := range d.Problems {
		got = append(got, p.String())
	}
	for _, want := range []string{
		"web.yaml:3:5: /containers/web/imag: there is no key", `web.yaml:3:11: /containers/web/imag: image "Web" has upper-case`, "web.yaml:4:13: /containers/web/ports/0: ports: ",
		`web.yaml:5:13: /containers/web/after/0: no container named "db"`, "web.yaml:6:13: /containers/web/memory: 1 is out of range: it must be at least 6",
	} {
		if !slices.ContainsFunc(got, func(p string) bool { return strings.HasPrefix(p, want) }) {
			t.Errorf("no %q in:\n%s", want, strings.Join(got, "\n"))
		}
	}
}
