package failpoint

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

// Point is the one fail point that is armed; nil is none.
type Point struct {
	name string
	hang bool
	left atomic.Int64 // visits until the end
}

// Env names the fail point at which a Host kills its own process with
// SIGKILL, as NAME or, for the N-th visit, NAME:N. It is for tests, which then
// let another process take over: no deferred call and no signal handler runs. With
// NAME:N:hang the goroutine that reaches the point blocks forever instead.
const Env = "PODTASK_FAILPOINT"

// The fail points that are no effect's. A save is of the task's record, a publish
// of its events; an erase deletes the record of a removed task.
const (
	// BeforeRecord is before the record of a new task, after its credentials were stored. It is
	// passed by the process that creates the task.
	BeforeRecord = "before-record"
	BeforeSave   = "before-save"
	AfterSave    = "after-save"
	AfterPublish = "after-publish"
	BeforeErase  = "before-erase"
	AfterErase   = "after-erase"
)

// The fail points of an effect: prefix and the effect's type. After an effect it
// is done and its answer lost. Mid is between its calls, where it makes several
// that leave something.
const (
	BeforeEffect = "before-effect/"
	MidEffect    = "mid-effect/"
	AfterEffect  = "after-effect/"
)

// The fail points of the delivery of logs, which a task passes only if its output is sent:
// between the new name of a log file and conmon, after conmon was told to open its file again,
// after a server has acknowledged, after the position was written. FlushLogs is for a task with a
// log router.
const (
	LogLinked       = "log-linked"
	LogReopened     = "log-reopened"
	LogAcknowledged = "log-acknowledged"
	LogPosition     = "log-position"
)

// StackStep is passed before and after each step of the change of a stack.
const StackStep = "stack-step"

// otherPoints are those that not each owner of a task passes.
var otherPoints = []string{BeforeRecord, StackStep, LogLinked, LogReopened, LogAcknowledged, LogPosition, BeforeEffect + "FlushLogs", AfterEffect + "FlushLogs"}

// Points lists all fail points that each task passes, sorted.
func Points() []string {
	points := []string{BeforeSave, AfterSave, AfterPublish, BeforeErase, AfterErase}
	for _, e := range []lifecycle.Effect{
		lifecycle.ResolveImage{}, lifecycle.PullImage{}, lifecycle.CreateSandbox{}, lifecycle.RunSandbox{}, lifecycle.CreateContainer{},
		lifecycle.StartContainer{}, lifecycle.InspectContainer{}, lifecycle.CheckHealth{}, lifecycle.RunHook{}, lifecycle.StopContainer{},
		lifecycle.InspectSandbox{}, lifecycle.StopSandbox{}, lifecycle.RemoveSandbox{}, lifecycle.AdmitTask{}, lifecycle.ReleaseTask{},
	} {
		points = append(points, BeforeEffect+effectName(e), AfterEffect+effectName(e))
	}
	for _, e := range []lifecycle.Effect{lifecycle.PullImage{}, lifecycle.CreateSandbox{}, lifecycle.StartContainer{}, lifecycle.RemoveSandbox{}} {
		points = append(points, MidEffect+effectName(e))
	}
	slices.Sort(points)
	return points
}

func effectName(e lifecycle.Effect) string { return reflect.TypeOf(e).Name() }

// Parse parses the value of FailPointEnv.
func Parse(value string) (*Point, error) {
	if value == "" {
		return nil, nil
	}
	point, hang := strings.CutSuffix(value, ":hang")
	name, times, counted := strings.Cut(point, ":")
	n := 1
	if counted {
		var err error
		if n, err = strconv.Atoi(times); err != nil || n < 1 {
			return nil, fmt.Errorf("%s=%s: the visit is not a number from 1; unset it", Env, value)
		}
	}
	if !slices.Contains(slices.Concat(Points(), otherPoints), name) {
		return nil, fmt.Errorf("%s=%s: there is no such fail point; unset it, or use one of %s", Env, value, strings.Join(Points(), ", "))
	}
	f := &Point{name: name, hang: hang}
	f.left.Store(int64(n))
	return f, nil
}

// At is a place at which the process may be made to die.
func (f *Point) At(name string) {
	if f != nil {
		f.visit(name)
	}
}

// AtEffect is at for a place that belongs to an effect.
func (f *Point) AtEffect(place string, e lifecycle.Effect) {
	if f != nil {
		f.visit(place + effectName(e))
	}
}

func (f *Point) visit(name string) {
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
