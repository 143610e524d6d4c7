package ownerapi

import (
	"context"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/define/pod"
	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/engine/act/observe"
	"github.com/podtask/podtask/internal/engine/facts/messages"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// PodOf returns a task as a Kubernetes Pod with its status.
func PodOf(ctx context.Context, a *engine.Engine, s lifecycle.State) (json.RawMessage, error) {
	p, err := pod.From(s.Name, s.Task)
	if err != nil {
		return nil, err
	}
	seen := pod.Seen{Host: define.HostAddresses(), Pod: slices.Clone(s.Sandbox.Addresses)}
	for _, c := range s.Containers {
		seen.Pod = append(seen.Pod, c.Addresses...)
	}
	seen.Pod = unique(seen.Pod)
	for i := range s.Containers {
		seen.Messages = append(seen.Messages, messagesOf(ctx, a, s, i))
	}
	return p.Object(pod.StatusOf(p, s, seen))
}

// messagesOf are the termination messages of container i.
func messagesOf(ctx context.Context, a *engine.Engine, s lifecycle.State, i int) pod.Messages {
	var m pod.Messages
	m.Now, m.Before = messages.In(a.Runtime.StateDir).Read(s, i)
	c := s.Containers[i]
	if m.Now == "" && s.Task.Containers[i].Extensions.Kube.MessageFromLog && c.HasExit && c.ExitCode != 0 {
		m.Now = endOfLog(ctx, a, s, i)
	}
	return m
}

// The part of a log that stands for a message (kubelet: MaxContainerTerminationMessageLogLines,
// MaxContainerTerminationMessageLogLength).
const (
	messageLines = 80
	messageBytes = 2048
)

// endOfLog returns what the latest run of a container wrote last; empty where nothing can
// be read.
func endOfLog(ctx context.Context, a *engine.Engine, s lifecycle.State, i int) string {
	var text strings.Builder
	opts := observe.LogOptions{Tail: messageLines, Since: endBefore(s.Containers[i])}
	err := a.Logs.Read(ctx, s, s.Task.Containers[i].Name, opts, func(l observe.LogLine) error {
		text.WriteString(l.Text)
		if !l.Unended {
			text.WriteByte('\n')
		}
		return nil
	})
	if err != nil {
		return ""
	}
	all := text.String()
	return strings.ToValidUTF8(all[max(0, len(all)-messageBytes):], "\ufffd")
}

// endBefore is the time at which the run before the latest one ended; zero where there was none. A
// container may write before Podman notes its start.
func endBefore(c lifecycle.Container) time.Time {
	for _, r := range slices.Backward(c.Runs) {
		if r.FinishedAt.Before(c.StartedAt) {
			return r.FinishedAt
		}
	}
	return time.Time{}
}

func unique(all []netip.Addr) (out []netip.Addr) {
	seen := make(map[netip.Addr]bool)
	for _, a := range all {
		if !seen[a] {
			out = append(out, a)
		}
		seen[a] = true
	}
	return out
}

// Pod implements api.PodShower from the task's record.
func (h History) Pod(ctx context.Context, id string) (json.RawMessage, error) {
	s, err := h.from.Tasks.Find(id)
	if err != nil {
		return nil, Failure(err)
	}
	return PodOf(ctx, h.from, s)
}

// Pod implements api.PodShower.
func (b Backend) Pod(ctx context.Context, _ string) (json.RawMessage, error) {
	return PodOf(ctx, b.from, b.State())
}

var _ api.PodShower = Backend{}
