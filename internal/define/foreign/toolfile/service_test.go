package toolfile

import (
	"strings"
	"testing"

	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// parsed returns the value of a text in YAML, and the reader that has read it.
func parsed(t *testing.T, text string) (*doctree.Node, *Reader) {
	t.Helper()
	r := NewReader(Request{File: "f.yaml"})
	docs, ok := r.Parse("f.yaml", []byte(text))
	if !ok {
		t.Fatal(r.Err())
	}
	return docs[0], r
}

func lost(r *Reader) string {
	var all []string
	for _, l := range r.Losses {
		all = append(all, l.Message)
	}
	return strings.Join(all, "\n")
}

func TestAServiceBecomesFlags(t *testing.T) {
	t.Parallel()
	deployment := func(members string) string { return "deploymentConfiguration: {" + members + "}" }
	breaker := func(members string) string { return deployment("deploymentCircuitBreaker: {" + members + "}") }
	for _, tc := range []struct{ rule, service, want, lost string }{
		{"a service without a count has one copy", "a: b", "--count 1", ""},
		{"no copies are a number, too", "desiredCount: 0", "--count 0", ""},
		{"a number may be a text", "desiredCount: '3'", "--count 3", ""},
		{"a daemon has one copy", "{desiredCount: 3, schedulingStrategy: DAEMON}", "--count 1", "schedulingStrategy DAEMON: one copy runs on this host, and on no other"},
		{"a grace period of 0 is none", "healthCheckGracePeriodSeconds: 0", "--count 1", ""},
		{"a grace period is seconds", "healthCheckGracePeriodSeconds: 30", "--count 1 --health-grace 30s", ""},
		{"the controller of CodeDeploy is lost", "deploymentController: {type: CODE_DEPLOY}", "--count 1", "deploymentController CODE_DEPLOY: podtask replaces the copies itself"},
		{"percents bound a deployment", deployment("minimumHealthyPercent: 50, maximumPercent: 150"), "--count 1 --min-healthy 50 --max 150", ""},
		{"rolling has no strategy, and no time to bake", deployment("strategy: ROLLING, bakeTimeInMinutes: 5"), "--count 1", ""},
		{"blue and green have a dash", deployment("strategy: BLUE_GREEN, bakeTimeInMinutes: 5"), "--count 1 --strategy blue-green --bake 5m", ""},
		{"canaries have a percent and a time", deployment("strategy: CANARY, canaryConfiguration: {canaryPercent: 10, canaryBakeTimeInMinutes: 3}"), "--count 1 --strategy canary --canary-percent 10 --canary-bake 3m", ""},
		{"alarms that are on are lost", deployment("alarms: {enable: true, alarmNames: [a]}"), "--count 1", "deploymentConfiguration.alarms: no alarm of CloudWatch is asked here"},
		{"alarms that are off are not", deployment("alarms: {enable: false, alarmNames: [a]}"), "--count 1", ""},
		{"an early success has a percent", deployment("earlySuccessCriteria: {enable: true, healthyPercent: 80, sourceServiceRevisionCleanup: DEFERRED}"), "--count 1 --early-success 80 --early-deferred", ""},
		{"an early success that is off has none", deployment("earlySuccessCriteria: {enable: false, healthyPercent: 80}"), "--count 1", ""},
		{"a breaker that rolls back is what a service does", breaker("enable: true, rollback: true"), "--count 1", ""},
		{"a breaker without rollback is a flag", breaker("enable: true, rollback: false"), "--count 1 --no-rollback", ""},
		{"a breaker that is off is lost", breaker("enable: false"), "--count 1", "deploymentConfiguration.deploymentCircuitBreaker.enable: a deployment that fails is given up here in any case"},
		{"a breaker may count all failures", breaker("enable: true, rollback: true, resetOnHealthyTask: false"), "--count 1 --breaker-cumulative", ""},
		{"a percent of a breaker has a sign", breaker("enable: true, rollback: true, thresholdConfiguration: {type: BOUNDED_PERCENT, value: 20}"), "--count 1 --breaker-threshold 20%", ""},
		{"a percent without bounds has a plus", breaker("enable: true, rollback: true, thresholdConfiguration: {type: UNBOUNDED_PERCENT, value: 20}"), "--count 1 --breaker-threshold 20%+", ""},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			t.Parallel()
			n, r := parsed(t, tc.service)
			res := &Result{}
			r.AddService(res, OfNode(n), nil)
			if got := strings.Join(res.Service.Flags, " "); got != tc.want || lost(r) != tc.lost || r.Err() != nil {
				t.Errorf("%s, want %s; lost %q; %v", got, tc.want, lost(r), r.Err())
			}
		})
	}
}

