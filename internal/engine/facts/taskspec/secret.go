package taskspec

import (
	"fmt"
	"slices"

	"github.com/podtask/podtask/internal/host/secretsource"
	"github.com/podtask/podtask/internal/logs/firelens"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

// A container's secrets reach it as Podman secrets, which Podman looks up at every
// start and does not show. A secret that the user keeps in Podman is used as it is.
// Of any other one podtask makes a Podman secret that carries the task's label and
// goes when the task has stopped.

// Secret is one secret of a task.
type Secret struct {
	// name is the Podman secret's, own whether the task makes it.
	Name string
	Own  bool
	From taskdef.SecretValue
	// Parts make the value instead of From, if there are any.
	Parts []taskdef.SecretPart
	// env is the variable, file the index in SecretFiles if env is empty.
	Env string
	// Option is the option of a log driver, if env and file are not set.
	Option string
	file   int
	Who    string // for messages
}

// SecretPrefix begins the names of a task's own secrets, which have at most 64
// characters in Podman 4.3.1.
func SecretPrefix(task string) string { return "podtask-" + task + "-" }

// ContainerSecrets returns the secrets of container i.
func ContainerSecrets(s lifecycle.State, i int) []Secret {
	c := s.Task.Containers[i]
	var out []Secret
	add := func(kind string, n int, w Secret) {
		out = append(out, w.named(s, fmt.Sprintf("c%d-%s%d", i, kind, n)))
	}
	for n, v := range c.Secrets {
		add("env", n, Secret{From: v.SecretValue, Parts: v.Parts, Env: v.Name, Who: fmt.Sprintf("variable %s of container %s", v.Name, c.Name)})
	}
	out = append(out, routerSecrets(s, i)...)
	for n, f := range c.Extensions.SecretFiles {
		add("file", n, Secret{From: f.SecretValue, file: n, Who: fmt.Sprintf("file %s of container %s", f.Path, c.Name)})
	}
	return out
}

// Secrets are all that Podman keeps for the containers of a task and for their log drivers.
func Secrets(s lifecycle.State) []Secret {
	var all []Secret
	for i := range s.Task.Containers {
		all = append(all, ContainerSecrets(s, i)...)
		all = append(all, LogSecrets(s, i)...)
	}
	return all
}

// LogSecrets are the secret options of the log driver of container i, if it sends. They are not
// given to the container: its owner reads them.
func LogSecrets(s lifecycle.State, i int) (all []Secret) {
	l := s.Task.Containers[i].Log
	if l == nil || l.Driver == logdriver.FireLens { // these are the router's
		return nil
	}
	for n, v := range l.SecretOptions {
		if v.Source == "" {
			continue
		}
		w := Secret{From: v.SecretValue, Option: v.Name, Who: fmt.Sprintf("log option %s of container %s", v.Name, s.Task.Containers[i].Name)}
		all = append(all, w.named(s, fmt.Sprintf("c%d-log%d", i, n)))
	}
	return all
}

// routerSecrets are the secret options of the containers that log to container i. The router has
// them as variables, which its configuration refers to.
func routerSecrets(s lifecycle.State, i int) (all []Secret) {
	router := taskdef.RouterOf(s.Task, s.Options.Logs)
	if i != router {
		return nil
	}
	for app, c := range s.Task.Containers {
		if !taskdef.RoutedBy(s.Task, router, app) {
			continue
		}
		for n, v := range c.Log.SecretOptions {
			name, _ := firelens.SecretVariable(s.Task.Containers[i].FireLens.Fluentd(), v.Name, app)
			w := Secret{From: v.SecretValue, Env: name, Who: fmt.Sprintf("log option %s of container %s", v.Name, c.Name)}
			all = append(all, w.named(s, fmt.Sprintf("c%d-log%d", app, n)))
		}
	}
	return all
}

// named gives a secret its name in Podman.
func (w Secret) named(s lifecycle.State, suffix string) Secret {
	w.Name, w.Own = SecretPrefix(s.ID)+suffix, true
	if source, err := secretsource.Parse(w.From.Source); err == nil && source.Kind == secretsource.Podman && w.From.JSONKey == "" {
		w.Name, w.Own = source.Name, false
	}
	return w
}

// ProcessLocal reports whether a source can be read by the process that was asked to run
// the task only, and not by a later owner of it.
func (w Secret) ProcessLocal() bool {
	return w.Own && slices.ContainsFunc(w.Values(), func(v taskdef.SecretValue) bool {
		source, err := secretsource.Parse(v.Source)
		return err == nil && (source.Kind == secretsource.Env || source.Kind == secretsource.Credential)
	})
}

// Values returns the sources of the parts of the secret.
func (w Secret) Values() []taskdef.SecretValue {
	return taskdef.Secret{SecretValue: w.From, Parts: w.Parts}.Values()
}
