package taskdef

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef/doctree"
	"github.com/podtask/podtask/pkg/taskdef/suggest"
)

// Linux holds the kernel settings of a container (linuxParameters, ulimits, systemControls).
type Linux struct {
	// CapAdd and CapDrop change Docker's default set. They are in upper case
	// without CAP_; "ALL" stands for every one. Rootless they count inside the
	// user namespace only.
	CapAdd  []string `json:"capAdd,omitempty"`
	CapDrop []string `json:"capDrop,omitempty"`
	Devices []Device `json:"devices,omitempty"`
	// GPUs counts the GPUs of the host that the container has for itself.
	GPUs  int     `json:"gpus,omitempty"`
	Tmpfs []Tmpfs `json:"tmpfs,omitempty"`
	// ShmSize is the size of /dev/shm in bytes; 0 means the engine's default.
	ShmSize int64 `json:"shmSize,omitempty"`
	// MaxSwap is the swap in bytes that the container may use besides its memory; 0
	// means none, nil the host's own setting.
	MaxSwap *int64 `json:"maxSwap,omitempty"`
	// Sysctls are namespaced kernel parameters by name. Those of net.* hold for
	// the whole task where its containers share a network namespace.
	Sysctls map[string]string `json:"sysctls,omitempty"`
	Ulimits []Ulimit          `json:"ulimits,omitempty"`
}

// Device is a device of the host that a container sees.
type Device struct {
	HostPath      string `json:"hostPath"`      // absolute
	ContainerPath string `json:"containerPath"` // absolute; HostPath where the document has none
	// Permissions are "read", "write" and "mknod"; never empty.
	Permissions []string `json:"permissions"`
}

// Tmpfs is a file system in memory.
type Tmpfs struct {
	Path    string   `json:"containerPath"` // absolute
	Size    int64    `json:"size"`          // bytes, at least 1 MiB
	Options []string `json:"options,omitempty"`
}

// Ulimit is a resource limit of the processes of a container; -1 means no limit.
type Ulimit struct {
	Name string `json:"name"` // as in "nofile"
	Soft int64  `json:"soft"`
	Hard int64  `json:"hard"`
}

// Security is the confinement of a container (dockerSecurityOptions).
type Security struct {
	NoNewPrivileges bool `json:"noNewPrivileges,omitempty"`
	// Labels are SELinux options as in "type:svirt_lxc_net_t", without "label:".
	Labels []string `json:"labels,omitempty"`
	// Unconfined: without an AppArmor profile.
	Unconfined bool `json:"apparmorUnconfined,omitempty"`
}

func decodeLinux(c cursor) Linux {
	in := c.at("linuxParameters")
	in.want(doctree.Object, "")
	caps := in.at("capabilities")
	caps.want(doctree.Object, `write {"add": [...], "drop": [...]}`)
	l := Linux{
		CapAdd:  decodeCapabilities(caps.at("add")),
		CapDrop: decodeCapabilities(caps.at("drop")),
		Devices: decodeDevices(in.at("devices")),
		GPUs:    decodeGPUs(c.at("resourceRequirements"), 0),
		Tmpfs:   decodeTmpfs(in.at("tmpfs")),
		ShmSize: in.at("sharedMemorySize").integer(0, 0) * mib,
		Sysctls: decodeSysctls(c.at("systemControls")),
		Ulimits: decodeUlimits(c.at("ulimits")),
	}
	const absent = -1
	if swap := in.at("maxSwap").integer(0, absent); swap != absent {
		swap *= mib
		l.MaxSwap = &swap
	}
	return l
}

// decodeCapabilities takes the names as people write them too: in lower case, with
// CAP_ before them.
func decodeCapabilities(c cursor) []string {
	names := c.strs()
	for i, n := range names {
		names[i] = strings.TrimPrefix(strings.ToUpper(n), "CAP_")
	}
	return names
}

