package libpod

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/blang/semver/v4"
	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/bindings/containers"
	"github.com/containers/podman/v5/pkg/bindings/pods"
	entities "github.com/containers/podman/v5/pkg/domain/entities/types"
	"github.com/containers/podman/v5/pkg/specgen"
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
func (c *podAPI) EnsurePod(ctx context.Context, p PodSpec) (Pod, error) {
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
func (c *podAPI) CreatePod(ctx context.Context, p PodSpec) error {
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
func (c *podAPI) adoptPod(ctx context.Context, p PodSpec, spec string, conflict error) error {
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
func (c *podAPI) StopPod(ctx context.Context, name, taskID string) error {
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
func (c *podAPI) RemovePod(ctx context.Context, name, taskID string) error {
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
func (c *podAPI) podIsGone(ctx context.Context, name string) error {
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
func (c *podAPI) members(ctx context.Context, pod string) (found []entities.ListContainer, err error) {
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
func (c *podAPI) podLabels(ctx context.Context, pod string, members []entities.ListContainer) (map[string]string, error) {
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
func (c *podAPI) removeAround(ctx context.Context, pod, taskID string, members []entities.ListContainer, foreign []string) error {
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

// PodSpec describes a task's pod.
type PodSpec struct {
	// Name is the pod's name; pods and containers share one name space.
	Name string
	// TaskID becomes the TaskLabel.
	TaskID string
	// Labels are further labels. They are on the infra container as well.
	Labels map[string]string
	// CgroupParent is the task's slice, a bare name ending in .slice and without a
	// dash (a dashed one fails at start from Podman 5 on: systemd nests it, Podman
	// computes another path); "" means Podman's default. Under the cgroupfs manager
	// leave it empty.
	CgroupParent string
	// Network is as in podman pod create --network: none, host, pasta (Podman 4.4),
	// slirp4netns, bridge, private, or the name of a network, with options after a
	// colon; "" leaves it to the server (slirp4netns in 4.x, pasta in 5.x).
	Network string
	// Aliases are names of the pod on a network that Network names.
	Aliases []string `json:",omitempty"`
	// Hostname is the pod's host name; "" means the pod's name.
	Hostname string
	// Ports are published by the infra container. Members cannot publish.
	Ports []Port

	// What follows is left out of the digest in specLabel when it is not used, so
	// that pods made before it existed are still recognised.

	// Choose is asked, just before the pod is made, for the host ports of Ports; nil
	// leaves those that are 0 to Podman, which gives a container port that is asked
	// for twice only one (4.3.1 to 5.x).
	Choose func([]Port) ([]Port, error) `json:"-"`
	// ShareIPC and SharePID make one namespace for all members. Without, each has its
	// own, as in Docker; Podman's own default is to share IPC.
	ShareIPC bool `json:",omitzero"`
	// OwnNetworks: members have network namespaces of their own, and the pod none; then
	// Network, Ports, Hosts and DNS have no effect.
	OwnNetworks bool `json:",omitzero"`
	SharePID    bool `json:",omitzero"`
	// ShmSize is that of /dev/shm in bytes; 0 means Podman's default. Without ShareIPC
	// it has an effect on 4.3.1 only, where it is that of every member, whatever the
	// member's own specification says.
	ShmSize int64 `json:",omitzero"`
	// Hosts are entries of /etc/hosts in the form name:address. They, DNSServers (IP
	// addresses) and DNSSearch have no effect on a pod in the host's network.
	Hosts                 []string `json:",omitzero"`
	DNSServers, DNSSearch []string `json:",omitzero"`
}

// pastaSince is the first Podman that knows the network mode pasta.
var pastaSince = semver.Version{Major: 4, Minor: 4}

// podSpec builds what is sent to Podman. It is pure but for PodSpec.Choose and
// specgen.ParseNetworkFlag, which reads containers.conf.
func podSpec(p PodSpec, server semver.Version) (*specgen.PodSpecGenerator, error) {
	s := specgen.NewPodSpecGenerator()
	s.Name = p.Name
	s.InfraName = InfraName(p.Name)
	s.Hostname = p.Hostname
	// podtask decides when the task ends; Podman's "stop" would act when the last
	// container exits, even between two attempts.
	s.ExitPolicy = "continue"
	s.CgroupParent = p.CgroupParent
	s.SharedNamespaces = sharedNamespaces(p)
	if p.ShmSize > 0 {
		s.ShmSize = ptr(p.ShmSize)
	}
	var err error
	s.Labels, err = labels(p.Labels, p.TaskID, p)
	if err != nil || p.OwnNetworks {
		s.NetNS.NSMode = specgen.NoNetwork
		return s, err
	}
	s.HostAdd, s.DNSSearch = p.Hosts, p.DNSSearch
	if s.DNSServer, err = addresses(p.DNSServers); err != nil {
		return nil, err
	}
	if p.Network != "" {
		ns, networks, options, err := specgen.ParseNetworkFlag([]string{p.Network})
		if err != nil {
			return nil, &Error{Class: InvalidSpec, Cause: fmt.Sprintf("network %q: %v", p.Network, err)}
		}
		if ns.NSMode == specgen.Pasta && server.LT(pastaSince) {
			return nil, &Error{Class: InvalidSpec, Cause: fmt.Sprintf("network pasta needs Podman %d.%d, this is %s; use slirp4netns", pastaSince.Major, pastaSince.Minor, server)}
		}
		for name, o := range networks {
			o.Aliases = append(o.Aliases, p.Aliases...)
			networks[name] = o
		}
		s.NetNS, s.Networks, s.NetworkOptions = ns, networks, options
	}
	s.PortMappings, err = portMappings(p.Ports, p.Choose)
	return s, err
}

// sharedNamespaces are the pod's in Podman's words.
func sharedNamespaces(p PodSpec) []string {
	shared := []string{"uts"} // with none at all Podman shares its default set
	if !p.OwnNetworks {
		shared = append(shared, "net")
	}
	if p.ShareIPC {
		shared = append(shared, "ipc")
	}
	if p.SharePID {
		shared = append(shared, "pid")
	}
	return shared
}