func TestAServiceThatIsRefused(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ rule, service, want string }{
		{"a count below 0", "desiredCount: -1", `f.yaml:1:15: desiredCount is a whole number, not "-1"`},
		{"a count that is a text", "desiredCount: many", `desiredCount is a whole number, not "many"`},
		{"an early success without a percent", "deploymentConfiguration: {earlySuccessCriteria: {enable: true}}", `earlySuccessCriteria.healthyPercent is a whole number, not ""`},
		{"a threshold of an unknown type", "deploymentConfiguration: {deploymentCircuitBreaker: {enable: true, thresholdConfiguration: {type: SHARE, value: 1}}}", `thresholdConfiguration.type is COUNT, BOUNDED_PERCENT or UNBOUNDED_PERCENT, not "SHARE"`},
		{"a threshold without a value", "deploymentConfiguration: {deploymentCircuitBreaker: {enable: true, thresholdConfiguration: {type: COUNT}}}", `thresholdConfiguration.value is a whole number, not ""`},
	} {
		n, r := parsed(t, tc.service)
		r.AddService(&Result{}, OfNode(n), nil)
		if err := r.Err(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", tc.rule, err)
		}
	}
}

func TestAddressesOfAService(t *testing.T) {
	t.Parallel()
	const bridge = "containerDefinitions: [{name: a, portMappings: [{hostPort: 9000, containerPort: 80}]}]"
	told := func(port string) string {
		return "loadBalancers: host names, paths and certificates of the load balancer; the service listens on port " + port + " instead"
	}
	for _, tc := range []struct{ rule, service, definition, want, lost string }{
		{"a load balancer is an address with the port of the container", "loadBalancers: [{containerName: a, containerPort: 8443}]", "{networkMode: awsvpc}", "--count 1 --listen 8443=a:8443", told("8443")},
		{"a port that users may not open is moved by 8000", "loadBalancers: [{containerName: a, containerPort: 443}]", "{networkMode: awsvpc}", "--count 1 --listen 8443=a:443", told("8443")},
		{"a second load balancer has the next port, and says so", "loadBalancers: [{containerName: a, containerPort: 80}, {containerName: b, containerPort: 80}]", "{networkMode: awsvpc}", "--count 1 --listen 8080=a:80 --listen 8081=b:80", told("8080") + "\n" + told("8081")},
		{"a load balancer without a port is lost", "loadBalancers: [{containerName: a}]", "{networkMode: awsvpc}", "--count 1", "loadBalancers: a load balancer without containerName and containerPort"},
		{"one copy keeps the port of the host", "loadBalancers: [{containerName: a, containerPort: 80}]", bridge, "--count 1", told("9000")},
		{"several copies share it as an address", "{desiredCount: 2, loadBalancers: [{containerName: a, containerPort: 80}]}", bridge, "--count 2 --listen 9000=a:80", told("9000")},
		{"several copies cannot share the network of the host by an address", "{desiredCount: 2, loadBalancers: [{containerName: a, containerPort: 8443}]}", "{networkMode: host, containerDefinitions: [{name: a, portMappings: [{containerPort: 8443}]}]}", "--count 2", told("8443")},
		{"in the network of the host the port of the container is taken", "loadBalancers: [{containerName: a, containerPort: 8443}]", "{networkMode: host, containerDefinitions: [{name: a, portMappings: [{containerPort: 8443}]}]}", "--count 1", told("8443")},
		{"several copies cannot share a port of UDP", "desiredCount: 2", strings.Replace(bridge, "80}", "80, protocol: udp}", 1), "--count 2", "port 9000/udp: each copy gets a free port, because a service forwards TCP only"},
	} {
		n, r := parsed(t, tc.service)
		def, _ := parsed(t, tc.definition)
		res := &Result{}
		r.AddService(res, OfNode(n), def)
		if got := strings.Join(res.Service.Flags, " "); got != tc.want || lost(r) != tc.lost {
			t.Errorf("%s: %s; lost %q", tc.rule, got, lost(r))
		}
		if kept := strings.Contains(string(def.JSON()), "hostPort"); kept != (tc.definition == bridge && !strings.Contains(tc.service, "desiredCount")) {
			t.Errorf("%s: %s", tc.rule, def.JSON())
		}
	}
}

