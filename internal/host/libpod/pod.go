package libpod

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/blang/semver/v4"
	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/bindings/containers"
	"github.com/containers/podman/v5/pkg/bindings/pods"
	entities "github.com/containers/podman/v5/pkg/domain/entities/types"
	"github.com/containers/podman/v5/pkg/specgen"
	"go.podman.io/common/libnetwork/types"

	"github.com/podtask/podtask/internal/lazy"
)

// Pod is a pod whose infra container runs.
type Pod struct {
	ID      string
	InfraID string
	// InfraPID is the host's process id of the infra container, for joining the
	// pod's namespaces.
	InfraPID int
	// StartedAt is the start of the infra container.
	StartedAt time.Time
	// Ports are the ports as bound, none of them 0, sorted by container port.
	Ports []Port
}

// InfraName is the name of a pod's infra container. A fixed name saves a lookup and lets
// a repeated EnsurePod find the container.
func InfraName(pod string) string { return pod + "-infra" }

// StartPod starts the infra container of a pod that CreatePod made, or finds it running.
// If Podman had to start it as part of starting a member, its error would be lost ("starting
// some containers: internal libpod error"). The call may be repeated after an error.
// Containers may be created in the pod meanwhile.
//
// Classes to expect: Conflict (the pod belongs to another task), PortInUse, Temporary (the
// pod does not exist), Interrupted (an earlier call was interrupted: remove the pod).
func (c *Client) StartPod(ctx context.Context, name, taskID string) (Pod, error) {
	err := c.mutateIn(ctx, urgent, "start pod", name, func(ctx context.Context) error {
		return containers.Start(ctx, InfraName(name), nil)
	})
	if errors.Is(err, NotFound) {
		return Pod{}, c.withoutInfra(ctx, name)
	}
	if err != nil {
		return Pod{}, explainInfraStart(err)
	}
	var infra *define.InspectContainerData
	err = c.ask(ctx, "inspect pod", name, func(ctx context.Context) (err error) {
		infra, err = containers.Inspect(ctx, InfraName(name), nil)
		return err
	})
	if err == nil {
		err = ownedBy(labelsOf(infra), taskID)
	}
	if err != nil {
		return Pod{}, fail(ctx, "start pod", name, err)
	}
	if m, ok := monitoredBy(infra); ok {
		c.monitored.Store(InfraName(name), m)
	}
	return podFrom(infra)
}

// runtimeStart matches Podman's error if the OCI runtime could not start a container that it
// had created.
var runtimeStart = lazy.MustCompile("\\bstart [0-9a-f]{64}` failed: exit status")

// panicked is the beginning of Podman's error after a panic in its own code, for example
// because its record of a container is incomplete.
const panicked = "runtime error: "

// crashed reports whether err is a panic of Podman.
func crashed(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Class == Other && strings.HasPrefix(e.Cause, panicked)
}

// explainInfraStart gives a failed start of an infra container the class Interrupted if the
// runtime refused it or Podman crashed: an earlier start was interrupted before Podman
// recorded that the container runs. Only infra containers can be started again after that,
// because they run no program of the user. No version is without the fault (docs/upstream#a-kill-during-a-start-leaves-a-container-that-does-not-start).
func explainInfraStart(err error) error {
	if !refusedByRuntime(err) && !crashed(err) {
		return err
	}
	return interrupted(err)
}

// interrupted returns err, which is an *Error, with the class Interrupted.
func interrupted(err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	again := *e
	again.Class = Interrupted
	return &again
}

// refusedByRuntime reports whether the OCI runtime refused a start for a reason that Podman
// does not know.
func refusedByRuntime(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Class == Other && runtimeStart.MatchString(e.Cause)
}

// infraLimit is much longer than Podman takes from creating a pod to creating its infra
// container.
const infraLimit = 5 * time.Second

// withoutInfra returns the error for a pod without an infra container. A pod is visible before
// its infra container exists, while another create, such as that of an owner that was
// killed, is still in progress. If Podman's service was killed in between, the pod never gets
// one.
func (c *Client) withoutInfra(ctx context.Context, name string) error {
	var found *entities.PodInspectReport
	err := c.ask(ctx, "inspect pod", name, func(ctx context.Context) (err error) {
		found, err = pods.Inspect(ctx, name, nil)
		return err
	})
	switch {
	case errors.Is(err, NotFound):
		return &Error{Op: "start pod", Object: name, Class: Temporary, Cause: "it was removed"}
	case err != nil:
		return err
	}
	return lacksInfra(name, found.Created)
}

