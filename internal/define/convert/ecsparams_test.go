package convert

import (
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/define/members"
)

// ecsParamsSchema are the members of ecs-params.yml of ecs-cli 1.21 (June 2021).
const ecsParamsSchema = `version
task_definition.ecs_network_mode task_definition.task_role_arn task_definition.task_execution_role task_definition.task_size.cpu_limit task_definition.task_size.mem_limit
task_definition.pid_mode task_definition.ipc_mode task_definition.services.essential task_definition.services.repository_credentials task_definition.services.cpu_shares
task_definition.services.mem_limit task_definition.services.mem_reservation task_definition.services.gpu task_definition.services.init_process_enabled
task_definition.services.healthcheck task_definition.services.firelens_configuration task_definition.services.secrets task_definition.services.depends_on
task_definition.services.logging task_definition.docker_volumes task_definition.efs_volumes task_definition.placement_constraints
run_params.network_configuration run_params.task_placement run_params.service_discovery`

func TestEveryMemberOfECSParamsHasARow(t *testing.T) {
	t.Parallel()
	for _, p := range members.Problems(ECSParams().Rows, strings.Fields(ecsParamsSchema)) {
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
