package awsapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
	"github.com/podtask/podtask/internal/engine/facts/arn"
	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef"
)

// deploymentMembers lists the members of deploymentConfiguration.
var deploymentMembers = under("deploymentConfiguration",
	"strategy", "bakeTimeInMinutes", "maximumPercent", "minimumHealthyPercent",
	"linearConfiguration", "linearConfiguration.stepPercent", "linearConfiguration.stepBakeTimeInMinutes",
	"canaryConfiguration", "canaryConfiguration.canaryPercent", "canaryConfiguration.canaryBakeTimeInMinutes",
	"lifecycleHooks", "lifecycleHooks[].hookTargetArn", "lifecycleHooks[].roleArn", "lifecycleHooks[].lifecycleStages", "lifecycleHooks[].targetType", "lifecycleHooks[].hookDetails",
	"lifecycleHooks[].timeoutConfiguration", "lifecycleHooks[].timeoutConfiguration.action", "lifecycleHooks[].timeoutConfiguration.timeoutInMinutes",
	"deploymentCircuitBreaker", "deploymentCircuitBreaker.enable", "deploymentCircuitBreaker.rollback", "deploymentCircuitBreaker.resetOnHealthyTask",
	"deploymentCircuitBreaker.thresholdConfiguration", "deploymentCircuitBreaker.thresholdConfiguration.type", "deploymentCircuitBreaker.thresholdConfiguration.value",
	"earlySuccessCriteria", "earlySuccessCriteria.enable", "earlySuccessCriteria.healthyPercent", "earlySuccessCriteria.sourceServiceRevisionCleanup",
	"alarms", "alarms.alarmNames", "alarms.enable", "alarms.rollback",
)

// under are honored members inside of another one, and that one.
func under(path string, names ...string) []protocol.Member {
	all := []string{path}
	for _, name := range names {
		all = append(all, path+"."+name)
	}
	return protocol.Honor(all...)
}

// deploymentIn is deploymentConfiguration in requests. What is nil was not given.
type deploymentIn struct {
	Strategy string         `json:"strategy"`
	Bake     *int           `json:"bakeTimeInMinutes"`
	Maximum  *int           `json:"maximumPercent"`
	Minimum  *int           `json:"minimumHealthyPercent"`
	Linear   *linearConfig  `json:"linearConfiguration"`
	Canary   *canaryConfig  `json:"canaryConfiguration"`
	Hooks    []hookConfig   `json:"lifecycleHooks"`
	Breaker  *breakerConfig `json:"deploymentCircuitBreaker"`
	Early    *earlyConfig   `json:"earlySuccessCriteria"`
	Alarms   *alarmsConfig  `json:"alarms"`
}

// The members of deploymentConfiguration, in requests and in answers. In requests what is nil was not given.
type (
	linearConfig struct {
		Percent *float64 `json:"stepPercent"`
		Bake    *int     `json:"stepBakeTimeInMinutes"`
	}
	canaryConfig struct {
		Percent *float64 `json:"canaryPercent"`
		Bake    *int     `json:"canaryBakeTimeInMinutes"`
	}
	hookConfig struct {
		Target  string          `json:"hookTargetArn,omitempty"`
		Role    string          `json:"roleArn,omitempty"`
		Stages  []service.Stage `json:"lifecycleStages"`
		Type    string          `json:"targetType"`
		Details json.RawMessage `json:"hookDetails,omitempty"`
		Timeout *timeoutConfig  `json:"timeoutConfiguration,omitempty"`
	}
	timeoutConfig struct {
		Action  string `json:"action"`
		Minutes *int   `json:"timeoutInMinutes"`
	}
	breakerConfig struct {
		Enable    bool             `json:"enable"`
		Rollback  bool             `json:"rollback"`
		Reset     *bool            `json:"resetOnHealthyTask"`
		Threshold *thresholdConfig `json:"thresholdConfiguration,omitempty"`
	}
	thresholdConfig struct {
		Type  string `json:"type"`
		Value *int   `json:"value"`
	}
	earlyConfig struct {
		Enable  *bool  `json:"enable"`
		Percent *int   `json:"healthyPercent,omitempty"`
		Cleanup string `json:"sourceServiceRevisionCleanup,omitempty"`
	}
	alarmsConfig struct {
		Names    []string `json:"alarmNames"`
		Enable   bool     `json:"enable"`
		Rollback bool     `json:"rollback"`
	}
)

