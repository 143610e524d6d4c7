package kubenode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/kube/podmanifest"
	"github.com/podtask/podtask/internal/kube/pressure"
	vklog "github.com/virtual-kubelet/virtual-kubelet/log"
	vk "github.com/virtual-kubelet/virtual-kubelet/node"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
)

// Config configures a node.
type Config struct {
	Identity Identity
	Client   kubernetes.Interface
	Agent    Agent
	Host     Host
	Log      *slog.Logger
	Pace     Pace
	// Server is the address of the API server as containers reach it: host and port.
	Server [2]string
	// Dir has the files of Pods, which only this user may read.
	Dir string
	// Thresholds say how much the host must have left; Use is what Pods use.
	Thresholds []pressure.Threshold
	Use        func(context.Context) (map[types.UID]MemoryUse, error)
	// Access is the connection of Client to the API server, for a watch of the Pods that finds members which this
	// program does not know; nil for a watch with Client, which does not find them.
	Access *rest.Config
	// Sysctls are the unsafe sysctls that Pods may set, and patterns of them.
	Sysctls []string
	// Ephemerals runs ephemeral containers; nil: they are refused with an event.
	Ephemerals EphemeralContainers
	// NoLimits returns why limits of Pods cannot be applied on this host, with the fix; empty if they can.
	NoLimits func() string
	// Shutdown bounds the end of the Pods when their host shuts down.
	Shutdown Shutdown
	// Serve is called with the Pods before the node registers, and serves what the API
	// server asks of it until the context ends; nil for nothing.
	Serve func(context.Context, *Pods) error
}

// Intervals of a node (kubelet: node-lease-duration, node-status-report-frequency). The
// host is looked at more often; only changes are reported.
const (
	// LeaseSeconds is the duration of a node's lease.
	LeaseSeconds = 40
	// ReportEvery is the interval in which the unchanged status of a node is reported.
	ReportEvery = 5 * time.Minute

	lookEvery = 10 * time.Second
	workers   = 8
)

// Run is the node until asked ends. It waits for the agent and for the API server, now and
// later; tasks continue meanwhile, and after it has ended, unless the host shuts down.
func Run(asked context.Context, c Config) error {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(asked))
	defer cancel(nil)
	ctx = vklog.WithLogger(ctx, logger{c.Log})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)

	n := &node{identity: c.Identity, host: c.Host, figures: pressure.FiguresOf, log: c.Log, every: lookEvery, pressure: newPressures(c.Thresholds), noLimits: c.NoLimits}
	n.look(ctx)
	members := NewMembers()
	informer, err := c.informer(members)
	if err != nil {
		return err
	}
	linked := podmanifest.NewServices(c.Client)
	events, stopEvents := newRecorder(c.Client, c.Identity.Name)
	defer stopEvents()
	pods := NewPods(ctx, PodsConfig{
		Node: c.Identity.Name, Client: c.Client, Agent: c.Agent, Events: events, Log: c.Log, Pace: c.Pace,
		Room: n.room, Pressures: n.pressures, Current: informer.current, Address: addressOf(c.Identity), Server: c.Server, Dir: c.Dir,
		Services: linked.Of, Members: members, Sysctls: c.Sysctls, Ephemerals: c.Ephemerals,
	})
	defer pods.Wait()
	defer cancel(nil) // before the wait
	wg.Go(func() {
		select {
		case <-asked.Done():
			c.Shutdown.end(ctx, n, pods)
			cancel(context.Cause(asked))
		case <-ctx.Done():
		}
	})
	if err = adopt(ctx, c, pods); err != nil {
		return err
	}
	controller, err := newController(c, pods, informer, events)
	if err != nil {
		return err
	}
	if c.Serve != nil {
		wg.Go(func() { cancel(fmt.Errorf("serve logs and exec: %w", c.Serve(ctx, pods))) })
	}
	informer.watch(ctx, pods, &wg)
	linked.Watch(ctx, &wg, pods.names.wake)
	wg.Go(func() { pods.names.run(ctx) })
	wg.Go(func() { n.run(ctx, &evictor{short: n.pressure.shortages, use: c.Use, pods: pods}) })
	wg.Go(func() { register(ctx, c, n) })
	err = controller.Run(ctx, workers)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// informer returns the informer of the Pods, which notes what is not known of them.
