package toolfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/define/calendar"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// Reasons that several tables share.
const (
	describesAWS = "it describes something on AWS"
	OneHost      = "all tasks run on this host"
	noSubnets    = "there are no subnets, security groups or public addresses here"
	otherTarget  = "it is for targets that are not tasks"
)

const publishFix = "publish ports with --publish, and restrict them with an IP address, as in --publish 127.0.0.1:8080:80"

// startMembers decides about the members of a target: what is started, and what happens if that fails. Before and
// ecs are the paths of the target and of its part for ECS, each with a dot if it is not empty.
func startMembers(before, ecs string) []Member {
	in := func(paths ...string) (all []string) {
		for _, p := range paths {
			all = append(all, before+p)
		}
		return all
	}
	inECS := func(paths ...string) (all []string) {
		for _, p := range paths {
			all = append(all, ecs+"."+p)
		}
		return all
	}
	return slices.Concat(
		Honors(ecs, ecs+".taskDefinitionArn"),
		MeansNothing("it names the cluster and the role of AWS", in("arn", "roleArn")...),
		Drops(before+"retryPolicy", "AWS tries again to start a task; here a start that fails is not repeated", "--catch-up makes up for times at which the host was off"),
		Drops(before+"deadLetterConfig", "starts that fail are not sent to a queue", "`podtask schedule history NAME` lists them"),
		DropsSometimes(before+"input", "the overrides of the target are not applied", "write them into a file, and give it to podtask schedule create with --override"),
		MeansNothing(otherTarget, in("kinesisParameters", "sqsParameters", "sageMakerPipelineParameters")...),
		DropsSometimes(ecs+".taskCount", "one task is started at a time", "make as many schedules"),
		Drops(ecs+".networkConfiguration", noSubnets, publishFix),
		Drops(ecs+".placementConstraints", OneHost, ""),
		MeansNothing(OneHost, inECS("capacityProviderStrategy", "launchType", "placementStrategy", "platformVersion")...),
		MeansNothing("podtask labels tasks itself, and `podtask exec` always works", inECS("enableECSManagedTags", "enableExecuteCommand", "group", "propagateTags", "referenceId")...),
		Drops(ecs+".tags", "tags of the started tasks: write them into the definition", ""),
	)
}

// RuleMembers decides about AWS::Events::Rule, and about aws_cloudwatch_event_rule with its targets.
var RuleMembers = NewTable(
	Honors("name", "scheduleExpression", "state", "targets", "targets.id"),
	startMembers("targets.", "targets.ecsParameters"),
	DropsSometimes("eventPattern", "on AWS events start the task; here nothing watches for them", "start it with `podtask run` from what notices the event"),
	Drops("targets.inputPath", "a task gets no event", ""),
	Drops("targets.inputTransformer", "a task gets no event", "write fixed overrides into a file, and give it to podtask schedule create with --override"),
	Drops("targets.ecsParameters.tagList", "tags of the started tasks: write them into the definition", ""),
	MeansNothing(OneHost, "targets.ecsParameters.placementStrategies"),
	MeansNothing(otherTarget, "targets.appSyncParameters", "targets.batchParameters", "targets.httpParameters", "targets.redshiftDataParameters", "targets.runCommandParameters"),
	MeansNothing(describesAWS, "description", "eventBusName", "roleArn", "tags"),
	// Terraform spells these differently, and has them besides.
	Honors("isEnabled", "targets.rule", "targets.targetId"),
	MeansNothing("the provider makes a name of it, which is in a state; without one the name is that of the resource", "namePrefix"),
	Drops("targets.ecsParameters.placementConstraint", OneHost, ""),
	MeansNothing(OneHost, "targets.ecsParameters.orderedPlacementStrategy"),
	MeansNothing(otherTarget, "targets.appsyncTarget", "targets.batchTarget", "targets.httpTarget", "targets.kinesisTarget", "targets.redshiftTarget", "targets.runCommandTargets", "targets.sagemakerPipelineTarget", "targets.sqsTarget"),
	MeansNothing(describesAWS, "id", "arn", "region", "tagsAll", "forceDestroy", "targets.region", "targets.eventBusName", "targets.forceDestroy"),
)

// ScheduleMembers decides about AWS::Scheduler::Schedule and aws_scheduler_schedule.
var ScheduleMembers = NewTable(
	Honors("name", "scheduleExpression", "scheduleExpressionTimezone", "state", "target", "flexibleTimeWindow"),
	startMembers("target.", "target.ecsParameters"),
	DropsSometimes("startDate", "a schedule has no beginning here: one that has not begun is created paused", "`podtask schedule resume NAME` begins it"),
	DropsSometimes("endDate", "a schedule has no end here: one that has ended is created paused", "`podtask schedule rm NAME` ends it"),
	Drops("flexibleTimeWindow.mode", "the task is started at the exact time, and not within a window", "", "OFF"),
	MeansNothing("flexibleTimeWindow.mode decides", "flexibleTimeWindow.maximumWindowInMinutes"),
	MeansNothing(otherTarget, "target.eventBridgeParameters", "target.eventbridgeParameters", "target.sagemakerPipelineParameters"),
	MeansNothing(describesAWS, "description", "groupName", "kmsKeyArn"),
	// Terraform has these besides.
	MeansNothing("the provider makes a name of it, which is in a state; without one the name is that of the resource", "namePrefix"),
	Drops("actionAfterCompletion", "a schedule that is over stays", "`podtask schedule rm NAME` removes it", "NONE"),
	MeansNothing(describesAWS, "id", "arn", "region", "creationDate", "lastModificationDate"),
)

