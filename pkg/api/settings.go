package api

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
)

// TaskSettings are what a request adds to a definition or changes in it, in the words of the
// flags of run.
type TaskSettings struct {
	// Environment is set in every container, over the definition's.
	Environment []EnvVar `json:"environment,omitempty"`
	// Vars are the values of the definition's placeholders.
	Vars map[string]string `json:"vars,omitempty"`
	// Overrides is an ECS TaskOverride.
	Overrides json.RawMessage `json:"overrides,omitempty"`
	// References say where this host has what the definition names on AWS. They are in front
	// of those of the configuration; the first that matches answers.
	References []Reference `json:"references,omitempty"`
	// Without are members of the definition that the task does without.
	Without []string `json:"without,omitempty"`
	// Publish are ports, [[IP:]HOST:]CONTAINER[/PROTOCOL], in place of the definition's for
	// the same container port.
	Publish []string `json:"publish,omitempty"`
	// Images replace the definition's images: by the image as the
	// definition has it, NAME:TAG@DIGEST.
	Images map[string]string `json:"images,omitempty"`
	// LeaveOut are containers that the task does without.
	LeaveOut []string `json:"leaveOut,omitempty"`
	// Network is bridge, host or none; pasta, slirp4netns or shared; or a Podman network.
	Network string `json:"network,omitempty"`
	// Secrets are Podman secrets for every container, NAME[,type=env|mount][,target=...].
	Secrets []string `json:"secrets,omitempty"`
	// Memory limits the task, such as 512m; 0 for no limit.
	Memory string `json:"memory,omitempty"`
	// CPUs limits the task to a number of CPUs; 0 for no limit.
	CPUs string `json:"cpus,omitempty"`
	// StopTimeout is the number of seconds between SIGTERM and SIGKILL.
	StopTimeout string `json:"stopTimeout,omitempty"`
	// StopAfter is the time after which the task is stopped, such as 10m, 1s to a year.
	StopAfter string `json:"stopAfter,omitempty"`
}

// Empty reports whether the settings change nothing.
func (s TaskSettings) Empty() bool { return reflect.ValueOf(s).IsZero() }

// TaskChanges are the changes of a user to a definition.
type TaskChanges struct {
	TaskSettings
	TaskOptions
}

// Over returns the changes with those of before that they do not name. Variables, placeholders and references are
// named one by one; of the others, a list replaces the list. ClampUlimits stays on.
func (c TaskChanges) Over(before TaskChanges) TaskChanges {
	merged := before
	merged.Environment = slices.DeleteFunc(slices.Clone(before.Environment), func(old EnvVar) bool {
		return slices.ContainsFunc(c.Environment, func(e EnvVar) bool { return e.Name == old.Name })
	})
	merged.Environment = append(merged.Environment, c.Environment...)
	merged.Vars = union(before.Vars, c.Vars)
	merged.Images = union(before.Images, c.Images)
	merged.References = slices.Concat(c.References, slices.DeleteFunc(slices.Clone(before.References), func(old Reference) bool {
		return slices.ContainsFunc(c.References, func(r Reference) bool { return r.Match == old.Match })
	}))
	into, from := reflect.ValueOf(&merged).Elem(), reflect.ValueOf(c)
	for part := range from.NumField() {
		for i := range from.Field(part).NumField() {
			switch from.Type().Field(part).Type.Field(i).Name {
			case "Environment", "Vars", "Images", "References":
				continue
			}
			if given := from.Field(part).Field(i); !given.IsZero() {
				into.Field(part).Field(i).Set(given)
			}
		}
	}
	return merged
}

func union(before, over map[string]string) map[string]string {
	if len(before) == 0 {
		return over
	}
	all := maps.Clone(before)
	maps.Copy(all, over)
	return all
}

// Reference names the place on this host of what a pattern matches: an ARN, the name of a parameter,
// or volume:NAME, with * and ? as wildcards.
type Reference struct {
	Match string `json:"match"`
	// Source is file:/PATH, podman:NAME, env:NAME, credential:NAME, tree:/DIRECTORY or
	// command:/PROGRAM ARGUMENT...
	Source string `json:"source"`
}

// TaskOptions change the way in which a task is run; what is empty is as configured.
type TaskOptions struct {
	// Pull is default, always, once, prefer-cached or never.
	Pull string `json:"pull,omitempty"`
	// Limits is enforce, best-effort or off.
	Limits string `json:"limits,omitempty"`
	// PIDsLimit is the most processes and threads the task may have, 0 for no limit.
	PIDsLimit string `json:"pidsLimit,omitempty"`
	// CPUPeriod is the period of the CPU limit, 8ms to 1s.
	CPUPeriod string `json:"cpuPeriod,omitempty"`
	// MinimumAge is the time for which the host must have known an image before the task follows a tag to it, such as 3d; 0 for no time.
	MinimumAge string `json:"minimumAge,omitempty"`
	// ClampUlimits lowers ulimits to those of the user who runs the agent.
	ClampUlimits bool `json:"clampUlimits,omitempty"`
}

// Keys returns the options that are given, by the keys of the configuration.
func (o TaskOptions) Keys() map[string]string {
	given := make(map[string]string)
	for key, value := range map[string]string{"pull": o.Pull, "limits": o.Limits, "pids-limit": o.PIDsLimit, "cpu-period": o.CPUPeriod, "minimum-age": o.MinimumAge} {
		if value != "" {
			given[key] = value
		}
	}
	if o.ClampUlimits {
		given["clamp-ulimits"] = "true"
	}
	return given
}
