package kubefiles

import (
	"context"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	certificates "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// objects is a Source.
type objects struct {
	configs map[string]*corev1.ConfigMap
	secrets map[string]*corev1.Secret
	bundles []certificates.ClusterTrustBundle
}

func (o objects) ConfigMap(_ context.Context, name string) (*corev1.ConfigMap, error) {
	if c := o.configs[name]; c != nil {
		return c, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name)
}

func (o objects) Secret(_ context.Context, name string) (*corev1.Secret, error) {
	if s := o.secrets[name]; s != nil {
		return s, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
}

func (o objects) Token(_ context.Context, t corev1.ServiceAccountTokenProjection) (string, error) {
	return "token for " + t.Audience, nil
}

func (o objects) Certificate(_ context.Context, c corev1.PodCertificateProjection) (key, chain []byte, err error) {
	if c.SignerName == "slow" {
		return nil, nil, errors.New("not issued yet")
	}
	return []byte("key for " + c.SignerName + "\n"), []byte("chain\n"), nil
}

func (o objects) TrustBundles(context.Context) ([]certificates.ClusterTrustBundle, error) {
	return o.bundles, nil
}

func (o objects) Allocatable() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m"), corev1.ResourceMemory: resource.MustParse("3Gi")}
}

func ptr[T any](v T) *T { return &v }

func named(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }

func pod() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: "shop", UID: "u1", Labels: map[string]string{"b": "2", "a": "1"}}}
}

func TestFilesOfAProjectedVolume(t *testing.T) {
	t.Parallel()
	from := objects{
		configs: map[string]*corev1.ConfigMap{"settings": {Data: map[string]string{"one": "1", "two": "2"}, BinaryData: map[string][]byte{"raw": {0}}}},
		secrets: map[string]*corev1.Secret{"key": {Data: map[string][]byte{"k": []byte("hidden")}}},
	}
	v := corev1.Volume{Name: "all", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: ptr(int32(0o640)), Sources: []corev1.VolumeProjection{
		{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: named("settings")}},
		{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: named("absent"), Optional: ptr(true)}},
		{Secret: &corev1.SecretProjection{LocalObjectReference: named("key"), Items: []corev1.KeyToPath{{Key: "k", Path: "keys/k", Mode: ptr(int32(0o400))}}}},
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: "vault", Path: "token"}},
		{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "name", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}},
			{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}},
			{Path: "one", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['b']"}},
		}}},
	}}}}
	got, err := Files(t.Context(), pod(), v, from)
	if err != nil {
		t.Fatal(err)
	}
	var text []string
	for _, f := range got {
		text = append(text, f.Path+" "+fs.FileMode(f.Mode).String()+" "+string(f.Data))
	}
	want := []string{"keys/k -r-------- hidden", "labels -rw-r----- a=\"1\"\nb=\"2\"", "name -rw-r----- web-0", "one -rw-r----- 2", "raw -rw-r----- \x00", "token -rw-r----- token for vault", "two -rw-r----- 2"}
	if strings.Join(text, "|") != strings.Join(want, "|") {
		t.Errorf("got  %q\nwant %q", text, want)
	}
}

// Amounts are rounded up, and a container without a limit may use what the node has (kubelet).
func TestResourcesInFiles(t *testing.T) {
	t.Parallel()
	p := pod()
	p.Spec.Containers = []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("129Mi")},
	}}}
	for _, c := range []struct{ container, resource, divisor, want string }{
		{"app", "requests.cpu", "0", "1"},
		{"app", "requests.cpu", "1m", "250"},
		{"app", "limits.cpu", "1m", "1500"},
		{"app", "limits.cpu", "1", "2"},
		{"app", "requests.memory", "1Mi", "64"},
		{"app", "limits.memory", "64Mi", "3"},
		{"app", "limits.ephemeral-storage", "1", "0"},
		{"app", "cpu", "1", `a file cannot hold "cpu" of the container "app"`},
		{"other", "limits.cpu", "1", `a file cannot hold "limits.cpu" of the container "other"`},
	} {
		v := corev1.Volume{VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "f", ResourceFieldRef: &corev1.ResourceFieldSelector{ContainerName: c.container, Resource: c.resource, Divisor: resource.MustParse(c.divisor)}},
		}}}}
		files, err := Files(t.Context(), p, v, objects{})
		var got string
		if err != nil {
			got = err.Error()
		} else {
			got = string(files[0].Data)
		}
		if got != c.want {
			t.Errorf("%s of %s by %s is %s, want %s", c.resource, c.container, c.divisor, got, c.want)
		}
	}
}

