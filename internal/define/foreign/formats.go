package foreign

import (
	"maps"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/define/foreign/copilot"
	"github.com/podtask/podtask/internal/define/foreign/ecspresso"
	"github.com/podtask/podtask/internal/define/foreign/toolfile"
	"github.com/podtask/podtask/internal/define/members"
)

// resourceTables are the tables of the resources of CloudFormation that become part of a result, and of those of
// Terraform.
var resourceTables = []struct {
	kinds []string
	table toolfile.Table
}{
	{[]string{"AWS::ECS::Service", "aws_ecs_service"}, toolfile.MembersOfService},
	{[]string{"AWS::Events::Rule", "aws_cloudwatch_event_rule"}, toolfile.RuleMembers},
	{[]string{"AWS::Scheduler::Schedule", "aws_scheduler_schedule"}, toolfile.ScheduleMembers},
}

// wholeResources are resources about which there is one decision for all of their members.
var wholeResources = map[string]toolfile.Member{
	"AWS::ECS::TaskDefinition":                      {Decision: toolfile.Honored, Why: "its members are those of an ECS task definition: docs/task-definition-members.md"},
	"AWS::ECS::Cluster":                             {Decision: toolfile.NoMeaning, Why: "this host is the cluster"},
	"AWS::ECS::TaskSet":                             {Decision: toolfile.Dropped, Why: "a service makes its copies itself", Fix: "import its task definition"},
	"AWS::ECS::PrimaryTaskSet":                      {Decision: toolfile.Dropped, Why: "a service makes its copies itself"},
	"AWS::ECS::Daemon":                              {Decision: toolfile.Dropped, Why: "a daemon of managed instances is not read", Fix: "write its containers as a task definition, and podtask import makes a unit of it"},
	"AWS::ECS::DaemonTaskDefinition":                {Decision: toolfile.Dropped, Why: "a daemon of managed instances is not read", Fix: "write its containers as a task definition, and podtask import makes a unit of it"},
	"AWS::ECS::ExpressGatewayService":               {Decision: toolfile.Dropped, Why: "an express service is not read, because it makes its task definition on AWS", Fix: "podtask ecs import imports the service that it made"},
	"AWS::ECS::CapacityProvider":                    {Decision: toolfile.Dropped, Why: toolfile.OneHost},
	"AWS::ECS::ClusterCapacityProviderAssociations": {Decision: toolfile.Dropped, Why: toolfile.OneHost},
	"AWS::ApplicationAutoScaling::ScalableTarget":   {Decision: toolfile.Honored, Why: toolfile.ScalesService},
	"AWS::ApplicationAutoScaling::ScalingPolicy":    {Decision: toolfile.Honored, Why: toolfile.ScalesByTarget},
	"AWS::Logs::LogGroup":                           {Decision: toolfile.Dropped, Why: "logs stay on this host", Fix: "podtask logs reads them"},
	"AWS::Scheduler::ScheduleGroup":                 {Decision: toolfile.Dropped, Why: "schedules have no groups here"},
	"AWS::ElasticLoadBalancingV2::LoadBalancer":     {Decision: toolfile.Dropped, Why: "there is no load balancer here", Fix: "--listen, and --ingress for HTTPS"},
	"AWS::ElasticLoadBalancingV2::Listener":         {Decision: toolfile.Dropped, Why: "there is no load balancer here", Fix: "--listen, and --ingress for HTTPS"},
	"AWS::ElasticLoadBalancingV2::ListenerRule":     {Decision: toolfile.Dropped, Why: "there is no load balancer here", Fix: "--ingress has host names and paths"},
	"AWS::ElasticLoadBalancingV2::TargetGroup":      {Decision: toolfile.Dropped, Why: "health checks of a load balancer are not made", Fix: "write healthCheck into the container"},
	"aws_ecs_task_definition":                       {Decision: toolfile.Honored, Why: "its members are those of an ECS task definition: docs/task-definition-members.md"},
	"aws_ecs_cluster":                               {Decision: toolfile.NoMeaning, Why: "this host is the cluster"},
	"aws_ecs_cluster_capacity_providers":            {Decision: toolfile.Dropped, Why: toolfile.OneHost},
	"aws_ecs_capacity_provider":                     {Decision: toolfile.Dropped, Why: toolfile.OneHost},
	"aws_ecs_task_set":                              {Decision: toolfile.Dropped, Why: "a service makes its copies itself", Fix: "import its task definition"},
	"aws_ecs_tag":                                   {Decision: toolfile.Dropped, Why: "tags of resources that others made"},
	"aws_ecs_account_setting_default":               {Decision: toolfile.Dropped, Why: "there is no account here"},
	"aws_ecs_express_gateway_service":               {Decision: toolfile.Dropped, Why: "an express service is not read, because it makes its task definition on AWS", Fix: "podtask ecs import imports the service that it made"},
	"aws_scheduler_schedule_group":                  {Decision: toolfile.Dropped, Why: "schedules have no groups here"},
	"aws_appautoscaling_target":                     {Decision: toolfile.Honored, Why: toolfile.ScalesService},
	"aws_appautoscaling_policy":                     {Decision: toolfile.Honored, Why: toolfile.ScalesByTarget},
	"aws_appautoscaling_scheduled_action":           {Decision: toolfile.Honored, Why: toolfile.ScalesService},
}

// Formats returns what becomes of the members of the files that Read reads, by their formats.
func Formats() []members.Format {
	row := func(name string, m toolfile.Member) members.Row {
		t := map[toolfile.Decision]members.Treatment{toolfile.Honored: members.Honored, toolfile.Refused: members.Refused, toolfile.Dropped: members.Lost, toolfile.NoMeaning: members.NoMeaning}[m.Decision]
		return members.Row{Member: name, Treatment: t, Note: m.Why, Remedy: m.Fix}
	}
	cfn := members.Format{Name: "cloudformation", Title: "Templates of CloudFormation, in the spelling of ECS", Schema: "AWS, September 2026"}
	tf := members.Format{Name: "terraform", Title: "Plans and states of Terraform, in the spelling of ECS", Schema: "hashicorp/aws 6.25.0"}
	add := func(name string, m toolfile.Member) {
		f := &cfn
		if strings.HasPrefix(name, "aws_") {
			f = &tf
		}
		f.Rows = append(f.Rows, row(name, m))
	}
	for _, r := range resourceTables {
		for _, kind := range r.kinds {
			for _, m := range r.table.Rows() {
				add(kind+"."+m.Path, m)
			}
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(wholeResources)) {
		add(kind, wholeResources[kind])
	}
	all := []members.Format{
		cfn, tf,
		{Name: "copilot", Title: "Manifests of Copilot", Schema: "copilot-cli, March 2024"}, {Name: "ecspresso", Title: "Configurations of ecspresso", Schema: "ecspresso v2"},
	}
	for i, t := range []toolfile.Table{copilot.Members, ecspresso.Members} {
		for _, m := range t.Rows() {
			all[2+i].Rows = append(all[2+i].Rows, row(m.Path, m))
		}
	}
	return all
}
