package strictdoc_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/internal/define/strictdoc"
)

type pet struct {
	Name string   `json:"name" need:"true" doc:"its name"`
	Kind string   `json:"kind" enum:"cat|dog"`
	Age  int      `json:"age" min:"0" max:"40"`
	Size float64  `json:"size"`
	Tame bool     `json:"tame"`
	Eats []string `json:"eats"`
}

func (p *pet) Check(at strictdoc.Place) {
	if p.Name == "Fish" {
		at.At("name").Problem("choose another", "a pet cannot be called Fish")
	}
}

type home struct {
	Pets  []pet             `json:"pets"`
	Signs map[string]string `json:"signs"`
	Best  *pet              `json:"best"`
	Since time.Time         `json:"since"`
}

func TestDecode(t *testing.T) {
	t.Parallel()
	var got home
	problems := strictdoc.Decode("h.yaml", []byte(`
pets:
- {name: Tom, kind: cat, age: 3, size: 0.5, tame: true, eats: [mice, 7]}
- name: Rex
  eats: bones
signs: {door: "beware"}
best: {name: Tom}
since: 2026-01-02T03:04:05Z
`), &got)
	want := home{
		Pets:  []pet{{"Tom", "cat", 3, 0.5, true, []string{"mice", "7"}}, {Name: "Rex", Eats: []string{"bones"}}},
		Signs: map[string]string{"door": "beware"}, Best: &pet{Name: "Tom"}, Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
	if diff := cmp.Diff(want, got); diff != "" || len(problems) > 0 {
		t.Errorf("%v %s", problems, diff)
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	problems := strictdoc.Decode("h.yaml", []byte(`pets:
- {nmae: Tom, kind: cow, age: 99, size: big, tame: maybe}
- {name: Fish}
- {name: Tom, age: 1.5}
best: []
since: today
`), new(home))
	var lines []string
	for _, p := range problems {
		lines = append(lines, p.String())
	}
	want := []string{
		`h.yaml:2:3: /pets/0: the member name is missing`,
		`h.yaml:2:4: /pets/0/nmae: there is no member "nmae" here; did you mean "name"?`,
		`h.yaml:2:21: /pets/0/kind: kind: the value is one of cat, dog, not "cow"`,
		`h.yaml:2:31: /pets/0/age: age: the number is 0 to 40, not 99`,
		`h.yaml:2:41: /pets/0/size: size: a number is expected here, not text`,
		`h.yaml:2:52: /pets/0/tame: tame: true or false is expected here, not text; write true or false`,
		`h.yaml:3:10: /pets/1/name: a pet cannot be called Fish; choose another`,
		`h.yaml:4:20: /pets/2/age: age: a whole number is expected here, not 1.5`,
		`h.yaml:5:7: /best: best: an object with members is expected here, not a list`,
	}
	if len(lines) != len(want)+1 || !strings.HasPrefix(lines[len(lines)-1], "h.yaml:6:8: /since: since: ") {
		t.Fatalf("%s", strings.Join(lines, "\n"))
	}
	if diff := cmp.Diff(want, lines[:len(want)]); diff != "" {
		t.Error(diff)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("pets: [{name: a}]"))
	f.Add([]byte(`{"best": {"age": 1e99}, "since": {}}`))
	f.Fuzz(func(t *testing.T, src []byte) {
		for _, p := range strictdoc.Decode("f", src, new(home)) {
			if p.File != "f" || p.Message == "" {
				t.Errorf("a problem without a place or words: %+v", p)
			}
		}
	})
}
