package toolfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// Scaler collects what a file says of the number of copies of a service, for `podtask service scaling`.
type Scaler struct {
	*Reader
	set       []string
	actions   [][]string
	cooldowns map[string]int // flag to the longest one, in seconds
	onlyOut   []bool         // of each target
}

// snake is a key of CloudFormation in the spelling of Terraform.
func snake(key string) string {
	var b strings.Builder
	for i, c := range key {
		if unicode.IsUpper(c) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}

// part returns a member in the spelling of CloudFormation or of Terraform; nil for none.
func part(n *doctree.Node, key string) *doctree.Node {
	if v := n.Member(key); v != nil {
		return v
	}
	return Single(n.Member(snake(key)))
}

// Bounds takes over a minimum and a maximum. Without a maximum nothing scales.
func (s *Scaler) Bounds(at, least, most *doctree.Node) bool {
	_, known := IntOf(most)
	if !known {
		s.Lose(at, "the maximum of copies is not known: "+FixedCopies, FollowLoad)
		return false
	}
	if n, is := IntOf(least); is {
		s.set = append(s.set, "--min", strconv.Itoa(n))
	}
	s.set = append(s.set, "--max", TextOf(most))
	return true
}

// target adds a target of one of the flags of `podtask service scaling set`. A flag that is there already is lost.
func (s *Scaler) target(at *doctree.Node, flag, value string, onlyOut bool) {
	if slices.Contains(s.set, flag) || slices.ContainsFunc(s.set, func(word string) bool { return strings.HasPrefix(word, flag[2:]+" ") }) {
		s.Lose(at, "a second target of "+strings.TrimPrefix(flag, "--"), "")
		return
	}
	s.set = append(s.set, flag, value)
	s.onlyOut = append(s.onlyOut, onlyOut)
}

// cooldown keeps the longest cool-down: those of all targets are the same here.
func (s *Scaler) cooldown(flag string, n *doctree.Node) {
	seconds, known := IntOf(n)
	if !known {
		return
	}
	if before, given := s.cooldowns[flag]; given && before != seconds {
		s.Lose(n, "targets have different cool-downs: the longest one counts for all", "")
	}
	if s.cooldowns == nil {
		s.cooldowns = map[string]int{}
	}
	s.cooldowns[flag] = max(s.cooldowns[flag], seconds)
}

// Policy takes over a policy of Application Auto Scaling. Alarm is the alarm of CloudWatch that executes it; nil for none.
func (s *Scaler) Policy(p, alarm *doctree.Node) {
	title := "scaling policy " + doctree.Quote(TextOf(part(p, "PolicyName"))+TextOf(p.Member("name")))
	c := part(p, "TargetTrackingScalingPolicyConfiguration")
	if c == nil {
		s.stepPolicy(title, p, alarm)
		return
	}
	metric := TextOf(part(part(c, "PredefinedMetricSpecification"), "PredefinedMetricType"))
	flag := map[string]string{
		"ECSServiceAverageCPUUtilization": "--cpu", "ECSServiceAverageMemoryUtilization": "--memory", "ALBRequestCountPerTarget": "--requests",
	}[metric]
	value := TextOf(part(c, "TargetValue"))
	if number, err := strconv.ParseFloat(value, 64); flag == "" || err != nil || number <= 0 {
		s.Lose(c, title+": its metric of CloudWatch is not known here", followOwn)
		return
	}
	s.target(p, flag, value, IsTrue(part(c, "DisableScaleIn")))
	s.cooldown("--cooldown-out", part(c, "ScaleOutCooldown"))
	s.cooldown("--cooldown-in", part(c, "ScaleInCooldown"))
}

// stepPolicy takes over a policy with steps, whose bounds are distances from the threshold of its alarm.
func (s *Scaler) stepPolicy(title string, p, alarm *doctree.Node) {
	c := part(p, "StepScalingPolicyConfiguration")
	metric := map[string]string{"CPUUtilization": "cpu", "MemoryUtilization": "memory"}[TextOf(part(alarm, "MetricName"))]
	threshold, err := strconv.ParseFloat(TextOf(part(alarm, "Threshold")), 64)
	above := strings.HasPrefix(TextOf(part(alarm, "ComparisonOperator")), "Greater")
	if c == nil || alarm == nil || metric == "" || TextOf(part(alarm, "Namespace")) != "AWS/ECS" || err != nil || slices.Contains(s.set, "--"+metric) {
		s.Lose(p, title+": steps follow an alarm of CloudWatch, and none of the CPU or memory of the service is known for it", followSteps)
		return
	}
	steps := Items(c.Member("StepAdjustments"))
	if steps == nil {
		steps = Items(c.Member("step_adjustment"))
	}
	var words []string
	for _, step := range steps {
		bound := func(key string, open bool) string {
			text := TextOf(part(step, key))
			if distance, err := strconv.ParseFloat(text, 64); err == nil {
				return strconv.FormatFloat(threshold+distance, 'f', -1, 64)
			}
			if open {
				return ""
			}
			return strconv.FormatFloat(threshold, 'f', -1, 64)
		}
		n, known := IntOf(part(step, "ScalingAdjustment"))
		change := map[string]string{"ChangeInCapacity": "%+d", "PercentChangeInCapacity": "%+d%%", "ExactCapacity": "%d"}[TextOf(part(c, "AdjustmentType"))]
		if !known || n == 0 || change == "" {
			s.Lose(c, title+": a step that cannot be read, or that changes nothing", followSteps)
			return
		}
		words = append(words, "--step", fmt.Sprintf("%s %s..%s="+change, metric, bound("MetricIntervalLowerBound", !above), bound("MetricIntervalUpperBound", above), n))
	}
	if least := TextOf(part(c, "MinAdjustmentMagnitude")); least != "" && least != "0" && !slices.Contains(s.set, "--min-adjustment") {
		words = append(words, "--min-adjustment", least)
	}
	s.set = append(s.set, words...)
	cooldown := "--cooldown-in"
	if above {
		cooldown = "--cooldown-out"
	}
	s.cooldown(cooldown, part(c, "Cooldown"))
	s.Lose(alarm, title+": the periods of its alarm; copies are added after a minute in a step, and removed after 15 minutes", "")
}

// Action takes over a scheduled action.
func (s *Scaler) Action(a *doctree.Node) {
	bounds := part(a, "ScalableTargetAction")
	name := TextOf(part(a, "ScheduledActionName")) + TextOf(a.Member("name"))
	words := []string{name, TextOf(part(a, "Schedule"))}
	for _, b := range []struct{ key, flag string }{{"MinCapacity", "--min"}, {"MaxCapacity", "--max"}} {
		if n, known := IntOf(part(bounds, b.key)); known && n >= 0 {
			words = append(words, b.flag, strconv.Itoa(n))
		}
	}
	if zone := TextOf(part(a, "Timezone")); zone != "" && !strings.EqualFold(zone, "UTC") {
		words = append(words, "--timezone", zone)
	}
	if name == "" || words[1] == "" || len(words) == 2 {
		s.Lose(a, "scheduled action "+doctree.Quote(name)+": its time or its bounds are not known", "podtask service scaling at SERVICE NAME TIME --min NUMBER")
		return
	}
	for _, key := range []string{"StartTime", "EndTime"} {
		if at := part(a, key); at != nil {
			s.Lose(at, "scheduled action "+doctree.Quote(name)+": "+key, "podtask service scaling at SERVICE NAME --rm ends it")
		}
	}
	s.actions = append(s.actions, words)
}

// AddTo gives a service what was collected.
func (s *Scaler) AddTo(svc *Service) {
	if len(s.set) == 0 {
		return
	}
	for _, flag := range []string{"--cooldown-out", "--cooldown-in"} {
		if seconds, given := s.cooldowns[flag]; given {
			s.set = append(s.set, flag, strconv.Itoa(seconds)+"s")
		}
	}
	if len(s.onlyOut) > 0 && !slices.Contains(s.onlyOut, false) {
		s.set = append(s.set, "--only-out")
	}
	svc.Scaling = append(svc.Scaling, Scaling{Verb: "set", Words: s.set})
	for _, words := range s.actions {
		svc.Scaling = append(svc.Scaling, Scaling{Verb: "at", Words: words})
	}
}

// Horizontal takes over a HorizontalPodAutoscaler.
func (s *Scaler) Horizontal(title string, spec *doctree.Node) {
	if !s.Bounds(spec, spec.Member("minReplicas"), spec.Member("maxReplicas")) {
		return
	}
	if v := spec.Member("targetCPUUtilizationPercentage"); v != nil {
		s.target(v, "--cpu", TextOf(v), false)
	}
	for _, m := range Items(spec.Member("metrics")) {
		resource := m.Member("resource")
		flag := map[string]string{"cpu": "--cpu", "memory": "--memory"}[TextOf(resource.Member("name"))]
		value := TextOf(resource.Member("target").Member("averageUtilization"))
		if flag == "" || value == "" {
			s.Lose(m, title+": a metric of type "+TextOf(m.Member("type"))+" is not known here", followOwn)
			continue
		}
		s.target(m, flag, value, false)
	}
	if len(s.onlyOut) > 0 {
		s.Lose(spec, title+": a percentage is that of the limit of a copy here, if it has one, and not of its request", "")
	}
	if b := spec.Member("behavior"); b != nil {
		s.Lose(b, title+".behavior: copies are added after a minute above a target, and removed after 15 minutes below", "--cooldown-in and --cooldown-out of podtask service scaling set")
	}
}
