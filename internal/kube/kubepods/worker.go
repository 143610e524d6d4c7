package kubepods

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podtask/podtask/internal/kube/podevents"
	"github.com/podtask/podtask/internal/kube/podmanifest"
	"github.com/podtask/podtask/internal/kube/podnames"
	"github.com/podtask/podtask/internal/kube/podstatus"
	"github.com/podtask/podtask/internal/sleep"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Pace holds the delays between attempts.
type Pace struct {
	// First is the pause after a first failure; each next one is twice as long, up to
	// Most. Steady is the pause after a call of the agent or the API server has failed.
	First, Most, Steady time.Duration
	// Refresh is the interval in which the objects are read whose content is in files of containers.
	Refresh time.Duration
}

// DefaultPace returns the back-off of the kubelet.
func DefaultPace() Pace {
	return Pace{First: 10 * time.Second, Most: 5 * time.Minute, Steady: time.Second, Refresh: time.Minute}
}

// podWorker runs one Pod: it has the agent make the task of the Pod, reports the state of the task as
// the status of the Pod, refreshes the files of its volumes, and ends the task with the Pod.
type podWorker struct {
	pods *Pods
	// before are closed when the workers of earlier Pods of the same name have ended.
	before  []<-chan struct{}
	key     types.NamespacedName
	uid     types.UID
	report  *podstatus.Reporter
	events  *podevents.Observer
	volumes *podmanifest.Volumes

	ctx    context.Context // ends when the Pod is to end
	cancel context.CancelFunc
	ended  chan struct{}

	mu      sync.Mutex
	pod     *corev1.Pod   // as last seen
	changed chan struct{} // closed when pod or failed changes
	task    string        // empty while there is none
	given   *corev1.Pod   // as the agent runs it; nil if that is not known
	lives   int           // how many tasks of the Pod were given up, as this process knows
	resizes int           // how often it was resized
	grace   *int64        // of the release; nil for that of the Pod
	failed  *failure      // why the node ends the Pod; nil if it does not
	updates updates
}

// failure is the reason for which the node fails a Pod.
type failure struct {
	reason, message string
	// evicted: the Pod is marked as disrupted, and what it has on the host is removed at once.
	evicted bool
}

// apply sets the status of a Pod whose task has ended: the node has ended it.
func (f failure) apply(s *corev1.PodStatus) {
	if f.evicted {
		podstatus.Disrupt(s, f.reason, f.message)
		return
	}
	s.Phase, s.Reason, s.Message = corev1.PodFailed, f.reason, f.message
}

func newPodWorker(p *Pods, pod *corev1.Pod, task string) *podWorker {
	w := &podWorker{pods: p, pod: pod, task: task, key: keyOf(pod), uid: pod.UID, ended: make(chan struct{}), changed: make(chan struct{}),
		report: podstatus.NewReporter(&p.statuses, pod, task != ""), events: &podevents.Observer{Recorder: p.config.Events, Adopted: task},
		volumes: &podmanifest.Volumes{Dir: podmanifest.PodDir(p.config.Dir, pod.UID), From: podmanifest.NewObjects(p.config.Client, p.config.Room)}}
	if task != "" {
		w.updates.created(pod)
	}
	w.ctx, w.cancel = context.WithCancel(p.running)
	return w
}

// see notes the Pod as the API server has it.
func (w *podWorker) see(pod *corev1.Pod) {
	w.mu.Lock()
	w.pod = pod.DeepCopy()
	w.notify()
	var ignored []ignoredUpdate
	if w.task != "" {
		ignored = w.updates.ignored(pod, w.pods.config.Ephemerals != nil)
	}
	w.mu.Unlock()
	for _, u := range ignored {
		w.pods.config.Events.Event(pod, corev1.EventTypeWarning, u.reason, u.message)
	}
	w.report.See(pod)
	w.pods.names.wake()
}

// notify wakes those who wait for a change. The lock is held.
func (w *podWorker) notify() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// change returns a channel that is closed when the Pod changes.
func (w *podWorker) change() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

// fail notes why the node ends the Pod, unless it ends for another reason already.
func (w *podWorker) fail(f failure) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed == nil {
		w.failed = &f
		w.notify()
	}
}

