//go:build e2e

//e2e:bed plain

package e2e

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Podman looks a secret up at every start: it must be there for an
// unexpected one, whichever process owns the task by then.
func TestSecretIsThereAtEveryStart(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	d := b.define(ctr{
		Name: "app", Command: words("env TOKEN -- tally /tmp/runs 3 -- wait /tmp/go"), Restart: restarts(0, 0),
		More: obj{"secrets": []obj{{"name": "TOKEN", "valueFrom": "env:PT_TOKEN"}}},
	})
	clean := b.env
	b.env = append(clean[:len(clean):len(clean)], "PT_TOKEN=pear")
	id := b.detach(d)
	b.env = clean
	b.await("app RESTARTING")
	b.killOwner(id)
	wait := b.start("wait", id) // which owns the task
	eventually(t, "the last start", func() bool {
		app := b.inspect(id).Containers[0]
		return app.RestartCount == 2 && app.Status == "RUNNING" && app.RestartAt == nil
	})
	b.tell(id, "app", "/tmp/go")
	if got := wait.want(0).out; got != "0\n" {
		t.Errorf("wait printed %q", got)
	}
	b.wantLines(id, "app", "TOKEN=pear", "TOKEN=pear", "TOKEN=pear")
	if left := b.podmanSecrets(id); len(left) > 0 {
		t.Errorf("the task has stopped and Podman has %q", left)
	}
}

// What DescribeTaskDefinition prints runs, in JSON and in YAML.
func TestDescribedDefinitionRuns(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	image := b.testbox()
	described := b.file("described.json", `{
  "taskDefinition": {
    "taskDefinitionArn": "arn:aws:ecs:eu-west-1:123456789012:task-definition/`+b.family+`:7", "family": "`+b.family+`", "revision": 7, "status": "ACTIVE",
    "volumes": [], "placementConstraints": [], "taskRoleArn": null, "networkMode": "awsvpc", "cpu": "256", "memory": "512",
    "requiresAttributes": [{"name": "com.amazonaws.ecs.capability.docker-remote-api.1.18"}], "compatibilities": ["EC2", "FARGATE"],
    "requiresCompatibilities": ["FARGATE"], "registeredAt": "2026-01-02T03:04:05.678000+01:00", "registeredBy": "arn:aws:iam::123456789012:root",
    "containerDefinitions": [{"name": "app", "image": "`+image+`", "cpu": 0, "portMappings": [], "essential": true, "command": ["env", "A", "--", "exit", "3"],
      "environment": [{"name": "A", "value": "b"}], "environmentFiles": [], "mountPoints": [], "volumesFrom": [], "ulimits": [], "systemControls": []}]
  },
  "tags": [{"key": "team", "value": "fruit"}]
}`)
	yaml := b.file("described.yaml", `
taskDefinition:
  family: `+b.family+`
  containerDefinitions:
  - &app
    name: first
    image: `+image+`
    essential: false
    command: [env, A]
    environment: [&a {name: A, value: b}]
  - <<: *app
    name: app
    essential: true
    command: [env, A, --, exit, "3"]
    dependsOn: [{containerName: first, condition: SUCCESS}]
`)
	for path, want := range map[string]string{described: "app | A=b\n", yaml: "first | A=b\napp   | A=b\n"} {
		r := b.want(3, "run", "--rm", "--quiet", "--limits", "off", path)
		if r.out != want {
			t.Errorf("%s prints %q, want %q", filepath.Base(path), r.out, want)
		}
	}
}

func TestContainerHasATerminalAndInputIfItAsksForThem(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.want(0, "run", "--quiet", "--name", b.family, b.define(allOf(
		ctr{Name: "terminal", Command: words("print hello"), More: obj{"pseudoTerminal": true}},
		ctr{Name: "input", Command: words("print hello"), More: obj{"interactive": true}},
		ctr{Name: "neither", Command: words("print hello")},
	)...))
	want := map[string]string{"terminal": "true false", "input": "false true", "neither": "false false"}
	for _, c := range b.inspect(b.family).Containers {
		if want[c.Name] == "" {
			continue
		}
		if got := b.podman("inspect", "--format", "{{.Config.Tty}} {{.Config.OpenStdin}}", c.RuntimeID); got != want[c.Name] {
			t.Errorf("%s has terminal and input %s, want %s", c.Name, got, want[c.Name])
		}
		// A terminal ends lines with a carriage return and a line feed; what is written is kept.
		end := "\n"
		if c.Name == "terminal" {
			end = "\r\n"
		}
		if got := b.want(0, "logs", b.family, c.Name).out; got != "hello"+end {
			b.t.Errorf("%s printed %q", c.Name, got)
		}
	}
}

