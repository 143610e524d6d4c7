package agent

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/podtask/podtask/pkg/lifecycle"
)

// FailPointEnv names the fail point at which a Host kills its own process with
// SIGKILL, as NAME or, for the N-th visit, NAME:N. It is for tests, which then
// let another process carry on: nothing that a deferred call or a signal handler
// would tidy up is tidied up. As NAME:N:hang the goroutine that comes by stands
// still for ever instead.
const FailPointEnv = "PODTASK_FAILPOINT"

// The fail points that are no effect's. A save is of the task's record, a publish
// of its events; an erase deletes the record of a removed task.
const (
	beforeSave   = "before-save"
	afterSave    = "after-save"
	afterPublish = "after-publish"
	beforeErase  = "before-erase"
	afterErase   = "after-erase"
)

// The fail points of an effect: prefix and the effect's type. After an effect it
// is done and its answer lost. Mid is between its calls, where it makes several
// that leave something.
const (
	beforeEffect = "before-effect/"
	midEffect    = "mid-effect/"
	afterEffect  = "after-effect/"
)

// FailPoints lists all fail points, sorted.
func FailPoints() []string {
	points := []string{beforeSave, afterSave, afterPublish, beforeErase, afterErase}
	for _, e := range []lifecycle.Effect{
		lifecycle.ResolveImage{}, lifecycle.PullImage{}, lifecycle.RunSandbox{}, lifecycle.CreateContainer{},
		lifecycle.StartContainer{}, lifecycle.InspectContainer{}, lifecycle.CheckHealth{}, lifecycle.StopContainer{},
		lifecycle.InspectSandbox{}, lifecycle.StopSandbox{}, lifecycle.RemoveSandbox{}, lifecycle.AdmitTask{}, lifecycle.ReleaseTask{},
	} {
		points = append(points, beforeEffect+effectName(e), afterEffect+effectName(e))
	}
	for _, e := range []lifecycle.Effect{lifecycle.PullImage{}, lifecycle.RunSandbox{}, lifecycle.StartContainer{}, lifecycle.RemoveSandbox{}} {
		points = append(points, midEffect+effectName(e))
	}
	slices.Sort(points)
	return points
}

func effectName(e lifecycle.Effect) string { return reflect.TypeOf(e).Name() }

// failPoint is the one fail point that is armed; nil is none.
type failPoint struct {
	name string
	hang bool
	left atomic.Int64 // visits until the end
}

// armed parses the value of FailPointEnv.
func armed(value string) (*failPoint, error) {
	if value == "" {
		return nil, nil
	}
	point, hang := strings.CutSuffix(value, ":hang")
	name, times, counted := strings.Cut(point, ":")
	n := 1
	if counted {
		var err error
		if n, err = strconv.Atoi(times); err != nil || n < 1 {
			return nil, fmt.Errorf("%s=%s: the visit is not a number from 1; unset it", FailPointEnv, value)
		}
	}
	if !slices.Contains(FailPoints(), name) {
		return nil, fmt.Errorf("%s=%s: there is no such fail point; unset it, or use one of %s", FailPointEnv, value, strings.Join(FailPoints(), ", "))
	}
	f := &failPoint{name: name, hang: hang}
	f.left.Store(int64(n))
	return f, nil
}

// at is a place at which the process may be made to die.
func (f *failPoint) at(name string) {
	if f != nil {
		f.visit(name)
	}
}

// effect is at for a place that belongs to an effect.
func (f *failPoint) effect(place string, e lifecycle.Effect) {
	if f != nil {
		f.visit(place + effectName(e))
	}
}

func (f *failPoint) visit(name string) {
	if name != f.name || f.left.Add(-1) != 0 {
		return
	}
	if f.hang {
		select {}
	}
	// Nothing can be done about an error, and there is none: it is our own process.
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // until the signal is delivered
}
