package taskdef

import (
	"slices"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// answer is the decision of this version on a member of the ECS model.
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
	// note is the loss (warned) or the reason why it cannot be left out (refused); for the others it is documentation.
	note string
	// unless tells values that ask for nothing and so need neither warning nor
	// refusal, besides null, "", [] and {}; nil means none.
	unless func(*doctree.Node) bool
}

// members answers every member of a task definition: the input of
// RegisterTaskDefinition, and the read-only ones of DescribeTaskDefinition. To
// honor one more, change its row here and decode it in decode.go. The tests
// hold the table against the ECS model and write docs/task-definition.md and task-definition-members.md from it.
var members = []member{
	{"family", honoured, "1 to 255 letters, digits, hyphens and underscores", nil},
	{"networkMode", honoured, "`bridge` (default), `awsvpc`, `host` or `none`", nil},
	{"cpu", honoured, "hard limit of the task: 128 to 196608 cpu units (1024 = 1 vCPU), or as in `\"0.5 vCPU\"`", nil},
	{"memory", honoured, "hard limit of the task: MiB, at least 6, or as in `\"2 GB\"`", nil},
	{"containerDefinitions", honoured, "1 to 10, at least one of them essential", nil},
	{"enableFaultInjection", honoured, "its containers and `podtask fault` can disturb the network of the task; see [faults.md](faults.md)", nil},
	{"ephemeralStorage", warned, "no storage is set aside; containers use what the host has", nil},
	{"executionRoleArn", honoured, "told to `PODTASK_CREDENTIALS_HELPER`; images are pulled with the credentials of the host", nil},
	{"inferenceAccelerators", warned, "containers get no accelerator", nil},
	{"trustedExecutionConfiguration", honoured, "", nil},
	{"trustedExecutionConfiguration.attestationPolicy", refused, "it is for CONFIDENTIAL_SANDBOX, which this host does not have", nil},
	{"trustedExecutionConfiguration.isolationMode", honoured, "`SHARED`; `ISOLATED_SANDBOX` and `CONFIDENTIAL_SANDBOX` are refused, because this host has no Nitro sandbox", nil},
	{"ipcMode", honoured, "`host`, `task` or `none`; with `none`, each container still has its own `/dev/shm`", nil},
	{"pidMode", honoured, "`host` (rootless: shows the processes of the user) or `task`", nil},
	{"placementConstraints", warned, "there is one host to place the task on, and the expressions are not evaluated", nil},
	{"proxyConfiguration", warned, "no traffic is redirected to the proxy container", nil},
	{"requiresCompatibilities", honoured, "`EC2`, `FARGATE`, `EXTERNAL` or `MANAGED_INSTANCES`; ignored by `run`; `validate --target` applies the rules of a launch type", nil},
	{"runtimePlatform", honoured, "", nil},
	{"runtimePlatform.cpuArchitecture", honoured, "`X86_64` or `ARM64`; that of the host when absent", nil},
	{"runtimePlatform.operatingSystemFamily", honoured, "only `LINUX` containers can run", nil},
	{"tags", honoured, "labels `podtask.tag.KEY` of the pod and its containers; `ps --filter tag=KEY=VALUE`", nil},
	{"tags[].key", honoured, "", nil},
	{"tags[].value", honoured, "", nil},
	{"taskRoleArn", honoured, "told to `PODTASK_CREDENTIALS_HELPER`, which returns its credentials", nil},
	{"volumes", honoured, "without a configuration, or with an empty `host`, created for the task and removed with it", nil},
	{"volumes[].configuredAtLaunch", needed, "a reference to `ebs:NAME`, or `--map-volume NAME=PATH`: EBS volumes cannot be mounted here", nil},
	{"volumes[].dockerVolumeConfiguration", honoured, "", nil},
	{"volumes[].dockerVolumeConfiguration.autoprovision", honoured, "true: a missing shared volume is created; false: it must exist", nil},
	{"volumes[].dockerVolumeConfiguration.driver", honoured, "`local`; any other is a reference to `plugin:DRIVER/NAME`", nil},
	{"volumes[].dockerVolumeConfiguration.driverOpts", honoured, "a network file system is a reference to `nfs:SERVER:PATH`", nil},
	{"volumes[].dockerVolumeConfiguration.labels", honoured, "", nil},
	{"volumes[].dockerVolumeConfiguration.scope", honoured, "`task` (default): removed with the task; `shared`: has the name given here and is never removed", nil},
	{"volumes[].efsVolumeConfiguration", needed, "a reference to `efs:FILESYSTEM/PATH`, or `--map-volume NAME=PATH`: EFS cannot be mounted here", nil},
	{"volumes[].fsxWindowsFileServerVolumeConfiguration", needed, "a reference to `fsx:FILESYSTEM/PATH`, or `--map-volume NAME=PATH`: FSx cannot be mounted here", nil},
	{"volumes[].host", honoured, "", nil},
	{"volumes[].host.sourcePath", honoured, "an absolute host path; if it does not exist, a directory is created and kept", nil},
	{"volumes[].name", honoured, "unique; 1 to 255 letters, digits, hyphens and underscores", nil},
	{"volumes[].s3filesVolumeConfiguration", needed, "a reference to `s3files:ARN/PATH`, or `--map-volume NAME=PATH`: S3 Files cannot be mounted here", nil},

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
	{"containerDefinitions[].dnsSearchDomains", honoured, "per container with `bridge`, otherwise shared by the containers of the task", nil},
	{"containerDefinitions[].dnsServers", honoured, "per container with `bridge`, otherwise shared by the containers of the task", nil},
	{"containerDefinitions[].dockerLabels", honoured, "strings by name; names that begin with `podtask.` or `com.amazonaws.ecs.` are reserved", nil},
	{"containerDefinitions[].dockerSecurityOptions", honoured, "`no-new-privileges` and `label:VALUE`; AppArmor profiles (rootless Podman gives none) and `credentialspec` are refused", nil},
	{"containerDefinitions[].entryPoint", honoured, "a list; replaces the image's ENTRYPOINT", nil},
	{"containerDefinitions[].environment", honoured, "if a name occurs twice, the last value is used, with a warning", nil},
	{"containerDefinitions[].environment[].name", honoured, "without `=`", nil},
	{"containerDefinitions[].environment[].value", honoured, "empty when absent", nil},
	{"containerDefinitions[].environmentFiles", honoured, "at most 10; `environment` takes precedence over them, and an earlier file over a later one", nil},
	{"containerDefinitions[].environmentFiles[].type", honoured, "`s3`, also for local paths", nil},
	{"containerDefinitions[].environmentFiles[].value", honoured, "a path, absolute or relative to the definition, or `file://PATH`; the ARN of an S3 object is a reference", nil},
	{"containerDefinitions[].essential", honoured, "true when absent", nil},
	{"containerDefinitions[].extraHosts", honoured, "per container with `bridge`, otherwise shared by the containers of the task; not with `awsvpc`", nil},
	{"containerDefinitions[].extraHosts[].hostname", honoured, "", nil},
	{"containerDefinitions[].extraHosts[].ipAddress", honoured, "", nil},
	{"containerDefinitions[].firelensConfiguration", honoured, "the container is the log router of the task (docs/logs.md)", nil},
	{"containerDefinitions[].firelensConfiguration.options", honoured, "`enable-ecs-log-metadata`, `config-file-type` `file` and `config-file-value`; nothing is downloaded from S3", nil},
	{"containerDefinitions[].firelensConfiguration.type", honoured, "`fluentd` or `fluentbit`", nil},
	{"containerDefinitions[].healthCheck", honoured, "the image's HEALTHCHECK is not used", nil},
	{"containerDefinitions[].healthCheck.command", honoured, "`[\"CMD\", program, argument...]`, `[\"CMD-SHELL\", command]` or `[\"NONE\"]`; further words of `CMD-SHELL` are `$0`, `$1` and so on of the shell, as in Docker, with a warning; without any of them it runs as `CMD`, with a warning", nil},
	{"containerDefinitions[].healthCheck.interval", honoured, "5 to 300 s, default 30", nil},
	{"containerDefinitions[].healthCheck.retries", honoured, "1 to 10, default 3", nil},
	{"containerDefinitions[].healthCheck.startPeriod", honoured, "0 to 300 s, default 0", nil},
	{"containerDefinitions[].healthCheck.timeout", honoured, "2 to 60 s, default 5", nil},
	{"containerDefinitions[].hostname", honoured, "not with `awsvpc`", nil},
	{"containerDefinitions[].image", honoured, "an image reference, with a tag, a digest or neither", nil},
	{"containerDefinitions[].interactive", honoured, "", nil},
	{"containerDefinitions[].links", honoured, "`name` or `name:alias`, with `bridge` only; the other container starts first; all containers of the task know the alias", nil},
	{"containerDefinitions[].linuxParameters", honoured, "", nil},
	{"containerDefinitions[].linuxParameters.capabilities", honoured, "inside the user namespace, in addition to Docker's default set; a `user` other than root has only the added ones", nil},
	{"containerDefinitions[].linuxParameters.capabilities.add", honoured, "`ALL` or names without `CAP_`", nil},
	{"containerDefinitions[].linuxParameters.capabilities.drop", honoured, "`ALL` or names without `CAP_`", nil},
	{"containerDefinitions[].linuxParameters.devices", honoured, "only devices that the user may open", nil},
	{"containerDefinitions[].linuxParameters.devices[].containerPath", honoured, "`hostPath` when absent", nil},
	{"containerDefinitions[].linuxParameters.devices[].hostPath", honoured, "", nil},
	{"containerDefinitions[].linuxParameters.devices[].permissions", honoured, "`read`, `write`, `mknod`; all when absent. Rootless, the permissions of the device file apply", nil},
	{"containerDefinitions[].linuxParameters.initProcessEnabled", honoured, "with a `pidMode`, the init process of the pod or the host is used", nil},
	{"containerDefinitions[].linuxParameters.maxSwap", honoured, "MiB in addition to `memory`; 0 disables swap", nil},
	{"containerDefinitions[].linuxParameters.sharedMemorySize", honoured, "MiB; with Podman 4.3.1, every container gets the largest value of the task", nil},
	{"containerDefinitions[].linuxParameters.swappiness", warned, "a rootless container has the swappiness of the host", nil},
	{"containerDefinitions[].linuxParameters.tmpfs", honoured, "", nil},
	{"containerDefinitions[].linuxParameters.tmpfs[].containerPath", honoured, "", nil},
	{"containerDefinitions[].linuxParameters.tmpfs[].mountOptions", honoured, "", nil},
	{"containerDefinitions[].linuxParameters.tmpfs[].size", honoured, "MiB", nil},
	{"containerDefinitions[].logConfiguration", honoured, "", nil},
	{"containerDefinitions[].logConfiguration.logDriver", honoured, describeLogDrivers(), nil},
	{"containerDefinitions[].logConfiguration.options", honoured, "`max-size` of `json-file`, and those of the drivers that send; other options of local drivers are ignored with a warning", nil},
	{"containerDefinitions[].logConfiguration.secretOptions", honoured, "`splunk-token` of `splunk`, and any of `awsfirelens`", nil},
	{"containerDefinitions[].logConfiguration.secretOptions[].name", honoured, "", nil},
	{"containerDefinitions[].logConfiguration.secretOptions[].valueFrom", honoured, "", nil},
	{"containerDefinitions[].memory", honoured, "hard limit in MiB, at least 6, at most the task's", nil},
	{"containerDefinitions[].memoryReservation", honoured, "soft limit in MiB, at least 6, below `memory`", nil},
	{"containerDefinitions[].mountPoints", honoured, "", nil},
	{"containerDefinitions[].mountPoints[].containerPath", honoured, "absolute", nil},
	{"containerDefinitions[].mountPoints[].readOnly", honoured, "", nil},
	{"containerDefinitions[].mountPoints[].sourceVolume", honoured, "one of the volumes of the task", nil},
	{"containerDefinitions[].name", honoured, "unique; 1 to 255 letters, digits, hyphens and underscores", nil},
	{"containerDefinitions[].portMappings", honoured, "with `bridge`, each container has its own ports; otherwise the containers of a task share one network namespace", nil},
	{"containerDefinitions[].portMappings[].appProtocol", ignored, "describes the port to Service Connect", nil},
	{"containerDefinitions[].portMappings[].containerPort", honoured, "1 to 65535", nil},
	{"containerDefinitions[].portMappings[].containerPortRange", honoured, "`FIRST-LAST`, with `bridge` and `awsvpc`; mapped to the same number of consecutive host ports", nil},
	{"containerDefinitions[].portMappings[].hostPort", honoured, "`bridge`: that port of the host, or one that is chosen at the start if 0 or absent; `awsvpc`: the container port or absent, the same port of the host is published if possible, otherwise a free one; `host`: the container port or absent", nil},
	{"containerDefinitions[].portMappings[].name", honoured, "1 to 64 lowercase letters, digits, hyphens and underscores; not starting with a hyphen", nil},
	{"containerDefinitions[].portMappings[].protocol", honoured, "`tcp` (default) or `udp`", nil},
	{"containerDefinitions[].privileged", honoured, "with a warning: a rootless container gets at most the rights of the user", nil},
	{"containerDefinitions[].pseudoTerminal", honoured, "", nil},
	{"containerDefinitions[].readonlyRootFilesystem", honoured, "", nil},
	{"containerDefinitions[].repositoryCredentials", honoured, "", nil},
	{"containerDefinitions[].repositoryCredentials.credentialsParameter", honoured, "a source (`podman:NAME`, `file:PATH`, `env:NAME`, `command:LINE`), or an ARN, which is a reference", nil},
	{"containerDefinitions[].resourceRequirements", honoured, "GPUs of the host, which no other task has at that time (docs/limits.md); they need Podman 5", nil},
	{"containerDefinitions[].resourceRequirements[].type", honoured, "`GPU`; `InferenceAccelerator` has no effect, with a warning; `NeuronDevice` is refused: this host has none", nil},
	{"containerDefinitions[].resourceRequirements[].sharingStrategy", refused, "podtask does not share a GPU among containers; write a value instead", nil},
	{"containerDefinitions[].resourceRequirements[].value", honoured, "the number of GPUs", nil},
	{"containerDefinitions[].restartPolicy", honoured, "", nil},
	{"containerDefinitions[].restartPolicy.enabled", honoured, "", nil},
	{"containerDefinitions[].restartPolicy.ignoredExitCodes", honoured, "at most 50 exit codes after which the container stays stopped", nil},
	{"containerDefinitions[].restartPolicy.restartAttemptPeriod", honoured, "60 to 1800 s, default 300: the container is restarted only if it ran at least this long", nil},
	{"containerDefinitions[].secrets", honoured, "", nil},
	{"containerDefinitions[].secrets[].name", honoured, "must differ from the variables in `environment`", nil},
	{"containerDefinitions[].secrets[].valueFrom", honoured, "a source (`podman:NAME`, `file:PATH`, `env:NAME`, `command:LINE`), or an ARN or parameter name, which is a reference", nil},
	{"containerDefinitions[].startTimeout", honoured, "0 to 86400 s; how long dependent containers wait for this container; without limit when 0 or absent", nil},
	{"containerDefinitions[].stopTimeout", honoured, "0 to 86400 s from SIGTERM to SIGKILL, default 30; 0 is the default", nil},
	{"containerDefinitions[].systemControls", honoured, "", nil},
	{"containerDefinitions[].systemControls[].namespace", honoured, "`net.` and IPC parameters; containers that share the namespace must use the same values", nil},
	{"containerDefinitions[].systemControls[].value", honoured, "", nil},
	{"containerDefinitions[].ulimits", honoured, "at most the hard limits of the user; `--clamp-ulimits` lowers them", nil},
	{"containerDefinitions[].ulimits[].hardLimit", honoured, "-1 means no limit", nil},
	{"containerDefinitions[].ulimits[].name", honoured, "such as `nofile`", nil},
	{"containerDefinitions[].ulimits[].softLimit", honoured, "-1 means no limit", nil},
	{"containerDefinitions[].user", honoured, "", nil},
	{"containerDefinitions[].versionConsistency", honoured, "`enabled` (default): the image is pinned to its digest when the task starts; `disabled`: it is pulled by tag", nil},
	{"containerDefinitions[].volumesFrom", honoured, "the `mountPoints` of the other container, the volumes of its image, and what it takes from others; the container is created after the other one", nil},
	{"containerDefinitions[].volumesFrom[].readOnly", honoured, "", nil},
	{"containerDefinitions[].volumesFrom[].sourceContainer", honoured, "", nil},
	{"containerDefinitions[].workingDirectory", honoured, "an absolute path", nil},
}

