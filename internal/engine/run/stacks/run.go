package stacks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/engine/decide/stack"
	"github.com/podtask/podtask/internal/engine/facts/failpoint"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/service"
)

// Agent names what runs services and tasks.
type Agent interface {
	Service(ctx context.Context, name string) (api.Service, error)
	CreateService(ctx context.Context, n api.NewService) (api.Service, error)
	UpdateService(ctx context.Context, name string, u api.ServiceUpdate) (api.Service, error)
	RollbackService(ctx context.Context, name string, gradual bool) (api.Service, error)
	RemoveService(ctx context.Context, name string, force bool) error
	WatchService(ctx context.Context, name string, fn func(api.Service) bool) error
	Create(ctx context.Context, t api.NewTask) (api.Task, error)
	Task(ctx context.Context, ref string) (api.Task, error)
	Watch(ctx context.Context, id string, fn func(api.Task) bool) error
	Remove(ctx context.Context, id, by string, force bool) error
}

// Schedules names what makes and removes schedules.
type Schedules interface {
	// Apply makes a schedule of a stack, or makes it what it is to be; images are those that are pinned.
	Apply(ctx context.Context, stack string, m stack.Member, images map[string]string) error
	// Remove removes it with the tasks that it has run. It does nothing if there is none, or if it is not of this stack.
	Remove(ctx context.Context, stack string, h stack.Had) error
}

// ScheduleID is the ID of a schedule of a stack. One of another ID is not the stack's.
func ScheduleID(of, object string) string {
	sum := sha256.Sum256([]byte("stack\x00" + of + "\x00" + object))
	return hex.EncodeToString(sum[:16])
}

// Runner carries out the change of a stack.
type Runner struct {
	Agent     Agent
	Schedules Schedules
	Store     interface{ Put(stack.State) error }
	// Definition returns the text of a registered definition, JSON.
	Definition func(ref string) ([]byte, error)
	// RemoveVolumes removes the volumes that were made for a stack.
	RemoveVolumes func(ctx context.Context, stack string) error
	// Told is called for each step before it is done, with an empty outcome, and after it.
	Told func(s stack.State, step stack.Step, o *stack.Outcome)
	// Failing is called for a step that fails, before anything is put back.
	Failing func(ctx context.Context, step stack.Step, task string)
	// Limit describes how long a step may take; 0 for no limit.
	Limit time.Duration
	Now   func() time.Time
	Fail  *failpoint.Point
}

// Run continues the change of a stack until it has ended, and returns the record. The error is for what keeps this process from going on: the
// next one continues there. How the change ended is in the record.
func (r Runner) Run(ctx context.Context, s stack.State) (stack.State, error) {
	for s.Change != nil {
		if err := ctx.Err(); err != nil {
			return s, err
		}
		step := stack.Next(s)
		if step.Verb == stack.Stop {
			return s, nil
		}
		s, step = stack.Begin(s, step)
		if err := r.Store.Put(s); err != nil {
			return s, err
		}
		r.Told(s, step, nil)
		r.Fail.At(failpoint.StackStep)
		o, err := r.do(ctx, s, step)
		r.Fail.At(failpoint.StackStep)
		if err != nil {
			return s, err
		}
		s = stack.End(s, step, o, r.Now())
		if err := r.Store.Put(s); err != nil {
			return s, err
		}
		r.Told(s, step, &o)
	}
	return s, nil
}