// failure returns the reason for which the node fails the Pod; nil if it does not.
func (w *podWorker) failure() *failure {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

// latest returns a copy of the Pod as last seen.
func (w *podWorker) latest() *corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pod.DeepCopy()
}

func (w *podWorker) taskID() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.task
}

func (w *podWorker) setTask(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.task, w.given = id, nil
	w.notify()
}

// release asks for the end of the Pod, within seconds; nil for the Pod's own grace period.
// A shorter one counts later, too.
func (w *podWorker) release(grace *int64) {
	w.mu.Lock()
	shorter := grace != nil && (w.grace == nil || *grace < *w.grace)
	if shorter {
		w.grace = grace
	}
	task, late := w.task, w.ctx.Err() != nil
	w.mu.Unlock()
	w.cancel()
	if shorter && late && task != "" && !w.report.Ended() { // our own delete says 0, too
		time.AfterFunc(time.Duration(*grace)*time.Second, func() { _ = w.pods.config.Agent.Stop(w.pods.running, task, podstatus.ByKubernetes, true) })
	}
}

// run keeps the Pod until it has been released and has ended. If ctx ends first, the task
// is left as it is.
func (w *podWorker) run(ctx context.Context) {
	defer close(w.ended)
	reporting, stop := context.WithCancel(ctx)
	defer stop()
	w.pods.wg.Go(func() { w.report.Run(reporting) })
	w.pods.wg.Go(func() { w.refreshVolumes(w.ctx) })
	w.pods.wg.Go(func() { w.enforceDeadline(w.ctx) })
	w.pods.wg.Go(func() { w.runEphemerals(w.ctx) })
	w.pods.wg.Go(func() { w.runResizes(w.ctx) })
	w.runTask(ctx)
	<-w.ctx.Done()
	if ctx.Err() != nil {
		return
	}
	w.end(ctx)
	if err := w.volumes.Remove(); err != nil {
		w.pods.config.Log.Warn("the files of a Pod cannot be removed", "pod", w.name(), "error", err)
	}
	w.pods.forget(w)
}

// runTask creates the task and follows it until the task has ended for good or the Pod is to end.
func (w *podWorker) runTask(ctx context.Context) {
	for pause := w.pods.config.Pace.First; ; pause = min(2*pause, w.pods.config.Pace.Most) {
		if !w.create(ctx) {
			return
		}
		again := w.follow(w.ctx)
		if f := w.failure(); f != nil {
			if f.evicted {
				w.discard(ctx) // its files, too, are to go
			}
			return
		}
		if !again || !w.sleep(pause) {
			return
		}
		w.report.Restart()
		if !w.discard(ctx) {
			return
		}
	}
}

// sleep waits; false if the Pod is to end.
func (w *podWorker) sleep(d time.Duration) bool { return sleep.For(w.ctx, d) }

// create has the agent create the task, unless there is one. It returns false if the Pod gets no task.
func (w *podWorker) create(ctx context.Context) bool {
	if w.taskID() != "" {
		return true
	}
	for _, ended := range w.before {
		select {
		case <-ended:
		case <-w.ctx.Done():
			return false
		}
	}
	if reason, message := w.refusal(); reason != "" {
		w.reject(reason, message)
		return false
	}
	if warning := podnames.NotServed(w.latest()); warning != "" {
		w.pods.config.Events.Event(w.latest(), corev1.EventTypeWarning, podnames.ReasonNotServed, warning)
	}
	for pause := w.pods.config.Pace.Steady; w.ctx.Err() == nil; pause = min(2*pause, w.pods.config.Pace.Most) {
		if f := w.failure(); f != nil {
			w.report.Set(podstatus.Failed(w.latest(), f.reason, f.message))
			return false
		}
		changed := w.change()
		wait, err := w.tryCreate(ctx)
		var rejected *rejectedError
		switch {
		case err == nil:
			return true
		case errors.As(err, &rejected):
			w.reject(rejected.reason, rejected.message)
			return false
		case wait != "":
			w.waits(wait, err.Error())
		default:
			w.pods.config.Log.Warn("the agent cannot be asked to run a Pod", "pod", w.name(), "error", err)
		}
		if w.sleepUntil(changed, pause) {
			pause = w.pods.config.Pace.Steady
		}
	}
	return false
}

