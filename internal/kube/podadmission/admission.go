// Package podadmission decides whether a node takes a Pod, as the kubelet does: by the node's room, its conditions, the
// ports of its host, and the sysctls that Pods may set.
package podadmission

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Evicted is the reason of Pods that a node rejects or ends because its host is short of something.
const Evicted = "Evicted"

const reasonSysctl = "SysctlForbidden" // as the kubelet gives it

// Load is the state of the node that the admission of a Pod depends on.
type Load struct {
	Node string
	// Room is the sum of resources for all Pods. A resource that is not in it is not bounded.
	Room corev1.ResourceList
	// Others are the Pods that have come before and have not ended.
	Others []*corev1.Pod
	// Pressures are the conditions of the node that are true, apart from Ready.
	Pressures []corev1.NodeConditionType
	// Sysctls are the unsafe sysctls that Pods may set, and patterns of them.
	Sysctls []string
}

// Refusal returns the reason and the message with which the node rejects a Pod; empty if it takes the Pod (kubelet:
// lifecycle.generalFilter, eviction.managerImpl.Admit).
func (l Load) Refusal(pod *corev1.Pod) (reason, message string) {
	if node := pod.Spec.NodeName; node != l.Node {
		return "NodeAffinity", fmt.Sprintf("the Pod is bound to the node %q, and this is %q", node, l.Node)
	}
	if os := pod.Spec.OS; os != nil && os.Name != corev1.Linux {
		return "PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"
	}
	if names := l.pressed(pod); len(names) > 0 {
		return Evicted, fmt.Sprintf("The node had condition: [%s]. ", strings.Join(names, ", "))
	}
	if name, message := l.Short(pod); name != "" {
		return "OutOf" + name, message
	}
	for _, o := range l.Others {
		if portsMeet(pod, o) {
			return "NodePorts", "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
		}
	}
	if forbidden := forbiddenSysctl(pod, l.Sysctls); forbidden != "" {
		return reasonSysctl, forbidden
	}
	return "", ""
}

// Short returns the resource of which there is too little for the Pod; empty if there is enough.
func (l Load) Short(pod *corev1.Pod) (name, message string) {
	need, used := requests(pod), make(corev1.ResourceList)
	for _, o := range l.Others {
		for name, q := range requests(o) {
			sum := used[name]
			sum.Add(q)
			used[name] = sum
		}
	}
	for _, name := range []corev1.ResourceName{corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory} {
		have, bounded := l.Room[name]
		n, u, c := count(name, need[name]), count(name, used[name]), count(name, have)
		if bounded && n > 0 && u+n > c {
			return string(name), fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d", name, n, u, c)
		}
	}
	return "", ""
}

// count returns an amount in the unit of a kubelet's messages: 1/1000 of a CPU, and bytes.
func count(name corev1.ResourceName, q resource.Quantity) int64 {
	if name == corev1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

// requests returns the resources that a Pod requests.
func requests(pod *corev1.Pod) corev1.ResourceList {
	out := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	out[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	return out
}

// pressed returns the conditions for which the node rejects a Pod: all of them, but a Pod with requests
// may come to a node that is short of memory only, and so may one that tolerates it.
func (l Load) pressed(pod *corev1.Pod) (names []string) {
	if Critical(pod) {
		return nil
	}
	for _, p := range l.Pressures {
		names = append(names, string(p))
	}
	if len(l.Pressures) != 1 || l.Pressures[0] != corev1.NodeMemoryPressure {
		return names
	}
	if !bestEffort(pod) {
		return nil
	}
	taint := corev1.Taint{Key: corev1.TaintNodeMemoryPressure, Effect: corev1.TaintEffectNoSchedule}
	for _, t := range pod.Spec.Tolerations {
		if tolerates(t, taint) {
			return nil
		}
	}
	return names
}

// tolerates implements the rule of the API for a taint without a value.
func tolerates(t corev1.Toleration, taint corev1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	return t.Operator == corev1.TolerationOpExists || t.Key != "" && t.Value == ""
}

// leastCritical is the lowest priority of Pods that the cluster itself needs
// (scheduling.SystemCriticalPriority).
const leastCritical = 2_000_000_000

// Critical reports whether the cluster itself needs the Pod.
func Critical(pod *corev1.Pod) bool { return Priority(pod) >= leastCritical }

// Priority returns the priority of a Pod, 0 by default.
func Priority(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// bestEffort reports whether a Pod has neither requests nor limits.
func bestEffort(pod *corev1.Pod) bool {
	if class := pod.Status.QOSClass; class != "" {
		return class == corev1.PodQOSBestEffort
	}
	options := resourcehelper.PodResourcesOptions{}
	for _, list := range []corev1.ResourceList{resourcehelper.PodRequests(pod, options), resourcehelper.PodLimits(pod, options)} {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if q := list[name]; !q.IsZero() {
				return false
			}
		}
	}
	return true
}

// hostPort is a port of the host.
type hostPort struct {
	number   int32
	protocol corev1.Protocol
	address  string
}

func hostPorts(pod *corev1.Pod) (out []hostPort) {
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			number := p.HostPort
			if number == 0 && pod.Spec.HostNetwork {
				number = p.ContainerPort
			}
			if number == 0 {
				continue
			}
			port := hostPort{number, p.Protocol, p.HostIP}
			if port.protocol == "" {
				port.protocol = corev1.ProtocolTCP
			}
			if port.address == "0.0.0.0" || port.address == "::" {
				port.address = ""
			}
			out = append(out, port)
		}
	}
	return out
}

// portsMeet reports whether two Pods want the same port of the host.
func portsMeet(a, b *corev1.Pod) bool {
	others := hostPorts(b)
	for _, p := range hostPorts(a) {
		for _, o := range others {
			if p.number == o.number && p.protocol == o.protocol && (p.address == "" || o.address == "" || p.address == o.address) {
				return true
			}
		}
	}
	return false
}
