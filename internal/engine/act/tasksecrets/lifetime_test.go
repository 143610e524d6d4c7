package tasksecrets_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/testing/enginehost"
	"github.com/podtask/podtask/pkg/lifecycle"
)

func TestSecretsLiveAsLongAsAContainerMayStart(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	e := host.Open()
	host.Setenv("TOKEN", "from the environment")
	keys := host.WriteFile("keys.json", `{"password": "from JSON"}`)
	task := host.Task(nil, enginehost.Fields{
		"name": "app", "command": "env TOKEN -- env PASSWORD -- cat /run/key",
		"secrets": []any{
			enginehost.Fields{"name": "TOKEN", "valueFrom": "env:TOKEN"},
			enginehost.Fields{"name": "PASSWORD", "valueFrom": "arn:aws:secretsmanager:eu-west-1:1:secret:x:password::"},
		},
		"x-podtask": enginehost.Fields{"secretFiles": []any{enginehost.Fields{"path": "/run/key", "valueFrom": "file:" + keys}}},
	})
	task.Containers[0].Secrets[1].Source = "file:" + keys // as --map-secret does
	if err := e.Preflight.Check(t.Context(), task, enginehost.Unlimited); err != nil {
		t.Fatal(err)
	}
	s, err := enginehost.Record(t.Context(), e.Creator, task, "", enginehost.Unlimited)
	if err != nil {
		t.Fatal(err)
	}
	// An owner in another process has not our environment.
	host.Unsetenv("TOKEN")
	enginehost.Finish(t, e, s.ID)
	want := []string{"app: PASSWORD=from JSON", "app: TOKEN=from the environment", `app: {"password": "from JSON"}`}
	if got := enginehost.Output(t, e, s); !slices.Equal(got, want) {
		t.Errorf("the container saw %q", got)
	}
	if left := host.Podman.Left(s.ID); slices.ContainsFunc(left, func(l string) bool { return strings.HasPrefix(l, "secret ") }) {
		t.Errorf("after the task has stopped there is %q", left)
	}
	data, err := os.ReadFile(filepath.Join(host.Dir(), "state", "tasks", s.ID))
	if err == nil && strings.Contains(string(data), "from") {
		t.Error("the record holds a secret")
	}
}

func TestTaskWhoseSecretCannotBeReadIsRefusedWithAllReasons(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	e := host.Open()
	task := host.Task(nil, enginehost.Fields{"name": "app", "command": "exit 0", "secrets": []any{
		enginehost.Fields{"name": "A", "valueFrom": "env:NOWHERE"},
		enginehost.Fields{"name": "B", "valueFrom": "file:/nowhere/secret"},
		enginehost.Fields{"name": "C", "valueFrom": "podman:nobody"},
		enginehost.Fields{"name": "D", "valueFrom": "file:" + host.WriteFile("nul", "hunter2\x00")},
	}})
	err := e.Preflight.Check(t.Context(), task, enginehost.Unlimited)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"variable A of container app", "NOWHERE", "/nowhere/secret", "no secret nobody", "NUL"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the secret is in the error: %v", err)
	}
}

// The secrets of a task are made when it is created, so that any process can become its owner; they go with the task
// also if no pod was made for it.
func TestSecretsOfATaskWithoutPodGoWithIt(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	e := host.Open()
	host.Setenv("TOKEN", "from the environment")
	task := host.Task(nil, enginehost.Fields{"name": "app", "command": "exit 0", "secrets": []any{enginehost.Fields{"name": "TOKEN", "valueFrom": "env:TOKEN"}}})
	s, err := enginehost.Record(t.Context(), e.Creator, task, "", enginehost.Unlimited)
	if err != nil {
		t.Fatal(err)
	}
	if left := host.Podman.Left(s.ID); len(left) == 0 {
		t.Fatal("the creation makes no secret")
	}
	enginehost.Finish(t, e, s.ID, lifecycle.RemoveRequested{By: "test"})
	if left := host.Podman.Left(s.ID); len(left) > 0 {
		t.Errorf("after the removal there is %q", left)
	}
}