// sleepUntil waits until the Pod changes in a way that may help to run it, for at most d. It
// returns true if it has changed.
func (w *podWorker) sleepUntil(changed <-chan struct{}, d time.Duration) bool {
	before, wake := w.latest(), time.After(d)
	for {
		select {
		case <-wake:
			return false
		case <-w.ctx.Done():
			return false
		case <-changed:
		}
		changed = w.change()
		now := w.latest()
		if w.failure() != nil || !equality.Semantic.DeepEqual(before.Spec, now.Spec) || !maps.Equal(before.Labels, now.Labels) || !maps.Equal(before.Annotations, now.Annotations) {
			return true
		}
	}
}

// name returns the name of the Pod for messages.
func (w *podWorker) name() string { return w.key.String() }

// rejectedError means that the node cannot run the Pod, now and later.
type rejectedError struct{ reason, message string }

func (e *rejectedError) Error() string { return e.reason + ": " + e.message }

// tryCreate makes the task. Wait is the reason for which containers wait after an error;
// empty where the error says nothing about the Pod.
func (w *podWorker) tryCreate(ctx context.Context) (wait string, err error) {
	pod := w.latest()
	if w.closing() {
		return "", &rejectedError{reasonShutdown, messageShutdown}
	}
	definition, err := w.pods.manifests.Of(w.ctx, pod, w.volumes, w.report.Restarts())
	if err != nil {
		if podmanifest.ApiServerAway(err) {
			return "", err
		}
		return podstatus.ConfigError, err
	}
	w.pods.names.send(ctx) // a program may read /etc/hosts only when it starts
	name := taskName(pod)
	made, err := w.pods.config.Agent.Create(ctx, api.NewTask{Definition: definition, Name: name, Lenient: true, ClientToken: w.clientToken(pod)})
	switch {
	case err == nil:
		w.setCreated(made.ID, pod)
		return "", nil
	case api.Is(err, api.Gone): // it ran, and was removed between two looks
		if !podstatus.RunsForGood(pod.Spec) {
			return "", &rejectedError{reasonTaskRemoved, messageTaskRemoved}
		}
		w.nextLife()
		return w.tryCreate(ctx)
	case isConfigError(err):
		return podstatus.ConfigError, problemsOf(err)
	case api.Is(err, api.BadRequest):
		return "", &rejectedError{"UnexpectedAdmissionError", problemsOf(err).Error()}
	case !api.Is(err, api.Conflict):
		return "", err
	}
	id, found := w.made(ctx, pod)
	if !found {
		return podstatus.CreateError, err
	}
	w.setCreated(id, pod)
	return "", nil
}

// setCreated notes the task that was made of a Pod.
func (w *podWorker) setCreated(id string, pod *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.task, w.given = id, nil
	w.updates.created(pod)
	w.notify()
}

// made finds the task of a request whose answer was lost.
func (w *podWorker) made(ctx context.Context, pod *corev1.Pod) (id string, found bool) {
	tasks, err := w.pods.config.Agent.Tasks(ctx)
	if err != nil {
		return "", false
	}
	for _, t := range tasks {
		if t.Pod != nil && t.Pod.UID == string(pod.UID) && t.Name == taskName(pod) && t.Goal != lifecycle.Gone.String() {
			return t.ID, true
		}
	}
	return "", false
}

// taskName returns the name of the task of a Pod: two requests for the same Pod cannot both
// succeed.
func taskName(pod *corev1.Pod) string {
	name, uid := pod.Name, string(pod.UID)
	return name[:min(len(name), 200)] + "." + uid[:min(len(uid), 13)]
}

// follow reports each state of the task until the Pod has ended or is to end. It returns
// true if the task is to be made again: Kubernetes tries for ever to start a Pod.
func (w *podWorker) follow(ctx context.Context) (again bool) {
	ended := false
	for ctx.Err() == nil && !ended {
		err := w.pods.config.Agent.Watch(ctx, w.taskID(), func(t api.Task) bool {
			ended, again = w.reportState(ctx, t)
			return !ended
		})
		switch {
		case isNotFound(err):
			return w.lost()
		case err != nil && ctx.Err() == nil:
			w.pods.config.Log.Debug("the watch of a task has ended", "pod", w.name(), "error", err)
		}
		if !ended {
			sleep.For(ctx, w.pods.config.Pace.Steady)
		}
	}
	return again
}

