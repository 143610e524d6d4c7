package owner_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/engine/act/leftover"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/run/owner"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/testing/enginehost"
	"github.com/podtask/podtask/internal/testing/enginetest"
	"github.com/podtask/podtask/pkg/taskdef"
)

// withLogins is a task of two containers whose images have credentials that this process provides.
func withLogins(host *enginehost.Host, e *enginehost.Engine) taskdef.Task {
	e.Secrets.Provide("LOGIN", []byte("tester:hunter2"))
	task := host.Task(nil, enginehost.Fields{"name": "one", "command": "exit 0"}, enginehost.Fields{"name": "two", "command": "exit 0"})
	for i := range task.Containers {
		task.Containers[i].RepositoryCredentials = &taskdef.SecretValue{ValueFrom: "env:LOGIN", Source: "env:LOGIN"}
	}
	return task
}

func secretsOf(host *enginehost.Host, id string) []string {
	return slices.DeleteFunc(host.Podman.Left(id), func(l string) bool { return !strings.HasPrefix(l, "secret ") })
}

// Credentials of a task that could not be created are removed, also those stored before the
// failure.
func TestCredentialsOfATaskThatWasNotCreatedAreRemoved(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	e := host.Open()
	task := withLogins(host, e)
	host.Podman.Fail(enginetest.Script("create secret", enginetest.Fault{}, enginetest.Fault{Moment: enginetest.Before, Class: libpod.Other}))
	id := record.NewID()
	if _, err := e.Creator.Record(t.Context(), owner.Launch{ID: id, Task: task, Options: enginehost.Unlimited}); !errors.Is(err, libpod.Other) {
		t.Errorf("the creation: %v", err)
	}
	if left := secretsOf(host, id); len(left) > 0 {
		t.Errorf("there is %q", left)
	}
	if noted, err := e.Orphans.Leftover.Noted(); err != nil || len(noted) > 0 {
		t.Errorf("noted: %q, %v", noted, err)
	}
}

// A process that dies before the record leaves credentials, which a sweep finds. It leaves those
// of a task that is being created alone.
func TestSweepRemovesCredentialsWithoutARecord(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	e := host.Open()
	id := record.NewID()
	lock, err := e.Tasks.Locks.Lock(id)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	if err := e.Orphans.Leftover.Note(id, leftover.Window{Began: now, Ended: now}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Secrets.KeepLogins(t.Context(), id, withLogins(host, e)); err != nil {
		t.Fatal(err)
	}
	sweep := func() {
		t.Helper()
		if _, err := e.Orphans.Sweep(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}
	sweep()
	if left := secretsOf(host, id); len(left) != 2 {
		t.Errorf("while the task is created there is %q", left)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	sweep()
	if left := secretsOf(host, id); len(left) > 0 {
		t.Errorf("after the creator has died there is %q", left)
	}
	if noted, err := e.Orphans.Leftover.Noted(); err != nil || len(noted) > 0 {
		t.Errorf("noted: %q, %v", noted, err)
	}
}
