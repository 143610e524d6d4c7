package export

import (
	"reflect"
	"strings"

	"github.com/podtask/podtask/internal/define/members"
	"github.com/podtask/podtask/pkg/taskdef"
)

// answer is the treatment of a member by a target. A note of an honored member says which values are told apart.
type answer struct {
	treatment members.Treatment
	note      string
	remedy    string
}

// row has the answers to one member of a task. It covers everything below it that has no row of its own.
type row struct {
	// member is its path in the type taskdef.Task, in the words of its JSON; name is the one of a task definition.
	member, name string
	quadlet      answer
	compose      answer
	kubernetes   answer
}

func (r row) of(t Target) answer {
	return map[Target]answer{Quadlet: r.quadlet, Compose: r.compose, Kubernetes: r.kubernetes}[t]
}

var (
	yes = answer{}
	// here: it says something about this host or this record, and nothing that another tool could do.
	here = answer{treatment: members.NoMeaning, note: "it is about the record on this host"}
)

func lost(note, remedy string) answer { return answer{members.Lost, note, remedy} }
func but(note string) answer          { return answer{note: note} }
func none(note string) answer         { return answer{treatment: members.NoMeaning, note: note} }

// all is the same answer of all targets.
func all(member, name string, a answer) row { return row{member, name, a, a, a} }

const perContainer = "containers."

