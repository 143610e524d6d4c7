package kubenode

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Reasons of rejections, as the kubelet gives them.
const (
	reasonUnexpected = "UnexpectedAdmissionError"
	reasonEvicted    = "Evicted"
)

// load is the state of the node that the admission of a Pod depends on.
type load struct {
	node string
	// room is the sum of resources for all Pods. A resource that is not in it is not bounded.
	room corev1.ResourceList
	// others are the Pods that have come before and have not ended.
	others []*corev1.Pod
	// pressures are the conditions of the node that are true, apart from Ready.
	pressures []corev1.NodeConditionType
}

// refusal returns why a node does not run a Pod; empty where it does (kubelet:
// lifecycle.generalFilter, eviction.managerImpl.Admit).
func (l load) refusal(pod *corev1.Pod) (reason, message string) {
	if node := pod.Spec.NodeName; node != l.node {
		return "NodeAffinity", fmt.Sprintf("the Pod is bound to the node %q, and this is %q", node, l.node)
	}
	if os := pod.Spec.OS; os != nil && os.Name != corev1.Linux {
		return "PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"
	}
	if names := l.pressed(pod); len(names) > 0 {
		return reasonEvicted, fmt.Sprintf("The node had condition: [%s]. ", strings.Join(names, ", "))
	}
	if name, message := l.short(pod); name != "" {
		return "OutOf" + name, message
	}
	for _, o := range l.others {
		if portsMeet(pod, o) {
			return "NodePorts", "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
		}
	}
	return "", ""
}

// short returns which resource there is too little of for the Pod; empty if there is enough.
func (l load) short(pod *corev1.Pod) (name, message string) {
	need, used := requests(pod), make(corev1.ResourceList)
	for _, o := range l.others {
		for name, q := range requests(o) {
			sum := used[name]
			sum.Add(q)
			used[name] = sum
		}
	}
	for _, name := range []corev1.ResourceName{corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory} {
		have, bounded := l.room[name]
		n, u, c := count(name, need[name]), count(name, used[name]), count(name, have)
		if bounded && n > 0 && u+n > c {
			return string(name), fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d", name, n, u, c)
		}
	}
	return "", ""
}

// count is an amount in the unit of a kubelet's messages: 1/1000 of a CPU, and bytes.
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

// pressed are the pressures that keep a Pod away: all of them, but a Pod with requests
// may come to a node that is short of memory only, and so may one that tolerates it.
func (l load) pressed(pod *corev1.Pod) (names []string) {
	if critical(pod) {
		return nil
	}
	for _, p := range l.pressures {
		names = append(names, string(p))
	}
	if len(l.pressures) != 1 || l.pressures[0] != corev1.NodeMemoryPressure {
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

// leastCritical is the least priority of Pods that the cluster itself needs
// (scheduling.SystemCriticalPriority).
const leastCritical = 2_000_000_000

func critical(pod *corev1.Pod) bool { return priority(pod) >= leastCritical }

func priority(pod *corev1.Pod) int32 {
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

// refuse returns why the node has no place for the Pod; empty where it has.
func (w *podWorker) refuse() (reason, message string) {
	pod := w.latest()
	if reason, message = (load{w.pods.Node, w.pods.Room(), earlier(w.pods, w), w.pods.Pressures()}).refusal(pod); reason != "" {
		return reason, message
	}
	if forbidden := forbiddenSysctl(pod, w.pods.Sysctls); forbidden != "" {
		return reasonSysctl, forbidden
	}
	refusal, ignored := unknownMembers(w.pods.Members.of(pod.UID))
	if refusal != "" {
		return reasonUnsupported, refusal
	}
	if len(ignored) > 0 {
		w.pods.Events.Event(pod, corev1.EventTypeWarning, reasonUnknownMembers, "The Pod runs without "+strings.Join(ignored, ", ")+", which podtask-kubelet does not know")
	}
	return "", ""
}

// earlier are the Pods that have come before one and have not ended: those that came later
// wait for their turn.
func earlier(p *Pods, k *podWorker) (out []*corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.all {
		switch {
		case o == k:
			return out
		case !o.report.ended():
			out = append(out, o.counted())
		}
	}
	return out
}
