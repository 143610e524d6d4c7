package podadmission

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podtask/podtask/internal/testing/kubetest"
)

// asking is a Pod with requests and limits of CPU and memory; empty: none.
func asking(cpu, memory, limit string) *corev1.Pod {
	p := kubetest.Pod("web", "u1")
	c := &p.Spec.Containers[0]
	set := func(l *corev1.ResourceList, name corev1.ResourceName, text string) {
		if text == "" {
			return
		}
		if *l == nil {
			*l = make(corev1.ResourceList)
		}
		(*l)[name] = resource.MustParse(text)
	}
	set(&c.Resources.Requests, corev1.ResourceCPU, cpu)
	set(&c.Resources.Requests, corev1.ResourceMemory, memory)
	set(&c.Resources.Limits, corev1.ResourceMemory, limit)
	return p
}

func onPort(p *corev1.Pod, number int32, address string) *corev1.Pod {
	p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, corev1.ContainerPort{ContainerPort: 80, HostPort: number, HostIP: address})
	return p
}

func TestRequestsCountAndLimitsDoNot(t *testing.T) {
	t.Parallel()
	room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("1Gi"), corev1.ResourcePods: resource.MustParse("3")}
	tolerant := asking("", "", "")
	tolerant.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	important := asking("", "", "")
	important.Spec.Priority = new(int32(leastCritical))
	windows := asking("", "", "")
	windows.Spec.OS = &corev1.PodOS{Name: corev1.Windows}
	memory, disk := corev1.NodeMemoryPressure, corev1.NodeDiskPressure
	for _, c := range []struct {
		what            string
		pod             *corev1.Pod
		others          []*corev1.Pod
		pressures       []corev1.NodeConditionType
		reason, message string
	}{
		{what: "it fits", pod: asking("500m", "512Mi", "64Gi"), others: []*corev1.Pod{asking("1500m", "512Mi", "64Gi")}},
		{what: "for another system", pod: windows, reason: "PodOSNotSupported", message: "Failed to admit pod as the OS field doesn't match node OS"},
		{what: "no CPU is left", pod: asking("501m", "", ""), others: []*corev1.Pod{asking("1500m", "", "")},
			reason: "OutOfcpu", message: "Node didn't have enough resource: cpu, requested: 501, used: 1500, capacity: 2000"},
		{what: "no memory is left", pod: asking("", "1Gi", ""), others: []*corev1.Pod{asking("", "1Mi", "")},
			reason: "OutOfmemory", message: "Node didn't have enough resource: memory, requested: 1073741824, used: 1048576, capacity: 1073741824"},
		{what: "too many Pods", pod: asking("", "", ""), others: []*corev1.Pod{asking("", "", ""), asking("", "", ""), asking("", "", "")},
			reason: "OutOfpods", message: "Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3"},
		{what: "the port is taken", pod: onPort(asking("", "", ""), 80, "192.0.2.1"), others: []*corev1.Pod{onPort(asking("", "", ""), 80, "0.0.0.0")},
			reason: "NodePorts", message: "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"},
		{what: "other ports", pod: onPort(asking("", "", ""), 80, "192.0.2.1"), others: []*corev1.Pod{onPort(onPort(asking("", "", ""), 80, "192.0.2.2"), 81, "")}},
		{what: "short of memory", pod: asking("", "", ""), pressures: []corev1.NodeConditionType{memory}, reason: "Evicted", message: "The node had condition: [MemoryPressure]. "},
		{what: "short of memory, with requests", pod: asking("1", "", ""), pressures: []corev1.NodeConditionType{memory}},
		{what: "short of memory, which it tolerates", pod: tolerant, pressures: []corev1.NodeConditionType{memory}},
		{what: "short of disk", pod: asking("1", "", ""), pressures: []corev1.NodeConditionType{disk}, reason: "Evicted", message: "The node had condition: [DiskPressure]. "},
		{what: "short of both", pod: tolerant, pressures: []corev1.NodeConditionType{memory, disk}, reason: "Evicted", message: "The node had condition: [MemoryPressure, DiskPressure]. "},
		{what: "short of disk, for the cluster", pod: important, pressures: []corev1.NodeConditionType{disk}},
	} {
		reason, message := Load{"edge", room, c.others, c.pressures, nil}.Refusal(c.pod)
		if reason != c.reason || message != c.message {
			t.Errorf("%s: %s, %q", c.what, reason, message)
		}
	}
}
