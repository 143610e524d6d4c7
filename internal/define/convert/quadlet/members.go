package quadlet

import (
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/define/members"
)

// quadletSchema is the version of Podman whose keys the rows are about.
const quadletSchema = "Podman v5.8.6 and v6.0.2, pkg/systemd/quadlet"

const (
	userNamespace = "the containers of a task are in the user namespace of rootless Podman"
	byOrder       = "addresses follow from the order of the containers"
	noPodman      = "podtask does not run podman"
	ofContainers  = "write it in [Container] of each container"
	ownChecks     = "podtask keeps the results of checks itself: `podtask inspect` shows them"
	startPeriod   = "write HealthStartPeriod= for the time that the program needs to start"
	ownPull       = "podtask tries a failed pull again by itself"
	volumeBefore  = "Podman makes the volume with its defaults: `podman volume create` with these options makes it before the task starts"
	pulledAs      = "the image is pulled with the logins and settings of the user: `podman pull` with these options pulls it before the task starts"
	networkFile   = "a network is not made by a task: `podman network create NAME` makes it once, and Network=NAME joins it"
	kubeFile      = "podtask runs the manifest of Yaml= as it is: `podtask import FILE.yaml` makes a unit for it"
	buildFile     = "podtask builds no images: `podman build -t NAME` builds it, and Image=NAME runs it"
	artifactFile  = "a task mounts no artifacts: `podman artifact pull NAME` and `podman artifact extract NAME DIRECTORY` write its files, and Volume=DIRECTORY:PATH mounts them"
	ofService     = "the service of a .task unit is that of podtask: write the key into [Service] of the .task file if it is to have it"
)

// quadletHonored are the keys of each section that have their effect.
var quadletHonored = map[string]string{
	"Container": "AddCapability AddDevice AddHost AutoUpdate ContainerName DNS DNSSearch DropCapability Entrypoint Environment EnvironmentFile Exec Group HealthCmd HealthInterval HealthOnFailure HealthRetries HealthStartPeriod HealthTimeout HostName Image Label LogDriver LogOpt Memory Mount Network NoNewPrivileges Notify PidsLimit Pod PublishPort Pull ReadOnly ReadOnlyTmpfs RunInit Secret SecurityLabelDisable SecurityLabelFileType SecurityLabelLevel SecurityLabelType ShmSize StopSignal StopTimeout Sysctl Tmpfs Ulimit User Volume WorkingDir",
	"Pod":       "AddHost DNS DNSSearch HostName Network PodName PublishPort StopTimeout Volume",
	"Volume":    "Device Driver GID Group Label Options Type UID User VolumeName",
	"Image":     "Image",
	"Service":   "Environment Restart RestartSec TimeoutStartSec Type " + strings.Join(serviceCopied, " "),
	"Install":   "Alias RequiredBy UpheldBy WantedBy",
}

// quadletReasons say why keys have no counterpart, or what to do instead, by section.
var quadletReasons = map[string]map[string]string{
	"Container": {
		"AppArmor":   "rootless Podman gives no container an AppArmor profile",
		"Annotation": "a container has no annotations of its own: write Label=", "CgroupsMode": "the containers of a task are in the slice of the task",
		"ContainersConfModule": noPodman, "DNSOption": "the options of the resolver are those of the host", "EnvironmentHost": "a container gets no variables of the host: write Environment= for those that it needs",
		"ExposeHostPort": "write PublishPort=", "GIDMap": userNamespace, "GlobalArgs": noPodman + "; its own options are GlobalArgs= of [Task]",
		"GroupAdd": "a definition gives a container one group: write it in Group=, and give files of other groups to it with `podman unshare chgrp`", "HealthLogDestination": ownChecks, "HealthMaxLogCount": ownChecks, "HealthMaxLogSize": ownChecks,
		"HealthStartupCmd": startPeriod, "HealthStartupInterval": startPeriod, "HealthStartupRetries": startPeriod, "HealthStartupSuccess": startPeriod, "HealthStartupTimeout": startPeriod,
		"HttpProxy": "a container gets no variables of the host, so none of a proxy: write Environment= for those that it needs",
		"IP":        byOrder, "IP6": byOrder, "Mask": "a container sees of /proc and /sys what Podman shows by default",
		"NetworkAlias": "the other containers know it by its name", "PodmanArgs": noPodman + ": write the keys that say the same, where there are some",
		"ReloadCmd": "a task has no reload: `podtask exec` runs the command", "ReloadSignal": "a task has no reload: `podtask kill --signal` sends it",
		"RemapGid": userNamespace, "RemapUid": userNamespace, "RemapUidSize": userNamespace, "RemapUsers": userNamespace, "Retry": ownPull, "RetryDelay": ownPull,
		"Rootfs": "a task runs images", "SeccompProfile": "a task has the profile of containers.conf", "SecurityLabelNested": "a container cannot label files for containers inside of it",
		"ServiceName": "podtask makes the name of the service from that of the unit", "StartWithPod": "all containers of a task start with it",
		"SubGIDMap": userNamespace, "SubUIDMap": userNamespace,
		"Timezone": "write Environment=TZ=", "UIDMap": userNamespace, "Unmask": "a container sees of /proc and /sys what Podman shows by default",
		"UserNS": userNamespace + "; run as another user with User=, and give files to it with `podman unshare chown`", "VolatileTmp": "write Tmpfs=/tmp",
	},
	"Pod": {
		"ContainersConfModule": noPodman, "DNSOption": "the options of the resolver are those of the host", "ExitPolicy": "a task ends with its containers", "GIDMap": userNamespace,
		"GlobalArgs": noPodman + "; its own options are GlobalArgs= of [Task]", "IP": byOrder, "IP6": byOrder, "Label": ofContainers, "NetworkAlias": "other tasks know a service by its name", "PodmanArgs": noPodman + ": write the keys that say the same, where there are some",
		"RemapGid": userNamespace, "RemapUid": userNamespace, "RemapUidSize": userNamespace, "RemapUsers": userNamespace,
		"ServiceName": "podtask makes the name of the service from that of the unit", "ShmSize": ofContainers, "SubGIDMap": userNamespace, "SubUIDMap": userNamespace, "UIDMap": userNamespace,
		"UserNS": userNamespace + "; run as another user with User=, and give files to it with `podman unshare chown`",
	},
	"Service": {
		"EnvironmentFile": "the variables of the service are not known here: write Environment=NAME=VALUE into [Service] for those that ${NAME} stands for",
		"TimeoutStopSec":  "podtask asks systemd for the time that the containers need: write StopTimeout=",
	},
	"Quadlet": {"DefaultDependencies": "the service of a .task unit does not wait for the network: write After= and Wants= in [Unit]"},
}

