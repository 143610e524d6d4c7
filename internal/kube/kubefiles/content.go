package kubefiles

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	certificates "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// File is a file of a volume.
type File struct {
	Path string // below the volume
	Mode uint32
	Data []byte
}

// Source has the objects of a Pod's namespace. That there is no such object is an error for
// which IsNotFound of k8s.io/apimachinery/pkg/api/errors is true.
type Source interface {
	ConfigMap(ctx context.Context, name string) (*corev1.ConfigMap, error)
	Secret(ctx context.Context, name string) (*corev1.Secret, error)
	Token(ctx context.Context, t corev1.ServiceAccountTokenProjection) (string, error)
	// Certificate returns a key of the Pod and the chain of its certificate, both in PEM.
	Certificate(ctx context.Context, c corev1.PodCertificateProjection) (key, chain []byte, err error)
	// TrustBundles are all of the cluster.
	TrustBundles(ctx context.Context) ([]certificates.ClusterTrustBundle, error)
	// Allocatable returns the resources of the node for Pods, which are the limits of a container without limits.
	Allocatable() corev1.ResourceList
}

// Supported reports whether this package can write the files of a volume. It cannot write those that
// are only for a group (fsGroup), or belong to another user: a user without privileges cannot give files away.
func Supported(pod *corev1.Pod, v corev1.Volume) bool {
	mode, parts := partsOf(v)
	if len(parts) == 0 {
		return false
	}
	context := pod.Spec.SecurityContext
	grouped := context != nil && context.FSGroup != nil
	for _, p := range parts {
		if owned(v, p) {
			return false
		}
		modes := []*int32{mode}
		if p.ServiceAccountToken == nil {
			for _, i := range itemsOf(p) {
				modes = append(modes, i.Mode)
			}
		}
		if grouped && slices.ContainsFunc(modes, func(m *int32) bool { return m != nil && *m&0o004 == 0 }) {
			return false
		}
	}
	return true
}

// owned reports whether a part of a volume names the owner of files.
func owned(v corev1.Volume, p corev1.VolumeProjection) bool {
	users := []*int64{userOf(v)}
	switch {
	case p.ServiceAccountToken != nil:
		users = append(users, p.ServiceAccountToken.User)
	case p.PodCertificate != nil:
		users = append(users, p.PodCertificate.User)
	case p.ClusterTrustBundle != nil:
		users = append(users, p.ClusterTrustBundle.User)
	case p.DownwardAPI != nil:
		for _, f := range p.DownwardAPI.Items {
			users = append(users, f.User)
		}
	}
	for _, i := range itemsOf(p) {
		users = append(users, i.User)
	}
	return slices.ContainsFunc(users, func(u *int64) bool { return u != nil })
}

// userOf is the owner of all files of a volume; nil if it names none.
func userOf(v corev1.Volume) *int64 {
	switch {
	case v.Projected != nil:
		return v.Projected.DefaultUser
	case v.ConfigMap != nil:
		return v.ConfigMap.DefaultUser
	case v.Secret != nil:
		return v.Secret.DefaultUser
	case v.DownwardAPI != nil:
		return v.DownwardAPI.DefaultUser
	}
	return nil
}

// partsOf is a volume as a projected one; nothing if it has no files.
func partsOf(v corev1.Volume) (mode *int32, parts []corev1.VolumeProjection) {
	switch {
	case v.Projected != nil:
		return v.Projected.DefaultMode, v.Projected.Sources
	case v.ConfigMap != nil:
		return v.ConfigMap.DefaultMode, []corev1.VolumeProjection{{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: v.ConfigMap.LocalObjectReference, Items: v.ConfigMap.Items, Optional: v.ConfigMap.Optional,
		}}}
	case v.Secret != nil:
		return v.Secret.DefaultMode, []corev1.VolumeProjection{{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: v.Secret.SecretName}, Items: v.Secret.Items, Optional: v.Secret.Optional,
		}}}
	case v.DownwardAPI != nil:
		return v.DownwardAPI.DefaultMode, []corev1.VolumeProjection{{DownwardAPI: &corev1.DownwardAPIProjection{Items: v.DownwardAPI.Items}}}
	}
	return nil, nil
}

// itemsOf are the keys that a part names.
func itemsOf(p corev1.VolumeProjection) []corev1.KeyToPath {
	switch {
	case p.ConfigMap != nil:
		return p.ConfigMap.Items
	case p.Secret != nil:
		return p.Secret.Items
	case p.DownwardAPI != nil:
		var out []corev1.KeyToPath
		for _, f := range p.DownwardAPI.Items {
			out = append(out, corev1.KeyToPath{Path: f.Path, Mode: f.Mode})
		}
		return out
	}
	return nil
}

