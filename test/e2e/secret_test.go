//go:build e2e

//e2e:bed systemd

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// marked is looked for wherever a secret must not be.
const marked = "hunter2-and-nobody-else"

// secretFile is a file that only its owner may read.
func (b *box) secretFile(name, text string) string {
	b.t.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// podmanSecrets lists Podman's secrets of a task.
func (b *box) podmanSecrets(id string) (names []string) {
	for _, name := range strings.Fields(b.podman("secret", "ls", "--format", "{{.Name}}")) {
		if strings.Contains(name, id[:12]) {
			names = append(names, name)
		}
	}
	return names
}

func TestSecretsReachContainersAndShowNowhereElse(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	password := b.secretFile("password", marked+"\n")
	object := b.secretFile("object", `{"user": "me", "password": "`+marked+`"}`)
	helper := filepath.Join(b.dir, "helper")
	if err := os.WriteFile(helper, []byte("#!/bin/sh\ncat \"$1\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	const arn = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:db-AbCdEf"
	// The program prints nothing of the marked secret: its log is searched as well.
	d := b.write(def{Containers: []ctr{{
		Name: "app", Command: words("env FROM_ARN -- exists /run/app/key -- sleep forever"), StopTimeout: 2,
		More: obj{
			"secrets": []obj{
				{"name": "FROM_ARN", "valueFrom": arn + ":user::"}, {"name": "FROM_JSON", "valueFrom": arn + ":password::"},
				{"name": "FROM_FILE", "valueFrom": "file:" + password}, {"name": "FROM_PROGRAM", "valueFrom": "command:" + helper + " " + password},
			},
			"x-podtask": obj{"secretFiles": []obj{{"path": "/run/app/key", "valueFrom": "file:" + password, "mode": "0440"}}},
		},
	}}})
	run := b.want(0, "run", "-d", "--map-secret", arn+"=file:"+object, d)
	id := strings.TrimSpace(run.out)
	if warned := strings.Contains(run.err, "podman inspect"); warned != b.oldPodman() {
		t.Errorf("a warning of podman inspect: %t: %s", warned, run.err)
	}
	b.await("app RUNNING")
	app := b.inspect(id).Containers[0].RuntimeID
	for _, step := range []string{"env FROM_JSON", "env FROM_FILE", "env FROM_PROGRAM", "cat /run/app/key"} {
		// exec has the variables of the container.
		if got := b.podman(append([]string{"exec", app, "/testbox"}, words(step)...)...); !strings.HasSuffix(got, marked) {
			t.Errorf("%s printed %q", step, got)
		}
	}
	b.wantLines(id, "app", "FROM_ARN=me")
	if got := b.podmanSecrets(id); len(got) != 5 {
		t.Errorf("Podman has the secrets %q", got)
	}
	b.checkNotShown(id, marked)
	b.want(0, "stop", id)
	if got := b.podmanSecrets(id); len(got) != 0 {
		t.Errorf("the task has stopped and Podman has %q", got)
	}
	b.checkNotShown(id, marked)
}

// checkNotShown looks for a text in all that podtask and Podman show of a task.
func (b *box) checkNotShown(id, text string) {
	b.t.Helper()
	b.want(0, "logs", id)
	since := b.inspect(id).CreatedAt.Format(time.RFC3339) // Podman reads the whole journal since then
	shown := map[string]string{
		"podtask inspect": b.want(0, "inspect", id).out, "podtask events": b.want(0, "events", "--format", "json", "--stream=false").out,
		"podtask logs":  b.want(0, "logs", id).out,
		"podman events": b.podman("events", "--stream=false", "--since", since, "--filter", "type=container"),
	}
	for _, c := range b.inspect(id).Containers {
		if b.oldPodman() {
			break // Podman before 5.3 shows them, of which podtask warns
		}
		shown["podman inspect "+c.Name] = b.podman("inspect", c.RuntimeID)
	}
	shown["podman pod inspect"] = b.podman("pod", "inspect", b.inspect(id).PodID)
	for what, out := range shown {
		if strings.Contains(out, text) {
			b.t.Errorf("%s shows the secret", what)
		}
	}
	for _, pid := range b.owners() {
		for _, file := range []string{"cmdline", "environ"} {
			if data, err := os.ReadFile(filepath.Join("/proc", pid, file)); err == nil && strings.Contains(string(data), text) {
				b.t.Errorf("%s of the owner shows the secret", file)
			}
		}
	}
	if out, err := exec.Command("grep", "-rl", text, b.stateHome()).Output(); err == nil {
		b.t.Errorf("the state has the secret: %s", out)
	}
}

func TestSecretFromTheEnvironmentOutlivesTheProcessThatHadIt(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	d := b.define(ctr{Name: "app", Command: words("wait /tmp/go -- sleep forever"), StopTimeout: 2, More: obj{"secrets": []obj{{"name": "TOKEN", "valueFrom": "env:PT_TOKEN"}}}})
	clean := b.env
	b.env = append(clean[:len(clean):len(clean)], "PT_TOKEN="+marked)
	id := b.detach(d)
	b.env = clean
	b.await("app RUNNING")
	b.killOwner(id)
	if got := b.podman("exec", b.inspect(id).Containers[0].RuntimeID, "/testbox", "env", "TOKEN"); got != "TOKEN="+marked {
		t.Errorf("it is %q", got)
	}
	// The task has no owner: its removal deletes the secret too.
	b.want(0, "rm", "--force", id)
	if got := b.podmanSecrets(id); len(got) != 0 {
		t.Errorf("left: %q", got)
	}
}

func TestUsersOwnPodmanSecretIsUsedAndKept(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	name := "pt-own-" + b.family
	b.podman("secret", "create", name, b.secretFile("own", "mine"))
	t.Cleanup(func() { _ = exec.Command("podman", "secret", "rm", name).Run() })
	b.want(0, "run", "--quiet", "--name", b.family, b.define(ctr{Name: "app", Command: words("env TOKEN"), More: obj{"secrets": []obj{{"name": "TOKEN", "valueFrom": "podman:" + name}}}}))
	b.wantLines(b.family, "app", "TOKEN=mine")
	b.want(0, "rm", b.family)
	if err := exec.Command("podman", "secret", "inspect", name).Run(); err != nil {
		t.Error("the user's secret was removed")
	}
}

func TestSecretsThatCannotBeHadAreAllNamedBeforeAnythingIsMade(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	r := b.want(125, "run", b.define(ctr{Name: "app", More: obj{"secrets": []obj{
		{"name": "A", "valueFrom": "podman:pt-nobody"}, {"name": "B", "valueFrom": "file:/nowhere/secret"}, {"name": "C", "valueFrom": "env:PT_NOWHERE"},
	}}}))
	for _, want := range []string{"variable A", "pt-nobody", "/nowhere/secret", "PT_NOWHERE"} {
		if !strings.Contains(r.err, want) {
			t.Errorf("%s does not name %q", r.err, want)
		}
	}
	if got := b.objects(); got != "" {
		t.Errorf("something was made: %s", got)
	}
}

func TestEnvironmentFilesComeBelowTheEnvironment(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	first := b.secretFile("first.env", "# both\nBOTH=first\nSET=first\n")
	second := b.secretFile("second.env", "BOTH=second\nLAST=a b=c\n")
	files := []obj{{"type": "s3", "value": first}, {"type": "s3", "value": second}}
	app := ctr{Name: "app", Command: words("env SET -- env BOTH -- env LAST"), Environment: []envVar{{"SET", "definition"}}, More: obj{"environmentFiles": files}}
	b.want(0, "run", "--quiet", "--name", b.family, b.define(app))
	b.wantLines(b.family, "app", "SET=definition", "BOTH=first", "LAST=a b=c")
	app.More = obj{"environmentFiles": []obj{{"type": "s3", "value": "/nowhere/x.env"}}}
	if r := b.want(125, "run", b.define(app)); !strings.Contains(r.err, "/nowhere/x.env") || !strings.Contains(r.err, "container app") {
		t.Errorf("it says %s", r.err)
	}
}
