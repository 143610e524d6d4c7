package awsapi

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/engine/facts/arn"
	"github.com/podtask/podtask/pkg/service"
)

// attempts are the operations on the history of services: ECS calls an attempt a service
// deployment.
type attempts struct {
	*serviceBook
	clusters *clusters
	tasks    Tasks
}

const (
	// usualAttempts is how many attempts a page has, maxAttempts how many a request names.
	usualAttempts = 20
	maxAttempts   = 20
)

func (a attempts) operations() []operation {
	return []operation{
		define("ListServiceDeployments", honor("service!", "cluster", "status", "createdAt", "createdAt.after", "createdAt.before", "maxResults", "nextToken"), a.list),
		define("DescribeServiceDeployments", honor("serviceDeploymentArns!"), a.describe),
		define("DescribeServiceRevisions", honor("serviceRevisionArns!"), a.revisions),
		define("StopServiceDeployment", honor("serviceDeploymentArn!", "stopType"), a.stop),
		define("ContinueServiceDeployment", honor("serviceDeploymentArn!", "hookId!", "action"), a.resume),
	}
}

// revisionID is the id of a deployment's revision.
func revisionID(deployment string) string { return arn.RevisionID(deployment) }

// attemptID is the id of an attempt.
func attemptID(s service.State, a service.Attempt) string { return arn.AttemptID(s.ID, a.Number) }

func attemptARN(s service.State, a service.Attempt) string {
	return arn.ServiceDeployment(clusterOfService(s), s.Name, attemptID(s, a))
}

func revisionARN(s service.State, deployment string) string {
	return arn.ServiceRevision(clusterOfService(s), s.Name, revisionID(deployment))
}

// named finds the service that an ARN of the kind is of. It returns the last part of the ARN.
func (a attempts) named(path, kind, text string) (s service.State, id string, ok bool, err error) {
	rest, isARN, err := cut(path, kind, text)
	if err != nil {
		return s, "", false, err
	}
	parts := strings.Split(rest, "/")
	if !isARN || len(parts) != 3 {
		return s, "", false, invalidf("%s: %q is not the ARN of a %s", path, shortened(text), kind)
	}
	s, ok = a.find(parts[1])
	return s, parts[2], ok && clusterOfService(s) == parts[0], nil
}

// attempt finds the attempt of an ARN.
func (a attempts) attempt(path, text string) (s service.State, found service.Attempt, ok bool, err error) {
	s, id, ok, err := a.named(path, "service-deployment", text)
	if !ok || err != nil {
		return s, found, false, err
	}
	i := slices.IndexFunc(s.History, func(a service.Attempt) bool { return attemptID(s, a) == id })
	if i < 0 {
		return s, found, false, nil
	}
	return s, s.History[i], true, nil
}

// attemptBrief is an attempt in a list.
type attemptBrief struct {
	attemptHead
	Target string `json:"targetServiceRevisionArn"`
}

// attemptHead is what an attempt has in lists and by itself.
type attemptHead struct {
	ARN        string `json:"serviceDeploymentArn"`
	ServiceARN string `json:"serviceArn"`
	ClusterARN string `json:"clusterArn"`
	CreatedAt  moment `json:"createdAt"`
	StartedAt  moment `json:"startedAt"`
	FinishedAt moment `json:"finishedAt,omitzero"`
	Status     string `json:"status"`
	Reason     string `json:"statusReason,omitempty"`
}

