//go:build e2e

//e2e:bed systemd

package e2e

import (
	"encoding/json"
	"io/fs"
	"os/exec"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/testing/guide"
)

// examples are those of the ECS developer guide that run here, each with the
// container whose end is the end of the task, what it does before it prints "done",
// and what it then has printed.
var examples = []struct {
	name, ends, does string
	wants            []string
}{
	{"app-mesh", "app", "", nil},
	{"bind-mounts", "sorter", "mount /scratch -- cannot write /etc/orchard/f no", []string{"/scratch ", " ro"}},
	{"docker-volumes", "store", "write /crate-data/f x -- write /nfs/f x -- mount /per-task", []string{"/per-task tmpfs rw"}},
	{"ecr-and-role", "seller", "", nil},
	{"efs-volume", "reader", "cannot write /files/f no", nil},
	{"environment-files", "app", "env FROM_FILE -- env LEVEL", []string{"FROM_FILE=1", "LEVEL=info"}},
	{"fargate-extras", "app", "processes -- cannot write /f no", []string{"processes 2"}},                                                               // and the infra container's
	{"fsx-s3files-ebs", "reader", "write /win/f 1 -- write /objects/f 2 -- cat /block/f", []string{"| 2"}},                                              // all are mapped to one path
	{"linux-parameters", "app", "cat /proc/sys/net/core/somaxconn -- limit nofile -- size /dev/shm", []string{"| 1024", " 4096", "/dev/shm 134217728"}}, // Go raises the soft limit
	{"logs-awslogs", "report", "", nil},
	{"logs-firelens", "app", "", nil},
	{"logs-fluentd-gelf-syslog", "gelf", "", nil},
	{"logs-splunk-secret", "app", "", nil},
	{"names-and-hosts", "app", "resolve db -- resolver -- where", []string{"db 192.0.2.10", "orchard.example.com", "host=orchard"}},
	{"pipeline-placeholder", "app", "", nil},
	{"port-ranges", "app", "", nil},
	{"private-registry", "app", "", nil},
	{"restart-policy", "app", "", nil},
	{"secrets", "app", "env KEY -- env SHORT", []string{"KEY=plum", `SHORT={"user": "plum"}`}},
	{"start-order", "app", "", nil},
	{"web-server", "site", "", nil},
	{"wordpress-links", "blog", "resolve mysql", []string{"mysql "}},
}

// TestDefinitionsOfTheGuideRun runs the examples as they are, but for programs,
// which are testbox, and ports, devices and architectures, of which a user has fewer. Their
// output stays here: there are no log servers.
func TestDefinitionsOfTheGuideRun(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.env = append(b.env, `ORCHARD={"user": "plum"}`)
	t.Cleanup(func() { _ = exec.Command("podman", "volume", "rm", "--force", "crate-data").Run() })
	image := b.testbox()
	for _, example := range examples {
		src, err := guide.Files.ReadFile(example.name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		path := b.file(example.name+".json", b.withTestbox(src, image, example.ends, example.does))
		r := b.podtask(append([]string{"run", path, "--rm", "--limits", "off", "--logs", "local"}, b.given(path, image)...)...)
		if r.code != 0 {
			t.Errorf("%s ends with %d:\n%s%s", example.name, r.code, r.out, r.err)
		}
		for _, want := range append(example.wants, "| done") {
			if !strings.Contains(r.out, want) {
				t.Errorf("%s printed %s, without %q", example.name, r.out, want)
			}
		}
	}
}

// notHere are examples that need what the hosts of the tests do not have; another test runs the like.
var notHere = map[string]string{"gpu.json": "TestGPUsHaveOneTask"}

// TestExamplesOfTheGuideAreAllRun: what podtask accepts is in the lists above.
func TestExamplesOfTheGuideAreAllRun(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	files, err := fs.Glob(guide.Files, "*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		src, err := guide.Files.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		valid := b.podtask("validate", b.file(file, string(src))).code == 0
		listed := notHere[file] != ""
		for _, example := range examples {
			listed = listed || example.name+".json" == file
		}
		if valid != listed {
			t.Errorf("%s: valid %t, run %t", file, valid, listed)
		}
	}
}

// withTestbox puts testbox in the place of the programs of an example: one does what
// it is told, prints and ends with 0, other essential ones stay.
func (b *box) withTestbox(src []byte, image, ends, does string) string {
	b.t.Helper()
	var def map[string]any
	if err := json.Unmarshal(src, &def); err != nil {
		b.t.Fatal(err)
	}
	def["family"] = b.family
	if platform, ok := def["runtimePlatform"].(map[string]any); ok {
		delete(platform, "cpuArchitecture")
	}
	for _, item := range def["containerDefinitions"].([]any) {
		c := item.(map[string]any)
		c["entryPoint"] = []string{"/testbox"}
		if !strings.HasPrefix(c["image"].(string), "<") {
			c["image"] = image
		}
		switch essential, told := c["essential"].(bool); {
		case c["name"] == ends:
			c["command"] = words(strings.TrimPrefix(does+" -- print done", " -- "))
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
func (b *box) given(path, image string) (flags []string) {
	b.t.Helper()
	var findings []struct{ Needs []struct{ Fix string } }
	if err := json.Unmarshal([]byte(b.want(0, "validate", "--format", "json", path).out), &findings); err != nil {
		b.t.Fatal(err)
	}
	file := b.file("given.env", "FROM_FILE=1\n")
	answers := map[string]string{"--map-volume": b.t.TempDir(), "--map-env-file": file, "--map-secret": "env:ORCHARD", "--var": image}
	if strings.Contains(path, "private-registry") {
		answers["--map-secret"] = b.loginFile(0o600, loginJSON) // another test looks for it in environments
	}
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