// lacksInfra returns the error for a pod that was created at this time and has no infra container.
func lacksInfra(name string, created time.Time) error {
	// A clock that was set back does not make it wait longer.
	if age := time.Since(created); age >= 0 && age < infraLimit {
		return &Error{Op: "start pod", Object: name, Class: Temporary, Cause: "its infra container does not exist yet"}
	}
	return &Error{Op: "start pod", Object: name, Class: Interrupted, Cause: "it has no infra container, because its creation was interrupted"}
}

// CreatePod creates or adopts the pod, which it does not start, and returns its ID. After an
// error the pod may exist: a second call continues, and RemovePod removes it.
//
// Classes to expect: Conflict (the name belongs to another object, or the task's pod has
// another specification), PortInUse, InvalidSpec, Temporary (another call is creating the
// pod right now), Interrupted (an earlier call was interrupted: remove the pod).
func (c *Client) CreatePod(ctx context.Context, p PodSpec) (id string, err error) {
	spec, err := podSpec(p, c.version)
	if err != nil {
		return "", fail(ctx, "create pod", p.Name, err)
	}
	err = c.mutate(ctx, "create pod", p.Name, func(ctx context.Context) error {
		made, err := pods.CreatePodFromSpec(ctx, &entities.PodSpec{PodSpecGen: *spec})
		if err == nil {
			id = made.Id
		}
		return err
	})
	if errors.Is(err, Conflict) {
		return c.adoptPod(ctx, p, spec.Labels[specLabel], err)
	}
	return id, err
}

// adoptPod decides whether the existing pod of this name is the one requested, and returns
// its ID. conflict is the error of the create.
func (c *Client) adoptPod(ctx context.Context, p PodSpec, spec string, conflict error) (id string, err error) {
	var found *entities.PodInspectReport
	err = c.ask(ctx, "inspect pod", p.Name, func(ctx context.Context) (err error) {
		found, err = pods.Inspect(ctx, p.Name, nil)
		return err
	})
	switch {
	case errors.Is(err, NotFound) && heldByStorage(conflict):
		return "", c.freeName(ctx, InfraName(p.Name))
	case errors.Is(err, NotFound):
		// The name belongs to a container, or the pod has just been removed.
		return "", conflict
	case err != nil:
		return "", err
	}
	if err := adoptable(found.Labels, p.TaskID, spec); err != nil {
		return "", fail(ctx, "adopt pod", p.Name, err)
	}
	switch {
	case found.InfraContainerID != "", p.NoInfra:
		return found.ID, nil
	case heldByStorage(conflict):
		// Podman 4.3 keeps a pod whose infra container it could not create, because an
		// interrupted create has left the name in the storage.
		if err := c.remove(ctx, InfraName(p.Name)); err != nil {
			return "", err
		}
		return "", &Error{Op: "create pod", Object: p.Name, Class: Interrupted, Cause: "an interrupted create left the name of its infra container in Podman's storage; the leftover has been removed"}
	}
	return "", lacksInfra(p.Name, found.Created) // containers created in it now would not share its namespaces
}

// podFrom builds the Pod from its infra container.
func podFrom(infra *define.InspectContainerData) (Pod, error) {
	pod := Pod{ID: infra.Pod, InfraID: infra.ID}
	if infra.State == nil || infra.State.Pid == 0 {
		return Pod{}, &Error{Op: "start pod", Object: infra.Name, Class: Temporary, Cause: "its infra container exited immediately; see podman logs and podman inspect"}
	}
	pod.InfraPID, pod.StartedAt = infra.State.Pid, zeroEpoch(infra.State.StartedAt)
	var err error
	if pod.Ports, err = portsOf(infra); err != nil {
		return Pod{}, &Error{Op: "inspect pod", Object: infra.Name, Cause: err.Error()}
	}
	return pod, nil
}

// infraGrace is the stop timeout of an infra container, longer than its program takes to exit.
const infraGrace = 5 * time.Second

