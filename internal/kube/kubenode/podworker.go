package kubenode

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podtask/podtask/pkg/api"
)

// Pace is how long a node waits before it tries again.
type Pace struct {
	// First is the pause after a first failure; each next one is twice as long, up to
	// Most. Steady is the pause after a call of the agent or the API server has failed.
	First, Most, Steady time.Duration
	// Refresh is how often the objects are read whose content is in files of containers.
	Refresh time.Duration
}

// DefaultPace is that of the kubelet's back-off.
var DefaultPace = Pace{First: 10 * time.Second, Most: 5 * time.Minute, Steady: time.Second, Refresh: time.Minute}

// keeper keeps one Pod.
type keeper struct {
	*Pods
	// before are the ends of the keepers of earlier Pods of the same name.
	before  []<-chan struct{}
	report  *reporter
	volumes *volumes

	leave context.CancelFunc // ends life
	life  context.Context    // ends when the Pod is to end
	ended chan struct{}

	mu      sync.Mutex
	pod     *corev1.Pod // as last seen
	task    string      // empty while there is none
	grace   *int64      // of the release; nil for that of the Pod
	evicted string      // why; empty if it was not
}

func newKeeper(p *Pods, pod *corev1.Pod, task string) *keeper {
	k := &keeper{Pods: p, pod: pod, task: task, ended: make(chan struct{}), report: newReporter(p, pod),
		volumes: &volumes{podDir(p.Dir, pod.UID), newObjects(p.Client)}}
	if task == "" { // then the API server has told of the Pod
		k.report.server = pod
		k.report.restarts = restarted(pod.Status, nil) // it has a status if a task of it was lost
	} else {
		k.report.restarts = markedRestarts(pod)
	}
	k.life, k.leave = context.WithCancel(p.running)
	return k
}

// see notes the Pod as the API server has it.
func (k *keeper) see(pod *corev1.Pod) {
	k.mu.Lock()
	k.pod = pod.DeepCopy()
	k.mu.Unlock()
	k.report.see(pod)
}

// latest is the Pod as last seen, a copy.
func (k *keeper) latest() *corev1.Pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.pod.DeepCopy()
}

func (k *keeper) taskID() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.task
}

func (k *keeper) setTask(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.task = id
}

// release asks for the end of the Pod, within seconds; nil for the Pod's own grace period.
// A shorter one counts later, too.
func (k *keeper) release(grace *int64) {
	k.mu.Lock()
	shorter := grace != nil && (k.grace == nil || *grace < *k.grace)
	if shorter {
		k.grace = grace
	}
	task, late := k.task, k.life.Err() != nil
	k.mu.Unlock()
	k.leave()
	if shorter && late && task != "" && !k.report.ended() { // our own delete says 0, too
		time.AfterFunc(time.Duration(*grace)*time.Second, func() { _ = k.Agent.Ask(k.running, task, Kill) })
	}
}

// run keeps the Pod until it has been released and has ended. If ctx ends first, the task
// is left as it is.
func (k *keeper) run(ctx context.Context) {
	defer close(k.ended)
	reporting, stop := context.WithCancel(ctx)
	defer stop()
	k.wg.Go(func() { k.report.run(reporting) })
	k.wg.Go(func() { refreshing{k}.run(k.life) })
	k.live(ctx)
	<-k.life.Done()
	if ctx.Err() != nil {
		return
	}
	ending{k}.end(ctx)
	if err := k.volumes.remove(); err != nil {
		k.Log.Warn("the files of a Pod cannot be removed", "pod", k.name(), "error", err)
	}
	k.forget(k)
}

// live has the task made and follows it, until nothing more happens or life ends.
func (k *keeper) live(ctx context.Context) {
	for pause := k.Pace.First; ; pause = min(2*pause, k.Pace.Most) {
		if !(starting{k}).create(ctx) {
			return
		}
		again := k.follow(k.life)
		if k.eviction() != "" {
			ending{k}.discard(ctx) // its files, too, are to go
			return
		}
		if !again || !k.sleep(pause) {
			return
		}
		k.report.restart()
		if !(ending{k}).discard(ctx) {
			return
		}
	}
}

// sleep waits; false if life has ended.
func (k *keeper) sleep(d time.Duration) bool { return sleep(k.life, d) }

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// starting is what a keeper does until its Pod has a task.
type starting struct{ *keeper }

