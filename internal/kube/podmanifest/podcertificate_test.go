package podmanifest

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"
	"testing"
	"time"

	certificates "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func webPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u1"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
	}
}

// A certificate is requested once, taken when it was issued, and replaced when the signer says so: until then
// the older one stays.
func TestCertificatesOfPodsAreReplacedInTime(t *testing.T) {
	t.Parallel()
	pod := webPod()
	pod.Spec.NodeName = "edge"
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "edge", UID: "n1"}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: "default", UID: "s1"}})
	o := NewObjects(client, func() corev1.ResourceList { return nil })
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	o.Now = func() time.Time { return now }
	want := corev1.PodCertificateProjection{SignerName: "x/s", KeyType: "ECDSAP256", KeyPath: "key.pem", UserAnnotations: map[string]string{"x/path": "/a"}}
	look := func() (key, chain []byte, err error) { return o.Reading(pod).Certificate(t.Context(), want) }
	requests := client.CertificatesV1().PodCertificateRequests(pod.Namespace)
	request := func(names int) *certificates.PodCertificateRequest {
		t.Helper()
		list, err := requests.List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != names {
			t.Fatalf("%d requests (%v), want %d", len(list.Items), err, names)
		}
		return &list.Items[0]
	}
	answer := func(p *certificates.PodCertificateRequest, condition, chain string) {
		t.Helper()
		p.Status = certificates.PodCertificateRequestStatus{
			Conditions: []metav1.Condition{{Type: condition, Status: metav1.ConditionTrue, Reason: "Why", Message: "so"}}, CertificateChain: chain, BeginRefreshAt: &metav1.Time{Time: now.Add(time.Hour)},
		}
		if _, err := requests.UpdateStatus(t.Context(), p, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if _, _, err := look(); !errors.Is(err, errNotIssued) {
			t.Fatalf("before it is issued: %v", err)
		}
	}
	first := request(1)
	proof, err := x509.ParseCertificateRequest(first.Spec.StubPKCS10Request)
	if err != nil || proof.CheckSignature() != nil || first.Spec.PodUID != "u1" || first.Spec.NodeUID != "n1" || first.Spec.ServiceAccountUID != "s1" || first.Spec.UnverifiedUserAnnotations["x/path"] != "/a" {
		t.Errorf("requested %+v (%v)", first.Spec, err)
	}
	answer(first, certificates.PodCertificateRequestConditionTypeIssued, "chain 1")
	key, chain, err := look()
	if block, _ := pem.Decode(key); err != nil || string(chain) != "chain 1" || block == nil || block.Type != "PRIVATE KEY" {
		t.Fatalf("%s (%v)", chain, err)
	}
	now = now.Add(59 * time.Minute)
	if again, _, err := look(); err != nil || string(again) != string(key) {
		t.Errorf("there is another key before its time (%v)", err)
	}

	if err := requests.Delete(t.Context(), first.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Minute)
	if again, chain, err := look(); err != nil || string(again) != string(key) || string(chain) != "chain 1" {
		t.Errorf("until there is another, there is %s (%v)", chain, err)
	}
	answer(request(1), certificates.PodCertificateRequestConditionTypeIssued, "chain 2")
	if other, chain, err := look(); err != nil || string(other) == string(key) || string(chain) != "chain 2" {
		t.Errorf("then there is %s (%v)", chain, err)
	}
}

func TestACertificateThatIsDenied(t *testing.T) {
	t.Parallel()
	pod := webPod()
	pod.Spec.NodeName = "edge"
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "edge"}}, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: "default"}})
	o := NewObjects(client, func() corev1.ResourceList { return nil })
	want := corev1.PodCertificateProjection{SignerName: "x/s", KeyType: "ED25519"}
	_, _, _ = o.Reading(pod).Certificate(t.Context(), want)
	requests := client.CertificatesV1().PodCertificateRequests(pod.Namespace)
	list, err := requests.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%+v (%v)", list, err)
	}
	p := list.Items[0]
	p.Status.Conditions = []metav1.Condition{{Type: certificates.PodCertificateRequestConditionTypeDenied, Status: metav1.ConditionTrue, Reason: "Policy", Message: "not this one"}}
	if _, err := requests.UpdateStatus(t.Context(), &p, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err = o.Reading(pod).Certificate(t.Context(), want); err == nil || !strings.Contains(err.Error(), "x/s has not issued the certificate: Denied, Policy: not this one") {
		t.Error(err)
	}
	if err := requests.Delete(t.Context(), p.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err = o.Reading(pod).Certificate(t.Context(), want); err == nil || !strings.Contains(err.Error(), "another one is made") {
		t.Error(err)
	}
	for _, kind := range []string{"RSA3072", "ECDSAP384", "ECDSAP521"} {
		if key, err := newKey(kind); err != nil || key == nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if _, err := newKey("DSA"); err == nil || !strings.Contains(err.Error(), `"DSA"`) {
		t.Error(err)
	}
}