func (c Config) informer(members *Members) (podInformer, error) {
	if c.Access == nil {
		return newPodInformer(c.Client, c.Identity.Name, nil), nil
	}
	source, err := members.Source(c.Access, c.Identity.Name)
	return newPodInformer(c.Client, c.Identity.Name, source), err
}

func addressOf(id Identity) string {
	if !id.Address.IsValid() {
		return ""
	}
	return id.Address.String()
}

// adopt finds the tasks of an earlier process, as soon as there is an agent.
func adopt(ctx context.Context, c Config, pods *Pods) error {
	for {
		err := pods.Adopt(ctx)
		if err == nil {
			return nil
		}
		c.Log.Warn("the podtask agent does not answer: waiting for it", "error", err)
		if !sleep(ctx, c.Pace.Steady) {
			return context.Cause(ctx)
		}
	}
}

// register keeps the node object and its lease until ctx ends. A controller ends when the
// API server cannot be reached at its start; another one follows then.
func register(ctx context.Context, c Config, n *node) {
	for pause := c.Pace.Steady; ctx.Err() == nil; pause = min(2*pause, c.Pace.First) {
		object := n.look(ctx)
		leases := c.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
		nodes := c.Client.CoreV1().Nodes()
		controller, err := vk.NewNodeController(n, object, nodes, vk.WithNodeEnableLeaseV1(leases, LeaseSeconds), vk.WithNodeStatusUpdateInterval(ReportEvery),
			vk.WithNodeStatusUpdateErrorHandler(func(ctx context.Context, err error) error { return recreate(ctx, c, nodes, n, err) }))
		if err == nil {
			ended := make(chan struct{})
			go func() {
				select {
				case <-controller.Ready():
					tellUserNamespace(ctx, c, nodes)
				case <-ended:
				}
			}()
			err = controller.Run(ctx)
			close(ended)
		}
		if ctx.Err() == nil {
			c.Log.Warn("the node is not registered yet", "error", err)
			sleep(ctx, pause)
		}
	}
}

// recreate registers the node again after it was deleted.
func recreate(ctx context.Context, c Config, nodes typedcore.NodeInterface, n *node, err error) error {
	if !apierrors.IsNotFound(err) {
		return err
	}
	if _, err = nodes.Create(ctx, n.look(ctx), metav1.CreateOptions{}); err == nil {
		tellUserNamespace(ctx, c, nodes)
	}
	return err
}

// inUserNamespace sets a member that the types of Kubernetes before 1.37 do not have. Older API
// servers drop it.
const inUserNamespace = `{"status":{"nodeInfo":{"runningInUserNamespace":true}}}`

// tellUserNamespace tells the API server that containers run in a user namespace. What else changes the
// status leaves it.
func tellUserNamespace(ctx context.Context, c Config, nodes typedcore.NodeInterface) {
	if !c.Identity.UserNamespace {
		return
	}
	_, err := nodes.Patch(ctx, c.Identity.Name, types.MergePatchType, []byte(inUserNamespace), metav1.PatchOptions{FieldValidation: metav1.FieldValidationIgnore}, "status")
	if err != nil && ctx.Err() == nil {
		c.Log.Warn("the node does not say that it runs in a user namespace", "error", err)
	}
}

