package export

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/containers/podman/v5/pkg/systemd/parser"

	"github.com/podtask/podtask/pkg/taskdef"
)

// evil is a word that no file may have by itself.
const evil = "--evil"

// hostile are texts that try to become more than a text.
var hostile = []string{
	"x " + evil, "x\t" + evil + "\ty", `x" ` + evil + ` "y`, `x' ` + evil + ` 'y`, "x\nPodmanArgs=" + evil, "x\r\nPodmanArgs=" + evil, "x\\\nPodmanArgs=" + evil, `x\`, `x\x20` + evil, `x\n` + evil, ` x `, `"x"`, "x\u0085" + evil, "x\u2028" + evil,
	"x," + evil, "x:" + evil, "${HOME:-" + evil + "}", "$HOME", "$$x", "%h", "%%x", "$(" + evil + ")", "#x", "; x", "-x",
}

// eachText calls fn with each way to give a member of a document another text: values and names of members that are no keywords.
func eachText(v any, fn func(set func(string), text string)) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if text, is := v[name].(string); is {
				fn(func(s string) { v[name] = s }, text)
			}
			eachText(v[name], fn)
		}
	case []any:
		for i := range v {
			if text, is := v[i].(string); is {
				fn(func(s string) { v[i] = s }, text)
			}
			eachText(v[i], fn)
		}
	}
}

// attacked calls fn with each rich definition in which one text is hostile, where that is a definition.
func attacked(t *testing.T, fn func(name, text string, task taskdef.Task)) {
	n := 0
	for name, src := range rich {
		var doc any
		if err := json.Unmarshal([]byte(src), &doc); err != nil {
			t.Fatal(err)
		}
		eachText(doc, func(set func(string), text string) {
			defer set(text)
			for _, h := range hostile {
				for _, one := range []string{text + h, h} { // some are refused without their beginning
					set(one)
					again, err := json.Marshal(doc)
					if err != nil {
						t.Fatal(err)
					}
					if task, report, err := taskdef.Parse(name, again); err == nil && len(report.Needs) == 0 {
						n++
						fn(name, h, task)
						break
					}
				}
			}
		})
	}
	if n < 1000 {
		t.Errorf("only %d hostile definitions are accepted", n)
	}
}

// wordKeys are the keys of Quadlet whose values are words: with their escapes, or without.
var wordKeys = map[string]bool{
	"AddCapability": false, "DropCapability": false, "AddDevice": false, "LogOpt": false, "Sysctl": false,
	"Environment": true, "EnvironmentFile": true, "Exec": true, "Label": true, "PodmanArgs": true, "Secret": true,
}

// said returns the values that Podman reads of a unit, one for each word of those keys that have words.
func said(t *testing.T, text string) (all []string) {
	t.Helper()
	u := parser.NewUnitFile()
	if err := u.Parse(text); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	for _, group := range u.ListGroups() {
		for _, key := range slices.Compact(slices.Sorted(slices.Values(u.ListKeys(group)))) {
			var values []string
			switch escapes, is := wordKeys[key]; {
			case is && escapes:
				values = u.LookupAllArgs(group, key)
			case is:
				values = u.LookupAllStrv(group, key)
			default:
				values = u.LookupAll(group, key)
				if value, _ := u.Lookup(group, key); len(values) == 1 {
					values[0] = value
				}
			}
			for _, v := range values {
				all = append(all, key+"="+strings.NewReplacer("%%", "%", "$$", "$").Replace(v))
			}
		}
	}
	return all
}

// A text of a definition becomes one value of a unit as it is, or is told as lost.
func TestHostileTextsInUnits(t *testing.T) {
	t.Parallel()
	lost := map[string]int{}
	for name, src := range rich {
		task, _, err := taskdef.Parse(name, []byte(src))
		if err != nil {
			t.Fatal(err)
		}
		r, err := Write(Quadlet, Source{Name: task.Family, Task: task})
		if err != nil {
			t.Fatal(err)
		}
		lost[name] = len(r.Lost)
	}
	attacked(t, func(name, text string, task taskdef.Task) {
		r, err := Write(Quadlet, Source{Name: task.Family, Task: task})
		if err != nil {
			t.Fatal(err)
		}
		var is []string
		for _, f := range r.Files {
			is = append(is, said(t, f.Text)...)
		}
		whole := strings.Contains(text, ":") // USER:GROUP are two
		for _, one := range is {
			key, value, _ := strings.Cut(one, "=")
			if key != "Group" && value == evil || strings.HasPrefix(value, evil+" ") || value == "y" {
				t.Errorf("%s: %q became %q", name, text, one)
			}
			whole = whole || strings.Contains(value, text) || strings.Contains(value, quotedJSON(text))
		}
		if isHeld(task, text) && !whole && len(r.Lost) <= lost[name] {
			t.Errorf("%s: %q is neither there nor lost", name, text)
		}
	})
}

func quotedJSON(text string) string {
	out, _ := json.Marshal(text)
	return strings.Trim(string(out), `"`)
}

