package service

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/podtask/podtask/pkg/admission"
	"github.com/podtask/podtask/pkg/taskdef"
)

// State is everything that is stored about one service.
type State struct {
	// ID is 32 lower-case hex digits, Name what users call the service.
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"createdAt"`
	Status    Status    `json:"status"`
	// DesiredCount is the number of copies that the service keeps running.
	DesiredCount int    `json:"desiredCount"`
	Config       Config `json:"config"`
	// Deployments are the PRIMARY one, then those that still have tasks.
	Deployments []Deployment `json:"deployments"`
	// Completed are the latest deployments that were completed, the last one first: what
	// a rollback returns to.
	Completed []Deployment `json:"completed,omitempty"`
	// History are the latest keptAttempts attempts, the oldest first; Revisions are what they
	// and the deployments name. Both are empty in the records of earlier versions.
	History   History   `json:"history,omitempty"`
	Revisions Revisions `json:"revisions,omitempty"`
	// Tasks are in the order in which they were wanted. Of those that have stopped a few
	// are kept.
	Tasks []Task `json:"tasks,omitempty"`
	// LastTask, LastDeployment and LastEvent are the highest numbers given.
	LastTask       int     `json:"lastTask"`
	LastDeployment int     `json:"lastDeployment"`
	LastEvent      int     `json:"lastEvent"`
	BackOff        BackOff `json:"pace,omitzero"`
	// Steady: there is nothing to do, and it was said.
	Steady bool `json:"steady,omitempty"`
	// Unheard are the listeners that could not be opened when that was last tried.
	Unheard []Unheard `json:"notListening,omitempty"`
	// Rollbacks counts automatic returns to an earlier deployment.
	Rollbacks int `json:"rollbacks,omitempty"`
	// Rest is whether the service sleeps.
	Rest Rest `json:"rest,omitzero"`
	// Events are the latest keptEvents, the oldest first.
	Events []Event `json:"events,omitempty"`

	use use
}

// Status is that of a service.
type Status string

// The statuses of ECS that a recorded service may have.
const (
	Active   Status = "ACTIVE"
	Draining Status = "DRAINING" // it is to be removed when its tasks are
)

// Config is the configuration of a service.
type Config struct {
	// Bounds are for rolling; nil stands for one copy after the other: one more than
	// desired while it lasts, or one less where fixed host ports allow no more.
	Bounds  *Bounds `json:"bounds,omitempty"`
	Breaker Breaker `json:"breaker"`
	// HealthCheckGracePeriod is how long after its start a task may be UNHEALTHY.
	HealthCheckGracePeriod time.Duration `json:"healthCheckGracePeriod,omitempty"`
	// Listeners are the addresses of the service, which stay while copies come and go.
	Listeners []Listener `json:"listeners,omitempty"`
	// DrainTimeout is the time in which a copy that is to stop may finish its connections; 0 stands
	// for DefaultDrainTimeout.
	DrainTimeout time.Duration `json:"drainTimeout,omitempty"`
	// TestListeners are addresses whose connections go to green before production does.
	TestListeners []Listener `json:"testListeners,omitempty"`
	// Names are those that tasks reach the service by, and the namespace that its copies are in.
	Names Names `json:"names,omitzero"`
	// Ingress are the public addresses of the service, instead of those of its task definition; nil stands for
	// those, and an empty list for none.
	Ingress *[]taskdef.Ingress `json:"ingress,omitempty"`
	// Sleep configures the sleep of the service in place of its task definition; nil leaves that.
	Sleep *Sleep `json:"sleep,omitempty"`
	// AutoUpdate is FromRegistry for a service that is updated automatically; empty for others.
	AutoUpdate string `json:"autoUpdate,omitempty"`
	// Method is the method of a deployment that begins.
	Method Method `json:"method,omitzero"`
	ClientConfig
}

// ClientConfig is the data that a client of the ECS API sent with the service. No step reads it.
type ClientConfig struct {
	// Cluster is the ECS cluster of the service and its tasks; empty for the default one.
	Cluster string `json:"cluster,omitempty"`
	// Client is returned to clients, TaskClient becomes the lifecycle.Options.Client of each
	// new task.
	Client     json.RawMessage `json:"client,omitempty"`
	TaskClient json.RawMessage `json:"taskClient,omitempty"`
}

// Bounds are ECS's, in percent of the desired count.
type Bounds struct {
	// MinimumHealthyPercent, rounded up to copies, stay healthy; 0 to 100.
	MinimumHealthyPercent int `json:"minimumHealthyPercent"`
	// MaximumPercent, rounded down, are there at most; 100 to 200 or more.
	MaximumPercent int `json:"maximumPercent"`
}

// Override returns the bounds with what a request gives; nil keeps what is there, and at
// first ECS's defaults.
func (b *Bounds) Override(minimum, maximum *int) *Bounds {
	if minimum == nil && maximum == nil {
		return b
	}
	bounds := Bounds{MinimumHealthyPercent: 100, MaximumPercent: 200}
	if b != nil {
		bounds = *b
	}
	if minimum != nil {
		bounds.MinimumHealthyPercent = *minimum
	}
	if maximum != nil {
		bounds.MaximumPercent = *maximum
	}
	return &bounds
}

// Breaker is ECS's deployment circuit breaker.
type Breaker struct {
	Enable bool `json:"enable"`
	// Rollback returns to the last deployment that was completed.
	Rollback bool `json:"rollback"`
	// Cumulative: failures of a deployment add up. Otherwise they are counted from zero again
	// when a task of it becomes healthy, as ECS does by default.
	Cumulative bool      `json:"cumulative,omitempty"`
	Threshold  Threshold `json:"threshold,omitzero"`
}

// Deployment is one task definition on its way to all copies.
type Deployment struct {
	// ID is NAME/NUMBER.
	ID      string `json:"id"`
	Primary bool   `json:"primary"`
	Spec
	Rollout Rollout `json:"rolloutState"`
	Reason  string  `json:"rolloutStateReason,omitempty"`
	// Rollback: the service has returned to it by itself.
	Rollback bool `json:"rollback,omitempty"`
	// FailedAt is the time at which the circuit breaker ended it for an earlier one; it is listed for shownFailed.
	FailedAt time.Time `json:"failedAt,omitzero"`
	// FailedTasks counts since the rollout began, or since a task was healthy (Breaker);
	// LastFailure is why the latest did.
	FailedTasks int    `json:"failedTasks"`
	LastFailure string `json:"lastFailure,omitempty"`
	// BackOff is that of a deployment beside the primary one, whose copies are replaced too.
	BackOff   BackOff   `json:"backOff,omitzero"`
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
}

// Spec is the description of a deployment's tasks.
type Spec struct {
	// TaskDefinition is FAMILY:REVISION.
	TaskDefinition string       `json:"taskDefinition"`
	Task           taskdef.Task `json:"task"`
	// Options are keys of the configuration with values for these copies.
	Options map[string]string `json:"options,omitempty"`
	// Files are the contents of files that the task has as sources env:NAME, by NAME: what a
	// manifest has in ConfigMaps and takes from the downward API. None is secret.
	Files map[string][]byte `json:"files,omitempty"`
	// Changes are the changes to the definition by the user who began the deployment, as the API has
	// them (api.TaskChanges): an update keeps those that it does not name. Empty in records of
	// earlier versions, and where a client of AWS began it.
	Changes json.RawMessage `json:"changes,omitempty"`
	// Numbered are the copies where each has a number; nil where they are alike.
	Numbered *Numbered `json:"numbered,omitempty"`
	// Follows are the references with tags that images of the task have digests of, by container, if the service is updated
	// automatically.
	Follows map[string]string `json:"follows,omitempty"`
}

// Rollout is the progress of a deployment.
type Rollout string

// The rollout states of ECS.
const (
	InProgress Rollout = "IN_PROGRESS"
	Completed  Rollout = "COMPLETED"
	Failed     Rollout = "FAILED"
)

// Phase is the goal of a service for a task, and how far that is known to be done.
type Phase string

// The phases, in their order.
const (
	Wanted   Phase = "WANTED"   // to be made; perhaps it is
	Live     Phase = "LIVE"     // made, and to be left alone
	Stopping Phase = "STOPPING" // to be stopped
	Stopped  Phase = "STOPPED"  // kept for its logs
	Removing Phase = "REMOVING" // to be removed
)

// Task is one copy.
type Task struct {
	ID string `json:"id"`
	// Number counts the tasks of the service; the task is called NAME-NUMBER.
	Number int `json:"number"`
	// Copy is the place of a numbered copy in Spec.Numbered, from 1; 0 for one without a number. It is called NAME-NUMBER by
	// its own number then.
	Copy       int         `json:"copy,omitempty"`
	Deployment string      `json:"deployment"`
	Phase      Phase       `json:"phase"`
	WantedAt   time.Time   `json:"wantedAt"`
	Seen       Observation `json:"seen,omitzero"`
	// HealthyNow: it is RUNNING and, if it has a health check, HEALTHY; else it has been
	// RUNNING for the monitor period.
	HealthyNow bool `json:"well,omitempty"`
	// HealthySince is zero while the task is not healthy.
	HealthySince time.Time `json:"fitSince,omitzero"`
	// Failed: it counts as a failure of its deployment.
	Failed bool `json:"failed,omitempty"`
	// Drained: the connections that were forwarded to it have ended, or have had their time.
	Drained bool `json:"drained,omitempty"`
	// Cause explains why it is to stop.
	Cause string `json:"cause,omitempty"`
	// Refused explains why it could not be made when it was last tried.
	Refused string `json:"refused,omitempty"`
	// QueuedAt is since when the task waits in the queue; zero if it does not. Unplaced: an
	// event says so.
	QueuedAt time.Time `json:"queuedAt,omitzero"`
	Unplaced bool      `json:"unplaced,omitempty"`
	// Unannounced: no event says yet that it was started.
	Unannounced bool `json:"unannounced,omitempty"`

	op       operation // in flight, or done and not to be repeated
	notUntil time.Time // of the next attempt
	fresh    bool      // it was seen since the state was loaded
}

type operation int

const (
	idle operation = iota
	busy
	draining
	done // StopTask was taken
)

// Observation is the observed state of a task.
type Observation struct {
	Running bool `json:"running,omitempty"`
	// Unconfirmed: it ran when it was last looked at, and something may have happened since.
	Unconfirmed bool `json:"-"`
	// Since is the time at which it began to run.
	Since  time.Time `json:"since,omitzero"`
	Health Health    `json:"health,omitempty"`
	// Placed: the host has given the task its share.
	Placed bool `json:"placed,omitempty"`
	// Queue names the resources that a task waits for that is not let in.
	Queue string `json:"queue,omitempty"`
	// Failing is the error of what is tried again before the task runs, such as a pull.
	Failing string `json:"-"`
	Stopped bool   `json:"stopped,omitempty"`
	// ByUser: a user requested the stop.
	ByUser bool `json:"byUser,omitempty"`
	// Protected is the time at which the protection of a task from being replaced ends; zero for none.
	Protected time.Time `json:"protectedUntil,omitzero"`
	Reason    string    `json:"reason,omitempty"`
}

// Health is that of a task's essential containers.
type Health string

// Unchecked is the health of a task without a health check.
const (
	Unchecked Health = ""
	Unknown   Health = "UNKNOWN"
	Healthy   Health = "HEALTHY"
	Unhealthy Health = "UNHEALTHY"
)

// BackOff delays new tasks while tasks of the primary deployment keep failing.
type BackOff struct {
	// Streak counts failures in a row; tasks that were there together count once: those
	// up to the number Known have been counted.
	Streak int `json:"streak,omitempty"`
	Known  int `json:"known,omitempty"`
	// NotUntil is the time at which the next task may be made.
	NotUntil time.Time `json:"notUntil,omitzero"`
}

// Event is one line of a service's history.
type Event struct {
	ID        int       `json:"id"`
	CreatedAt time.Time `json:"createdAt"`
	Message   string    `json:"message"`
}

const (
	keptEvents    = 100 // as ECS
	keptStopped   = 5   // tasks that have stopped, for their logs
	keptCompleted = 2
	// retryAfter is the pause before a call that failed is made again.
	retryAfter = 10 * time.Second
	// queueNotice is the time for which a task waits in the queue before an event says so. A copy that
	// only waits until the one before it has ended is no news.
	queueNotice = 10 * time.Second
	// repeatStop is the pause before a task that may be protected is asked again to stop.
	repeatStop = time.Minute
	// MaxBackOff is the longest pause before a failed task is replaced (ECS: 15 minutes).
	MaxBackOff = 15 * time.Minute
	// monitor is the time that a task without a health check has to run before it is taken for
	// healthy (the update monitor of Docker's swarm mode): what exits at once is not.
	monitor = 5 * time.Second
	// leastRollout is the time that a deployment lasts before the circuit breaker ends it, and shownFailed
	// how long it is listed afterwards. On ECS failures take minutes, and clients look every few
	// seconds: they shall see the deployment, and that it failed.
	leastRollout = 10 * time.Second
	shownFailed  = 20 * time.Second
	// forgiven is the time that a task has to be healthy for its failure to begin a new streak.
	forgiven = 5 * time.Minute
)

// New returns a service of which there is no task yet. ID is 32 hex digits.
func New(id, name string, spec Spec, count int, c Config, at time.Time) State {
	s := State{ID: id, Name: name, CreatedAt: at, Status: Active, DesiredCount: count, Config: c}
	s.sayNames(at, Names{})
	s.deploy(at, spec)
	return s
}

// TaskName is the name of a task of the service.
func (s State) TaskName(t Task) string {
	number := t.Number
	if t.Copy > 0 {
		number = t.Copy - 1
		if d, known := s.Deployment(t.Deployment); known && d.Numbered != nil {
			number += d.Numbered.First
		}
	}
	return fmt.Sprintf("%s-%d", s.Name, number)
}

// Primary is the deployment that all tasks are to be of.
func (s State) Primary() Deployment { return s.Deployments[0] }

// Deployment returns the deployment of an id that may still have tasks.
func (s State) Deployment(id string) (Deployment, bool) {
	i := slices.IndexFunc(s.Deployments, func(d Deployment) bool { return d.ID == id })
	if i < 0 {
		return Deployment{}, false
	}
	return s.Deployments[i], true
}

// Gone reports whether the service was to be removed, and nothing of it is left.
func (s State) Gone() bool { return s.Status == Draining && len(s.Tasks) == 0 }

// Healthy reports whether the task is healthy and is not to stop.
func (t Task) Healthy() bool { return t.Phase == Live && t.HealthyNow }

// isHealthy reports whether the task is healthy at a time. What is in doubt does not make a
// task healthy, and does not end its health either.
func (t Task) isHealthy(at time.Time) bool {
	if doubt := t.Seen.Unconfirmed || !t.fresh; doubt && !t.HealthyNow {
		return false
	}
	// A start in the future says that the clock was set back. Nothing can be measured then.
	proven := t.Seen.Health == Unchecked && (at.Before(t.Seen.Since) || !at.Before(t.Seen.Since.Add(monitor)))
	return t.Seen.Running && (t.Seen.Health == Healthy || proven)
}

// spared: the task is not replaced yet. An unhealthy one is.
func (t Task) spared(at time.Time) bool { return !t.Failed && at.Before(t.Seen.Protected) }

// maySpare: if the task is to stop, it continues while it is protected.
func (t Task) maySpare(s *State) bool { return s.Status == Active && !t.Failed }

// present: it may take room on the host.
func (t Task) present() bool { return t.Phase == Wanted || t.Phase == Live || t.Phase == Stopping }

// kept: it counts towards what is desired.
func (t Task) kept() bool { return (t.Phase == Wanted || t.Phase == Live) && !t.Failed }

// Counts are numbers of tasks.
type Counts struct {
	// Running and Pending are wanted ones that run or do not yet; Healthy are those of the
	// running that are healthy; Present counts all that may take room, stopping ones too.
	Running, Pending, Healthy, Present int
}

// Count counts the tasks of a deployment; an empty id stands for all.
func (s State) Count(deployment string) (c Counts) {
	for _, t := range s.Tasks {
		if deployment != "" && t.Deployment != deployment || !t.present() {
			continue
		}
		c.Present++
		switch {
		case t.Phase == Stopping:
		case t.Seen.Running:
			c.Running++
		default:
			c.Pending++
		}
		if t.Healthy() {
			c.Healthy++
		}
	}
	return c
}

// Limits are the least number of healthy copies and the greatest of all copies to which the
// service keeps while it replaces tasks one after the other.
func (s State) Limits() (least, most int) {
	n := s.target()
	least, most = s.Config.limits(s.DesiredCount)
	if n < s.DesiredCount { // it sleeps, or wakes
		least, _ = s.Config.limits(n)
	}
	if s.Primary().Numbered != nil || collides(s) {
		return min(least, max(0, n-1)), s.DesiredCount
	}
	return least, most
}

func (c Config) limits(count int) (least, most int) {
	if c.Bounds == nil {
		return count, count + 1
	}
	least = (count*c.Bounds.MinimumHealthyPercent + 99) / 100
	return least, max(count, count*c.Bounds.MaximumPercent/100)
}

// collides: a task of the primary deployment cannot be beside one that there may be,
// because both want the same port of the host.
func collides(s State) bool {
	need := admission.NeedOf(s.Primary().Task, false)
	for _, d := range s.Deployments {
		if (d.Primary || s.Count(d.ID).Present > 0) && need.Collides(admission.NeedOf(d.Task, false)) {
			return true
		}
	}
	return false
}

// TaskID is the id of the task of the service with a number, the same each time.
func (s State) TaskID(number int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", s.ID, number))
	return hex.EncodeToString(sum[:16])
}

// clone copies what a step may change.
func (s State) clone() State {
	s.Deployments = slices.Clone(s.Deployments)
	s.Completed = slices.Clone(s.Completed)
	s.History = slices.Clone(s.History)
	if n := len(s.History); n > 0 {
		s.History[n-1] = s.History[n-1].clone()
	}
	s.Revisions = slices.Clone(s.Revisions)
	s.Tasks = slices.Clone(s.Tasks)
	s.Events = slices.Clone(s.Events)
	return s
}
