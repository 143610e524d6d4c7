//go:build e2e && nightly

//e2e:bed systemd

package e2e

import (
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/testing/teamfiles"
)

// teamFile is a case of internal/testing/teamfiles that import makes a definition of.
type teamFile struct {
	dir  string
	args []string
}

// teamFiles returns these cases.
func teamFiles(t *testing.T) (all []teamFile) {
	t.Helper()
	cases, err := fs.Glob(teamfiles.Files, "files/*/*/args")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range cases {
		dir := path.Dir(name)
		want, err := teamfiles.Files.ReadFile(dir + "/want")
		if err != nil {
			t.Fatal(err)
		}
		args, err := teamfiles.Files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		// A log router is not a testbox, and Pods are run by TestPlansAndChartsRun.
		if !strings.Contains(string(want), "cannot be imported") && !strings.Contains(dir, "kubernetes") && !strings.Contains(dir, "firelens") {
			all = append(all, teamFile{dir, strings.Split(strings.TrimSpace(string(args)), "\n")})
		}
	}
	return all
}

// runnable makes a definition one that runs here: its containers are testboxes that end well, ports are free ones. It
// returns the flags that answer what it names on AWS.
func (b *box) runnable(file string) (flags []string) {
	b.t.Helper()
	var def map[string]any
	if err := json.Unmarshal([]byte(read(b.t, file)), &def); err != nil {
		b.t.Fatal(err)
	}
	secret := filepath.Join(b.dir, "secret")
	if err := os.WriteFile(secret, []byte(`{"password": "x", "k": "y"}`), 0o600); err != nil {
		b.t.Fatal(err)
	}
	def["family"] = b.family
	delete(def, "cpu")
	delete(def, "memory")
	for _, c := range def["containerDefinitions"].([]any) {
		ctr := c.(map[string]any)
		ctr["image"], ctr["command"] = b.testbox(), []string{"exit", "0"}
		for _, member := range []string{"entryPoint", "healthCheck", "environmentFiles", "cpu", "memory", "memoryReservation", "ulimits"} {
			delete(ctr, member)
		}
		for _, p := range list(ctr["portMappings"]) {
			delete(p, "hostPort")
		}
		for _, s := range list(ctr["secrets"]) {
			id := strings.Split(s["valueFrom"].(string), ":")
			flag := "--map-secret=" + strings.Join(id[:min(len(id), 7)], ":") + "=file:" + secret
			if !slices.Contains(flags, flag) {
				flags = append(flags, flag)
			}
		}
	}
	for _, v := range list(def["volumes"]) {
		if v["host"] != nil || v["efsVolumeConfiguration"] != nil {
			flags = append(flags, "--map-volume="+v["name"].(string)+"="+b.dir)
		}
		if docker, ok := v["dockerVolumeConfiguration"].(map[string]any); ok {
			delete(docker, "driverOpts")
			docker["scope"] = "task"
			delete(docker, "autoprovision")
		}
	}
	text, err := json.Marshal(def)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		b.t.Fatal(err)
	}
	return flags
}

func list(v any) (all []map[string]any) {
	items, _ := v.([]any)
	for _, item := range items {
		all = append(all, item.(map[string]any))
	}
	return all
}

// Each file that import takes makes a definition that runs, with local images and what stands for AWS.
func TestFilesOfTeamsRun(t *testing.T) {
	t.Parallel()
	for _, f := range teamFiles(t) {
		t.Run(strings.TrimPrefix(f.dir, "files/"), func(t *testing.T) {
			b := newBox(t)
			sub, err := fs.Sub(teamfiles.Files, f.dir)
			if err != nil {
				t.Fatal(err)
			}
			from := filepath.Join(b.dir, "from")
			if err := os.CopyFS(from, sub); err != nil {
				t.Fatal(err)
			}
			args := []string{"import", filepath.Join(from, f.args[0]), "--output", b.dir, "--name", b.family}
			for _, line := range f.args[1:] {
				flag, value, _ := strings.Cut(line, " ")
				switch flag {
				case "env":
					b.env = append(b.env, value)
				case "name":
				default:
					args = append(args, "--"+flag+"="+value)
				}
			}
			told := b.want(0, args...)
			if !strings.Contains(told.err, "Next: podtask ") {
				t.Errorf("import prints no command: %s", told.err)
			}
			file := filepath.Join(b.dir, b.family+".json")
			b.want(0, append([]string{"run", "--rm", "--limits=off", file}, b.runnable(file)...)...)
		})
	}
}
