package podmanifest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/podtask/podtask/pkg/taskdef"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Manifests make the documents that an agent is given: a Pod with all that it refers to.
type Manifests struct {
	Node, Address string
	Server        [2]string
	// services returns the Services of a namespace; nil if Pods have no variables of them.
	Services func(ctx context.Context, namespace string) ([]*corev1.Service, error)
}

// Of returns a v1 List of the Pod and the objects it refers to, each fetched by its name.
// Files of volumes that are kept are written first. All objects that are missing are in the
// error. Restarts are those before the task.
func (m Manifests) Of(ctx context.Context, pod *corev1.Pod, v *Volumes, restarts map[string]int32) (json.RawMessage, error) {
	from := v.From.Reading(pod)
	errs := []error{v.Write(ctx, pod, from)}
	pod = m.Adapted(v.mounted(pod))
	markRestarts(pod, restarts)
	objects := []runtime.Object{pod}
	tokens, err := m.tokens(ctx, pod, from)
	if err != nil {
		errs = append(errs, err)
	}
	for _, t := range tokens {
		objects = append(objects, t)
	}
	configs, secrets := references(pod)
	if m.Services != nil && linksServices(pod) {
		all, err := m.Services(ctx, pod.Namespace)
		if err != nil {
			errs = append(errs, err)
		}
		if c := linkServices(pod, all); c != nil {
			objects = append(objects, c)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		c, err := from.ConfigMap(ctx, name)
		if err == nil {
			objects = append(objects, &corev1.ConfigMap{TypeMeta: typeOf("ConfigMap"), ObjectMeta: named(pod, name), Data: c.Data, BinaryData: c.BinaryData})
		} else if !configs[name].optional || !apierrors.IsNotFound(err) {
			errs = append(errs, missing("configmap", name, err))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		s, err := from.Secret(ctx, name)
		if err == nil {
			objects = append(objects, &corev1.Secret{TypeMeta: typeOf("Secret"), ObjectMeta: named(pod, name), Type: s.Type, Data: s.Data})
		} else if !secrets[name].optional || !apierrors.IsNotFound(err) {
			errs = append(errs, missing("secret", name, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
}

// missing returns the error for an object that cannot be read.
func missing(kind, name string, err error) error {
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%s %q not found", kind, name)
	}
	return fmt.Errorf("%s %q: %w", kind, name, err)
}

// ApiServerAway reports whether an error says nothing about the Pod.
func ApiServerAway(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		apierrors.IsServerTimeout(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err) ||
		isConnection(err) && !errors.As(err, &status)
}

// isConnection reports whether no answer came.
func isConnection(err error) bool {
	var net interface{ Timeout() bool } // net.Error and url.Error
	return errors.As(err, &net)
}

func typeOf(kind string) metav1.TypeMeta { return metav1.TypeMeta{APIVersion: "v1", Kind: kind} }

func named(pod *corev1.Pod, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: pod.Namespace}
}

// Adapted is the Pod as the agent is given it: marked as one of this node, without what
// servers add, and with the addresses of this node and of the API server.
func (m Manifests) Adapted(pod *corev1.Pod) *corev1.Pod {
	p := pod.DeepCopy()
	p.TypeMeta, p.Status, p.ManagedFields = typeOf("Pod"), corev1.PodStatus{}, nil
	p.Spec.EphemeralContainers = nil // runEphemerals starts them beside the task
	if p.Annotations == nil {
		p.Annotations = make(map[string]string)
	}
	p.Annotations[taskdef.AnnotationNode] = m.Node
	delete(p.Annotations, corev1.LastAppliedConfigAnnotation)
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			m.addServer(&list[i])
			m.setAddress(&list[i])
		}
	}
	return p
}

// addServer sets the variables from which clients in a cluster know the API server, unless
// the container has them. Elsewhere they hold a ClusterIP, which does not exist here.
func (m Manifests) addServer(c *corev1.Container) {
	for i, name := range []string{"KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"} {
		has := slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == name })
		if !has && m.Server[i] != "" {
			c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: m.Server[i]})
		}
	}
}