// create has the agent make the task, unless there is one. It returns false if there will
// be none.
func (k starting) create(ctx context.Context) bool {
	if k.taskID() != "" {
		return true
	}
	for _, ended := range k.before {
		select {
		case <-ended:
		case <-k.life.Done():
			return false
		}
	}
	if reason, message := k.refuse(); reason != "" {
		k.reject(reason, message)
		return false
	}
	for pause := k.Pace.Steady; k.life.Err() == nil; pause = min(2*pause, k.Pace.Most) {
		wait, err := k.tryCreate(ctx)
		var rejected *rejectedError
		switch {
		case err == nil:
			return true
		case errors.As(err, &rejected):
			k.reject(rejected.reason, rejected.message)
			return false
		case wait != "":
			k.waits(wait, err.Error())
		default:
			k.Log.Warn("the agent cannot be asked to run a Pod", "pod", k.name(), "error", err)
		}
		k.sleep(pause)
	}
	return false
}

// name is that of the Pod for messages.
func (k *keeper) name() string { return k.report.key.String() }

// rejectedError means that the node cannot run the Pod, now and later.
type rejectedError struct{ reason, message string }

func (e *rejectedError) Error() string { return e.reason + ": " + e.message }

// tryCreate makes the task. Wait is the reason for which containers wait after an error;
// empty where the error says nothing about the Pod.
func (k starting) tryCreate(ctx context.Context) (wait string, err error) {
	pod := k.latest()
	if k.closing() {
		return "", &rejectedError{reasonShutdown, messageShutdown}
	}
	definition, err := k.manifests.of(k.life, pod, k.volumes, k.report.earlier())
	if err != nil {
		if apiServerAway(err) {
			return "", err
		}
		return waitConfigError, err
	}
	name := taskName(pod)
	made, err := k.Agent.Create(ctx, api.NewTask{Definition: definition, Name: name, Lenient: true})
	switch {
	case err == nil:
		k.setTask(made.ID)
		return "", nil
	case failedWith(err, api.BadRequest):
		return "", &rejectedError{reasonUnexpected, err.Error()}
	case !failedWith(err, api.Conflict):
		return "", err
	}
	id, found := k.made(ctx, pod)
	if !found {
		return waitCreateError, err
	}
	k.setTask(id)
	return "", nil
}

// made finds the task of a request whose answer was lost.
func (k starting) made(ctx context.Context, pod *corev1.Pod) (id string, found bool) {
	tasks, err := k.Agent.Tasks(ctx)
	if err != nil {
		return "", false
	}
	for _, t := range tasks {
		if t.Pod != nil && t.Pod.UID == string(pod.UID) && t.Name == taskName(pod) && t.Goal != goalGone {
			return t.ID, true
		}
	}
	return "", false
}

// taskName is the name of the task of a Pod: two requests for the same Pod cannot both
// succeed.
func taskName(pod *corev1.Pod) string {
	name, uid := pod.Name, string(pod.UID)
	return name[:min(len(name), 200)] + "." + uid[:min(len(uid), 13)]
}

// follow reports each state of the task until the Pod has ended or life ends. It returns
// true if the task is to be made again: Kubernetes tries for ever to start a Pod.
func (k *keeper) follow(ctx context.Context) (again bool) {
	ended := false
	for ctx.Err() == nil && !ended {
		err := k.Agent.Watch(ctx, k.taskID(), func(t api.Task) bool {
			ended, again = k.look(ctx, t)
			return !ended
		})
		switch {
		case isNotFound(err):
			return k.lost()
		case err != nil && ctx.Err() == nil:
			k.Log.Debug("the watch of a task has ended", "pod", k.name(), "error", err)
		}
		if !ended {
			sleep(ctx, k.Pace.Steady)
		}
	}
	return again
}

// lost reports that the task was removed on its host. What was to run for good is run again.
func (k *keeper) lost() (again bool) {
	if k.latest().Spec.RestartPolicy == corev1.RestartPolicyAlways {
		return true
	}
	k.reject("TaskRemoved", "the task of the Pod was removed on its host")
	return false
}

// look reports the state of the task.
func (k *keeper) look(ctx context.Context, t api.Task) (settled, again bool) {
	seen, err := k.Agent.Pod(ctx, t.ID)
	if err != nil {
		return false, false // the watch shows it again, or ends
	}
	if ended(seen.Status.Phase) && t.StopCode == "" && t.Status != statusStopped {
		return false, false // the Pod is newer: the watch shows why it has ended
	}
	settled = t.Settled && t.Status == statusStopped
	again = settled && neverRan(t) && k.life.Err() == nil
	if neverRan(t) {
		pending(&seen.Status)
	}
	if vanished(t) && k.latest().Spec.RestartPolicy != corev1.RestartPolicyNever && k.life.Err() == nil && k.eviction() == "" {
		again = settled
		pending(&seen.Status)
	}
	if settled || ended(seen.Status.Phase) { // at once: the API server keeps the first end that it sees
		if why := k.eviction(); why != "" {
			evictedStatus(&seen.Status, why)
		} else if k.life.Err() == nil {
			stoppedStatus(&seen.Status, t)
		}
	}
	k.report.set(seen.Status)
	return settled, again
}