// rows are the answers to all members of a task.
var rows = []row{
	{"family", "family", yes, yes, but("in lower-case letters, digits and dashes")},
	all("revision", "revision", here),
	{"networkMode", "networkMode", but("containers share one network"), but("containers with awsvpc share the network of the first one"), lost("a Pod has one network, that of the cluster or of the host", "")},
	all("published", "", here),
	{"cpu", "cpu", yes, lost("Compose has no limit of all containers together", "write cpus for each container"), lost("Podman, and clusters before 1.34, have no limit of a whole Pod", "write limits for each container")},
	{"memory", "memory", yes, lost("Compose has no limit of all containers together", "write mem_limit for each container"), lost("Podman, and clusters before 1.34, have no limit of a whole Pod", "write limits for each container")},
	all("ephemeralStorage", "ephemeralStorage", none("nothing is set aside here either")),
	{"pidMode", "pidMode", lost("the containers see only their own processes, unless it is host", ""), lost("the containers see only their own processes, unless it is host", "write pid: service:NAME"), yes},
	{"ipcMode", "ipcMode", lost("containers of a pod share their memory, unless it is host", ""), lost("the containers share no memory, unless it is host", "write ipc: service:NAME"), lost("containers of a Pod share their memory, unless it is host", "")},
	all("enableFaultInjection", "enableFaultInjection", lost("podtask fault disturbs the network of tasks only", "")),
	all("platform.os", "runtimePlatform.operatingSystemFamily", none("all containers are those of Linux")),
	{"platform.architecture", "runtimePlatform.cpuArchitecture", yes, yes, but("as a selector of nodes, which podman kube play leaves out")},
	{"volumes.name", "volumes[].name", yes, yes, but("in lower-case letters, digits and dashes")},
	{"volumes.kind", "volumes[]", but("the volume of a task stays"), but("the volume of a task stays"), but("a volume that stays is a claim, which begins empty in a cluster")},
	all("volumes.hostPath", "volumes[].host.sourcePath", yes),
	{"volumes.autoprovision", "volumes[].dockerVolumeConfiguration.autoprovision", none("Podman makes each volume that is missing"), yes, none("the claim is made with the Pod")},
	{"volumes.driver", "volumes[].dockerVolumeConfiguration.driver", none("it is local"), yes, none("it is local")},
	{"volumes.driverOpts", "volumes[].dockerVolumeConfiguration.driverOpts", but("type, device and o"), yes, lost("a claim has no options of Podman", "write a PersistentVolume")},
	{"volumes.labels", "volumes[].dockerVolumeConfiguration.labels", yes, yes, lost("labels of a volume of Podman", "")},
	{"volumes.relabel", "volumes[].x-podtask.selinuxRelabel", yes, yes, lost("a Pod relabels no path of the host", "`chcon` labels it, or the annotation bind-mount-options of Podman")},
	{"volumes.empty", "emptyDir", lost("the volume begins with the files of the image, and belongs to their owner", ""), lost("the volume begins with the files of the image, and belongs to their owner", ""), yes},
	all("volumes.setGroup", "securityContext.fsGroup", lost("new files belong to the group of who makes them", "")),
	all("volumes.below", "volumeMounts[].subPath", lost("the directory is not made, and may lead out of its path", "make it before the start")),
	all("volumes.remote", "volumes[]", lost("the volume lies on AWS, and is not written", "give a path with --map-volume NAME=PATH")),
	all("volumes.reference", "", none("it is part of that volume")),
	all("volumes.external", "", but("as the name of the volume")),
	all("identity.taskRoleArn", "taskRoleArn", lost("credentials of roles are given by podtask", "give the containers credentials of their own")),
	all("identity.taskRoleSource", "", none("it is part of the role")),
	all("identity.executionRoleArn", "executionRoleArn", none("it pulls images and sends logs for podtask only")),
	all("identity.executionRoleSource", "", none("it is part of the role")),
	all("identity.tags", "tags", lost("tags of a task are known to podtask and AWS", "")),
	{"extensions.stopWhenUnhealthy", "x-podtask.stopWhenUnhealthy", but("an unhealthy container is killed"), lost("an unhealthy container runs on", ""), lost("an unhealthy container runs on", "write a livenessProbe")},
	all("extensions.watchDependencies", "x-podtask.watchDependencies", lost("a container runs on when one that it waited for ends or turns unhealthy", "")),
	{"extensions.network", "x-podtask.network", yes, but("a program that connects the task is lost"), none("the cluster has its own network")},
	{"extensions.pull", "", yes, yes, yes},
	all("extensions.pod", "", but("Kubernetes gets the manifest that the task was made from")),
	all("extensions.untilLast", "restartPolicy", none("that is so there anyway")),
	all("extensions.failAtOnce", "restartPolicy", none("that is so there anyway")),
	{"extensions.deadline", "x-podtask.timeout", lost("a unit has no end", "write RuntimeMaxSec= in [Service]"), lost("Compose has no deadline", "`timeout` ends a command"), yes},
	all("extensions.minimumAge", "x-podtask.minimumAge", lost("images are pulled on their first day", "write the digest of the image")),
	all("extensions.namespace", "x-podtask.namespace", lost("the names of the services of podtask are not known there", "write the addresses of the services")),
	all("extensions.ingress", "x-podtask.ingress", lost("public addresses are those of podtask's ingress", "write a rule of the proxy or the Ingress there")),
	all("extensions.sleepAfter", "x-podtask.sleepAfter", lost("the copies do not sleep", "")),
	all("extensions.requests", "", lost("nothing is reserved", "")),

	{"containers.name", "name", but("with the name of the pod before it"), yes, but("in lower-case letters, digits and dashes")},
	all("containers.image", "image", but("with its registry")),
	{"containers.entryPoint", "entryPoint", yes, yes, yes},
	{"containers.command", "command", yes, yes, yes},
	all("containers.repositoryCredentials", "repositoryCredentials", lost("a login at the registry is not written", "log in there: `podman login`, or an imagePullSecret")),
	all("containers.unpinned", "versionConsistency", none("images are pulled by their tags there")),
	all("containers.environment", "environment", yes),
	{"containers.environmentFiles", "environmentFiles", yes, yes, lost("a Pod reads no file of variables", "`kubectl create configmap NAME --from-env-file=FILE`, and envFrom")},
	all("containers.environmentFiles.source", "environmentFiles", lost("the file is on S3", "copy it here")),
	{"containers.secrets", "secrets", but("secrets of Podman; others are lost"), but("their values come from the environment"), but("their values come from Secrets")},
	all("containers.secrets.parts", "env[].value", lost("a value with a secret in it", "write the whole value to a secret")),
	all("containers.workingDirectory", "workingDirectory", yes),
	{"containers.user", "user", yes, yes, but("numbers; names are lost")},
	{"containers.labels", "dockerLabels", yes, yes, lost("a container of a Pod has no labels", "write them as labels or annotations of the Pod")},
	all("containers.readonlyRootFilesystem", "readonlyRootFilesystem", yes),
	{"containers.initProcessEnabled", "linuxParameters.initProcessEnabled", yes, yes, lost("a Pod has no init process", "shareProcessNamespace lets the pause container reap")},
	all("containers.interactive", "interactive", yes),
	all("containers.pseudoTerminal", "pseudoTerminal", yes),
	all("containers.privileged", "privileged", yes),
	all("containers.security.noNewPrivileges", "dockerSecurityOptions", yes),
	all("containers.security.labels", "dockerSecurityOptions", yes),
	all("containers.security.apparmorUnconfined", "dockerSecurityOptions", none("rootless containers have no profile")),
	all("containers.linux.capAdd", "linuxParameters.capabilities.add", yes),
	all("containers.linux.capDrop", "linuxParameters.capabilities.drop", yes),
	{"containers.linux.devices", "linuxParameters.devices", yes, yes, lost("a Pod has no devices of its node", "mount the file as a hostPath of a privileged container, or use a device plugin")},
	{"containers.linux.gpus", "resourceRequirements", lost("a number of GPUs", "write AddDevice=nvidia.com/gpu=all"), yes, yes},
	all("containers.linux.tmpfs", "linuxParameters.tmpfs", yes),
	{"containers.linux.tmpfs.options", "linuxParameters.tmpfs[].mountOptions", yes, yes, lost("a volume in memory has no options", "")},
	{"containers.linux.shmSize", "linuxParameters.sharedMemorySize", yes, yes, lost("a Pod has 64 MiB at /dev/shm", "mount a volume in memory there")},
	{"containers.linux.maxSwap", "linuxParameters.maxSwap", but("with a limit of memory"), but("with a limit of memory"), lost("a Pod has no limit of swap", "")},
	all("containers.linux.sysctls", "systemControls", yes),
	{"containers.linux.ulimits", "ulimits", yes, yes, lost("a Pod has no ulimits", "set them in the entry point, or on the node")},
	all("containers.mounts", "mountPoints", yes),
	all("containers.volumesFrom", "volumesFrom", but("as mounts of the container")),
	{"containers.net.disabled", "disableNetworking", lost("the container has the network of the pod", ""), yes, lost("the container has the network of the Pod", "")},
	{"containers.net.hostname", "hostname", but("one for all containers"), yes, but("one for all containers")},
	{"containers.net.links", "links", but("as lines of the hosts file"), yes, but("as lines of the hosts file")},
	all("containers.net.extraHosts", "extraHosts", yes),
	all("containers.net.dnsServers", "dnsServers", yes),
	all("containers.net.dnsSearch", "dnsSearchDomains", yes),
	all("containers.net.dnsOptions", "dnsConfig.options", yes),
	{"containers.log.driver", "logConfiguration", but("local drivers; Podman does not send"), yes, lost("where logs go is a matter of the cluster", "")},
	{"containers.log.options", "logConfiguration.options", yes, yes, none("they are part of the driver")},
	all("containers.log.secretOptions", "logConfiguration.secretOptions", lost("the secrets of a log driver", "")),
	all("containers.firelens", "firelensConfiguration", lost("no lines of the other containers reach the log router", "let them write to it by fluentd's driver, or run an agent of the host")),
	{"containers.restart", "restartPolicy", yes, yes, but("one for all containers")},
	{"containers.restart.ignoredExitCodes", "restartPolicy.ignoredExitCodes", yes, but("0; others are lost"), but("0; others are lost")},
	all("containers.restart.attemptPeriod", "restartPolicy.restartAttemptPeriod", none("the pauses before restarts are those of the engine")),
	{"containers.restart.backOff", "restartPolicy.x-podtask.backOff", yes, none("the pauses before restarts are those of the engine"), none("the pauses before restarts are those of the engine")},
	{"containers.restart.maxCount", "restartPolicy.x-podtask.maxCount", lost("the container is restarted any number of times", "write StartLimitBurst= in [Unit]"), but("with on-failure"), lost("the container is restarted any number of times", "")},
	all("containers.restart.firstAtOnce", "restartPolicy", none("the pauses before restarts are those of the engine")),
	all("containers.restart.rules", "restartPolicyRules", lost("rules by exit code", "")),
	all("containers.restart.rulesOnly", "restartPolicyRules", none("it is part of the rules")),
	all("containers.extensions.cpuLimit", "x-podtask.cpuLimit", yes),
	{"containers.extensions.imageHealthCheck", "x-podtask.imageHealthCheck", yes, yes, lost("a Pod does not use the health check of an image", "write a readinessProbe")},
	{"containers.extensions.emptyCommand", "x-podtask.emptyCommand", lost("the command of the image runs", "write Exec= with the words of the entry point"), yes, lost("the command of the image runs", "write command with the words of the entry point")},
	{"containers.extensions.secretFiles", "x-podtask.secretFiles", but("secrets of Podman; others are lost"), but("secrets of Podman and files; others are lost"), but("their values come from Secrets")},
	{"containers.extensions.probes", "x-podtask.httpHealthCheck", lost("Podman checks by commands only", "write a health check"), lost("Compose checks by commands only", "write a health check"), yes},
	all("containers.extensions.hooks", "lifecycle", lost("hooks of a Pod", "write them into the entry point")),
	all("containers.extensions.kube.groups", "supplementalGroups", yes),
	all("containers.extensions.kube.group", "runAsGroup", lost("a group without a user", "write both")),
	all("containers.extensions.kube.nonRoot", "runAsNonRoot", none("the engine starts an image with root too")),
	all("containers.extensions.kube.seccompUnconfined", "seccompProfile", lost("system calls are filtered", "")),
	all("containers.extensions.kube.unmasked", "procMount", lost("parts of /proc and /sys are hidden", "")),
	all("containers.extensions.kube.pull", "imagePullPolicy", yes),
	all("containers.extensions.kube.stopSignal", "x-podtask.stopSignal", yes),
	all("containers.extensions.kube.images", "volumes[].image", lost("the files of an image are not mounted", "")),
	all("containers.extensions.kube.messagePath", "terminationMessagePath", none("only a Pod has one")),
	all("containers.extensions.kube.messageFromLog", "terminationMessagePolicy", none("only a Pod has one")),
	all("containers.extensions.kube.hostsFile", "", none("the hosts file is that of the engine")),
	all("containers.extensions.kube.oomScoreAdj", "", none("it follows from the class of the Pod")),
	all("containers.essential", "essential", but("a task of several containers says so")),
	{"containers.dependsOn", "dependsOn", yes, but("with COMPLETE, the other one has to succeed"), but("containers that end first; others start together")},
	all("containers.healthCheck", "healthCheck", yes),
	{"containers.healthCheck.startPeriod", "healthCheck.startPeriod", yes, yes, lost("the first failures count", "write a startupProbe")},
	{"containers.healthCheck.action", "healthCheck.x-podtask.action", yes, lost("an unhealthy container runs on", ""), yes},
	all("containers.ports", "portMappings", yes),
	{"containers.ports.anyOf", "portMappings[].x-podtask.hostPortRange", lost("a free port of the host is chosen, of all", "write one"), yes, lost("no port of the host is chosen", "write one")},
	all("containers.ports.name", "portMappings[].name", none("it is the name of a port for Service Connect and Pods")),
	{"containers.cpu", "cpu", yes, yes, but("as a request")},
	all("containers.memory", "memory", yes),
	{"containers.memoryReservation", "memoryReservation", yes, yes, but("as a request")},
	{"containers.startTimeout", "startTimeout", yes, lost("what waits for the container waits for ever", ""), lost("what waits for the container waits for ever", "write activeDeadlineSeconds")},
	{"containers.stopTimeout", "stopTimeout", yes, yes, but("one for all containers")},
}

