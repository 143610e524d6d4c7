package awsapi

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
	"github.com/podtask/podtask/internal/engine/facts/arn"
	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/service"
)

// serviceDeployments are the operations on the history of services. pkg/service calls a service deployment an attempt.
type serviceDeployments struct {
	*serviceIndex
	clusters *clusters
	tasks    Tasks
}

const (
	// usualServiceDeployments is the number of entries of a page, maxServiceDeployments that of the ARNs of a request.
	usualServiceDeployments = 20
	maxServiceDeployments   = 20
)

func (o serviceDeployments) operations() []protocol.Operation {
	return []protocol.Operation{
		protocol.Define("ListServiceDeployments", protocol.Honor("service!", "cluster", "status", "createdAt", "createdAt.after", "createdAt.before", "maxResults", "nextToken"), o.list),
		protocol.Define("DescribeServiceDeployments", protocol.Honor("serviceDeploymentArns!"), o.describe),
		protocol.Define("DescribeServiceRevisions", protocol.Honor("serviceRevisionArns!"), o.revisions),
		protocol.Define("StopServiceDeployment", protocol.Honor("serviceDeploymentArn!", "stopType=ROLLBACK|ABORT"), o.stop),
		protocol.Define("ContinueServiceDeployment", protocol.Honor("serviceDeploymentArn!", "hookId!", "action=CONTINUE|ROLLBACK"), o.resume),
	}
}

// revisionID is the id of a deployment's revision.
func revisionID(deployment string) string { return arn.RevisionID(deployment) }

// serviceDeploymentID is the id of a service deployment.
func serviceDeploymentID(s service.State, a service.Attempt) string {
	return arn.AttemptID(s.ID, a.Number)
}

func serviceDeploymentARN(s service.State, a service.Attempt) string {
	return arn.ServiceDeployment(clusterOfService(s), s.Name, serviceDeploymentID(s, a))
}

func revisionARN(s service.State, deployment string) string {
	return arn.ServiceRevision(clusterOfService(s), s.Name, revisionID(deployment))
}

// named finds the service that an ARN of the kind is of. It returns the last part of the ARN.
func (o serviceDeployments) named(path, kind, text string) (s service.State, id string, ok bool, err error) {
	rest, isARN, err := cut(path, kind, text)
	if err != nil {
		return s, "", false, err
	}
	parts := strings.Split(rest, "/")
	if !isARN || len(parts) != 3 {
		return s, "", false, protocol.Invalidf("%s: %q is not the ARN of a %s", path, protocol.Shortened(text), kind)
	}
	s, ok = o.serviceIndex.find(parts[1])
	return s, parts[2], ok && clusterOfService(s) == parts[0], nil
}

// find finds the service deployment of an ARN.
func (o serviceDeployments) find(path, text string) (s service.State, found service.Attempt, ok bool, err error) {
	s, id, ok, err := o.named(path, "service-deployment", text)
	if !ok || err != nil {
		return s, found, false, err
	}
	i := slices.IndexFunc(s.History, func(a service.Attempt) bool { return serviceDeploymentID(s, a) == id })
	if i < 0 {
		return s, found, false, nil
	}
	return s, s.History[i], true, nil
}

// existing finds the service deployment that a request is about.
func (o serviceDeployments) existing(arn string) (service.State, service.Attempt, error) {
	s, found, ok, err := o.find("serviceDeploymentArn", arn)
	if err == nil && !ok {
		err = protocol.Failf("ServiceDeploymentNotFoundException", "Service deployment not found.")
	}
	return s, found, err
}

// serviceDeploymentBrief is a service deployment in a list.
type serviceDeploymentBrief struct {
	serviceDeploymentHead
	Target string `json:"targetServiceRevisionArn"`
}

// serviceDeploymentHead has the members of a service deployment that lists show too.
type serviceDeploymentHead struct {
	ARN        string          `json:"serviceDeploymentArn"`
	ServiceARN string          `json:"serviceArn"`
	ClusterARN string          `json:"clusterArn"`
	CreatedAt  protocol.Moment `json:"createdAt"`
	StartedAt  protocol.Moment `json:"startedAt"`
	FinishedAt protocol.Moment `json:"finishedAt,omitzero"`
	Status     string          `json:"status"`
	Reason     string          `json:"statusReason,omitempty"`
}