// Due is the time at which a task is started on AWS, its values without functions.
type Due struct {
	At         *doctree.Node // the place of the schedule
	Expression string
	Zone       string
	// state, start and end may be nil, as the count of tasks and the overrides.
	State, Start, End *doctree.Node
	Count, Input      *doctree.Node
	Pattern           *doctree.Node // of events that start it
}

// AddDue adds the schedule of a task, and notes what it says that one of podtask does not.
func (r *Reader) AddDue(res *Result, d Due) {
	if d.Pattern != nil && !d.Pattern.Empty() {
		m := RuleMembers.all().rows["eventPattern"]
		r.Lose(d.Pattern, "eventPattern: "+m.Why, m.Fix)
	}
	switch n, ok := IntOf(d.Count); {
	case ok && n > 1:
		r.Lose(d.Count, fmt.Sprintf("the schedule starts %d tasks: one is started here", n), "make as many schedules")
	case !ok && d.Count != nil && !d.Count.Empty():
		r.Wrong(d.Count, "the number of tasks is a whole number, not "+doctree.Quote(TextOf(d.Count)), "")
	}
	if t := strings.TrimSpace(TextOf(d.Input)); t != "" && t != "{}" {
		r.Lose(d.Input, "the overrides of the target are not applied", "write them into a file, and give it to podtask schedule create with --override")
	}
	if d.Expression == "" && d.Pattern != nil && !d.Pattern.Empty() {
		return
	}
	paused := r.over(res, d)
	if t := strings.ToUpper(TextOf(d.State)); t != "" && !strings.HasPrefix(t, "ENABLED") {
		if t != "DISABLED" {
			r.Wrong(d.State, "state is ENABLED or DISABLED, not "+doctree.Quote(t), "")
		}
		paused = true
	}
	r.AddSchedule(res, d, paused)
}

// over notes the dates of a schedule, and reports whether it is paused because of them.
func (r *Reader) over(res *Result, d Due) (paused bool) {
	date := func(n *doctree.Node, member string) (time.Time, bool) {
		text := TextOf(n)
		if text == "" {
			return time.Time{}, false
		}
		for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02"} {
			if t, err := time.Parse(layout, text); err == nil {
				return t, true
			}
		}
		r.Wrong(n, member+": "+doctree.Quote(text)+" is no date such as 2030-01-31T00:00:00Z", "")
		return time.Time{}, false
	}
	if t, ok := date(d.Start, "startDate"); ok && t.After(r.Now) {
		paused = true
		r.Lose(d.Start, "startDate "+TextOf(d.Start)+": a schedule has no beginning here, so it is created paused", "`podtask schedule resume "+res.Name+"` then")
	}
	if t, ok := date(d.End, "endDate"); ok && t.After(r.Now) {
		r.Lose(d.End, "endDate "+TextOf(d.End)+": a schedule has no end here", "`podtask schedule rm "+res.Name+"` then")
	} else if ok {
		paused = true
		r.Lose(d.End, "endDate "+TextOf(d.End)+" has passed: on AWS it starts nothing anymore, so it is created paused", "`podtask schedule resume "+res.Name+"` starts it again")
	}
	if t, once := calendar.Once(d.Expression); once && t.Add(r.zoneSlack(d.Zone)).Before(r.Now) {
		paused = true
		r.Lose(d.At, d.Expression+" has passed: on AWS it starts nothing anymore, so it is created paused", "`podtask schedule rm "+res.Name+"` removes it; another time is written with --at")
	}
	return paused
}

// zoneSlack is by how much a time in a zone may be later than the same time in UTC.
func (r *Reader) zoneSlack(zone string) time.Duration {
	if zone == "" || zone == "UTC" {
		return 0
	}
	return 12 * time.Hour
}

// AddSchedule adds a time at which the task is due, an expression of EventBridge.
func (r *Reader) AddSchedule(res *Result, d Due, paused bool) {
	name := res.Name
	if len(res.Schedules) > 0 {
		name += "-" + strconv.Itoa(len(res.Schedules)+1)
	}
	s := Schedule{Name: name, Flags: []string{"--at", d.Expression}}
	if d.Zone != "" {
		s.Flags = append(s.Flags, "--timezone", d.Zone)
	}
	if paused {
		s.Flags = append(s.Flags, "--paused")
	}
	if d.Expression == "" {
		r.Wrong(d.At, "the schedule has no expression", "")
		return
	}
	if _, err := calendar.EventBridge(d.Expression); err != nil {
		r.Lose(d.At, "a schedule: "+err.Error(), "write other times with podtask schedule create --at")
		return
	}
	res.Schedules = append(res.Schedules, s)
}
