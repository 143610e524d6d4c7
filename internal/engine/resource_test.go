package engine_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/engine"

	"github.com/podtask/podtask/internal/engine/conn"
	"github.com/podtask/podtask/internal/engine/limits"
	"github.com/podtask/podtask/internal/engine/observe"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/testing/enginetest"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

type members = map[string]any

// resources is a host whose Podman is in memory and whose environment can change.
type resources struct {
	t      *testing.T
	dir    string
	host   *engine.Engine
	podman *enginetest.Fake
	env    sync.Map
	leave  func() error // of the task that stopped last
}

const localImage = "localhost/testbox:1"

func newResources(t *testing.T) *resources {
	t.Helper()
	r := &resources{t: t, dir: t.TempDir(), podman: enginetest.New(enginetest.Wall{})}
	r.podman.Load(localImage, enginetest.Image{})
	var err error
	r.host, err = engine.Open(engine.Config{
		StateDir: filepath.Join(r.dir, "state"), RuntimeDir: filepath.Join(r.dir, "run"),
		Getenv: func(name string) string {
			value, _ := r.env.Load(name)
			text, _ := value.(string)
			return text
		},
		Dial: func(context.Context) (conn.Podman, error) { return r.podman, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *resources) task(volumes []any, containers ...members) taskdef.Task {
	r.t.Helper()
	for _, c := range containers {
		c["image"] = localImage
		c["command"] = strings.Fields(c["command"].(string))
	}
	src, err := json.Marshal(members{"family": "web", "volumes": volumes, "containerDefinitions": containers})
	if err != nil {
		r.t.Fatal(err)
	}
	task, report, err := taskdef.Parse("web.json", src)
	if err != nil {
		r.t.Fatal(err, report)
	}
	return task
}

var localOnly = lifecycle.Options{Pull: lifecycle.PullNever, Limits: limits.Off}

// file writes a file that only its owner may read.
func (r *resources) file(name, text string) string {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	return path
}

func (r *resources) logs(s lifecycle.State) (lines []string) {
	r.t.Helper()
	err := r.host.Logs.Read(r.t.Context(), s, "", observe.LogOptions{Tail: -1}, func(l observe.LogLine) error {
		lines = append(lines, l.Container+": "+l.Text)
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	slices.Sort(lines)
	return lines
}

func TestSecretsLiveAsLongAsAContainerMayStart(t *testing.T) {
	t.Parallel()
	r := newResources(t)
	r.env.Store("TOKEN", "from the environment")
	keys := r.file("keys.json", `{"password": "from JSON"}`)
	task := r.task(nil, members{
		"name": "app", "command": "env TOKEN -- env PASSWORD -- cat /run/key",
		"secrets": []any{
			members{"name": "TOKEN", "valueFrom": "env:TOKEN"},
			members{"name": "PASSWORD", "valueFrom": "arn:aws:secretsmanager:eu-west-1:1:secret:x:password::"},
		},
		"x-podtask": members{"secretFiles": []any{members{"path": "/run/key", "valueFrom": "file:" + keys}}},
	})
	task.Containers[0].Secrets[1].Source = "file:" + keys // as --map-secret does
	if err := r.host.Preflight.Check(t.Context(), task, localOnly); err != nil {
		t.Fatal(err)
	}
	s, err := r.host.Creator.Create(t.Context(), task, "", localOnly)
	if err != nil {
		t.Fatal(err)
	}
	// An owner in another process has not our environment.
	r.env.Delete("TOKEN")
	carry(t, r.host, s.ID)
	want := []string{"app: PASSWORD=from JSON", "app: TOKEN=from the environment", `app: {"password": "from JSON"}`}
	if got := r.logs(s); !slices.Equal(got, want) {
		t.Errorf("the container saw %q", got)
	}
	if left := r.podman.Left(s.ID); slices.ContainsFunc(left, func(l string) bool { return strings.HasPrefix(l, "secret ") }) {
		t.Errorf("after the task has stopped there is %q", left)
	}
	data, err := os.ReadFile(filepath.Join(r.dir, "state", "tasks", s.ID))
	if err == nil && strings.Contains(string(data), "from") {
		t.Error("the record holds a secret")
	}
}

func TestTaskWhoseSecretCannotBeReadIsRefusedWithAllReasons(t *testing.T) {
	t.Parallel()
	r := newResources(t)
	task := r.task(nil, members{"name": "app", "command": "exit 0", "secrets": []any{
		members{"name": "A", "valueFrom": "env:NOWHERE"},
		members{"name": "B", "valueFrom": "file:/nowhere/secret"},
		members{"name": "C", "valueFrom": "podman:nobody"},
		members{"name": "D", "valueFrom": "file:" + r.file("nul", "hunter2\x00")},
	}})
	err := r.host.Preflight.Check(t.Context(), task, localOnly)
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

func TestPodmanThatShowsSecretsIsWarnedOf(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]int{"4.3.1": 1, "5.2.9": 1, "5.3.0": 0, "5.10.0": 0, "6.0.0-dev": 0, "?": 0} {
		r := newResources(t)
		r.podman.Version = version
		task := r.task(nil, members{"name": "app", "command": "exit 0", "secrets": []any{members{"name": "A", "valueFrom": "env:A"}}})
		if got := r.host.Preflight.Warnings(t.Context(), task); len(got) != want {
			t.Errorf("Podman %s: %q", version, got)
		}
		if got := r.host.Preflight.Warnings(t.Context(), r.task(nil, members{"name": "app", "command": "exit 0"})); len(got) > 0 {
			t.Errorf("without secrets: %q", got)
		}
	}
}

func TestSecretThatCannotBeKeptForgetsTheTask(t *testing.T) {
	t.Parallel()
	r := newResources(t)
	task := r.task(nil, members{"name": "app", "command": "exit 0", "secrets": []any{members{"name": "A", "valueFrom": "env:NOWHERE"}}})
	if _, err := r.host.Creator.Create(t.Context(), task, "", localOnly); err == nil {
		t.Fatal("no error")
	}
	if all, errs := r.host.Tasks.States(); len(all)+len(errs) > 0 {
		t.Errorf("there are %d tasks, %v", len(all), errs)
	}
}

func TestVolumesOfATaskGoWithItAndSharedOnesStay(t *testing.T) {
	t.Parallel()
	r := newResources(t)
	host := filepath.Join(r.dir, "not", "there", "yet")
	mount := func(volume, path string) any { return members{"sourceVolume": volume, "containerPath": path} }
	task := r.task(
		[]any{
			members{"name": "own"},
			members{"name": "ours", "dockerVolumeConfiguration": members{"scope": "shared", "autoprovision": true}},
			members{"name": "theirs", "host": members{"sourcePath": host}},
		},
		members{"name": "writer", "command": "write /own/f hello", "essential": false, "mountPoints": []any{mount("own", "/own"), mount("ours", "/ours"), mount("theirs", "/theirs")}},
		members{"name": "reader", "command": "cat /own/f -- write /own/g", "volumesFrom": []any{members{"sourceContainer": "writer", "readOnly": true}},
			"dependsOn": []any{members{"containerName": "writer", "condition": "SUCCESS"}}},
	)
	s, err := r.host.Creator.Create(t.Context(), task, "", localOnly)
	if err != nil {
		t.Fatal(err)
	}
	got := carry(t, r.host, s.ID)
	if got.Containers[1].ExitCode != 1 || r.logs(s)[0] != "reader: hello" {
		t.Errorf("the reader ended with %d after %q", got.Containers[1].ExitCode, r.logs(s))
	}
	if info, err := os.Stat(host); err != nil || !info.IsDir() {
		t.Errorf("the path of the host: %v", err)
	}
	name := "podtask-web-" + s.ID[:12] + "-0-own"
	wantVolume(t, r.podman, name, true)
	carry(t, r.host, s.ID, lifecycle.RemoveRequested{By: "test"})
	wantVolume(t, r.podman, name, false)
	wantVolume(t, r.podman, "ours", true)
}

func wantVolume(t *testing.T, podman *enginetest.Fake, name string, want bool) {
	t.Helper()
	if there, err := podman.HasVolume(t.Context(), name); err != nil || there != want {
		t.Errorf("volume %s: there is %t (%v), want %t", name, there, err, want)
	}
}

func TestSharedVolumeThatMustExistIsMissed(t *testing.T) {
	t.Parallel()
	r := newResources(t)
	volumes := []any{members{"name": "data", "dockerVolumeConfiguration": members{"scope": "shared"}}}
	app := func() members {
		return members{"name": "app", "command": "exit 0", "mountPoints": []any{members{"sourceVolume": "data", "containerPath": "/d"}}}
	}
	s, err := r.host.Creator.Create(t.Context(), r.task(volumes, app()), "", localOnly)
	if err != nil {
		t.Fatal(err)
	}
	got := carry(t, r.host, s.ID)
	if reason := got.Stop.Reason; !strings.Contains(reason, lifecycle.ErrResourceInitialization) || !strings.Contains(reason, "volume data") {
		t.Errorf("stopped because %s", reason)
	}
	wantVolume(t, r.podman, "data", false)

	if err := r.podman.EnsureVolume(t.Context(), libpod.VolumeSpec{Name: "data"}); err != nil {
		t.Fatal(err)
	}
	if s, err = r.host.Creator.Create(t.Context(), r.task(volumes, app()), "", localOnly); err != nil {
		t.Fatal(err)
	}
	if got := carry(t, r.host, s.ID); got.ExitCode() != 0 {
		t.Errorf("with the volume it ended with %d: %s", got.ExitCode(), got.Stop.Reason)
	}
}

func TestHealthCheckOfAnImageCountsWhereItIsAskedFor(t *testing.T) {
	t.Parallel()
	r := newResources(t)
	r.podman.Load(localImage, enginetest.Image{Health: &libpod.ImageHealth{Command: []string{"CMD", enginetest.Program, "exit", "0"}}})
	app := members{"name": "asked", "command": "sleep 50ms", "x-podtask": members{"imageHealthCheck": true}}
	other := members{"name": "ignored", "command": "sleep 50ms"}
	s, err := r.host.Creator.Create(t.Context(), r.task(nil, app, other), "", localOnly)
	if err != nil {
		t.Fatal(err)
	}
	got := carry(t, r.host, s.ID)
	want := taskdef.HealthCheck{Command: []string{"CMD", enginetest.Program, "exit", "0"}, Interval: 30 * time.Second, Timeout: 30 * time.Second, Retries: 3}
	if check := got.Task.Containers[0].HealthCheck; check == nil || !reflect.DeepEqual(*check, want) {
		t.Errorf("asked: %+v, want %+v", check, want)
	}
	if check := got.Task.Containers[1].HealthCheck; check != nil {
		t.Errorf("ignored: %+v", check)
	}
}