// What scales a service is spelled as in CloudFormation; other spellings are tested with the readers that have them.
func TestAServiceIsScaled(t *testing.T) {
	t.Parallel()
	target := func(name, metric, members string) string {
		return "{PolicyName: " + name + ", TargetTrackingScalingPolicyConfiguration: {TargetValue: 60, " + members + " PredefinedMetricSpecification: {PredefinedMetricType: " + metric + "}}}"
	}
	step := func(members string) string {
		return "{PolicyName: p, StepScalingPolicyConfiguration: {AdjustmentType: ChangeInCapacity, " + members + "}}"
	}
	const alarm = "{Namespace: AWS/ECS, MetricName: CPUUtilization, Threshold: 70, ComparisonOperator: GreaterThanThreshold}"
	const periods = `scaling policy "p": the periods of its alarm; copies are added after a minute in a step, and removed after 15 minutes`
	for _, tc := range []struct{ rule, policies, alarm, want, lost string }{
		{"a target of the CPU", "[" + target("p", "ECSServiceAverageCPUUtilization", "") + "]", "", "--cpu 60", ""},
		{"a metric of one's own is lost", "[" + target("p", "Other", "") + "]", "", "", `scaling policy "p": its metric of CloudWatch is not known here`},
		{"a second target of a metric is lost", "[" + target("p", "ALBRequestCountPerTarget", "") + ", " + target("q", "ALBRequestCountPerTarget", "") + "]", "", "--requests 60", "a second target of requests"},
		{"the longest cool-down counts for all", "[" + target("p", "ECSServiceAverageCPUUtilization", "ScaleInCooldown: 90,") + ", " + target("q", "ECSServiceAverageMemoryUtilization", "ScaleInCooldown: 60,") + "]", "", "--cpu 60 --memory 60 --cooldown-in 90s", "targets have different cool-downs: the longest one counts for all"},
		{"targets that only add copies", "[" + target("p", "ECSServiceAverageCPUUtilization", "DisableScaleIn: true,") + "]", "", "--cpu 60 --only-out", ""},
		{"one target that removes some is enough to remove them", "[" + target("p", "ECSServiceAverageCPUUtilization", "DisableScaleIn: true,") + ", " + target("q", "ECSServiceAverageMemoryUtilization", "") + "]", "", "--cpu 60 --memory 60", ""},
		{"bounds of a step count from the threshold of its alarm", "[" + step("Cooldown: 60, StepAdjustments: [{MetricIntervalLowerBound: 10, ScalingAdjustment: 2}]") + "]", alarm, "--step cpu 80..=+2 --cooldown-out 60s", periods},
		{"a step without a lower bound begins at the threshold", "[" + step("StepAdjustments: [{MetricIntervalUpperBound: 10, ScalingAdjustment: 2}]") + "]", alarm, "--step cpu 70..80=+2", periods},
		{"below a threshold a step has no lower bound", "[" + step("Cooldown: 90, StepAdjustments: [{MetricIntervalUpperBound: 0, ScalingAdjustment: -1}]") + "]", strings.Replace(alarm, "Greater", "Less", 1), "--step cpu ..70=-1 --cooldown-in 90s", periods},
		{"a step that changes nothing loses all of them", "[" + step("StepAdjustments: [{ScalingAdjustment: 1}, {ScalingAdjustment: 0}]") + "]", alarm, "", `scaling policy "p": a step that cannot be read, or that changes nothing`},
		{"steps of another metric are lost", "[" + step("StepAdjustments: [{ScalingAdjustment: 1}]") + "]", strings.Replace(alarm, "CPUUtilization", "Other", 1), "", `scaling policy "p": steps follow an alarm of CloudWatch, and none of the CPU or memory of the service is known for it`},
		{"steps without an alarm are lost", "[" + step("StepAdjustments: [{ScalingAdjustment: 1}]") + "]", "", "", `scaling policy "p": steps follow an alarm of CloudWatch, and none of the CPU or memory of the service is known for it`},
	} {
		n, r := parsed(t, tc.policies)
		var a *doctree.Node
		if tc.alarm != "" {
			a, _ = parsed(t, tc.alarm)
		}
		s, svc := Scaler{Reader: r}, &Service{}
		for _, p := range n.Items {
			s.Policy(p, a)
		}
		s.AddTo(svc)
		got := ""
		for _, c := range svc.Scaling {
			got += strings.Join(c.Words, " ")
		}
		if got != tc.want || lost(r) != tc.lost {
			t.Errorf("%s: %s; lost %q", tc.rule, got, lost(r))
		}
	}
}