// untold returns the losses of a target: members that the table calls lost, and that the task has.
func untold(target Target, t taskdef.Task) (losses []Loss) {
	for _, r := range rows {
		a := r.of(target)
		if a.treatment != members.Lost || isException(r.member, t) {
			continue
		}
		add := func(container string) {
			losses = append(losses, Loss{Container: container, Member: r.name, Reason: a.note, Remedy: a.remedy})
		}
		path, each := strings.CutPrefix(r.member, perContainer)
		if !each {
			if has(reflect.ValueOf(t), strings.Split(path, ".")) {
				add("")
			}
			continue
		}
		for _, c := range t.Containers {
			if has(reflect.ValueOf(c), strings.Split(path, ".")) {
				add(c.Name)
			}
		}
	}
	return losses
}

// isException reports values that a writer says although the row is lost, or that ask for nothing.
func isException(member string, t taskdef.Task) bool {
	switch member {
	case "pidMode":
		return t.PIDMode == taskdef.PIDHost
	case "ipcMode":
		return t.IPCMode == taskdef.IPCHost || t.IPCMode == taskdef.IPCNone
	case "networkMode":
		return t.Network != taskdef.NetworkNone
	}
	return false
}

// has reports whether a value, or one below it at a path, is not its zero value.
func has(v reflect.Value, path []string) bool {
	switch v.Kind() {
	case reflect.Pointer:
		return !v.IsNil() && (len(path) == 0 || has(v.Elem(), path))
	case reflect.Slice:
		if len(path) == 0 {
			return v.Len() > 0
		}
		for i := range v.Len() {
			if has(v.Index(i), path) {
				return true
			}
		}
		return false
	}
	if len(path) == 0 {
		return !v.IsZero()
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" && has(v.Field(i), path) || name == path[0] && has(v.Field(i), path[1:]) {
			return true
		}
	}
	return false
}

// Formats returns the tables for `podtask explain`: what a target makes of each member of a task.
func Formats() (out []members.Format) {
	for _, t := range Targets {
		f := members.Format{Name: "to" + string(t), Title: "Tasks written for " + t.Title(), Schema: "podtask generate " + string(t)}
		for _, r := range rows {
			a := r.of(t)
			f.Rows = append(f.Rows, members.Row{Member: r.member, Treatment: a.treatment, Note: a.note, Remedy: a.remedy})
		}
		out = append(out, f)
	}
	return out
}