func TestIPCModeHostSharesMemoryWithTheHost(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	shared := "/dev/shm/pt-" + b.family
	t.Cleanup(func() { _ = os.Remove(shared) })
	path := b.write(def{More: obj{"ipcMode": "host"}, Containers: []ctr{{Name: "app", Command: words("write " + shared + " hello")}}})
	if _, err := os.Stat("/dev/mqueue"); err != nil && b.oldPodman() {
		// Podman mounts it with the host's namespace. Without progress the reason is told too.
		if r := b.want(125, "run", "--quiet", "--rm", path); !strings.Contains(r.err, "did not start") || !strings.Contains(r.err, "/dev/mqueue") {
			t.Errorf("it says %q", r.err)
		}
		return
	}
	b.want(0, "run", "--quiet", path)
	if text, err := os.ReadFile(shared); err != nil || string(text) != "hello" {
		t.Errorf("on the host there is %q, %v", text, err)
	}
}

func TestImageForAnotherArchitectureIsRefused(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH != "amd64" {
		t.Skip("the definition asks for the other architecture of ECS")
	}
	b := newBox(t)
	more := obj{"runtimePlatform": obj{"operatingSystemFamily": "LINUX", "cpuArchitecture": "ARM64"}}
	arm := b.write(def{More: more, Containers: []ctr{{Name: "app", Command: words("exit 0")}}})
	r := b.want(125, "run", "--name", b.family, arm)
	if !strings.Contains(r.err, "arm64") {
		t.Errorf("it says %s", r.err)
	}
	if quiet := b.want(125, "run", "--quiet", "--rm", arm).err; !strings.Contains(quiet, "did not start") || !strings.Contains(quiet, "arm64") {
		t.Errorf("without progress it says %q", quiet)
	}
	if reason := b.inspect(b.family).StoppedReason; !strings.Contains(reason, "arm64") {
		t.Errorf("the reason is %s", reason)
	}
	more = obj{"runtimePlatform": obj{"operatingSystemFamily": "LINUX", "cpuArchitecture": "X86_64"}}
	b.want(0, "run", "--quiet", b.write(def{More: more, Containers: []ctr{{Name: "app", Command: words("exit 0")}}}))
}

// Names of secrets on AWS are mapped once, in the configuration, and the definitions
// stay as they are.
func TestSecretsAreMappedByConfiguration(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.secretFile("database", `{"user": "plum"}`)
	const arn = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:db-AbCdEf"
	b.env = append(b.env, "PODTASK_MAP_SECRET_FILE="+b.file("secrets.map", "# of production\n"+arn+"=file:database\n/shop/other=env:NOBODY_HAS_THIS\n"))
	d := b.define(ctr{Name: "app", Command: words("env DB_USER"), More: obj{"secrets": []obj{{"name": "DB_USER", "valueFrom": arn + ":user::"}}}})
	if got := b.want(0, "run", "--quiet", "--rm", d).out; got != "app | DB_USER=plum\n" {
		t.Errorf("it printed %q", got)
	}
}

// The usual form of a health check: a line for the container's shell, with its
// variables and quotes.
func TestHealthCheckIsALineForTheShell(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	image, _ := b.push("shell:1", shellImage(t))
	shell := func(line string) *check { return &check{Command: []string{"CMD-SHELL", line}, Interval: 5, Retries: 1} }
	id := b.detach(b.define(
		ctr{
			Name: "app", Image: image, Command: words("write /tmp/up -- sleep forever"), StopTimeout: 1, Environment: []envVar{{"GREETING", "hello there"}},
			Health: shell(`[ "$GREETING" = 'hello there' ] && cat /tmp/up > /dev/null || exit 1`),
		},
		ctr{Name: "ill", Image: image, Essential: optional, Command: words("sleep forever"), StopTimeout: 1, Health: shell("cat /nowhere || exit 1")},
		ctr{Name: "next", Image: image, Essential: optional, DependsOn: []on{{"app", "HEALTHY"}}, Command: words("print ran")},
	))
	b.await("next STOPPED")
	b.wantLines(id, "next", "ran")
	b.await("ill UNHEALTHY")
	b.want(0, "stop", id)
	inOrder(t, b.events(), "app HEALTHY", "next RUNNING")
}
