package autoscaling

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
	"github.com/podtask/podtask/internal/aws/awsapi/resource"
	"github.com/podtask/podtask/internal/engine/facts/arn"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/scaling"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Scaling are the services that scale. Get reports whether a service does.
type Scaling interface {
	All() ([]scaling.State, error)
	Get(service string) (s scaling.State, found bool, err error)
	// Configure changes the configuration of a service; found is false if it did not scale.
	Configure(ctx context.Context, service string, change func(c scaling.Config, found bool) (scaling.Config, error)) (scaling.State, error)
	// End ends the scaling of a service; it does nothing if there is none.
	End(ctx context.Context, service string) error
	// Times converts a schedule of EventBridge; an empty zone is UTC.
	Times(ctx context.Context, schedule, zone string) ([]string, error)
}

// ScalableServices are the services of the host. Count returns the cluster and the desired count of one; found is false if it is not
// there. Known reports whether a cluster has a service, or had it within the hour.
type ScalableServices interface {
	Count(service string) (cluster string, desired int, found bool)
	Known(cluster, service string) bool
}

// Target is the prefix of X-Amz-Target of Application Auto Scaling.
const Target = "AnyScaleFrontendService."

// autoscaling are the operations of Application Auto Scaling on the desired counts of services.
type autoscaling struct {
	scaling  Scaling
	services ScalableServices
	tags     *resource.TagStore
	records  *state.Store
	now      func() time.Time
}

const (
	codeValidation    = "ValidationException"
	codeNoObject      = "ObjectNotFoundException"
	namespaceECS      = "ecs"
	dimensionECS      = "ecs:service:DesiredCount"
	roleOfServices    = "role/aws-service-role/ecs.application-autoscaling.amazonaws.com/AWSServiceRoleForApplicationAutoScaling_ECSService"
	kindScalable      = "scalable-target"
	trackingType      = "TargetTrackingScaling"
	noAlarms          = "there are no CloudWatch alarms here: use TargetTrackingScaling with a predefined metric of ECS, or podtask service scaling set --step, which names the metric itself"
	onlyPredefined    = "podtask measures ECSServiceAverageCPUUtilization, ECSServiceAverageMemoryUtilization and ALBRequestCountPerTarget; a CustomizedMetricSpecification of the namespace podtask names what the task itself serves"
	noteOfTheResource = "the requests of all public addresses of the service count"
)

// metricsOfAWS are the predefined metrics of ECS.
var metricsOfAWS = map[string]scaling.Metric{
	"ECSServiceAverageCPUUtilization": scaling.CPU, "ECSServiceAverageMemoryUtilization": scaling.Memory, "ALBRequestCountPerTarget": scaling.Requests,
}

// Operations returns the operations of Application Auto Scaling. Its records are in records, its tags in tags.
func Operations(scaling Scaling, services ScalableServices, tags *resource.TagStore, records *state.Store, now func() time.Time) []protocol.Operation {
	return (&autoscaling{scaling: scaling, services: services, tags: tags, records: records, now: now}).operations()
}

