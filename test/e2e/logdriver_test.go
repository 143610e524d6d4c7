//go:build e2e

//e2e:bed systemd

package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/podtask/podtask/internal/testing/registrytest"
)

func logTo(driver string, options obj) obj {
	return obj{"logConfiguration": obj{"logDriver": driver, "options": options}}
}

// Row 11.
func TestLogDriversAreRealOrKeepTheLogsHere(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	r := b.want(0, "run", "--name", b.family, b.define(allOf(
		ctr{Name: "file", Command: words("print hello"), More: logTo("json-file", obj{"max-size": "64k"})},
		ctr{Name: "none", Command: words("print hello"), More: logTo("none", nil)},
		ctr{Name: "cloud", Command: words("print hello"), More: logTo("awslogs", obj{"awslogs-group": "g", "awslogs-region": "eu-west-1"})},
	)...))
	if !strings.Contains(r.err, "awslogs") {
		t.Errorf("no warning: %s", r.err)
	}
	b.wantLines(b.family, "file", "hello")
	b.wantLines(b.family, "none", "")
	b.wantLines(b.family, "cloud", "hello")
	want := map[string]string{"file": "k8s-file", "none": "none", "cloud": "k8s-file"}
	for _, c := range b.inspect(b.family).Containers[:len(want)] {
		var log struct{ Type, Size string }
		if err := json.Unmarshal([]byte(b.podman("inspect", "--format", "{{json .HostConfig.LogConfig}}", c.RuntimeID)), &log); err != nil {
			t.Fatal(err)
		}
		if log.Type != want[c.Name] || c.Name == "file" && !strings.HasPrefix(log.Size, "65.") {
			t.Errorf("%s has the log driver %+v", c.Name, log)
		}
	}
}

func TestJournaldNeedsAJournal(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	path := b.define(ctr{Name: "app", Command: words("print hello"), More: logTo("journald", nil)})
	if bed.name == "plain" {
		if r := b.want(125, "run", path); !strings.Contains(r.err, "journal") || !strings.Contains(r.err, "json-file") {
			t.Errorf("it says %s", r.err)
		}
		return
	}
	id := b.detach(path)
	b.await("app STOPPED")
	eventually(t, "the line in the journal", func() bool { return b.lines(id, "app") == "hello" })
}

// Row 10.
func TestUsersLabelsStandBesideOurs(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.want(0, "run", "--quiet", "--name", b.family, b.define(ctr{Name: "app", Command: words("exit 0"), More: obj{"dockerLabels": obj{
		"team": "blue",
	}}}))
	task := b.inspect(b.family)
	labels := map[string]string{}
	if err := json.Unmarshal([]byte(b.podman("inspect", "--format", "{{json .Config.Labels}}", task.Containers[0].RuntimeID)), &labels); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"team": "blue", "podtask.task-id": task.ID, "podtask.container": "app", "podtask.family": b.family,
		"com.amazonaws.ecs.container-name": "app", "com.amazonaws.ecs.task-definition-family": b.family,
		"com.amazonaws.ecs.cluster": "default",
	} {
		if labels[name] != want {
			t.Errorf("label %s is %q, want %q", name, labels[name], want)
		}
	}
	for _, name := range []string{"com.amazonaws.ecs.task-arn", "com.amazonaws.ecs.task-definition-version"} {
		if labels[name] == "" {
			t.Errorf("no label %s", name)
		}
	}
}

func TestHealthCheckOfAnImageIsIgnoredUnlessAskedFor(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	img, err := registrytest.Image(v1.Config{
		Entrypoint: []string{"/testbox"}, Healthcheck: &v1.HealthConfig{Test: []string{"CMD", "/testbox", "exit", "0"}, Interval: 5 * time.Second},
	}, registrytest.File{Path: "/testbox", Data: bed.testbox})
	if err != nil {
		t.Fatal(err)
	}
	ref, _ := b.push("checked:1", img)
	id := b.detach(b.define(
		ctr{Name: "asked", Image: ref, Command: words("sleep forever"), More: obj{"x-podtask": obj{"imageHealthCheck": true}}},
		ctr{Name: "ignored", Image: ref, Command: words("sleep forever")},
	))
	b.await("asked HEALTHY")
	b.want(0, "stop", "--time", "0", id)
	for _, e := range b.events() {
		if e.Container == "ignored" && strings.Contains(e.String(), "HEALTHY") {
			t.Errorf("the check of the image was run: %s", e)
		}
	}
}
