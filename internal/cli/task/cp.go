package task

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/engine/act/observe"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/facts/taskspec"
	"github.com/urfave/cli/v2"
)

// CpCommand is `podtask cp`.
func CpCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "cp",
		Usage:     "copy files between a container of a task and this host",
		ArgsUsage: "SOURCE DESTINATION",
		Description: `One of the two is TASK:PATH, or TASK/CONTAINER:PATH if the task has several containers; the
other is a path here, or - for a tar archive. podman cp does the work, with its rules for
directories.

Examples:
  podtask cp web:/etc/nginx/nginx.conf .
  podtask cp dump.sql shop/db:/tmp/
  podtask cp web:/var/log/nginx - | tar -t`,
		Action: command.WithMachine(p, newCopy),
	}
}

type copyOptions struct {
	in     io.Reader
	out    io.Writer
	errOut io.Writer
	getenv func(string) string
	tasks  *record.Tasks
}

func newCopy(m *command.Machine) copyOptions {
	return copyOptions{
		in:     m.Program.Stdin,
		out:    m.Program.Stdout,
		errOut: m.Program.Stderr,
		getenv: m.Program.Getenv,
		tasks:  m.Engine.Tasks,
	}
}

// Run implements command.Runner.
func (o copyOptions) Run(ctx context.Context, c *cli.Context) error {
	if n := c.Args().Len(); n != 2 {
		return command.Usagef("cp", "cp takes a SOURCE and a DESTINATION, not %d arguments", n)
	}
	words := c.Args().Slice()
	inside := 0
	for i, w := range words {
		ref, path, ok := strings.Cut(w, ":")
		if !ok || strings.HasPrefix(ref, ".") || strings.HasPrefix(ref, "/") {
			continue
		}
		id, err := o.containerOf(ref)
		if err != nil {
			return err
		}
		words[i] = id + ":" + path
		inside++
	}
	if inside != 1 {
		return command.Usagef("cp", "one of SOURCE and DESTINATION is TASK:PATH or TASK/CONTAINER:PATH; a path here with a colon begins with ./")
	}
	return o.runPodman(ctx, append([]string{"cp", "--"}, words...)...)
}

// containerOf returns the name in Podman of the container that TASK or TASK/CONTAINER names.
func (o copyOptions) containerOf(ref string) (string, error) {
	task, container := ref, ""
	st, err := o.tasks.Find(task)
	if i := strings.LastIndex(ref, "/"); i >= 0 && connect.IsGone(err) {
		task, container = ref[:i], ref[i+1:]
		st, err = o.tasks.Find(task)
	}
	if err != nil {
		return "", err
	}
	index, err := observe.ExecContainer(st, container)
	if err != nil && container == "" {
		return "", fmt.Errorf("%w, as in %s/%s:PATH", err, task, st.Task.Containers[0].Name)
	}
	if err != nil {
		return "", err
	}
	return taskspec.ContainerName(st, index), nil
}

// runPodman runs Podman's own program on the same Podman as podtask.
func (o copyOptions) runPodman(ctx context.Context, args ...string) error {
	if url := o.getenv("CONTAINER_HOST"); url != "" {
		args = append([]string{"--url", url}, args...)
	}
	cmd := exec.CommandContext(ctx, "podman", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = o.in, o.out, o.errOut
	err := cmd.Run()
	var ended *exec.ExitError
	switch {
	case errors.As(err, &ended):
		return command.ExitStatus(command.ExitOwnFailure) // Podman has printed the error
	case err != nil:
		return fmt.Errorf("run podman: %w", err)
	}
	return nil
}