func TestAllThatIsMissingIsInTheError(t *testing.T) {
	t.Parallel()
	v := corev1.Volume{Name: "all", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: named("absent")}},
		{Secret: &corev1.SecretProjection{LocalObjectReference: named("key"), Items: []corev1.KeyToPath{{Key: "other", Path: "x"}, {Key: "k", Path: "../up"}}}},
	}}}}
	_, err := Files(t.Context(), pod(), v, objects{secrets: map[string]*corev1.Secret{"key": {ObjectMeta: metav1.ObjectMeta{Name: "key"}, Data: map[string][]byte{"k": nil}}}})
	for _, want := range []string{`configmap "absent" not found`, `secret key has no key "other"`, `"../up" is not a path below a volume`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %s in %v", want, err)
		}
	}
}

func TestCertificatesOfAPod(t *testing.T) {
	t.Parallel()
	volume := func(p corev1.PodCertificateProjection) corev1.Volume {
		return corev1.Volume{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{PodCertificate: &p}}}}}
	}
	for _, c := range []struct {
		p    corev1.PodCertificateProjection
		want map[string]string
	}{
		{corev1.PodCertificateProjection{SignerName: "x/s", CredentialBundlePath: "all.pem"}, map[string]string{"all.pem": "key for x/s\nchain\n"}},
		{corev1.PodCertificateProjection{SignerName: "x/s", KeyPath: "key.pem", CertificateChainPath: "chain.pem"}, map[string]string{"key.pem": "key for x/s\n", "chain.pem": "chain\n"}},
	} {
		files, err := Files(t.Context(), pod(), volume(c.p), objects{})
		if err != nil || len(files) != len(c.want) {
			t.Errorf("%+v: %+v (%v)", c.p, files, err)
		}
		for _, f := range files {
			if string(f.Data) != c.want[f.Path] {
				t.Errorf("%s is %q, want %q", f.Path, f.Data, c.want[f.Path])
			}
		}
	}
	if _, err := Files(t.Context(), pod(), volume(corev1.PodCertificateProjection{SignerName: "slow", KeyPath: "key.pem"}), objects{}); err == nil || !strings.Contains(err.Error(), "by slow: not issued yet") {
		t.Error(err)
	}
	if !Supported(pod(), volume(corev1.PodCertificateProjection{})) || Supported(pod(), volume(corev1.PodCertificateProjection{User: ptr(int64(7))})) {
		t.Error("it is supported, but for another user")
	}
}

func TestTrustBundlesOfTheCluster(t *testing.T) {
	t.Parallel()
	anchor := func(text string) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(text)}))
	}
	bundle := func(name, signer string, set labels.Set, anchors ...string) certificates.ClusterTrustBundle {
		return certificates.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: set}, Spec: certificates.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: strings.Join(anchors, "\n")}}
	}
	from := objects{bundles: []certificates.ClusterTrustBundle{
		bundle("x:s:1", "x/s", labels.Set{"live": "yes"}, anchor("b"), anchor("a")), bundle("x:s:2", "x/s", labels.Set{"live": "yes"}, anchor("a"), anchor("c")),
		bundle("x:s:3", "x/s", nil, anchor("d")), bundle("x:t:1", "x/t", labels.Set{"live": "yes"}, anchor("e")), bundle("plain", "", nil, anchor("f")),
	}}
	live := &metav1.LabelSelector{MatchLabels: map[string]string{"live": "yes"}}
	for _, c := range []struct {
		what   string
		p      corev1.ClusterTrustBundleProjection
		want   string
		failed string
	}{
		{"a name", corev1.ClusterTrustBundleProjection{Name: ptr("plain")}, anchor("f"), ""},
		{"a name that is not there", corev1.ClusterTrustBundleProjection{Name: ptr("none")}, "", "none of this name"},
		{"one that may be missing", corev1.ClusterTrustBundleProjection{Name: ptr("none"), Optional: ptr(true)}, "", ""},
		{"a signer and labels", corev1.ClusterTrustBundleProjection{SignerName: ptr("x/s"), LabelSelector: live}, anchor("a") + anchor("b") + anchor("c"), ""},
		{"a signer and all labels", corev1.ClusterTrustBundleProjection{SignerName: ptr("x/s"), LabelSelector: &metav1.LabelSelector{}}, anchor("a") + anchor("b") + anchor("c") + anchor("d"), ""},
		{"a signer without a selector", corev1.ClusterTrustBundleProjection{SignerName: ptr("x/s")}, "", "none of this signer"},
		{"neither", corev1.ClusterTrustBundleProjection{LabelSelector: live}, "", "none of this signer"},
		{"a wrong selector", corev1.ClusterTrustBundleProjection{SignerName: ptr("x/s"), LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "live", Operator: "Like"}}}}, "", "Like"},
	} {
		c.p.Path = "ca.pem"
		v := corev1.Volume{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ClusterTrustBundle: &c.p}}}}}
		files, err := Files(t.Context(), pod(), v, from)
		switch {
		case !Supported(pod(), v):
			t.Errorf("%s: not supported", c.what)
		case (err != nil) != (c.failed != "") || err != nil && !strings.Contains(err.Error(), c.failed):
			t.Errorf("%s: %v, want %q", c.what, err, c.failed)
		case err == nil && (len(files) != 1 || string(files[0].Data) != c.want || files[0].Mode != 0o644):
			t.Errorf("%s: %+v, want %s", c.what, files, c.want)
		}
	}
}

