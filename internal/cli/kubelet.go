package cli

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/urfave/cli/v2"
)

// kubeletProgram is the program of a node. It is not linked here: the client of Kubernetes
// would more than double podtask.
const kubeletProgram = "podtask-kubelet"

func kubeletCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "kubelet",
		Usage: "make this host a node of a Kubernetes cluster",
		Description: `Executes the program podtask-kubelet, which is installed beside podtask, with all
arguments. "podtask kubelet --help" lists its flags. It needs an agent: the agent runs the
Pods that the cluster binds to this node. See docs/kubernetes.md.

Examples:
  podtask kubelet --kubeconfig node.kubeconfig --node-name edge1
  podtask kubelet --help`,
		Action: func(c *cli.Context) error { return p.kubelet(c.Args().Slice()) },
	}
}

// kubelet becomes podtask-kubelet; it returns only if that is not possible.
func (p *program) kubelet(args []string) error {
	path, err := p.findProgram(kubeletProgram)
	if err != nil {
		return err
	}
	err = syscall.Exec(path, append([]string{kubeletProgram}, args...), p.environ())
	return fmt.Errorf("execute %s: %w", path, err)
}

// findProgram looks for another program of podtask beside this one, then in PATH.
func (p *program) findProgram(name string) (string, error) {
	if self, err := p.executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), name)); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", errors.New(name + " is not installed: it is a program of its own, and belongs beside podtask or into PATH; the packages of podtask have it")
	}
	return path, nil
}