// quadletWhole are the sections whose other keys share a reason, with what becomes of them.
var quadletWhole = []struct {
	section, keys, reason string
	treatment             members.Treatment
}{
	{"Volume", "ContainersConfModule Copy GlobalArgs Image PodmanArgs ServiceName", volumeBefore, members.Lost},
	{"Network", "ContainersConfModule DNS DisableDNS Driver Gateway GlobalArgs IPAMDriver IPRange IPv6 InterfaceName Internal Label NetworkDeleteOnStop NetworkName Options PodmanArgs ServiceName Subnet", networkFile, members.Refused},
	{"Kube", "AutoUpdate ConfigMap ContainersConfModule ExitCodePropagation GlobalArgs KubeDownForce LogDriver LogOpt Network PodmanArgs PublishPort RemapGid RemapUid RemapUidSize RemapUsers ServiceName SetWorkingDirectory UserNS Yaml", kubeFile, members.Refused},
	{"Image", "AllTags Arch AuthFile CertDir ContainersConfModule Creds DecryptionKey GlobalArgs ImageTag OS PodmanArgs Policy Retry RetryDelay ServiceName TLSVerify Variant", pulledAs, members.Lost},
	{"Build", "Annotation Arch AuthFile BuildArg ContainersConfModule DNS DNSOption DNSSearch Environment File ForceRM GlobalArgs GroupAdd IgnoreFile ImageTag Label Network PodmanArgs Pull Retry RetryDelay Secret ServiceName SetWorkingDirectory TLSVerify Target Variant Volume", buildFile, members.Refused},
	{"Artifact", "Artifact AuthFile CertDir ContainersConfModule Creds DecryptionKey GlobalArgs PodmanArgs Quiet Retry RetryDelay ServiceName TLSVerify", artifactFile, members.Refused},
}

// Members is what becomes of the keys of Quadlet's files.
func Members() members.Format {
	f := members.Format{Name: "quadlet", Title: "Quadlet files", Schema: quadletSchema}
	for section, keys := range quadletHonored {
		for _, key := range strings.Fields(keys) {
			f.Rows = append(f.Rows, members.Row{Member: section + "." + key})
		}
	}
	for section, reasons := range quadletReasons {
		for key, reason := range reasons {
			f.Rows = append(f.Rows, members.Row{Member: section + "." + key, Treatment: members.Lost, Note: reason})
		}
	}
	for _, w := range quadletWhole {
		for _, key := range strings.Fields(w.keys) {
			f.Rows = append(f.Rows, members.Row{Member: w.section + "." + key, Treatment: w.treatment, Note: w.reason})
		}
	}
	slices.SortFunc(f.Rows, func(a, b members.Row) int { return strings.Compare(a.Member, b.Member) })
	return f
}

// quadletReason explains why a key has no counterpart; empty where no row says.
func quadletReason(section, key string) string {
	if section == "Volume" {
		return volumeBefore // of honored keys, too: only some values are
	}
	if reason := quadletReasons[section][key]; reason != "" {
		return reason
	}
	if section == "Service" {
		return ofService
	}
	for _, w := range quadletWhole {
		if w.section == section && slices.Contains(strings.Fields(w.keys), key) {
			return w.reason
		}
	}
	return ""
}

// Instead says what to do with a file of Quadlet that is not imported, by its extension with the dot; empty for others.
func Instead(ext string) string {
	return map[string]string{".kube": kubeFile, ".network": networkFile, ".build": buildFile, ".artifact": artifactFile,
		".volume": "a volume is made when a task first uses it; import the .container or .pod file that names it, and its VolumeName= is used",
		".image":  "import the .container file that names it, and its Image= is used"}[ext]
}
