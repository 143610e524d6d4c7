package toolfile

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

func TestMembersAreToldByATable(t *testing.T) {
	t.Parallel()
	table := NewTable(
		Honors("kept", "block", "block.known", "named", "named.*", "named.*.known"), Drops("dropped", "reason", "", "OFF"), Drops("gone", "reason", ""), MeansNothing("reason", "gone.part"), DropsSometimes("told", "reason", ""),
		MeansNothing("reason", "nothing", "nothing.part"), []Member{{Path: "refused", Decision: Refused, Why: "reason", Fix: "remove it"}},
	)
	for _, tc := range []struct{ rule, members, lost, problem string }{
		{"what is kept is not told", "kept: x", "", ""},
		{"what is dropped is", "dropped: x", "dropped: reason", ""},
		{"what is dropped is told as a whole", "gone: {part: x, other: y}", "gone: reason", ""},
		{"a neutral value loses nothing", "dropped: 'off'", "", ""},
		{"a member that says nothing loses nothing", "{dropped: [], unknown: {}, refused: false, other: 0}", "", ""},
		{"what the reader tells is not told twice", "told: x", "", ""},
		{"what has no meaning is not told", "nothing: {any: x}", "", ""},
		{"what is refused is a problem", "refused: x", "", "refused: reason; remove it"},
		{"a member that no table has is told", "novelty: x", "novelty: podtask does not know this member of it", ""},
		{"a member of a block is told with its path", "block: {known: x, novelty: x}", "block.novelty: podtask does not know this member of it", ""},
		{"so is one of an item of a list", "block: [{novelty: x}]", "block.novelty: podtask does not know this member of it", ""},
		{"what is in a member without parts is not looked at", "kept: {any: x}", "", ""},
		{"a name of the user is a star", "named: {web: {known: x, novelty: x}}", "named.*.novelty: podtask does not know this member of it", ""},
	} {
		n, r := parsed(t, tc.members)
		Teller{Reader: r, Table: table, What: "it"}.Tell(n)
		err := ""
		if r.Err() != nil {
			err = r.Err().Error()
		}
		if lost(r) != tc.lost || !strings.HasSuffix(err, tc.problem) || tc.problem == "" && err != "" {
			t.Errorf("%s: lost %q; %s", tc.rule, lost(r), err)
		}
	}
	if m := table.Find("dropped.part"); m == nil || m.Path != "dropped" {
		t.Errorf("a part shares the decision about the whole: %v", m)
	}
	if m := table.Find("kept.part"); m != nil {
		t.Errorf("a part of what is kept has a decision of its own: %v", m)
	}
}

func TestFilesStayBelowTheFirstOne(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"b.yaml": "dir/b.yaml", "../b.yaml": "b.yaml", "./x/../b.yaml": "dir/b.yaml", "../../b.yaml": "", "/b.yaml": "", "": "", "a\x00": "", "..": "."} {
		if got, err := Below("dir/a.yaml", name); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
	if got, err := Below("a.yaml", ".."); err == nil {
		t.Errorf("the directory above the first file is %q", got)
	}
}

func TestFilesThatAreNamed(t *testing.T) {
	t.Parallel()
	at := &doctree.Node{}
	r := NewReader(Request{File: "a.yaml", Open: func(name string) ([]byte, error) {
		if name == "none" {
			return nil, errors.New("there is no such file")
		}
		return []byte(name), nil
	}})
	for i := range MaxFiles + 3 {
		if _, _, ok := r.OpenFile(at, "a.yaml", "b.yaml"); ok != (i < MaxFiles) {
			t.Fatalf("file %d: %v", i, ok)
		}
	}
	if len(r.Problems) != 1 || r.Problems[0].Message != "more than 100 files are named" {
		t.Errorf("a limit is told once: %v", r.Problems)
	}
	for rule, tc := range map[string]struct {
		open func(string) ([]byte, error)
		want string
	}{
		"a file that is not there": {r.Open, `read "none": there is no such file`}, "files beside standard input": {nil, "give the file by its name, and not on standard input"},
	} {
		r := NewReader(Request{File: "a.yaml", Open: tc.open})
		if _, _, ok := r.OpenFile(at, "a.yaml", "none"); ok || !strings.Contains(fmt.Sprint(r.Err()), tc.want) {
			t.Errorf("%s: %v", rule, r.Err())
		}
	}
}

