package endpoint

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/engine/facts/metadata"
	"github.com/podtask/podtask/internal/engine/facts/taskspec"
	"github.com/podtask/podtask/internal/engine/network/hostsfile"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/sleep"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Endpoint is a task's metadata endpoint while this process owns the task. It is
// served by the owner on sockets that a helper made inside the network namespaces of
// the task's containers, so only they can reach it.
type Endpoint struct {
	metadata *Factory
	task     Task

	mu      sync.Mutex // one opens at a time
	server  *metadata.Server
	sockets map[int]socket // by container; one for all at whole
	faults  *Faults
	// addresses are those of the namespace of the whole task.
	addresses []netip.Addr
}

// StartLimit bounds the start of a container, and before it that of its network.
const StartLimit = 3 * time.Minute

// Task is the state of the task of an endpoint.
type Task interface {
	State() lifecycle.State
	Watch(ctx context.Context, fn func(lifecycle.State) bool) error
	Send(lifecycle.Event) (taken bool)
}

// New returns the endpoint of a task, which is not open yet. Through it containers inject faults, if they may.
func New(m *Factory, t Task, f *Faults) *Endpoint {
	return &Endpoint{metadata: m, task: t, faults: f}
}

// socket is where the endpoint listens.
type socket struct {
	net.Listener
	pid int // a process of the namespace it is in; 0 with the host's network
}

// whole stands for all containers of a task that is not bridged, which may be one.
const whole = -1

// wanted tells whether the task is to have an endpoint.
func (e *Endpoint) wanted(s lifecycle.State) bool {
	return s.Options.MetadataKey != "" && e.metadata.Namespaces != nil
}

// separate reports whether containers have network namespaces of their own, which exist when
// they are initialized.
func separate(s lifecycle.State) bool {
	return s.Task.Bridged() || taskspec.Alone(s) && s.Task.Network != taskdef.NetworkHost
}

// open makes the endpoint, unless it is there already, and returns its address;
// empty for a task that shall have none. Where containers have namespaces of their own, it is
// made for each by Enter.
func (e *Endpoint) open(ctx context.Context, s lifecycle.State) (string, error) {
	switch {
	case !e.wanted(s):
		return "", nil
	case separate(s):
		return metadata.Address, nil
	case s.Task.Network == taskdef.NetworkHost:
		return e.listen(ctx, s, whole, 0)
	}
	infra, err := e.inspect(ctx, libpod.InfraName(taskspec.PodName(s)))
	if err == nil && infra.PID == 0 {
		err = errors.New("the pod's infra container does not run")
	}
	if err != nil {
		return "", err
	}
	return e.listen(ctx, s, whole, infra.PID)
}

func (e *Endpoint) inspect(ctx context.Context, name string) (libpod.Observed, error) {
	podman, err := e.metadata.Podman(ctx)
	if err != nil {
		return libpod.Observed{}, err
	}
	return podman.InspectContainer(ctx, name)
}

// Enter prepares the network namespace of container i, if it has one of its own and is about to be
// started: it opens the endpoint there and adds the addresses that Podman could not give it.
// missing is what the container runs without. On err, which is as of StartContainer, it must not be
// started: it may have no network. Errors that the start itself handles are not returned.
func (e *Endpoint) Enter(ctx context.Context, s lifecycle.State, i int) (missing lifecycle.Failure, err error) {
	own, separate := taskspec.OwnNetwork(s, i)
	named := e.metadata.Names.Wanted(s)
	if e.metadata.Namespaces == nil || !separate || taskspec.Alone(s) && s.Sandbox.Metadata == "" && !named {
		return missing, nil
	}
	ctx, cancel := context.WithTimeout(ctx, StartLimit)
	defer cancel()
	podman, err := e.metadata.Podman(ctx)
	if err != nil {
		return missing, err
	}
	name := taskspec.ContainerName(s, i)
	if !e.wanted(s) && !named {
		seen, err := podman.InspectContainer(ctx, name)
		ran := !s.Containers[i].StartedAt.IsZero() // Podman may keep its address
		if err != nil || len(seen.Missing) == 0 && !ran {
			return missing, err
		}
	}
	seen, err := podman.InitContainer(ctx, name, own)
	switch {
	case errors.Is(err, libpod.NotFound), errors.Is(err, libpod.PortInUse):
		return missing, nil // the start fails for the same reason
	case err != nil:
		return missing, err
	}
	if len(seen.Missing) > 0 {
		if err := e.metadata.Namespaces.AddAddresses(ctx, seen.PID, seen.Missing); err != nil {
			return lifecycle.Failure{Class: lifecycle.Permanent, Name: "NetworkAddressError", Message: "other containers do not reach this one by its name: " + err.Error()}, nil
		}
	}
	if named {
		missing = noNames(e.metadata.Names.Enter(ctx, s, keyOf(s, i), seen.PID, seen.HostsFile))
	}
	if !e.wanted(s) || taskspec.Alone(s) && s.Sandbox.Metadata == "" {
		return missing, nil
	}
	if _, err = e.listen(ctx, s, keyOf(s, i), seen.PID); err != nil {
		missing = noEndpoint(err)
	}
	return missing, nil
}

