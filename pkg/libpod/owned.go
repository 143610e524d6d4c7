package libpod

import (
	"fmt"

	"github.com/containers/podman/v5/libpod/define"
)

// adoptable returns nil if an object with these labels is task's and was made
// from the specification with this digest, else an Error that says whose it is.
func adoptable(labels map[string]string, task, spec string) error {
	if err := ownedBy(labels, task); err != nil {
		return err
	}
	if labels[specLabel] != spec {
		return &Error{Class: Conflict, Cause: "it exists from an earlier attempt with another specification; remove it first"}
	}
	return nil
}

// ownedBy returns nil if an object with these labels is task's, else an Error
// that says whose it is.
func ownedBy(labels map[string]string, task string) error {
	switch owner, ok := labels[TaskLabel]; {
	case !ok:
		return &Error{Class: Conflict, Cause: fmt.Sprintf("the name is taken by an object that podtask did not make (it lacks the label %s); rename or remove it yourself", TaskLabel)}
	case owner != task:
		return &Error{Class: Conflict, Cause: fmt.Sprintf("it belongs to task %q", owner)}
	}
	return nil
}

func labelsOf(data *define.InspectContainerData) map[string]string {
	if data.Config == nil {
		return nil
	}
	return data.Config.Labels
}

// labels rebuilds as much of the labels as ownedBy looks at.
func (o Observed) labels() map[string]string {
	if o.Foreign {
		return nil
	}
	return map[string]string{TaskLabel: o.TaskID}
}