func TestNeedsAndProblemsAreToldTogether(t *testing.T) {
	t.Parallel()
	r := NewReader(Request{File: "f"})
	if r.Err() != nil {
		t.Error("nothing is wrong")
	}
	for line := range 9 {
		r.Ask(&doctree.Node{Line: line + 2, Col: 1}, "A B", "a value is missing")
	}
	r.Wrong(&doctree.Node{Line: 1, Col: 1}, "wrong", "")
	want := "f cannot be imported:\n  f:1:1: wrong\n  f:2:1: a value is missing (also line 3, 4, 5, 6, 7, ...); give --param 'A B='VALUE"
	if got := r.Err().Error(); got != want {
		t.Errorf("a value is asked for once, with five places more:\n%s", got)
	}
	for i := range 200 {
		r.Wrong(&doctree.Node{Line: i + 20, Col: 1}, "wrong", "")
	}
	var bad *Error
	if !errors.As(r.Err(), &bad) || len(bad.Problems) != 101 || bad.Problems[100].Message != "and 102 more problems" {
		t.Errorf("of many problems 100 are told, with the number of others: %v", bad.Problems[len(bad.Problems)-1])
	}
}

func TestValuesOfTheUser(t *testing.T) {
	t.Parallel()
	r := NewReader(Request{Params: map[string]string{"A": "p", "E": ""}, Getenv: func(name string) string { return map[string]string{"A": "e", "B": "e"}[name] }})
	for _, tc := range []struct {
		rule, name, want string
		ok               bool
	}{
		{"a parameter comes before a variable", "A", "p", true}, {"a variable counts without one", "B", "e", true},
		{"an empty parameter is a value", "E", "", true}, {"an empty variable is none", "C", "", false},
	} {
		if got, ok := r.Variable(tc.name); got != tc.want || ok != tc.ok {
			t.Errorf("%s: %q, %v", tc.rule, got, ok)
		}
	}
	if !r.Used["A"] || r.Used["B"] || len(r.Known) != 4 {
		t.Errorf("what was asked for is known, and what was given is used: %v, %v", r.Used, r.Known)
	}
}

func TestNamesAndValues(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"web": "web", "My App!": "My-App", "_x_": "x", "ä": "", strings.Repeat("a", 70): strings.Repeat("a", 60)} {
		if got := Plain(in); got != want {
			t.Errorf("the plain name of %q is %q", in, got)
		}
	}
	for in, want := range map[string]string{"web.yaml": "web", "dir/web.json": "web", "stack.template.yaml": "stack", ".yaml": "task", "-": "task"} {
		if got := (&Reader{Request: Request{File: in}}).Stem(); got != want {
			t.Errorf("the stem of %q is %q", in, got)
		}
	}
	for in, want := range map[string]string{"Name": "name", "EFSVolumeConfiguration": "efsVolumeConfiguration", "FilesystemId": "fileSystemId", "": ""} {
		if got := LowerKey(in); got != want {
			t.Errorf("ECS spells %q as %q", in, got)
		}
	}
	n, r := parsed(t, "{Labels: {Team: {Deep: x}}, LogConfiguration: {Options: {Awslogs: x}}, List: [{Name: x}]}")
	if got := string(r.LowerTree(n, "").JSON()); got != `{"labels":{"Team":{"deep":"x"}},"logConfiguration":{"options":{"Awslogs":"x"}},"list":[{"name":"x"}]}` {
		t.Errorf("names of the user stay: %s", got)
	}
	upper := func(name string) string { return strings.ToUpper(name) }
	for in, want := range map[string]string{"a${b}c${d}": "aBcD", "a${b": "a${b", "${a}${": "A${", "": ""} {
		if got := ReplaceBetween(in, "${", "}", upper); got != want {
			t.Errorf("%q becomes %q", in, got)
		}
	}
}

