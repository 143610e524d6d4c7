package connect

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/define/adjust"
	"github.com/podtask/podtask/internal/define/envfile"
	"github.com/podtask/podtask/internal/define/pod"
	"github.com/podtask/podtask/internal/engine/tasksecrets"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/refs"
)

// definer makes tasks of the definitions that requests contain or name, as run does for a
// command line.
type definer struct {
	settings *config.Settings
	secrets  *tasksecrets.Store
}

// document is a definition that a request contains or names.
type document struct {
	name, dir string
	source    []byte
	lenient   bool
}

// define parses a definition, changes it as the request says and reads its environment files.
func (d definer) define(ctx context.Context, doc document, s api.TaskSettings) (pod.Result, error) {
	settings, err := d.parserSettings(doc, s)
	if err != nil {
		return pod.Result{}, err
	}
	changes, wrong := adjust.Words{
		Publish: s.Publish, Secrets: s.Secrets, Network: s.Network, Memory: s.Memory, CPUs: s.CPUs, StopTimeout: s.StopTimeout,
	}.Parse()
	if len(wrong) > 0 {
		return pod.Result{}, badMembers(wrong)
	}
	loaded, report, err := pod.Load(doc.name, doc.source, settings, PodOptions())
	switch {
	case err != nil:
		return loaded, refused(err)
	case len(report.Needs) > 0:
		return loaded, leftOpen(report.Needs)
	}
	if loaded.Task, err = loaded.Task.Adjust(changes); err != nil {
		return loaded, refused(err)
	}
	if loaded.Task, err = envfile.Read(ctx, d.secrets, loaded.Task); err != nil {
		return loaded, api.Failed(api.BadRequest, "%v", err)
	}
	return loaded, nil
}

// parserSettings are what a request adds to the definition.
func (d definer) parserSettings(doc document, s api.TaskSettings) (taskdef.Settings, error) {
	settings := taskdef.Settings{Vars: s.Vars, Dir: doc.dir, Lenient: doc.lenient, Logs: LogSettings(d.settings)}
	for _, name := range s.Without {
		if err := pod.CheckWithout(name); err != nil {
			return settings, api.Failed(api.BadRequest, "without: %v", err)
		}
	}
	settings.Without = slices.Concat(s.Without, d.settings.Tasks.Without)
	for _, e := range s.Environment {
		settings.Env = append(settings.Env, taskdef.EnvVar(e))
	}
	var once refs.Table
	for i, r := range s.References {
		rule, err := config.NewRule(r.Match, r.Source, fmt.Sprintf("references[%d]", i))
		if err != nil {
			return settings, api.Failed(api.BadRequest, "references[%d]: %v", i, err)
		}
		rule.OneOff = true
		once = append(once, rule)
	}
	known, err := d.settings.Rules()
	if err != nil {
		return settings, api.Failed(api.BadRequest, "%v", err)
	}
	settings.Refs = slices.Concat(once, known)
	if len(s.Overrides) > 0 {
		if settings.Override, _, err = settings.ParseOverride("overrides", s.Overrides); err != nil {
			return settings, refused(err)
		}
	}
	return settings, nil
}

// refused converts what is wrong with a definition to an error of the API.
func refused(err error) error {
	var invalid *taskdef.InvalidError
	if errors.As(err, &invalid) {
		return &api.Failure{Code: api.BadRequest, Message: err.Error(), Problems: invalid.Problems}
	}
	return api.Failed(api.BadRequest, "%v", err)
}

// leftOpen reports what the definition refers to and this host does not have.
func leftOpen(needs []taskdef.Problem) error {
	f := &api.Failure{Code: api.BadRequest, Message: "the definition leaves something open that neither the request nor the configuration gives", Problems: needs}
	for _, n := range needs {
		f.Message += "; " + n.String()
	}
	return f
}

// memberOf are the members of a request, by the flags of the same meaning.
var memberOf = map[string]string{"secret": "secrets", "stop-timeout": "stopTimeout"}

// badMembers reports all words that cannot be read.
func badMembers(wrong []adjust.Mistake) error {
	f := &api.Failure{Code: api.BadRequest, Message: "the request changes the definition in a way that cannot be read"}
	for _, w := range wrong {
		name := w.Flag
		if member := memberOf[name]; member != "" {
			name = member
		}
		f.Problems = append(f.Problems, taskdef.Problem{File: "request", Message: name + ": " + w.Err.Error()})
		f.Message += "; " + name + ": " + w.Err.Error()
	}
	return f
}
