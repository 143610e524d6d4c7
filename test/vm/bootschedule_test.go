//go:build e2e && bed_vm

package vm

import "testing"

func TestAfterRebootScheduleRunsOn(t *testing.T) { checkSchedules(t) }

func TestAfterCrashScheduleRunsOn(t *testing.T) { checkSchedules(t) }