// StopPod stops the pod's infra container, after any other container of the task that has
// a process: one that a user started again after it exited, or whose start was cut off, gets
// grace to stop, and one that was initialized and never started gets none. It succeeds if the
// pod does not exist or is not running.
//
// Classes to expect: Conflict (the pod belongs to another task).
func (c *Client) StopPod(ctx context.Context, name, taskID string, grace time.Duration) error {
	pod, err := c.pod(ctx, name)
	if pod == nil {
		return err
	}
	infra := false
	for _, m := range pod.Containers {
		switch {
		case !hasProcess(m):
		case m.ID == pod.InfraContainerID:
			if err := ownedBy(pod.Labels, taskID); err != nil {
				return fail(ctx, "stop pod", name, err)
			}
			infra = true
		default:
			grace := grace
			if m.State == initialized {
				grace = 0
			}
			if err := c.stopStray(ctx, m.ID, taskID, grace); err != nil {
				return err
			}
		}
	}
	if !infra {
		return nil
	}
	return c.stopByPodman(ctx, InfraName(name), infraGrace) // which ends at once
}

// hasProcess reports whether a container of a pod may have a process. An initialized one has.
func hasProcess(m define.InspectPodContainerInfo) bool {
	switch m.State {
	case "configured", "created", "stopped", "exited", "removing":
		return false
	}
	return true
}

// stopStray stops a container if it is one of the task.
func (c *Client) stopStray(ctx context.Context, id, taskID string, grace time.Duration) error {
	data, err := c.inspect(ctx, id)
	switch {
	case errors.Is(err, NotFound):
		return nil
	case err != nil:
		return err
	case data.Config == nil || data.Config.Labels[TaskLabel] != taskID:
		return nil
	}
	return c.StopContainer(ctx, id, grace)
}

// RemovePod removes the task's containers in the pod, running or not, and the pod with
// its infra container and anonymous volumes. It succeeds if the pod does not exist. A
// container that a user added to the pod is never removed: in that case only the task's
// containers are removed, the pod and its infra container stay, and the error (Conflict)
// names the user's container.
func (c *Client) RemovePod(ctx context.Context, name, taskID string) error {
	pod, err := c.pod(ctx, name)
	if pod == nil {
		return err
	}
	if err := ownedBy(pod.Labels, taskID); err != nil {
		return fail(ctx, "remove pod", name, err)
	}
	members, err := c.members(ctx, pod)
	if err != nil {
		return err
	}
	var foreign []string
	for _, m := range members {
		if !m.infra && m.taskID != taskID {
			foreign = append(foreign, m.name)
		}
	}
	if len(foreign) > 0 {
		return c.removeAround(ctx, name, taskID, members, foreign)
	}
	c.killMembers(ctx, members)
	remove := func() error {
		return c.erase(ctx, c.removals, "remove pod", name, func(ctx context.Context) error {
			_, err := pods.Remove(ctx, name, new(pods.RemoveOptions).WithForce(true).WithTimeout(0))
			return err
		})
	}
	err = c.clearing(ctx, remove)
	if withoutStorage(err) {
		for _, m := range members {
			if err := c.remove(ctx, m.id); err != nil {
				return err
			}
		}
		err = c.clearing(ctx, remove)
	}
	if errors.Is(err, NotFound) {
		err = c.podIsGone(ctx, name)
	}
	if err == nil {
		for _, m := range members {
			c.made.Delete(m.id)
			c.exited.Delete(m.name)
		}
	}
	return err
}

// podIsGone checks that a pod is gone after its removal reported that something was not
// found: that may have been one of its containers, removed concurrently, in which case
// Podman keeps the pod.
func (c *Client) podIsGone(ctx context.Context, name string) error {
	pod, err := c.pod(ctx, name)
	if pod != nil {
		return &Error{Op: "remove pod", Object: name, Class: Temporary, Cause: "one of its containers disappeared during the removal, and the pod still exists"}
	}
	return err
}

// pod inspects a pod; nil if it does not exist or on errors. A pod whose infra container has just been removed cannot be inspected:
// Podman says "no such container", which is no sign that the pod is gone.
func (c *Client) pod(ctx context.Context, name string) (found *entities.PodInspectReport, err error) {
	err = c.ask(ctx, "inspect pod", name, func(ctx context.Context) (err error) {
		found, err = pods.Inspect(ctx, name, nil)
		return err
	})
	var e *Error
	switch {
	case err == nil:
		return found, nil
	case errors.As(err, &e) && e.Class == NotFound && e.Status == http.StatusNotFound:
		return nil, nil
	case errors.Is(err, NotFound):
		return nil, &Error{Op: "inspect pod", Object: name, Class: Temporary, Cause: "its infra container is gone, and the pod still exists"}
	}
	return nil, err
}

// member is a container of a pod.
type member struct {
	id, name string
	taskID   string // of TaskLabel
	infra    bool
	pid      int // of a running container; 0 for others, also a paused one, which a signal does not end
}

