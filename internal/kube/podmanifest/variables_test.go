package podmanifest

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