// lost reports that the task was removed on its host. What was to run for good is run again.
func (w *podWorker) lost() (again bool) {
	if podstatus.RunsForGood(w.latest().Spec) {
		return true
	}
	w.reject(reasonTaskRemoved, messageTaskRemoved)
	return false
}

const (
	reasonTaskRemoved  = "TaskRemoved"
	messageTaskRemoved = "the task of the Pod was removed on its host"
)

// clientToken returns the token of the Pod's task: two requests for the same life of a Pod make one task.
func (w *podWorker) clientToken(pod *corev1.Pod) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprintf("pod %s/%d", pod.UID, w.lives)
}

// nextLife notes that the task is given up, and that another is to be made.
func (w *podWorker) nextLife() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lives++
}

// reportState reports the state of the task as the status of the Pod.
func (w *podWorker) reportState(ctx context.Context, t api.Task) (settled, again bool) {
	resizes := w.resizeCount()
	seen, err := w.pods.config.Agent.Pod(ctx, t.ID)
	if err != nil {
		return false, false // the watch shows it again, or ends
	}
	if podstatus.Ended(seen.Status.Phase) && t.StopCode == "" && t.Status != lifecycle.StatusStopped.String() {
		return false, false // the Pod is newer: the watch shows why it has ended
	}
	w.setAllocated(seen, resizes)
	w.events.Observe(w.latest(), t, seen.Status)
	settled = podstatus.Settled(t)
	again = podstatus.Adjust(&seen.Status, w.latest().Spec, t, w.ctx.Err() == nil && w.failure() == nil)
	if settled || podstatus.Ended(seen.Status.Phase) { // at once: the API server keeps the first end that it sees
		if f := w.failure(); f != nil {
			f.apply(&seen.Status)
		} else if w.ctx.Err() == nil {
			podstatus.Stopped(&seen.Status, t)
		}
	}
	if given := w.allocated(); given != nil { // it may be newer
		podstatus.AddResources(&seen.Status, given.Spec)
	}
	w.report.Set(seen.Status)
	if podstatus.Ended(seen.Status.Phase) {
		w.pods.free()
	}
	return settled, again
}

// discard removes the task, so that another can be made; false if the Pod is to end.
func (w *podWorker) discard(ctx context.Context) bool {
	for w.ctx.Err() == nil {
		err := w.pods.config.Agent.Remove(ctx, w.taskID(), podstatus.ByKubernetes, true)
		if err == nil {
			err = w.waitRemoved(w.ctx)
		}
		if err == nil || isNotFound(err) {
			w.nextLife()
			w.setTask("")
			return true
		}
		w.sleep(w.pods.config.Pace.Steady)
	}
	return false
}

// waitRemoved waits until the agent no longer knows the task.
func (w *podWorker) waitRemoved(ctx context.Context) error {
	for {
		if err := w.pods.config.Agent.Watch(ctx, w.taskID(), func(api.Task) bool { return true }); err != nil {
			return err
		}
		if _, err := w.pods.config.Agent.Pod(ctx, w.taskID()); err != nil {
			return err
		}
		if !sleep.For(ctx, w.pods.config.Pace.Steady) { // the request has not reached the record yet
			return context.Cause(ctx)
		}
	}
}

// reject reports that the Pod will not run.
func (w *podWorker) reject(reason, message string) {
	w.pods.config.Events.Event(w.latest(), corev1.EventTypeWarning, reason, message)
	w.report.Set(podstatus.Failed(w.latest(), reason, "Pod was rejected: "+message))
}

// waits reports why containers are not there yet.
func (w *podWorker) waits(reason, message string) {
	w.pods.config.Events.Event(w.latest(), corev1.EventTypeWarning, podevents.Failed, "Error: "+message)
	w.report.Set(podstatus.Waiting(w.latest(), reason, message))
}

