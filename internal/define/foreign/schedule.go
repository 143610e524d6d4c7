package foreign

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
	oneHost      = "all tasks run on this host"
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
		honored(ecs, ecs+".taskDefinitionArn"),
		noMeaning("it names the cluster and the role of AWS", in("arn", "roleArn")...),
		dropped(before+"retryPolicy", "AWS tries again to start a task; here a start that fails is not repeated", "--catch-up makes up for times at which the host was off"),
		dropped(before+"deadLetterConfig", "no queue is told of starts that fail", "`podtask schedule history NAME` lists them"),
		droppedSometimes(before+"input", "the overrides of the target are not applied", "write them into a file, and give it to podtask schedule create with --override"),
		noMeaning(otherTarget, in("kinesisParameters", "sqsParameters", "sageMakerPipelineParameters")...),
		droppedSometimes(ecs+".taskCount", "one task is started at a time", "make as many schedules"),
		dropped(ecs+".networkConfiguration", noSubnets, publishFix),
		dropped(ecs+".placementConstraints", oneHost, ""),
		noMeaning(oneHost, inECS("capacityProviderStrategy", "launchType", "placementStrategy", "platformVersion")...),
		noMeaning("podtask labels tasks itself, and `podtask exec` always works", inECS("enableECSManagedTags", "enableExecuteCommand", "group", "propagateTags", "referenceId")...),
		dropped(ecs+".tags", "tags of the started tasks: write them into the definition", ""),
	)
}

// ruleMembers decides about AWS::Events::Rule, and about aws_cloudwatch_event_rule with its targets.
var ruleMembers = newTable(
	honored("name", "scheduleExpression", "state", "targets", "targets.id"),
	startMembers("targets.", "targets.ecsParameters"),
	droppedSometimes("eventPattern", "on AWS events start the task; here nothing watches for them", "start it with `podtask run` from what notices the event"),
	dropped("targets.inputPath", "a task gets no event", ""),
	dropped("targets.inputTransformer", "a task gets no event", "write fixed overrides into a file, and give it to podtask schedule create with --override"),
	dropped("targets.ecsParameters.tagList", "tags of the started tasks: write them into the definition", ""),
	noMeaning(oneHost, "targets.ecsParameters.placementStrategies"),
	noMeaning(otherTarget, "targets.appSyncParameters", "targets.batchParameters", "targets.httpParameters", "targets.redshiftDataParameters", "targets.runCommandParameters"),
	noMeaning(describesAWS, "description", "eventBusName", "roleArn", "tags"),
	// Terraform spells these differently, and has them besides.
	honored("isEnabled", "targets.rule", "targets.targetId"),
	noMeaning("the provider makes a name of it, which is in a state; without one the name is that of the resource", "namePrefix"),
	dropped("targets.ecsParameters.placementConstraint", oneHost, ""),
	noMeaning(oneHost, "targets.ecsParameters.orderedPlacementStrategy"),
	noMeaning(otherTarget, "targets.appsyncTarget", "targets.batchTarget", "targets.httpTarget", "targets.kinesisTarget", "targets.redshiftTarget", "targets.runCommandTargets", "targets.sagemakerPipelineTarget", "targets.sqsTarget"),
	noMeaning(describesAWS, "id", "arn", "region", "tagsAll", "forceDestroy", "targets.region", "targets.eventBusName", "targets.forceDestroy"),
)

// scheduleMembers decides about AWS::Scheduler::Schedule and aws_scheduler_schedule.
var scheduleMembers = newTable(
	honored("name", "scheduleExpression", "scheduleExpressionTimezone", "state", "target", "flexibleTimeWindow"),
	startMembers("target.", "target.ecsParameters"),
	droppedSometimes("startDate", "a schedule has no beginning here: one that has not begun is created paused", "`podtask schedule resume NAME` begins it"),
	droppedSometimes("endDate", "a schedule has no end here: one that has ended is created paused", "`podtask schedule rm NAME` ends it"),
	dropped("flexibleTimeWindow.mode", "the task is started at the exact time, and not within a window", "", "OFF"),
	noMeaning("flexibleTimeWindow.mode decides", "flexibleTimeWindow.maximumWindowInMinutes"),
	noMeaning(otherTarget, "target.eventBridgeParameters", "target.eventbridgeParameters", "target.sagemakerPipelineParameters"),
	noMeaning(describesAWS, "description", "groupName", "kmsKeyArn"),
	// Terraform has these besides.
	noMeaning("the provider makes a name of it, which is in a state; without one the name is that of the resource", "namePrefix"),
	dropped("actionAfterCompletion", "a schedule that is over stays", "`podtask schedule rm NAME` removes it", "NONE"),
	noMeaning(describesAWS, "id", "arn", "region", "creationDate", "lastModificationDate"),
)