// setAddress gives a container the node's address where it asks for that of its host, so that it is
// told what the status of the Pod says.
func (m Manifests) setAddress(c *corev1.Container) {
	for i, e := range c.Env {
		if e.ValueFrom == nil || e.ValueFrom.FieldRef == nil || m.Address == "" {
			continue
		}
		if path := e.ValueFrom.FieldRef.FieldPath; path == "status.hostIP" || path == "status.hostIPs" {
			c.Env[i] = corev1.EnvVar{Name: e.Name, Value: m.Address}
		}
	}
}

// reference is a reference of a Pod to an object.
type reference struct{ optional bool }

// references are the ConfigMaps and Secrets that a Pod refers to, by their names. An
// object is optional where each use is.
func references(pod *corev1.Pod) (configs, secrets map[string]reference) {
	configs, secrets = make(map[string]reference), make(map[string]reference)
	note := func(in map[string]reference, name string, optional *bool) {
		is := optional != nil && *optional
		if before, known := in[name]; known {
			is = is && before.optional
		}
		if name != "" {
			in[name] = reference{is}
		}
	}
	always := true
	for _, s := range pod.Spec.ImagePullSecrets {
		note(secrets, s.Name, &always) // the kubelet pulls without it
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, e := range c.EnvFrom {
			if r := e.ConfigMapRef; r != nil {
				note(configs, r.Name, r.Optional)
			}
			if r := e.SecretRef; r != nil {
				note(secrets, r.Name, r.Optional)
			}
		}
		for _, e := range c.Env {
			if e.ValueFrom == nil {
				continue
			}
			if r := e.ValueFrom.ConfigMapKeyRef; r != nil {
				note(configs, r.Name, r.Optional)
			}
			if r := e.ValueFrom.SecretKeyRef; r != nil {
				note(secrets, r.Name, r.Optional)
			}
		}
	}
	for _, v := range pod.Spec.Volumes {
		if r := v.ConfigMap; r != nil {
			note(configs, r.Name, r.Optional)
		}
		if r := v.Secret; r != nil {
			note(secrets, r.SecretName, r.Optional)
		}
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if r := s.ConfigMap; r != nil {
				note(configs, r.Name, r.Optional)
			}
			if r := s.Secret; r != nil && !isToken(r.Name) {
				note(secrets, r.Name, r.Optional)
			}
		}
	}
	return configs, secrets
}

// tokenKey is the key of a token in the Secret that stands for it.
const tokenKey = "token"

// tokenPrefix begins the names of such Secrets: no object of a cluster has an underscore
// in its name.
const tokenPrefix = "token_"

func isToken(name string) bool {
	return len(name) > len(tokenPrefix) && name[:len(tokenPrefix)] == tokenPrefix
}

// tokens asks for the tokens of a Pod's service account and puts Secrets in their place.
func (m Manifests) tokens(ctx context.Context, pod *corev1.Pod, from *Reading) (out []*corev1.Secret, err error) {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Projected == nil {
			continue
		}
		for k := range v.Projected.Sources {
			s := &v.Projected.Sources[k]
			if s.ServiceAccountToken == nil {
				continue
			}
			token, err := from.Token(ctx, *s.ServiceAccountToken)
			if err != nil {
				return nil, fmt.Errorf("the token of the service account %q: %w", accountOf(pod), err)
			}
			name := fmt.Sprintf("%s%d_%d", tokenPrefix, i, k)
			out = append(out, &corev1.Secret{TypeMeta: typeOf("Secret"), ObjectMeta: named(pod, name), Data: map[string][]byte{tokenKey: []byte(token)}})
			s.Secret = &corev1.SecretProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: name},
				Items:                []corev1.KeyToPath{{Key: tokenKey, Path: s.ServiceAccountToken.Path}},
			}
			s.ServiceAccountToken = nil
		}
	}
	return out, nil
}

func accountOf(pod *corev1.Pod) string {
	if pod.Spec.ServiceAccountName != "" {
		return pod.Spec.ServiceAccountName
	}
	return "default"
}

// OfEphemeral converts a Pod whose only container is an ephemeral one.
func (m Manifests) OfEphemeral(ctx context.Context, pod *corev1.Pod, v *Volumes, c corev1.EphemeralContainer) (json.RawMessage, error) {
	pod.Spec.InitContainers, pod.Spec.Containers = nil, []corev1.Container{corev1.Container(c.EphemeralContainerCommon)}
	pod.Spec.RestartPolicy, pod.Spec.ActiveDeadlineSeconds = corev1.RestartPolicyNever, nil
	return m.Of(ctx, pod, v, nil)
}
