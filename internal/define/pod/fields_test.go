package pod

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/internal/define/members"
	"github.com/podtask/podtask/pkg/taskdef"
	"k8s.io/apimachinery/pkg/api/resource"
)

// reachable returns every member of a Pod, ConfigMap or Secret that is not below one
// that has another treatment than honored.
func reachable() []string {
	var members []string
	seen := make(map[string]bool)
	var walk func(typ string)
	walk = func(typ string) {
		if seen[typ] {
			return
		}
		seen[typ] = true
		for _, p := range schema()[typ] {
			members = append(members, typ+"."+p.name)
			if r, known := ruleTable()[typ+"."+p.name]; !known || r.treatment == honored {
				walk(strings.TrimPrefix(strings.TrimPrefix(p.word, "[]"), "map "))
			}
		}
	}
	for _, root := range []string{"Pod", "ConfigMap", "Secret", "PodTemplate", "ReplicationController", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "Service", "Ingress", "PersistentVolumeClaim"} {
		walk(root)
	}
	return members
}

// TestEveryMemberHasARule: no member of a Pod lacks a treatment, and no row is about one
// that does not exist or is never looked at.
func TestEveryMemberHasARule(t *testing.T) {
	t.Parallel()
	members := reachable()
	for _, m := range members {
		if _, known := ruleTable()[m]; !known {
			t.Errorf("%s has no row", m)
		}
	}
	seen := make(map[string]bool)
	for _, r := range allRules() {
		if !slices.Contains(members, r.member) {
			t.Errorf("%s is not a member of a Pod that can be reached", r.member)
		}
		if seen[r.member] {
			t.Errorf("%s has two rows", r.member)
		}
		if seen[r.member] = true; r.note == "" && r.treatment != honored && r.treatment != ignored {
			t.Errorf("%s has no note", r.member)
		}
	}
}

// example is a value that says something, for the word of a type.
func example(word string) string {
	switch {
	case strings.HasPrefix(word, "[]"):
		return "[" + example(word[2:]) + "]"
	case strings.HasPrefix(word, "map "):
		return `{"x": ` + example(word[4:]) + "}"
	case strings.HasPrefix(word, "string="):
		first, _, _ := strings.Cut(word[len("string="):], "|")
		return strconv.Quote(first)
	case schema()[word] != nil:
		p := schema()[word][0]
		return fmt.Sprintf("{%q: %s}", p.name, example(p.word))
	}
	if _, scalar := scalars[word]; !scalar {
		return "{}" // a type without members
	}
	return scalars[word]
}

var scalars = map[string]string{"string": `"x"`, "bool": "true", "int32": "7", "int64": "7", "quantity": `"7"`, "any": "{\"x\": 1}", "time": `"2026-01-01T00:00:00Z"`, "bytes": `"eA=="`, "intOrString": "7"}

// TestOtherWordsAreRefused: text that Kubernetes marks as an enumeration can have no other word, in any row of the table.
func TestOtherWordsAreRefused(t *testing.T) {
	t.Parallel()
	seen := 0
	for typ, members := range schema() {
		for _, p := range members {
			item, list := strings.CutPrefix(p.word, "[]")
			if !strings.HasPrefix(item, "string=") {
				continue
			}
			seen++
			value := `"NoSuchWord"`
			if list {
				value = "[" + value + "]"
			}
			if rep := check(t, typ, fmt.Sprintf("{%q: %s}", p.name, value)); !slices.ContainsFunc(rep.problems, func(p taskdef.Problem) bool { return strings.HasPrefix(p.Message, "this cannot be") }) {
				t.Errorf("%s.%s: problems %v", typ, p.name, rep.problems)
			}
		}
	}
	if seen < 40 {
		t.Errorf("only %d members have words", seen)
	}
}

// TestEachRowGivesItsTreatment holds the checker against the table.
func TestEachRowGivesItsTreatment(t *testing.T) {
	t.Parallel()
	for _, r := range allRules() {
		typ, name, _ := strings.Cut(r.member, ".")
		i := slices.IndexFunc(schema()[typ], func(p property) bool { return p.name == name })
		if i < 0 || r.treatment == honored && schema()[strings.TrimPrefix(schema()[typ][i].word, "[]")] != nil {
			continue // told by TestEveryMemberHasARule; or its members have rows of their own
		}
		word := schema()[typ][i].word
		for _, w := range r.harmless { // an enumeration has another word that says something
			word = strings.Replace(strings.Replace(word, "|"+w, "", 1), "="+w+"|", "=", 1)
		}
		for _, value := range append([]string{example(word)}, quoted(r.harmless, word)...) {
			harmless := value != example(word)
			rep := check(t, typ, fmt.Sprintf("{%q: %s}", name, value))
			wantProblem, wantWarning := r.treatment == refused && !harmless, r.treatment == warned && !harmless
			if (len(rep.problems) > 0) != wantProblem || (len(rep.warnings) > 0) != wantWarning {
				t.Errorf("%s: %s: problems %v, warnings %v", r.member, value, rep.problems, rep.warnings)
			}
		}
	}
}

