package taskunit

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/containers/podman/v5/pkg/systemd/parser"
	"github.com/google/go-cmp/cmp"
)

func TestReadKeepsPlaces(t *testing.T) {
	t.Parallel()
	f := Read("x.task", "[Unit]\n\n# note\nA=1 \\\n  2\\\n; inside\n  3\nB =\n[Task]\nC== c\n")
	want := []entry{
		{"Unit", "A", "1 2 3", place{path: "x.task", line: 4}},
		{"Unit", "B", "", place{path: "x.task", line: 8}},
		{"Task", "C", "= c", place{path: "x.task", line: 10}},
	}
	if diff := cmp.Diff(want, f.entries, cmp.AllowUnexported(entry{}, place{})); diff != "" || len(f.problems) > 0 {
		t.Errorf("%s %v", diff, f.problems)
	}
}

func TestProblemNamesItsPlace(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]Problem{
		"/u/x.task:3: bad":            {Path: "/u/x.task", Line: 3, Message: "bad"},
		"/u/x.task: bad":              {Path: "/u/x.task", Message: "bad"},
		"/u/x.task:3: warning: fishy": {Path: "/u/x.task", Line: 3, Message: "fishy", Warning: true},
	} {
		if got := p.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestDropInDirs(t *testing.T) {
	t.Parallel()
	want := []string{"a-b@c.task.d", "a-b@.task.d", "a-@.task.d", "a-.task.d", "task.d"}
	if diff := cmp.Diff(want, DropInDirs("a-b@c.task")); diff != "" {
		t.Error(diff)
	}
}

// Podman's parser is the measure: what it takes, the reader takes, with the same
// sections, keys and values. They differ in continued lines, which the reader joins
// with a blank, as systemd does, and in text that is not UTF-8.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{"[Task]\nDefinition=x\n", "[A]\nB = c d \n;x\n[A]\nB=\n", "x", "[a]b", "[]\n=", "[A]\r\nB=\"c\r\n", "[A]\n[B]\nc=d=e", "[0]\n[="} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := Read("fuzz.task", text)
		for _, e := range got.entries {
			if e.key == "" || e.section == "" || e.line < 1 || strings.Contains(e.value, "\n") {
				t.Fatalf("%+v", e)
			}
		}
		oracle := parser.NewUnitFile()
		if strings.Contains(text, `\`) || !utf8.ValidString(text) || strings.HasPrefix(text, "\ufeff") || oracle.Parse(text) != nil {
			return
		}
		if slices.ContainsFunc(got.problems, func(p Problem) bool {
			return strings.Contains(p.Message, "is not a section") || strings.Contains(p.Message, "control character")
		}) {
			return // a key that begins with "[", an error in systemd, or a value that could contain a line
		}
		if len(got.problems) > 0 {
			t.Fatalf("Podman takes %q, and we say %v", text, got.problems)
		}
		count := 0
		for _, section := range oracle.ListGroups() {
			for _, key := range oracle.ListKeys(section) {
				theirs := oracle.LookupAll(section, key)
				ours := all(Source{File: got}.entries(section), key)
				if len(theirs) != len(ours) {
					t.Fatalf("%q: [%s] %s: %q, we have %v", text, section, key, theirs, ours)
				}
				for i := range ours {
					if strings.TrimSpace(theirs[i]) != ours[i].value {
						t.Fatalf("%q: [%s] %s: %q, we have %q", text, section, key, theirs[i], ours[i].value)
					}
				}
				count += len(ours)
			}
		}
	})
}

// Whatever a unit says, what is generated is a unit that Podman's parser reads,
// and a unit with errors makes none.
func FuzzGeneratedIsReadable(f *testing.F) {
	f.Add("web", "[Task]\nDefinition=./x y$%i.json\nEnvironment=\"A=b c\" 'D=e\nPublishPort=[::1]:1:2\nMemoryMax=1.5G\n[Install]\nWantedBy=a.target b.task\nAlias=x.service\n")
	f.Add("a@", "[Unit]\nAfter=a@b.task c.pod\n[Task]\nDefinition=%h\nTaskName=%n\nServiceName=x\n[Install]\nDefaultInstance=q\nWantedBy=t\n")
	f.Fuzz(func(t *testing.T, name, text string) {
		name += Extension
		services, problems := Generate([]Source{{Name: name, File: Read("/u/"+name, text)}}, Options{Program: "/bin/podtask", Generator: "fuzz"})
		if len(services) > 0 != (Errors(problems) == 0) && !Read("", text).Empty() {
			t.Fatalf("%d services, problems %v", len(services), problems)
		}
		for _, s := range services {
			f := parser.NewUnitFile()
			if err := f.Parse(s.Text); err != nil && utf8.ValidString(text) {
				t.Fatalf("%v in\n%s", err, s.Text)
			}
			if strings.Contains(s.Name, "/") {
				t.Fatalf("name %q", s.Name)
			}
			for _, l := range s.Links {
				if strings.Contains(l.Path, "../") {
					t.Fatalf("link %q", l.Path)
				}
			}
		}
	})
}

// The definition in a unit keeps the lines of the unit.
func TestDefinitionText(t *testing.T) {
	t.Parallel()
	unit := "[Unit]\nDescription=x\n[Task]\nDefinitionText = {\"a\": \\\n  \"b\", \\  \n  # a comment\n  ; another \\\n  \"c\": 1}\nPull=once\n"
	got, ok := DefinitionText(unit)
	if want := "\n\n\n{\"a\": \n  \"b\", \n\n\n  \"c\": 1}\n"; !ok || string(got) != want {
		t.Errorf("%q, %v; want %q", got, ok, want)
	}
	for _, none := range []string{"", "[Task]\nDefinition=x.json\n", "[Unit]\nDefinitionText={}\n", "[Task]\nDefinitionText={}\nDefinitionText=\n"} {
		if got, ok := DefinitionText(none); ok {
			t.Errorf("%q holds %q", none, got)
		}
	}
	if got, ok := DefinitionText("[Task]\r\nDefinitionText={}\r\n"); !ok || strings.TrimSpace(string(got)) != "{}" {
		t.Errorf("with carriage returns: %q, %v", got, ok)
	}
}

func FuzzDefinitionText(f *testing.F) {
	f.Add("[Task]\nDefinitionText={ \\\n}\n")
	f.Add("[Task]\nDefinitionText=a \\")
	f.Fuzz(func(t *testing.T, text string) {
		definition, ok := DefinitionText(text)
		if lines := strings.Count(string(definition), "\n"); ok && lines > strings.Count(text, "\n")+1 {
			t.Errorf("%q has %d lines", definition, lines)
		}
	})
}
