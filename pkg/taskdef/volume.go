package taskdef

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef/doctree"
	"github.com/podtask/podtask/pkg/taskdef/refs"
)

// Volume is a volume that containers of the task may mount.
type Volume struct {
	Name string     `json:"name"`
	Kind VolumeKind `json:"kind"`
	// HostPath is the absolute path of a VolumeBind.
	HostPath string `json:"hostPath,omitempty"`
	// Autoprovision: a VolumeShared that is missing is made; else it must exist.
	Autoprovision bool `json:"autoprovision,omitempty"`
	// Driver is "local" or empty; DriverOpts and Labels are for a volume that is
	// made, VolumeTask or VolumeShared.
	Driver     string            `json:"driver,omitempty"`
	DriverOpts map[string]string `json:"driverOpts,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	// Relabel is the SELinux option of a VolumeBind (x-podtask): "shared" (z),
	// "private" (Z), or empty to leave labels as they are.
	Relabel string `json:"relabel,omitempty"`
	// Empty: a VolumeTask that all users of a container can write to and that does not
	// begin with what the image holds, as an emptyDir of Kubernetes.
	Empty bool `json:"empty,omitempty"`
	// SetGroup: new files in an Empty volume belong to the group of its directory, which DriverOpts sets.
	SetGroup bool `json:"setGroup,omitempty"`
	// Below is set for a VolumeBind that is a directory of a path of the host: that path.
	// HostPath then is made where it is missing, and must not lead out of it.
	Below string `json:"below,omitempty"`
	// Remote says in words what a VolumeRemote is, and Reference how a rule can match it
	// (refs.OfVolume).
	Remote    string `json:"remote,omitempty"`
	Reference string `json:"reference,omitempty"`
	// External is the engine's name of a VolumeShared that a rule stands in for another
	// volume; empty: Name.
	External string `json:"external,omitempty"`
}

// VolumeKind is the kind of place in which the data of a volume lies.
type VolumeKind string

// The kinds of volumes.
const (
	// VolumeBind is a path of the host (host.sourcePath, or what Settings.Refs say).
	VolumeBind VolumeKind = "bind"
	// VolumeTask is made for the task and removed with it.
	VolumeTask VolumeKind = "task"
	// VolumeShared is named by the engine as in the document and never removed.
	VolumeShared VolumeKind = "shared"
	// VolumeRemote lies where this host cannot mount it (EFS, FSx, EBS, S3 Files,
	// a plug-in). A task that has one is not complete: Report.Needs names it.
	VolumeRemote VolumeKind = "remote"
)

// Mount is a volume seen at a path of a container.
type Mount struct {
	Volume   string `json:"volume"`        // Name of one of Task.Volumes
	Path     string `json:"containerPath"` // absolute
	ReadOnly bool   `json:"readOnly,omitempty"`
}

// VolumesFrom takes over all mounts of another container.
type VolumesFrom struct {
	// Container is the index of the other container in Task.Containers.
	Container int  `json:"container"`
	ReadOnly  bool `json:"readOnly,omitempty"`
}

// Volume returns the volume with a name, and whether there is one.
func (t Task) Volume(name string) (Volume, bool) {
	i := slices.IndexFunc(t.Volumes, func(v Volume) bool { return v.Name == name })
	if i < 0 {
		return Volume{}, false
	}
	return t.Volumes[i], true
}

// Mounts returns all mounts of container i: its own, then those it takes over
// from others, and what these take over. Of two at one path the first counts.
// The task must be valid.
func (t Task) Mounts(i int) []Mount {
	mounts := slices.Clone(t.Containers[i].Mounts)
	for _, from := range t.Containers[i].VolumesFrom {
		for _, m := range t.Mounts(from.Container) {
			m.ReadOnly = m.ReadOnly || from.ReadOnly
			if !slices.ContainsFunc(mounts, func(o Mount) bool { return o.Path == m.Path }) {
				mounts = append(mounts, m)
			}
		}
	}
	return mounts
}

// The words of volumes that this host cannot mount, by the member that asks for
// them.
var remoteVolumes = []struct{ member, words string }{
	{"efsVolumeConfiguration", "an Amazon EFS file system"},
	{"fsxWindowsFileServerVolumeConfiguration", "an Amazon FSx file system"},
	{"s3filesVolumeConfiguration", "an Amazon S3 Files file system"},
}

func decodeVolumes(c cursor) []Volume {
	var volumes []Volume
	for _, item := range c.list(`write a list of {"name": ...}`) {
		item.want(doctree.Object, `write {"name": ...}`)
		volumes = append(volumes, decodeVolume(item))
	}
	return volumes
}

func decodeVolume(c cursor) Volume {
	v := Volume{Name: c.at("name").str(), Kind: VolumeTask}
	host, docker := c.at("host"), c.at("dockerVolumeConfiguration")
	given := 0
	if host.filled() {
		given++
		host.want(doctree.Object, `write {"sourcePath": "/path"} or {}`)
		if v.HostPath = host.at("sourcePath").str(); v.HostPath != "" {
			v.Kind = VolumeBind
		}
	}
	if docker.filled() {
		given++
		decodeDockerVolume(docker, &v)
	}
	for _, r := range remoteVolumes {
		if in := c.at(r.member); in.filled() {
			given++
			in.want(doctree.Object, "")
			v.Kind, v.Remote, v.Reference = VolumeRemote, r.words, remoteRef(c, r.member)
		}
	}
	if c.at("configuredAtLaunch").flag(false) {
		given++
		v.Kind, v.Remote, v.Reference = VolumeRemote, "an Amazon EBS volume that is made when the task is launched", "ebs:"+v.Name
	}
	if given > 1 {
		c.wrong("the volume is configured in more than one way", "keep one of host, dockerVolumeConfiguration and the others")
	}
	if _, named := c.p.settings.Refs.Find(v.ref()); v.Name != "" && (v.Kind == VolumeRemote || named) {
		if found, ok := lookUp(c, refs.Volume, v.ref()); ok {
			v = MappedVolume(v.Name, found.Source)
		}
	}
	v.Relabel = c.at(extensionMember).at("selinuxRelabel").str()
	c.at(extensionMember).want(doctree.Object, "")
	return v
}

func decodeDockerVolume(c cursor, v *Volume) {
	c.want(doctree.Object, "")
	switch scope := c.at("scope"); scope.str() {
	case "", "task":
		v.Kind = VolumeTask
	case "shared":
		v.Kind = VolumeShared
	default:
		scope.wrong("scope cannot be "+quote(scope.node.Text), "use task or shared")
	}
	v.Autoprovision = c.at("autoprovision").flag(false)
	v.Driver = c.at("driver").str()
	v.DriverOpts = c.at("driverOpts").texts()
	v.Labels = c.at("labels").texts()
	switch fs := v.DriverOpts["type"]; {
	case v.Driver != "" && v.Driver != "local":
		v.Kind, v.Remote, v.Reference = VolumeRemote, "a volume of the driver "+quote(v.Driver), "plugin:"+v.Driver+"/"+v.Name
	case slices.Contains([]string{"nfs", "nfs4", "cifs"}, fs):
		v.Kind, v.Remote, v.Reference = VolumeRemote, "a network file system ("+fs+")", networkRef(fs, v.DriverOpts)
	}
}

func decodeMounts(c cursor, t Task) []Mount {
	var mounts []Mount
	names := volumeNames(t)
	known := setOf(names)
	for _, item := range c.list(`write a list of {"sourceVolume": ..., "containerPath": ...}`) {
		item.want(doctree.Object, `write {"sourceVolume": ..., "containerPath": ...}`)
		source := item.at("sourceVolume")
		m := Mount{Volume: source.str(), Path: item.at("containerPath").str(), ReadOnly: item.at("readOnly").flag(false)}
		if at := slices.Index(names, m.Volume); at < 0 || t.Volumes[at].Kind != VolumeBind || !IsProc(t.Volumes[at].HostPath, m.Path) {
			checkProc(item.at("containerPath"), m.Path)
		}
		if !known[m.Volume] && m.Volume != "" && !source.failed() {
			source.wrong("no volume named "+quote(m.Volume), whichName(m.Volume, names, "the volumes are "))
		}
		mounts = append(mounts, m)
	}
	return mounts
}

// procFiles are the files of /proc that container runtimes let mounts replace, as LXCFS does
// (runc, checkProcMount).
var procFiles = strings.Fields("cpuinfo diskstats meminfo stat swaps uptime loadavg slabinfo net/dev sys/kernel/ns_last_pid sys/crypto/fips_enabled")

// HidesProc reports whether a mount at a path of a container would hide files of the kernel that the
// runtime and programs need: /proc, or what is in it.
func HidesProc(target string) bool {
	target = path.Clean(target)
	rest, below := strings.CutPrefix(target, "/proc/")
	return target == "/proc" || below && !slices.Contains(procFiles, rest)
}

// IsProc reports whether a mount shows the host's own /proc at /proc, which container runtimes let pass: programs that
// look at the processes of the host have it.
func IsProc(source, target string) bool {
	return path.Clean(source) == "/proc" && path.Clean(target) == "/proc"
}

// ProcFix is the advice about a mount that HidesProc refuses.
func ProcFix(target string) string { return "choose another path, such as /host" + path.Clean(target) }

// checkProc refuses a mount over /proc. It is part of reading a definition, not of Task.Check, because
// records of earlier versions may have one.
func checkProc(c cursor, target string) {
	if HidesProc(target) {
		c.wrong("a mount at "+quote(target)+" would hide files of the kernel", ProcFix(target))
	}
}

func setOf(words []string) map[string]bool {
	set := make(map[string]bool, len(words))
	for _, w := range words {
		set[w] = true
	}
	return set
}

func volumeNames(t Task) []string {
	var names []string
	for _, v := range t.Volumes {
		names = append(names, v.Name)
	}
	return names
}

func decodeVolumesFrom(c cursor, t Task) []VolumesFrom {
	var froms []VolumesFrom
	for _, item := range c.list(`write a list of {"sourceContainer": ...}`) {
		item.want(doctree.Object, `write {"sourceContainer": ...}`)
		froms = append(froms, VolumesFrom{Container: decodeContainerIndex(item.at("sourceContainer"), t), ReadOnly: item.at("readOnly").flag(false)})
	}
	return froms
}

func checkVolumes(r rules, t Task) {
	first := make(map[string]int)
	for i, v := range t.Volumes {
		in := r.in("volumes").item(i)
		in.in("name").require(v.Name != "", "give the volume a name", "name is missing")
		in.in("name").require(v.Name == "" || namePattern.MatchString(v.Name), nameRule, "volume name %s is not valid", quote(v.Name))
		if j, twice := first[v.Name]; twice && v.Name != "" {
			in.in("name").require(false, "rename one of them", "volume %d is named %s too", j, quote(v.Name))
		} else {
			first[v.Name] = i
		}
		checkVolume(in, v)
	}
}

func checkVolume(r rules, v Volume) {
	switch v.Kind {
	case VolumeBind:
		checkAbsolutePath(r.in("host").in("sourcePath"), "sourcePath", v.HostPath)
	case VolumeTask:
		r.in("dockerVolumeConfiguration").in("autoprovision").require(!v.Autoprovision, `set "scope": "shared", or leave autoprovision out`,
			"autoprovision is for shared volumes: one of the task is always made")
	case VolumeShared:
	case VolumeRemote:
		needRule(r, "--map-volume "+v.Name+"=PATH", refs.Volume, v.ref().Name(), fmt.Sprintf("the volume %s is %s, which cannot be mounted here", quote(v.Name), v.Remote))
	default:
		r.require(false, "", "the volume has no kind")
	}
	if v.Relabel != "" {
		in := r.in(extensionMember)
		in.word("selinuxRelabel", v.Relabel, "shared", "private")
		in.in("selinuxRelabel").require(v.Kind == VolumeBind, "leave it out", "only a path of the host can be relabelled")
	}
}

// checkAbsolutePath reports a path inside a container or of the host that is not
// clean and absolute.
func checkAbsolutePath(r rules, what, p string) {
	r.require(p != "", "", "%s is missing", what)
	r.require(p == "" || strings.HasPrefix(p, "/"), "start it with /", "%s %s is not an absolute path", what, quote(p))
	r.require(!slices.Contains(strings.Split(p, "/"), ".."), "write the path without ..", "%s %s goes up with \"..\"", what, quote(p))
}

func checkMounts(r rules, t Task, c Container) {
	seen := make(map[string]bool)
	known := setOf(volumeNames(t))
	for i, m := range c.Mounts {
		in := r.in("mountPoints").item(i)
		in.in("sourceVolume").require(m.Volume != "", "name one of the volumes", "sourceVolume is missing")
		in.in("sourceVolume").require(known[m.Volume] || m.Volume == "", "", "no volume named %s", quote(m.Volume))
		checkMountPath(in, m.Path, seen)
	}
	for i, tmp := range c.Linux.Tmpfs {
		checkMountPath(r.in("linuxParameters").in("tmpfs").item(i), tmp.Path, seen)
	}
	for i, f := range c.VolumesFrom {
		in := r.in("volumesFrom").item(i).in("sourceContainer")
		if f.Container < 0 || f.Container >= len(t.Containers) {
			in.require(false, "name the container whose volumes to mount", "sourceContainer is missing")
			continue
		}
		from := t.Containers[f.Container].Name
		in.require(from != c.Name, "remove it", "container %s takes volumes from itself", quote(c.Name))
		twice := slices.ContainsFunc(c.VolumesFrom[:i], func(o VolumesFrom) bool { return o.Container == f.Container })
		in.require(!twice, "keep one of them", "the volumes of container %s are taken twice", quote(from))
	}
}

// checkVolumeCircle reports containers that take volumes from each other: none could
// be made first.
func checkVolumeCircle(r rules, t Task) {
	edges := make([][]int, len(t.Containers))
	for i, c := range t.Containers {
		for _, f := range c.VolumesFrom {
			if f.Container >= 0 && f.Container < len(t.Containers) && f.Container != i {
				edges[i] = append(edges[i], f.Container)
			}
		}
	}
	_, remain := layers(edges)
	if len(remain) == 0 {
		return
	}
	var names []string
	cycle := walk(edges, remain)
	for _, i := range append(cycle, cycle[0]) {
		names = append(names, printable(t.Containers[i].Name))
	}
	r.in("containerDefinitions").item(cycle[0]).in("volumesFrom").require(false, "remove one of them",
		"containers take volumes from each other in a circle: %s", strings.Join(names, " -> "))
}

func checkMountPath(r rules, p string, seen map[string]bool) {
	in := r.in("containerPath")
	checkAbsolutePath(in, "containerPath", p)
	clean := path.Clean(p)
	in.require(p == "" || clean != "/", "choose a path below it", "the root of the container cannot be a mount")
	in.require(p == "" || !seen[clean], "choose another path", "something else is mounted at %s", quote(p))
	seen[clean] = true
}
