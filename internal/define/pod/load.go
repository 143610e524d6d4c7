package pod

import (
	"encoding/json"
	"errors"

	"github.com/podtask/podtask/pkg/taskdef"
)

// Load reads a definition of either kind: a Kubernetes manifest as Parse does, with what
// settings say, or an ECS task definition as taskdef.Settings.ParseSource does. Of facts, see
// Options; its other members follow from settings.
func Load(src taskdef.Source, settings taskdef.Settings, host Options) (Result, taskdef.Report, error) {
	if !src.Manifest() {
		task, report, err := settings.ParseSource(src)
		return Result{Task: task}, report, err
	}
	host.Refs, host.Lenient, host.Fargate = settings.Refs, settings.Lenient, settings.Target == taskdef.TargetFargate
	host.Without, host.IDs, host.Copy = settings.Without, settings.IDs, settings.Copy
	result, report, err := parse(src, host)
	if err != nil {
		return Result{}, report, err
	}
	task, more, err := settings.Apply(src.Name(), result.Task)
	report.Warnings = append(report.Warnings, more.Warnings...)
	report.Needs = append(report.Needs, more.Needs...)
	report.References = append(report.References, more.References...)
	if err == nil && len(report.Needs) == 0 {
		err = task.Check()
	}
	if err != nil {
		return Result{}, report, err
	}
	if task.Extensions.Pod, err = json.Marshal(result.Pod); err != nil {
		return Result{}, report, err
	}
	result.Task = task
	return result, report, nil
}

// errPod is the error of a Pod that cannot be read back.
var errPod = errors.New("the Pod that the task was made from cannot be read")

// From returns what a task keeps of its Pod, or the Pod that stands for a task that was
// not made from one.
func From(name string, t taskdef.Task) (Pod, error) {
	if len(t.Extensions.Pod) == 0 {
		return Of(name, t), nil
	}
	var p Pod
	if err := json.Unmarshal(t.Extensions.Pod, &p); err != nil {
		return Pod{}, errors.Join(errPod, err)
	}
	return p, nil
}
