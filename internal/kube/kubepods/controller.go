package kubepods

import (
	"context"
	"time"

	vk "github.com/virtual-kubelet/virtual-kubelet/node"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
)

// workers is the number of Pods that Virtual Kubelet calls Pods for at a time.
const workers = 8

// newController returns the controller of Virtual Kubelet. The informers of other objects
// than Pods are never started: nothing is listed.
func newController(p *Pods) (*vk.PodController, error) {
	never := informers.NewSharedInformerFactory(p.config.Client, 0).Core().V1()
	limiter := func() workqueue.TypedRateLimiter[any] {
		return workqueue.NewTypedItemExponentialFailureRateLimiter[any](100*time.Millisecond, p.config.Pace.First)
	}
	forever := func(_ context.Context, _ string, times int, _ time.Time, _ error) (*time.Duration, error) {
		pause := min(p.config.Pace.Steady<<min(times, 10), p.config.Pace.First)
		return &pause, nil
	}
	return vk.NewPodController(vk.PodControllerConfig{
		PodClient: finalClient{p.config.Client.CoreV1(), p}, PodInformer: p.informer.factory.Core().V1().Pods(), EventRecorder: quiet{p.config.Events}, Provider: p,
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

// newPodInformer returns the informer of the Pods, which notes unknown members if it can.
func newPodInformer(c Config, unknown *members) (podInformer, error) {
	transform := func(o any) (any, error) {
		if p, ok := o.(*corev1.Pod); ok {
			p.ManagedFields = nil
		}
		return o, nil
	}
	factory := informers.NewSharedInformerFactoryWithOptions(c.Client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", c.Node).String()
		}), informers.WithTransform(transform))
	if c.Access != nil {
		source, err := unknown.source(c.Access, c.Node)
		if err != nil {
			return podInformer{}, err
		}
		// The first informer of a type is that of all who ask for one.
		factory.InformerFor(&corev1.Pod{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
			return cache.NewSharedIndexInformer(source, &corev1.Pod{}, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
		})
	}
	return podInformer{factory}, nil
}

// current returns the Pod of a name as last seen; nil for none.
func (i podInformer) current(namespace, name string) *corev1.Pod {
	p, err := i.factory.Core().V1().Pods().Lister().Pods(namespace).Get(name)
	if err != nil {
		return nil
	}
	return p
}

// watch calls pods.see for each Pod that is seen, until pods.running ends.
func (i podInformer) watch(pods *Pods) {
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
	i.factory.Start(pods.running.Done())
	pods.wg.Go(func() {
		<-pods.running.Done()
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

// quiet drops what Virtual Kubelet says about each Pod that it passes on: users see the
// events of their Pods, not of a program.
type quiet struct{ record.EventRecorder }

// Event implements record.EventRecorder.
func (q quiet) Event(o runtime.Object, kind, reason, message string) {
	if kind != corev1.EventTypeNormal {
		q.EventRecorder.Event(o, kind, reason, message)
	}
}
