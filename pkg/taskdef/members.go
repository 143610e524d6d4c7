package taskdef

import "strings"

// answer is what this version does with a member of the ECS model.
type answer uint8

const (
	// honoured: it has the effect ECS gives it.
	honoured answer = iota
	// ignored: accepted without a word, because the task loses nothing.
	ignored
	// warned: accepted, with a warning that names what the task loses.
	warned
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
	{"ipcMode", refused, "its containers expect another IPC namespace than they would get", nil},
	{"pidMode", refused, "its containers expect another PID namespace than they would get", nil},
	{"placementConstraints", warned, "there is one host to place the task on, and the expressions are not evaluated", nil},
	{"proxyConfiguration", refused, "its traffic would bypass the proxy", nil},
	{"requiresCompatibilities", ignored, "launch types do not apply to one host", nil},
	{"runtimePlatform", honoured, "", nil},
	{"runtimePlatform.cpuArchitecture", warned, "images are chosen for the architecture of the host", nil},
	{"runtimePlatform.operatingSystemFamily", refused, "only `LINUX` containers can run", is("LINUX")},
	{"tags", warned, "the tags are not kept", nil},
	{"taskRoleArn", warned, "no role credentials are served, so calls to AWS find none unless the containers bring their own", nil},
	{"volumes", refused, "its containers would miss their data or lose it", nil},

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
	{"containerDefinitions[].disableNetworking", refused, "the container would have a network although it must not", isFalse},
	{"containerDefinitions[].dnsSearchDomains", refused, "the container would not find its hosts", nil},
	{"containerDefinitions[].dnsServers", refused, "the container would ask other name servers", nil},
	{"containerDefinitions[].dockerLabels", honoured, "text by name; `podtask.` and `com.amazonaws.ecs.` names are reserved", nil},
	{"containerDefinitions[].dockerSecurityOptions", refused, "the container would be less confined than it asks for", nil},
	{"containerDefinitions[].entryPoint", honoured, "a list; replaces the image's ENTRYPOINT", nil},
	{"containerDefinitions[].environment", honoured, "of two variables with one name the last wins, with a warning", nil},
	{"containerDefinitions[].environment[].name", honoured, "without `=`", nil},
	{"containerDefinitions[].environment[].value", honoured, "empty when absent", nil},
	{"containerDefinitions[].environmentFiles", refused, "the container would miss its variables", nil},
	{"containerDefinitions[].essential", honoured, "true when absent", nil},
	{"containerDefinitions[].extraHosts", refused, "the container would not find its hosts", nil},
	{"containerDefinitions[].firelensConfiguration", refused, "logs would not reach their router", nil},
	{"containerDefinitions[].healthCheck", honoured, "the image's own HEALTHCHECK is not used", nil},
	{"containerDefinitions[].healthCheck.command", honoured, "`[\"CMD\", program, argument...]` or `[\"CMD-SHELL\", command]`", nil},
	{"containerDefinitions[].healthCheck.interval", honoured, "5 to 300 s, default 30", nil},
	{"containerDefinitions[].healthCheck.retries", honoured, "1 to 10, default 3", nil},
	{"containerDefinitions[].healthCheck.startPeriod", honoured, "0 to 300 s, default 0", nil},
	{"containerDefinitions[].healthCheck.timeout", honoured, "2 to 60 s, default 5", nil},
	{"containerDefinitions[].hostname", warned, "the containers of a task share one host name", nil},
	{"containerDefinitions[].image", honoured, "an image reference, with tag or digest or neither", nil},
	{"containerDefinitions[].interactive", honoured, "", nil},
	{"containerDefinitions[].links", refused, "the container would not find the others by their aliases", nil},
	{"containerDefinitions[].linuxParameters", honoured, "", nil},
	{"containerDefinitions[].linuxParameters.capabilities", refused, "the container would have other capabilities than it asks for", noneOf("add", "drop")},
	{"containerDefinitions[].linuxParameters.devices", refused, "the container would miss its devices", nil},
	{"containerDefinitions[].linuxParameters.initProcessEnabled", honoured, "", nil},
	{"containerDefinitions[].linuxParameters.maxSwap", warned, "the host's own swap settings apply", nil},
	{"containerDefinitions[].linuxParameters.sharedMemorySize", refused, "the container would have less shared memory than it needs", nil},
	{"containerDefinitions[].linuxParameters.swappiness", warned, "the host's own swap settings apply", nil},
	{"containerDefinitions[].linuxParameters.tmpfs", refused, "the container would miss its writable memory file systems", nil},
	{"containerDefinitions[].logConfiguration", warned, "logs stay on this host, where `podtask logs` reads them; the driver and its options are not used", isLocalLog},
	{"containerDefinitions[].memory", honoured, "hard limit in MiB, at least 6, at most the task's", nil},
	{"containerDefinitions[].memoryReservation", honoured, "soft limit in MiB, at least 6, below `memory`", nil},
	{"containerDefinitions[].mountPoints", refused, "the container would miss its data or lose it", nil},
	{"containerDefinitions[].name", honoured, "unique; 1 to 255 letters, digits, hyphens and underscores", nil},
	{"containerDefinitions[].portMappings", honoured, "the containers of a task share one network namespace, so that each port has one user", nil},
	{"containerDefinitions[].portMappings[].appProtocol", ignored, "describes the port to Service Connect", nil},
	{"containerDefinitions[].portMappings[].containerPort", honoured, "1 to 65535", nil},
	{"containerDefinitions[].portMappings[].containerPortRange", refused, "the range would not be published", nil},
	{"containerDefinitions[].portMappings[].hostPort", honoured, "`bridge`: 0 or absent is chosen at start; `awsvpc` and `host`: the container port or absent", nil},
	{"containerDefinitions[].portMappings[].name", honoured, "1 to 64 lower-case letters, digits, hyphens and underscores, no hyphen first", nil},
	{"containerDefinitions[].portMappings[].protocol", honoured, "`tcp` (default) or `udp`", nil},
	{"containerDefinitions[].privileged", refused, "the container would miss privileges it needs", isFalse},
	{"containerDefinitions[].pseudoTerminal", honoured, "", nil},
	{"containerDefinitions[].readonlyRootFilesystem", honoured, "", nil},
	{"containerDefinitions[].repositoryCredentials", refused, "the image would be pulled with other credentials or none", nil},
	{"containerDefinitions[].resourceRequirements", refused, "the container would miss its GPU or accelerator", nil},
	{"containerDefinitions[].restartPolicy", warned, "the container is not restarted when it exits", isDisabled},
	{"containerDefinitions[].secrets", refused, "the container would start without its secrets", nil},
	{"containerDefinitions[].startTimeout", honoured, "1 to 86400 s; how long dependants wait for this container; for ever when absent", nil},
	{"containerDefinitions[].stopTimeout", honoured, "1 to 86400 s from SIGTERM to SIGKILL, default 30", nil},
	{"containerDefinitions[].systemControls", refused, "the container would run with other kernel settings", nil},
	{"containerDefinitions[].ulimits", warned, "the limits that Podman gives its containers apply", nil},
	{"containerDefinitions[].user", honoured, "", nil},
	{"containerDefinitions[].versionConsistency", warned, "every image is pinned to its digest when the task starts", is("enabled")},
	{"containerDefinitions[].volumesFrom", refused, "the container would miss its data or lose it", nil},
	{"containerDefinitions[].workingDirectory", honoured, "an absolute path", nil},
}

