package libpod

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/bindings/containers"
	"github.com/containers/podman/v5/pkg/bindings/pods"
	entities "github.com/containers/podman/v5/pkg/domain/entities/types"
)

// Pod is a pod whose infra container runs.
type Pod struct {
	ID      string
	InfraID string
	// InfraPID is the host's process id of the infra container, for joining the
	// pod's namespaces.
	InfraPID int
	// StartedAt is when the infra container started.
	StartedAt time.Time
	// Ports are the ports as bound, none of them 0, sorted by container port.
	Ports []Port
}

// InfraName is the name of a pod's infra container. A fixed one spares a look-up
// and lets a repeated EnsurePod find it.
func InfraName(pod string) string { return pod + "-infra" }

// EnsurePod makes sure that the pod exists, is ours and has a running infra
// container, creating or adopting it. The infra container is started alone: when
// a member's start has to start it too, its error is lost ("starting some
// containers: internal libpod error"). After an error the pod may exist; a second
// call continues, RemovePod clears it.
//
// Classes to expect: Conflict (the name is somebody else's, or the pod is ours
// from another specification), PortInUse, InvalidSpec, Temporary (another call is
// just making the pod).
func (c *Client) EnsurePod(ctx context.Context, p PodSpec) (Pod, error) {
	if err := c.CreatePod(ctx, p); err != nil {
		return Pod{}, err
	}
	err := c.mutate(ctx, "start pod", p.Name, func(ctx context.Context) error {
		return containers.Start(ctx, InfraName(p.Name), nil)
	})
	if errors.Is(err, NotFound) {
		// A pod can be seen before its infra container: somebody's create, such as
		// that of an owner that was killed, is still under way.
		return Pod{}, &Error{Op: "start pod", Object: p.Name, Class: Temporary, Cause: "its infra container is not there yet"}
	}
	if err != nil {
		return Pod{}, err
	}
	var infra *define.InspectContainerData
	err = c.ask(ctx, "inspect pod", p.Name, func(ctx context.Context) (err error) {
		infra, err = containers.Inspect(ctx, InfraName(p.Name), nil)
		return err
	})
	if err != nil {
		return Pod{}, err
	}
	return podFrom(infra)
}

// CreatePod is EnsurePod without the start of the infra container.
func (c *Client) CreatePod(ctx context.Context, p PodSpec) error {
	spec, err := podSpec(p, c.version)
	if err != nil {
		return fail(ctx, "create pod", p.Name, err)
	}
	err = c.create(ctx, "create pod", p.Name, func(ctx context.Context) error {
		_, err := pods.CreatePodFromSpec(ctx, &entities.PodSpec{PodSpecGen: *spec})
		return err
	})
	if errors.Is(err, Conflict) {
		err = c.adoptPod(ctx, p, spec.Labels[specLabel], err)
	}
	return err
}

// adoptPod decides whether the pod that stands in the way is the one asked for.
// conflict is what Podman said to its creation.
func (c *Client) adoptPod(ctx context.Context, p PodSpec, spec string, conflict error) error {
	var found *entities.PodInspectReport
	err := c.ask(ctx, "inspect pod", p.Name, func(ctx context.Context) (err error) {
		found, err = pods.Inspect(ctx, p.Name, nil)
		return err
	})
	switch {
	case errors.Is(err, NotFound):
		// The name belongs to a container, or the pod went away just now.
		return conflict
	case err != nil:
		return err
	}
	if err := adoptable(found.Labels, p.TaskID, spec); err != nil {
		return fail(ctx, "adopt pod", p.Name, err)
	}
	return nil
}

// podFrom reads what the caller needs from the infra container.
func podFrom(infra *define.InspectContainerData) (Pod, error) {
	pod := Pod{ID: infra.Pod, InfraID: infra.ID}
	if infra.State == nil || infra.State.Pid == 0 {
		return Pod{}, &Error{Op: "start pod", Object: infra.Name, Class: Temporary, Cause: "its infra container ended at once; see podman logs and podman inspect of it"}
	}
	pod.InfraPID, pod.StartedAt = infra.State.Pid, zeroEpoch(infra.State.StartedAt)
	var err error
	if pod.Ports, err = portsOf(infra); err != nil {
		return Pod{}, &Error{Op: "inspect pod", Object: infra.Name, Cause: err.Error()}
	}
	return pod, nil
}

// infraGrace is more than a pause process ever needs to end.
const infraGrace = 5 * time.Second

// strayGrace is for a container that should not run any more (Podman's default).
const strayGrace = 10 * time.Second

