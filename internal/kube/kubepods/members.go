package kubepods

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/podtask/podtask/internal/lazy"
)

// members records the members of Pods that this program does not know, because the API server is newer than
// its types. A typed client drops them without a word, and with them perhaps what protects the Pod.
// It is safe for concurrent use.
type members struct {
	mu      sync.Mutex
	unknown map[types.UID][]string // paths as spec.volumes[0].emptyDir.mode
}

func newMembers() *members { return &members{unknown: make(map[types.UID][]string)} }

// source lists and watches the Pods of a node in JSON, which shows the members that are not
// known, and notes them. Protobuf, which clients prefer, has numbers in place of names.
func (m *members) source(access *rest.Config, node string) (*cache.ListWatch, error) {
	c := rest.CopyConfig(access)
	c.APIPath, c.GroupVersion = "/api", &corev1.SchemeGroupVersion
	c.AcceptContentTypes, c.ContentType = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	c.NegotiatedSerializer = memberCodecs{rest.CodecFactoryForGeneratedClient(scheme.Scheme, scheme.Codecs).WithoutConversion(), m}
	client, err := rest.RESTClientFor(c)
	if err != nil {
		return nil, err
	}
	return cache.NewListWatchFromClient(client, "pods", metav1.NamespaceAll, fields.OneTermEqualSelector("spec.nodeName", node)), nil
}

// memberCodecs decode JSON and note the members that are not known.
type memberCodecs struct {
	runtime.NegotiatedSerializer
	members *members
}

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (c memberCodecs) SupportedMediaTypes() []runtime.SerializerInfo {
	all := slices.Clone(c.NegotiatedSerializer.SupportedMediaTypes())
	for i, info := range all {
		if info.MediaType == runtime.ContentTypeJSON {
			strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, json.SerializerOptions{Strict: true})
			all[i].Serializer = memberDecoder{strict, c.members}
		}
	}
	return all
}

type memberDecoder struct {
	runtime.Serializer
	members *members
}

// Decode implements runtime.Decoder.
func (d memberDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	out, kind, err := d.Serializer.Decode(data, defaults, into)
	var paths []string
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		paths, err = unknownPaths(strict.Errors()), nil
	}
	switch o := out.(type) {
	case *corev1.Pod:
		d.members.note(o.UID, paths)
	case *corev1.PodList:
		for i := range o.Items {
			d.members.note(o.Items[i].UID, pathsOf(i, paths))
		}
	}
	return out, kind, err
}

// unknownField matches the words of the decoder.
var unknownField = lazy.MustCompile(`^unknown field "(.*)"$`)

func unknownPaths(errs []error) (out []string) {
	for _, err := range errs {
		if m := unknownField.FindStringSubmatch(err.Error()); m != nil {
			out = append(out, m[1])
		}
	}
	return out
}

// itemPath matches the path of a member of an item of a list.
var itemPath = lazy.MustCompile(`^items\[(\d+)\]\.(.*)$`)

// pathsOf returns the paths below item i of a list, relative to the item.
func pathsOf(i int, paths []string) (out []string) {
	for _, p := range paths {
		if m := itemPath.FindStringSubmatch(p); m != nil && m[1] == strconv.Itoa(i) {
			out = append(out, m[2])
		}
	}
	return out
}

// note replaces what is known of a Pod. Only its spec says what is to run.
func (m *members) note(uid types.UID, paths []string) {
	paths = slices.DeleteFunc(paths, func(p string) bool { return !strings.HasPrefix(p, "spec.") })
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(paths) == 0 {
		delete(m.unknown, uid)
		return
	}
	m.unknown[uid] = paths
}

// forget drops a Pod that is gone.
func (m *members) forget(uid types.UID) { m.note(uid, nil) }

// of returns the members of a Pod that are not known.
func (m *members) of(uid types.UID) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.unknown[uid]
}

// KubernetesVersion is the version of Kubernetes whose Pods the node runs.
const KubernetesVersion = "v1.37.2"

// Reasons for Pods with members that are not known; the first is the kubelet's.
const (
	reasonUnsupported    = "PodFeatureUnsupported"
	reasonUnknownMembers = "UnknownMembers"
)

// protective matches members that may protect a Pod or its files: a Pod runs with all of them or not at
// all. In Kubernetes 1.37 those are bindMountOptions of mounts, the mode of an emptyDir, and the users
// of files.
var protective = lazy.MustCompile(`(^|\.)(volumes|volumeMounts)\[|(^|\.)(securityContext|resources)\.`)

// unknownMembers returns why a Pod with members that are not known is not run; empty if it is. Ignored are
// those without which it runs.
func unknownMembers(paths []string) (refusal string, ignored []string) {
	var refused []string
	for _, p := range paths {
		if protective.MatchString(p) {
			refused = append(refused, p)
		} else {
			ignored = append(ignored, p)
		}
	}
	if len(refused) > 0 {
		refusal = strings.Join(refused, ", ") + ": podtask-kubelet speaks " + KubernetesVersion + ", which does not have this, and without it the Pod may be less protected"
	}
	return refusal, ignored
}