func TestResourcesThatAreLostAreCounted(t *testing.T) {
	t.Parallel()
	counts := map[string]int{}
	for i := range 14 {
		counts[fmt.Sprintf("kind%02d", i)] = i + 1
	}
	r := NewReader(Request{})
	r.LoseOthers(nil, nil)
	r.LoseOthers(nil, counts)
	if text := lost(r); !strings.HasPrefix(text, "ignored resources: kind00 (1), kind01 (2), ") || !strings.HasSuffix(text, "kind11 (12), ...") {
		t.Errorf("twelve kinds are named: %s", text)
	}
}

func TestTargetsOfOneRuleHaveNames(t *testing.T) {
	t.Parallel()
	named := func(targets ...string) string {
		var all []*Workload
		for _, id := range targets {
			all = append(all, &Workload{Names: []string{"r"}, Name: "r", Target: id})
		}
		var got []string
		for _, w := range NameTargets(all) {
			got = append(got, w.Names[0]+" "+w.Name)
		}
		return strings.Join(got, ", ")
	}
	for _, tc := range []struct {
		rule    string
		targets []string
		want    string
	}{
		{"a single one has that of the rule", []string{"a"}, "r r"},
		{"several have that of the target behind it", []string{"a", "b"}, "r/a r-a, r/b r-b"},
		{"two of one name have a number", []string{"a", "a"}, "r/a r-a, r/a-2 r-a-2"},
	} {
		if got := named(tc.targets...); got != tc.want {
			t.Errorf("%s: %s", tc.rule, got)
		}
	}
}

func TestWrappersAreTakenOff(t *testing.T) {
	t.Parallel()
	n, r := parsed(t, "{taskDefinition: {family: a, revision: 3, status: ACTIVE}, tags: [{key: k}]}")
	if got := string(r.UnwrapDefinition(n).JSON()); got != `{"family":"a","tags":[{"key":"k"}]}` {
		t.Errorf("a described definition keeps its tags, and loses what is read-only: %s", got)
	}
	for text, want := range map[string]string{"services: [{serviceName: a}]": `{"serviceName":"a"}`, "service: {serviceName: a}": `{"serviceName":"a"}`, "service: a": `{"service":"a"}`, "serviceName: a": `{"serviceName":"a"}`} {
		n, _ := parsed(t, text)
		if got := string(UnwrapService(n).JSON()); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
}

// A problem of what was made stands where its value is in the file, or what is closest above it.
func TestProblemsAreLocated(t *testing.T) {
	t.Parallel()
	n, _ := parsed(t, "a:\n  - x\n  - b: x\n    b/c: y\n")
	res := Result{File: "f.yaml", Definition: n}
	for pointer, line := range map[string]int{"/a/0": 2, "/a/1/b~1c": 4, "/a/1/none": 3, "/a/7": 2, "/none": 1} {
		if p := res.Locate(taskdef.Problem{Pointer: pointer}, nil); p.Line != line || p.File != "f.yaml" {
			t.Errorf("%s is at line %d", pointer, p.Line)
		}
	}
	second := &doctree.Node{Kind: doctree.Object, Line: 40}
	docs := Result{File: "f.yaml", Documents: []*doctree.Node{n, second}}
	if p := docs.Locate(taskdef.Problem{Line: 4, Pointer: "/none"}, []byte("a\nb\n---\nc")); p.Line != 40 {
		t.Errorf("a problem of the second document is at line %d", p.Line)
	}
}