// attemptDoc is an attempt in answers.
type attemptDoc struct {
	attemptHead
	UpdatedAt moment              `json:"updatedAt"`
	StoppedAt moment              `json:"stoppedAt,omitzero"`
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

// hookCallDoc is a hook of an attempt in a stage.
type hookCallDoc struct {
	ID        string `json:"hookId"`
	Type      string `json:"targetType"`
	Target    string `json:"targetArn,omitempty"`
	Status    string `json:"status"`
	ExpiresAt moment `json:"expiresAt,omitzero"`
	OnTimeout string `json:"timeoutAction"`
}

type returnDoc struct {
	Reason    string `json:"reason"`
	StartedAt moment `json:"startedAt"`
	Revision  string `json:"serviceRevisionArn"`
}

type breakerUseDoc struct {
	Status    string `json:"status"`
	Failures  int    `json:"failureCount"`
	Threshold int    `json:"threshold"`
}

func headOf(s service.State, a service.Attempt) attemptHead {
	cluster := clusterOfService(s)
	return attemptHead{
		ARN: attemptARN(s, a), ServiceARN: arn.Service(cluster, s.Name), ClusterARN: arn.Cluster(cluster),
		CreatedAt: moment(a.Times.CreatedAt), StartedAt: moment(a.Times.CreatedAt), FinishedAt: moment(a.Times.EndedAt),
		Status: string(a.Status), Reason: a.Reason,
	}
}

// shareOf describes a share, with the weights of an attempt that shifts connections; nil for none.
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

// attemptOf describes an attempt.
func attemptOf(s service.State, a service.Attempt) attemptDoc {
	doc := attemptDoc{
		attemptHead: headOf(s, a), UpdatedAt: moment(a.Times.UpdatedAt), StoppedAt: moment(a.Times.StoppedAt),
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
		doc.Rollback = &returnDoc{doc.Reason, moment(r.StartedAt), revisionARN(s, r.Deployment)}
	}
	return doc
}

// hookCallOf describes a hook of an attempt in a stage.
func hookCallOf(a service.Attempt, c service.HookCall) hookCallDoc {
	doc := hookCallDoc{ID: c.ID, Type: string(service.HookLambda), Status: string(c.Status), ExpiresAt: moment(c.ExpiresAt), OnTimeout: string(service.TimeoutRollback)}
	i := slices.IndexFunc(a.Method.Hooks, func(h service.Hook) bool { return h.Name == c.Hook })
	if i >= 0 {
		h := a.Method.Hooks[i]
		doc.Type, doc.Target, doc.OnTimeout = kindOf(h), targetOf(h), string(cmp.Or(h.OnTimeout, service.TimeoutRollback))
	}
	return doc
}

// alarmUseOf describes what the alarms of an attempt say; nil without any.
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

type listAttemptsIn struct {
	paging
	Service string   `json:"service"`
	Cluster string   `json:"cluster"`
	Status  []string `json:"status"`
	Created struct {
		After  moment `json:"after"`
		Before moment `json:"before"`
	} `json:"createdAt"`
}

// attemptStatuses are those of ECS.
var attemptStatuses = []string{"PENDING", "SUCCESSFUL", "STOPPED", "STOP_REQUESTED", "IN_PROGRESS", "ROLLBACK_REQUESTED", "ROLLBACK_IN_PROGRESS", "ROLLBACK_SUCCESSFUL", "ROLLBACK_FAILED"}

// wants reports whether an attempt passes the filters of a request.
func (in listAttemptsIn) wants(a service.Attempt) bool {
	after, before := time.Time(in.Created.After), time.Time(in.Created.Before)
	return (len(in.Status) == 0 || slices.Contains(in.Status, string(a.Status))) &&
		(after.IsZero() || a.Times.CreatedAt.After(after)) && (before.IsZero() || a.Times.CreatedAt.Before(before))
}

// list lists the attempts of a service, the latest first.
func (a attempts) list(_ context.Context, in listAttemptsIn, _ fields) (any, error) {
	for _, status := range in.Status {
		if err := oneOf("status", status, attemptStatuses...); err != nil {
			return nil, err
		}
	}
	cluster, err := a.clusters.active(in.Cluster)
	if err != nil {
		return nil, err
	}
	s, _, ok, err := a.serviceBook.named("service", cluster, in.Service)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, failf("ServiceNotFoundException", "Service not found.")
	}
	var keys []string
	briefs := make(map[string]attemptBrief)
	for _, found := range slices.Backward(s.History) {
		if in.wants(found) {
			key := fmt.Sprintf("%020d", found.Number)
			keys = append(keys, key)
			briefs[key] = attemptBrief{headOf(s, found), revisionARN(s, found.Target.Deployment)}
		}
	}
	answer := struct {
		Deployments []attemptBrief `json:"serviceDeployments"`
		Next        string         `json:"nextToken,omitempty"`
	}{Deployments: []attemptBrief{}}
	keys, answer.Next, err = page("ListServiceDeployments "+s.ID, in.paging, usualAttempts, keys, func(a, b string) int { return strings.Compare(b, a) })
	for _, key := range keys {
		answer.Deployments = append(answer.Deployments, briefs[key])
	}
	return answer, err
}

type describeAttemptsIn struct {
	ARNs []string `json:"serviceDeploymentArns"`
}

// countARNs checks how many ARNs a request has.
func countARNs(path string, all []string) error {
	if n := len(all); n < 1 || n > maxAttempts {
		return invalidf("%s: %d is not 1 to %d", path, n, maxAttempts)
	}
	return nil
}

func (a attempts) describe(_ context.Context, in describeAttemptsIn, _ fields) (any, error) {
	const path = "serviceDeploymentArns"
	if err := countARNs(path, in.ARNs); err != nil {
		return nil, err
	}
	answer := struct {
		Deployments []attemptDoc `json:"serviceDeployments"`
		Failures    []problem    `json:"failures"`
	}{[]attemptDoc{}, []problem{}}
	for _, text := range in.ARNs {
		s, found, ok, err := a.attempt(path, text)
		switch {
		case err != nil:
			return nil, err
		case ok:
			answer.Deployments = append(answer.Deployments, attemptOf(s, found))
		default:
			answer.Failures = append(answer.Failures, problem{ARN: text, Reason: missingReason})
		}
	}
	return answer, nil
}