// StopPod stops the pod's infra container, and before it what else of the task has a
// process there: a container that somebody has started again since it ended, or that
// was set up and never started. An absent pod and one that does not run are success.
//
// Classes to expect: Conflict (the pod is somebody else's).
func (c *Client) StopPod(ctx context.Context, name, taskID string) error {
	members, err := c.members(ctx, name)
	if err != nil {
		return err
	}
	infra := false
	for _, m := range members {
		switch {
		case m.Pid == 0:
		case m.IsInfra:
			if err := ownedBy(m.Labels, taskID); err != nil {
				return fail(ctx, "stop pod", name, err)
			}
			infra = true
		case m.Labels[TaskLabel] == taskID:
			if err := c.StopContainer(ctx, m.ID, strayGrace); err != nil {
				return err
			}
		}
	}
	if !infra {
		return nil
	}
	return c.StopContainer(ctx, InfraName(name), infraGrace)
}

// RemovePod removes the task's containers in the pod, running or not, and the pod
// with its infra container and anonymous volumes. An absent pod is success. A
// container that the user put into the pod is never removed: then ours are
// removed, the pod with its infra container stays, and the error (Conflict) names
// what is in the way.
func (c *Client) RemovePod(ctx context.Context, name, taskID string) error {
	members, err := c.members(ctx, name)
	if err != nil {
		return err
	}
	labels, err := c.podLabels(ctx, name, members)
	switch {
	case errors.Is(err, NotFound):
		return nil
	case err != nil:
		return err
	}
	if err := ownedBy(labels, taskID); err != nil {
		return fail(ctx, "remove pod", name, err)
	}
	var foreign []string
	for _, m := range members {
		if m.Labels[TaskLabel] != taskID {
			foreign = append(foreign, strings.Join(m.Names, "/"))
		}
	}
	if len(foreign) > 0 {
		return c.removeAround(ctx, name, taskID, members, foreign)
	}
	err = c.mutate(ctx, "remove pod", name, func(ctx context.Context) error {
		_, err := pods.Remove(ctx, name, new(pods.RemoveOptions).WithForce(true).WithTimeout(0))
		return err
	})
	if errors.Is(err, NotFound) {
		return c.podIsGone(ctx, name)
	}
	return err
}

// podIsGone makes sure of it when a removal says that something was not there:
// that may be a container of the pod, which somebody else removed meanwhile, and
// Podman leaves the pod then.
func (c *Client) podIsGone(ctx context.Context, name string) error {
	err := c.ask(ctx, "inspect pod", name, func(ctx context.Context) error {
		_, err := pods.Inspect(ctx, name, nil)
		return err
	})
	switch {
	case err == nil:
		return &Error{Op: "remove pod", Object: name, Class: Temporary, Cause: "a container of it vanished while Podman removed it, and it is still there"}
	case errors.Is(err, NotFound):
		return nil
	default:
		return err
	}
}

// members lists the pod's containers, the infra container among them; none if the
// pod does not exist.
func (c *Client) members(ctx context.Context, pod string) (found []entities.ListContainer, err error) {
	err = c.ask(ctx, "list pod", pod, func(ctx context.Context) (err error) {
		found, err = containers.List(ctx, new(containers.ListOptions).WithAll(true).WithFilters(map[string][]string{"pod": {pod}}))
		return err
	})
	if errors.Is(err, NotFound) {
		return nil, nil
	}
	return found, err
}

// podLabels returns the pod's labels. Its infra container has the same, which
// spares a call; a pod that lost its infra container is asked itself.
func (c *Client) podLabels(ctx context.Context, pod string, members []entities.ListContainer) (map[string]string, error) {
	for _, m := range members {
		if m.IsInfra {
			return m.Labels, nil
		}
	}
	var found *entities.PodInspectReport
	err := c.ask(ctx, "inspect pod", pod, func(ctx context.Context) (err error) {
		found, err = pods.Inspect(ctx, pod, nil)
		return err
	})
	if err != nil {
		return nil, err
	}
	return found.Labels, nil
}

// removeAround removes our members of a pod that also holds foreign ones.
func (c *Client) removeAround(ctx context.Context, pod, taskID string, members []entities.ListContainer, foreign []string) error {
	for _, m := range members {
		if m.IsInfra || m.Labels[TaskLabel] != taskID {
			continue
		}
		if err := c.remove(ctx, m.ID); err != nil {
			return err
		}
	}
	return &Error{Op: "remove pod", Object: pod, Class: Conflict, Cause: fmt.Sprintf(
		"it holds containers that podtask did not make: %s; remove them yourself (podman rm), then try again", strings.Join(foreign, ", "))}
}
