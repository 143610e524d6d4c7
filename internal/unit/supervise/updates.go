package supervise

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"

	"github.com/podtask/podtask/internal/unit/rollback"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef"
)

// updates decides with which images a unit runs.
type updates struct {
	unit     Unit
	images   Images
	stateDir string
	warn     func(format string, args ...any)
	report   func(status, reason string)
	// record is nil without automatic updates.
	record *rollback.Record
}

// open reads the record of a unit with automatic updates.
func (u *updates) open() {
	var err error
	if u.record, err = rollback.Open(u.stateDir, u.unit.Name); err != nil {
		u.warn("%v", err)
	}
}

// choose returns the task without the images that it failed with before.
func (u *updates) choose(ctx context.Context, task taskdef.Task) taskdef.Task {
	if u.record == nil || len(u.record.Bad) == 0 {
		return task
	}
	now := make(map[string]string)
	for ref := range u.record.Bad {
		if digest, err := u.images.Digest(ctx, lifecycle.State{Name: u.unit.Name, Task: task, Options: u.unit.Options}, ref); err == nil {
			now[ref] = digest
		}
	}
	return u.record.Avoid(task, now)
}

// succeeded records the images that the service is ready with.
func (u *updates) succeeded(task taskdef.Task, st lifecycle.State) {
	if u.record != nil && u.record.Succeeded(rollback.DigestsOf(task, st)) {
		u.save()
		u.report(string(service.AttemptSuccessful), "")
	}
}

// failed records the images that the service failed with, and reports whether to run the
// task again with the last good ones.
func (u *updates) failed(task taskdef.Task, st lifecycle.State) (rollBack bool) {
	if u.record == nil || !u.record.Failed(rollback.DigestsOf(task, st)) {
		return false
	}
	u.save()
	u.warn("the service did not become ready with its new images and stay ready for %v: rolling back to the previous images", u.unit.Settle)
	u.report(string(service.AttemptReturned), "it did not become ready with its new images")
	return true
}

func (u *updates) save() {
	if err := u.record.Save(u.stateDir, u.unit.Name); err != nil {
		u.warn("%v", err)
	}
}

// onTrial reports whether a task runs with images that the service was not ready with.
func (u *updates) onTrial(task taskdef.Task, st lifecycle.State) bool {
	return u.record.Differs(rollback.DigestsOf(task, st))
}

// checker returns a function that another goroutine may call, which reports whether the
// registry has images for a task that differ from those it runs with.
func (u *updates) checker() func(context.Context, taskdef.Task, lifecycle.State) (bool, error) {
	avoided := &rollback.Record{}
	if u.record != nil {
		avoided.Bad = maps.Clone(u.record.Bad)
	}
	return func(ctx context.Context, task taskdef.Task, st lifecycle.State) (bool, error) {
		running := rollback.DigestsOf(task, st)
		for _, ref := range rollback.References(task) {
			digest, err := u.images.Digest(ctx, st, ref)
			if err != nil {
				return false, err
			}
			if digest != running[ref] && !avoided.Avoids(ref, digest) {
				return true, nil
			}
		}
		return false, nil
	}
}

// sameTask compares two tasks by what their records store.
func sameTask(a, b taskdef.Task) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}