// extensions are the members of x-podtask, which the ECS model does not have. All are
// honoured.
var extensions = []member{
	{extensionMember, honoured, "", nil},
	{extensionMember + ".stopWhenUnhealthy", honoured, "stop the task when an essential container becomes UNHEALTHY; default false", nil},
	{extensionMember + ".watchDependencies", honoured, "stop the task when a dependency of a started essential container becomes UNHEALTHY (condition `HEALTHY`) or exits (`START`, `HEALTHY`); default false", nil},
	{extensionMember + ".timeout", honoured, "seconds after which the task is stopped, with the stop code DeadlineExceeded, counted from when it got its share of the host; 1 to 31536000, default no limit", nil},
	{extensionMember + ".minimumAge", honoured, "the time for which this host must have known an image before the task follows a tag to it, such as `3d` ([docs/minimum-age.md](minimum-age.md)); default as configured", nil},
	{extensionMember + ".namespace", honoured, "the task reaches the services of this namespace by name, if an agent runs it (docs/names.md); not with networkMode `host` and `none`", nil},
	{extensionMember + ".sleepAfter", honoured, "a service of this task stops its copies after this many seconds without a connection, until the next one comes ([docs/sleep.md](sleep.md)); 1 to 2592000, default never", nil},
	{extensionMember + ".network", honoured, "with `bridge` or `awsvpc`: `pasta`, `slirp4netns` or `shared` (Podman's default) give all containers one network namespace, connected by that program; any other value is the name of a Podman network to join", nil},
	{extensionMember + ".ingress", honoured, "public addresses of a service of this task ([docs/online.md](online.md)); tasks that are not copies of a service ignore it", nil},
	{extensionMember + ".ingress[].auth", honoured, "secret with a line `USER:PASSWORD` for each who may send requests: `podman:NAME`, `file:PATH` or another source of this host", nil},
	{extensionMember + ".ingress[].certificate", honoured, "`acme`, `internal`, the absolute path of a PEM file, or a secret: `podman:NAME` or another source of this host", nil},
	{extensionMember + ".ingress[].certificateKey", honoured, "the key of a certificate from a file or a secret: an absolute path or a secret", nil},
	{extensionMember + ".ingress[].containerName", honoured, "", nil},
	{extensionMember + ".ingress[].containerPort", honoured, "a published TCP port", nil},
	{extensionMember + ".ingress[].idleTimeout", honoured, "seconds in which neither side sends anything, 1 to 86400; default 3600", nil},
	{extensionMember + ".ingress[].maxBody", honoured, "size of the largest request body, such as `10m`; default no limit", nil},
	{extensionMember + ".ingress[].protocol", honoured, "what the container speaks: `http1` (default) or `h2c`", nil},
	{extensionMember + ".ingress[].readTimeout", honoured, "seconds in which a client sends nothing of a body that it has begun, 1 to 86400; default 60", nil},
	{extensionMember + ".ingress[].url", honoured, "`https://HOST[/PATH]` or `http://HOST[/PATH]`; HOST may begin with `*.`", nil},
	{"volumes[]." + extensionMember, honoured, "", nil},
	{"volumes[]." + extensionMember + ".selinuxRelabel", honoured, "relabel a host path: `shared` or `private`", nil},
	{inContainer + extensionMember, honoured, "", nil},
	{inContainer + "healthCheck." + extensionMember, honoured, "", nil},
	{inContainer + "healthCheck." + extensionMember + ".action", honoured, "`restart`: stop the container when it is UNHEALTHY, and let its `restartPolicy` start it again, whatever its exit code; goes before `stopWhenUnhealthy`; default: nothing", nil},
	{inContainer + "restartPolicy." + extensionMember, honoured, "", nil},
	{inContainer + "restartPolicy." + extensionMember + ".backOff", honoured, "also restart a container that ran for less than `restartAttemptPeriod`, after a delay of this many seconds (1 to 300) that doubles up to 5 minutes; default: it is not restarted", nil},
	{inContainer + "restartPolicy." + extensionMember + ".maxCount", honoured, "maximum number of restarts; default 0: no limit", nil},
	{inContainer + extensionMember + ".cpuLimit", honoured, "hard limit of the container in vCPU, 0.01 to 192", nil},
	{inContainer + extensionMember + ".emptyCommand", honoured, "run the entry point of the image without the image's command; not beside `command`; default false", nil},
	{inContainer + extensionMember + ".httpHealthCheck", honoured, "`http://localhost:PORT/PATH` or `https://`: the container is HEALTHY while a GET answers 200 to 399, and UNHEALTHY after three failures; asked every 10 seconds in the container's network, without a program of the image; in place of `healthCheck`", nil},
	{inContainer + extensionMember + ".imageHealthCheck", honoured, "use the image's HEALTHCHECK if the definition has no `healthCheck`; default false", nil},
	{inContainer + extensionMember + ".secretFiles", honoured, "secrets as files", nil},
	{inContainer + extensionMember + ".secretFiles[].gid", honoured, "group of the file in the container; default 0", nil},
	{inContainer + extensionMember + ".secretFiles[].mode", honoured, "permissions in octal, default `\"0400\"`", nil},
	{inContainer + extensionMember + ".secretFiles[].path", honoured, "absolute path in the container", nil},
	{inContainer + extensionMember + ".secretFiles[].uid", honoured, "owner of the file in the container; default 0", nil},
	{inContainer + extensionMember + ".secretFiles[].valueFrom", honoured, "as in `secrets`, or the ARN of an S3 object, which is a reference", nil},
	{inContainer + extensionMember + ".stopSignal", honoured, "signal that asks the container to stop, such as `SIGQUIT`; default that of the image, else SIGTERM", nil},
	{inContainer + "portMappings[]." + extensionMember, honoured, "", nil},
	{inContainer + "portMappings[]." + extensionMember + ".hostPortRange", honoured, "`FIRST-LAST`: a free port of the host among these is chosen at the start, in place of `hostPort`", nil},
	{inContainer + "portMappings[]." + extensionMember + ".hostIP", honoured, "host address to publish the port on; with pasta, an IPv6 address needs a host with IPv6", nil},
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
