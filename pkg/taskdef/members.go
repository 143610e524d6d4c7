package taskdef

import (
	"slices"
	"strings"
)

// answer is what this version does with a member of the ECS model.
type answer uint8

const (
	// honoured: it has the effect ECS gives it.
	honoured answer = iota
	// ignored: accepted without a word, because the task loses nothing.
	ignored
	// warned: accepted, with a warning that names what the task loses.
	warned
	// needed: honoured once the command line gives what stands in for it, and
	// listed under needs until then. What lies below is AWS's own.
	needed
	// refused: a task without it would be wrong, so the definition is invalid.
	refused
)

// member is the answer to one member of the ECS model. It covers everything
// below it that has no row of its own.
type member struct {
	// path names the member; [] stands for any item of a list.
	path   string
	answer answer
	// note is what is lost (warned) or why it cannot be left out (refused); for
	// the others it is documentation.
	note string
	// unless tells values that ask for nothing and so need neither warning nor
	// refusal, besides null, "", [] and {}; nil means none.
	unless func(*node) bool
}

// members answers every member of a task definition: the input of
// RegisterTaskDefinition, and the read-only ones of DescribeTaskDefinition. To
// honour one more, change its row here and decode it in decode.go. The tests
// hold the table against the ECS model and write docs/task-definition.md from it.
var members = []member{
	{"family", honoured, "1 to 255 letters, digits, hyphens and underscores", nil},
	{"networkMode", honoured, "`bridge` (default), `awsvpc`, `host` or `none`", nil},
	{"cpu", honoured, "hard limit of the task: 128 to 196608 cpu units (1024 = 1 vCPU), or as in `\"0.5 vCPU\"`", nil},
	{"memory", honoured, "hard limit of the task: MiB, at least 6, or as in `\"2 GB\"`", nil},
	{"containerDefinitions", honoured, "1 to 10, at least one of them essential", nil},
	{"enableFaultInjection", warned, "no fault injection endpoint is served", isFalse},
	{"ephemeralStorage", warned, "no storage is set aside; containers use what the host has", nil},
	{"executionRoleArn", ignored, "images are pulled with the credentials of the host", nil},
	{"inferenceAccelerators", refused, "its containers need an accelerator that would be missing", nil},
	{"ipcMode", honoured, "`host`, `task` or `none`, with which each container still has a `/dev/shm` of its own", nil},
	{"pidMode", honoured, "`host` (rootless: the processes of the user) or `task`", nil},
	{"placementConstraints", warned, "there is one host to place the task on, and the expressions are not evaluated", nil},
	{"proxyConfiguration", refused, "its traffic would bypass the proxy", nil},
	{"requiresCompatibilities", honoured, "`EC2`, `FARGATE`, `EXTERNAL` or `MANAGED_INSTANCES`; they do not matter to one host, and `validate --target` applies the rules of one", nil},
	{"runtimePlatform", honoured, "", nil},
	{"runtimePlatform.cpuArchitecture", honoured, "`X86_64` or `ARM64`; that of the host when absent", nil},
	{"runtimePlatform.operatingSystemFamily", honoured, "only `LINUX` containers can run", nil},
	{"tags", warned, "the tags are not kept", nil},
	{"taskRoleArn", warned, "the role is not assumed; calls to AWS use the credentials of `PODTASK_CREDENTIALS_HELPER`, if there is one", nil},
	{"volumes", honoured, "without a configuration, or with an empty `host`, made for the task and removed with it", nil},
	{"volumes[].configuredAtLaunch", needed, "`--map-volume NAME=PATH`: EBS volumes cannot be mounted here", nil},
	{"volumes[].dockerVolumeConfiguration", honoured, "", nil},
	{"volumes[].dockerVolumeConfiguration.autoprovision", honoured, "a shared volume that is missing is made; else it must exist", nil},
	{"volumes[].dockerVolumeConfiguration.driver", honoured, "`local`; any other needs `--map-volume NAME=PATH`", nil},
	{"volumes[].dockerVolumeConfiguration.driverOpts", honoured, "network file systems need `--map-volume NAME=PATH`", nil},
	{"volumes[].dockerVolumeConfiguration.labels", honoured, "", nil},
	{"volumes[].dockerVolumeConfiguration.scope", honoured, "`task` (default): removed with the task; `shared`: named as here and never removed", nil},
	{"volumes[].efsVolumeConfiguration", needed, "`--map-volume NAME=PATH`: EFS cannot be mounted here", nil},
	{"volumes[].fsxWindowsFileServerVolumeConfiguration", needed, "`--map-volume NAME=PATH`: FSx cannot be mounted here", nil},
	{"volumes[].host", honoured, "", nil},
	{"volumes[].host.sourcePath", honoured, "an absolute path of the host; a directory is made where there is nothing, and stays", nil},
	{"volumes[].name", honoured, "unique; 1 to 255 letters, digits, hyphens and underscores", nil},
	{"volumes[].s3filesVolumeConfiguration", needed, "`--map-volume NAME=PATH`: S3 Files cannot be mounted here", nil},

	{"compatibilities", ignored, readOnly, nil},
	{"deleteRequestedAt", ignored, readOnly, nil},
	{"deregisteredAt", ignored, readOnly, nil},
	{"registeredAt", ignored, readOnly, nil},
	{"registeredBy", ignored, readOnly, nil},
	{"requiresAttributes", ignored, readOnly, nil},
	{"revision", ignored, readOnly, nil},
	{"status", ignored, readOnly, nil},
	{"taskDefinitionArn", ignored, readOnly, nil},

	{"containerDefinitions[].command", honoured, "a list; replaces the image's CMD", nil},
	{"containerDefinitions[].cpu", honoured, "a share, not a limit: 0 to 196608 cpu units; 0 is unset", nil},
	{"containerDefinitions[].credentialSpecs", refused, "the container would start without its Active Directory account", nil},
	{"containerDefinitions[].dependsOn", honoured, "one condition for each other container", nil},
	{"containerDefinitions[].dependsOn[].condition", honoured, "`START`, `COMPLETE`, `SUCCESS` or `HEALTHY`", nil},
	{"containerDefinitions[].dependsOn[].containerName", honoured, "a container of the same definition", nil},
	{"containerDefinitions[].disableNetworking", honoured, "", nil},
	{"containerDefinitions[].dnsSearchDomains", honoured, "the container's own with `bridge`, else shared by the containers of the task", nil},
	{"containerDefinitions[].dnsServers", honoured, "the container's own with `bridge`, else shared by the containers of the task", nil},
	{"containerDefinitions[].dockerLabels", honoured, "text by name; `podtask.` and `com.amazonaws.ecs.` names are reserved", nil},
	{"containerDefinitions[].dockerSecurityOptions", honoured, "`no-new-privileges` and `label:VALUE`; AppArmor profiles and `credentialspec` are refused", nil},
	{"containerDefinitions[].entryPoint", honoured, "a list; replaces the image's ENTRYPOINT", nil},
	{"containerDefinitions[].environment", honoured, "of two variables with one name the last wins, with a warning", nil},
	{"containerDefinitions[].environment[].name", honoured, "without `=`", nil},
	{"containerDefinitions[].environment[].value", honoured, "empty when absent", nil},
	{"containerDefinitions[].environmentFiles", honoured, "at most 10; `environment` goes before them, and an earlier file before a later one", nil},
	{"containerDefinitions[].environmentFiles[].type", honoured, "`s3`, for local paths too", nil},
	{"containerDefinitions[].environmentFiles[].value", honoured, "a path, relative to the definition or absolute, or `file://PATH`; an object of S3 needs `--map-env-file ARN=PATH`", nil},
	{"containerDefinitions[].essential", honoured, "true when absent", nil},
	{"containerDefinitions[].extraHosts", honoured, "the container's own with `bridge`, else shared by the containers of the task; not with `awsvpc`", nil},
	{"containerDefinitions[].extraHosts[].hostname", honoured, "", nil},
	{"containerDefinitions[].extraHosts[].ipAddress", honoured, "", nil},
	{"containerDefinitions[].firelensConfiguration", warned, "the container runs but no logs are sent to it; `podtask logs` reads those of each container", nil},
	{"containerDefinitions[].healthCheck", honoured, "the image's own HEALTHCHECK is not used", nil},
	{"containerDefinitions[].healthCheck.command", honoured, "`[\"CMD\", program, argument...]` or `[\"CMD-SHELL\", command]`", nil},
	{"containerDefinitions[].healthCheck.interval", honoured, "5 to 300 s, default 30", nil},
	{"containerDefinitions[].healthCheck.retries", honoured, "1 to 10, default 3", nil},
	{"containerDefinitions[].healthCheck.startPeriod", honoured, "0 to 300 s, default 0", nil},
	{"containerDefinitions[].healthCheck.timeout", honoured, "2 to 60 s, default 5", nil},
	{"containerDefinitions[].hostname", honoured, "not with `awsvpc`", nil},
	{"containerDefinitions[].image", honoured, "an image reference, with tag or digest or neither", nil},
	{"containerDefinitions[].interactive", honoured, "", nil},
	{"containerDefinitions[].links", honoured, "`name` or `name:alias`, with `bridge` only; the other container starts first; all containers of the task know the alias", nil},
	{"containerDefinitions[].linuxParameters", honoured, "", nil},
	{"containerDefinitions[].linuxParameters.capabilities", honoured, "inside the user namespace, on top of Docker's default set; a `user` other than root has just those added", nil},
	{"containerDefinitions[].linuxParameters.capabilities.add", honoured, "`ALL` or names without `CAP_`", nil},
	{"containerDefinitions[].linuxParameters.capabilities.drop", honoured, "`ALL` or names without `CAP_`", nil},
	{"containerDefinitions[].linuxParameters.devices", honoured, "those that the user may open", nil},
	{"containerDefinitions[].linuxParameters.devices[].containerPath", honoured, "the path of the host when absent", nil},
	{"containerDefinitions[].linuxParameters.devices[].hostPath", honoured, "", nil},
	{"containerDefinitions[].linuxParameters.devices[].permissions", honoured, "`read`, `write`, `mknod`; all when absent. Rootless they are those of the device's file", nil},
	{"containerDefinitions[].linuxParameters.initProcessEnabled", honoured, "with a `pidMode` the processes have one already: the pod's or the host's", nil},
	{"containerDefinitions[].linuxParameters.maxSwap", honoured, "MiB besides `memory`; 0 is none; crun 1.21 allows `memory` on top", nil},
	{"containerDefinitions[].linuxParameters.sharedMemorySize", honoured, "MiB; with Podman 4.3.1 every container has the largest of the task", nil},
	{"containerDefinitions[].linuxParameters.swappiness", warned, "a rootless container has the swappiness of the host", nil},
	{"containerDefinitions[].linuxParameters.tmpfs", honoured, "", nil},
	{"containerDefinitions[].linuxParameters.tmpfs[].containerPath", honoured, "", nil},
	{"containerDefinitions[].linuxParameters.tmpfs[].mountOptions", honoured, "", nil},
	{"containerDefinitions[].linuxParameters.tmpfs[].size", honoured, "MiB", nil},
	{"containerDefinitions[].logConfiguration", honoured, "", nil},
	{"containerDefinitions[].logConfiguration.logDriver", honoured, "`json-file`, `journald` or `none`; with any other the logs stay on this host, with a warning", nil},
	{"containerDefinitions[].logConfiguration.options", honoured, "`max-size` of `json-file`; others are named in a warning", nil},
	{"containerDefinitions[].logConfiguration.secretOptions", honoured, "not needed: the drivers that take them do not exist here", nil},
	{"containerDefinitions[].logConfiguration.secretOptions[].name", honoured, "", nil},
	{"containerDefinitions[].logConfiguration.secretOptions[].valueFrom", honoured, "", nil},
	{"containerDefinitions[].memory", honoured, "hard limit in MiB, at least 6, at most the task's", nil},
	{"containerDefinitions[].memoryReservation", honoured, "soft limit in MiB, at least 6, below `memory`", nil},
	{"containerDefinitions[].mountPoints", honoured, "", nil},
	{"containerDefinitions[].mountPoints[].containerPath", honoured, "absolute", nil},
	{"containerDefinitions[].mountPoints[].readOnly", honoured, "", nil},
	{"containerDefinitions[].mountPoints[].sourceVolume", honoured, "one of the volumes of the task", nil},
	{"containerDefinitions[].name", honoured, "unique; 1 to 255 letters, digits, hyphens and underscores", nil},
	{"containerDefinitions[].portMappings", honoured, "with `bridge` each container has its ports to itself; else the containers of a task share one network namespace", nil},
	{"containerDefinitions[].portMappings[].appProtocol", ignored, "describes the port to Service Connect", nil},
	{"containerDefinitions[].portMappings[].containerPort", honoured, "1 to 65535", nil},
	{"containerDefinitions[].portMappings[].containerPortRange", honoured, "`FIRST-LAST`, with `bridge` and `awsvpc`; as many host ports in a row", nil},
	{"containerDefinitions[].portMappings[].hostPort", honoured, "`bridge`: 0 or absent is chosen at start; `awsvpc` and `host`: the container port or absent", nil},
	{"containerDefinitions[].portMappings[].name", honoured, "1 to 64 lower-case letters, digits, hyphens and underscores, no hyphen first", nil},
	{"containerDefinitions[].portMappings[].protocol", honoured, "`tcp` (default) or `udp`", nil},
	{"containerDefinitions[].privileged", honoured, "with a warning: a rootless container gets at most what the user has", nil},
	{"containerDefinitions[].pseudoTerminal", honoured, "", nil},
	{"containerDefinitions[].readonlyRootFilesystem", honoured, "", nil},
	{"containerDefinitions[].repositoryCredentials", honoured, "", nil},
	{"containerDefinitions[].repositoryCredentials.credentialsParameter", honoured, "a source (`podman:NAME`, `file:PATH`, `env:NAME`, `command:LINE`), or an ARN, which needs `--map-secret ARN=SOURCE`", nil},
	{"containerDefinitions[].resourceRequirements", refused, "the container would miss its GPU or accelerator", nil},
	{"containerDefinitions[].restartPolicy", honoured, "", nil},
	{"containerDefinitions[].restartPolicy.enabled", honoured, "", nil},
	{"containerDefinitions[].restartPolicy.ignoredExitCodes", honoured, "at most 50 exit codes after which the container stays stopped", nil},
	{"containerDefinitions[].restartPolicy.restartAttemptPeriod", honoured, "60 to 1800 s, default 300: how long the container must have run to be restarted", nil},
	{"containerDefinitions[].secrets", honoured, "", nil},
	{"containerDefinitions[].secrets[].name", honoured, "not that of a variable of `environment`", nil},
	{"containerDefinitions[].secrets[].valueFrom", honoured, "a source (`podman:NAME`, `file:PATH`, `env:NAME`, `command:LINE`), or an ARN or parameter name, which needs `--map-secret ARN=SOURCE`", nil},
	{"containerDefinitions[].startTimeout", honoured, "1 to 86400 s; how long dependants wait for this container; for ever when absent", nil},
	{"containerDefinitions[].stopTimeout", honoured, "1 to 86400 s from SIGTERM to SIGKILL, default 30", nil},
	{"containerDefinitions[].systemControls", honoured, "", nil},
	{"containerDefinitions[].systemControls[].namespace", honoured, "`net.` and IPC parameters; where containers share the namespace, no two may differ", nil},
	{"containerDefinitions[].systemControls[].value", honoured, "", nil},
	{"containerDefinitions[].ulimits", honoured, "at most the hard limits of the user", nil},
	{"containerDefinitions[].ulimits[].hardLimit", honoured, "-1 is none", nil},
	{"containerDefinitions[].ulimits[].name", honoured, "as in `nofile`", nil},
	{"containerDefinitions[].ulimits[].softLimit", honoured, "-1 is none", nil},
	{"containerDefinitions[].user", honoured, "", nil},
	{"containerDefinitions[].versionConsistency", honoured, "`enabled` (default): the image is pinned to its digest when the task starts; `disabled`: it is not", nil},
	{"containerDefinitions[].volumesFrom", honoured, "the other container's `mountPoints`, and what it takes over itself; not the volumes of its image", nil},
	{"containerDefinitions[].volumesFrom[].readOnly", honoured, "", nil},
	{"containerDefinitions[].volumesFrom[].sourceContainer", honoured, "", nil},
	{"containerDefinitions[].workingDirectory", honoured, "an absolute path", nil},
}

