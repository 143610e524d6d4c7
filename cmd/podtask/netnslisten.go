package main

import (
	"net/netip"

	"github.com/podtask/podtask/pkg/netns"
	"github.com/urfave/cli/v2"
)

const netnsListen = "netns-listen"

// netnsListenCommand is the helper that makes the socket of a metadata endpoint
// from inside the network namespace of a task.
func netnsListenCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      netnsListen,
		Usage:     "listen on an address of this network namespace and pass the socket on",
		ArgsUsage: "ADDRESS:PORT",
		Hidden:    true,
		Action: func(c *cli.Context) error {
			addr, err := netip.ParseAddrPort(c.Args().First())
			if err != nil {
				return usagef(netnsListen, "%v", err)
			}
			return netns.PassListener(addr)
		},
	}
}

// netnsHelper is the command line of that helper; nil if this program does not
// know where it is.
func (p *program) netnsHelper() []string {
	if p.executable == nil {
		return nil
	}
	self, err := p.executable()
	if err != nil {
		return nil
	}
	return []string{self, netnsListen}
}
