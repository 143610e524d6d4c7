package adapter

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/aws/awsapi"
	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/engine/act/admit"
	"github.com/podtask/podtask/internal/engine/facts/arn"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/run/owner"
	"github.com/podtask/podtask/internal/serve"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/admission"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// ECS is what the ECS API of an agent asks: an awsapi.Tasks, awsapi.Parser, awsapi.Logs and
// awsapi.Host.
type ECS struct {
	backend serve.AgentBackend
	states  *record.Cache
	id      string // of the host
	since   time.Time
}

// NewECS returns what the ECS API of an agent asks.
func NewECS(b serve.AgentBackend) ECS {
	host, _ := os.Hostname() // without a name the directory is enough
	sum := sha256.Sum256([]byte(host + "\n" + b.StateDir))
	return ECS{backend: b, states: record.NewCache(b.Engine.Tasks), id: hex.EncodeToString(sum[:16]), since: time.Now()}
}

// OpenECSRecords opens the records of clusters and tags of a state directory.
func OpenECSRecords(stateDir string) (*state.Store, error) {
	return state.OpenIn(filepath.Join(stateDir, "ecs"), state.OS{})
}

// States implements awsapi.Tasks.
func (e ECS) States(context.Context) []lifecycle.State {
	states, errs := e.states.States(e.owned)
	for _, err := range errs {
		e.backend.Log.Warn("a record cannot be read", "error", err)
	}
	return states
}

// State implements awsapi.Tasks.
func (e ECS) State(_ context.Context, id string) (lifecycle.State, bool) {
	s, err := e.states.Get(id)
	if err == nil {
		return e.present(s), true
	}
	if !errors.As(err, new(*record.NotFoundError)) {
		e.backend.Log.Warn("a record cannot be read", "task", id, "error", err)
	}
	return s, false
}

// owned is a task as its owner knows it, if this process owns it.
func (e ECS) owned(id string) (s lifecycle.State, ok bool) {
	if o := e.backend.Owned(id); o != nil {
		return o.State(), true
	}
	return s, false
}

// present is a task as its owner knows it, if this process owns it.
func (e ECS) present(s lifecycle.State) lifecycle.State {
	if now, ok := e.owned(s.ID); ok {
		return now
	}
	return s
}

// Run implements awsapi.Tasks.
func (e ECS) Run(ctx context.Context, n awsapi.NewTask) (lifecycle.State, error) {
	b := e.backend
	s, err := b.Engine.Tasks.Get(n.ID)
	if err == nil {
		return e.present(s), nil
	}
	if !errors.As(err, new(*record.NotFoundError)) {
		return s, err
	}
	task, options, err := e.define(ctx, n)
	if err != nil {
		return s, err
	}
	options.Once, options.GiveUp, options.Persistent = n.Once, true, false // as on ECS
	o, err := b.Engine.Creator.Launch(ctx, owner.Launch{ID: n.ID, Task: task, Options: options})
	if unfit := new(owner.UnfitError); errors.As(err, &unfit) {
		return s, &awsapi.RefusedError{Cause: unfit.Cause}
	}
	switch {
	case errors.Is(err, record.ErrRemoved):
		return s, &protocol.Failure{Code: "ConflictException", Message: "clientToken: " + err.Error()}
	case errors.Is(err, record.ErrMade), errors.Is(err, state.ErrLocked):
		if s, getErr := b.Engine.Tasks.Get(n.ID); getErr == nil { // another request with the token was faster
			return e.present(s), nil
		}
	}
	if errors.Is(err, admit.ErrDraining) {
		return s, &awsapi.RefusedError{Cause: fmt.Errorf("%w: %w", awsapi.ErrDraining, err)}
	}
	if err != nil {
		return s, err
	}
	s = o.State()
	return s, b.Take(ctx, o)
}

// define makes the task of a registered definition and an override.
func (e ECS) define(ctx context.Context, n awsapi.NewTask) (taskdef.Task, lifecycle.Options, error) {
	r := n.Definition
	var changes define.Changes
	if len(n.Overrides) > 0 {
		changes.Override = &define.Document{Name: "overrides", Source: n.Overrides}
	}
	task, options, err := e.backend.Define(ctx, define.Document{Name: r.Name, Dir: r.Dir, Source: r.Source, Registered: true, Revision: r.Revision}, changes)
	if refused, ok := errors.AsType[*api.Failure](err); ok {
		err = &protocol.Failure{Code: "InvalidParameterException", Message: withProblems(refused)}
	}
	options.Client = n.Client
	if n.Cluster != arn.DefaultCluster {
		options.Cluster = n.Cluster
	}
	return task, options, err
}