// serviceDeploymentDoc is a service deployment in answers.
type serviceDeploymentDoc struct {
	serviceDeploymentHead
	UpdatedAt protocol.Moment     `json:"updatedAt"`
	StoppedAt protocol.Moment     `json:"stoppedAt,omitzero"`
	Sources   []shareDoc          `json:"sourceServiceRevisions"`
	Target    shareDoc            `json:"targetServiceRevision"`
	Rollback  *returnDoc          `json:"rollback,omitempty"`
	Breaker   breakerUseDoc       `json:"deploymentCircuitBreaker"`
	Alarms    *alarmUseDoc        `json:"alarms,omitempty"`
	Stage     string              `json:"lifecycleStage,omitempty"`
	Hooks     []hookCallDoc       `json:"lifecycleHookDetails,omitempty"`
	Config    deploymentConfigDoc `json:"deploymentConfiguration"`
}

// shareDoc counts the tasks of a revision and has its percentage of the connections, which only
// strategies that shift connections report.
type shareDoc struct {
	ARN        string   `json:"arn"`
	Requested  int      `json:"requestedTaskCount"`
	Running    int      `json:"runningTaskCount"`
	Pending    int      `json:"pendingTaskCount"`
	Production *float64 `json:"requestedProductionTrafficWeight,omitempty"`
	Test       *float64 `json:"requestedTestTrafficWeight,omitempty"`
}

// alarmUseDoc reports the alarms of a service deployment.
type alarmUseDoc struct {
	Status    string   `json:"status"`
	Names     []string `json:"alarmNames"`
	Triggered []string `json:"triggeredAlarmNames"`
}

// hookCallDoc is a hook of a service deployment in a stage.
type hookCallDoc struct {
	ID        string          `json:"hookId"`
	Type      string          `json:"targetType"`
	Target    string          `json:"targetArn,omitempty"`
	Status    string          `json:"status"`
	ExpiresAt protocol.Moment `json:"expiresAt,omitzero"`
	OnTimeout string          `json:"timeoutAction"`
}

type returnDoc struct {
	Reason    string          `json:"reason"`
	StartedAt protocol.Moment `json:"startedAt"`
	Revision  string          `json:"serviceRevisionArn"`
}

type breakerUseDoc struct {
	Status    string `json:"status"`
	Failures  int    `json:"failureCount"`
	Threshold int    `json:"threshold"`
}

func headOf(s service.State, a service.Attempt) serviceDeploymentHead {
	cluster := clusterOfService(s)
	return serviceDeploymentHead{
		ARN: serviceDeploymentARN(s, a), ServiceARN: arn.Service(cluster, s.Name), ClusterARN: arn.Cluster(cluster),
		CreatedAt: protocol.Moment(a.Times.CreatedAt), StartedAt: protocol.Moment(a.Times.CreatedAt), FinishedAt: protocol.Moment(a.Times.EndedAt),
		Status: string(a.Status), Reason: a.Reason,
	}
}

// shareOf describes a share, with the weights of a service deployment that shifts connections; nil for none.
func shareOf(s service.State, share service.Share, a *service.Attempt) shareDoc {
	doc := shareDoc{ARN: revisionARN(s, share.Deployment), Requested: share.Requested, Running: share.Running, Pending: share.Pending}
	if a == nil || a.Progress == nil || rolls(a.Method) {
		return doc
	}
	production, test := a.Progress.Weight, a.Progress.TestWeight
	switch share.Deployment {
	case a.Progress.Green:
	case a.Progress.Blue:
		production, test = service.Whole-production, service.Whole-test
	default:
		production, test = 0, 0
	}
	inPercent, testInPercent := production.Percent(), test.Percent()
	doc.Production, doc.Test = &inPercent, &testInPercent
	return doc
}

func sharesOf(s service.State, shares []service.Share, a *service.Attempt) []shareDoc {
	all := []shareDoc{}
	for _, share := range shares {
		all = append(all, shareOf(s, share, a))
	}
	return all
}