// due is when a task is started on AWS, its values without functions.
type due struct {
	at         *doctree.Node // the place of the schedule
	expression string
	zone       string
	// state, start and end may be nil, as the count of tasks and the overrides.
	state, start, end *doctree.Node
	count, input      *doctree.Node
	pattern           *doctree.Node // of events that start it
}

// due adds the schedule of a task, and notes what it says that one of podtask does not.
func (r *reader) due(res *Result, d due) {
	if d.pattern != nil && !d.pattern.Empty() {
		m := ruleMembers.rows["eventPattern"]
		r.lose(d.pattern, "eventPattern: "+m.Why, m.Fix)
	}
	switch n, ok := intOf(d.count); {
	case ok && n > 1:
		r.lose(d.count, fmt.Sprintf("the schedule starts %d tasks: one is started here", n), "make as many schedules")
	case !ok && d.count != nil && !d.count.Empty():
		r.wrong(d.count, "the number of tasks is a whole number, not "+doctree.Quote(textOf(d.count)), "")
	}
	if t := strings.TrimSpace(textOf(d.input)); t != "" && t != "{}" {
		r.lose(d.input, "the overrides of the target are not applied", "write them into a file, and give it to podtask schedule create with --override")
	}
	if d.expression == "" && d.pattern != nil && !d.pattern.Empty() {
		return
	}
	paused := r.over(res, d)
	if t := strings.ToUpper(textOf(d.state)); t != "" && !strings.HasPrefix(t, "ENABLED") {
		if t != "DISABLED" {
			r.wrong(d.state, "state is ENABLED or DISABLED, not "+doctree.Quote(t), "")
		}
		paused = true
	}
	r.schedule(res, d, paused)
}

// over notes the dates of a schedule, and reports whether it is paused because of them.
func (r *reader) over(res *Result, d due) (paused bool) {
	date := func(n *doctree.Node, member string) (time.Time, bool) {
		text := textOf(n)
		if text == "" {
			return time.Time{}, false
		}
		for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02"} {
			if t, err := time.Parse(layout, text); err == nil {
				return t, true
			}
		}
		r.wrong(n, member+": "+doctree.Quote(text)+" is no date such as 2030-01-31T00:00:00Z", "")
		return time.Time{}, false
	}
	if t, ok := date(d.start, "startDate"); ok && t.After(r.Now) {
		paused = true
		r.lose(d.start, "startDate "+textOf(d.start)+": a schedule has no beginning here, so it is created paused", "`podtask schedule resume "+res.Name+"` then")
	}
	if t, ok := date(d.end, "endDate"); ok && t.After(r.Now) {
		r.lose(d.end, "endDate "+textOf(d.end)+": a schedule has no end here", "`podtask schedule rm "+res.Name+"` then")
	} else if ok {
		paused = true
		r.lose(d.end, "endDate "+textOf(d.end)+" has passed: on AWS it starts nothing anymore, so it is created paused", "`podtask schedule resume "+res.Name+"` starts it again")
	}
	if t, once := calendar.Once(d.expression); once && t.Add(r.zoneSlack(d.zone)).Before(r.Now) {
		paused = true
		r.lose(d.at, d.expression+" has passed: on AWS it starts nothing anymore, so it is created paused", "`podtask schedule rm "+res.Name+"` removes it; another time is written with --at")
	}
	return paused
}

// zoneSlack is by how much a time in a zone may be later than the same time in UTC.
func (r *reader) zoneSlack(zone string) time.Duration {
	if zone == "" || zone == "UTC" {
		return 0
	}
	return 12 * time.Hour
}

// schedule adds a time at which the task is due, an expression of EventBridge.
func (r *reader) schedule(res *Result, d due, paused bool) {
	name := res.Name
	if len(res.Schedules) > 0 {
		name += "-" + strconv.Itoa(len(res.Schedules)+1)
	}
	s := Schedule{Name: name, Flags: []string{"--at", d.expression}}
	if d.zone != "" {
		s.Flags = append(s.Flags, "--timezone", d.zone)
	}
	if paused {
		s.Flags = append(s.Flags, "--paused")
	}
	if d.expression == "" {
		r.wrong(d.at, "the schedule has no expression", "")
		return
	}
	if _, err := calendar.EventBridge(d.expression); err != nil {
		r.lose(d.at, "a schedule: "+err.Error(), "write other times with podtask schedule create --at")
		return
	}
	res.Schedules = append(res.Schedules, s)
}