// Files returns the files of a volume. All that is missing is in the error. A file at the
// path of an earlier one takes its place.
func Files(ctx context.Context, pod *corev1.Pod, v corev1.Volume, from Source) ([]File, error) {
	mode, parts := partsOf(v)
	g := gatherer{pod: pod, mode: 0o644, files: make(map[string]File)}
	if mode != nil {
		g.mode = uint32(*mode)
	}
	for _, p := range parts {
		g.part(ctx, p, from)
	}
	if len(g.errs) > 0 {
		return nil, errors.Join(g.errs...)
	}
	return slices.SortedFunc(maps.Values(g.files), func(a, b File) int { return strings.Compare(a.Path, b.Path) }), nil
}

// gatherer gathers the files of one volume.
type gatherer struct {
	pod   *corev1.Pod
	mode  uint32
	files map[string]File
	errs  []error
}

func (g *gatherer) part(ctx context.Context, p corev1.VolumeProjection, from Source) {
	switch {
	case p.ConfigMap != nil:
		c, err := from.ConfigMap(ctx, p.ConfigMap.Name)
		if err != nil {
			g.missing("configmap", p.ConfigMap.Name, p.ConfigMap.Optional, err)
			return
		}
		data := maps.Clone(c.BinaryData)
		if data == nil {
			data = make(map[string][]byte)
		}
		for k, text := range c.Data {
			data[k] = []byte(text)
		}
		g.keys("configmap "+c.Name, data, p.ConfigMap.Items, p.ConfigMap.Optional)
	case p.Secret != nil:
		s, err := from.Secret(ctx, p.Secret.Name)
		if err != nil {
			g.missing("secret", p.Secret.Name, p.Secret.Optional, err)
			return
		}
		g.keys("secret "+s.Name, s.Data, p.Secret.Items, p.Secret.Optional)
	case p.ServiceAccountToken != nil:
		token, err := from.Token(ctx, *p.ServiceAccountToken)
		if err != nil {
			g.errs = append(g.errs, fmt.Errorf("the token of the service account: %w", err))
			return
		}
		g.add(p.ServiceAccountToken.Path, nil, []byte(token))
	case p.PodCertificate != nil:
		g.certificate(ctx, *p.PodCertificate, from)
	case p.ClusterTrustBundle != nil:
		g.trust(ctx, *p.ClusterTrustBundle, from)
	case p.DownwardAPI != nil:
		for _, f := range p.DownwardAPI.Items {
			if f.ResourceFieldRef != nil {
				g.resource(f, from.Allocatable())
			} else {
				g.field(f)
			}
		}
	}
}

// certificate adds the files of a key of the Pod and its certificate.
func (g *gatherer) certificate(ctx context.Context, p corev1.PodCertificateProjection, from Source) {
	key, chain, err := from.Certificate(ctx, p)
	if err != nil {
		g.errs = append(g.errs, fmt.Errorf("the certificate of the Pod by %s: %w", p.SignerName, err))
		return
	}
	for at, text := range map[string][]byte{p.CredentialBundlePath: slices.Concat(key, chain), p.KeyPath: key, p.CertificateChainPath: chain} {
		if at != "" {
			g.add(at, nil, text)
		}
	}
}

// trust adds the file of the certificates of bundles.
func (g *gatherer) trust(ctx context.Context, p corev1.ClusterTrustBundleProjection, from Source) {
	bundles, err := from.TrustBundles(ctx)
	if err == nil {
		bundles, err = selected(bundles, p)
	}
	if err != nil {
		g.errs = append(g.errs, fmt.Errorf("the ClusterTrustBundles of the file %q: %w", p.Path, err))
		return
	}
	g.add(p.Path, nil, anchors(bundles))
}

// selected are the bundles that a file is to have: the one with a name, or those of a signer whose labels match.
// Without a selector none does.
func selected(all []certificates.ClusterTrustBundle, want corev1.ClusterTrustBundleProjection) ([]certificates.ClusterTrustBundle, error) {
	matches := func(b certificates.ClusterTrustBundle) bool { return want.Name != nil && b.Name == *want.Name }
	what := "there is none of this name"
	if want.Name == nil {
		labelled, err := metav1.LabelSelectorAsSelector(want.LabelSelector)
		if err != nil {
			return nil, err
		}
		matches = func(b certificates.ClusterTrustBundle) bool {
			return want.SignerName != nil && b.Spec.SignerName == *want.SignerName && labelled.Matches(labels.Set(b.Labels))
		}
		what = "there is none of this signer with such labels"
	}
	out := slices.DeleteFunc(slices.Clone(all), func(b certificates.ClusterTrustBundle) bool { return !matches(b) })
	if len(out) == 0 && (want.Optional == nil || !*want.Optional) {
		return nil, errors.New(what)
	}
	return out, nil
}

