package autoscaling

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
	"github.com/podtask/podtask/internal/aws/awsapi/resource"
	"github.com/podtask/podtask/internal/engine/facts/arn"
	"github.com/podtask/podtask/pkg/scaling"
)

// scalingFilters are the members of the lists of Application Auto Scaling. Their values count together.
type scalingFilters struct {
	scalable
	ResourceIDs []string `json:"ResourceIds"`
	Policies    []string `json:"PolicyNames"`
	Actions     []string `json:"ScheduledActionNames"`
	NotScaled   bool     `json:"IncludeNotScaledActivities"`
	Most        *int     `json:"MaxResults"`
	Next        string   `json:"NextToken"`
}

// scalableDoc has the members that name what scales.
type scalableDoc struct {
	ServiceNamespace  string
	ResourceId        string
	ScalableDimension string
}

// target is a service that scales, with what clients sent.
type target struct {
	scaling.State
	sent scalableRecord
}

func (t target) doc() scalableDoc {
	return scalableDoc{namespaceECS, "service/" + t.sent.Cluster + "/" + t.Service, dimensionECS}
}

// selected returns the targets that the filters name.
func (a *autoscaling) selected(in scalingFilters) (all []target, err error) {
	if _, _, err := in.check(); err != nil {
		return nil, err
	}
	states, err := a.scaling.All()
	if err != nil {
		return nil, err
	}
	for _, s := range states {
		r, err := a.record(s.Service)
		if err != nil {
			return nil, err
		}
		if cluster, _, ok := a.services.Count(s.Service); ok {
			r.Cluster = cluster
		}
		t := target{s, r}
		if id := t.doc().ResourceId; in.Resource != "" && in.Resource != id || len(in.ResourceIDs) > 0 && !slices.Contains(in.ResourceIDs, id) {
			continue
		}
		all = append(all, t)
	}
	return all, nil
}

// pageOf is a page of a list.
func pageOf[T any](operation string, in scalingFilters, keys []string, docs map[string]T) (some []T, next string, err error) {
	filters := fmt.Sprint(in.Resource, in.ResourceIDs, in.Policies, in.Actions, in.NotScaled)
	keys, next, err = protocol.Page(operation+" "+filters, protocol.Paging{MaxResults: in.Most, NextToken: in.Next}, 50, keys, strings.Compare)
	some = []T{}
	for _, k := range keys {
		some = append(some, docs[k])
	}
	return some, next, err
}

type targetDoc struct {
	scalableDoc
	MinCapacity       int
	MaxCapacity       int
	RoleARN           string
	CreationTime      protocol.Moment
	SuspendedState    suspendedDoc
	ScalableTargetARN string
}

type suspendedDoc struct {
	DynamicScalingInSuspended  bool
	DynamicScalingOutSuspended bool
	ScheduledScalingSuspended  bool
}

func (a *autoscaling) describeTargets(_ context.Context, in scalingFilters, _ protocol.Fields) (any, error) {
	all, err := a.selected(in)
	if err != nil {
		return nil, err
	}
	docs, keys := map[string]targetDoc{}, []string{}
	for _, t := range all {
		key := t.doc().ResourceId
		keys = append(keys, key)
		docs[key] = targetDoc{
			scalableDoc: t.doc(), MinCapacity: t.Config.Min, MaxCapacity: t.Config.Max, CreationTime: protocol.Moment(t.Created), ScalableTargetARN: a.arnOf(t.Service),
			RoleARN:        cmp.Or(t.sent.Role, arn.Of("iam", roleOfServices)),
			SuspendedState: suspendedDoc{t.Config.Suspended.In, t.Config.Suspended.Out, t.Config.Suspended.Scheduled},
		}
	}
	slices.Sort(keys)
	some, next, err := pageOf("DescribeScalableTargets", in, keys, docs)
	return struct {
		ScalableTargets []targetDoc
		NextToken       string `json:",omitempty"`
	}{some, next}, err
}