func quoted(words []string, word string) (out []string) {
	for _, w := range words {
		if strings.HasPrefix(word, "string") || word == "intOrString" {
			w = `"` + w + `"`
		}
		out = append(out, w)
	}
	return out
}

func check(t *testing.T, typ, src string) *report {
	t.Helper()
	docs, err := documentsOf(src)
	if err != nil {
		t.Fatal(src, err)
	}
	rep := &report{}
	checker{rep, true}.check(value{rep, docs[0], "", 1, 1}, typ)
	return rep
}

// TestWrongKindsAndNames: below members without a rule, names and kinds still count.
func TestWrongKindsAndNames(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ typ, src, pointer string }{
		{"PodSpec", `{"affinity": {"nodeAfinity": {}}}`, "/affinity/nodeAfinity"},
		{"PodSpec", `{"containers": {"name": "x"}}`, "/containers"},
		{"PodSpec", `{"hostNetwork": "yes"}`, "/hostNetwork"},
		{"PodSpec", `{"priority": 3000000000}`, "/priority"},
		{"PodSpec", `{"nodeSelector": {"a": 1}}`, "/nodeSelector/a"},
		{"Secret", `{"data": {"a": "%"}}`, "/data/a"},
		{"Container", `{"resources": {"limits": {"cpu": "1 vCPU"}}}`, "/resources/limits/cpu"},
		{"Container", `{"env": [{"value": true}]}`, "/env/0/value"},
	} {
		rep := check(t, tt.typ, tt.src)
		if !slices.Contains(pointers(rep), tt.pointer) {
			t.Errorf("%s: %v", tt.src, rep.problems)
		}
	}
}

func pointers(rep *report) (out []string) {
	for _, p := range rep.problems {
		out = append(out, p.Pointer)
	}
	return out
}

func TestQuantitiesAreThoseOfKubernetes(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"0", "1", "+1", "0.5", ".5", "5.", "500m", "1500u", "7n", "1k", "64M", "64Mi", "1.5Gi", "2Ti", "1e3", "1E3", "12e-1", "3P", "100000k",
		"", "x", "1 Gi", "64MB", "1ki", "--1", "1e"} {
		want, wantErr := resource.ParseQuantity(s)
		got, err := parseQuantity(s)
		if (err != nil) != (wantErr != nil) {
			t.Errorf("%q: %v, want %v", s, err, wantErr)
			continue
		}
		if err == nil && (got.times(1) != want.Value() || got.times(1000) != want.MilliValue()) {
			t.Errorf("%q: %d and %d, want %d and %d", s, got.times(1), got.times(1000), want.Value(), want.MilliValue())
		}
	}
}

// words are those of the documentation for the treatments.
var words = map[members.Treatment]string{honored: "honored", warned: "warning", needed: "needed", refused: "refused", ignored: "ignored"}

// TestDocumentation writes the tables of docs/pods.md and docs/pod-members.md with -update, and holds
// them against the rules without.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	var all, others strings.Builder
	others.WriteString("\n| member | | |\n|---|---|---|\n")
	last := ""
	for _, r := range allRules() {
		typ, name, _ := strings.Cut(r.member, ".")
		if typ != last {
			fmt.Fprintf(&all, "\n### %s\n\n| member | | |\n|---|---|---|\n", typ)
			last = typ
		}
		fmt.Fprintf(&all, "| `%s` | %s | %s |\n", name, words[r.treatment], r.note)
		if r.treatment != honored && r.treatment != ignored {
			fmt.Fprintf(&others, "| %s `%s` | %s | %s |\n", typ, name, words[r.treatment], r.note)
		}
	}
	holds(t, "../../../docs/pod-members.md", "members", all.String())
	holds(t, "../../../docs/pods.md", "not honored", others.String())
}

// holds compares a part of a page with a text, or with -update writes it.
func holds(t *testing.T, path, part, text string) {
	t.Helper()
	begin, end := "<!-- "+part+" -->\n", "<!-- end of "+part+" -->\n"
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(src), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no part %q", path, part)
	}
	want := head + begin + text + "\n" + end + tail
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if diff := cmp.Diff(want, string(src)); diff != "" {
		t.Error(diff)
	}
}