func (a *autoscaling) operations() []protocol.Operation {
	resource := protocol.Honor("ServiceNamespace!", "ResourceId!", "ScalableDimension!")
	filters := protocol.Honor("ServiceNamespace!", "ScalableDimension", "MaxResults", "NextToken")
	const tracking = "TargetTrackingScalingPolicyConfiguration"
	all := []protocol.Operation{
		protocol.Define("RegisterScalableTarget", protocol.Members(resource, protocol.Honor("MinCapacity", "MaxCapacity", "SuspendedState", "SuspendedState.DynamicScalingInSuspended",
			"SuspendedState.DynamicScalingOutSuspended", "SuspendedState.ScheduledScalingSuspended", "Tags"), protocol.Keep[string]("the user manages all resources here", "RoleARN")), a.register),
		protocol.Define("DeregisterScalableTarget", resource, a.deregister),
		protocol.Define("DescribeScalableTargets", protocol.Members(filters, protocol.Honor("ResourceIds")), a.describeTargets),
		protocol.Define("PutScalingPolicy", protocol.Members(resource, protocol.Honor("PolicyName!", "PolicyType", tracking, tracking+".TargetValue!", tracking+".PredefinedMetricSpecification",
			tracking+".PredefinedMetricSpecification.PredefinedMetricType!", tracking+".ScaleOutCooldown", tracking+".ScaleInCooldown", tracking+".DisableScaleIn"),
			protocol.Keep[string](noteOfTheResource, tracking+".PredefinedMetricSpecification.ResourceLabel"),
			customizedMembers(tracking+".CustomizedMetricSpecification"),
			protocol.Refuse(noAlarms, "StepScalingPolicyConfiguration", "PredictiveScalingPolicyConfiguration")), a.putPolicy),
		protocol.Define("DeleteScalingPolicy", protocol.Members(resource, protocol.Honor("PolicyName!")), a.deletePolicy),
		protocol.Define("DescribeScalingPolicies", protocol.Members(filters, protocol.Honor("ResourceId", "PolicyNames")), a.describePolicies),
		protocol.Define("PutScheduledAction", protocol.Members(resource, protocol.Honor("ScheduledActionName!", "Schedule", "Timezone", "StartTime", "EndTime", "ScalableTargetAction",
			"ScalableTargetAction.MinCapacity", "ScalableTargetAction.MaxCapacity")), a.putAction),
		protocol.Define("DeleteScheduledAction", protocol.Members(resource, protocol.Honor("ScheduledActionName!")), a.deleteAction),
		protocol.Define("DescribeScheduledActions", protocol.Members(filters, protocol.Honor("ResourceId", "ScheduledActionNames")), a.describeActions),
		protocol.Define("DescribeScalingActivities", protocol.Members(filters, protocol.Honor("ResourceId", "IncludeNotScaledActivities")), a.describeActivities),
		protocol.Define("TagResource", protocol.Honor("ResourceARN!", "Tags!"), a.tag),
		protocol.Define("UntagResource", protocol.Honor("ResourceARN!", "TagKeys!"), a.untag),
		protocol.Define("ListTagsForResource", protocol.Honor("ResourceARN!"), a.listTags),
	}
	for i := range all {
		all[i].Invalid = codeValidation
	}
	return all
}

// scalable names what scales.
type scalable struct {
	Namespace string `json:"ServiceNamespace"`
	Resource  string `json:"ResourceId"`
	Dimension string `json:"ScalableDimension"`
}

// check checks the members that are given, and returns the cluster and the name of the service.
func (in scalable) check() (cluster, name string, err error) {
	switch {
	case in.Namespace != namespaceECS:
		return "", "", protocol.Invalidf("ServiceNamespace: podtask scales services of ecs, not %q", protocol.Shortened(in.Namespace))
	case in.Dimension != "" && in.Dimension != dimensionECS:
		return "", "", protocol.Invalidf("ScalableDimension: podtask scales %s, not %q", dimensionECS, protocol.Shortened(in.Dimension))
	case in.Resource == "":
		return "", "", nil
	}
	parts := strings.Split(in.Resource, "/")
	if len(parts) != 3 || parts[0] != "service" || parts[1] == "" || parts[2] == "" {
		return "", "", protocol.Invalidf("ResourceId: it is service/CLUSTER/NAME, not %q", protocol.Shortened(in.Resource))
	}
	return parts[1], parts[2], nil
}

// scalableRecord has the members of a scalable target that are only returned.
type scalableRecord struct {
	Kind    string    `json:"kind"`
	Service string    `json:"service"`
	Cluster string    `json:"cluster"`
	Role    string    `json:"role,omitempty"`
	Created time.Time `json:"created"`
	// Labels are the resource labels of policies, Made the times at which policies and actions were made.
	Labels map[string]string    `json:"labels,omitempty"`
	Made   map[string]time.Time `json:"made,omitempty"`
}

func (a *autoscaling) record(name string) (r scalableRecord, err error) {
	data, err := a.records.Get(resource.RecordKey(kindScalable, name))
	if errors.Is(err, fs.ErrNotExist) { // it scales by the command line, or as an Express service
		cluster, _, _ := a.services.Count(name)
		return scalableRecord{Kind: kindScalable, Service: name, Cluster: cluster}, nil
	}
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(data, &r)
}

func (a *autoscaling) keep(name string, change func(r *scalableRecord)) error {
	r, err := a.record(name)
	if err != nil {
		return err
	}
	r.Labels, r.Made = maps.Clone(r.Labels), maps.Clone(r.Made)
	if r.Labels == nil {
		r.Labels = map[string]string{}
	}
	if r.Made == nil {
		r.Made = map[string]time.Time{}
	}
	change(&r)
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return a.records.Put(resource.RecordKey(kindScalable, name), data)
}

// arnOf is the ARN of the scalable target of a service.
func (a *autoscaling) arnOf(name string) string {
	return arn.Of("application-autoscaling", "scalable-target/"+resource.RecordKey(kindScalable, name))
}

func (a *autoscaling) policyARN(cluster, name, policy string) string {
	return arn.Of("autoscaling", fmt.Sprintf("scalingPolicy:%s:resource/ecs/service/%s/%s:policyName/%s", resource.RecordKey(kindScalable, name), cluster, name, policy))
}