type policyDoc struct {
	scalableDoc
	PolicyARN                                string
	PolicyName                               string
	PolicyType                               string
	TargetTrackingScalingPolicyConfiguration trackingDoc
	Alarms                                   []any
	CreationTime                             protocol.Moment
}

type trackingDoc struct {
	TargetValue                   float64
	PredefinedMetricSpecification *predefinedDoc `json:",omitempty"`
	CustomizedMetricSpecification *customized    `json:",omitempty"`
	ScaleOutCooldown              int
	ScaleInCooldown               int
	DisableScaleIn                bool
}

type predefinedDoc struct {
	PredefinedMetricType string
	ResourceLabel        string `json:",omitempty"`
}

// predefined is the metric of a policy in AWS' words; nil for one that AWS does not have.
func (t target) predefined(p scaling.Policy) *predefinedDoc {
	for name, m := range metricsOfAWS {
		if m == p.Metric {
			return &predefinedDoc{name, t.sent.Labels["policy "+p.Name]}
		}
	}
	return nil
}

func (a *autoscaling) describePolicies(_ context.Context, in scalingFilters, _ protocol.Fields) (any, error) {
	all, err := a.selected(in)
	if err != nil {
		return nil, err
	}
	docs, keys := map[string]policyDoc{}, []string{}
	for _, t := range all {
		for _, p := range t.Config.Policies {
			if len(in.Policies) > 0 && !slices.Contains(in.Policies, p.Name) || len(p.Steps) > 0 { // steps here have no alarm
				continue
			}
			key := t.doc().ResourceId + "\n" + p.Name
			keys = append(keys, key)
			made := t.Created
			if at, known := t.sent.Made["policy "+p.Name]; known {
				made = at
			}
			docs[key] = policyDoc{
				scalableDoc: t.doc(), PolicyARN: a.policyARN(t.sent.Cluster, t.Service, p.Name), PolicyName: p.Name, PolicyType: trackingType, Alarms: []any{}, CreationTime: protocol.Moment(made),
				TargetTrackingScalingPolicyConfiguration: trackingDoc{p.Target, t.predefined(p), customizedOf(p.Metric), int(p.OutCooldown.Seconds()), int(p.InCooldown.Seconds()), p.OnlyOut},
			}
		}
	}
	slices.Sort(keys)
	some, next, err := pageOf("DescribeScalingPolicies", in, keys, docs)
	return struct {
		ScalingPolicies []policyDoc
		NextToken       string `json:",omitempty"`
	}{some, next}, err
}

type actionDoc struct {
	scalableDoc
	ScheduledActionName  string
	ScheduledActionARN   string
	Schedule             string
	Timezone             string          `json:",omitempty"`
	StartTime            protocol.Moment `json:",omitzero"`
	EndTime              protocol.Moment `json:",omitzero"`
	ScalableTargetAction boundsDoc
	CreationTime         protocol.Moment
}

type boundsDoc struct {
	MinCapacity *int `json:",omitempty"`
	MaxCapacity *int `json:",omitempty"`
}

func (a *autoscaling) describeActions(_ context.Context, in scalingFilters, _ protocol.Fields) (any, error) {
	all, err := a.selected(in)
	if err != nil {
		return nil, err
	}
	docs, keys := map[string]actionDoc{}, []string{}
	for _, t := range all {
		for _, b := range t.Config.Actions {
			if len(in.Actions) > 0 && !slices.Contains(in.Actions, b.Name) {
				continue
			}
			key := t.doc().ResourceId + "\n" + b.Name
			keys = append(keys, key)
			made := t.Created
			if at, known := t.sent.Made["action "+b.Name]; known {
				made = at
			}
			docs[key] = actionDoc{
				scalableDoc: t.doc(), ScheduledActionName: b.Name, ScheduledActionARN: a.actionARN(t.sent.Cluster, t.Service, b.Name), Schedule: b.Source, Timezone: b.Timezone,
				StartTime: protocol.Moment(b.Start), EndTime: protocol.Moment(b.End), ScalableTargetAction: boundsDoc{b.Min, b.Max}, CreationTime: protocol.Moment(made),
			}
		}
	}
	slices.Sort(keys)
	some, next, err := pageOf("DescribeScheduledActions", in, keys, docs)
	return struct {
		ScheduledActions []actionDoc
		NextToken        string `json:",omitempty"`
	}{some, next}, err
}

