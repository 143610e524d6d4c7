package taskunit_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/unitfile/taskunit"
)

// systemdReads reads a unit file as config_parse of systemd 257 does: a line ends at a
// line feed, a carriage return or a NUL byte, a backslash that is not escaped at its end
// continues it, and lines of comments are left out.
func systemdReads(text string) (all []taskunit.Assignment) {
	section, pending, continued := "", "", false
	lines := strings.NewReplacer("\r\n", "\n", "\n\r", "\n", "\r", "\n", "\x00", "\n").Replace(strings.TrimPrefix(text, "\ufeff"))
	for line := range strings.SplitSeq(lines, "\n") {
		line = strings.Trim(line, " \t")
		if line == "" && !continued || line != "" && strings.ContainsRune("#;", rune(line[0])) {
			continue
		}
		escaped := false
		for i := range len(line) {
			escaped = !escaped && line[i] == '\\'
		}
		if continued = escaped; escaped {
			pending += line[:len(line)-1] + " "
			continue
		}
		line, pending = strings.Trim(pending+line, " \t"), ""
		if name, ok := strings.CutPrefix(line, "["); ok {
			section = strings.TrimSuffix(name, "]")
			continue
		}
		key, value, _ := strings.Cut(line, "=")
		all = append(all, taskunit.Assignment{Section: section, Key: strings.Trim(key, " \t"), Value: strings.Trim(value, " \t")})
	}
	return all
}

// A service has what podtask writes and what its author has written, and nothing else, as
// systemd reads it.
func FuzzGenerate(f *testing.F) {
	for _, text := range []string{
		"[Task]\nDefinition=a.json\n",
		"[Unit]\nDescription=a\n[Task]\nDefinition=a.json\nEnvironment=A=b\n[Service]\nRestart=always\nExecStartPre=/bin/true\n[Install]\nWantedBy=default.target\n",
		"[Task]\nDefinition=a.json\\\nExecStartPre=/injected\n", "[Task]\nDefinition=a.json\\\\\n\n[Service]\nNice=1\n",
		"[Task]\nDefinition=a.json\nPodtaskArgs=a ; /injected\n", "[Task]\nDefinition=a.json\rExecStartPre=/injected\n",
		"[Unit]\nDescription=a\\\\\n\n[Task]\nDefinition=100%.json\nNetwork=$HOME\n", "[X-a\n[X-a]\n=b\n[Task]\nDefinition=\"\\x0a\"\n",
	} {
		f.Add("a.task", text, "")
		f.Add("a@.task", text, "[Service]\nNice=2\n")
	}
	f.Fuzz(func(t *testing.T, name, text, dropIn string) {
		if len(name)+len(text)+len(dropIn) > 1<<16 {
			return
		}
		source := taskunit.Source{
			Name: name, File: taskunit.Read("/u/"+name, text),
			DropIns: []taskunit.File{taskunit.Read("/u/a.task.d/b.conf", dropIn)},
		}
		theirs := append(source.File.Assignments(), source.DropIns[0].Assignments()...)
		services, _ := taskunit.Generate([]taskunit.Source{source}, taskunit.Options{Program: "/opt/podtask", Generator: "/opt/generator"})
		for _, s := range services {
			read := systemdReads(s.Text)
			ours := taskunit.Read("/s", s.Text).Assignments()
			for i := range ours {
				ours[i].Path, ours[i].Line = "", 0
			}
			if !slices.Equal(read, ours) {
				t.Fatalf("systemd reads %+v\nand podtask reads %+v\nof %s", read, ours, s.Text)
			}
			for _, a := range read {
				own := strings.HasPrefix(strings.TrimPrefix(a.Value, "-"), "/opt/podtask ") || a.Value == "/bin/kill -HUP $MAINPID"
				theirs := slices.ContainsFunc(theirs, func(b taskunit.Assignment) bool {
					return a.Section == b.Section && a.Key == b.Key && a.Value == b.Value
				})
				if strings.HasPrefix(a.Key, "Exec") && !own && !theirs {
					t.Errorf("[%s] %s=%s comes from nowhere, in %s", a.Section, a.Key, a.Value, s.Text)
				}
			}
		}
	})
}
