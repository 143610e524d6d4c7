package service

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/podtask/podtask/pkg/api"
)

// reportUpdate prints what an update did to the changes of the definition, if that may surprise.
func (k serviceCall) reportUpdate(before, after api.Service, u api.ServiceUpdate) {
	given := api.TaskChanges{TaskSettings: u.TaskSettings, TaskOptions: u.TaskOptions}
	name := before.ServiceName
	switch {
	case u.TaskDefinition == "" && reflect.ValueOf(given).IsZero(): // the definition is not touched
	case len(before.Deployments) > 0 && len(after.Deployments) > 0 && before.Deployments[0].ID == after.Deployments[0].ID:
		fmt.Fprintf(k.errOut, "service %s: the definition and its changes are as before; --force replaces the copies anyway\n", name)
	case before.Changes == nil:
		fmt.Fprintf(k.errOut, "Warning: service %s: the changes of the present deployment (-e, --memory and others) are not recorded; those that were not given again are dropped\n", name)
	case u.KeepChanges:
	default:
		if dropped := droppedChanges(*before.Changes, given); len(dropped) > 0 {
			fmt.Fprintf(k.errOut, "service %s: dropped, because the definition is given anew: %s\n", name, strings.Join(dropped, ", "))
		}
	}
}

// changeFlags are the flags of service create and update by the member of api.TaskChanges that they set.
var changeFlags = map[string]string{
	"Environment": "-e", "Vars": "--var", "Overrides": "--override", "References": "--map-secret, --map-volume and other references",
	"Without": "--without", "Publish": "--publish", "Images": "--locked", "LeaveOut": "--leave-out", "Network": "--network", "Secrets": "--secret",
	"Memory": "--memory", "CPUs": "--cpus", "StopTimeout": "--stop-timeout", "StopAfter": "--stop-after",
	"Pull": "--pull", "Limits": "--limits", "PIDsLimit": "--pids-limit", "CPUPeriod": "--cpu-period", "MinimumAge": "--minimum-age", "ClampUlimits": "--clamp-ulimits",
}

// droppedChanges returns the flags, and the names of variables, that an update does not name. Values are left out.
func droppedChanges(before, given api.TaskChanges) (dropped []string) {
	for _, old := range before.Environment {
		if !hasVariable(given.Environment, old.Name) {
			dropped = append(dropped, "-e "+old.Name)
		}
	}
	from, to := reflect.ValueOf(before), reflect.ValueOf(given)
	for part := range from.NumField() {
		for i := range from.Field(part).NumField() {
			name := from.Type().Field(part).Type.Field(i).Name
			if name != "Environment" && !from.Field(part).Field(i).IsZero() && to.Field(part).Field(i).IsZero() {
				dropped = append(dropped, changeFlags[name])
			}
		}
	}
	return dropped
}

func hasVariable(all []api.EnvVar, name string) bool {
	for _, e := range all {
		if e.Name == name {
			return true
		}
	}
	return false
}