// serviceDeploymentOf describes a service deployment.
func serviceDeploymentOf(s service.State, a service.Attempt) serviceDeploymentDoc {
	doc := serviceDeploymentDoc{
		serviceDeploymentHead: headOf(s, a), UpdatedAt: protocol.Moment(a.Times.UpdatedAt), StoppedAt: protocol.Moment(a.Times.StoppedAt),
		Sources: sharesOf(s, a.Sources, &a), Target: shareOf(s, a.Target, &a), Alarms: alarmUseOf(a),
		Breaker: breakerUseDoc{"MONITORING", a.Breaker.Failures, a.Breaker.Threshold},
		Config:  configOf(a.Breaker.Breaker, a.Bounds, a.Method),
	}
	if p := a.Progress; p != nil && (!rolls(a.Method) || len(a.Method.Hooks) > 0) {
		doc.Stage = string(p.Stage)
		for _, c := range p.Calls {
			doc.Hooks = append(doc.Hooks, hookCallOf(a, c))
		}
	}
	switch {
	case a.Breaker.Tripped:
		doc.Breaker.Status = "TRIGGERED"
	case !a.Breaker.Enable:
		doc.Breaker.Status = "DISABLED"
	case a.Ended():
		doc.Breaker.Status = "MONITORING_COMPLETE"
	}
	if r := a.Return; r != nil {
		doc.Rollback = &returnDoc{doc.Reason, protocol.Moment(r.StartedAt), revisionARN(s, r.Deployment)}
	}
	return doc
}

// hookCallOf describes a hook of a service deployment in a stage.
func hookCallOf(a service.Attempt, c service.HookCall) hookCallDoc {
	doc := hookCallDoc{ID: c.ID, Type: string(service.HookLambda), Status: string(c.Status), ExpiresAt: protocol.Moment(c.ExpiresAt), OnTimeout: string(service.TimeoutRollback)}
	i := slices.IndexFunc(a.Method.Hooks, func(h service.Hook) bool { return h.Name == c.Hook })
	if i >= 0 {
		h := a.Method.Hooks[i]
		doc.Type, doc.Target, doc.OnTimeout = kindOf(h), targetOf(h), string(cmp.Or(h.OnTimeout, service.TimeoutRollback))
	}
	return doc
}

// alarmUseOf describes what the alarms of a service deployment say; nil without any.
func alarmUseOf(a service.Attempt) *alarmUseDoc {
	if len(a.Method.Alarms.Alarms) == 0 {
		return nil
	}
	doc := alarmUseDoc{Status: "DISABLED", Names: namesOf(a.Method.Alarms), Triggered: []string{}}
	use := a.Alarms
	switch {
	case use == nil || !a.Method.Alarms.Enable:
	case use.Watched && len(use.Raised) > 0:
		doc.Status, doc.Triggered = "TRIGGERED", use.Raised
	case len(use.Raised) > 0: // from the beginning: they do not count
		doc.Triggered = use.Raised
	case a.Ended() || a.Status == service.AttemptReturning:
		doc.Status = "MONITORING_COMPLETE"
	default:
		doc.Status = "MONITORING"
	}
	return &doc
}

type listServiceDeploymentsIn struct {
	protocol.Paging
	Service string   `json:"service"`
	Cluster string   `json:"cluster"`
	Status  []string `json:"status"`
	Created struct {
		After  protocol.Moment `json:"after"`
		Before protocol.Moment `json:"before"`
	} `json:"createdAt"`
}

// serviceDeploymentStatuses lists the statuses that ECS gives a service deployment.
var serviceDeploymentStatuses = []string{"PENDING", "SUCCESSFUL", "STOPPED", "STOP_REQUESTED", "IN_PROGRESS", "ROLLBACK_REQUESTED", "ROLLBACK_IN_PROGRESS", "ROLLBACK_SUCCESSFUL", "ROLLBACK_FAILED"}

// wants reports whether a service deployment passes the filters of a request.
func (in listServiceDeploymentsIn) wants(a service.Attempt) bool {
	after, before := time.Time(in.Created.After), time.Time(in.Created.Before)
	return (len(in.Status) == 0 || slices.Contains(in.Status, string(a.Status))) &&
		(after.IsZero() || a.Times.CreatedAt.After(after)) && (before.IsZero() || a.Times.CreatedAt.Before(before))
}

