//go:build e2e && nightly

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Clients of ECS that are not part of this project drive the agent: the command line of AWS,
// boto3 and Ansible's modules, as Debian 12 and 13 have them, and the SDK for JavaScript
// (hack/install.sh awsclients awssdk; hack/bed-systemd with NIGHTLY).
func TestForeignClientsDriveTheAgent(t *testing.T) {
	t.Parallel()
	dir, err := filepath.Abs(filepath.Join("testdata", "awsclients"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, program string
		args          func(b *box, env map[string]string) []string
	}{
		{"command line", awsCLI, func(b *box, _ map[string]string) []string {
			return []string{"bash", filepath.Join(dir, "walk.sh"), bed.podtask, b.family, b.testbox()}
		}},
		{"boto3", "/usr/lib/python3/dist-packages/boto3", func(b *box, _ map[string]string) []string {
			return []string{"/usr/bin/python3", filepath.Join(dir, "walk.py"), b.family, b.testbox()}
		}},
		{"JavaScript", filepath.Join(filepath.Dir(bed.podtask), "node_modules"), func(b *box, _ map[string]string) []string {
			text, err := os.ReadFile(filepath.Join(dir, "walk.mjs"))
			if err != nil {
				b.t.Fatal(err)
			}
			program := b.file("walk.mjs", string(text))
			if err := os.Symlink(filepath.Join(filepath.Dir(bed.podtask), "node_modules"), filepath.Join(b.dir, "node_modules")); err != nil {
				b.t.Fatal(err)
			}
			return []string{"node", program, b.family, b.testbox()}
		}},
		{"Ansible", "/usr/bin/ansible-playbook", func(b *box, env map[string]string) []string {
			return []string{"/usr/bin/ansible-playbook", "-e", "ansible_python_interpreter=/usr/bin/python3", "-e", "family=" + b.family, "-e", "image=" + b.testbox(),
				"-e", "endpoint=" + env["AWS_ENDPOINT_URL"], "-e", "access_key=" + env["AWS_ACCESS_KEY_ID"], "-e", "secret_key=" + env["AWS_SECRET_ACCESS_KEY"],
				filepath.Join(dir, "walk.yaml")}
		}},
	} {
		if bed.name != "plain" && (c.name == "JavaScript" || c.name == "Ansible") {
			continue // there is only one version of them
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if _, err := os.Stat(c.program); err != nil {
				t.Skip(err)
			}
			b := newBox(t)
			b.env = append(b.env, "PODTASK_LIMITS=off")
			address := loopback(t)
			b.agent("--aws-listen=" + address)
			env := awsEnv(b, address)
			args := c.args(b, env)
			cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
			cmd.Dir = b.dir
			cmd.Env = append([]string{"LANG=C.UTF-8"}, b.env...)
			for name, value := range env {
				cmd.Env = append(cmd.Env, name+"="+value)
			}
			cmd.Env = append(cmd.Env, "PATH=/usr/bin:/bin", "HOME="+b.dir)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if c.name != "Ansible" && !strings.HasSuffix(string(out), "done\n") {
				t.Errorf("it did not come to its end:\n%s", out)
			}
		})
	}
}
