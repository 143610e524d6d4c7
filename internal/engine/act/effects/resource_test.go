package effects_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/testing/enginehost"
	"github.com/podtask/podtask/internal/testing/enginetest"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

func TestVolumesOfATaskGoWithItAndSharedOnesStay(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	e := host.Open()
	path := filepath.Join(host.Dir(), "not", "there", "yet")
	mount := func(volume, path string) any { return enginehost.Fields{"sourceVolume": volume, "containerPath": path} }
	task := host.Task(
		[]any{
			enginehost.Fields{"name": "own"},
			enginehost.Fields{"name": "ours", "dockerVolumeConfiguration": enginehost.Fields{"scope": "shared", "autoprovision": true}},
			enginehost.Fields{"name": "theirs", "host": enginehost.Fields{"sourcePath": path}},
		},
		enginehost.Fields{"name": "writer", "command": "write /own/f hello", "essential": false, "mountPoints": []any{mount("own", "/own"), mount("ours", "/ours"), mount("theirs", "/theirs")}},
		enginehost.Fields{"name": "reader", "command": "cat /own/f -- write /own/g", "volumesFrom": []any{enginehost.Fields{"sourceContainer": "writer", "readOnly": true}},
			"dependsOn": []any{enginehost.Fields{"containerName": "writer", "condition": "SUCCESS"}}},
	)
	s, err := enginehost.Record(t.Context(), e.Creator, task, "", enginehost.Unlimited)
	if err != nil {
		t.Fatal(err)
	}
	got := enginehost.Finish(t, e, s.ID)
	if got.Containers[1].ExitCode != 1 || enginehost.Output(t, e, s)[0] != "reader: hello" {
		t.Errorf("the reader ended with %d after %q", got.Containers[1].ExitCode, enginehost.Output(t, e, s))
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		t.Errorf("the path of the host: %v", err)
	}
	name := "podtask-web-" + s.ID[:12] + "-0-own"
	wantVolume(t, host.Podman, name, true)
	enginehost.Finish(t, e, s.ID, lifecycle.RemoveRequested{By: "test"})
	wantVolume(t, host.Podman, name, false)
	wantVolume(t, host.Podman, "ours", true)
}

func wantVolume(t *testing.T, podman *enginetest.Fake, name string, want bool) {
	t.Helper()
	if there, err := podman.HasVolume(t.Context(), name); err != nil || there != want {
		t.Errorf("volume %s: there is %t (%v), want %t", name, there, err, want)
	}
}

func TestSharedVolumeThatMustExistIsMissed(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	e := host.Open()
	volumes := []any{enginehost.Fields{"name": "data", "dockerVolumeConfiguration": enginehost.Fields{"scope": "shared"}}}
	app := func() enginehost.Fields {
		return enginehost.Fields{"name": "app", "command": "exit 0", "mountPoints": []any{enginehost.Fields{"sourceVolume": "data", "containerPath": "/d"}}}
	}
	s, err := enginehost.Record(t.Context(), e.Creator, host.Task(volumes, app()), "", enginehost.Unlimited)
	if err != nil {
		t.Fatal(err)
	}
	got := enginehost.Finish(t, e, s.ID)
	if reason := got.Stop.Reason; !strings.Contains(reason, lifecycle.ErrResourceInitialization) || !strings.Contains(reason, "volume data") {
		t.Errorf("stopped because %s", reason)
	}
	wantVolume(t, host.Podman, "data", false)

	if err := host.Podman.EnsureVolume(t.Context(), libpod.VolumeSpec{Name: "data"}); err != nil {
		t.Fatal(err)
	}
	if s, err = enginehost.Record(t.Context(), e.Creator, host.Task(volumes, app()), "", enginehost.Unlimited); err != nil {
		t.Fatal(err)
	}
	if got := enginehost.Finish(t, e, s.ID); got.ExitCode() != 0 {
		t.Errorf("with the volume it ended with %d: %s", got.ExitCode(), got.Stop.Reason)
	}
}

func TestHealthCheckOfAnImageCountsWhereItIsAskedFor(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	e := host.Open()
	host.Podman.Load(enginehost.Image, enginetest.Image{Health: &libpod.ImageHealth{Command: []string{"CMD", enginetest.Program, "exit", "0"}}})
	app := enginehost.Fields{"name": "asked", "command": "sleep 50ms", "x-podtask": enginehost.Fields{"imageHealthCheck": true}}
	other := enginehost.Fields{"name": "ignored", "command": "sleep 50ms"}
	s, err := enginehost.Record(t.Context(), e.Creator, host.Task(nil, app, other), "", enginehost.Unlimited)
	if err != nil {
		t.Fatal(err)
	}
	got := enginehost.Finish(t, e, s.ID)
	want := taskdef.HealthCheck{Command: []string{"CMD", enginetest.Program, "exit", "0"}, Interval: 30 * time.Second, Timeout: 30 * time.Second, Retries: 3}
	if check := got.Task.Containers[0].HealthCheck; check == nil || !reflect.DeepEqual(*check, want) {
		t.Errorf("asked: %+v, want %+v", check, want)
	}
	if check := got.Task.Containers[1].HealthCheck; check != nil {
		t.Errorf("ignored: %+v", check)
	}
}

// A container that waits for a health check that no image has would wait for ever.
func TestHealthCheckThatTheImageDoesNotHave(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	e := host.Open()
	db := enginehost.Fields{"name": "db", "command": "sleep 1h", "x-podtask": enginehost.Fields{"imageHealthCheck": true}}
	web := enginehost.Fields{"name": "web", "command": "exit 0", "dependsOn": []any{enginehost.Fields{"containerName": "db", "condition": "HEALTHY"}}}
	s, err := enginehost.Record(t.Context(), e.Creator, host.Task(nil, db, web), "", enginehost.Unlimited)
	if err != nil {
		t.Fatal(err)
	}
	if got := enginehost.Finish(t, e, s.ID); !strings.Contains(got.Stop.Reason, "the image has no HEALTHCHECK, and container web waits") {
		t.Errorf("stopped because %s", got.Stop.Reason)
	}
}
