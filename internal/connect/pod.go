package connect

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/define/pod"
	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/engine/messages"
	"github.com/podtask/podtask/internal/engine/observe"
	"github.com/podtask/podtask/internal/engine/tasksecrets"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"golang.org/x/sys/unix"
)

// PodOptions returns what a Kubernetes manifest gets from this host: its name, and a UID for
// the Pod.
func PodOptions() pod.Options {
	facts := map[string]string{"metadata.uid": newUID()}
	if name, err := os.Hostname(); err == nil {
		facts["spec.nodeName"] = name
	}
	if all := hostAddresses(); len(all) > 0 {
		facts["status.hostIP"], facts["status.hostIPs"] = all[0].String(), all[0].String()
	}
	o := pod.Options{Facts: facts, CPU: int64(runtime.NumCPU()) * 1000}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		o.Memory = int64(info.Totalram) * int64(info.Unit)
	}
	return o
}

// newUID is a random UUID (RFC 9562, version 4).
func newUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// ProvideManifest keeps the values of a manifest for tasks that are about to be created,
// and checks its host paths.
func ProvideManifest(store *tasksecrets.Store, r pod.Result) error {
	for _, s := range r.Secrets {
		store.Provide(s.Name, s.Value())
	}
	var errs []error
	for _, p := range r.HostPaths {
		errs = append(errs, checkHostPath(p))
	}
	return errors.Join(errs...)
}

// filesOf returns the contents of a manifest's files, for a service, and checks its host paths.
// The content of a Secret is not among them: Podman keeps that of a registered manifest.
func filesOf(r pod.Result) (map[string][]byte, error) {
	var files map[string][]byte
	var errs []error
	for _, s := range r.Secrets {
		if s.Sensitive() {
			return nil, api.Failed(api.BadRequest, "the manifest holds the content of a Secret, which no record must: `podtask taskdef register` takes it out")
		}
		if files == nil {
			files = make(map[string][]byte)
		}
		files[s.Name] = s.Value()
	}
	for _, p := range r.HostPaths {
		errs = append(errs, checkHostPath(p))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, api.Failed(api.BadRequest, "%v", err)
	}
	return files, nil
}

// checkHostPath creates a hostPath if its type says so, and reports a path of another type.
func checkHostPath(p pod.HostPath) error {
	info, err := os.Stat(p.Path)
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case p.Type == "":
		return nil
	case missing && p.Type == "DirectoryOrCreate":
		return os.MkdirAll(p.Path, 0o755)
	case missing && p.Type == "FileOrCreate":
		f, err := os.OpenFile(p.Path, os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			return fmt.Errorf("hostPath %s: %w", filepath.Clean(p.Path), err)
		}
		return f.Close()
	case err != nil:
		return fmt.Errorf("hostPath of type %s: %w", p.Type, err)
	}
	mode := info.Mode()
	ok := map[string]bool{
		"DirectoryOrCreate": mode.IsDir(), "Directory": mode.IsDir(), "FileOrCreate": mode.IsRegular(), "File": mode.IsRegular(),
		"Socket": mode&fs.ModeSocket != 0, "CharDevice": mode&fs.ModeCharDevice != 0, "BlockDevice": mode&fs.ModeDevice != 0 && mode&fs.ModeCharDevice == 0,
	}[p.Type]
	if !ok {
		return fmt.Errorf("hostPath %s is not of type %s", filepath.Clean(p.Path), p.Type)
	}
	return nil
}

// PodOf returns a task as a Kubernetes Pod with its status.
func PodOf(ctx context.Context, a *engine.Engine, s lifecycle.State) (json.RawMessage, error) {
	p, err := pod.From(s.Name, s.Task)
	if err != nil {
		return nil, err
	}
	seen := pod.Seen{Host: hostAddresses(), Pod: slices.Clone(s.Sandbox.Addresses)}
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
		text.WriteString(l.Text + "\n")
		return nil
	})
	if err != nil {
		return ""
	}
	all := text.String()
	return strings.ToValidUTF8(all[max(0, len(all)-messageBytes):], "\ufffd")
}

// endBefore is when the run before the latest one ended; zero where there was none. A
// container may write before Podman notes its start.
func endBefore(c lifecycle.Container) time.Time {
	for _, r := range slices.Backward(c.Runs) {
		if r.FinishedAt.Before(c.StartedAt) {
			return r.FinishedAt
		}
	}
	return time.Time{}
}

// hostAddresses returns the address from which this host reaches others, where it has one.
func hostAddresses() []netip.Addr {
	for _, far := range []string{"192.0.2.1:9", "[2001:db8::1]:9"} { // nothing is sent
		c, err := net.Dial("udp", far)
		if err != nil {
			continue
		}
		at, err := netip.ParseAddrPort(c.LocalAddr().String())
		_ = c.Close()
		if err == nil {
			return []netip.Addr{at.Addr()}
		}
	}
	return nil
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
		return nil, failure(err)
	}
	return PodOf(ctx, h.from, s)
}

// Pod implements api.PodShower.
func (b OwnerBackend) Pod(ctx context.Context, _ string) (json.RawMessage, error) {
	return PodOf(ctx, b.from, b.State())
}

// Pod implements api.PodShower.
func (b AgentBackend) Pod(ctx context.Context, id string) (json.RawMessage, error) {
	if o := b.fleet.Owner(id); o != nil {
		return PodOf(ctx, b.from, o.State())
	}
	return b.History.Pod(ctx, id)
}

var _ = []api.PodShower{OwnerBackend{}, AgentBackend{}}