type activityDoc struct {
	scalableDoc
	ActivityId       string
	Description      string
	Cause            string
	StartTime        protocol.Moment
	EndTime          protocol.Moment `json:",omitzero"`
	StatusCode       string
	StatusMessage    string           `json:",omitempty"`
	NotScaledReasons []notScaledCause `json:",omitempty"`
}

type notScaledCause struct {
	Code            string
	MaxCapacity     *int `json:",omitempty"`
	MinCapacity     *int `json:",omitempty"`
	CurrentCapacity *int `json:",omitempty"`
}

// describeActivities lists the activities of the targets, the newest first.
func (a *autoscaling) describeActivities(_ context.Context, in scalingFilters, _ protocol.Fields) (any, error) {
	all, err := a.selected(in)
	if err != nil {
		return nil, err
	}
	docs, keys := map[string]activityDoc{}, []string{}
	add := func(t target, number int, d activityDoc) {
		d.scalableDoc, d.ActivityId = t.doc(), resource.RecordKey("activity", fmt.Sprint(t.Service, t.Created.UnixNano(), number))
		key := fmt.Sprintf("%020d %s %d", math.MaxInt64-time.Time(d.StartTime).UnixMilli(), t.Service, number) // the newest is the first
		keys = append(keys, key)
		docs[key] = d
	}
	for _, t := range all {
		for _, v := range t.Activities {
			d := activityDoc{Description: fmt.Sprintf("Setting desired count to %d.", v.To), Cause: v.Cause, StartTime: protocol.Moment(v.At), EndTime: protocol.Moment(v.At), StatusCode: "Successful"}
			switch {
			case v.Error != "":
				d.StatusCode, d.StatusMessage = "Failed", v.Error
			case v.Action != "":
				d.Description, d.StatusMessage = "Setting the minimum and maximum capacity.", "Successfully set the minimum and maximum capacity."
			default:
				d.StatusMessage = fmt.Sprintf("Successfully set desired count to %d. Change successfully fulfilled by ecs.", v.To)
			}
			add(t, v.Number, d)
		}
		if held := t.Held; in.NotScaled && held.Reason != "" {
			add(t, 0, t.notScaled(held, a))
		}
	}
	slices.Sort(keys)
	some, next, err := pageOf("DescribeScalingActivities", in, keys, docs)
	return struct {
		ScalingActivities []activityDoc
		NextToken         string `json:",omitempty"`
	}{some, next}, err
}

// notScaled is the activity of a change that a policy wants and does not get.
func (t target) notScaled(h scaling.Held, a *autoscaling) activityDoc {
	d := activityDoc{
		Description: "Attempting to scale due to alarm triggered", StartTime: protocol.Moment(h.Since), StatusCode: "Unfulfilled",
		Cause: fmt.Sprintf("policy %s asks for a change", h.Policy),
	}
	var current *int
	if _, desired, ok := a.services.Count(t.Service); ok {
		current = &desired
	}
	switch h.Reason {
	case scaling.AtMax:
		d.NotScaledReasons = []notScaledCause{{Code: "AlreadyAtMaxCapacity", MaxCapacity: &t.Config.Max, CurrentCapacity: current}}
	case scaling.AtMin:
		d.NotScaledReasons = []notScaledCause{{Code: "AlreadyAtMinCapacity", MinCapacity: &t.Config.Min, CurrentCapacity: current}}
	case scaling.NoRoom:
		d.StatusMessage = "copies of the service wait for room on the host"
	case scaling.Deploying:
		d.StatusMessage = "a deployment of the service is under way"
	case scaling.Cooling:
		d.StatusMessage = "a cool-down is in effect"
	case scaling.Halted:
		d.StatusMessage = "scaling is suspended"
	}
	return d
}
