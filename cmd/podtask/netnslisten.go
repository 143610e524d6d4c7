//go:build remote && containers_image_openpgp

package main

import (
	"github.com/podtask/podtask/pkg/netns"
	"github.com/urfave/cli/v2"
)

const netnsListen = "netns-listen"

// netnsListenCommand is the helper that makes sockets inside the network namespace of a
// task: that of its metadata endpoint, and those of checks.
func netnsListenCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      netnsListen,
		Usage:     "make sockets in this network namespace and pass them on",
		ArgsUsage: "ADDRESS:PORT | sockets",
		Hidden:    true,
		Action: func(c *cli.Context) error {
			return netns.Help(c.Args().First())
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
