package libpod

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/bindings/containers"
	"github.com/containers/podman/v5/pkg/bindings/pods"
	"github.com/containers/podman/v5/pkg/bindings/system"
	entities "github.com/containers/podman/v5/pkg/domain/entities/types"
)

// Kind is the kind of an object.
type Kind string

// The kinds.
const (
	KindPod       Kind = "pod"
	KindContainer Kind = "container"
	// KindInfra is a pod's infra container.
	KindInfra   Kind = "infra"
	KindNetwork Kind = "network"
)

// Found is a pod, container or network with TaskLabel.
type Found struct {
	Kind   Kind
	ID     string
	Name   string
	TaskID string
	Labels map[string]string
	// PodID is the pod of a container; "" if it has none.
	PodID string
	// Status is the status of a container; Absent for other kinds.
	Status Status
	// Paused: Running, but frozen.
	Paused bool
	// The times have whole seconds. FinishedAt and ExitCode are of a container that has
	// Exited.
	StartedAt, FinishedAt time.Time
	ExitCode              int
}

// List returns the pods, then their containers and the networks with TaskLabel, of all
// tasks.
func (c *Client) List(ctx context.Context) ([]Found, error) {
	filter := map[string][]string{"label": {TaskLabel}}
	var ps []*entities.ListPodsReport
	err := c.ask(ctx, "list", "pods", func(ctx context.Context) (err error) {
		ps, err = pods.List(ctx, new(pods.ListOptions).WithFilters(filter))
		return err
	})
	if err != nil {
		return nil, err
	}
	cs, err := c.Containers(ctx)
	if err != nil {
		return nil, err
	}
	networks, err := c.taskNetworks(ctx)
	if err != nil {
		return nil, err
	}
	// The label alone may be that of an image, but no image puts a container into a pod.
	stray := func(f Found) bool {
		return !slices.ContainsFunc(ps, func(p *entities.ListPodsReport) bool { return p.Id == f.PodID && p.Labels[TaskLabel] == f.TaskID })
	}
	cs = slices.DeleteFunc(cs, stray)
	found := make([]Found, 0, len(ps)+len(cs)+len(networks))
	for _, p := range ps {
		found = append(found, Found{Kind: KindPod, ID: p.Id, Name: p.Name, TaskID: p.Labels[TaskLabel], Labels: p.Labels})
	}
	found = append(found, cs...)
	return append(found, networks...), nil
}

// Containers returns the containers with TaskLabel in pods, of all tasks, with one call.
func (c *Client) Containers(ctx context.Context) (found []Found, err error) {
	var cs []entities.ListContainer
	err = c.ask(ctx, "list", "containers", func(ctx context.Context) (err error) {
		cs, err = containers.List(ctx, new(containers.ListOptions).WithAll(true).WithFilters(map[string][]string{"label": {TaskLabel}}))
		return err
	})
	for _, m := range cs {
		if m.Pod == "" { // podtask creates containers only in pods, so the label is that of an image
			continue
		}
		f := Found{
			Kind: KindContainer, ID: m.ID, Name: strings.Join(m.Names, ","), TaskID: m.Labels[TaskLabel], Labels: m.Labels, PodID: m.Pod,
			Status: statusFrom(m.State), Paused: m.State == define.ContainerStatePaused.String(), StartedAt: zeroEpoch(time.Unix(m.StartedAt, 0)),
		}
		if m.IsInfra {
			f.Kind = KindInfra
		}
		if f.Status == Exited {
			f.FinishedAt, f.ExitCode = zeroEpoch(time.Unix(m.ExitedAt, 0)), int(m.ExitCode)
		}
		found = append(found, f)
	}
	return found, err
}

// Event reports that something happened to a container with TaskLabel.
type Event struct {
	Time time.Time
	// Action is Podman's name of the event: create, init, start, died (not die), cleanup,
	// remove, kill, health_status, exec, pause and others.
	Action string
	ID     string
	Name   string
	TaskID string
}

// Events calls fn for each container event with TaskLabel from now on, until ctx or the
// stream ends; it never returns nil. Class Temporary means that the stream broke: call
// Events again and inspect, because events in between are lost.
//
// Events are hints. They arrive late (journald 0.5 s, the file logger up to 3 s), some
// never, and none if Podman's event logger is none. They have no exit code, because 4.3.1
// reports 0 in every event.
func (c *Client) Events(ctx context.Context, fn func(Event)) error {
	events := make(chan entities.Event)
	call := c.call(ctx)
	// The label is filtered here, because 4.3.1 supports only label=key=value and matches
	// nothing with label=key.
	options := new(system.EventsOptions).WithStream(true).WithFilters(map[string][]string{"type": {"container"}})
	if err := system.Events(call, events, nil, options); err != nil {
		return fail(call, "watch", "events", err)
	}
	// The binding's goroutine sends until the stream ends, and the stream ends with ctx,
	// so reading to the end leaves no goroutine behind.
	for e := range events {
		task, ours := e.Actor.Attributes[TaskLabel]
		if !ours || ctx.Err() != nil {
			continue
		}
		at := time.Unix(0, e.TimeNano)
		if e.TimeNano == 0 {
			at = time.Unix(e.Time, 0)
		}
		fn(Event{Time: at, Action: string(e.Action), ID: e.Actor.ID, Name: e.Actor.Attributes["name"], TaskID: task})
	}
	if err := ctx.Err(); err != nil {
		return fail(call, "watch", "events", err)
	}
	return &Error{Op: "watch", Object: "events", Class: Temporary, Cause: "Podman ended the stream"}
}