// anchors are the certificates of bundles, each once, in an order that does not depend on that of the bundles.
func anchors(bundles []certificates.ClusterTrustBundle) (out []byte) {
	seen := make(map[string]bool)
	for _, b := range bundles {
		for block, rest := pem.Decode([]byte(b.Spec.TrustBundle)); block != nil; block, rest = pem.Decode(rest) {
			seen[string(block.Bytes)] = true
		}
	}
	for _, der := range slices.Sorted(maps.Keys(seen)) {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(der)})...)
	}
	return out
}

// missing notes an object that cannot be had.
func (g *gatherer) missing(kind, name string, optional *bool, err error) {
	switch {
	case !apierrors.IsNotFound(err):
		g.errs = append(g.errs, fmt.Errorf("%s %q: %w", kind, name, err))
	case optional == nil || !*optional:
		g.errs = append(g.errs, fmt.Errorf("%s %q not found", kind, name))
	}
}

// keys adds the keys of an object: all, or those that items name.
func (g *gatherer) keys(what string, data map[string][]byte, items []corev1.KeyToPath, optional *bool) {
	if len(items) == 0 {
		for k, b := range data {
			g.add(k, nil, b)
		}
		return
	}
	for _, i := range items {
		b, has := data[i.Key]
		switch {
		case has:
			g.add(i.Path, i.Mode, b)
		case optional == nil || !*optional:
			g.errs = append(g.errs, fmt.Errorf("%s has no key %q", what, i.Key))
		}
	}
}

func (g *gatherer) add(at string, mode *int32, data []byte) {
	clean := path.Clean(at)
	if at == "" || path.IsAbs(at) || strings.HasPrefix(clean, "..") {
		g.errs = append(g.errs, fmt.Errorf("%q is not a path below a volume", at))
		return
	}
	f := File{Path: clean, Mode: g.mode, Data: data}
	if mode != nil {
		f.Mode = uint32(*mode)
	}
	g.files[clean] = f
}

// field adds a field of the Pod's metadata.
func (g *gatherer) field(f corev1.DownwardAPIVolumeFile) {
	if f.FieldRef == nil {
		g.errs = append(g.errs, fmt.Errorf("the file %q refers to neither a field nor a resource", f.Path))
		return
	}
	name, key, one := strings.Cut(strings.TrimSuffix(f.FieldRef.FieldPath, "']"), "['")
	var text string
	switch name {
	case "metadata.name":
		text = g.pod.Name
	case "metadata.namespace":
		text = g.pod.Namespace
	case "metadata.uid":
		text = string(g.pod.UID)
	case "metadata.labels":
		text = fieldsOf(g.pod.Labels, key, one)
	case "metadata.annotations":
		text = fieldsOf(g.pod.Annotations, key, one)
	default:
		g.errs = append(g.errs, fmt.Errorf("a file cannot hold the field %q", f.FieldRef.FieldPath))
		return
	}
	g.add(f.Path, f.Mode, []byte(text))
}

// resource adds a request or a limit of a container. A container without a limit may use what the node
// has, as with a kubelet.
func (g *gatherer) resource(f corev1.DownwardAPIVolumeFile, allocatable corev1.ResourceList) {
	ref := f.ResourceFieldRef
	all := slices.Concat(g.pod.Spec.InitContainers, g.pod.Spec.Containers)
	i := slices.IndexFunc(all, func(c corev1.Container) bool { return c.Name == ref.ContainerName })
	kind, name, _ := strings.Cut(ref.Resource, ".")
	if i < 0 || kind != "limits" && kind != "requests" {
		g.errs = append(g.errs, fmt.Errorf("a file cannot hold %q of the container %q", ref.Resource, ref.ContainerName))
		return
	}
	amount := all[i].Resources.Requests[corev1.ResourceName(name)]
	if kind == "limits" {
		amount = all[i].Resources.Limits[corev1.ResourceName(name)]
		if amount.IsZero() {
			amount = allocatable[corev1.ResourceName(name)]
		}
	}
	g.add(f.Path, f.Mode, []byte(strconv.FormatInt(divided(corev1.ResourceName(name), amount, ref.Divisor), 10)))
}

// divided is an amount in units of a divisor, rounded up; a divisor of 0 is 1.
func divided(name corev1.ResourceName, amount, divisor resource.Quantity) int64 {
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	n, by := amount.Value(), divisor.Value()
	if name == corev1.ResourceCPU {
		n, by = amount.MilliValue(), divisor.MilliValue()
	}
	out := n / by
	if n%by > 0 {
		out++
	}
	return out
}

// fieldsOf is one value, or a line for each.
func fieldsOf(all map[string]string, key string, one bool) string {
	if one {
		return all[key]
	}
	var lines []string
	for _, k := range slices.Sorted(maps.Keys(all)) {
		lines = append(lines, fmt.Sprintf("%s=%q", k, all[k]))
	}
	return strings.Join(lines, "\n")
}
