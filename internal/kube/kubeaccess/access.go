package kubeaccess

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/engine/act/observe"
	"github.com/podtask/podtask/internal/engine/facts/conn"
	"github.com/podtask/podtask/internal/engine/facts/taskspec"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/kube/ephemeral"
	"github.com/podtask/podtask/internal/kube/kubeserve"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Access is the way to the Pods of a node. It may be used concurrently.
type Access struct {
	agent *engine.Engine
	// root contains the host's files.
	root fs.FS
	// helper is as for netns.ListenIn.
	helper []string
	podman func(context.Context) (attacher, error)
}

// attacher is Podman.
type attacher interface {
	observe.ContainerReader
	AttachContainer(ctx context.Context, name string, terminal, stdin bool) (*libpod.ExecStream, error)
	ResizeContainer(ctx context.Context, name string, size libpod.Size) error
	DescribeContainer(ctx context.Context, name string) (libpod.Description, error)
}

// New makes an Access to the tasks of a. The helper is a program with arguments that calls
// netns.Help with one more argument; without it no port of a Pod with a network of its own can be
// reached.
func New(a *engine.Engine, root fs.FS, helper []string) *Access {
	return &Access{agent: a, root: root, helper: helper, podman: conn.As[attacher](a.Podman)}
}

// task is the task of a Pod: the latest one that has not stopped, else the latest.
func (a *Access) task(ref kubeserve.Ref) (found lifecycle.State, err error) {
	states, _ := a.agent.Tasks.States() // a damaged record is not that of this Pod
	for _, s := range states {
		p := taskdef.PodRefOf(s.Task)
		if p.Namespace != ref.Namespace || p.Name != ref.Pod {
			continue
		}
		stopped, best := s.Status() == lifecycle.StatusStopped, found.Status() == lifecycle.StatusStopped
		if found.ID == "" || best && !stopped || best == stopped && s.CreatedAt.After(found.CreatedAt) {
			found = s
		}
	}
	if found.ID == "" {
		return found, fmt.Errorf("pod %s/%s is not on this node: %w", ref.Namespace, ref.Pod, kubeserve.ErrNotFound)
	}
	return found, nil
}

// container is a container of a Pod. An ephemeral one comes after those of the task.
func (a *Access) container(ctx context.Context, ref kubeserve.Ref) (s lifecycle.State, i int, err error) {
	if s, err = a.task(ref); err != nil {
		return s, 0, err
	}
	if i, ok := s.Task.Index(ref.Container); ok {
		return s, i, nil
	}
	podman, err := a.podman(ctx)
	if err != nil {
		return s, 0, err
	}
	name := ephemeral.ContainerName(s, ref.Container)
	seen, err := podman.InspectContainer(ctx, name)
	if err != nil {
		return s, 0, err
	}
	if seen.Status == libpod.Absent || seen.TaskID != s.ID {
		return s, 0, fmt.Errorf("container %s is not valid for pod %s: %w", ref.Container, ref.Pod, kubeserve.ErrRefused)
	}
	described, err := podman.DescribeContainer(ctx, name)
	if err != nil {
		return s, 0, err
	}
	s, i = ephemeral.With(s, taskdef.Container{Name: ref.Container, Interactive: described.Stdin, PseudoTerminal: described.TTY}, 0)
	s.Containers[i] = lifecycle.Container{ID: seen.ID, StartedAt: seen.StartedAt, FinishedAt: seen.FinishedAt}
	return s, i, nil
}

// Logs implements kubeserve.Pods.
func (a *Access) Logs(ctx context.Context, ref kubeserve.Ref, q kubeserve.LogQuery, fn func(kubeserve.Line) error) error {
	s, i, err := a.container(ctx, ref)
	if err != nil {
		return err
	}
	o := observe.LogOptions{Follow: q.Follow, Tail: q.Tail, Timestamps: true}
	from, until, err := period(s.Containers[i], q)
	if err != nil {
		return fmt.Errorf("container %q in pod %q: %w", ref.Container, ref.Pod, err)
	}
	if o.Since = from; q.Since.After(from) {
		o.Since = q.Since
	}
	o.Until = until
	err = a.agent.Logs.Read(ctx, s, ref.Container, o, func(l observe.LogLine) error {
		return fn(kubeserve.Line{Time: l.Time, Text: l.Text, Unended: l.Unended})
	})
	return observe.Complete(err)
}

// period is the time of the run that is asked for; a zero end is now. A run begins with the end of the one
// before: a container may write before Podman notes its start, and is not started again before its end
// is noted.
func period(c lifecycle.Container, q kubeserve.LogQuery) (from, until time.Time, err error) {
	switch {
	case !q.Previous && c.StartedAt.IsZero() && !q.Follow:
		return from, until, fmt.Errorf("it is waiting to start: %w", kubeserve.ErrRefused)
	case !q.Previous:
		return endOf(c.Runs, c.StartedAt), until, nil
	case q.Follow:
		return from, until, fmt.Errorf("a previous run has ended and cannot be followed: %w", kubeserve.ErrRefused)
	case !c.RestartAt.IsZero(): // the latest run has ended, and the next one has not begun
		return endOf(c.Runs, c.StartedAt), c.FinishedAt.Add(time.Second), nil
	case len(c.Runs) == 0:
		return from, until, fmt.Errorf("previous terminated container not found: %w", kubeserve.ErrRefused)
	}
	last := c.Runs[len(c.Runs)-1]
	until = c.StartedAt.Add(-time.Nanosecond)
	if last.FinishedAt.After(last.StartedAt) && last.FinishedAt.Before(until) {
		until = last.FinishedAt
	}
	return endOf(c.Runs[:len(c.Runs)-1], last.StartedAt), until, nil
}

// endOf returns the end of the latest run that ended before a time; zero if there is none.
func endOf(runs []lifecycle.Run, before time.Time) time.Time {
	for _, r := range slices.Backward(runs) {
		if r.FinishedAt.Before(before) {
			return r.FinishedAt
		}
	}
	return time.Time{}
}

// refused marks errors that are about the state of the container.
func refused(err error) error {
	if errors.Is(err, libpod.NotRunning) || errors.Is(err, libpod.NotFound) {
		return fmt.Errorf("%w: %w", kubeserve.ErrRefused, err)
	}
	return err
}

// containerName is Podman's name of a container.
func containerName(s lifecycle.State, i int) string { return taskspec.ContainerName(s, i) }
