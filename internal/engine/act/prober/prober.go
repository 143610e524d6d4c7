package prober

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/engine/facts/taskspec"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/netns"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Prober makes checks over the networks of containers. It is safe for concurrent use.
type Prober struct {
	// Podman finds the processes of containers.
	Podman func(context.Context) (Podman, error)
	// NetnsHelper is as for netns.ListenIn; nil means that no namespace can be entered.
	NetnsHelper []string

	mu      sync.Mutex
	dialers map[place]run
}

// Podman finds a container's process.
type Podman interface {
	InspectContainer(ctx context.Context, name string) (libpod.Observed, error)
}

// place is a container of a task.
type place struct {
	task      string
	container int
}

// run is the dialer of a run of a container.
type run struct {
	*netns.Dialer
	started time.Time
}

// Do makes a check, or a hook, of container i over its network. The error says that nothing
// was learned; no answer before ctx has passed its deadline is a result.
func (p *Prober) Do(ctx context.Context, s lifecycle.State, i int, a taskdef.Action, hook bool) (Result, error) {
	t := target{hook: hook}
	if s.Task.Network == taskdef.NetworkHost {
		var d net.Dialer
		t.dial, t.host = d.DialContext, "127.0.0.1"
		return t.do(ctx, a)
	}
	if p.NetnsHelper == nil {
		return Result{}, errNoHelper
	}
	d := p.dialer(s, i)
	address, err := d.Address(ctx)
	if err != nil {
		return Result{}, err
	}
	t.dial, t.host = d.DialContext, address.String()
	return t.do(ctx, a)
}

// Dial connects to an address as a program in container i would.
func (p *Prober) Dial(ctx context.Context, s lifecycle.State, i int, address string) (net.Conn, error) {
	if s.Task.Network == taskdef.NetworkHost {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}
	if p.NetnsHelper == nil {
		return nil, errNoHelper
	}
	return p.dialer(s, i).DialContext(ctx, "tcp", address)
}

// DialPort connects to a port of container i as another Pod would: not over its loopback.
func (p *Prober) DialPort(ctx context.Context, s lifecycle.State, i int, port uint16) (net.Conn, error) {
	host := "127.0.0.1"
	if s.Task.Network != taskdef.NetworkHost && p.NetnsHelper != nil {
		address, err := p.dialer(s, i).Address(ctx)
		if err != nil {
			return nil, err
		}
		host = address.String()
	}
	return p.Dial(ctx, s, i, net.JoinHostPort(host, strconv.Itoa(int(port))))
}

// errNoHelper: no namespace can be entered.
var errNoHelper = errors.New("podtask does not know its own program, which enters the network of the container")

// dialer is that of the present run of container i.
func (p *Prober) dialer(s lifecycle.State, i int) *netns.Dialer {
	at, started := place{s.ID, i}, s.Containers[i].StartedAt
	p.mu.Lock()
	defer p.mu.Unlock()
	old, there := p.dialers[at]
	if there && old.started.Equal(started) {
		return old.Dialer
	}
	if there {
		old.Close()
	}
	if p.dialers == nil {
		p.dialers = make(map[place]run)
	}
	name := taskspec.ContainerName(s, i)
	d := &netns.Dialer{Helper: p.NetnsHelper, PID: func(ctx context.Context) (int, error) {
		podman, err := p.Podman(ctx)
		if err != nil {
			return 0, err
		}
		seen, err := podman.InspectContainer(ctx, name)
		if err == nil && (seen.PID == 0 || seen.TaskID != s.ID) {
			err = errors.New("the container does not run")
		}
		return seen.PID, err
	}}
	p.dialers[at] = run{d, started}
	return d
}

// Forget closes the sockets of a task that has stopped.
func (p *Prober) Forget(task string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at, d := range p.dialers {
		if at.task == task {
			d.Close()
			delete(p.dialers, at)
		}
	}
}
