package kubelet

import (
	"github.com/podtask/podtask/internal/cli/command"
	"github.com/urfave/cli/v2"
)

// Program is the program of a node. It is not linked here: the client of Kubernetes
// would more than double podtask.
const Program = "podtask-kubelet"

// Command is `podtask kubelet`.
func Command(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:  "kubelet",
		Usage: "make this host a node of a Kubernetes cluster",
		Description: `Executes the program podtask-kubelet, which is installed beside podtask, with all
arguments. "podtask kubelet --help" lists its flags. It needs an agent: the agent runs the
Pods that the cluster binds to this node. See docs/kubernetes.md.

Examples:
  podtask kubelet --kubeconfig node.kubeconfig --node-name edge1
  podtask kubelet --help`,
		Action: func(c *cli.Context) error { return p.Execute(Program, c.Args().Slice()...) },
	}
}
