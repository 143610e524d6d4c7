package libpod

import (
	"context"
	"fmt"
	"syscall"

	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/bindings/system"
)

// Host is the report of the Podman service about its host and configuration.
type Host struct {
	// Version is Podman's version as text; see also Client.Version.
	Version string
	// CgroupManager is systemd or cgroupfs.
	CgroupManager string
	// CgroupVersion is v1 (hybrid too) or v2.
	CgroupVersion string
	// Runtime is the OCI runtime's name: crun, runc.
	Runtime string
	// RuntimeVersion is the version output of the runtime, several lines that start with,
	// for example, "crun version 1.21".
	RuntimeVersion string
	// NetworkBackend is netavark or cni.
	NetworkBackend string
	// RootlessNetwork is pasta or slirp4netns; empty before Podman 5.
	RootlessNetwork string
	// EventLogger is journald, file or none. With none there are no Events, and Logs
	// cannot follow.
	EventLogger string
	// LogDriver is the default: journald, k8s-file, passthrough, none.
	LogDriver string
	Rootless  bool
	// CPUs is the number of CPUs; Memory is in bytes.
	CPUs   int
	Memory int64
	// Arch is the architecture as in GOARCH.
	Arch string
	// GraphRoot is the directory where Podman stores images and containers.
	GraphRoot string
	// Socket is the path of the socket in use.
	Socket string
}

// Identity identifies the socket in use, so that callers notice another service. A service
// creates its socket when it starts, unless systemd holds it. It is empty if there is no
// socket.
func (c *Client) Identity() string {
	path := c.service.path()
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		return ""
	}
	return fmt.Sprintf("%s %d %d %d.%d %s", path, st.Dev, st.Ino, st.Ctim.Sec, st.Ctim.Nsec, c.version)
}

// Host returns what the service reports about its host.
func (c *Client) Host(ctx context.Context) (Host, error) {
	var info *define.Info
	err := c.ask(ctx, "get information about", "the host", func(ctx context.Context) (err error) {
		info, err = system.Info(ctx, nil)
		return err
	})
	if err != nil {
		return Host{}, err
	}
	h := Host{Version: info.Version.Version, Socket: c.service.path()}
	if i := info.Host; i != nil {
		h.CgroupManager, h.CgroupVersion = i.CgroupManager, i.CgroupsVersion
		h.NetworkBackend, h.RootlessNetwork = i.NetworkBackend, i.RootlessNetworkCmd
		h.EventLogger, h.LogDriver = i.EventLogger, i.LogDriver
		h.Rootless, h.CPUs, h.Memory, h.Arch = i.Security.Rootless, i.CPUs, i.MemTotal, i.Arch
		if i.OCIRuntime != nil {
			h.Runtime, h.RuntimeVersion = i.OCIRuntime.Name, i.OCIRuntime.Version
		}
	}
	if info.Store != nil {
		h.GraphRoot = info.Store.GraphRoot
		c.storage.at(h.GraphRoot)
	}
	return h, nil
}
