package foreign

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/define/members"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// Decision is what becomes of a member of a file.
type Decision string

// The decisions. A member below one that is not honored shares its decision.
const (
	Honored Decision = "honored" // the definition or the command says it
	Refused Decision = "refused" // the file cannot be imported with it
	Dropped Decision = "lost"    // a Lost: line says so
	// NoMeaning is for members that describe AWS, the tool, or what podtask does anyway.
	NoMeaning Decision = "no meaning"
)

// Member is a member of a format with the decision about it.
type Member struct {
	// Path is from the top of the resource, with dots, in the spelling of ECS: deploymentConfiguration.strategy.
	Path     string
	Decision Decision
	// Why is the reason, and what Lost: says; empty for honored ones. Fix is what to do about it; empty for nothing.
	Why, Fix string

	neutral []string // values, in capitals, that lose nothing
	told    bool     // the reader says itself whether something is lost
}

// table is the decisions about the members of a kind of resource.
type table struct {
	rows   map[string]*Member
	parent map[string]bool // paths with rows below them
}

func newTable(parts ...[]Member) table {
	t := table{map[string]*Member{}, map[string]bool{}}
	for _, part := range parts {
		for _, m := range part {
			if t.rows[m.Path] != nil {
				panic("two decisions about " + m.Path)
			}
			t.rows[m.Path] = &m
			for p := m.Path; strings.Contains(p, "."); {
				p = p[:strings.LastIndexByte(p, '.')]
				t.parent[p] = true
			}
		}
	}
	return t
}

// find returns the decision about a member: its own, or that of the closest one above it that is not honored; nil for
// none.
func (t table) find(path string) *Member {
	for i := 0; i < len(path); i++ {
		if path[i] == '.' {
			if m := t.rows[path[:i]]; m != nil && m.Decision != Honored {
				return m
			}
		}
	}
	return t.rows[path]
}

// members returns the rows in the order of their paths.
func (t table) members() (all []Member) {
	for _, m := range t.rows {
		all = append(all, *m)
	}
	slices.SortFunc(all, func(a, b Member) int { return cmp.Compare(a.Path, b.Path) })
	return all
}

func honored(paths ...string) (all []Member) {
	for _, p := range paths {
		all = append(all, Member{Path: p, Decision: Honored})
	}
	return all
}

// noMeaning are members without a meaning here, for one reason.
func noMeaning(why string, paths ...string) (all []Member) {
	for _, p := range paths {
		all = append(all, Member{Path: p, Decision: NoMeaning, Why: why})
	}
	return all
}

// dropped is a member of which a Lost: line says what is lost. Neutral are values that lose nothing.
func dropped(path, why, fix string, neutral ...string) []Member {
	return []Member{{Path: path, Decision: Dropped, Why: why, Fix: fix, neutral: neutral}}
}

// droppedSometimes is a member about which the reader decides itself what is lost.
func droppedSometimes(path, why, fix string) []Member {
	return []Member{{Path: path, Decision: Dropped, Why: why, Fix: fix, told: true}}
}

// teller says what becomes of the members of a value.
type teller struct {
	*reader
	table
	what string // of messages: "the service"
	// key spells a name as the table does; nil keeps it.
	key func(string) string
	// look returns a value without the functions around it, nil for none; nil is for files without functions.
	look func(*doctree.Node) *doctree.Node
}

// tell notes what is lost of an object and of what is in it.
func (t teller) tell(n *doctree.Node) { t.object(n, "") }

func (t teller) object(n *doctree.Node, in string) {
	for _, f := range fields(n) {
		v, path := f.Value, f.Key
		if t.key != nil {
			path = t.key(path)
		}
		switch {
		case t.rows[in+".*"] != nil:
			path = in + ".*"
		case in != "":
			path = in + "." + path
		}
		if t.look != nil {
			v = t.look(v)
		}
		if v != nil && !unset(v) {
			t.member(v, path)
		}
	}
}

func (t teller) member(v *doctree.Node, path string) {
	m := t.rows[path]
	switch {
	case m == nil:
		t.lose(v, fmt.Sprintf("%s: podtask does not know this member of %s", path, t.what), "")
	case m.Decision == Refused:
		t.wrong(v, path+": "+m.Why, m.Fix)
	case m.Decision == Dropped && !m.told && !slices.Contains(m.neutral, strings.ToUpper(textOf(v))):
		t.lose(v, path+": "+m.Why, m.Fix)
	case m.Decision != Honored || !t.parent[path]:
	case v.Kind == doctree.List:
		for _, item := range v.Items {
			if t.look != nil {
				item = t.look(item)
			}
			t.object(item, path)
		}
	default:
		t.object(v, path)
	}
}

// unset reports whether a value is what a member has that was not written: nothing, false or zero.
func unset(v *doctree.Node) bool {
	return v.Empty() || v.Kind == doctree.Boolean && v.Text == "false" || v.Kind == doctree.Number && v.Text == "0"
}

// resourceTables are the tables of the resources of CloudFormation that become part of a result, and of those of
// Terraform.
var resourceTables = []struct {
	kinds []string
	table table
}{
	{[]string{"AWS::ECS::Service", "aws_ecs_service"}, membersOfService},
	{[]string{"AWS::Events::Rule", "aws_cloudwatch_event_rule"}, ruleMembers},
	{[]string{"AWS::Scheduler::Schedule", "aws_scheduler_schedule"}, scheduleMembers},
}

const (
	fixedCopies    = "the number of copies does not follow the load by itself"
	scalesService  = "becomes podtask service scaling of the service that is imported; a stack has none"
	scalesByTarget = scalesService + "; steps and metrics of CloudWatch are lost"
	followLoad     = "podtask service scaling set SERVICE --min NUMBER --max NUMBER --cpu PERCENT"
)

