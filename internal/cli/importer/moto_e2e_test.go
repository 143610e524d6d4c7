//go:build e2e && bed_systemd && nightly

package importer

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/define/foreign"
	"github.com/podtask/podtask/internal/define/foreign/toolfile"
	"github.com/podtask/podtask/internal/testing/mototest"
)

// A service of moto, read with the real command line of AWS, is imported, registered and imported again without a change.
func TestMotoServicesAreImported(t *testing.T) {
	for _, program := range []string{"moto_server", "aws"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	url, dir := mototest.Start(t), t.TempDir()
	environ := func() []string {
		return append(os.Environ(), "AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=b", "HOME="+dir)
	}
	aws := awsCommand{environ: environ, flags: []string{"--region", "eu-west-1", "--endpoint-url", url}, cluster: "shop"}
	call := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "aws", append(append([]string{"ecs"}, args...), aws.flags...)...)
		cmd.Env = environ()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
	}
	register := func(definition []byte) {
		t.Helper()
		file := filepath.Join(dir, "task.json")
		if err := os.WriteFile(file, definition, 0o600); err != nil {
			t.Fatal(err)
		}
		call("register-task-definition", "--cli-input-json", "file://"+file)
	}
	read := func() toolfile.Result {
		t.Helper()
		q, err := aws.read(t.Context(), "web")
		if err != nil {
			t.Fatal(err)
		}
		r, err := foreign.Live(q)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	register([]byte(`{"family": "web", "networkMode": "awsvpc", "cpu": "256", "memory": "512", "requiresCompatibilities": ["FARGATE"], "tags": [{"key": "team", "value": "shop"}],
		"containerDefinitions": [{"name": "web", "image": "nginx:1", "essential": true, "portMappings": [{"containerPort": 80, "hostPort": 80, "protocol": "tcp"}],
		"environment": [{"name": "B", "value": ""}, {"name": "A", "value": "1"}], "secrets": [{"name": "T", "valueFrom": "arn:aws:secretsmanager:eu-west-1:111122223333:secret:t-AbCdEf:k::"}]}]}`))
	call("create-cluster", "--cluster-name", "shop")
	call("create-service", "--cluster", "shop", "--service-name", "web", "--task-definition", "web", "--desired-count", "2")
	first := read()
	register(first.Definition.JSON())
	call("update-service", "--cluster", "shop", "--service", "web", "--task-definition", "web")
	again := read()
	if !bytes.Equal(first.Definition.JSON(), again.Definition.JSON()) {
		t.Errorf("imported again:\n%s\nbefore:\n%s", again.Definition.JSON(), first.Definition.JSON())
	}
	if d := foreign.Differences(first.Definition, again.Definition); len(d) > 0 {
		t.Errorf("differences: %v", d)
	}
	if _, err := aws.read(t.Context(), "none"); err == nil || !strings.Contains(err.Error(), "there is no such service") {
		t.Error(err)
	}
}
