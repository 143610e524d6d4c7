package compose

import (
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/define/members"
)

// ecsParamsSchema are the members of ecs-params.yml by the types of ecs-cli 1.21.0 (ecs_params_reader.go, as of May 2023). Those of
// services are below each name.
const ecsParamsSchema = `version
task_definition.ecs_network_mode task_definition.task_role_arn task_definition.pid_mode task_definition.ipc_mode task_definition.task_execution_role
task_definition.task_size.cpu_limit task_definition.task_size.mem_limit
task_definition.services.essential task_definition.services.init_process_enabled task_definition.services.repository_credentials.credentials_parameter
task_definition.services.cpu_shares task_definition.services.mem_limit task_definition.services.mem_reservation task_definition.services.gpu
task_definition.services.healthcheck.test task_definition.services.healthcheck.command task_definition.services.healthcheck.timeout
task_definition.services.healthcheck.interval task_definition.services.healthcheck.retries task_definition.services.healthcheck.start_period
task_definition.services.logging.secret_options.value_from task_definition.services.logging.secret_options.name
task_definition.services.firelens_configuration.type task_definition.services.firelens_configuration.options
task_definition.services.secrets.value_from task_definition.services.secrets.name
task_definition.services.depends_on.container_name task_definition.services.depends_on.condition
task_definition.docker_volumes.name task_definition.docker_volumes.scope task_definition.docker_volumes.autoprovision task_definition.docker_volumes.driver
task_definition.docker_volumes.driver_opts task_definition.docker_volumes.labels
task_definition.efs_volumes.name task_definition.efs_volumes.filesystem_id task_definition.efs_volumes.root_directory task_definition.efs_volumes.transit_encryption
task_definition.efs_volumes.transit_encryption_port task_definition.efs_volumes.access_point task_definition.efs_volumes.iam
task_definition.placement_constraints.expression task_definition.placement_constraints.type
run_params.network_configuration.awsvpc_configuration.subnets run_params.network_configuration.awsvpc_configuration.security_groups
run_params.network_configuration.awsvpc_configuration.assign_public_ip
run_params.task_placement.strategy.field run_params.task_placement.strategy.type run_params.task_placement.constraints.expression run_params.task_placement.constraints.type
run_params.service_discovery.container_name run_params.service_discovery.container_port run_params.service_discovery.private_dns_namespace.id
run_params.service_discovery.private_dns_namespace.name run_params.service_discovery.private_dns_namespace.vpc run_params.service_discovery.private_dns_namespace.description
run_params.service_discovery.public_dns_namespace.id run_params.service_discovery.public_dns_namespace.name
run_params.service_discovery.service_discovery_service.name run_params.service_discovery.service_discovery_service.description
run_params.service_discovery.service_discovery_service.dns_config.type run_params.service_discovery.service_discovery_service.dns_config.ttl
run_params.service_discovery.service_discovery_service.healthcheck_custom_config.failure_threshold`

func TestEveryMemberOfECSParamsHasARow(t *testing.T) {
	t.Parallel()
	var known []string // the rows' own members
	for _, member := range strings.Fields(ecsParamsSchema) {
		i := slices.IndexFunc(ecsParams, func(r members.Row) bool { return member == r.Member || strings.HasPrefix(member, r.Member+".") })
		if i < 0 {
			t.Errorf("%s has no row", member)
			continue
		}
		known = append(known, ecsParams[i].Member)
	}
	slices.Sort(known)
	for _, p := range members.Problems(ECSParams().Rows, slices.Compact(known)) {
		t.Error(p)
	}
}

// Each member alone is told, with the line of its file.
func TestNoMemberOfECSParamsIsIgnoredInSilence(t *testing.T) {
	t.Parallel()
	for _, r := range ECSParams().Rows {
		parts, text := strings.Split(strings.Replace(r.Member, "services.", "services.web.", 1), "."), ""
		for i, part := range parts {
			text += strings.Repeat(" ", i) + part + ":\n"
		}
		text = strings.TrimSuffix(text, "\n") + " x\n"
		_, result := convertProject(t, "-- compose.yaml --\nservices:\n  web: {image: a}\n-- ecs-params.yml --\n"+text)
		told := slices.ContainsFunc(result.Lost, func(l string) bool {
			return strings.Contains(l, "ecs-params.yml:") && strings.Contains(l, members.Plain(r.Note))
		})
		if told != (r.Treatment == members.Lost) {
			t.Errorf("%s: %q\n%s", r.Member, result.Lost, text)
		}
	}
	if _, result := convertProject(t, "-- compose.yaml --\nservices:\n  web: {image: a}\n-- ecs-params.yml --\nother: x\n"); len(result.Lost) != 1 {
		t.Errorf("%q", result.Lost)
	}
}
