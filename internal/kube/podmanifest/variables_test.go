package podmanifest

import (
	"context"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/podtask/podtask/internal/testing/kubetest"
)

func TestVariablesOfServices(t *testing.T) {
	t.Parallel()
	port := corev1.ServicePort{Port: 80}
	got := serviceVariables([]*corev1.Service{
		aService("default", "my-db", "10.0.0.5", corev1.ServicePort{Name: "sql", Port: 5432}, corev1.ServicePort{Name: "status-udp", Port: 53, Protocol: corev1.ProtocolUDP}),
		aService("default", "headless", corev1.ClusterIPNone, port), aService("default", "external", "", port), aService("default", "kubernetes", "10.0.0.1", port),
	})
	want := map[string]string{
		"MY_DB_SERVICE_HOST": "10.0.0.5", "MY_DB_SERVICE_PORT": "5432", "MY_DB_SERVICE_PORT_SQL": "5432", "MY_DB_SERVICE_PORT_STATUS_UDP": "53",
		"MY_DB_PORT": "tcp://10.0.0.5:5432", "MY_DB_PORT_5432_TCP": "tcp://10.0.0.5:5432", "MY_DB_PORT_5432_TCP_PROTO": "tcp",
		"MY_DB_PORT_5432_TCP_PORT": "5432", "MY_DB_PORT_5432_TCP_ADDR": "10.0.0.5", "MY_DB_PORT_53_UDP": "udp://10.0.0.5:53",
		"MY_DB_PORT_53_UDP_PROTO": "udp", "MY_DB_PORT_53_UDP_PORT": "53", "MY_DB_PORT_53_UDP_ADDR": "10.0.0.5",
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

func aService(namespace, name, address string, ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.ServiceSpec{ClusterIP: address, Ports: ports}}
}

func TestServicesAreWatched(t *testing.T) {
	t.Parallel()
	s := NewServices(fake.NewClientset(aService("a", "two", "10.0.0.2"), aService("a", "one", "10.0.0.1"), aService("b", "other", "10.0.0.3")))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Of(ended, "a"); err == nil {
		t.Error("Services that nobody has read are known")
	}
	s.Factory.Start(t.Context().Done())
	got, err := s.Of(t.Context(), "a")
	if err != nil || len(got) != 2 || got[0].Name != "one" {
		t.Errorf("%v, %v", got, err)
	}
}

// Containers and the status of the Pod have the same address of the host.
func TestContainersAreToldTheAddressOfTheNode(t *testing.T) {
	t.Parallel()
	pod := kubetest.Pod("web", "u1")
	for _, path := range []string{"status.hostIP", "status.hostIPs", "status.podIP"} {
		pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, corev1.EnvVar{Name: path, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}})
	}
	got := Manifests{Node: "edge", Address: "192.0.2.7"}.Adapted(pod).Spec.Containers[0].Env
	if got[0].Value != "192.0.2.7" || got[1].Value != "192.0.2.7" || got[2].ValueFrom == nil {
		t.Errorf("%+v", got)
	}
}