// inspectedMembers limits the containers of a pod that are inspected one by one instead of by a list. Podman makes a list from all
// containers of the user: with 300 of them it takes more than twenty times as long as an inspection.
const inspectedMembers = 3

// members returns the containers of a pod. Of one that has no process, and that this client has made or that is the infra
// container, enough is known.
func (c *Client) members(ctx context.Context, pod *entities.PodInspectReport) (out []member, err error) {
	var inspect []member
	for _, found := range pod.Containers {
		m := member{id: found.ID, name: found.Name, infra: found.ID == pod.InfraContainerID}
		task, made := c.made.Load(m.id)
		if (made || m.infra) && !hasProcess(found) {
			m.taskID, _ = task.(string)
			out = append(out, m)
			continue
		}
		inspect = append(inspect, m)
	}
	if len(inspect) > inspectedMembers+1 { // and the infra container
		return c.listMembers(ctx, pod.Name)
	}
	for _, m := range inspect {
		data, err := c.inspect(ctx, m.id)
		switch {
		case errors.Is(err, NotFound):
			continue
		case withoutStorage(err):
			return c.listMembers(ctx, pod.Name)
		case err != nil:
			return nil, err
		}
		if data.Config != nil {
			m.taskID = data.Config.Labels[TaskLabel]
		}
		if data.State != nil && data.State.Status == "running" {
			m.pid = data.State.Pid
		}
		out = append(out, m)
	}
	return out, nil
}

// listMembers returns the containers of a pod by one list.
func (c *Client) listMembers(ctx context.Context, pod string) ([]member, error) {
	found, err := c.list(ctx, map[string][]string{"pod": {pod}})
	if err != nil && !errors.Is(err, NotFound) {
		return nil, err
	}
	out := make([]member, len(found))
	for i, f := range found {
		out[i] = member{id: f.ID, name: strings.Join(f.Names, "/"), taskID: f.Labels[TaskLabel], infra: f.IsInfra}
		if f.State == "running" {
			out[i].pid = f.Pid
		}
	}
	return out, nil
}

// removeAround removes the task's containers from a pod that also has containers of a
// user.
func (c *Client) removeAround(ctx context.Context, pod, taskID string, members []member, foreign []string) error {
	for _, m := range members {
		if m.infra || m.taskID != taskID {
			continue
		}
		if err := c.remove(ctx, m.id); err != nil {
			return err
		}
	}
	return &Error{Op: "remove pod", Object: pod, Class: Conflict, Cause: fmt.Sprintf(
		"it contains containers that podtask did not create: %s; remove them with podman rm and try again", strings.Join(foreign, ", "))}
}

// PodSpec is the specification of a task's pod.
type PodSpec struct {
	// Name is the pod's name; pods and containers share one name space.
	Name string
	// TaskID becomes the TaskLabel.
	TaskID string
	// Labels are additional labels. The infra container gets them as well.
	Labels map[string]string
	// CgroupParent is the task's slice, a bare name ending in .slice and without a dash
	// (since Podman 5 a name with a dash fails at start, because systemd nests the slice
	// and Podman computes another path); "" means Podman's default. Leave it empty if
	// Podman uses the cgroupfs manager.
	CgroupParent string
	// Network is as in podman pod create --network: none, host, pasta (Podman 4.4),
	// slirp4netns, bridge, private, or the name of a network, with options after a colon;
	// "" uses the server's default (slirp4netns in 4.x, pasta in 5.x).
	Network string
	// Aliases are the pod's names on the network that Network names.
	Aliases []string `json:",omitempty"`
	// Hostname is the pod's host name; "" means the pod's name.
	Hostname string
	// Ports are published by the infra container; other containers cannot publish ports.
	Ports []Port

	// The fields below are left out of the digest in specLabel if they are not used, so
	// that pods created before these fields existed are still recognized.

	// Choose returns Ports with all host ports set; it is called just before the pod is
	// created. If it is nil, Podman chooses the ports that are 0, and publishes a
	// container port that is listed twice only once (4.3.1 to 5.x).
	Choose func([]Port) ([]Port, error) `json:"-"`
	// ShareIPC and SharePID give all containers one namespace. Otherwise each container
	// has its own, as in Docker; Podman's default is to share IPC.
	ShareIPC bool `json:",omitzero"`
	// OwnNetworks gives each container its own network namespace and the pod none;
	// Network, Ports, Hosts and DNS then have no effect.
	OwnNetworks bool `json:",omitzero"`
	// NoInfra creates a pod without an infra container and without a cgroup; its containers
	// share no namespaces (see ContainerSpec.CgroupParent). Hostname and the fields about
	// namespaces and the network then have no effect, and StartPod must not be called.
	NoInfra  bool `json:",omitzero"`
	SharePID bool `json:",omitzero"`
	// ShmSize is the size of /dev/shm in bytes; 0 means Podman's default. Without
	// ShareIPC it only has an effect on 4.3.1, where it overrides the size in every
	// container's specification.
	ShmSize int64 `json:",omitzero"`
	// Hosts are entries of /etc/hosts in the form name:address. Hosts, DNSServers (IP
	// addresses) and DNSSearch have no effect on a pod in the host's network.
	Hosts                 []string `json:",omitzero"`
	DNSServers, DNSSearch []string `json:",omitzero"`
	// DNSOptions are options of the resolver.
	DNSOptions []string `json:",omitzero"`
}

