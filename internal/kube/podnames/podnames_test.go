package podnames

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podtask/podtask/pkg/api"
)

// behind is a Pod with the label app.
func behind(namespace, name, app string, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": app}}}
	p.Spec.Containers = []corev1.Container{{Name: "app", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}}}
	if change != nil {
		change(p)
	}
	return p
}

func selecting(s *corev1.Service, app string) *corev1.Service {
	s.Spec.Selector = map[string]string{"app": app}
	return s
}

// summary has a line for each name: NAMESPACE: HOSTS PORT->TASK:PORT,...
func summary(n api.NodeNames) (lines []string) {
	for _, name := range n.Names {
		line := name.Namespace + ": " + strings.Join(name.Hosts, ",")
		for _, p := range name.Ports {
			var to []string
			for _, t := range p.Targets {
				to = append(to, fmt.Sprintf("%s:%d", t.Task, t.Port))
			}
			line += fmt.Sprintf(" %d->%s", p.Port, strings.Join(to, ","))
		}
		lines = append(lines, line)
	}
	return lines
}

func TestNamesOfServicesWithPodsOnTheNode(t *testing.T) {
	t.Parallel()
	named, udp := corev1.ServicePort{Port: 80, TargetPort: intstr.FromString("http")}, corev1.ServicePort{Port: 53, Protocol: corev1.ProtocolUDP}
	external := service("shop", "away", "", named)
	external.Spec.Type = corev1.ServiceTypeExternalName
	early := selecting(service("shop", "early", "10.0.0.9", named), "slow")
	early.Spec.PublishNotReadyAddresses = true
	services := []*corev1.Service{
		selecting(service("default", "kubernetes", "10.0.0.1", named), "web"),
		selecting(external, "web"),
		selecting(service("shop", "dns", "10.0.0.2", udp), "web"),
		early,
		selecting(service("shop", "elsewhere", "10.0.0.3", named), "other"),
		service("shop", "manual", "10.0.0.4", named),
		selecting(service("shop", "slow", "10.0.0.5", named), "slow"),
		selecting(service("shop", "web", "10.0.0.6", named, udp, corev1.ServicePort{Port: 443, TargetPort: intstr.FromInt32(8443)}, corev1.ServicePort{Port: 9, TargetPort: intstr.FromString("none")}), "web"),
	}
	ends := []Pod{
		{behind("shop", "web-a", "web", nil), "t1", true},
		{behind("shop", "web-b", "web", nil), "t2", true},
		{behind("shop", "web-ends", "web", func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Time) }), "t3", true},
		{behind("shop", "slow", "slow", nil), "t4", false},
		{behind("shop", "no-task", "web", nil), "", true},
		{behind("tools", "web", "web", nil), "t5", true},
	}
	want := []string{
		"shop: early,early.shop,early.shop.svc,early.shop.svc.cluster.local 80->t4:8080",
		"shop: slow,slow.shop,slow.shop.svc,slow.shop.svc.cluster.local 80->",
		"shop: web,web.shop,web.shop.svc,web.shop.svc.cluster.local 80->t1:8080,t2:8080 443->t1:8443,t2:8443 9->",
		"tools: early.shop,early.shop.svc,early.shop.svc.cluster.local 80->t4:8080",
		"tools: slow.shop,slow.shop.svc,slow.shop.svc.cluster.local 80->",
		"tools: web.shop,web.shop.svc,web.shop.svc.cluster.local 80->t1:8080,t2:8080 443->t1:8443,t2:8443 9->",
	}
	got, complete := Of(services, ends)
	if diff := cmp.Diff(want, summary(got)); diff != "" || !complete {
		t.Error(complete, diff)
	}
}

// The Services of one namespace use up neither the agent's listeners nor the names of another namespace.
func TestNamesAreBounded(t *testing.T) {
	t.Parallel()
	var ports []corev1.ServicePort
	for i := range 15 {
		ports = append(ports, corev1.ServicePort{Port: int32(1000 + i)})
	}
	var services []*corev1.Service
	for i := range 300 {
		services = append(services, selecting(service("greedy", fmt.Sprintf("s%d", i), "10.0.0.1", ports...), "web"))
	}
	services = append(services, selecting(service("shop", "web", "10.0.0.2", ports...), "web"))
	got, complete := Of(services, []Pod{{behind("greedy", "a", "web", nil), "t1", true}, {behind("shop", "b", "web", nil), "t2", true}})
	count := make(map[string]int)
	for _, n := range got.Names {
		count[n.Namespace+" "+n.Hosts[len(n.Hosts)-1][strings.Index(n.Hosts[len(n.Hosts)-1], ".")+1:]] += len(n.Ports)
	}
	want := map[string]int{"greedy greedy.svc.cluster.local": 195, "shop shop.svc.cluster.local": 15, "shop greedy.svc.cluster.local": 15}
	if diff := cmp.Diff(want, count); diff != "" || complete {
		t.Error(complete, diff)
	}
}

// Clients of a headless Service connect to the ports of its Pods, and each Pod of a StatefulSet has a name.
func TestNamesOfAHeadlessService(t *testing.T) {
	t.Parallel()
	db := selecting(service("shop", "db", corev1.ClusterIPNone, corev1.ServicePort{Port: 5432, TargetPort: intstr.FromString("http")}), "db")
	of := func(i int) *corev1.Pod {
		return behind("shop", fmt.Sprintf("db-%d", i), "db", func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = p.Name, "db" })
	}
	names, _ := Of([]*corev1.Service{db}, []Pod{{of(0), "t0", true}, {of(1), "t1", false}})
	got := summary(names)
	want := []string{
		"shop: db,db.shop,db.shop.svc,db.shop.svc.cluster.local 8080->t0:8080",
		"shop: db-0.db,db-0.db.shop,db-0.db.shop.svc,db-0.db.shop.svc.cluster.local 8080->t0:8080",
		"shop: db-1.db,db-1.db.shop,db-1.db.shop.svc,db-1.db.shop.svc.cluster.local 8080->",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func service(namespace, name, address string, ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.ServiceSpec{ClusterIP: address, Ports: ports}}
}