// list lists the service deployments of a service, the latest first.
func (o serviceDeployments) list(_ context.Context, in listServiceDeploymentsIn, _ protocol.Fields) (any, error) {
	for _, status := range in.Status {
		if err := protocol.OneOf("status", status, serviceDeploymentStatuses...); err != nil {
			return nil, err
		}
	}
	cluster, err := o.clusters.active(in.Cluster)
	if err != nil {
		return nil, err
	}
	s, _, ok, err := o.serviceIndex.named("service", cluster, in.Service)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, protocol.Failf("ServiceNotFoundException", "Service not found.")
	}
	var keys []string
	briefs := make(map[string]serviceDeploymentBrief)
	for _, found := range slices.Backward(s.History) {
		if in.wants(found) {
			key := fmt.Sprintf("%020d", found.Number)
			keys = append(keys, key)
			briefs[key] = serviceDeploymentBrief{headOf(s, found), revisionARN(s, found.Target.Deployment)}
		}
	}
	answer := struct {
		Deployments []serviceDeploymentBrief `json:"serviceDeployments"`
		Next        string                   `json:"nextToken,omitempty"`
	}{Deployments: []serviceDeploymentBrief{}}
	keys, answer.Next, err = protocol.Page("ListServiceDeployments "+s.ID, in.Paging, usualServiceDeployments, keys, func(a, b string) int { return strings.Compare(b, a) })
	for _, key := range keys {
		answer.Deployments = append(answer.Deployments, briefs[key])
	}
	return answer, err
}

type describeServiceDeploymentsIn struct {
	ARNs []string `json:"serviceDeploymentArns"`
}

// countARNs checks how many ARNs a request has.
func countARNs(path string, all []string) error {
	if n := len(all); n < 1 || n > maxServiceDeployments {
		return protocol.Invalidf("%s: %d is not 1 to %d", path, n, maxServiceDeployments)
	}
	return nil
}

func (o serviceDeployments) describe(_ context.Context, in describeServiceDeploymentsIn, _ protocol.Fields) (any, error) {
	const path = "serviceDeploymentArns"
	if err := countARNs(path, in.ARNs); err != nil {
		return nil, err
	}
	answer := struct {
		Deployments []serviceDeploymentDoc `json:"serviceDeployments"`
		Failures    []protocol.Problem     `json:"failures"`
	}{[]serviceDeploymentDoc{}, []protocol.Problem{}}
	for _, text := range in.ARNs {
		s, found, ok, err := o.find(path, text)
		switch {
		case err != nil:
			return nil, err
		case ok:
			answer.Deployments = append(answer.Deployments, serviceDeploymentOf(s, found))
		default:
			answer.Failures = append(answer.Failures, protocol.Problem{ARN: text, Reason: protocol.MissingReason})
		}
	}
	return answer, nil
}

type stopServiceDeploymentIn struct {
	ARN  string `json:"serviceDeploymentArn"`
	Type string `json:"stopType"`
}

func (o serviceDeployments) stop(ctx context.Context, in stopServiceDeploymentIn, _ protocol.Fields) (any, error) {
	s, found, err := o.existing(in.ARN)
	if err != nil {
		return nil, err
	}
	if err := o.services.StopAttempt(ctx, s.Name, found.Number, in.Type == "ABORT"); err != nil {
		return nil, err
	}
	return map[string]string{"serviceDeploymentArn": serviceDeploymentARN(s, found)}, nil
}

type resumeServiceDeploymentIn struct {
	ARN    string `json:"serviceDeploymentArn"`
	Hook   string `json:"hookId"`
	Action string `json:"action"`
}

// pauseID is the form of the hookId of a pause.
var pauseID = lazy.MustCompile(`^ecs-pause-[A-Za-z0-9_-]{43}$`)