// do does a step. An error is for what says nothing about the step.
func (r Runner) do(ctx context.Context, s stack.State, step stack.Step) (o stack.Outcome, err error) {
	limited := ctx
	if r.Limit > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, r.Limit)
		defer cancel()
	}
	task := ""
	switch {
	case step.Verb == stack.Apply && step.Member.Kind == stack.Job:
		task, err = r.applyJob(limited, s, step)
		o.Mark = task
	case step.Verb == stack.Apply && step.Member.Kind == stack.Schedule:
		err = ofSchedule(limited, r.Schedules.Apply(limited, s.Name, step.Member, pinned(step.Member)))
	case step.Verb == stack.Await && step.Member.Kind == stack.Schedule: // it is there
	case step.Verb == stack.Remove && step.Had.Kind == stack.Schedule:
		err = ofSchedule(limited, r.Schedules.Remove(limited, s.Name, step.Had))
	case step.Verb == stack.Apply:
		o.Mark, o.Made, err = r.applyService(limited, s, step)
	case step.Verb == stack.Await && step.Member.Kind == stack.Job:
		task, err = r.awaitJob(limited, step)
	case step.Verb == stack.Await:
		task, err = r.awaitService(limited, step)
	case step.Verb == stack.Remove && step.Had.Kind == stack.Service:
		err = r.removeService(limited, step.Had)
	case step.Verb == stack.Remove || step.Verb == stack.Discard:
		err = r.removeTask(limited, step.Had)
	case step.Verb == stack.Volumes:
		err = r.RemoveVolumes(limited, s.Name)
	}
	var failure *api.Failure
	var bad *stepError
	switch {
	case err == nil:
	case ctx.Err() == nil && limited.Err() != nil:
		o.Failed = fmt.Sprintf("it took more than %s: %v", r.Limit, err)
	case errors.As(err, &bad), errors.As(err, &failure) && failure.Code != api.Internal && failure.Code != api.Busy:
		o.Failed = err.Error()
		for _, p := range problems(failure) {
			o.Failed += "; " + p
		}
	case step.Verb == stack.Volumes:
		o.Failed = err.Error()
	default:
		return o, err
	}
	if o.Failed != "" {
		r.Failing(ctx, step, task)
	}
	return o, nil
}

func problems(f *api.Failure) (all []string) {
	if f == nil {
		return nil
	}
	for _, p := range f.Problems {
		all = append(all, p.String())
	}
	return all
}

// stepError gives the reason why a step cannot succeed.
type stepError struct{ text string }

func (e *stepError) Error() string { return e.text }

// ofSchedule returns the error of a step of a schedule, which no agent reports.
func ofSchedule(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	return failf("%v", err)
}

func failf(format string, args ...any) error { return &stepError{fmt.Sprintf(format, args...)} }

// Owns reports whether a service of the name of a member is the stack's: it was made when the record says, or has the definition
// that was applied, as after a kill of the process that made it. A record of a version without both is believed.
func Owns(h stack.Had, now api.Service) bool {
	return h.Made.IsZero() && h.Definition == "" || h.Made.Equal(now.CreatedAt) || now.TaskDefinition == h.Definition
}

func notOurs(service string) error {
	return failf("there is a service %s already, which is not of this stack", service)
}

// applyService makes a service, or makes it what it is to be. It returns the deployment, and when the service was made.
func (r Runner) applyService(ctx context.Context, s stack.State, step stack.Step) (mark string, at time.Time, err error) {
	var n api.NewService
	m := step.Member
	if err := json.Unmarshal(m.Request, &n); err != nil {
		return "", at, failf("the record of %s cannot be read: %v", m.Name, err)
	}
	n.ServiceName, n.TaskDefinition = m.Object, m.Definition
	if n.AutoUpdate == service.FromRegistry {
		n.Digests = digests(m)
	} else {
		n.AutoUpdate, n.TaskSettings.Images = api.NoAutoUpdate, pinned(m)
	}
	now, err := r.Agent.Service(ctx, m.Object)
	if err == nil && now.Status != "ACTIVE" { // it is being removed
		if err := r.gone(ctx, m.Object); err != nil {
			return "", at, err
		}
		err = api.Failed(api.NotFound, "")
	}
	if api.Is(err, api.NotFound) {
		made, err := r.Agent.CreateService(ctx, n)
		return deploymentOf(made), made.CreatedAt, err
	}
	if err != nil {
		return "", at, err
	}
	if !Owns(step.Had, now) {
		return "", at, notOurs(m.Object)
	}
	if h := now.History; s.Change.Way == stack.Back && len(h) > 0 && h[len(h)-1].Status == "IN_PROGRESS" {
		// Its own way back is the quickest. Where it has none, the update is.
		if _, err := r.Agent.RollbackService(ctx, m.Object, false); err != nil && !api.Is(err, api.Conflict) {
			return "", at, err
		}
	}
	made, err := r.Agent.UpdateService(ctx, m.Object, api.ServiceUpdate{DesiredCount: &n.DesiredCount, TaskDefinition: n.TaskDefinition, ForceNewDeployment: builtHere(m), ServiceSettings: n.ServiceSettings})
	return deploymentOf(made), now.CreatedAt, err
}

// pinned are the images of a member that have a digest.
func pinned(m stack.Member) map[string]string {
	images := make(map[string]string)
	for image, run := range m.Images {
		if image != run && !isID(run) {
			images[image] = run
		}
	}
	return images
}

