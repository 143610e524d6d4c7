package convert_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/containers/podman/v5/pkg/systemd/parser"
	"go.yaml.in/yaml/v3"

	"github.com/podtask/podtask/internal/define/composefile"
	"github.com/podtask/podtask/internal/define/convert/compose"
	"github.com/podtask/podtask/internal/unitfile/taskunit"
	"github.com/podtask/podtask/pkg/taskdef"
)

// keysOf lists the assignments of a unit as Podman's parser reads it, "Section.Key".
func keysOf(t *testing.T, text string) (keys []string) {
	t.Helper()
	unit := parser.NewUnitFile()
	if err := unit.Parse(text); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	for _, section := range unit.ListGroups() {
		for _, key := range unit.ListKeys(section) {
			keys = append(keys, section+"."+key)
		}
	}
	return keys
}

// No value of a Compose file adds an assignment to the unit or to its service.
func FuzzComposeUnit(f *testing.F) {
	for _, v := range []string{"a.env", "a\n[Service]\nExecStartPre=/bin/sh -c id", "a\rExecStartPre=x", "%h/a", "x\\", "a\x00b"} {
		f.Add(v, v)
	}
	f.Fuzz(func(t *testing.T, file, dir string) {
		src, err := yaml.Marshal(map[string]any{"services": map[string]any{"web": map[string]any{"image": "a", "env_file": []string{file}}}})
		if err != nil {
			return
		}
		r, err := compose.Convert("/srv/"+dir+"/compose.yaml", "web", src, compose.Options{Load: composefile.Load})
		if err != nil {
			return
		}
		known := []string{"Task.Definition", "Service.Restart", "Install.WantedBy"}
		for _, key := range keysOf(t, r.Unit) {
			if !slices.Contains(known, key) {
				t.Errorf("%q adds %s:\n%s", file, key, r.Unit)
			}
		}
		services, problems := taskunit.Generate(
			[]taskunit.Source{{Name: "web.task", File: taskunit.Read("/units/web.task", r.Unit)}}, taskunit.Options{Program: "podtask"})
		if taskunit.Errors(problems) == 0 && slices.ContainsFunc(keysOf(t, services[0].Text), func(key string) bool { return strings.HasPrefix(key, "Service.ExecStartPre") }) {
			t.Errorf("%q adds ExecStartPre:\n%s", file, services[0].Text)
		}
	})
}

func TestComposeEnvFileIsOfOneContainer(t *testing.T) {
	t.Parallel()
	r, err := compose.Convert("/srv/100%/compose.yaml", "web", []byte(`services:
  web: {image: a, env_file: [first.env, "%h.env", "a\n[Service]\nExecStartPre=/bin/false"]}
  db: {image: b}
`), compose.Options{Load: composefile.Load})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(r.Unit, "ExecStartPre") || strings.Contains(r.Unit, ".env") {
		t.Errorf("the unit is\n%s", r.Unit)
	}
	task, _, err := taskdef.Parse("web.json", r.Definition)
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, f := range task.Containers[0].EnvironmentFiles {
		files = append(files, f.Path)
	}
	// The first file decides in ECS, and the last one in Compose.
	want := []string{"a\n[Service]\nExecStartPre=/bin/false", "%h.env", "first.env"}
	if !slices.Equal(files, want) || len(task.Containers[1].EnvironmentFiles) != 0 {
		t.Errorf("files %q, want %q; of the other container %v", files, want, task.Containers[1].EnvironmentFiles)
	}
}