func (a *autoscaling) actionARN(cluster, name, action string) string {
	return arn.Of("autoscaling", fmt.Sprintf("scheduledAction:%s:resource/ecs/service/%s/%s:scheduledActionName/%s", resource.RecordKey(kindScalable, name), cluster, name, action))
}

// existing checks that a service is there.
func (a *autoscaling) existing(in scalable) (cluster, name string, err error) {
	cluster, name, err = in.check()
	if err == nil && !a.services.Known(cluster, name) {
		err = protocol.Invalidf("ECS service doesn't exist: %s", protocol.Shortened(in.Resource))
	}
	return cluster, name, err
}

// configure changes the configuration of a target that is registered.
func (a *autoscaling) configure(ctx context.Context, in scalable, change func(c scaling.Config) (scaling.Config, error)) (cluster, name string, err error) {
	cluster, name, err = in.check()
	if err != nil {
		return cluster, name, err
	}
	_, err = a.scaling.Configure(ctx, name, func(c scaling.Config, found bool) (scaling.Config, error) {
		if !found || !a.services.Known(cluster, name) {
			return c, protocol.Failf(codeNoObject, "No scalable target registered for service namespace: %s, resource ID: %s, scalable dimension: %s", in.Namespace, protocol.Shortened(in.Resource), dimensionECS)
		}
		c, err := change(c)
		if err == nil {
			if err = c.Check(); err != nil {
				err = protocol.Invalidf("%v", err)
			}
		}
		return c, err
	})
	return cluster, name, err
}

type registerIn struct {
	scalable
	Min       *int `json:"MinCapacity"`
	Max       *int `json:"MaxCapacity"`
	Suspended *struct {
		In        bool `json:"DynamicScalingInSuspended"`
		Out       bool `json:"DynamicScalingOutSuspended"`
		Scheduled bool `json:"ScheduledScalingSuspended"`
	} `json:"SuspendedState"`
	Tags map[string]string `json:"Tags"`
}

func (a *autoscaling) register(ctx context.Context, in registerIn, kept protocol.Fields) (any, error) {
	cluster, name, err := a.existing(in.scalable)
	if err == nil {
		err = resource.CheckTagMap(in.Tags)
	}
	if err != nil {
		return nil, err
	}
	var role string
	if given, ok := kept["RoleARN"]; ok {
		if err := json.Unmarshal(given, &role); err != nil {
			return nil, protocol.Invalidf("RoleARN: %v", err)
		}
	}
	fresh := false
	_, err = a.scaling.Configure(ctx, name, func(c scaling.Config, found bool) (scaling.Config, error) {
		if fresh = !found; fresh && (in.Min == nil || in.Max == nil) {
			return c, protocol.Invalidf("MinCapacity and MaxCapacity are required when a scalable target is registered for the first time")
		}
		if in.Min != nil {
			c.Min = *in.Min
		}
		if in.Max != nil {
			c.Max = *in.Max
		}
		if in.Suspended != nil {
			c.Suspended = scaling.Suspended{In: in.Suspended.In, Out: in.Suspended.Out, Scheduled: in.Suspended.Scheduled}
		}
		if err := c.Check(); err != nil {
			return c, protocol.Invalidf("%v", err)
		}
		return c, nil
	})
	if err != nil {
		return nil, err
	}
	err = a.keep(name, func(r *scalableRecord) {
		if fresh {
			*r = scalableRecord{Kind: kindScalable, Service: name, Created: a.now().UTC()}
		}
		r.Cluster, r.Role = cluster, cmp.Or(role, r.Role)
	})
	if err == nil && len(in.Tags) > 0 {
		err = a.tags.Change(a.arnOf(name), nil, func(tags []resource.Tag) []resource.Tag { return resource.WithTags(tags, in.Tags) })
	}
	return struct {
		ScalableTargetARN string
	}{a.arnOf(name)}, err
}

func (a *autoscaling) deregister(ctx context.Context, in scalable, _ protocol.Fields) (any, error) {
	_, name, err := in.check()
	if err != nil {
		return nil, err
	}
	_, found, err := a.scaling.Get(name)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, protocol.Failf(codeNoObject, "No scalable target found for service namespace: %s, resource ID: %s, scalable dimension: %s", in.Namespace, protocol.Shortened(in.Resource), dimensionECS)
	}
	if err := a.scaling.End(ctx, name); err != nil {
		return nil, err
	}
	if err := a.tags.Forget(a.arnOf(name)); err != nil {
		return nil, err
	}
	return struct{}{}, a.records.Delete(resource.RecordKey(kindScalable, name))
}

