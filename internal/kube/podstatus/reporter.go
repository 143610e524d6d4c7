package podstatus

import (
	"context"
	"encoding/json"
	stderrors "errors"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/kube/podmanifest"
	"github.com/podtask/podtask/internal/sleep"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes"
)

// Writer has the connection to the API server that the Reporters of a node share, and their pace.
type Writer struct {
	Client kubernetes.Interface
	Log    *slog.Logger
	// Address is the address of the node, under which the cluster reaches its Pods.
	Address string
	// Retry is the pause after a call of the API server has failed; it doubles up to Most.
	Retry, Most time.Duration
	// Changed is called when the status of a Pod has changed.
	Changed func()
}

// Reporter writes the status of a Pod to the API server, until the server has the latest one. States in between may be
// skipped. A Reporter is safe for concurrent use.
type Reporter struct {
	writer *Writer
	key    types.NamespacedName
	uid    types.UID

	changed chan struct{} // has room for one

	mu     sync.Mutex
	server *corev1.Pod       // as the API server last had it; nil if it was not heard of
	want   *corev1.PodStatus // nil until something is known
	// written is the status as the API server stored it for that generation of the Pod: it may leave members out.
	written    *corev1.PodStatus
	of         *corev1.PodStatus
	generation int64
	gone       bool          // the Pod is no longer there
	idle       chan struct{} // closed when the server has what is wanted
	// restarts counts the restarts of containers in earlier tasks of the Pod, by name.
	restarts map[string]int32
	// ephemeral are the statuses of ephemeral containers, by name.
	ephemeral map[string]corev1.ContainerStatus
	// resize is the condition about a change of resources; nil for none. It never changes.
	resize *corev1.PodCondition
}

// NewReporter returns the Reporter of a Pod that the API server has told of, or of one that has a task already.
func NewReporter(w *Writer, pod *corev1.Pod, hasTask bool) *Reporter {
	r := &Reporter{writer: w, key: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, uid: pod.UID, changed: make(chan struct{}, 1), idle: make(chan struct{})}
	if hasTask {
		r.restarts = podmanifest.MarkedRestarts(pod)
	} else {
		r.server, r.restarts = pod, podmanifest.Restarted(pod.Status, nil) // it has a status if a task of it was lost
	}
	return r
}

// See notes the Pod as the API server has it, unless a later one was seen. If another client has changed the status, it
// is written again.
func (r *Reporter) See(pod *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.server == nil || versionOf(pod) >= versionOf(r.server) {
		r.server = pod.DeepCopy()
		r.wake()
	}
}

// Server returns the Pod as the API server last had it; nil if it was not heard of.
func (r *Reporter) Server() *corev1.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.server
}

// versionOf returns the resource version of a Pod: those of one object are ordered numbers
// since Kubernetes 1.35, and were before.
func versionOf(p *corev1.Pod) uint64 {
	v, err := strconv.ParseUint(p.ResourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return v
}

// Set replaces the status. Times are kept to the second, as the API server has them.
func (r *Reporter) Set(s corev1.PodStatus) {
	if text, err := json.Marshal(s); err == nil {
		s = corev1.PodStatus{}
		_ = json.Unmarshal(text, &s) // what was marshaled is valid JSON
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, list := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
		for i, c := range list {
			list[i].RestartCount += r.restarts[c.Name]
		}
	}
	r.want = &s
	r.wake()
	r.writer.Changed()
}

// Ready reports whether the Pod may be sent requests.
func (r *Reporter) Ready() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.want != nil && slices.ContainsFunc(r.want.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// SetEphemeral replaces the status of an ephemeral container.
func (r *Reporter) SetEphemeral(s corev1.ContainerStatus) {
	if text, err := json.Marshal(s); err == nil {
		s = corev1.ContainerStatus{}
		_ = json.Unmarshal(text, &s) // what was marshaled is valid JSON
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ephemeral == nil {
		r.ephemeral = make(map[string]corev1.ContainerStatus)
	}
	r.ephemeral[s.Name] = s
	r.rewrite()
}

// ephemeralStatuses returns the statuses of ephemeral containers in the order of the Pod: those that are known,
// else those that an earlier process has written.
func ephemeralStatuses(server *corev1.Pod, known map[string]corev1.ContainerStatus) (out []corev1.ContainerStatus) {
	for _, c := range server.Spec.EphemeralContainers {
		s, ok := known[c.Name]
		if !ok {
			s, ok = Written(server, c.Name)
		}
		if ok {
			out = append(out, s)
		}
	}
	return out
}

// Written returns the status of an ephemeral container that the API server has; false for none.
func Written(server *corev1.Pod, name string) (corev1.ContainerStatus, bool) {
	for _, s := range server.Status.EphemeralContainerStatuses {
		if s.Name == name {
			return s, true
		}
	}
	return corev1.ContainerStatus{}, false
}

// Restart counts the restart of the containers that ran: another task takes the place of this
// one.
func (r *Reporter) Restart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.want != nil {
		r.restarts = podmanifest.Restarted(*r.want, r.restarts)
	}
}

// Restarts returns the restarts of containers in earlier tasks of the Pod, by name.
func (r *Reporter) Restarts() map[string]int32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.restarts)
}