// digests returns the digests of the tags of a member that is updated automatically from then on.
func digests(m stack.Member) map[string]string {
	all := map[string]string{}
	for image, run := range m.Images {
		if _, digest, is := strings.Cut(run, "@"); is && image != run {
			all[image] = digest
		}
	}
	return all
}

// IDPrefix begins the entry of an image that was built on this host and has an ID and no digest.
const IDPrefix = "id:"

func isID(run string) bool { return len(run) > len(IDPrefix) && run[:len(IDPrefix)] == IDPrefix }

// builtHere reports whether a member has an image without a digest: its tag may mean another image than before.
func builtHere(m stack.Member) bool {
	for _, run := range m.Images {
		if isID(run) {
			return true
		}
	}
	return false
}

func deploymentOf(s api.Service) string {
	if len(s.Deployments) == 0 {
		return ""
	}
	return s.Deployments[0].ID
}

// maxFailures describes how many copies of a service's first deployment may fail: there is no earlier one to which it could return.
const maxFailures = 3

// awaitService waits for a condition of a service. For one that fails it returns a task that did.
func (r Runner) awaitService(ctx context.Context, step stack.Step) (task string, err error) {
	var verdict error
	seen := false
	err = r.Agent.WatchService(ctx, step.Member.Object, func(s api.Service) bool {
		seen = true
		var done bool
		done, task, verdict = judge(s, step)
		return !done
	})
	switch {
	case verdict != nil:
		return task, verdict
	case api.Is(err, api.NotFound), err == nil && !seen:
		return "", failf("the service %s is gone", step.Member.Object)
	case ctx.Err() != nil:
		if s, stateErr := r.Agent.Service(context.WithoutCancel(ctx), step.Member.Object); stateErr == nil && len(s.Why) > 0 {
			return lastTask(s), fmt.Errorf("%s", s.Why[0].Text)
		}
	}
	return "", err
}

// judge reports whether a service has a condition, or will not have it, and then why.
func judge(s api.Service, step stack.Step) (done bool, task string, err error) {
	d := s.Deployments[0]
	switch {
	case s.Status != "ACTIVE":
		return true, "", failf("the service %s is being removed", s.ServiceName)
	case step.Had.Mark != "" && d.ID != step.Had.Mark:
		return true, lastTask(s), failf("%s", whyReturned(s, step.Had.Mark))
	case d.RolloutState == "FAILED":
		return true, lastTask(s), failf("%s", d.RolloutStateReason)
	case len(s.History) <= 1 && d.RolloutState != "COMPLETED" && d.FailedTasks >= maxFailures:
		return true, lastTask(s), failf("%d copies failed, the last one because: %s", d.FailedTasks, lastReason(s))
	}
	if step.Is == stack.Started {
		return s.DesiredCount == 0 || d.RunningCount > 0, "", nil
	}
	if !s.Steady || d.RolloutState != "COMPLETED" || s.HealthyCount < s.DesiredCount {
		return false, "", nil
	}
	for _, l := range s.Listeners {
		if l.Problem != "" {
			return true, "", failf("the address %s: %s", l.Address, l.Problem)
		}
	}
	return true, "", nil
}

// whyReturned gives the reason why a service does not run a deployment any more.
func whyReturned(s api.Service, deployment string) string {
	for i := len(s.History) - 1; i >= 0; i-- {
		if h := s.History[i]; h.Deployment == deployment && h.Reason != "" {
			return h.Reason
		}
	}
	return "another deployment of the service began meanwhile"
}

// lastTask is the copy that stopped last with a reason, else any; its ID.
func lastTask(s api.Service) string {
	for i := len(s.Tasks) - 1; i >= 0; i-- {
		if t := s.Tasks[i]; t.Phase == "STOPPED" || t.Phase == "STOPPING" {
			return t.ID
		}
	}
	if len(s.Tasks) > 0 {
		return s.Tasks[len(s.Tasks)-1].ID
	}
	return ""
}

func lastReason(s api.Service) string {
	for i := len(s.Tasks) - 1; i >= 0; i-- {
		if t := s.Tasks[i]; t.Reason != "" {
			return t.Reason
		}
	}
	return "they ended"
}

