package console

import (
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/api"
)

func TestStateOfATaskInEverydayWords(t *testing.T) {
	t.Parallel()
	three := api.ExitCode(3)
	alive := api.Owner{PID: 1, Alive: true}
	for want, task := range map[string]api.Task{
		"queued":                              {Status: "NONE", Queue: "its turn", Owner: alive},
		"starting":                            {Status: "CREATED", Owner: alive},
		"running":                             {Status: "RUNNING", Owner: alive},
		"stopping":                            {Status: "RUNNING", DesiredStatus: "STOPPED", Owner: alive},
		"stopped":                             {Status: "STOPPED", Settled: true},
		"exited (3)":                          {Status: "STOPPED", Settled: true, ExitCode: &three},
		"failed (migrate exited 1)":           {Status: "STOPPED", StopCode: "TaskFailedToStart", FailedStart: "migrate exited 1", Settled: true, ExitCode: &three},
		"failed to start":                     {Status: "STOPPED", StopCode: "TaskFailedToStart", Settled: true},
		"no owner":                            {Status: "RUNNING"},
		"no owner, 1 of 2 containers running": {Status: "RUNNING", Observed: true, Containers: []api.Container{{Status: "RUNNING"}, {Status: "STOPPED"}}},
		"paused":                              {Status: "RUNNING", Owner: alive, Containers: []api.Container{{Status: "RUNNING", Paused: true}}},
		"running (1 of 2 paused)":             {Status: "RUNNING", Owner: alive, Containers: []api.Container{{Status: "RUNNING", Paused: true}, {Status: "RUNNING"}}},
		"restarting":                          {Status: "RUNNING", Owner: alive, Containers: []api.Container{{Status: "RUNNING", RestartAt: time.Unix(1, 0)}}},
	} {
		if got := TaskState(task, ""); got != want {
			t.Errorf("%+v: %q, want %q", task, got, want)
		}
	}
	if got := TaskState(api.Task{Queue: "x", Owner: alive}, "port 80"); got != "queued (port 80)" {
		t.Errorf("queued for a port: %q", got)
	}
}

func TestHealthOfATaskInEverydayWords(t *testing.T) {
	t.Parallel()
	alive := api.Owner{PID: 1, Alive: true}
	checked := []api.Container{{Essential: true, Status: "RUNNING", Health: &api.Health{Status: "UNKNOWN"}}}
	for want, task := range map[string]api.Task{
		"healthy":   {Status: "RUNNING", Health: "HEALTHY", Owner: alive},
		"unhealthy": {Status: "RUNNING", Health: "UNHEALTHY", Owner: alive},
		"checking":  {Status: "RUNNING", Health: "UNKNOWN", Containers: checked, Owner: alive},
		"-":         {Status: "STOPPED", Health: "HEALTHY", Containers: checked},
	} {
		if got := TaskHealth(task); got != want {
			t.Errorf("%+v: %q, want %q", task, got, want)
		}
	}
	if got := TaskHealth(api.Task{Status: "RUNNING", Health: "UNKNOWN", Owner: alive}); got != "-" {
		t.Errorf("without a health check: %q", got)
	}
	waits := []api.Container{{Essential: true, Status: "NONE", Health: &api.Health{Status: "UNKNOWN"}}}
	if got := TaskHealth(api.Task{Status: "NONE", Health: "UNKNOWN", Containers: waits, Owner: alive, Queue: "a port"}); got != "-" {
		t.Errorf("while it is queued: %q", got)
	}
	if got := TaskHealth(api.Task{Status: "RUNNING", Health: "HEALTHY"}); got != "-" {
		t.Errorf("without an owner: %q", got)
	}
}

func TestStateOfAContainerInEverydayWords(t *testing.T) {
	t.Parallel()
	code := api.ExitCode(3)
	health := func(status string) *api.Health { return &api.Health{Status: status} }
	for want, c := range map[string]api.Container{
		"starting -":        {Status: "PULLED", Health: health("UNKNOWN")},
		"running -":         {Status: "RUNNING"},
		"running checking":  {Status: "RUNNING", Health: health("UNKNOWN")},
		"running unhealthy": {Status: "RUNNING", Health: health("UNHEALTHY")},
		"paused healthy":    {Status: "RUNNING", Paused: true, Health: health("HEALTHY")},
		"restarting -":      {Status: "RUNNING", RestartAt: time.Unix(1, 0), ExitCode: &code},
		"exited (3) -":      {Status: "STOPPED", ExitCode: &code, Health: health("UNHEALTHY")},
		"stopped -":         {Status: "STOPPED"},
		"failed -":          {Status: "STOPPED", Errors: make([]api.Error, 1)},
	} {
		state, health := ContainerState(c)
		if got := state + " " + health; got != want {
			t.Errorf("%+v: %q, want %q", c, got, want)
		}
	}
}

func TestCopiesHaveTheWordsOfPs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		task api.ServiceTask
		want string
	}{
		{api.ServiceTask{Phase: "WANTED"}, "starting -"},
		{api.ServiceTask{Phase: "LIVE", Health: "UNKNOWN"}, "starting -"},
		{api.ServiceTask{Phase: "LIVE", Health: "UNKNOWN", Healthy: true}, "running -"},
		{api.ServiceTask{Phase: "LIVE", Health: "HEALTHY", Healthy: true}, "running healthy"},
		{api.ServiceTask{Phase: "LIVE", Health: "UNHEALTHY"}, "running unhealthy"},
		{api.ServiceTask{Phase: "STOPPING", Health: "HEALTHY"}, "stopping -"},
		{api.ServiceTask{Phase: "STOPPED"}, "stopped -"},
	} {
		if got := CopyState(c.task) + " " + CopyHealth(c.task); got != c.want {
			t.Errorf("%+v: %q, want %q", c.task, got, c.want)
		}
	}
}