// withProblems adds to a message what is open in a definition.
func withProblems(f *api.Failure) string {
	var b strings.Builder
	b.WriteString(f.Message)
	for _, p := range f.Problems {
		if text := p.String(); !strings.Contains(f.Message, text) {
			b.WriteString("; " + text)
		}
	}
	return b.String()
}

// Stop implements awsapi.Tasks.
func (e ECS) Stop(ctx context.Context, id, reason string) error {
	s, err := e.backend.Engine.Tasks.Get(id)
	if err != nil || s.Settled() {
		return err
	}
	by := "an AWS client"
	return e.backend.AskToEnd(ctx, id, lifecycle.StopRequested{By: by, Reason: reason}, lifecycle.Down, func(c *api.Client) error {
		if reason != "" {
			by += ": " + reason
		}
		return c.Stop(ctx, id, by, false)
	})
}

// Protect implements awsapi.Tasks, for tasks that this agent owns.
func (e ECS) Protect(ctx context.Context, id string, until time.Time) error {
	err := e.backend.Ask(ctx, id, lifecycle.ProtectionRequested{Until: until}, func(*api.Client) error {
		return &protocol.Failure{Code: "InvalidParameterException", Message: "tasks: task " + id + " was started by podtask run, which owns it: only its containers can protect it"}
	})
	o := e.backend.Owned(id)
	if err != nil || o == nil {
		return err
	}
	return o.Watch(ctx, func(s lifecycle.State) bool { return s.Goal == lifecycle.Up && !s.ProtectedUntil.Equal(until) })
}

// Check implements awsapi.Parser. The rules of the launch types that the document requires
// count too. What it needs of this host is not asked.
func (e ECS) Check(source []byte) (awsapi.Checked, error) {
	d, err := e.backend.Reader().Read(define.Document{Name: "request", Source: source}, define.Changes{Compatibilities: true})
	switch {
	case err != nil:
	case d.IsManifest():
		err = errors.New("this is a Kubernetes manifest, not a task definition")
	case !d.Valid():
		err = d.Err()
	case d.Task.Family == "":
		err = errors.New("family is missing, or a placeholder")
	default:
		err = relative(d.Task)
	}
	if err != nil {
		return awsapi.Checked{}, &protocol.Failure{Code: "ClientException", Message: err.Error()}
	}
	digest, err := d.Digest()
	return awsapi.Checked{Family: d.Task.Family, Digest: digest}, err
}

// relative names the relative paths of a task: there is no directory from which they count.
func relative(t taskdef.Task) error {
	var errs []error
	refuse := func(what, path string) {
		if path != "" && !filepath.IsAbs(path) {
			errs = append(errs, fmt.Errorf("%s: the path %s is relative, and a request has no directory: write an absolute path", what, path))
		}
	}
	for _, c := range t.Containers {
		for _, f := range c.EnvironmentFiles {
			refuse("environmentFiles of "+c.Name, f.Path)
		}
	}
	for _, v := range t.Volumes {
		refuse("volume "+v.Name, v.HostPath)
	}
	return errors.Join(errs...)
}

// ID implements awsapi.Host.
func (e ECS) ID() string { return e.id }

// Instance implements awsapi.Host.
func (e ECS) Instance() (awsapi.Instance, error) {
	a := e.backend.Engine
	content, err := a.Ledger.Read()
	if err != nil {
		return awsapi.Instance{}, err
	}
	budget := a.Queue.Budget()
	host := awsapi.Instance{
		ID: e.id, RegisteredAt: e.since, Draining: content.Drain != nil, Version: e.backend.ProgramVersion,
		All: awsapi.Resources{CPU: limited(budget.CPU, 1), Memory: limited(budget.Memory, 1<<20)},
	}
	for _, entry := range content.Queue.Entries {
		if !entry.Held {
			continue
		}
		host.Taken.CPU += entry.Need.CPU
		host.Taken.Memory += entry.Need.Memory
		for _, p := range entry.Need.Ports {
			if number := strconv.Itoa(int(p.Number)); p.Protocol == "udp" {
				host.Taken.UDP = append(host.Taken.UDP, number)
			} else {
				host.Taken.Ports = append(host.Taken.Ports, number)
			}
		}
	}
	return host, nil
}

// SetDraining implements awsapi.Host.
func (e ECS) SetDraining(ctx context.Context, draining bool) error {
	return e.backend.Engine.Ledger.SetDraining(ctx, draining)
}

// limited is an amount as clients can read it: they know no unlimited one.
func limited(n, unit int64) int64 {
	if n == admission.Unlimited {
		return math.MaxInt32 * unit
	}
	return n
}
