package ecscluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/aws/awsapi"
	"github.com/podtask/podtask/internal/aws/awsapi/logstreams"
	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
	"github.com/podtask/podtask/internal/define/catalog"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef"
)

var errDown = errors.New("the cluster is down")

// States implements awsapi.Services.
func (c *Cluster) States() (out []service.State) {
	c.do(func(r *run) {
		for _, s := range r.disk.Services {
			out = append(out, s)
		}
	})
	slices.SortFunc(out, func(a, b service.State) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// State implements awsapi.Services.
func (c *Cluster) State(name string) (s service.State, ok bool) {
	c.do(func(r *run) {
		for _, one := range r.disk.Services {
			if one.Name == name {
				s, ok = one, true
			}
		}
	})
	return s, ok
}

// spec makes the specification of FAMILY:REVISION.
func (c *Cluster) spec(definition string) (service.Spec, error) {
	ref, err := catalog.ParseRef(definition)
	if err != nil {
		return service.Spec{}, err
	}
	revision, source, err := c.catalog.Find(ref)
	if err != nil {
		return service.Spec{}, err
	}
	t, _, err := taskdef.Parse(definition, source)
	t.Revision = revision.Revision
	return service.Spec{TaskDefinition: definition, Task: t}, err
}

// Create implements awsapi.Services.
func (c *Cluster) Create(_ context.Context, n awsapi.NewService) (s service.State, err error) {
	spec, err := c.spec(n.Definition)
	if err == nil {
		err = service.Validate(n.Name, spec, n.Count, n.Config)
	}
	if err != nil {
		return s, &protocol.Failure{Code: "InvalidParameterException", Message: err.Error()}
	}
	ok := c.do(func(r *run) {
		s = service.New(fmt.Sprintf("%032x", len(r.disk.Services)+1), n.Name, spec, n.Count, n.Config, time.Now())
		r.disk.Services[n.Name] = s
		c.step(r, n.Name, service.TimerFired{})
	})
	if !ok {
		err = errDown
	}
	return s, err
}

// Update implements awsapi.Services.
func (c *Cluster) Update(_ context.Context, name string, change awsapi.ServiceChange) (s service.State, err error) {
	in := service.Updated{DesiredCount: change.Count, Notes: change.Notes}
	if change.Definition != "" {
		spec, err := c.spec(change.Definition)
		if err != nil {
			return s, &protocol.Failure{Code: "InvalidParameterException", Message: err.Error()}
		}
		in.Spec = &spec
	}
	ok := c.do(func(r *run) {
		now := r.disk.Services[name]
		if in.Spec == nil && change.Force {
			spec := now.Primary().Spec
			in.Spec = &spec
		}
		if change.Config != nil {
			config := change.Config(now.Config)
			in.Config = &config
		}
		c.step(r, name, in)
		s = r.disk.Services[name]
	})
	if !ok {
		err = errDown
	}
	return s, err
}

// Remove implements awsapi.Services.
func (c *Cluster) Remove(_ context.Context, name string) (s service.State, err error) {
	if !c.do(func(r *run) { s = r.disk.Services[name]; c.step(r, name, service.DeleteRequested{}) }) {
		err = errDown
	}
	return s, err
}

// StopAttempt implements awsapi.Services.
func (c *Cluster) StopAttempt(context.Context, string, int, bool) error { return errNotHere }

// ContinueAttempt implements awsapi.Services.
func (c *Cluster) ContinueAttempt(context.Context, string, int, string, bool) error {
	return errNotHere
}

var errNotHere = &protocol.Failure{Code: "InvalidParameterException", Message: "the cluster of the tests has no such call"}

// payload is a task as ECS sends it.
func (t *task) payload() map[string]any {
	var d struct {
		Family      string `json:"family"`
		NetworkMode string `json:"networkMode"`
		Containers  []struct {
			Name         string   `json:"name"`
			Image        string   `json:"image"`
			Command      []string `json:"command"`
			CPU          int      `json:"cpu"`
			Memory       int      `json:"memory"`
			Essential    *bool    `json:"essential"`
			StopTimeout  int      `json:"stopTimeout"`
			PortMappings []any    `json:"portMappings"`
			Environment  []struct{ Name, Value string }
			HealthCheck  *struct {
				Command                                 []string
				Interval, Timeout, Retries, StartPeriod int
			}
		} `json:"containerDefinitions"`
	}
	_ = json.Unmarshal(t.Document, &d) // it was registered, so it is one
	var containers []any
	for _, k := range d.Containers {
		config := map[string]any{}
		one := map[string]any{"name": k.Name, "image": k.Image, "command": k.Command, "cpu": k.CPU, "memory": k.Memory, "essential": k.Essential == nil || *k.Essential, "overrides": "{}"}
		if k.StopTimeout > 0 {
			one["stopTimeout"] = k.StopTimeout
		}
		if len(k.PortMappings) > 0 {
			one["portMappings"] = k.PortMappings
		}
		if len(k.Environment) > 0 {
			environment := make(map[string]string)
			for _, e := range k.Environment {
				environment[e.Name] = e.Value
			}
			one["environment"] = environment
		}
		if h := k.HealthCheck; h != nil {
			one["healthCheckType"] = "docker"
			config["HealthCheck"] = map[string]any{"Test": h.Command, "Interval": h.Interval * int(time.Second), "Timeout": h.Timeout * int(time.Second), "Retries": h.Retries, "StartPeriod": h.StartPeriod * int(time.Second)}
		}
		text, _ := json.Marshal(config)
		one["dockerConfig"] = map[string]string{"config": string(text), "hostConfig": `{"NetworkMode":"bridge","CapAdd":[],"CapDrop":[]}`, "version": "1.18"}
		containers = append(containers, one)
	}
	return map[string]any{
		"arn": ARN(t.ID), "family": d.Family, "version": fmt.Sprint(t.Revision), "desiredStatus": t.Want, "networkMode": "bridge", "launchType": "EXTERNAL",
		"serviceName": t.Service, "containers": containers,
	}
}

// parser reads definitions.
type parser struct{}

// Check implements awsapi.Parser.
func (parser) Check(source []byte) (awsapi.Checked, error) {
	src := taskdef.ReadSource("request", source)
	t, _, err := taskdef.Settings{}.ParseSource(src)
	if err != nil {
		return awsapi.Checked{}, &protocol.Failure{Code: "ClientException", Message: err.Error()}
	}
	digest, err := src.Digest()
	return awsapi.Checked{Family: t.Family, Digest: digest}, err
}

// noTasks: there are no tasks but those of services.
type noTasks struct{}

func (noTasks) States(context.Context) []lifecycle.State { return nil }
func (noTasks) State(context.Context, string) (s lifecycle.State, ok bool) {
	return s, false
}
func (noTasks) Run(context.Context, awsapi.NewTask) (s lifecycle.State, err error) {
	return s, errNotHere
}
func (noTasks) Stop(context.Context, string, string) error       { return errNotHere }
func (noTasks) Protect(context.Context, string, time.Time) error { return errNotHere }

// noHost: the hosts are container instances.
type noHost struct{}

func (noHost) Instance() (awsapi.Instance, error)      { return awsapi.Instance{ID: noHost{}.ID()}, nil }
func (noHost) ID() string                              { return strings.Repeat("0", 32) }
func (noHost) SetDraining(context.Context, bool) error { return errNotHere }

type noLogs struct{}

func (noLogs) Streams(context.Context) []logstreams.Stream { return nil }
func (noLogs) Lines(context.Context, logstreams.Stream, time.Time, func(logstreams.Line) error) error {
	return nil
}
func (noLogs) Last(context.Context, logstreams.Stream) (l logstreams.Line, ok bool, err error) {
	return l, false, nil
}

type noSessions struct{}

func (noSessions) Open(string, int, []string) (id, token string, err error) {
	return "", "", errNotHere
}
func (noSessions) Forward(string, int, uint16, uint16) (id, token string, err error) {
	return "", "", errNotHere
}
func (noSessions) Resume(string) (token string, ok bool) { return "", false }
func (noSessions) Terminate(string)                      {}
func (noSessions) Serve(w http.ResponseWriter, _ *http.Request, _ string) {
	w.WriteHeader(http.StatusNotFound)
}