type policyIn struct {
	scalable
	Name     string `json:"PolicyName"`
	Type     string `json:"PolicyType"`
	Tracking *struct {
		Target     float64 `json:"TargetValue"`
		Predefined *struct {
			Type string `json:"PredefinedMetricType"`
		} `json:"PredefinedMetricSpecification"`
		Customized *customized `json:"CustomizedMetricSpecification"`

		Out    *int `json:"ScaleOutCooldown"`
		In     *int `json:"ScaleInCooldown"`
		NoneIn bool `json:"DisableScaleIn"`
	} `json:"TargetTrackingScalingPolicyConfiguration"`
}

// metric returns the metric of a request.
func (in policyIn) metric() (scaling.Metric, error) {
	switch t := in.Tracking; {
	case t == nil || (t.Predefined == nil) == (t.Customized == nil):
		return "", protocol.Invalidf("TargetTrackingScalingPolicyConfiguration: it needs a PredefinedMetricSpecification or a CustomizedMetricSpecification: %s", onlyPredefined)
	case t.Customized != nil:
		return t.Customized.metric()
	}
	metric, ok := metricsOfAWS[in.Tracking.Predefined.Type]
	if !ok {
		return "", protocol.Invalidf("PredefinedMetricType: %q: %s", protocol.Shortened(in.Tracking.Predefined.Type), onlyPredefined)
	}
	return metric, nil
}

// policy returns the policy of a request.
func (in policyIn) policy() (scaling.Policy, error) {
	if in.Type != trackingType {
		return scaling.Policy{}, protocol.Invalidf("PolicyType: %q: %s", protocol.Shortened(cmp.Or(in.Type, "StepScaling")), noAlarms)
	}
	metric, err := in.metric()
	if err != nil {
		return scaling.Policy{}, err
	}
	p := scaling.Policy{
		Name: in.Name, Metric: metric, Target: in.Tracking.Target, OnlyOut: in.Tracking.NoneIn,
		OutCooldown: scaling.DefaultCooldown, InCooldown: scaling.DefaultCooldown,
	}
	if in.Tracking.Out != nil {
		p.OutCooldown = taskdef.Span(*in.Tracking.Out, time.Second)
	}
	if in.Tracking.In != nil {
		p.InCooldown = taskdef.Span(*in.Tracking.In, time.Second)
	}
	return p, nil
}

const labelMember = "TargetTrackingScalingPolicyConfiguration.PredefinedMetricSpecification.ResourceLabel"

func (a *autoscaling) putPolicy(ctx context.Context, in policyIn, kept protocol.Fields) (any, error) {
	p, err := in.policy()
	if err != nil {
		return nil, err
	}
	var label string
	if given, ok := kept[labelMember]; ok {
		if err := json.Unmarshal(given, &label); err != nil {
			return nil, protocol.Invalidf("ResourceLabel: %v", err)
		}
	}
	cluster, name, err := a.configure(ctx, in.scalable, func(c scaling.Config) (scaling.Config, error) {
		c.Policies = slices.DeleteFunc(slices.Clone(c.Policies), func(q scaling.Policy) bool { return q.Name == p.Name })
		c.Policies = append(c.Policies, p)
		return c, nil
	})
	if err != nil {
		return nil, err
	}
	err = a.keep(name, func(r *scalableRecord) {
		r.Labels["policy "+p.Name] = label
		if _, known := r.Made["policy "+p.Name]; !known {
			r.Made["policy "+p.Name] = a.now().UTC()
		}
	})
	return struct {
		PolicyARN string
		Alarms    []any
	}{a.policyARN(cluster, name, p.Name), []any{}}, err
}

func (a *autoscaling) deletePolicy(ctx context.Context, in policyIn, _ protocol.Fields) (any, error) {
	_, name, err := a.configure(ctx, in.scalable, func(c scaling.Config) (scaling.Config, error) {
		before := len(c.Policies)
		c.Policies = slices.DeleteFunc(slices.Clone(c.Policies), func(q scaling.Policy) bool { return q.Name == in.Name })
		if len(c.Policies) == before {
			return c, protocol.Failf(codeNoObject, "No scaling policy found for service namespace: %s, resource ID: %s, scalable dimension: %s: %s", in.Namespace, protocol.Shortened(in.Resource), dimensionECS, protocol.Shortened(in.Name))
		}
		return c, nil
	})
	if err != nil {
		return nil, err
	}
	return struct{}{}, a.keep(name, func(r *scalableRecord) { delete(r.Labels, "policy "+in.Name); delete(r.Made, "policy "+in.Name) })
}