// wholeResources are resources about which there is one decision for all of their members.
var wholeResources = map[string]Member{
	"AWS::ECS::TaskDefinition":                      {Decision: Honored, Why: "its members are those of an ECS task definition: docs/task-definition-members.md"},
	"AWS::ECS::Cluster":                             {Decision: NoMeaning, Why: "this host is the cluster"},
	"AWS::ECS::TaskSet":                             {Decision: Dropped, Why: "a service makes its copies itself", Fix: "import its task definition"},
	"AWS::ECS::PrimaryTaskSet":                      {Decision: Dropped, Why: "a service makes its copies itself"},
	"AWS::ECS::Daemon":                              {Decision: Dropped, Why: "a daemon of managed instances is not read", Fix: "write its containers as a task definition, and podtask import makes a unit of it"},
	"AWS::ECS::DaemonTaskDefinition":                {Decision: Dropped, Why: "a daemon of managed instances is not read", Fix: "write its containers as a task definition, and podtask import makes a unit of it"},
	"AWS::ECS::ExpressGatewayService":               {Decision: Dropped, Why: "an express service is not read, because it makes its task definition on AWS", Fix: "podtask ecs import imports the service that it made"},
	"AWS::ECS::CapacityProvider":                    {Decision: Dropped, Why: oneHost},
	"AWS::ECS::ClusterCapacityProviderAssociations": {Decision: Dropped, Why: oneHost},
	"AWS::ApplicationAutoScaling::ScalableTarget":   {Decision: Honored, Why: scalesService},
	"AWS::ApplicationAutoScaling::ScalingPolicy":    {Decision: Honored, Why: scalesByTarget},
	"AWS::Logs::LogGroup":                           {Decision: Dropped, Why: "logs stay on this host", Fix: "podtask logs reads them"},
	"AWS::Scheduler::ScheduleGroup":                 {Decision: Dropped, Why: "schedules have no groups here"},
	"AWS::ElasticLoadBalancingV2::LoadBalancer":     {Decision: Dropped, Why: "there is no load balancer here", Fix: "--listen, and --ingress for HTTPS"},
	"AWS::ElasticLoadBalancingV2::Listener":         {Decision: Dropped, Why: "there is no load balancer here", Fix: "--listen, and --ingress for HTTPS"},
	"AWS::ElasticLoadBalancingV2::ListenerRule":     {Decision: Dropped, Why: "there is no load balancer here", Fix: "--ingress has host names and paths"},
	"AWS::ElasticLoadBalancingV2::TargetGroup":      {Decision: Dropped, Why: "health checks of a load balancer are not made", Fix: "write healthCheck into the container"},
	"aws_ecs_task_definition":                       {Decision: Honored, Why: "its members are those of an ECS task definition: docs/task-definition-members.md"},
	"aws_ecs_cluster":                               {Decision: NoMeaning, Why: "this host is the cluster"},
	"aws_ecs_cluster_capacity_providers":            {Decision: Dropped, Why: oneHost},
	"aws_ecs_capacity_provider":                     {Decision: Dropped, Why: oneHost},
	"aws_ecs_task_set":                              {Decision: Dropped, Why: "a service makes its copies itself", Fix: "import its task definition"},
	"aws_ecs_tag":                                   {Decision: Dropped, Why: "tags of resources that others made"},
	"aws_ecs_account_setting_default":               {Decision: Dropped, Why: "there is no account here"},
	"aws_ecs_express_gateway_service":               {Decision: Dropped, Why: "an express service is not read, because it makes its task definition on AWS", Fix: "podtask ecs import imports the service that it made"},
	"aws_scheduler_schedule_group":                  {Decision: Dropped, Why: "schedules have no groups here"},
	"aws_appautoscaling_target":                     {Decision: Honored, Why: scalesService},
	"aws_appautoscaling_policy":                     {Decision: Honored, Why: scalesByTarget},
	"aws_appautoscaling_scheduled_action":           {Decision: Honored, Why: scalesService},
}

// Formats returns what becomes of the members of the files that Read reads, by their formats.
func Formats() []members.Format {
	row := func(name string, m Member) members.Row {
		t := map[Decision]members.Treatment{Honored: members.Honored, Refused: members.Refused, Dropped: members.Lost, NoMeaning: members.NoMeaning}[m.Decision]
		return members.Row{Member: name, Treatment: t, Note: m.Why, Remedy: m.Fix}
	}
	cfn := members.Format{Name: "cloudformation", Title: "Templates of CloudFormation, in the spelling of ECS", Schema: "AWS, September 2026"}
	tf := members.Format{Name: "terraform", Title: "Plans and states of Terraform, in the spelling of ECS", Schema: "hashicorp/aws 6.25.0"}
	add := func(name string, m Member) {
		f := &cfn
		if strings.HasPrefix(name, "aws_") {
			f = &tf
		}
		f.Rows = append(f.Rows, row(name, m))
	}
	for _, r := range resourceTables {
		for _, kind := range r.kinds {
			for _, m := range r.table.members() {
				add(kind+"."+m.Path, m)
			}
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(wholeResources)) {
		add(kind, wholeResources[kind])
	}
	copilot := members.Format{Name: "copilot", Title: "Manifests of Copilot", Schema: "copilot-cli, March 2024"}
	ecspresso := members.Format{Name: "ecspresso", Title: "Configurations of ecspresso", Schema: "ecspresso v2"}
	for _, m := range membersOfCopilot.members() {
		copilot.Rows = append(copilot.Rows, row(m.Path, m))
	}
	for _, m := range membersOfEcspresso.members() {
		ecspresso.Rows = append(ecspresso.Rows, row(m.Path, m))
	}
	return []members.Format{cfn, tf, copilot, ecspresso}
}