func decodeDevices(c cursor) []Device {
	var devices []Device
	for _, item := range c.list(`write a list of {"hostPath": ...}`) {
		item.want(doctree.Object, `write {"hostPath": ...}`)
		d := Device{
			HostPath:      item.at("hostPath").str(),
			ContainerPath: item.at("containerPath").str(),
			Permissions:   item.at("permissions").strs(),
		}
		if d.ContainerPath == "" {
			d.ContainerPath = d.HostPath
		}
		if d.Permissions == nil {
			d.Permissions = slices.Clone(devicePermissions)
		}
		devices = append(devices, d)
	}
	return devices
}

// maxGPUs bounds what a container may ask for, as no host has more.
const maxGPUs = 64

// decodeGPUs decodes how many GPUs a container needs; unset is for a document that does not say
// so.
func decodeGPUs(c cursor, unset int) int {
	const fix = `write a list of {"type": "GPU", "value": "1"}`
	gpus, given := unset, false
	for _, item := range c.list(fix) {
		if !item.want(doctree.Object, fix) {
			continue
		}
		kind, value := item.at("type"), item.at("value")
		switch decodeOneOf(kind, "GPU", "InferenceAccelerator") {
		case "InferenceAccelerator":
			c.p.warnings = append(c.p.warnings, c.p.problem(kind.ptr, kind.node.Line, kind.node.Col, "the container gets no accelerator", ""))
			continue
		case "":
			if !kind.failed() {
				item.wrong("type is missing", `write "type": "GPU"`)
			}
		case "GPU":
			if given {
				kind.wrong("the container has two entries of type GPU", "write one, with the sum")
			} else if !value.filled() {
				item.wrong("value is missing", "write the number of GPUs")
			}
			given = true
		}
		if n := value.integer(1, int64(unset)); n > maxGPUs {
			value.wrong(fmt.Sprintf("%d GPUs are more than any host has", n), "")
		} else {
			gpus = int(n)
		}
	}
	return gpus
}

func decodeTmpfs(c cursor) []Tmpfs {
	var all []Tmpfs
	for _, item := range c.list(`write a list of {"containerPath": ..., "size": MiB}`) {
		item.want(doctree.Object, `write {"containerPath": ..., "size": MiB}`)
		checkProc(item.at("containerPath"), item.at("containerPath").str())
		all = append(all, Tmpfs{
			Path:    item.at("containerPath").str(),
			Size:    item.at("size").integer(1, 0) * mib,
			Options: item.at("mountOptions").strs(),
		})
	}
	return all
}

func decodeSysctls(c cursor) map[string]string {
	var sysctls map[string]string
	for _, item := range c.list(`write a list of {"namespace": ..., "value": ...}`) {
		if !item.want(doctree.Object, `write {"namespace": ..., "value": ...}`) {
			continue
		}
		name, value := item.at("namespace"), item.at("value").str()
		key := name.str()
		if name.failed() {
			continue
		}
		if key == "" {
			item.wrong("namespace is missing", `name the kernel parameter, as in "net.core.somaxconn"`)
			continue
		}
		if _, twice := sysctls[key]; twice {
			name.wrong("the kernel parameter "+quote(key)+" is set twice", "keep one of them")
			continue
		}
		if sysctls == nil {
			sysctls = make(map[string]string)
		}
		sysctls[key] = value
	}
	return sysctls
}

func decodeUlimits(c cursor) []Ulimit {
	var limits []Ulimit
	for _, item := range c.list(`write a list of {"name": ..., "softLimit": ..., "hardLimit": ...}`) {
		item.want(doctree.Object, `write {"name": ..., "softLimit": ..., "hardLimit": ...}`)
		for _, key := range []string{"softLimit", "hardLimit"} {
			if item.node.Kind == doctree.Object && !item.at(key).present() {
				item.wrong(key+" is missing", "write both limits; -1 means none")
			}
		}
		limits = append(limits, Ulimit{
			Name: item.at("name").str(),
			Soft: item.at("softLimit").integer(-1, 0),
			Hard: item.at("hardLimit").integer(-1, 0),
		})
	}
	return limits
}

