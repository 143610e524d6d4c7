//go:build e2e && bed_systemd

package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// A stack comes up on another host from files of this machine: files of variables and secrets go with it, directories do not.
func TestStackOnAnotherHost(t *testing.T) {
	far, near, _ := newSSHBox(t)
	agent := near.agent()
	far.env = append(far.env, "PODTASK_SOCKET="+near.agentSocket())
	compose := func(volume string) string {
		return near.stackFile("shop/compose.yaml", fmt.Sprintf(`name: %s
services:
  web:
    image: %[2]s
    command: [serve, "8080"]
    env_file: [web.env]
    environment: {VERSION: "${VERSION}"}
    secrets: [token]
    ports: ["127.0.0.1:18195:8080"]
%[3]s  worker:
    image: %[2]s
    command: [await, "http://web:8080/env/GREETING", --, cat, /run/secrets/token, --, sleep, forever]
    secrets: [token]
    depends_on: [web]
secrets: {token: {file: ./token}}
`, near.family, near.testbox(), volume))
	}
	near.stackFile("shop/web.env", "GREETING=\"from a file\"\n")
	near.stackFile("shop/token", "hunter2")
	near.stackFile("shop/conf/x", "")
	r := far.with("VERSION=one").want(125, "stack", "up", compose("    volumes: [\"./conf:/conf:ro\"]\n"))
	if !strings.Contains(r.err, "compose.yaml:3") || !strings.Contains(r.err, "nothing of that is mounted here: copy it to this host, and name the copy with --map-volume") {
		t.Errorf("a directory of this machine: %s", r.err)
	}
	file := compose("")
	if r := far.want(125, "stack", "plan", "--lock", file); !strings.Contains(r.err, "without another host comes first") {
		t.Errorf("a lockfile: %s", r.err)
	}
	if r := far.with("VERSION=one").want(0, "stack", "plan", file); !strings.Contains(r.out, "+ worker") {
		t.Errorf("the plan: %s%s", r.out, r.err)
	}
	far.with("VERSION=one").want(0, "stack", "up", file)
	answer := func(path, want string) {
		t.Helper()
		if got, err := get("http://127.0.0.1:18195/env/" + path); err != nil || strings.TrimSpace(got) != want {
			t.Errorf("%s: %q, not %q: %v", path, got, want, err)
		}
	}
	answer("VERSION", "one")
	answer("GREETING", "from a file")
	eventually(t, "the secret", func() bool {
		return strings.Contains(far.want(0, "stack", "logs", near.family, "worker").out, "hunter2")
	})
	if left, _ := filepath.Glob(filepath.Join(near.stateHome(), "podtask", "stacks", "*", "*", "*")); len(left) != 1 {
		t.Errorf("files of the stack: %v", left)
	}
	if r := far.with("VERSION=one").want(0, "stack", "up", file); !strings.Contains(r.out, "up to date") {
		t.Errorf("a second up: %s%s", r.out, r.err)
	}
	there := &box{t: t, dir: filepath.Dir(file), family: far.family, env: far.env} // whose directory has the file
	if r := there.want(0, "stack", "ps", "--format=json"); !strings.Contains(r.out, near.family+"-worker") {
		t.Errorf("ps: %s", r.out)
	}
	far.want(0, "stack", "rm", "--volumes", file)
	far.removeStack(near.family)
	agent.end()
}
