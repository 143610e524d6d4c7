//go:build e2e && bed_vm

package vm

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/test/testbed"
)

// shopDefinition refers to a secret, a file system and a file as production does on AWS.
const shopDefinition = `{"family": "shop", "networkMode": "awsvpc", "cpu": "256", "memory": "128",
  "executionRoleArn": "arn:aws:iam::123456789012:role/ecsTaskExecutionRole",
  "containerDefinitions": [{"name": "app", "image": "@IMAGE", "memory": 64, "stopTimeout": 2,
    "command": ["term", "0", "--", "print", "@REVISION", "--", "env", "USER", "--", "env", "LEVEL", "--", "cat", "/files/hello", "--", "write", "/tmp/ready", "--", "sleep", "forever"],
    "healthCheck": {"command": ["CMD", "/testbox", "exists", "/tmp/ready"], "interval": 5},
    "secrets": [{"name": "USER", "valueFrom": "arn:aws:secretsmanager:eu-central-1:123456789012:secret:shop/db-AbCdEf:username::"}],
    "environmentFiles": [{"type": "s3", "value": "arn:aws:s3:::shop-config/app.env"}],
    "mountPoints": [{"sourceVolume": "files", "containerPath": "/files"}]}],
  "volumes": [{"name": "files", "efsVolumeConfiguration": {"fileSystemId": "fs-0123456789abcdef0"}}]}`

func shopConfig() string { return filepath.Join(os.Getenv("HOME"), ".config/podtask/podtask.toml") }

func shopTree() string { return filepath.Join(os.Getenv("HOME"), "shop-aws") }

// configureShop answers the references of shopDefinition. The agent reads it when it starts.
func configureShop(t *testing.T) {
	tree := shopTree()
	write(t, filepath.Join(tree, "secretsmanager/shop/db"), `{"username": "of-the-secret"}`)
	write(t, filepath.Join(tree, "s3/shop-config/app.env"), "LEVEL=debug\n")
	write(t, filepath.Join(tree, "efs/hello"), "from the file system")
	write(t, shopConfig(), "[[reference]]\nmatch = \"efs:fs-0123456789abcdef0\"\nsource = \"file:"+tree+"/efs\"\n\n"+
		"[[reference]]\nmatch = \"arn:aws:*\"\nsource = \"tree:"+tree+"\"\n")
}

// runShop makes a service, updates it and rolls it back.
func runShop(t *testing.T) {
	agentState(t)
	revision := func(name string) string {
		path := filepath.Join(t.TempDir(), name+".json")
		write(t, path, strings.NewReplacer("@IMAGE", image, "@REVISION", name).Replace(shopDefinition))
		return path
	}
	podtask(t, "service", "create", "shop", revision("one"), "--wait", "--timeout=4m")
	checkShop(t, "one")
	podtask(t, "service", "update", "shop", revision("two"), "--wait", "--timeout=4m")
	checkShop(t, "two")
	podtask(t, "service", "rollback", "shop", "--wait", "--timeout=4m")
	checkShop(t, "one")
}

// checkShop waits for one healthy copy and checks what it was given. It returns its id.
func checkShop(t *testing.T, revision string) (id string) {
	t.Helper()
	seen := ""
	if !testbed.Until(func() bool {
		var all []api.Service
		out, errs, _ := command(t, bin(), "service", "inspect", "shop")
		seen = out + errs
		if json.Unmarshal([]byte(out), &all) != nil || len(all) != 1 {
			return false
		}
		healthy := slices.DeleteFunc(all[0].Tasks, func(s api.ServiceTask) bool { return !s.Healthy })
		if len(healthy) == 1 {
			id = inspect(t, healthy[0].Name).ID
		}
		return len(healthy) == 1
	}) {
		t.Fatalf("no healthy copy of the service: %s", seen)
	}
	out := podtask(t, "logs", id)
	for _, want := range []string{revision, "USER=of-the-secret", "LEVEL=debug", "from the file system"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in %s", want, out)
		}
	}
	return id
}

// checkShopAfterBoot checks that the service has a copy again, and removes it and
// the agent.
func checkShopAfterBoot(t *testing.T) {
	agentState(t)
	checkShop(t, "one")
	podtask(t, "service", "rm", "--force", "--wait", "--timeout=4m", "shop")
	if out := podtask(t, "ps", "--all", "--filter", "service=shop", "--quiet"); out != "" {
		t.Errorf("left of the service: %s", out)
	}
	must(t, "systemctl", "--user", "disable", "--now", "podtask.socket", "podtask.service")
	must(t, "rm", "-r", shopConfig(), shopTree())
}