func decodeSecurity(c cursor) Security {
	var s Security
	for _, item := range c.list(`write a list, as in ["no-new-privileges"]`) {
		option := item.str()
		name, value, _ := strings.Cut(strings.Replace(option, "=", ":", 1), ":")
		switch {
		case item.failed() || option == "":
		case name == "no-new-privileges" && (value == "" || value == "true"):
			s.NoNewPrivileges = true
		case name == "no-new-privileges" && value == "false":
		case name == "label" && value != "":
			s.Labels = append(s.Labels, value)
		case name == "apparmor" && value == "unconfined":
			s.Unconfined = true
		case name == "apparmor":
			item.wrong("a rootless container cannot be given an AppArmor profile, so it would be less confined than it asks for", "if the task can do without, remove it or give --without dockerSecurityOptions.apparmor")
		case name == "credentialspec":
			item.wrong("the container would start without its Active Directory account", "if the task can do without, remove it or give --without dockerSecurityOptions.credentialspec")
		default:
			item.wrong("no security option "+quote(name), cmp.Or(suggest.Question(name, securityOptions), "use no-new-privileges or label:VALUE"))
		}
	}
	return s
}

func checkLinux(r rules, t Task, c Container) {
	in := r.in("linuxParameters")
	caps := in.in("capabilities")
	caps.words("add", c.Linux.CapAdd, capabilities)
	caps.words("drop", c.Linux.CapDrop, capabilities)
	for i, d := range c.Linux.Devices {
		at := in.in("devices").item(i)
		checkAbsolutePath(at.in("hostPath"), "hostPath", d.HostPath)
		at.in("containerPath").require(d.ContainerPath == d.HostPath || strings.HasPrefix(d.ContainerPath, "/"), "start it with /", "containerPath %s is not an absolute path", quote(d.ContainerPath))
		at.in("permissions").require(len(d.Permissions) > 0, "", "permissions are missing")
		at.words("permissions", d.Permissions, devicePermissions)
	}
	for i, m := range c.Linux.Tmpfs {
		at := in.in("tmpfs").item(i)
		at.in("size").require(m.Size >= mib, "write MiB", "size is missing")
		for j, o := range m.Options {
			name, _, _ := strings.Cut(o, "=")
			at.in("mountOptions").item(j).require(slices.Contains(tmpfsOptions, name), suggest.Question(name, tmpfsOptions), "no mount option %s", quote(name))
		}
	}
	in.in("sharedMemorySize").require(c.Linux.ShmSize >= 0, "", "sharedMemorySize is negative")
	if c.Linux.MaxSwap != nil {
		in.in("maxSwap").require(*c.Linux.MaxSwap >= 0, "", "maxSwap is negative")
		in.in("maxSwap").require(c.Memory > 0, "give the container a memory limit", "maxSwap counts from memory, and the container has none")
	}
	checkUlimits(r, c.Linux.Ulimits)
	checkSysctls(r, t, c.Linux.Sysctls)
	for i, l := range c.Security.Labels {
		r.in("dockerSecurityOptions").item(i).require(l != "", "", "the label is empty")
	}
	if c.Privileged {
		r.in("privileged").warn("", "a rootless container gets at most what the user has: no access to devices or settings that are root's")
	}
}

func checkUlimits(r rules, limits []Ulimit) {
	seen := make(map[string]bool)
	for i, l := range limits {
		in := r.in("ulimits").item(i)
		in.word("name", l.Name, ulimitNames...)
		in.in("name").require(!seen[l.Name], "keep one of them", "the limit %s is set twice", quote(l.Name))
		seen[l.Name] = true
		in.in("softLimit").require(l.Soft >= -1 && l.Hard >= -1, "", "a limit is negative; -1 means none")
		in.in("softLimit").require(l.Hard == -1 || l.Soft != -1 && l.Soft <= l.Hard, "lower softLimit or raise hardLimit",
			"softLimit (%d) is above hardLimit (%d)", l.Soft, l.Hard)
	}
}

