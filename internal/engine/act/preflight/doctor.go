package preflight

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/blang/semver/v4"
	"github.com/podtask/podtask/internal/host/doctor"
	"github.com/podtask/podtask/internal/host/libpod"
)

// askLimit limits each request of Examine: a Podman that hangs is a finding too.
const askLimit = 20 * time.Second

func podmanFor(f libpod.Host) (*doctor.Podman, error) {
	version, err := semver.ParseTolerant(f.Version)
	if err != nil {
		return nil, fmt.Errorf("podman says its version is %q: %w", f.Version, err)
	}
	return &doctor.Podman{
		Version: version, Socket: f.Socket, CgroupManager: f.CgroupManager, Runtime: f.Runtime,
		NetworkBackend: f.NetworkBackend, GraphRoot: f.GraphRoot, LogDriver: f.LogDriver, Rootless: f.Rootless, NoKeyring: !libpod.KeyringEnabled(),
	}, nil
}

// lookPath finds a program like Podman does: also in the sbin directories, which the PATH
// of a user may not contain.
func lookPath(program string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/libexec/podman", "/usr/local/lib/podman", "/usr/libexec/podman", "/usr/lib/podman"} {
		if path, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return path, nil
		}
	}
	return "", exec.ErrNotFound
}

func output(ctx context.Context, program string, args ...string) string {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	out, _ := exec.CommandContext(ctx, program, args...).Output() // only the output counts
	return strings.TrimSpace(string(out))
}
