package serve

import (
	"errors"
	"strconv"

	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/define/adjust"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/taskdef"
)

// ChangesOf returns the changes that a request of the API makes in a document.
func ChangesOf(s api.TaskSettings, o api.TaskOptions) (define.Changes, error) {
	c := define.Changes{Vars: s.Vars, Without: s.Without, Environment: s.Environment, Options: o.Keys()}
	for i, r := range s.References {
		rule, err := define.NewReference(r.Match, r.Source, "references["+strconv.Itoa(i)+"]")
		if err != nil {
			return c, api.Failed(api.BadRequest, "%v", err)
		}
		c.References = append(c.References, rule)
	}
	if len(s.Overrides) > 0 {
		c.Override = &define.Document{Name: "overrides", Source: s.Overrides}
	}
	var wrong []adjust.FlagError
	c.Adjustments, wrong = adjust.FlagValues{
		Images: s.Images, LeaveOut: s.LeaveOut, Publish: s.Publish, Secrets: s.Secrets, Network: s.Network, Memory: s.Memory, CPUs: s.CPUs, StopTimeout: s.StopTimeout, StopAfter: s.StopAfter,
	}.Parse()
	if len(wrong) > 0 {
		return c, badMembers(wrong)
	}
	return c, nil
}

// read reads a document for a request of the API. The definition can run here.
func read(r define.Reader, doc define.Document, c define.Changes) (define.Definition, error) {
	d, err := r.Read(doc, c)
	if err == nil {
		err = d.Err()
	}
	if err != nil {
		return d, badRequest(err)
	}
	return d, nil
}

// badRequest converts what is wrong with a request to an error of the API.
func badRequest(err error) error {
	f := &api.Failure{Code: api.BadRequest, Message: err.Error()}
	var invalid *taskdef.InvalidError
	var needs *define.NeedsError
	switch {
	case errors.As(err, &invalid):
		f.Problems = invalid.Problems
	case errors.As(err, &needs):
		f.Problems = needs.Needs
	}
	return f
}

// memberOf are the members of a request, by the flags of the same meaning.
var memberOf = map[string]string{"secret": "secrets", "stop-timeout": "stopTimeout", "stop-after": "stopAfter", "locked": "images", "leave-out": "leaveOut"}

// badMembers reports all values that cannot be read.
func badMembers(wrong []adjust.FlagError) error {
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