// newController returns the controller of Virtual Kubelet. The informers of other objects
// than Pods are never started: nothing is listed.
func newController(c Config, pods *Pods, informer podInformer, events record.EventRecorder) (*vk.PodController, error) {
	never := informers.NewSharedInformerFactory(c.Client, 0).Core().V1()
	limiter := func() workqueue.TypedRateLimiter[any] {
		return workqueue.NewTypedItemExponentialFailureRateLimiter[any](100*time.Millisecond, c.Pace.First)
	}
	forever := func(_ context.Context, _ string, times int, _ time.Time, _ error) (*time.Duration, error) {
		pause := min(c.Pace.Steady<<min(times, 10), c.Pace.First)
		return &pause, nil
	}
	return vk.NewPodController(vk.PodControllerConfig{
		PodClient: finalClient{c.Client.CoreV1(), pods}, PodInformer: informer.factory.Core().V1().Pods(), EventRecorder: quiet{events}, Provider: pods,
		ConfigMapInformer: never.ConfigMaps(), SecretInformer: never.Secrets(), ServiceInformer: never.Services(),
		SyncPodsFromKubernetesRateLimiter: limiter(), DeletePodsFromKubernetesRateLimiter: limiter(), SyncPodStatusFromProviderRateLimiter: limiter(),
		SyncPodsFromKubernetesShouldRetryFunc: forever, DeletePodsFromKubernetesShouldRetryFunc: forever,
		SkipDownwardAPIResolution: true,
	})
}

// podInformer watches the Pods of the node, and nothing else.
type podInformer struct {
	factory informers.SharedInformerFactory
}

func newPodInformer(client kubernetes.Interface, name string, source cache.ListerWatcher) podInformer {
	transform := func(o any) (any, error) {
		if p, ok := o.(*corev1.Pod); ok {
			p.ManagedFields = nil
		}
		return o, nil
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", name).String()
		}), informers.WithTransform(transform))
	if source != nil { // the first informer of a type is that of all who ask for one
		factory.InformerFor(&corev1.Pod{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
			return cache.NewSharedIndexInformer(source, &corev1.Pod{}, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
		})
	}
	return podInformer{factory}
}

// current is the Pod of a name, as last seen; nil for none.
func (i podInformer) current(namespace, name string) *corev1.Pod {
	p, err := i.factory.Core().V1().Pods().Lister().Pods(namespace).Get(name)
	if err != nil {
		return nil
	}
	return p
}

// watch tells Pods of each Pod that is seen, until ctx ends.
func (i podInformer) watch(ctx context.Context, pods *Pods, wg *sync.WaitGroup) {
	informer := i.factory.Core().V1().Pods().Informer()
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{ // fails for an informer that has ended
		AddFunc: func(o any) {
			if p, ok := o.(*corev1.Pod); ok {
				pods.see(p, false)
			}
		},
		UpdateFunc: func(before, now any) {
			old, ok1 := before.(*corev1.Pod)
			p, ok2 := now.(*corev1.Pod)
			if ok1 && ok2 {
				pods.see(p, old.UID != p.UID)
			}
		},
	})
	i.factory.Start(ctx.Done())
	wg.Go(func() {
		<-ctx.Done()
		i.factory.Shutdown()
	})
}

// finalClient makes the last delete of a Pod wait for its containers: Virtual Kubelet
// deletes after the grace period, or as soon as a status says that nothing runs.
type finalClient struct {
	typedcore.CoreV1Interface
	pods *Pods
}

// Pods implements typedcore.PodsGetter.
func (c finalClient) Pods(namespace string) typedcore.PodInterface {
	return finalPods{c.CoreV1Interface.Pods(namespace), namespace, c.pods}
}

type finalPods struct {
	typedcore.PodInterface
	namespace string
	pods      *Pods
}

// Delete releases the Pod if it is kept: its podWorker deletes it.
func (p finalPods) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	if o.Preconditions != nil && o.Preconditions.UID != nil {
		if k := p.pods.find(p.namespace, name, *o.Preconditions.UID); k != nil {
			k.release(k.latest().DeletionGracePeriodSeconds)
			return nil
		}
	}
	return p.PodInterface.Delete(ctx, name, o)
}

// newRecorder returns a recorder of events about Pods.
func newRecorder(client kubernetes.Interface, name string) (record.EventRecorder, func()) {
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: client.CoreV1().Events("")})
	return broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "podtask-kubelet", Host: name}), broadcaster.Shutdown
}
