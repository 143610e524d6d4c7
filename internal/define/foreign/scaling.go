package foreign

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// scaler collects what a file says of the number of copies of a service, for `podtask service scaling`.
type scaler struct {
	*reader
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
	return single(n.Member(snake(key)))
}

// bounds takes over a minimum and a maximum. Without a maximum nothing scales.
func (s *scaler) bounds(at, least, most *doctree.Node) bool {
	_, known := intOf(most)
	if !known {
		s.lose(at, "the maximum of copies is not known: "+fixedCopies, followLoad)
		return false
	}
	if n, is := intOf(least); is {
		s.set = append(s.set, "--min", strconv.Itoa(n))
	}
	s.set = append(s.set, "--max", textOf(most))
	return true
}

// target adds a target of one of the flags of `podtask service scaling set`. A flag that is there already is lost.
func (s *scaler) target(at *doctree.Node, flag, value string, onlyOut bool) {
	if slices.Contains(s.set, flag) {
		s.lose(at, "a second target of "+strings.TrimPrefix(flag, "--"), "")
		return
	}
	s.set = append(s.set, flag, value)
	s.onlyOut = append(s.onlyOut, onlyOut)
}

// cooldown keeps the longest cool-down: those of all targets are the same here.
func (s *scaler) cooldown(flag string, n *doctree.Node) {
	seconds, known := intOf(n)
	if !known {
		return
	}
	if before, given := s.cooldowns[flag]; given && before != seconds {
		s.lose(n, "targets have different cool-downs: the longest one counts for all", "")
	}
	if s.cooldowns == nil {
		s.cooldowns = map[string]int{}
	}
	s.cooldowns[flag] = max(s.cooldowns[flag], seconds)
}

// policy takes over a policy of Application Auto Scaling.
func (s *scaler) policy(p *doctree.Node) {
	title := "scaling policy " + doctree.Quote(textOf(part(p, "PolicyName"))+textOf(p.Member("name")))
	c := part(p, "TargetTrackingScalingPolicyConfiguration")
	if c == nil {
		s.lose(p, title+": steps follow an alarm of CloudWatch, and there is none here", followLoad)
		return
	}
	metric := textOf(part(part(c, "PredefinedMetricSpecification"), "PredefinedMetricType"))
	flag := map[string]string{
		"ECSServiceAverageCPUUtilization": "--cpu", "ECSServiceAverageMemoryUtilization": "--memory", "ALBRequestCountPerTarget": "--requests",
	}[metric]
	value := textOf(part(c, "TargetValue"))
	if number, err := strconv.ParseFloat(value, 64); flag == "" || err != nil || number <= 0 {
		s.lose(c, title+": its metric of CloudWatch is not known here", followLoad)
		return
	}
	s.target(p, flag, value, isTrue(part(c, "DisableScaleIn")))
	s.cooldown("--cooldown-out", part(c, "ScaleOutCooldown"))
	s.cooldown("--cooldown-in", part(c, "ScaleInCooldown"))
}

// action takes over a scheduled action.
func (s *scaler) action(a *doctree.Node) {
	bounds := part(a, "ScalableTargetAction")
	name := textOf(part(a, "ScheduledActionName")) + textOf(a.Member("name"))
	words := []string{name, textOf(part(a, "Schedule"))}
	for _, b := range []struct{ key, flag string }{{"MinCapacity", "--min"}, {"MaxCapacity", "--max"}} {
		if n, known := intOf(part(bounds, b.key)); known && n >= 0 {
			words = append(words, b.flag, strconv.Itoa(n))
		}
	}
	if zone := textOf(part(a, "Timezone")); zone != "" && !strings.EqualFold(zone, "UTC") {
		words = append(words, "--timezone", zone)
	}
	if name == "" || words[1] == "" || len(words) == 2 {
		s.lose(a, "scheduled action "+doctree.Quote(name)+": its time or its bounds are not known", "podtask service scaling at SERVICE NAME TIME --min NUMBER")
		return
	}
	for _, key := range []string{"StartTime", "EndTime"} {
		if at := part(a, key); at != nil {
			s.lose(at, "scheduled action "+doctree.Quote(name)+": "+key, "podtask service scaling at SERVICE NAME --rm ends it")
		}
	}
	s.actions = append(s.actions, words)
}

// service gives a service what was collected.
func (s *scaler) service(svc *Service) {
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

// horizontal takes over a HorizontalPodAutoscaler.
func (s *scaler) horizontal(title string, spec *doctree.Node) {
	if !s.bounds(spec, spec.Member("minReplicas"), spec.Member("maxReplicas")) {
		return
	}
	if v := spec.Member("targetCPUUtilizationPercentage"); v != nil {
		s.target(v, "--cpu", textOf(v), false)
	}
	for _, m := range items(spec.Member("metrics")) {
		resource := m.Member("resource")
		flag := map[string]string{"cpu": "--cpu", "memory": "--memory"}[textOf(resource.Member("name"))]
		value := textOf(resource.Member("target").Member("averageUtilization"))
		if flag == "" || value == "" {
			s.lose(m, title+": a metric of type "+textOf(m.Member("type"))+" is not known here", followLoad)
			continue
		}
		s.target(m, flag, value, false)
	}
	if len(s.onlyOut) > 0 {
		s.lose(spec, title+": a percentage is that of the limit of a copy here, if it has one, and not of its request", "")
	}
	if b := spec.Member("behavior"); b != nil {
		s.lose(b, title+".behavior: copies are added after a minute above a target, and removed after 15 minutes below", "--cooldown-in and --cooldown-out of podtask service scaling set")
	}
}