// end stops the task and removes the Pod from the API server, then the task.
func (w *podWorker) end(ctx context.Context) {
	for w.taskID() != "" && ctx.Err() == nil {
		if w.stop(ctx) {
			break
		}
		sleep.For(ctx, w.pods.config.Pace.Steady)
	}
	w.report.Settle(ctx)
	w.report.Remove(ctx)
	for w.taskID() != "" && ctx.Err() == nil {
		if err := w.pods.config.Agent.Remove(ctx, w.taskID(), podstatus.ByKubernetes, true); err == nil || isNotFound(err) {
			return
		}
		sleep.For(ctx, w.pods.config.Pace.Steady)
	}
}

// stop stops the task within the grace period, and reports its end; false to try again.
func (w *podWorker) stop(ctx context.Context) bool {
	kill, grace := w.terminationRequest()
	return w.stopWithin(ctx, podstatus.ByKubernetes, kill, grace)
}

// stopWithin has the agent stop or kill the task and waits for its end. A task that is stopped is killed after grace. It
// returns false to try again.
func (w *podWorker) stopWithin(ctx context.Context, by string, kill bool, grace time.Duration) bool {
	watching, done := context.WithCancel(ctx)
	defer done()
	if err := w.pods.config.Agent.Stop(ctx, w.taskID(), by, kill); err != nil {
		return isNotFound(err)
	}
	if !kill {
		late := time.AfterFunc(grace, func() { _ = w.pods.config.Agent.Stop(watching, w.taskID(), podstatus.ByKubernetes, true) })
		defer late.Stop()
	}
	ended := false
	err := w.pods.config.Agent.Watch(watching, w.taskID(), func(t api.Task) bool {
		ended, _ = w.reportState(watching, t)
		return !ended
	})
	return ended || isNotFound(err)
}

// slack is added to the grace period before a stop becomes a kill: the agent's own timeout comes first.
const slack = 2 * time.Second

// terminationRequest returns the time in which the Pod is to end, or that it is killed at once: Kubernetes does so without
// a grace period.
func (w *podWorker) terminationRequest() (kill bool, grace time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	seconds := int64(corev1.DefaultTerminationGracePeriodSeconds)
	own := w.pod.Spec.TerminationGracePeriodSeconds
	if own != nil {
		seconds = *own
	}
	if w.grace != nil {
		seconds = *w.grace
	}
	if seconds <= 0 {
		return true, 0
	}
	d := time.Duration(seconds) * time.Second
	if own == nil || seconds >= *own {
		// Sidecars have their time after the containers.
		d = d*time.Duration(1+len(w.pod.Spec.InitContainers)) + slack
	}
	return false, d
}

func (w *podWorker) refreshVolumes(ctx context.Context) {
	logged := "" // an error is logged once
	pause := w.pods.config.Pace.Refresh
	if w.taskID() != "" && w.volumes.Missing() {
		pause = min(pause, w.pods.config.Pace.Steady)
	}
	for ; sleep.For(ctx, pause); pause = min(2*pause, w.pods.config.Pace.Refresh) {
		pod := w.report.Server()
		if pod == nil || w.taskID() == "" || w.report.Ended() {
			continue
		}
		if !podmanifest.Followed(pod) {
			return
		}
		problem := ""
		if err := w.volumes.Write(ctx, pod, w.volumes.From.Reading(pod)); err != nil && ctx.Err() == nil {
			problem = err.Error()
		} else {
			pause = w.pods.config.Pace.Refresh
		}
		if problem != "" && problem != logged {
			w.pods.config.Log.Warn("files of a Pod stay as they are", "pod", w.name(), "error", problem)
		}
		logged = problem
	}
}

// removeOrphans removes the files of Pods that have ended while no process was there.
func removeOrphans(p *Pods) {
	entries, err := os.ReadDir(p.config.Dir)
	if err != nil {
		return // there are none
	}
	for _, e := range entries {
		if p.find("", "", types.UID(e.Name())) != nil {
			continue
		}
		if err := os.RemoveAll(filepath.Join(p.config.Dir, e.Name())); err != nil {
			p.config.Log.Warn("the files of a Pod that has ended cannot be removed", "error", err)
		}
	}
}