// enterNames makes the names of a task reachable whose containers share the namespace of a sandbox that runs.
func (e *Endpoint) enterNames(ctx context.Context, s lifecycle.State) error {
	if !e.metadata.Names.Wanted(s) || separate(s) {
		return nil
	}
	infra, err := e.inspect(ctx, libpod.InfraName(taskspec.PodName(s)))
	if err == nil && infra.PID == 0 {
		err = errors.New("the pod's infra container does not run")
	}
	if err != nil {
		return err
	}
	hosts := cmp.Or(hostsfile.In(e.metadata.StateDir).Of(s), infra.HostsFile)
	return e.metadata.Names.Enter(ctx, s, whole, infra.PID, hosts)
}

// noNames is what a task runs without that does not reach the names of its namespace yet. The owner goes on trying.
func noNames(err error) lifecycle.Failure {
	if err == nil {
		return lifecycle.Failure{}
	}
	return lifecycle.Failure{Class: lifecycle.Permanent, Name: "ServiceNamesError", Message: "services are not reached by name: " + err.Error()}
}

// keyOf is where sockets has that of a container with a network namespace of its own.
func keyOf(s lifecycle.State, i int) int {
	if taskspec.Alone(s) {
		return whole
	}
	return i
}

// listen serves the endpoint in the network namespace of a process, unless it does
// already, and returns the address.
func (e *Endpoint) listen(ctx context.Context, s lifecycle.State, key, pid int) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, endpointLimit)
	defer cancel()
	e.mu.Lock()
	defer e.mu.Unlock()
	old, there := e.sockets[key]
	if there && old.pid == pid {
		return old.Addr().String(), nil
	}
	if there {
		_ = old.Close() // its namespace is gone
		delete(e.sockets, key)
	}
	l, addresses, err := e.socket(ctx, s, pid)
	if err != nil {
		return "", err
	}
	if e.server == nil || key == whole {
		e.shut()
		e.server, e.sockets = metadata.New(e.source(s, addresses)), make(map[int]socket)
	}
	e.sockets[key] = socket{l, pid}
	e.addresses = addresses
	server := e.server
	go func() { // ends with shut
		if err := server.Serve(l); err != nil {
			e.metadata.Log.Warn("the metadata endpoint ended", "task", s.ID, "error", err)
		}
	}()
	return l.Addr().String(), nil
}

// socket listens in the namespace of a process or, for 0, on the host's loopback, there
// on the port it had before.
func (e *Endpoint) socket(ctx context.Context, s lifecycle.State, pid int) (net.Listener, []netip.Addr, error) {
	if pid != 0 {
		return e.metadata.Namespaces.Listen(ctx, pid, netip.MustParseAddrPort(metadata.Address))
	}
	addr := s.Sandbox.Metadata
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp", addr)
	return l, nil, err
}

func (e *Endpoint) source(s lifecycle.State, addresses []netip.Addr) metadata.Source {
	src := metadata.Source{
		Key: s.Options.MetadataKey, State: e.task.State, Watch: e.task.Watch, Addresses: addresses, Log: e.metadata.Log,
		Names: metadataNames(s), Protect: e.protect,
		Stats: func(ctx context.Context, i int) (json.RawMessage, error) {
			return e.metadata.stats(ctx, taskspec.ContainerName(s, i))
		},
	}
	if e.faults != nil {
		src.Faults = e.faults
	}
	if s.Options.Credentials && (s.Task.Identity.TaskRoleSource != "" || len(e.metadata.Settings.CredentialsHelper) > 0) {
		src.Credentials = e.metadata.credentials(s).Credentials
	}
	return src
}

// protect returns when the protection of the task is in its record.
func (e *Endpoint) protect(ctx context.Context, until time.Time) error {
	if !e.task.Send(lifecycle.ProtectionRequested{Until: until}) {
		return errors.New("the owner of the task is ending; try again")
	}
	return e.task.Watch(ctx, func(s lifecycle.State) bool { return s.Goal == lifecycle.Up && !s.ProtectedUntil.Equal(until) })
}

// shut closes the endpoint. The caller holds mu.
func (e *Endpoint) shut() {
	if e.server != nil {
		_ = e.server.Close()
	}
	e.server, e.sockets = nil, nil
}

// Close stops listening and ends the requests in progress. It may be called more than once.
func (e *Endpoint) Close() {
	e.metadata.Names.Close(e.task.State().ID)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.shut()
}