// wake makes Run compare. The lock is held.
func (r *Reporter) wake() {
	select {
	case <-r.idle:
		r.idle = make(chan struct{})
	default:
	}
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// Ended reports whether the Pod needs nothing of the host any more.
func (r *Reporter) Ended() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.want != nil && Ended(r.want.Phase)
}

// Run pushes until ctx ends.
func (r *Reporter) Run(ctx context.Context) {
	for {
		select {
		case <-r.changed:
		case <-ctx.Done():
			return
		}
		for pause := r.writer.Retry; !r.push(ctx); pause = min(2*pause, r.writer.Most) {
			if !sleep.For(ctx, pause) {
				return
			}
		}
	}
}

// push writes the wanted status, if the server has another one; false to try again. A Pod that has
// ended for the server stays so; its ephemeral containers may end later.
func (r *Reporter) push(ctx context.Context) bool {
	r.mu.Lock()
	server, want, beside, resize := r.server, r.want, maps.Clone(r.ephemeral), r.resize
	same := r.of == want && r.written != nil && server != nil && r.generation == server.Generation && equality.Semantic.DeepEqual(*r.written, server.Status)
	idle := want == nil || server == nil || r.gone || same
	r.mu.Unlock()
	if idle {
		return r.done(server, want)
	}
	status := merged(server, *want, r.writer.Address)
	switch {
	case Ended(status.Phase):
		resize = nil
	case resize == nil && unlike(server.Spec, *want): // runResizes has not seen it yet
		resize = &corev1.PodCondition{Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue}
	}
	setResizeCondition(&status, server.Generation, resize)
	if Ended(server.Status.Phase) {
		status = *server.Status.DeepCopy()
	}
	status.EphemeralContainerStatuses = ephemeralStatuses(server, beside)
	if equality.Semantic.DeepEqual(status, server.Status) {
		return r.done(server, want)
	}
	patch, err := statusPatch(server, status)
	if err != nil {
		r.writer.Log.Error("the status of a Pod cannot be written", "pod", r.key.String(), "error", err)
		return r.done(server, want)
	}
	now, err := r.writer.Client.CoreV1().Pods(server.Namespace).Patch(ctx, server.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil && !isGone(err) {
		r.writer.Log.Warn("the status of a Pod is not written yet", "pod", r.key.String(), "error", err)
		return false
	}
	r.mu.Lock()
	if err != nil {
		r.gone = true
	} else {
		r.written, r.of, r.generation = &now.Status, want, server.Generation
		if versionOf(now) >= versionOf(r.server) { // else a later change was seen meanwhile
			r.server = now
		}
	}
	server = r.server
	r.mu.Unlock()
	return r.done(server, want)
}

// done notes that the server has what is wanted, unless that has changed meanwhile.
func (r *Reporter) done(server *corev1.Pod, want *corev1.PodStatus) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.server == server && r.want == want {
		select {
		case <-r.idle:
		default:
			close(r.idle)
		}
	}
	return true // a change has woken run
}

// statusPatch changes the status of a Pod with this UID, and of no other.
func statusPatch(server *corev1.Pod, status corev1.PodStatus) ([]byte, error) {
	before, err := json.Marshal(corev1.Pod{Status: server.Status})
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: server.UID}, Status: status})
	if err != nil {
		return nil, err
	}
	return strategicpatch.CreateTwoWayMergePatch(before, after, corev1.Pod{})
}

// isGone reports whether the API server has no Pod of this UID: there is none of its name, or
// another one has taken its place. A patch of the status that names another UID is a conflict to
// older API servers, and to Kubernetes 1.35 an invalid change of metadata.uid.
func isGone(err error) bool {
	return errors.IsNotFound(err) || errors.IsConflict(err) || errors.IsInvalid(err) && isAboutUID(err)
}

// isAboutUID reports whether the API server refused a change because of the UID.
func isAboutUID(err error) bool {
	status := errors.APIStatus(nil)
	if !stderrors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}

// Settle waits until the server has the latest status.
func (r *Reporter) Settle(ctx context.Context) {
	r.mu.Lock()
	idle, nothing := r.idle, r.want == nil
	r.mu.Unlock()
	if nothing {
		return
	}
	select {
	case <-idle:
	case <-ctx.Done():
	}
}

// Remove removes the Pod from the API server: its containers have ended.
func (r *Reporter) Remove(ctx context.Context) {
	options := *metav1.NewDeleteOptions(0)
	options.Preconditions = metav1.NewUIDPreconditions(string(r.uid))
	for pause := r.writer.Retry; ; pause = min(2*pause, r.writer.Most) {
		err := r.writer.Client.CoreV1().Pods(r.key.Namespace).Delete(ctx, r.key.Name, options)
		if err == nil || isGone(err) {
			return
		}
		r.writer.Log.Warn("a Pod that has ended is not removed from the API server yet", "pod", r.key.String(), "error", err)
		if !sleep.For(ctx, pause) {
			return
		}
	}
}