// extensions are the members of x-podtask, which are not the ECS model's. All are
// honoured.
var extensions = []member{
	{extensionMember, honoured, "", nil},
	{extensionMember + ".stopWhenUnhealthy", honoured, "stop the task when an essential container becomes UNHEALTHY; default false", nil},
	{extensionMember + ".watchDependencies", honoured, "stop the task when a dependency of an essential container that has started turns UNHEALTHY (`HEALTHY`) or ends (`START`, `HEALTHY`); default false", nil},
	{extensionMember + ".network", honoured, "with `bridge` or `awsvpc`: `pasta` or `slirp4netns`, the program that connects the task, or `shared`, the usual one: its containers share one network namespace; else the name of a Podman network that the task joins", nil},
	{"volumes[]." + extensionMember, honoured, "", nil},
	{"volumes[]." + extensionMember + ".selinuxRelabel", honoured, "relabel a path of the host: `shared` or `private`", nil},
	{inContainer + extensionMember, honoured, "", nil},
	{inContainer + "restartPolicy." + extensionMember, honoured, "", nil},
	{inContainer + "restartPolicy." + extensionMember + ".backOff", honoured, "restart a container that ran for less than `restartAttemptPeriod` too, after a pause of so many seconds (1 to 300) that doubles up to 5 minutes; default: it is not restarted", nil},
	{inContainer + "restartPolicy." + extensionMember + ".maxCount", honoured, "how often the container is restarted in all; default 0: any number of times", nil},
	{inContainer + extensionMember + ".cpuLimit", honoured, "hard limit of the container in vCPU, 0.01 to 192", nil},
	{inContainer + extensionMember + ".imageHealthCheck", honoured, "use the image's own HEALTHCHECK where the definition has no `healthCheck`; default false", nil},
	{inContainer + extensionMember + ".secretFiles", honoured, "secrets as files", nil},
	{inContainer + extensionMember + ".secretFiles[].gid", honoured, "group of the file in the container; default 0", nil},
	{inContainer + extensionMember + ".secretFiles[].mode", honoured, "permissions in octal, default `\"0400\"`", nil},
	{inContainer + extensionMember + ".secretFiles[].path", honoured, "absolute path in the container", nil},
	{inContainer + extensionMember + ".secretFiles[].uid", honoured, "owner of the file in the container; default 0", nil},
	{inContainer + extensionMember + ".secretFiles[].valueFrom", honoured, "as in `secrets`", nil},
	{inContainer + "portMappings[]." + extensionMember, honoured, "", nil},
	{inContainer + "portMappings[]." + extensionMember + ".hostIP", honoured, "the address of the host to publish the port on; an IPv6 one needs a host with an IPv6 address where pasta connects pods", nil},
}

const inContainer = "containerDefinitions[]."

const readOnly = "read-only, printed by DescribeTaskDefinition"

// memberTable finds a row by its path, and the names of the members below one.
type memberTable struct {
	rows  map[string]member
	names map[string][]string
}

var (
	definitionTable = tabulate(members, extensions)
	overrideTable   = tabulate(overrideMembers)
)

func tabulate(lists ...[]member) memberTable {
	t := memberTable{make(map[string]member), make(map[string][]string)}
	for _, m := range slices.Concat(lists...) {
		t.rows[m.path] = m
		parent, name := "", m.path
		if i := strings.LastIndexByte(m.path, '.'); i >= 0 {
			parent, name = m.path[:i], m.path[i+1:]
		}
		t.names[parent] = append(t.names[parent], name)
	}
	return t
}

func isFalse(n *node) bool {
	return (n.kind == boolean || n.kind == text) && n.text == "false"
}