// checkSysctls holds kernel parameters against the namespaces that the container
// has.
func checkSysctls(r rules, t Task, sysctls map[string]string) {
	in := r.in("systemControls")
	for _, name := range slices.Sorted(maps.Keys(sysctls)) {
		net, ipc := strings.HasPrefix(name, "net."), isIPCSysctl(name)
		in.require(net || ipc, "use those of net. and fs.mqueue., kernel.msg*, kernel.sem, kernel.shm*", "the kernel parameter %s is not namespaced, so it would be the host's", quote(name))
		in.require(!net || t.Network != NetworkHost, "remove it, or use another networkMode", "%s would change the network of the host, which the task uses", quote(name))
		in.require(!ipc || t.IPCMode != IPCHost, "remove it, or use another ipcMode", "%s would change the IPC namespace of the host, which the task uses", quote(name))
	}
}

func isIPCSysctl(name string) bool {
	return strings.HasPrefix(name, "fs.mqueue.") || slices.Contains(ipcSysctls, name)
}

// checkSharedSysctls reports parameters of a shared namespace on which two
// containers differ: the last to start would win.
func checkSharedSysctls(r rules, t Task) {
	first := make(map[string]int)
	for i, c := range t.Containers {
		for _, name := range slices.Sorted(maps.Keys(c.Linux.Sysctls)) {
			shared := strings.HasPrefix(name, "net.") && !c.Net.Disabled && !t.Bridged() || isIPCSysctl(name) && t.IPCMode == IPCTask
			if !shared {
				continue
			}
			j, known := first[name]
			if !known {
				first[name] = i
				continue
			}
			r.in("containerDefinitions").item(i).in("systemControls").require(t.Containers[j].Linux.Sysctls[name] == c.Linux.Sysctls[name], "give both the same value",
				"%s is another value in container %s, and the containers share the namespace", quote(name), quote(t.Containers[j].Name))
		}
	}
}

// words reports items that are none of the candidates.
func (r rules) words(key string, values, candidates []string) {
	for i, v := range values {
		r.in(key).item(i).require(slices.Contains(candidates, v), suggest.Question(v, candidates), "%s cannot be %s", key, quote(v))
	}
}

// The words of the ECS model.
var (
	devicePermissions = []string{"read", "write", "mknod"}
	securityOptions   = []string{"no-new-privileges", "label", "apparmor", "credentialspec"}
	ulimitNames       = strings.Fields("core cpu data fsize locks memlock msgqueue nice nofile nproc rss rtprio rttime sigpending stack")
	ipcSysctls        = strings.Fields("kernel.msgmax kernel.msgmnb kernel.msgmni kernel.sem kernel.shmall kernel.shmmax kernel.shmmni kernel.shm_rmid_forced")
	tmpfsOptions      = strings.Fields(`defaults ro rw suid nosuid dev nodev exec noexec sync async dirsync remount mand nomand atime noatime diratime
		nodiratime bind rbind unbindable runbindable private rprivate shared rshared slave rslave relatime norelatime strictatime nostrictatime
		mode uid gid nr_inodes nr_blocks mpol`)
	capabilities = strings.Fields(`ALL AUDIT_CONTROL AUDIT_WRITE BLOCK_SUSPEND CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID IPC_LOCK IPC_OWNER
		KILL LEASE LINUX_IMMUTABLE MAC_ADMIN MAC_OVERRIDE MKNOD NET_ADMIN NET_BIND_SERVICE NET_BROADCAST NET_RAW SETFCAP SETGID SETPCAP SETUID SYS_ADMIN
		SYS_BOOT SYS_CHROOT SYS_MODULE SYS_NICE SYS_PACCT SYS_PTRACE SYS_RAWIO SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG SYSLOG WAKE_ALARM
		AUDIT_READ BPF CHECKPOINT_RESTORE PERFMON`)
)

// decodeFileMode decodes permissions: octal text as in "0440", or a number that is
// written like it.
func decodeFileMode(c cursor, unset uint32) uint32 {
	if !c.present() || c.held() {
		return unset
	}
	var mode uint32
	s := strings.TrimPrefix(c.node.Text, "0o")
	if _, err := fmt.Sscanf(s, "%o", &mode); err != nil || len(s) > 4 || strings.Trim(s, "01234567") != "" || c.node.Kind != doctree.Text && c.node.Kind != doctree.Number {
		c.wrong("this is not a file mode", `write it in octal, as in "0440"`)
		return unset
	}
	return mode
}