const (
	inDeployment = "deploymentConfiguration."
	// The limits of ECS. Times are in minutes.
	maxBake, maxLambdaTime, maxPauseTime = 1440, 1440, 20160
	// maxHooks is the most hooks of a type.
	maxHooks = 10
)

// apply changes a configuration as the request says. As on ECS, what it leaves out stays; of
// the circuit breaker that is resetOnHealthyTask and the threshold; of steps and timeouts what is
// left out gets its default; a list of hooks replaces the one before. All problems are in the error.
func (in deploymentIn) apply(c service.Config) (service.Config, error) {
	var errs []error
	c.Bounds = c.Bounds.Override(in.Minimum, in.Maximum)
	if b := in.Breaker; b != nil {
		c.Breaker.Enable, c.Breaker.Rollback = b.Enable, b.Rollback
		if b.Reset != nil {
			c.Breaker.Cumulative = !*b.Reset
		}
		if b.Threshold != nil {
			threshold, err := b.Threshold.read()
			c.Breaker.Threshold, errs = threshold, append(errs, err)
		}
	}
	m := &c.Method
	errs = append(errs, in.shift(m))
	if in.Bake != nil {
		errs = append(errs, protocol.Within(inDeployment+"bakeTimeInMinutes", in.Bake, 0, maxBake))
		m.Bake = minutes(*in.Bake)
	}
	if in.Hooks != nil {
		hooks, err := readHooks(in.Hooks)
		m.Hooks, errs = hooks, append(errs, err)
	}
	if in.Early != nil {
		early, err := in.Early.read()
		m.Early, errs = early, append(errs, err)
	}
	if rolls(*m) {
		least := 100
		if c.Bounds != nil {
			least = c.Bounds.MinimumHealthyPercent
		}
		if m.Early.Enable && m.Early.HealthyPercent < least {
			errs = append(errs, protocol.Invalidf(inDeployment+"earlySuccessCriteria.healthyPercent: %d is less than minimumHealthyPercent, %d", m.Early.HealthyPercent, least))
		}
	} else if m.Early.Enable {
		errs = append(errs, protocol.Invalidf(inDeployment+"earlySuccessCriteria is for the strategy ROLLING, not %s", m.Strategy))
	}
	if a := in.Alarms; a != nil {
		m.Alarms = service.Alarms{Enable: a.Enable, Rollback: a.Rollback}
		for i, name := range a.Names {
			if name == "" || slices.Contains(a.Names[:i], name) {
				errs = append(errs, protocol.Invalidf(inDeployment+"alarms.alarmNames: %q is empty, or there twice", protocol.Shortened(name)))
			}
			m.Alarms.Alarms = append(m.Alarms.Alarms, service.Alarm{Name: name, Target: service.HookTarget{Kind: service.HookLambda, Value: name}})
		}
		if a.Enable && len(a.Names) == 0 {
			errs = append(errs, protocol.Invalidf(inDeployment+"alarms.alarmNames: alarms are enabled, and none is named"))
		}
	}
	return c, joined(errs)
}