func TestVolumesThatAreSupported(t *testing.T) {
	t.Parallel()
	secret := func(mode *int32) corev1.Volume {
		return corev1.Volume{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "key", DefaultMode: mode}}}
	}
	grouped := pod()
	grouped.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: ptr(int64(7))}
	for _, c := range []struct {
		what string
		pod  *corev1.Pod
		v    corev1.Volume
		want bool
	}{
		{"a Secret", pod(), secret(nil), true},
		{"a Secret for its owner", pod(), secret(ptr(int32(0o400))), true},
		{"a Secret for a group, which all may read", grouped, secret(ptr(int32(0o644))), true},
		{"a Secret for a group only", grouped, secret(ptr(int32(0o440))), false},
		{"a Secret of another user", pod(), corev1.Volume{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "key", DefaultUser: ptr(int64(7))}}}, false},
		{"a key of another user", pod(), corev1.Volume{VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{Items: []corev1.KeyToPath{{Key: "k", Path: "k", User: ptr(int64(7))}}}}}, false},
		{"a token of another user", pod(), corev1.Volume{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", User: ptr(int64(7))}},
		}}}}, false},
		{"an emptyDir", pod(), corev1.Volume{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}, false},
		{"a limit", pod(), corev1.Volume{VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "cpu", ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.cpu"}},
		}}}}, true},
	} {
		if got := Supported(c.pod, c.v); got != c.want {
			t.Errorf("%s is supported: %t", c.what, got)
		}
	}
}

func TestFilesAreReplacedAtOneMoment(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "volume")
	write := func(want bool, files ...File) {
		t.Helper()
		if changed, err := Write(dir, files); err != nil || changed != want {
			t.Fatalf("changed: %t, %v", changed, err)
		}
	}
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err.Error()
		}
		return string(b)
	}
	write(true, File{"a", 0o644, []byte("1")}, File{"below/b", 0o400, []byte("1")}, File{"empty", 0o644, nil})
	held, err := os.Open(filepath.Join(dir, current)) // what a container reads meanwhile
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	write(false, File{"a", 0o644, []byte("1")}, File{"below/b", 0o400, []byte("1")}, File{"empty", 0o644, nil})
	write(true, File{"a", 0o644, []byte("2")}, File{"c", 0o644, []byte("new")})
	if read("a") != "2" || read("c") != "new" {
		t.Errorf("a is %q and c is %q", read("a"), read("c"))
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) {
			names = append(names, e.Name())
		}
	}
	if strings.Join(names, " ") != "..data a c" || len(entries) != 4 {
		t.Errorf("the directory has %v", entries)
	}
	write(true, File{"a", 0o600, []byte("2")}, File{"c", 0o644, []byte("new")})
	if info, err := os.Stat(filepath.Join(dir, "a")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