// statusStopped is the status of a task whose containers have all ended.
const statusStopped = "STOPPED"

// neverRan reports whether the task failed before any of its containers started.
func neverRan(t api.Task) bool {
	if t.StopCode != "TaskFailedToStart" {
		return false
	}
	for _, c := range t.Containers {
		if !c.StartedAt.IsZero() {
			return false
		}
	}
	return true
}

// vanished reports whether the task ended because its containers were lost, as they are when
// the host restarts: Podman then forgets how they ended.
func vanished(t api.Task) bool {
	return t.StopCode == stopContainerExited && slices.ContainsFunc(t.Containers, func(c api.Container) bool {
		return c.Essential && slices.ContainsFunc(c.Errors, func(e api.Error) bool { return e.Name == containerVanished && !e.Tolerated })
	})
}

// Of a task that ended by itself because containers of it were lost.
const (
	stopContainerExited = "EssentialContainerExited"
	containerVanished   = "ContainerVanishedError"
)

// ending is what a keeper does to stop a task and to remove it.
type ending struct{ *keeper }

// discard removes the task, so that another can be made; false if life has ended.
func (k ending) discard(ctx context.Context) bool {
	for k.life.Err() == nil {
		err := k.Agent.Ask(ctx, k.taskID(), Remove)
		if err == nil {
			err = k.gone(k.life)
		}
		if err == nil || isNotFound(err) {
			k.setTask("")
			return true
		}
		k.sleep(k.Pace.Steady)
	}
	return false
}

// gone waits until the agent no longer knows the task.
func (k ending) gone(ctx context.Context) error {
	for {
		if err := k.Agent.Watch(ctx, k.taskID(), func(api.Task) bool { return true }); err != nil {
			return err
		}
		if _, err := k.Agent.Pod(ctx, k.taskID()); err != nil {
			return err
		}
		if !sleep(ctx, k.Pace.Steady) { // the request has not reached the record yet
			return context.Cause(ctx)
		}
	}
}

// reject reports that the Pod will not run.
func (k *keeper) reject(reason, message string) {
	k.Events.Event(k.latest(), corev1.EventTypeWarning, reason, message)
	k.report.set(rejection(k.latest(), reason, message))
}

// waits reports why containers are not there yet.
func (k starting) waits(reason, message string) {
	k.Events.Event(k.latest(), corev1.EventTypeWarning, "Failed", message)
	k.report.set(waitingStatus(k.latest(), reason, message))
}

// end stops the task and removes the Pod from the API server, then the task.
func (k ending) end(ctx context.Context) {
	for k.taskID() != "" && ctx.Err() == nil {
		if k.stop(ctx) {
			break
		}
		sleep(ctx, k.Pace.Steady)
	}
	k.report.settle(ctx)
	k.report.remove(ctx)
	for k.taskID() != "" && ctx.Err() == nil {
		if err := k.Agent.Ask(ctx, k.taskID(), Remove); err == nil || isNotFound(err) {
			return
		}
		sleep(ctx, k.Pace.Steady)
	}
}

// stop stops the task within the grace period, and reports its end; false to try again.
func (k ending) stop(ctx context.Context) bool {
	how, grace := k.how()
	return k.within(ctx, how, grace)
}

// within makes a request and waits for the end of the task, which is killed after grace;
// false to try again.
func (k ending) within(ctx context.Context, how Request, grace time.Duration) bool {
	watching, done := context.WithCancel(ctx)
	defer done()
	if err := k.Agent.Ask(ctx, k.taskID(), how); err != nil {
		return isNotFound(err)
	}
	if how != Kill {
		kill := time.AfterFunc(grace, func() { _ = k.Agent.Ask(watching, k.taskID(), Kill) })
		defer kill.Stop()
	}
	ended := false
	err := k.Agent.Watch(watching, k.taskID(), func(t api.Task) bool {
		ended, _ = k.look(watching, t)
		return !ended
	})
	return ended || isNotFound(err)
}

// slack is how much longer than the grace period a stop may take before it becomes a kill:
// the agent's own timeout comes first.
const slack = 2 * time.Second

// how is the way in which the Pod is to end. Kubernetes kills at once without a grace
// period.
func (k ending) how() (Request, time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	seconds := int64(corev1.DefaultTerminationGracePeriodSeconds)
	own := k.pod.Spec.TerminationGracePeriodSeconds
	if own != nil {
		seconds = *own
	}
	if k.grace != nil {
		seconds = *k.grace
	}
	if seconds <= 0 {
		return Kill, 0
	}
	d := time.Duration(seconds) * time.Second
	if own == nil || seconds >= *own {
		// Sidecars have their time after the containers.
		d = d*time.Duration(1+len(k.pod.Spec.InitContainers)) + slack
	}
	return Stop, d
}