type stopAttemptIn struct {
	ARN  string `json:"serviceDeploymentArn"`
	Type string `json:"stopType"`
}

func (a attempts) stop(ctx context.Context, in stopAttemptIn, _ fields) (any, error) {
	if err := oneOf("stopType", in.Type, "ROLLBACK", "ABORT"); err != nil {
		return nil, err
	}
	s, found, ok, err := a.attempt("serviceDeploymentArn", in.ARN)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, failf("ServiceDeploymentNotFoundException", "Service deployment not found.")
	}
	if err := a.services.StopAttempt(ctx, s.Name, found.Number, in.Type == "ABORT"); err != nil {
		return nil, err
	}
	return struct {
		ARN string `json:"serviceDeploymentArn"`
	}{attemptARN(s, found)}, nil
}

type resumeAttemptIn struct {
	ARN    string `json:"serviceDeploymentArn"`
	Hook   string `json:"hookId"`
	Action string `json:"action"`
}

// pauseID is the form of the hookId of a pause.
var pauseID = regexp.MustCompile(`^ecs-pause-[A-Za-z0-9_-]{43}$`)

// resume answers a pause: the attempt continues, or is rolled back.
func (a attempts) resume(ctx context.Context, in resumeAttemptIn, _ fields) (any, error) {
	if err := oneOf("action", in.Action, "CONTINUE", "ROLLBACK"); err != nil {
		return nil, err
	}
	if !pauseID.MatchString(in.Hook) {
		return nil, invalidf("hookId: %q is not ecs-pause- with 43 characters of base64url behind it", shortened(in.Hook))
	}
	s, found, ok, err := a.attempt("serviceDeploymentArn", in.ARN)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, failf("ServiceDeploymentNotFoundException", "Service deployment not found.")
	}
	if err := a.services.ContinueAttempt(ctx, s.Name, found.Number, in.Hook, in.Action == "ROLLBACK"); err != nil {
		return nil, err
	}
	return struct {
		ARN string `json:"serviceDeploymentArn"`
	}{attemptARN(s, found)}, nil
}

// revisionDoc is a revision in answers.
type revisionDoc struct {
	ARN        string     `json:"serviceRevisionArn"`
	ServiceARN string     `json:"serviceArn"`
	ClusterARN string     `json:"clusterArn"`
	Definition string     `json:"taskDefinition"`
	LaunchType string     `json:"launchType,omitempty"`
	Images     []imageDoc `json:"containerImages"`
	GuardDuty  bool       `json:"guardDutyEnabled"`
	CreatedAt  moment     `json:"createdAt"`
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

func (a attempts) revisions(ctx context.Context, in describeRevisionsIn, _ fields) (any, error) {
	const path = "serviceRevisionArns"
	if err := countARNs(path, in.ARNs); err != nil {
		return nil, err
	}
	answer := struct {
		Revisions []any     `json:"serviceRevisions"`
		Failures  []problem `json:"failures"`
	}{[]any{}, []problem{}}
	for _, text := range in.ARNs {
		s, id, ok, err := a.named(path, "service-revision", text)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(s.Revisions, func(r service.Revision) bool { return revisionID(r.Deployment) == id })
		if !ok || i < 0 {
			answer.Failures = append(answer.Failures, problem{ARN: text, Reason: missingReason})
			continue
		}
		answer.Revisions = append(answer.Revisions, a.revisionOf(ctx, s, s.Revisions[i]))
	}
	return answer, nil
}

// revisionOf describes a revision.
func (a attempts) revisionOf(ctx context.Context, s service.State, r service.Revision) any {
	cluster, kept := clusterOfService(s), make(fields)
	sent := serviceClientOf(service.Config{ClientConfig: service.ClientConfig{Client: r.Client}}).Kept
	for _, name := range keptInRevision {
		if v := sent[name]; v != nil {
			kept[name] = v
		}
	}
	doc := revisionDoc{
		ARN: revisionARN(s, r.Deployment), ServiceARN: arn.Service(cluster, s.Name), ClusterARN: arn.Cluster(cluster), Definition: arn.Make("task-definition", r.TaskDefinition),
		LaunchType: launchTypeOf(client{Kept: sent}), Images: []imageDoc{}, CreatedAt: moment(r.CreatedAt),
	}
	digests := a.digests(ctx, s, r)
	for _, i := range r.Images {
		doc.Images = append(doc.Images, imageDoc{i.Container, i.Image, digests[i.Container]})
	}
	return over{doc, kept}
}

// digests are those of the images, by container, as far as a task of the revision has them.
func (a attempts) digests(ctx context.Context, s service.State, r service.Revision) map[string]string {
	found := make(map[string]string)
	for _, t := range a.tasks.States(ctx) {
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
