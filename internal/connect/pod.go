package connect

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"

	"github.com/podtask/podtask/internal/tasksecrets"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/pod"
	"golang.org/x/sys/unix"
)

// PodOptions returns what a Kubernetes manifest gets from this host: its name, and a UID for
// the Pod.
func PodOptions() pod.Options {
	facts := map[string]string{"metadata.uid": newUID()}
	if name, err := os.Hostname(); err == nil {
		facts["spec.nodeName"] = name
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
func PodOf(s lifecycle.State) (json.RawMessage, error) {
	p, err := pod.From(s.Name, s.Task)
	if err != nil {
		return nil, err
	}
	var a pod.Addresses
	for _, c := range s.Containers {
		a.Pod = append(a.Pod, c.Addresses...)
	}
	a.Pod = unique(a.Pod)
	return p.Object(pod.StatusOf(p, s, a))
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
func (h History) Pod(_ context.Context, id string) (json.RawMessage, error) {
	s, err := h.from.Tasks.Find(id)
	if err != nil {
		return nil, failure(err)
	}
	return PodOf(s)
}

// Pod implements api.PodShower.
func (b OwnerBackend) Pod(context.Context, string) (json.RawMessage, error) { return PodOf(b.State()) }

// Pod implements api.PodShower.
func (b AgentBackend) Pod(ctx context.Context, id string) (json.RawMessage, error) {
	if o := b.fleet.Owner(id); o != nil {
		return PodOf(o.State())
	}
	return b.History.Pod(ctx, id)
}

var _ = []api.PodShower{OwnerBackend{}, AgentBackend{}}
