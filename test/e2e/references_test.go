//go:build e2e

//e2e:bed plain

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// referenceFiles are what production refers to, by their places in a tree.
var referenceFiles = map[string]string{
	"secretsmanager/shop/db":             `{"username": "shop", "password": "` + marked + `", "host": "db.local"}`,
	"secretsmanager/shop/db@AWSPREVIOUS": `{"password": "` + marked + `"}`,
	"secretsmanager/shop/api":            marked,
	"secretsmanager/shop/registry":       loginJSON,
	"s3/shop-config/prod/app.env":        "LEVEL=debug\n",
	"s3/shop-config/prod/app.conf":       "listen 80",
	"efs/hello":                          "from the file system",
	"role.json":                          `{"Version": 1, "AccessKeyId": "AKIASHOP", "SecretAccessKey": "shop"}`,
}

// answerReferences writes one configuration that answers all of production, and returns what
// counts the calls of its program.
func (b *box) answerReferences() (calls string) {
	b.t.Helper()
	tree, home := filepath.Join(b.dir, "aws"), filepath.Join(b.dir, "config")
	calls = filepath.Join(b.dir, "calls")
	for name, text := range referenceFiles {
		path := filepath.Join(tree, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			b.t.Fatal(err)
		}
	}
	program := b.file("parameter", "#!/bin/sh\necho \"$PODTASK_REFERENCE\" >>"+calls+"\ncase $1 in\n*/region) echo eu-central-1;;\n*/token) echo "+marked+";;\n*) echo \"no parameter $1\" >&2; exit 254;;\nesac\n")
	config := fmt.Sprintf(`clamp-ulimits = true

[[reference]]
match = "arn:aws:ssm:*:parameter/*"
command = [%q, "/{2}"]

[[reference]]
match = "/shop/*"
command = [%q, "{0}"]

[[reference]]
match = "efs:fs-0123456789abcdef0/*"
source = "file:%s/efs"

[[reference]]
match = "plugin:rexray/ebs/*"
source = "file:%s/efs"

[[reference]]
match = "nfs:nfs.internal:/export"
source = "file:%s/efs"

[[reference]]
match = "role:arn:aws:iam::*:role/shop"
source = "file:%s/role.json"

[[reference]]
match = "arn:aws:*"
source = "tree:%s"
`, program, program, tree, tree, tree, tree, tree)
	userConfig, err := os.UserConfigDir()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := errors.Join(
		os.Chmod(program, 0o700), os.MkdirAll(filepath.Join(home, "podtask"), 0o700),
		os.Symlink(filepath.Join(userConfig, "containers"), filepath.Join(home, "containers")), // Podman's
		os.WriteFile(filepath.Join(home, "podtask", "podtask.toml"), []byte(config), 0o600),
	); err != nil {
		b.t.Fatal(err)
	}
	b.env = append(b.env, "XDG_CONFIG_HOME="+home, "PODTASK_LIMITS=best-effort") // not every bed has limits
	return calls
}

// A source that fails ends the start with the reference in the reason, and what the program
// says; never with a value.
func TestReferenceThatCannotBeReadIsNamed(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.answerReferences()
	d := b.define(ctr{Name: "app", Command: words("exit 0"), More: obj{"secrets": []obj{{"name": "A", "valueFrom": "/shop/none"}}}})
	r := b.want(125, "run", d)
	for _, want := range []string{"/shop/none", "variable A of container app", "no parameter /shop/none"} {
		if !strings.Contains(r.err, want) {
			t.Errorf("%q is missing in %s", want, r.err)
		}
	}
}
