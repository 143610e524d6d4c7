package kubepods

import (
	"context"
	"log/slog"
	"sync"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/podtask/podtask/internal/kube/podmanifest"
	"github.com/podtask/podtask/internal/kube/podstatus"
	"github.com/podtask/podtask/internal/sleep"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// AnnotationNode is the annotation of the Pod documents of this node's tasks: the name of
// the node. By it a process finds the tasks of the one before.
const AnnotationNode = taskdef.AnnotationNode

// keyOf returns the name of a Pod. A Pod of another UID may follow under the same name.
func keyOf(p *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
}

// Config configures Pods. All fields are required unless they say otherwise.
type Config struct {
	Node   string
	Client kubernetes.Interface
	Agent  Agent
	Events record.EventRecorder
	Log    *slog.Logger
	Pace   Pace
	// Room returns the sum of resources for all Pods, as in the node object.
	Room func() corev1.ResourceList
	// Pressures are the conditions of the node that keep Pods away.
	Pressures func() []corev1.NodeConditionType
	// Address is the address under which hosts of the cluster reach this one.
	Address string
	// Server is the address of the API server as containers reach it: host and port.
	Server [2]string
	// Dir has the files of Pods, which only this user may read.
	Dir string
	// Services returns the Services of a namespace; nil if Pods have no variables of them.
	Services func(ctx context.Context, namespace string) ([]*corev1.Service, error)
	// Access is the connection of Client to the API server, for a watch of the Pods that finds members which this
	// program does not know; nil for a watch with Client, which does not find them.
	Access *rest.Config
	// Use returns the memory that the containers of Pods use.
	Use func(context.Context) (map[types.UID]MemoryUse, error)
	// Sysctls are the unsafe sysctls that Pods may set, and patterns of them.
	Sysctls []string
	// Ephemerals runs ephemeral containers; nil: they are refused with an event.
	Ephemerals EphemeralContainers
}

// Pods are the Pods of a node: the provider of Virtual Kubelet. Its methods are called
// concurrently and do not wait for containers.
type Pods struct {
	config Config
	// manifests make documents for the agent.
	manifests podmanifest.Manifests

	names    *nameSync
	statuses podstatus.Writer
	members  *members // those that this program does not know
	informer podInformer

	// running ends the workers.
	running context.Context
	wg      sync.WaitGroup

	mu   sync.Mutex
	all  []*podWorker  // in the order in which they came
	shut bool          // the host shuts down
	room chan struct{} // closed when a Pod leaves room for others; nil if none waits

	evicted *podWorker // the Pod that was evicted last
}

// New returns the Pods of a node. They are kept until ctx ends; then the caller waits for them.
func New(ctx context.Context, c Config) (*Pods, error) {
	p := &Pods{config: c, running: ctx, members: newMembers(), manifests: podmanifest.Manifests{Node: c.Node, Address: c.Address, Server: c.Server, Services: c.Services}}
	p.names = &nameSync{pods: p, changed: make(chan struct{}, 1)}
	p.statuses = podstatus.Writer{Client: c.Client, Log: c.Log, Address: c.Address, Retry: c.Pace.Steady, Most: c.Pace.First, Changed: p.names.wake}
	var err error
	p.informer, err = newPodInformer(c, p.members)
	return p, err
}

// Run has Virtual Kubelet call Pods for the Pods that are bound to the node, until the context of New ends.
func (p *Pods) Run() error {
	controller, err := newController(p)
	if err != nil {
		return err
	}
	p.informer.watch(p)
	p.wg.Go(func() { p.names.run(p.running) })
	return controller.Run(p.running, workers)
}

// ServicesChanged gives the agent the names of Services again.
func (p *Pods) ServicesChanged() { p.names.wake() }

// Adopt finds the tasks that an earlier process left, as soon as there is an agent.
func (p *Pods) Adopt() error {
	for {
		err := p.adopt(p.running)
		if err == nil {
			return nil
		}
		p.config.Log.Warn("the podtask agent does not answer: waiting for it", "error", err)
		if !sleep.For(p.running, p.config.Pace.Steady) {
			return context.Cause(p.running)
		}
	}
}

func (p *Pods) adopt(ctx context.Context) error {
	tasks, err := p.config.Agent.Tasks(ctx)
	if err != nil {
		return err
	}
	for _, t := range tasks {
		if t.Pod == nil || t.Goal == lifecycle.Gone.String() {
			continue
		}
		pod, err := p.config.Agent.Pod(ctx, t.ID)
		switch {
		case isNotFound(err):
			continue
		case err != nil:
			return err
		case pod.Annotations[AnnotationNode] != p.config.Node:
			continue
		}
		p.add(pod, t.ID)
	}
	removeOrphans(p)
	return nil
}

// Wait waits until all workers have ended, which they do when their context ends.
func (p *Pods) Wait() { p.wg.Wait() }

// add starts a podWorker, or returns the one that there is.
func (p *Pods) add(pod *corev1.Pod, task string) *podWorker {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k := p.byUID(pod.UID); k != nil {
		return k
	}
	k := newPodWorker(p, pod.DeepCopy(), task)
	for _, old := range p.all {
		if old.key == keyOf(pod) {
			k.before = append(k.before, old.ended)
			old.release(nil)
		}
	}
	p.all = append(p.all, k)
	p.wg.Go(func() { k.run(p.running) })
	return k
}

func (p *Pods) byUID(uid types.UID) *podWorker {
	for _, k := range p.all {
		if k.uid == uid {
			return k
		}
	}
	return nil
}

// find returns the podWorker of a UID, or without one, that of the Pod that came last under a
// name; nil if there is none.
func (p *Pods) find(namespace, name string, uid types.UID) *podWorker {
	p.mu.Lock()
	defer p.mu.Unlock()
	if uid != "" {
		return p.byUID(uid)
	}
	var found *podWorker
	for _, k := range p.all {
		if k.key == (types.NamespacedName{Namespace: namespace, Name: name}) {
			found = k
		}
	}
	return found
}

// forget drops a podWorker that has ended.
func (p *Pods) forget(k *podWorker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, o := range p.all {
		if o == k {
			p.all = append(p.all[:i:i], p.all[i+1:]...)
			p.members.forget(k.uid)
			p.freeLocked()
			p.names.wake()
			return
		}
	}
}

// CreatePod implements node.PodLifecycleHandler. What is wrong with a Pod is reported in
// its status: an error would make Virtual Kubelet write one of its own.
func (p *Pods) CreatePod(_ context.Context, pod *corev1.Pod) error {
	p.add(pod, "")
	return nil
}

// UpdatePod implements node.PodLifecycleHandler. A Pod of another UID takes the place of
// the one before.
func (p *Pods) UpdatePod(_ context.Context, pod *corev1.Pod) error {
	p.add(pod, "").see(pod)
	return nil
}

// DeletePod implements node.PodLifecycleHandler.
func (p *Pods) DeletePod(_ context.Context, pod *corev1.Pod) error {
	k := p.find(pod.Namespace, pod.Name, pod.UID)
	if k == nil {
		return errdefs.NotFoundf("no task for the Pod %s/%s", pod.Namespace, pod.Name)
	}
	k.release(pod.DeletionGracePeriodSeconds)
	return nil
}

// GetPod implements node.PodLifecycleHandler. A Pod that has ended for the API server, as
// one that was replaced has, is not found.
func (p *Pods) GetPod(_ context.Context, namespace, name string) (*corev1.Pod, error) {
	k, now := p.find(namespace, name, ""), p.informer.current(namespace, name)
	if k == nil || now != nil && now.UID != k.uid {
		return nil, errdefs.NotFoundf("no task for the Pod %s/%s", namespace, name)
	}
	return k.latest(), nil
}

// GetPodStatus implements node.PodLifecycleHandler.
func (p *Pods) GetPodStatus(ctx context.Context, namespace, name string) (*corev1.PodStatus, error) {
	pod, err := p.GetPod(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	return &pod.Status, nil
}

// GetPods implements node.PodLifecycleHandler.
func (p *Pods) GetPods(context.Context) ([]*corev1.Pod, error) { return p.All(), nil }

// All returns the Pods of the node as last seen, each a copy.
func (p *Pods) All() (out []*corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.all {
		out = append(out, k.latest())
	}
	return out
}

// NotifyPods implements node.PodNotifier. The workers of Pods push statuses, as patches that
// name the UID; Virtual Kubelet then does not poll.
func (p *Pods) NotifyPods(context.Context, func(*corev1.Pod)) {}

// see passes a Pod as the API server has it to its podWorker. Virtual Kubelet does not notice that a Pod was replaced
// while nothing was watched, unless it differs.
func (p *Pods) see(pod *corev1.Pod, replaced bool) {
	k := p.find("", "", pod.UID)
	if k == nil && replaced && pod.DeletionTimestamp == nil && !podstatus.Ended(pod.Status.Phase) {
		k = p.add(pod, "")
	}
	if k != nil {
		k.see(pod)
	}
}

// Task returns the ID of the task that runs a Pod; false while there is none.
func (p *Pods) Task(namespace, name string) (id string, ok bool) {
	k := p.find(namespace, name, "")
	if k == nil {
		return "", false
	}
	id = k.taskID()
	return id, id != ""
}
