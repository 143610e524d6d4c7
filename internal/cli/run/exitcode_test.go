package run

import (
	"syscall"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

func TestExitCode(t *testing.T) {
	t.Parallel()
	ran := func(code int) lifecycle.Container {
		return lifecycle.Container{Ended: true, HasExit: true, ExitCode: code, StartedAt: time.Unix(1_800_000_000, 0), FinishedAt: time.Unix(1_800_000_000, 0)}
	}
	never := lifecycle.Container{Ended: true}
	essential, side := taskdef.Container{Essential: true}, taskdef.Container{}
	tests := []struct {
		name       string
		defs       []taskdef.Container
		containers []lifecycle.Container
		stop       string
		signal     syscall.Signal
		want       int
	}{
		{"the task's own", []taskdef.Container{essential}, []lifecycle.Container{ran(7)}, lifecycle.StopEssentialContainerExited, 0, 7},
		{"the task's own after Ctrl-C", []taskdef.Container{essential}, []lifecycle.Container{ran(143)}, lifecycle.StopUserInitiated, syscall.SIGINT, 143},
		{"Ctrl-C before anything ran", []taskdef.Container{essential}, []lifecycle.Container{never}, lifecycle.StopUserInitiated, syscall.SIGINT, 130},
		{"SIGTERM before anything ran", []taskdef.Container{essential}, []lifecycle.Container{never}, lifecycle.StopUserInitiated, syscall.SIGTERM, 143},
		{"Ctrl-C while only a side container had run", []taskdef.Container{side, essential}, []lifecycle.Container{ran(0), never}, lifecycle.StopUserInitiated, syscall.SIGINT, 130},
		{"Ctrl-C after the task had failed to start", []taskdef.Container{essential}, []lifecycle.Container{never}, lifecycle.StopTaskFailedToStart, syscall.SIGINT, 125},
		{"nothing ever ran", []taskdef.Container{essential}, []lifecycle.Container{never}, lifecycle.StopTaskFailedToStart, 0, 125},
	}
	for _, tt := range tests {
		s := lifecycle.State{Goal: lifecycle.Down, Task: taskdef.Task{Containers: tt.defs}, Containers: tt.containers, Stop: lifecycle.StopReason{Code: tt.stop}}
		task, code := api.FromState(s), api.ExitCode(s.ExitCode())
		task.ExitCode = &code
		if got := exitCode(task, tt.signal); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}