const readOnly = "read-only, printed by DescribeTaskDefinition"

// memberIndex finds a row by its path, and memberNames the members below one.
var memberIndex, memberNames = indexMembers()

func indexMembers() (map[string]member, map[string][]string) {
	rows, names := make(map[string]member), make(map[string][]string)
	for _, m := range members {
		rows[m.path] = m
		parent, name := "", m.path
		if i := strings.LastIndexByte(m.path, '.'); i >= 0 {
			parent, name = m.path[:i], m.path[i+1:]
		}
		names[parent] = append(names[parent], name)
	}
	return rows, names
}

func is(value string) func(*node) bool {
	return func(n *node) bool { return n.kind == text && n.text == value }
}

func isFalse(n *node) bool {
	return (n.kind == boolean || n.kind == text) && n.text == "false"
}

func isDisabled(n *node) bool {
	enabled := n.member("enabled")
	return n.kind == object && (enabled == nil || isFalse(enabled))
}

// isLocalLog accepts the drivers that keep logs on the host, where nothing asks
// for more than that.
func isLocalLog(n *node) bool {
	driver := n.member("logDriver")
	return driver != nil && (driver.text == "json-file" || driver.text == "journald") && noneOf("options", "secretOptions")(n)
}

// noneOf accepts an object that leaves all these keys empty.
func noneOf(keys ...string) func(*node) bool {
	return func(n *node) bool {
		for _, k := range keys {
			if m := n.member(k); m != nil && !m.empty() {
				return false
			}
		}
		return n.kind == object
	}
}
