package libpod

import (
	"fmt"
	"slices"
	"strings"

	"github.com/containers/podman/v5/pkg/specgen"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// Bind is a path of the host seen in a container, with what is mounted below it.
// The path must exist when the container is created.
type Bind struct {
	HostPath, Path string
	ReadOnly       bool `json:",omitzero"`
	// Relabel is z (shared) or Z (private), which changes the SELinux labels of the
	// host's files; "" leaves them. It has no effect without SELinux.
	Relabel string `json:",omitzero"`
}

// NamedVolume is a volume of Podman's seen in a container. It must exist before:
// Podman would make one without labels.
type NamedVolume struct {
	Name, Path string
	ReadOnly   bool `json:",omitzero"`
}

// Tmpfs is a file system in memory, empty at each start.
type Tmpfs struct {
	Path string
	// Size is in bytes, at least 1.
	Size int64
	// Options are mount options such as noexec or mode=1770; Podman adds
	// rw,nosuid,nodev unless they say otherwise.
	Options []string `json:",omitzero"`
}

// Device is a device node of the host. Rootless it is a bind mount: the container
// can do what the user can, and mknod is no right.
type Device struct {
	HostPath, Path string
	// Permissions are of r, w and m.
	Permissions string
}

// SecretFile is a Podman secret seen as a file, a copy made when the container is
// created.
type SecretFile struct {
	Secret, Path string
	Mode         uint32
	UID, GID     uint32 `json:",omitzero"`
}

// mounts is what the specification mounts; files in memory and binds share a list.
func mounts(c ContainerSpec) []specs.Mount {
	var out []specs.Mount
	for _, b := range c.Binds {
		options := []string{"rbind", access(b.ReadOnly)}
		if b.Relabel != "" {
			options = append(options, b.Relabel)
		}
		out = append(out, specs.Mount{Type: "bind", Source: b.HostPath, Destination: b.Path, Options: options})
	}
	for _, t := range c.Tmpfs {
		options := append([]string{fmt.Sprintf("size=%d", t.Size)}, t.Options...)
		out = append(out, specs.Mount{Type: "tmpfs", Source: "tmpfs", Destination: t.Path, Options: options})
	}
	return out
}

func access(readOnly bool) string {
	if readOnly {
		return "ro"
	}
	return "rw"
}

func namedVolumes(c ContainerSpec) []*specgen.NamedVolume {
	var out []*specgen.NamedVolume
	for _, v := range c.Volumes {
		out = append(out, &specgen.NamedVolume{Name: v.Name, Dest: v.Path, Options: []string{access(v.ReadOnly)}})
	}
	return out
}

// devices are in the form of the podman command, which Podman takes apart.
func devices(c ContainerSpec) []specs.LinuxDevice {
	var out []specs.LinuxDevice
	for _, d := range c.Devices {
		out = append(out, specs.LinuxDevice{Path: strings.Join([]string{d.HostPath, d.Path, d.Permissions}, ":")})
	}
	return out
}

func secretFiles(c ContainerSpec) []specgen.Secret {
	var out []specgen.Secret
	for _, f := range c.SecretFiles {
		out = append(out, specgen.Secret{Source: f.Secret, Target: f.Path, UID: f.UID, GID: f.GID, Mode: f.Mode})
	}
	return out
}

// Rlimit is a resource limit of a container's processes.
type Rlimit struct {
	// Name is as ulimit names are written in task definitions: nofile, nproc, core.
	Name string
	// Soft and Hard are the limits; Unlimited means none.
	Soft, Hard uint64
}

// Unlimited is a limit that is none.
const Unlimited = ^uint64(0)

func rlimits(c ContainerSpec) []specs.POSIXRlimit {
	var out []specs.POSIXRlimit
	for _, r := range c.Rlimits {
		// Podman puts RLIMIT_ before it.
		out = append(out, specs.POSIXRlimit{Type: strings.ToUpper(r.Name), Soft: r.Soft, Hard: r.Hard})
	}
	return out
}

// dockerCapabilities is what Docker, and so ECS, gives a container. Podman's own
// default lacks audit_write, mknod and net_raw.
var dockerCapabilities = []string{
	"CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_MKNOD", "CAP_NET_BIND_SERVICE",
	"CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT",
}

const allCapabilities = "ALL"

// capabilities returns what to ask Podman to add and to drop, so that root in the
// container has Docker's set, with the changes of the specification. For other users
// Podman makes what is added ambient, which would be more than Docker's; they get
// only what was asked for, and of the rest Podman's own bounding set.
func capabilities(c ContainerSpec, root bool) (add, drop []string) {
	drop = capNames(c.CapDrop)
	if !root || slices.Contains(c.CapAdd, allCapabilities) {
		return capNames(c.CapAdd), drop
	}
	if !slices.Contains(drop, allCapabilities) {
		for _, name := range dockerCapabilities {
			if !slices.Contains(drop, name) {
				add = append(add, name)
			}
		}
	}
	for _, name := range capNames(c.CapAdd) {
		if !slices.Contains(add, name) {
			add = append(add, name)
		}
	}
	slices.Sort(add)
	return add, []string{allCapabilities}
}

// capNames puts capabilities into Podman's form.
func capNames(names []string) []string {
	var out []string
	for _, name := range names {
		if name != allCapabilities && !strings.HasPrefix(name, "CAP_") {
			name = "CAP_" + name
		}
		out = append(out, name)
	}
	return out
}

// isRoot reports whether a user of the form user[:group] is root.
func isRoot(user string) bool {
	name, _, _ := strings.Cut(user, ":")
	return name == "" || name == "root" || name == "0"
}