type actionIn struct {
	scalable
	Name     string          `json:"ScheduledActionName"`
	Schedule string          `json:"Schedule"`
	Timezone string          `json:"Timezone"`
	Start    protocol.Moment `json:"StartTime"`
	End      protocol.Moment `json:"EndTime"`
	Bounds   *struct {
		Min *int `json:"MinCapacity"`
		Max *int `json:"MaxCapacity"`
	} `json:"ScalableTargetAction"`
}

func (a *autoscaling) putAction(ctx context.Context, in actionIn, _ protocol.Fields) (any, error) {
	_, name, err := a.configure(ctx, in.scalable, func(c scaling.Config) (scaling.Config, error) {
		i := slices.IndexFunc(c.Actions, func(b scaling.Action) bool { return b.Name == in.Name })
		c.Actions = slices.Clone(c.Actions)
		if i < 0 {
			c.Actions = append(c.Actions, scaling.Action{Name: in.Name})
			i = len(c.Actions) - 1
		}
		b := &c.Actions[i]
		if in.Schedule != "" {
			times, err := a.scaling.Times(ctx, in.Schedule, in.Timezone)
			if err != nil {
				return c, protocol.Invalidf("Schedule: %v", err)
			}
			b.Source, b.Timezone, b.Calendar = in.Schedule, in.Timezone, times
		}
		if !in.Start.IsZero() {
			b.Start = time.Time(in.Start)
		}
		if !in.End.IsZero() {
			b.End = time.Time(in.End)
		}
		if in.Bounds != nil {
			b.Min, b.Max = in.Bounds.Min, in.Bounds.Max
		}
		return c, nil
	})
	if err != nil {
		return nil, err
	}
	return struct{}{}, a.keep(name, func(r *scalableRecord) {
		if _, known := r.Made["action "+in.Name]; !known {
			r.Made["action "+in.Name] = a.now().UTC()
		}
	})
}

func (a *autoscaling) deleteAction(ctx context.Context, in actionIn, _ protocol.Fields) (any, error) {
	_, name, err := a.configure(ctx, in.scalable, func(c scaling.Config) (scaling.Config, error) {
		before := len(c.Actions)
		c.Actions = slices.DeleteFunc(slices.Clone(c.Actions), func(b scaling.Action) bool { return b.Name == in.Name })
		if len(c.Actions) == before {
			return c, protocol.Failf(codeNoObject, "No scheduled action found for service namespace: %s, resource ID: %s, scalable dimension: %s: %s", in.Namespace, protocol.Shortened(in.Resource), dimensionECS, protocol.Shortened(in.Name))
		}
		return c, nil
	})
	if err != nil {
		return nil, err
	}
	return struct{}{}, a.keep(name, func(r *scalableRecord) { delete(r.Made, "action "+in.Name) })
}

type scalingTagsIn struct {
	ARN  string            `json:"ResourceARN"`
	Tags map[string]string `json:"Tags"`
	Keys []string          `json:"TagKeys"`
}

// found checks that there is a scalable target of an ARN.
func (a *autoscaling) found(text string) error {
	all, err := a.scaling.All()
	if slices.ContainsFunc(all, func(s scaling.State) bool { return a.arnOf(s.Service) == text }) {
		return nil
	}
	if err != nil {
		return err
	}
	return protocol.Failf(protocol.CodeNoResource, "There is no scalable target %s", protocol.Shortened(text))
}

func (a *autoscaling) tag(_ context.Context, in scalingTagsIn, _ protocol.Fields) (any, error) {
	if err := cmp.Or(a.found(in.ARN), resource.CheckTagMap(in.Tags)); err != nil {
		return nil, err
	}
	return struct{}{}, a.tags.Change(in.ARN, nil, func(tags []resource.Tag) []resource.Tag { return resource.WithTags(tags, in.Tags) })
}

func (a *autoscaling) untag(_ context.Context, in scalingTagsIn, _ protocol.Fields) (any, error) {
	if err := a.found(in.ARN); err != nil {
		return nil, err
	}
	return struct{}{}, a.tags.Change(in.ARN, nil, func(tags []resource.Tag) []resource.Tag {
		return slices.DeleteFunc(tags, func(t resource.Tag) bool { return slices.Contains(in.Keys, t.Key) })
	})
}

func (a *autoscaling) listTags(_ context.Context, in scalingTagsIn, _ protocol.Fields) (any, error) {
	if err := a.found(in.ARN); err != nil {
		return nil, err
	}
	tags, err := a.tags.Of(in.ARN, nil)
	all := make(map[string]string)
	for _, t := range tags {
		all[t.Key] = t.Value
	}
	return struct{ Tags map[string]string }{all}, err
}