// endpointLimit bounds one attempt to listen.
const endpointLimit = 20 * time.Second

// Plan returns the address that the endpoint of a task will have, which its containers are
// created with. A task without one is told so, and continues: most software never asks.
func (e *Endpoint) Plan(ctx context.Context, s lifecycle.State) (addr string, missing lifecycle.Failure) {
	switch {
	case !e.wanted(s):
		return "", lifecycle.Failure{}
	case s.Task.Network == taskdef.NetworkHost && !s.Task.Bridged():
		addr, err := e.listen(ctx, s, whole, 0)
		return addr, noEndpoint(err)
	}
	if err := e.metadata.Namespaces.CanEnter(); err != nil {
		return "", noEndpoint(err)
	}
	return metadata.Address, lifecycle.Failure{}
}

// Provide opens the endpoint of a task whose sandbox runs, as planned.
func (e *Endpoint) Provide(ctx context.Context, s lifecycle.State) (missing lifecycle.Failure) {
	ctx, cancel := context.WithTimeout(ctx, endpointLimit)
	defer cancel()
	missing = noNames(e.enterNames(ctx, s))
	if s.Sandbox.Metadata == "" {
		return missing
	}
	if _, err := e.open(ctx, s); err != nil {
		return noEndpoint(err)
	}
	return missing
}

func noEndpoint(err error) lifecycle.Failure {
	if err == nil {
		return lifecycle.Failure{}
	}
	return lifecycle.Failure{Class: lifecycle.Permanent, Name: "MetadataEndpointError", Message: "there is no metadata endpoint: " + err.Error()}
}

// Resume serves the endpoint again for containers that were told of it by an
// earlier owner. Podman may be away for a moment.
func (e *Endpoint) Resume(ctx context.Context, s lifecycle.State) {
	for attempt := range 5 {
		once, cancel := context.WithTimeout(ctx, endpointLimit)
		err := e.reopen(once, s)
		cancel()
		if err == nil || ctx.Err() != nil {
			return
		}
		e.metadata.Log.Warn("the metadata endpoint is not back yet", "task", s.ID, "error", err)
		if !sleep.For(ctx, time.Second<<attempt) {
			return
		}
	}
}

// reopen opens the endpoint wherever it has to be by now.
func (e *Endpoint) reopen(ctx context.Context, s lifecycle.State) error {
	_, err := e.open(ctx, s)
	named := e.metadata.Names.Wanted(s)
	if !separate(s) || !e.wanted(s) && !named {
		return errors.Join(err, e.enterNames(ctx, s))
	}
	var errs []error
	for i, c := range s.Containers {
		if _, separate := taskspec.OwnNetwork(s, i); c.Ended || !separate {
			continue
		}
		seen, err := e.inspect(ctx, taskspec.ContainerName(s, i))
		if err == nil && seen.PID != 0 && seen.TaskID == s.ID {
			if named {
				errs = append(errs, e.metadata.Names.Enter(ctx, s, keyOf(s, i), seen.PID, seen.HostsFile))
			}
			if e.wanted(s) && s.Sandbox.Metadata != "" {
				_, err = e.listen(ctx, s, keyOf(s, i), seen.PID)
			}
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Podman finds the network namespaces of containers.
type Podman interface {
	InspectContainer(ctx context.Context, name string) (libpod.Observed, error)
	InitContainer(ctx context.Context, name string, on libpod.OwnNetwork) (libpod.Observed, error)
}

// Namespaces enters the network namespaces of processes.
type Namespaces interface {
	// CanEnter returns why the other methods would fail for any process; nil if they would not.
	CanEnter() error
	// Listen returns a listener in the namespace of a process and the addresses that the
	// namespace has besides.
	Listen(ctx context.Context, pid int, addr netip.AddrPort) (net.Listener, []netip.Addr, error)
	// AddAddresses adds addresses in the namespace of a process.
	AddAddresses(ctx context.Context, pid int, addresses []netip.Prefix) error
}

// DockerStatsReader reads statistics in Docker's form.
type DockerStatsReader interface {
	DockerStats(ctx context.Context, name string) (json.RawMessage, error)
}

// Describe completes the metadata file of container i, which is about to start. A
// container whose file cannot be written runs all the same: most never look.
func (e *Endpoint) Describe(ctx context.Context, s lifecycle.State, i int) {
	if !s.Options.MetadataFile {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, endpointLimit)
	defer cancel()
	_, err := e.open(ctx, s) // which finds the addresses, where Enter has not
	if err != nil {
		e.metadata.Log.Warn("the addresses of the task are not known", "task", s.ID, "error", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.metadata.writeFile(s, i, e.addresses); err != nil {
		e.metadata.Log.Warn("the metadata file is not complete", "task", s.ID, "error", err)
	}
}