// pastaSince is the first Podman version that supports the network mode pasta.
var pastaSince = semver.Version{Major: 4, Minor: 4}

// failsInSlice reports whether a pod in a slice of its own does not start with a rootless Podman. Podman 4.9.5 looks for
// the pod's cgroup at a wrong path and then makes it a second time, which systemd refuses; 4.3.1 and 5 do not. There the
// pod stays in Podman's slice, and its containers, all but the infra container, are put into the task's.
func failsInSlice(server semver.Version) bool { return server.Major == 4 && server.Minor >= 4 }

// podSpec builds the request. It is pure except for PodSpec.Choose and
// specgen.ParseNetworkFlag, which reads containers.conf.
func podSpec(p PodSpec, server semver.Version) (*specgen.PodSpecGenerator, error) {
	s := specgen.NewPodSpecGenerator()
	s.Name = p.Name
	// podtask decides when the task ends; with "stop", Podman would stop the pod whenever
	// no container is running, even between two attempts.
	s.ExitPolicy = "continue"
	if !failsInSlice(server) {
		s.CgroupParent = p.CgroupParent
	}
	if p.ShmSize > 0 {
		s.ShmSize = new(p.ShmSize)
	}
	var err error
	if s.Labels, err = labels(p.Labels, p.TaskID, p); err != nil {
		return nil, err
	}
	shield(s.Labels, nil)
	if p.NoInfra {
		// Podman 4.3 makes a cgroup for a pod only if it has an infra container.
		s.NoInfra, s.ShareParent = true, new(false)
		return s, nil
	}
	s.InfraName, s.Hostname, s.SharedNamespaces = InfraName(p.Name), p.Hostname, sharedNamespaces(p)
	if p.OwnNetworks {
		s.NetNS.NSMode = specgen.NoNetwork
		return s, nil
	}
	s.HostAdd, s.DNSSearch, s.DNSOption = p.Hosts, p.DNSSearch, p.DNSOptions
	if s.DNSServer, err = addresses(p.DNSServers); err != nil {
		return nil, err
	}
	if s.NetNS, s.Networks, s.NetworkOptions, err = networkOf(p.Network, server); err != nil {
		return nil, err
	}
	for name, o := range s.Networks {
		o.Aliases = append(o.Aliases, p.Aliases...)
		s.Networks[name] = o
	}
	s.PortMappings, err = portMappings(p.Ports, p.Choose)
	return s, err
}

// networkOf translates PodSpec.Network.
func networkOf(network string, server semver.Version) (ns specgen.Namespace, networks map[string]types.PerNetworkOptions, options map[string][]string, err error) {
	if network == "" {
		return ns, nil, nil, nil
	}
	ns, networks, options, err = specgen.ParseNetworkFlag([]string{network})
	switch {
	case err != nil:
		err = &Error{Class: InvalidSpec, Cause: fmt.Sprintf("network %q: %v", network, err)}
	case ns.NSMode == specgen.Pasta && server.LT(pastaSince):
		err = &Error{Class: InvalidSpec, Cause: fmt.Sprintf("network pasta needs Podman %d.%d, this is %s; use slirp4netns", pastaSince.Major, pastaSince.Minor, server)}
	}
	return ns, networks, options, err
}

// sharedNamespaces returns Podman's names of the namespaces that the pod shares.
func sharedNamespaces(p PodSpec) []string {
	shared := []string{"uts"} // for an empty list Podman shares its default set
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
