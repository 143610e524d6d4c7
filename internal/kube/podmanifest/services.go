package podmanifest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Services watch the Services of the cluster, as a kubelet does: Pods have variables of those in their
// namespace. One watch of a node is less than a request for each Pod.
type Services struct {
	Factory informers.SharedInformerFactory
}

// NewServices returns the services of a cluster, which Watch reads.
func NewServices(client kubernetes.Interface) Services {
	s := Services{informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(func(o any) (any, error) {
		if s, ok := o.(*corev1.Service); ok { // the rest would only need memory
			return &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: s.Name, Namespace: s.Namespace, UID: s.UID, ResourceVersion: s.ResourceVersion},
				Spec: corev1.ServiceSpec{
					Type: s.Spec.Type, ClusterIP: s.Spec.ClusterIP, Ports: s.Spec.Ports, Selector: s.Spec.Selector, PublishNotReadyAddresses: s.Spec.PublishNotReadyAddresses,
				},
			}, nil
		}
		return o, nil
	}))}
	s.Factory.Core().V1().Services().Informer() // so that Start starts it
	return s
}

// Watch watches until ctx ends. Changed is called after each change.
func (s Services) Watch(ctx context.Context, wg *sync.WaitGroup, changed func()) {
	_, _ = s.Factory.Core().V1().Services().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{ // fails for an informer that has ended
		AddFunc: func(any) { changed() }, UpdateFunc: func(any, any) { changed() }, DeleteFunc: func(any) { changed() },
	})
	s.Factory.Start(ctx.Done())
	wg.Go(func() {
		<-ctx.Done()
		s.Factory.Shutdown()
	})
}

// errServicesUnread has the words of the kubelet.
var errServicesUnread = errors.New("services have not yet been read at least once, cannot construct envvars")

// firstServices bounds the wait of a Pod for the first answer of the API server.
const firstServices = 5 * time.Second

// Of returns the Services of a namespace, or of all with an empty one, in the order of their names.
func (s Services) Of(ctx context.Context, namespace string) ([]*corev1.Service, error) {
	ctx, cancel := context.WithTimeout(ctx, firstServices)
	defer cancel()
	informer := s.Factory.Core().V1().Services()
	if !cache.WaitForCacheSync(ctx.Done(), informer.Informer().HasSynced) {
		return nil, errServicesUnread
	}
	found, err := informer.Lister().Services(namespace).List(labels.Everything())
	slices.SortFunc(found, func(a, b *corev1.Service) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return found, err
}

// linksServices reports whether a Pod has variables of the Services of its namespace, which is the
// default of Kubernetes.
func linksServices(pod *corev1.Pod) bool {
	return pod.Spec.EnableServiceLinks == nil || *pod.Spec.EnableServiceLinks
}

// serviceVariables are the variables that Pods have of Services (kubelet: envvars.FromServices). Those of
// the API server are left out: containers reach it at another address than its Service's.
func serviceVariables(all []*corev1.Service) map[string]string {
	out := make(map[string]string)
	for _, s := range all {
		address := s.Spec.ClusterIP
		if address == "" || address == corev1.ClusterIPNone || len(s.Spec.Ports) == 0 || s.Namespace == metav1.NamespaceDefault && s.Name == "kubernetes" {
			continue
		}
		prefix := variableOf(s.Name)
		out[prefix+"_SERVICE_HOST"] = address
		for i, p := range s.Spec.Ports {
			protocol, number := string(p.Protocol), strconv.Itoa(int(p.Port))
			if protocol == "" {
				protocol = string(corev1.ProtocolTCP)
			}
			place := strings.ToLower(protocol) + "://" + net.JoinHostPort(address, number)
			if i == 0 {
				out[prefix+"_SERVICE_PORT"], out[prefix+"_PORT"] = number, place
			}
			if p.Name != "" {
				out[prefix+"_SERVICE_PORT_"+variableOf(p.Name)] = number
			}
			link := fmt.Sprintf("%s_PORT_%s_%s", prefix, number, strings.ToUpper(protocol))
			out[link], out[link+"_PROTO"], out[link+"_PORT"], out[link+"_ADDR"] = place, strings.ToLower(protocol), number, address
		}
	}
	return out
}

func variableOf(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }

// servicesConfig is the name of the ConfigMap that stands for the variables of Services: no object of a
// cluster has an underscore in its name.
const servicesConfig = "services_"

// linkServices gives the containers of a Pod the variables of Services, which come before all others
// and so yield to them. It returns the object that the Pod then refers to; nil if there is none.
func linkServices(pod *corev1.Pod, all []*corev1.Service) *corev1.ConfigMap {
	variables := serviceVariables(all)
	if len(variables) == 0 {
		return nil
	}
	from := corev1.EnvFromSource{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: servicesConfig}}}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			list[i].EnvFrom = slices.Concat([]corev1.EnvFromSource{from}, list[i].EnvFrom)
		}
	}
	return &corev1.ConfigMap{TypeMeta: typeOf("ConfigMap"), ObjectMeta: named(pod, servicesConfig), Data: variables}
}
