//go:build e2e && bed_systemd

package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/engine/facts/failpoint"
)

// A command that is killed after it has stored the credentials of a new task, and before there is
// a record of the task, leaves credentials that gc removes. It looks at the secrets of all tasks, so it
// does not run beside others.
func TestKilledBeforeTheRecordLeavesCredentialsToGC(t *testing.T) {
	b := newBox(t)
	b.anonymous()
	ref, _ := b.push("app:1", b.freshImage("app"))
	logins := func() []string {
		t.Helper()
		return slices.DeleteFunc(strings.Fields(b.podman("secret", "ls", "--format", "{{.Name}}")), func(name string) bool { return !strings.HasSuffix(name, "-login") })
	}
	before := logins()
	manifest := filepath.Join(b.dir, "pod.yaml")
	text := "apiVersion: v1\nkind: Secret\nmetadata: {name: login}\ntype: kubernetes.io/dockerconfigjson\nstringData:\n  .dockerconfigjson: '" + string(bed.reg.AuthJSON()) + "'\n" +
		"---\napiVersion: v1\nkind: Pod\nmetadata: {name: " + b.family + "}\nspec:\n  imagePullSecrets: [{name: login}]\n  containers: [{name: app, image: " + ref + "}]\n"
	if err := os.WriteFile(manifest, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	env := b.env
	b.env = append(slices.Clip(env), failpoint.Env+"="+failpoint.BeforeRecord)
	if r := b.podtask("run", "-d", manifest); r.code >= 0 {
		t.Fatalf("run was not killed: code %d, %s", r.code, r.err)
	}
	b.env = env
	if got := logins(); len(got) != len(before)+1 {
		t.Fatalf("the secrets are %q, were %q", got, before)
	}
	b.want(0, "gc")
	if got := logins(); len(got) != len(before) {
		t.Errorf("after gc the secrets are %q, were %q", got, before)
	}
}
