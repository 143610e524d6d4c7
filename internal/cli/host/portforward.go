package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/connect/sshhost"
	"github.com/urfave/cli/v2"
)

// PortForwardCommand is `podtask port-forward`.
func PortForwardCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "port-forward",
		Usage:     "reach published ports of a task on another host from this one",
		ArgsUsage: "TASK [LOCAL:]PORT ...",
		Description: `Listens on 127.0.0.1 until Ctrl-C and connects each connection to the port that the task
publishes for PORT, through ssh. When the connection to the host breaks, it is made again, for at most five
minutes; connections to the ports end meanwhile. The port of the host may be published on its loopback only. The
same port is used here, or LOCAL; 0 takes a free one. On this machine, podtask port TASK says where a
port is published.

Examples:
  podtask --host ssh://box port-forward web 8080:80
  podtask --host box port-forward shop 5432 0:80`,
		Action: forwarding{
			out: p.Stdout, errOut: p.Stderr, warn: p.Warn, find: p.FindOneHost, options: p.HostOptions,
			reconnect: func(ctx context.Context, h sshhost.Host, lost error) (*sshhost.Link, error) {
				return command.Reconnect(ctx, p, h, lost)
			},
		}.run,
	}
}

// forwarding is what `podtask port-forward` uses.
type forwarding struct {
	out, errOut io.Writer
	warn        func(format string, args ...any)
	find        func(*cli.Context) (command.ChosenHost, error)
	options     func() sshhost.Options
	reconnect   func(ctx context.Context, h sshhost.Host, lost error) (*sshhost.Link, error)
}

// forwardedTask is a task whose ports are forwarded.
type forwardedTask struct {
	name       string
	link       *sshhost.Link
	ports      []forwardedPort
	forwarders []*sshhost.Forwarder // of the ports
}

// forwardedPort is an argument of port-forward.
type forwardedPort struct{ local, port int }

func parsePorts(words []string) (ports []forwardedPort, err error) {
	for _, w := range words {
		local, port, two := strings.Cut(w, ":")
		if !two {
			port = local
		}
		to, err := strconv.ParseUint(port, 10, 16)
		at, atErr := strconv.ParseUint(local, 10, 16)
		if err = errors.Join(err, atErr); err != nil || to == 0 {
			return nil, command.Usagef("port-forward", "%q is not [LOCAL:]PORT such as 8080:80", w)
		}
		ports = append(ports, forwardedPort{int(at), int(to)})
	}
	return ports, nil
}

func (p forwarding) run(c *cli.Context) error {
	if c.Args().Len() < 2 {
		return command.Usagef("port-forward", "port-forward takes a TASK and a PORT, and there are %d arguments", c.Args().Len())
	}
	ports, err := parsePorts(c.Args().Tail())
	if err != nil {
		return err
	}
	h, err := p.find(c)
	if err != nil {
		return err
	}
	if !h.Remote() {
		return command.Usagef("port-forward", "port-forward is for another host: name it with --host; `podtask port %s` says where ports of this machine are published", c.Args().First())
	}
	ctx, stop := signal.NotifyContext(c.Context, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	link, err := sshhost.Dial(ctx, h.Host, p.options())
	if err != nil {
		if ctx.Err() != nil {
			return command.ExitStatus(command.ExitInterrupted)
		}
		return err
	}
	all := &forwardedTask{name: c.Args().First(), link: link, ports: ports}
	defer func() { _ = all.link.Close() }()
	published, err := p.publishedPorts(ctx, link, all.name)
	switch {
	case ctx.Err() != nil:
		return command.ExitStatus(command.ExitInterrupted)
	case err != nil:
		return err
	}
	for _, port := range ports {
		address, err := published.address(c.Args().First(), port.port)
		if err != nil {
			return err
		}
		listeners, err := command.ListenLoopback(port.local)
		if err != nil {
			return fmt.Errorf("listen for port %d: %w; choose another one: LOCAL:%d", port.port, err, port.port)
		}
		f := sshhost.NewForwarder(link, listeners)
		f.Failed = func(err error) { p.warn("a connection to port %d of %s: %v", port.port, h.Host, err) }
		defer f.Close()
		all.forwarders = append(all.forwarders, f)
		f.Start(address)
		if _, err := fmt.Fprintf(p.out, "127.0.0.1:%d -> %s port %d on %s\n", command.PortOf(listeners[0]), c.Args().First(), port.port, h.Host); err != nil {
			return err
		}
	}
	return p.keep(ctx, h.Host, all)
}

// keep connects again whenever the connection has broken, until ctx ends.
func (p forwarding) keep(ctx context.Context, h sshhost.Host, t *forwardedTask) error {
	for {
		select {
		case <-ctx.Done():
			return command.ExitStatus(command.ExitInterrupted)
		case <-t.link.Lost():
		}
		lost := t.link.LostError()
		_ = t.link.Close()
		next, err := p.reconnect(ctx, h, lost)
		if err != nil {
			return err
		}
		t.link = next
		switch err := p.move(ctx, t); {
		case ctx.Err() != nil:
			return command.ExitStatus(command.ExitInterrupted)
		case err != nil && !sshhost.Passing(err):
			return err
		}
	}
}

// move lets forwarders use a new link. The ports of the task may be published elsewhere by now.
func (p forwarding) move(ctx context.Context, t *forwardedTask) error {
	published, err := p.publishedPorts(ctx, t.link, t.name)
	if err != nil {
		return err
	}
	for i, port := range t.ports {
		address, err := published.address(t.name, port.port)
		if err != nil {
			return err
		}
		t.forwarders[i].Use(t.link, address)
	}
	return nil
}

// published are the ports of a task, as `podtask port -o json` of the host prints them.
type published []struct {
	ContainerPort, HostPort int
	Protocol, HostIP        string
}

func (p forwarding) publishedPorts(ctx context.Context, link *sshhost.Link, task string) (ports published, err error) {
	out, err := command.AnswerOf(ctx, link, p.errOut, "port", "--format=json", "--", task)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(out, &ports); err != nil {
		return nil, fmt.Errorf("the host's answer about the ports of %s: %w", task, err)
	}
	return ports, nil
}

// address returns the address of the host's loopback that leads to a port of the task.
func (ports published) address(task string, port int) (string, error) {
	elsewhere := ""
	for _, p := range ports {
		if p.ContainerPort != port || p.Protocol == "udp" || p.HostPort < 1 || p.HostPort > 65535 {
			continue
		}
		ip := netip.AddrFrom4([4]byte{127, 0, 0, 1})
		if p.HostIP != "" {
			var err error
			if ip, err = netip.ParseAddr(p.HostIP); err != nil {
				continue
			}
		}
		switch {
		case ip == netip.IPv6Unspecified():
			ip = netip.IPv6Loopback()
		case ip.IsUnspecified():
			ip = netip.AddrFrom4([4]byte{127, 0, 0, 1})
		case !ip.IsLoopback():
			elsewhere = net.JoinHostPort(ip.String(), strconv.Itoa(p.HostPort))
			continue
		}
		return netip.AddrPortFrom(ip, uint16(p.HostPort)).String(), nil
	}
	if elsewhere != "" {
		return "", fmt.Errorf("task %s publishes port %d on %s only, which is no address of the host's loopback: connect to it directly", task, port, elsewhere)
	}
	return "", fmt.Errorf("task %s publishes no TCP port %d: `podtask port %s` lists its ports", task, port, task)
}