// removeService removes a service of the stack with its tasks, and waits until it is gone. One of somebody else stays.
func (r Runner) removeService(ctx context.Context, h stack.Had) error {
	now, err := r.Agent.Service(ctx, h.Object)
	if err == nil && !Owns(h, now) {
		return nil
	}
	if err == nil {
		err = r.Agent.RemoveService(ctx, h.Object, true)
	}
	if api.Is(err, api.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return r.gone(ctx, h.Object)
}

// gone waits until a service is removed.
func (r Runner) gone(ctx context.Context, name string) error {
	err := r.Agent.WatchService(ctx, name, func(api.Service) bool { return true })
	if api.Is(err, api.NotFound) {
		return nil
	}
	if err == nil { // the agent ended, or the service is gone
		if _, err = r.Agent.Service(ctx, name); api.Is(err, api.NotFound) {
			return nil
		}
		if err == nil {
			return fmt.Errorf("the agent stopped telling of the service %s", name)
		}
	}
	return err
}

// TaskName is the name of the task of a job's last run.
func TaskName(h stack.Had) string { return fmt.Sprintf("%s-%d", h.Object, h.Run) }

// TaskRef is the ID of the task of a job's last run, or its name if the record is of a version without tokens.
func TaskRef(h stack.Had) string {
	if h.Token == "" {
		return TaskName(h)
	}
	return api.TaskID(h.Token)
}

// applyJob runs a job, unless it runs already in this change. It returns the task.
func (r Runner) applyJob(ctx context.Context, s stack.State, step stack.Step) (task string, err error) {
	t, err := r.Agent.Task(ctx, TaskRef(step.Had))
	if err == nil {
		return t.ID, nil
	}
	if !api.Is(err, api.NotFound) {
		return "", err
	}
	var n api.NewTask
	if err := json.Unmarshal(step.Member.Request, &n); err != nil {
		return "", failf("the record of %s cannot be read: %v", step.Name, err)
	}
	text, err := r.Definition(step.Member.Definition)
	if err != nil {
		return "", failf("the definition %s of %s: %v", step.Member.Definition, step.Name, err)
	}
	n.Definition, n.Name, n.ClientToken, n.TaskSettings.Images = text, TaskName(step.Had), step.Had.Token, pinned(step.Member)
	t, err = r.Agent.Create(ctx, n)
	return t.ID, err
}

// awaitJob waits until a job has succeeded.
func (r Runner) awaitJob(ctx context.Context, step stack.Step) (task string, err error) {
	var last api.Task
	err = r.Agent.Watch(ctx, TaskRef(step.Had), func(t api.Task) bool {
		last = t
		return t.Status != "STOPPED"
	})
	switch {
	case api.Is(err, api.NotFound):
		return "", failf("its task %s is gone", TaskName(step.Had))
	case err == nil && last.Status == "STOPPED" && last.StopCode == lifecycle.StopUserInitiated:
		return last.ID, failf("it was stopped before its end: %s", last.StoppedReason)
	case err == nil && last.Status == "STOPPED" && last.ExitCode != nil && *last.ExitCode == 0:
		return last.ID, nil
	case err == nil && last.Status == "STOPPED":
		code := "no exit code"
		if last.ExitCode != nil {
			code = fmt.Sprintf("exit code %d", *last.ExitCode)
		}
		return last.ID, failf("it ended with %s: %s", code, last.StoppedReason)
	case err == nil:
		return last.ID, fmt.Errorf("the agent stopped telling of the task %s", TaskName(step.Had))
	case ctx.Err() != nil && len(last.Why) > 0:
		return last.ID, fmt.Errorf("%s", last.Why[0].Text)
	}
	return last.ID, err
}

// removeTask removes the task of a job's last run, and waits until it is gone.
func (r Runner) removeTask(ctx context.Context, h stack.Had) error {
	if h.Run == 0 {
		return nil
	}
	t, err := r.Agent.Task(ctx, TaskRef(h))
	if api.Is(err, api.NotFound) {
		return nil
	}
	if err == nil {
		err = r.Agent.Remove(ctx, t.ID, "podtask stack", true)
	}
	if err == nil {
		err = r.Agent.Watch(ctx, t.ID, func(api.Task) bool { return true })
	}
	if err == nil {
		if _, err = r.Agent.Task(ctx, t.ID); err == nil {
			return failf("the task %s is not removed", TaskName(h))
		}
	}
	if api.Is(err, api.NotFound) {
		return nil
	}
	return err
}