// resume answers a pause: the service deployment continues, or is rolled back.
func (o serviceDeployments) resume(ctx context.Context, in resumeServiceDeploymentIn, _ protocol.Fields) (any, error) {
	if !pauseID.MatchString(in.Hook) {
		return nil, protocol.Invalidf("hookId: %q is not ecs-pause- with 43 characters of base64url behind it", protocol.Shortened(in.Hook))
	}
	s, found, err := o.existing(in.ARN)
	if err != nil {
		return nil, err
	}
	if err := o.services.ContinueAttempt(ctx, s.Name, found.Number, in.Hook, in.Action == "ROLLBACK"); err != nil {
		return nil, err
	}
	return map[string]string{"serviceDeploymentArn": serviceDeploymentARN(s, found)}, nil
}

// revisionDoc is a revision in answers.
type revisionDoc struct {
	ARN        string          `json:"serviceRevisionArn"`
	ServiceARN string          `json:"serviceArn"`
	ClusterARN string          `json:"clusterArn"`
	Definition string          `json:"taskDefinition"`
	LaunchType string          `json:"launchType,omitempty"`
	Images     []imageDoc      `json:"containerImages"`
	GuardDuty  bool            `json:"guardDutyEnabled"`
	CreatedAt  protocol.Moment `json:"createdAt"`
}

type imageDoc struct {
	Container string `json:"containerName"`
	Image     string `json:"image"`
	Digest    string `json:"imageDigest,omitempty"`
}

// keptInRevision are the kept members of a service that a revision has.
var keptInRevision = []string{"capacityProviderStrategy", "platformVersion", "networkConfiguration", "loadBalancers", "serviceRegistries", "serviceConnectConfiguration"}

type describeRevisionsIn struct {
	ARNs []string `json:"serviceRevisionArns"`
}

func (o serviceDeployments) revisions(ctx context.Context, in describeRevisionsIn, _ protocol.Fields) (any, error) {
	const path = "serviceRevisionArns"
	if err := countARNs(path, in.ARNs); err != nil {
		return nil, err
	}
	answer := struct {
		Revisions []any              `json:"serviceRevisions"`
		Failures  []protocol.Problem `json:"failures"`
	}{[]any{}, []protocol.Problem{}}
	for _, text := range in.ARNs {
		s, id, ok, err := o.named(path, "service-revision", text)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(s.Revisions, func(r service.Revision) bool { return revisionID(r.Deployment) == id })
		if !ok || i < 0 {
			answer.Failures = append(answer.Failures, protocol.Problem{ARN: text, Reason: protocol.MissingReason})
			continue
		}
		answer.Revisions = append(answer.Revisions, o.revisionOf(ctx, s, s.Revisions[i]))
	}
	return answer, nil
}

// revisionOf describes a revision.
func (o serviceDeployments) revisionOf(ctx context.Context, s service.State, r service.Revision) any {
	cluster, kept := clusterOfService(s), make(protocol.Fields)
	sent := serviceClientOf(service.Config{ClientConfig: service.ClientConfig{Client: r.Client}}).Kept
	for _, name := range keptInRevision {
		if v := sent[name]; v != nil {
			kept[name] = v
		}
	}
	doc := revisionDoc{
		ARN: revisionARN(s, r.Deployment), ServiceARN: arn.Service(cluster, s.Name), ClusterARN: arn.Cluster(cluster), Definition: arn.Make("task-definition", r.TaskDefinition),
		LaunchType: launchTypeOf(client{Kept: sent}), Images: []imageDoc{}, CreatedAt: protocol.Moment(r.CreatedAt),
	}
	digests := o.digests(ctx, s, r)
	for _, i := range r.Images {
		doc.Images = append(doc.Images, imageDoc{i.Container, i.Image, digests[i.Container]})
	}
	return protocol.WithMembers(doc, kept)
}

// digests returns the digests of the images by container, from a task of the revision; empty without one.
func (o serviceDeployments) digests(ctx context.Context, s service.State, r service.Revision) map[string]string {
	found := make(map[string]string)
	for _, t := range o.tasks.States(ctx) {
		if t.Options.Service != s.Name || t.Options.Deployment != r.Deployment || t.CreatedAt.Before(s.CreatedAt) {
			continue
		}
		for i, c := range t.Containers {
			if c.Digest != "" {
				found[t.Task.Containers[i].Name] = c.Digest
			}
		}
	}
	return found
}
