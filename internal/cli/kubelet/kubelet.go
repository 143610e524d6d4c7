package kubelet

import (
	"fmt"
	"syscall"

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
		Action: func(c *cli.Context) error { return runKubelet(p.FindProgram, p.Environ(), c.Args().Slice()) },
	}
}

// runKubelet executes podtask-kubelet in this process. It returns only if it cannot.
func runKubelet(find func(name string) (string, error), environ, args []string) error {
	path, err := find(Program)
	if err != nil {
		return err
	}
	err = syscall.Exec(path, append([]string{Program}, args...), environ)
	return fmt.Errorf("execute %s: %w", path, err)
}