func TestBoundsAndTimesOfScaling(t *testing.T) {
	t.Parallel()
	bounds := func(least, most string) (string, string) {
		n, r := parsed(t, "{least: "+least+", most: "+most+"}")
		s := Scaler{Reader: r}
		s.Bounds(n, n.Member("least"), n.Member("most"))
		return strings.Join(s.set, " "), lost(r)
	}
	for _, tc := range []struct{ rule, least, most, want, lost string }{
		{"both bounds", "1", "4", "--min 1 --max 4", ""},
		{"nothing scales without a maximum", "1", "x", "", "the maximum of copies is not known: " + FixedCopies},
	} {
		if got, lost := bounds(tc.least, tc.most); got != tc.want || lost != tc.lost {
			t.Errorf("%s: %s; lost %q", tc.rule, got, lost)
		}
	}
	for _, tc := range []struct{ rule, action, want, lost string }{
		{"a time with a bound", "{ScheduledActionName: a, Schedule: rate(1 hour), ScalableTargetAction: {MaxCapacity: 2}}", "a rate(1 hour) --max 2", ""},
		{"UTC is no time zone to name", "{ScheduledActionName: a, Schedule: x, Timezone: utc, ScalableTargetAction: {MinCapacity: 0}}", "a x --min 0", ""},
		{"a time without a bound is lost", "{ScheduledActionName: a, Schedule: rate(1 hour)}", "", `scheduled action "a": its time or its bounds are not known`},
		{"the end of an action is lost", "{ScheduledActionName: a, Schedule: x, EndTime: y, ScalableTargetAction: {MinCapacity: 1}}", "a x --min 1", `scheduled action "a": EndTime`},
	} {
		n, r := parsed(t, tc.action)
		s := Scaler{Reader: r}
		s.Action(n)
		got := ""
		for _, words := range s.actions {
			got += strings.Join(words, " ")
		}
		if got != tc.want || lost(r) != tc.lost {
			t.Errorf("%s: %s; lost %q", tc.rule, got, lost(r))
		}
	}
}

func TestAHorizontalPodAutoscaler(t *testing.T) {
	t.Parallel()
	const percents = "h: a percentage is that of the limit of a copy here, if it has one, and not of its request"
	for _, tc := range []struct{ rule, spec, want, lost string }{
		{"a percent of the CPU may be a member of its own", "{minReplicas: 1, maxReplicas: 4, targetCPUUtilizationPercentage: 70}", "--min 1 --max 4 --cpu 70", percents},
		{"metrics of resources are targets", "{maxReplicas: 4, metrics: [{type: Resource, resource: {name: memory, target: {averageUtilization: 80}}}]}", "--max 4 --memory 80", percents},
		{"an absolute value is lost", "{maxReplicas: 4, metrics: [{type: Resource, resource: {name: memory, target: {averageValue: 1Gi}}}]}", "--max 4", "h: a metric of type Resource is not known here"},
		{"speeds are lost", "{maxReplicas: 4, behavior: {scaleUp: {}}}", "--max 4", "h.behavior: copies are added after a minute above a target, and removed after 15 minutes below"},
		{"nothing follows a load without a maximum", "{targetCPUUtilizationPercentage: 70}", "", "the maximum of copies is not known: " + FixedCopies},
	} {
		n, r := parsed(t, tc.spec)
		s := Scaler{Reader: r}
		s.Horizontal("h", n)
		if got := strings.Join(s.set, " "); got != tc.want || lost(r) != tc.lost {
			t.Errorf("%s: %s; lost %q", tc.rule, got, lost(r))
		}
	}
}
