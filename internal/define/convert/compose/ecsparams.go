package compose

import (
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/podtask/podtask/internal/define/members"
)

// ecsParamsFile is the file beside a Compose file in which the command ecs-cli finds what Compose does not say.
const ecsParamsFile = "ecs-params.yml"

const (
	paramOfService = "services of the task_definition"
	paramVolumes   = "volumes of the host are given by the Compose file"
	paramNoCluster = "there is one host, without subnets and Cloud Map"
)

// ecsParams are the members of ecs-params.yml (ecs-cli 1.21.0, the last version; its types as of May 2023), each with the member of a definition to write
// instead. The services are those of the Compose file.
var ecsParams = []members.Row{
	{Member: "version", Treatment: members.NoMeaning, Note: "it is that of the file"},
	{Member: "task_definition.ecs_network_mode", Treatment: members.Lost, Note: "the task has a network of podtask", Remedy: "write `networkMode` into the definition"},
	{Member: "task_definition.task_role_arn", Treatment: members.Lost, Note: "the containers get no credentials", Remedy: "write `taskRoleArn` into the definition"},
	{Member: "task_definition.task_execution_role", Treatment: members.Lost, Note: "nothing of AWS is asked for", Remedy: "write `executionRoleArn` into the definition"},
	{Member: "task_definition.task_size.cpu_limit", Treatment: members.Lost, Note: "the task has no limit of its own", Remedy: "write `cpu` into the definition"},
	{Member: "task_definition.task_size.mem_limit", Treatment: members.Lost, Note: "the task has no limit of its own", Remedy: "write `memory` into the definition"},
	{Member: "task_definition.pid_mode", Treatment: members.Lost, Note: "each container sees its own processes", Remedy: "write `pidMode` into the definition"},
	{Member: "task_definition.ipc_mode", Treatment: members.Lost, Note: "containers do not share memory", Remedy: "write `ipcMode` into the definition"},
	{Member: "task_definition.services.essential", Treatment: members.Lost, Note: paramOfService, Remedy: "write `essential` into the container"},
	{Member: "task_definition.services.repository_credentials", Treatment: members.Lost, Note: paramOfService, Remedy: "write `repositoryCredentials` into the container"},
	{Member: "task_definition.services.cpu_shares", Treatment: members.Lost, Note: paramOfService, Remedy: "write `cpu` into the container"},
	{Member: "task_definition.services.mem_limit", Treatment: members.Lost, Note: paramOfService, Remedy: "write `memory` into the container"},
	{Member: "task_definition.services.mem_reservation", Treatment: members.Lost, Note: paramOfService, Remedy: "write `memoryReservation` into the container"},
	{Member: "task_definition.services.gpu", Treatment: members.Lost, Note: paramOfService, Remedy: "write `resourceRequirements` into the container"},
	{Member: "task_definition.services.init_process_enabled", Treatment: members.Lost, Note: paramOfService, Remedy: "write `linuxParameters.initProcessEnabled` into the container"},
	{Member: "task_definition.services.healthcheck", Treatment: members.Lost, Note: paramOfService, Remedy: "write `healthCheck` into the container"},
	{Member: "task_definition.services.firelens_configuration", Treatment: members.Lost, Note: paramOfService, Remedy: "write `firelensConfiguration` into the container"},
	{Member: "task_definition.services.secrets", Treatment: members.Lost, Note: paramOfService, Remedy: "write `secrets` into the container"},
	{Member: "task_definition.services.depends_on", Treatment: members.Lost, Note: paramOfService, Remedy: "write `dependsOn` into the container"},
	{Member: "task_definition.services.logging", Treatment: members.Lost, Note: paramOfService, Remedy: "write `logConfiguration` into the container"},
	{Member: "task_definition.docker_volumes", Treatment: members.Lost, Note: paramVolumes, Remedy: "declare them under `volumes`"},
	{Member: "task_definition.efs_volumes", Treatment: members.Lost, Note: paramVolumes, Remedy: "write `efsVolumeConfiguration` into the definition, and give --map-volume"},
	{Member: "task_definition.placement_constraints", Treatment: members.Lost, Note: paramNoCluster},
	{Member: "run_params.network_configuration", Treatment: members.Lost, Note: paramNoCluster},
	{Member: "run_params.task_placement", Treatment: members.Lost, Note: paramNoCluster},
	{Member: "run_params.service_discovery", Treatment: members.Lost, Note: paramNoCluster, Remedy: "`podtask service create --namespace`"},
}

// ECSParams returns what becomes of the members of ecs-params.yml.
func ECSParams() members.Format {
	return members.Format{Name: "ecs-params", Title: "Files ecs-params.yml beside a Compose file", Schema: "ecs-cli 1.21", Rows: ecsParams}
}

// params lists what ecs-params.yml beside the Compose file says: import does not read it, as Compose does not.
func (c *conversion) params() {
	src, err := readOrdinary(filepath.Join(c.Dir, ecsParamsFile))
	if err != nil {
		return // there is none, as a rule
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(src, &doc); err != nil || len(doc.Content) == 0 {
		c.Lose(0, "%s, a file of ecs-cli, cannot be read", ecsParamsFile)
		return
	}
	rows := map[string]members.Row{}
	for _, r := range ecsParams {
		rows[r.Member] = r
	}
	c.paramsBelow(doc.Content[0], "", rows)
}

func (c *conversion) paramsBelow(n *yaml.Node, in string, rows map[string]members.Row) {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		path := strings.TrimPrefix(in+"."+n.Content[i].Value, ".")
		r, known := rows[path]
		switch {
		case known && r.Treatment == members.NoMeaning:
		case known && r.Remedy != "":
			c.Lose(0, "%s:%d: %s: %s: %s", ecsParamsFile, n.Content[i].Line, path, members.Plain(r.Note), members.Plain(r.Remedy))
		case known:
			c.Lose(0, "%s:%d: %s: %s", ecsParamsFile, n.Content[i].Line, path, members.Plain(r.Note))
		case in == "task_definition.services": // names of the user
			c.paramsBelow(n.Content[i+1], in, rows)
		case n.Content[i+1].Kind == yaml.MappingNode:
			c.paramsBelow(n.Content[i+1], path, rows)
		default:
			c.Lose(0, "%s:%d: %s: podtask does not know this member", ecsParamsFile, n.Content[i].Line, path)
		}
	}
}
