//go:build e2e

package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/guide"
)

// examples are those of the ECS developer guide that run here, each with the
// container whose end is the end of the task.
var examples = []struct{ name, ends string }{
	{"bind-mounts", "sorter"},
	{"docker-volumes", "store"},
	{"efs-volume", "reader"},
	{"environment-files", "app"},
	{"linux-parameters", "app"},
	{"logs-firelens", "app"},
	{"names-and-hosts", "app"},
	{"port-ranges", "app"},
	{"restart-policy", "app"},
	{"secrets", "app"},
	{"start-order", "app"},
	{"web-server", "site"},
	{"wordpress-links", "blog"},
}

// TestDefinitionsOfTheGuideRun runs the examples as they are, but for programs,
// which are testbox, and ports and devices, of which a user has fewer.
func TestDefinitionsOfTheGuideRun(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.env = append(b.env, `ORCHARD={"user": "plum"}`)
	image := b.testbox()
	for _, example := range examples {
		src, err := guide.Files.ReadFile(example.name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		path := b.file(example.name+".json", b.withTestbox(src, image, example.ends))
		r := b.podtask(append([]string{"run", path, "--rm", "--limits", "off"}, b.given(path)...)...)
		if r.code != 0 || !strings.Contains(r.out, "| done") {
			t.Errorf("%s ends with %d:\n%s%s", example.name, r.code, r.out, r.err)
		}
	}
}

// withTestbox puts testbox in the place of the programs of an example: one prints
// and ends with 0, other essential ones stay.
func (b *box) withTestbox(src []byte, image, ends string) string {
	b.t.Helper()
	var def map[string]any
	if err := json.Unmarshal(src, &def); err != nil {
		b.t.Fatal(err)
	}
	def["family"] = b.family
	for _, item := range def["containerDefinitions"].([]any) {
		c := item.(map[string]any)
		c["image"], c["entryPoint"] = image, []string{"/testbox"}
		switch essential, told := c["essential"].(bool); {
		case c["name"] == ends:
			c["command"] = words("print done")
		case told && !essential:
			c["command"] = words("exit 0")
		default:
			c["command"] = words("sleep forever")
		}
		if check, ok := c["healthCheck"].(map[string]any); ok {
			check["command"] = words("CMD /testbox exit 0")
		}
		ports, _ := c["portMappings"].([]any)
		for _, p := range ports {
			if p := p.(map[string]any); p["containerPort"] == 80.0 {
				p["containerPort"] = 8080
				delete(p, "hostPort")
			}
		}
		if linux, ok := c["linuxParameters"].(map[string]any); ok {
			delete(linux, "devices")
		}
	}
	out, err := json.Marshal(def)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(out)
}

// given answers every need of a definition with the flag that podtask names.
func (b *box) given(path string) (flags []string) {
	b.t.Helper()
	var findings []struct{ Needs []struct{ Fix string } }
	if err := json.Unmarshal([]byte(b.want(0, "validate", "--format", "json", path).out), &findings); err != nil {
		b.t.Fatal(err)
	}
	file := b.file("given.env", "FROM_FILE=1\n")
	answers := map[string]string{"--map-volume": b.t.TempDir(), "--map-env-file": file, "--map-secret": "env:ORCHARD"}
	if strings.Contains(path, "bind-mounts") {
		flags = append(flags, "--map-volume", "settings="+b.t.TempDir())
	}
	seen := make(map[string]bool)
	for _, need := range findings[0].Needs {
		// As in: give --map-volume NAME=PATH
		parts := strings.Fields(need.Fix)
		flag, key := parts[1], strings.SplitN(parts[2], "=", 2)[0]
		if !seen[key] {
			seen[key] = true
			flags = append(flags, flag, key+"="+answers[flag])
		}
	}
	return flags
}