// joined makes one InvalidParameterException of several.
func joined(errs []error) error {
	var texts []string
	for _, err := range errs {
		var f *protocol.Failure
		switch {
		case err == nil:
		case errors.As(err, &f):
			texts = append(texts, f.Message)
		default:
			texts = append(texts, err.Error())
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return protocol.Invalidf("%s", strings.Join(texts, "; "))
}

func minutes(n int) time.Duration { return taskdef.Span(n, time.Minute) }

func inMinutes(d time.Duration) int { return int(d / time.Minute) }

func rolls(m service.Method) bool { return m.Strategy == "" || m.Strategy == service.Rolling }

// shift sets the strategy and its steps.
func (in deploymentIn) shift(m *service.Method) error {
	before := m.Strategy
	var errs []error
	if in.Strategy != "" {
		errs = append(errs, protocol.OneOf(inDeployment+"strategy", in.Strategy, "ROLLING", "BLUE_GREEN", "LINEAR", "CANARY"))
		if m.Strategy = service.Strategy(in.Strategy); m.Strategy == service.Rolling {
			m.Strategy = "" // what a service has that never said
		}
	}
	if m.Strategy != before {
		m.Step = map[service.Strategy]service.Increment{service.Linear: service.LinearStep, service.Canary: service.CanaryStep}[m.Strategy]
	}
	strategy := cmp.Or(m.Strategy, service.Rolling)
	if l := in.Linear; l != nil {
		const path = inDeployment + "linearConfiguration"
		if m.Strategy != service.Linear {
			return joined(append(errs, protocol.Invalidf("%s is for the strategy LINEAR, not %s", path, strategy)))
		}
		m.Step = service.LinearStep
		errs = append(errs, part(path+".stepPercent", l.Percent, 3, &m.Step), stepBake(path+".stepBakeTimeInMinutes", l.Bake, &m.Step))
	}
	if c := in.Canary; c != nil {
		const path = inDeployment + "canaryConfiguration"
		if m.Strategy != service.Canary {
			return joined(append(errs, protocol.Invalidf("%s is for the strategy CANARY, not %s", path, strategy)))
		}
		m.Step = service.CanaryStep
		errs = append(errs, part(path+".canaryPercent", c.Percent, 0.1, &m.Step), stepBake(path+".canaryBakeTimeInMinutes", c.Bake, &m.Step))
	}
	return joined(errs)
}

// part sets the part of a step from a percentage in tenths.
func part(path string, percent *float64, least float64, step *service.Increment) error {
	if percent == nil {
		return nil
	}
	tenths := math.Round(*percent * 10)
	if *percent < least || *percent > 100 || math.Abs(tenths-*percent*10) > 1e-6 {
		return protocol.Invalidf("%s: %v is not a multiple of 0.1 from %.1f to 100.0", path, *percent, least)
	}
	step.Part = service.Permille(tenths)
	return nil
}

func stepBake(path string, given *int, step *service.Increment) error {
	if given != nil {
		step.Bake = minutes(*given)
	}
	return protocol.Within(path, given, 0, maxBake)
}

func (in thresholdConfig) read() (t service.Threshold, err error) {
	const path = inDeployment + "deploymentCircuitBreaker.thresholdConfiguration."
	if in.Type == "" {
		return t, protocol.Invalidf("%stype is required", path)
	}
	if in.Value == nil {
		return t, protocol.Invalidf("%svalue is required", path)
	}
	most := 100
	if in.Type == string(service.ThresholdCount) {
		most = math.MaxInt32
	}
	t = service.Threshold{Type: service.ThresholdType(in.Type), Value: *in.Value}
	return t, joined([]error{
		protocol.OneOf(path+"type", in.Type, string(service.ThresholdCount), string(service.BoundedPercent), string(service.UnboundedPercent)), protocol.Within(path+"value", in.Value, 1, most),
	})
}

func (in earlyConfig) read() (e service.EarlySuccess, err error) {
	const path = inDeployment + "earlySuccessCriteria."
	if in.Enable == nil {
		return e, protocol.Invalidf("%senable is required", path)
	}
	var errs []error
	if *in.Enable && in.Percent == nil {
		errs = append(errs, protocol.Invalidf("%shealthyPercent is required", path))
	}
	if *in.Enable && in.Cleanup == "" {
		errs = append(errs, protocol.Invalidf("%ssourceServiceRevisionCleanup is required", path))
	}
	errs = append(errs, protocol.Within(path+"healthyPercent", in.Percent, 0, 100), protocol.OneOf(path+"sourceServiceRevisionCleanup", in.Cleanup, "BLOCKING", "DEFERRED"))
	e = service.EarlySuccess{Enable: *in.Enable, Deferred: in.Cleanup == "DEFERRED"}
	if in.Percent != nil {
		e.HealthyPercent = *in.Percent
	}
	return e, joined(errs)
}

// hookStages are the stages that hooks may have, shiftStages those that are no place for a pause.
var (
	hookStages = []string{
		string(service.Reconcile), string(service.PreScaleUp), string(service.PostScaleUp), string(service.TestShift), string(service.PostTestShift),
		string(service.PreProduction), string(service.Production), string(service.PostProduction),
	}
	shiftStages = []string{string(service.TestShift), string(service.Production)}
)

var functionARN = lazy.MustCompile(`^arn:[a-z-]+:lambda:[^:]*:[^:]*:function:([A-Za-z0-9_-]+)(:[A-Za-z0-9_$-]+)?$`)

// readHooks reads lifecycleHooks. Each gets a name that no other has: that of its function.
func readHooks(all []hookConfig) (hooks []service.Hook, err error) {
	var errs []error
	hooks = []service.Hook{}
	count := make(map[service.HookKind]int)
	for i, in := range all {
		path := fmt.Sprintf("%slifecycleHooks[%d]", inDeployment, i)
		h, err := in.read(path)
		errs = append(errs, err)
		name := h.Name
		for n := 2; slices.ContainsFunc(hooks, func(o service.Hook) bool { return o.Name == h.Name }); n++ {
			h.Name = fmt.Sprintf("%s-%d", name, n)
		}
		if count[h.Target.Kind]++; count[h.Target.Kind] == maxHooks+1 {
			errs = append(errs, protocol.Invalidf("%slifecycleHooks: there are more than %d hooks of the type %s", inDeployment, maxHooks, h.Target.Kind))
		}
		hooks = append(hooks, h)
	}
	return hooks, joined(errs)
}

func (in hookConfig) read(path string) (h service.Hook, err error) {
	h = service.Hook{Name: "pause", Role: in.Role, Target: service.HookTarget{Kind: service.HookKind(cmp.Or(in.Type, string(service.HookLambda))), Value: in.Target}}
	errs := []error{protocol.OneOf(path+".targetType", in.Type, string(service.HookLambda), string(service.HookPause))}
	pause := h.Target.Kind == service.HookPause
	if len(in.Stages) == 0 {
		errs = append(errs, protocol.Invalidf("%s.lifecycleStages is required: at least one stage", path))
	}
	for i, stage := range in.Stages {
		s := string(stage)
		switch {
		case !slices.Contains(hookStages, s):
			errs = append(errs, protocol.OneOf(path+".lifecycleStages", cmp.Or(s, "-"), hookStages...))
		case slices.Contains(in.Stages[:i], stage):
			continue
		case pause && slices.Contains(shiftStages, s):
			errs = append(errs, protocol.Invalidf("%s.lifecycleStages: a PAUSE hook cannot be in %s", path, s))
		}
		h.Stages = append(h.Stages, stage)
	}
	switch found := functionARN.FindStringSubmatch(in.Target); {
	case pause && (in.Target != "" || in.Role != ""):
		errs = append(errs, protocol.Invalidf("%s: a PAUSE hook has neither hookTargetArn nor roleArn", path))
	case pause:
	case in.Target == "":
		errs = append(errs, protocol.Invalidf("%s.hookTargetArn is required", path))
	case in.Role == "":
		errs = append(errs, protocol.Invalidf("%s.roleArn is required", path))
	case found == nil:
		errs = append(errs, protocol.Invalidf("%s.hookTargetArn: %q is not the ARN of a Lambda function", path, protocol.Shortened(in.Target)))
	default:
		h.Name = found[1]
	}
	if t := in.Timeout; t != nil {
		h.Timeout, h.OnTimeout = service.DefaultHookTimeout, service.TimeoutAction(cmp.Or(t.Action, string(service.TimeoutRollback)))
		if t.Minutes != nil {
			h.Timeout = minutes(*t.Minutes)
		}
		most := maxLambdaTime
		if pause {
			most = maxPauseTime
		}
		errs = append(errs, protocol.Within(path+".timeoutConfiguration.timeoutInMinutes", t.Minutes, 1, most), protocol.OneOf(path+".timeoutConfiguration.action", t.Action, "ROLLBACK", "CONTINUE"))
	}
	if d := string(in.Details); d != "" && d != "null" {
		h.Details = in.Details
	}
	return h, joined(errs)
}

// deploymentConfigDoc is deploymentConfiguration in answers.
type deploymentConfigDoc struct {
	Breaker  breakerConfig   `json:"deploymentCircuitBreaker"`
	Maximum  int             `json:"maximumPercent"`
	Minimum  int             `json:"minimumHealthyPercent"`
	Strategy string          `json:"strategy"`
	Bake     int             `json:"bakeTimeInMinutes"`
	Linear   *linearConfig   `json:"linearConfiguration,omitempty"`
	Canary   *canaryConfig   `json:"canaryConfiguration,omitempty"`
	Hooks    []hookConfig    `json:"lifecycleHooks,omitempty"`
	Early    *earlyConfig    `json:"earlySuccessCriteria,omitempty"`
	Alarms   json.RawMessage `json:"alarms,omitempty"`
}

// configOf describes how copies are replaced. Without bounds that is within ECS's defaults.
func configOf(breaker service.Breaker, bounds *service.Bounds, m service.Method) deploymentConfigDoc {
	doc := deploymentConfigDoc{
		Breaker: breakerConfig{Enable: breaker.Enable, Rollback: breaker.Rollback, Reset: new(!breaker.Cumulative)}, Maximum: 200, Minimum: 100,
		Strategy: string(cmp.Or(m.Strategy, service.Rolling)), Bake: inMinutes(m.Bake), Alarms: alarmsOf(m.Alarms),
	}
	if t := breaker.Threshold; t.Type != "" {
		doc.Breaker.Threshold = &thresholdConfig{string(t.Type), &t.Value}
	}
	if bounds != nil {
		doc.Maximum, doc.Minimum = bounds.MaximumPercent, bounds.MinimumHealthyPercent
	}
	switch m.Strategy {
	case service.Linear:
		doc.Linear = &linearConfig{new(m.Step.Part.Percent()), new(inMinutes(m.Step.Bake))}
	case service.Canary:
		doc.Canary = &canaryConfig{new(m.Step.Part.Percent()), new(inMinutes(m.Step.Bake))}
	}
	for _, h := range m.Hooks {
		doc.Hooks = append(doc.Hooks, hookOf(h))
	}
	if e := m.Early; e != (service.EarlySuccess{}) {
		doc.Early = &earlyConfig{Enable: &e.Enable}
		if e.Enable {
			doc.Early.Percent, doc.Early.Cleanup = &e.HealthyPercent, "BLOCKING"
		}
		if e.Enable && e.Deferred {
			doc.Early.Cleanup = "DEFERRED"
		}
	}
	return doc
}

// targetOf is the ARN of who answers a hook; "" for a pause. What was not made through this API
// has one that no function on AWS has.
func targetOf(h service.Hook) string {
	switch h.Target.Kind {
	case service.HookPause:
		return ""
	case service.HookLambda:
		return h.Target.Value
	}
	return arn.Of("lambda", "function:"+h.Name)
}

// kindOf is the targetType of a hook.
func kindOf(h service.Hook) string {
	if h.Target.Kind == service.HookPause {
		return string(service.HookPause)
	}
	return string(service.HookLambda)
}

func hookOf(h service.Hook) hookConfig {
	doc := hookConfig{Target: targetOf(h), Role: h.Role, Stages: h.Stages, Type: kindOf(h), Details: h.Details}
	if h.Timeout != 0 || h.OnTimeout != "" {
		doc.Timeout = &timeoutConfig{string(cmp.Or(h.OnTimeout, service.TimeoutRollback)), new(max(1, inMinutes(cmp.Or(h.Timeout, service.DefaultHookTimeout))))}
	}
	return doc
}

// alarmsOf describes alarms; nil for none.
func alarmsOf(a service.Alarms) json.RawMessage {
	if !a.Enable && !a.Rollback && len(a.Alarms) == 0 {
		return nil
	}
	doc := alarmsConfig{Names: namesOf(a), Enable: a.Enable, Rollback: a.Rollback}
	data, _ := json.Marshal(doc) // of texts and flags
	return data
}

func namesOf(a service.Alarms) []string {
	names := []string{}
	for _, alarm := range a.Alarms {
		names = append(names, alarm.Name)
	}
	return names
}