// isHeld reports whether a task has a text.
func isHeld(task taskdef.Task, text string) bool {
	all, _ := json.Marshal(task)
	return strings.Contains(string(all), quotedJSON(text))
}

// composeOwn matches the variable of a secret.
var composeOwn = regexp.MustCompile(`^\$\{[A-Za-z_][A-Za-z0-9_]*:\?\}$`)

// Compose puts no variable into a text of a definition.
func TestHostileTextsInCompose(t *testing.T) {
	t.Parallel()
	attacked(t, func(name, text string, task taskdef.Task) {
		r, err := Write(Compose, Source{Name: task.Family, Task: task})
		if err != nil {
			t.Fatal(err)
		}
		out, err := json.Marshal(r.Files[0].Documents)
		if err != nil {
			t.Fatal(err)
		}
		var doc any
		if err := json.Unmarshal(out, &doc); err != nil {
			t.Fatal(err)
		}
		eachText(doc, func(_ func(string), value string) {
			rest := strings.ReplaceAll(value, "$$", "")
			if strings.Contains(rest, "$") && !composeOwn.MatchString(value) {
				t.Errorf("%s: %q became %q", name, text, value)
			}
		})
	})
}

// Two things have two names, also if the characters that a target allows make them alike.
func TestNamesThatBecomeAlike(t *testing.T) {
	t.Parallel()
	task, _, err := taskdef.Parse("web", []byte(`{"family":"web","volumes":[{"name":"data_1","host":{"sourcePath":"/srv/a"}},{"name":"data-1","host":{"sourcePath":"/srv/b"}},{"name":"a-tmpfs-1","host":{"sourcePath":"/srv/c"}}],
		"containerDefinitions":[
		{"name":"a","image":"i","secrets":[{"name":"P","valueFrom":"podman:one"}],"mountPoints":[{"sourceVolume":"data_1","containerPath":"/a"},{"sourceVolume":"data-1","containerPath":"/b"},{"sourceVolume":"a-tmpfs-1","containerPath":"/c"}],
		 "linuxParameters":{"tmpfs":[{"containerPath":"/t","size":8}]},"x-podtask":{"secretFiles":[{"path":"/run/p","valueFrom":"file:/etc/one/p"}]}},
		{"name":"A","image":"i","secrets":[{"name":"P","valueFrom":"podman:two"}],"x-podtask":{"secretFiles":[{"path":"/run/p","valueFrom":"file:/etc/two/p"},{"path":"/run/q","valueFrom":"podman:p"}]}},
		{"name":"pod","image":"i","secrets":[{"name":"P","valueFrom":"podman:one"}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	written := func(target Target) string {
		r, err := Write(target, Source{Name: "web", Task: task})
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for _, f := range r.Files {
			names[strings.NewReplacer(".container", ".service", ".pod", "-pod.service").Replace(f.Name)] = true
		}
		if len(names) < len(r.Files) {
			t.Errorf("two units of one name: %v", names)
		}
		return textOf(t, r)
	}
	for target, want := range map[Target][]string{
		Quadlet:    {"web-pod-container.container"},
		Compose:    {"P: ${P:?}", "P: ${P_2:?}", "file: /etc/one/p", "file: /etc/two/p", "source: p\n", "source: p-2\n", "source: p-3\n", "name: p\n"},
		Kubernetes: {"name: a\n", "name: a-2\n", "name: data-1\n", "name: data-1-2\n", "path: /srv/a\n", "path: /srv/b\n", "path: /srv/c\n", "name: one\n", "name: two\n", "secretName: p\n", "secretName: p-2\n"},
	} {
		text := written(target)
		for _, one := range want {
			if !strings.Contains(text, one) {
				t.Errorf("%s: no %q in\n%s", target, one, text)
			}
		}
		if n := strings.Count(text, "P: ${P:?}"); target == Compose && n != 2 {
			t.Errorf("%d containers have the same secret:\n%s", n, text)
		}
	}
}
