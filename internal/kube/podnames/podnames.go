// Package podnames computes the names under which the Pods of a node reach each other: those of Services with Pods on the
// node. docs/dev/services-of-a-node.md says why these.
package podnames

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podtask/podtask/pkg/api"
)

// Pod is a Pod of the node as the target of connections.
type Pod struct {
	*corev1.Pod
	Task  string // empty while there is none
	Ready bool
}

// Each port of a name is a listener of the agent for each Pod of the namespace. These limits keep the Services of one namespace from
// using up the agent's memory, or the names of others.
const (
	mostListeners = 10_000 // of all Pods of the node
	mostPorts     = 200    // of the names in a namespace
	mostForeign   = 20     // of those that belong to the Services of one other namespace
)

// Of returns the names of the Services that have Pods on the node, for the namespaces of the node's Pods. Those of a namespace's own
// Services come first. Complete is false if a limit leaves some out.
func Of(services []*corev1.Service, pods []Pod) (all api.NodeNames, complete bool) {
	var namespaces []string
	for _, p := range pods {
		if !slices.Contains(namespaces, p.Namespace) {
			namespaces = append(namespaces, p.Namespace)
		}
	}
	slices.Sort(namespaces)
	complete = true
	for _, namespace := range namespaces {
		room := min(mostPorts, mostListeners/len(pods))
		foreign := make(map[string]int)
		add := func(s *corev1.Service) {
			for _, name := range ofService(s, pods, namespace) {
				n := len(name.Ports)
				if n > room || s.Namespace != namespace && foreign[s.Namespace]+n > mostForeign {
					complete = false
					continue
				}
				room -= n
				foreign[s.Namespace] += n
				all.Names = append(all.Names, name)
			}
		}
		for _, own := range []bool{true, false} {
			for _, s := range services {
				if (s.Namespace == namespace) == own {
					add(s)
				}
			}
		}
	}
	return all, complete
}

// ofService returns the names of a Service, and of the Pods behind a headless one, for Pods of a namespace.
func ofService(s *corev1.Service, pods []Pod, from string) (all []api.NodeName) {
	if len(s.Spec.Selector) == 0 || s.Spec.Type == corev1.ServiceTypeExternalName || s.Namespace == metav1.NamespaceDefault && s.Name == "kubernetes" {
		return nil
	}
	var behind []Pod
	for _, p := range pods {
		if p.Namespace == s.Namespace && labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(p.Labels)) {
			behind = append(behind, p)
		}
	}
	if ports := portsOf(s, behind); len(behind) > 0 && len(ports) > 0 {
		all = append(all, api.NodeName{Namespace: from, Hosts: hostsOf(s.Name, s.Namespace, from), Ports: ports})
	}
	return append(all, ownNames(s, behind, from)...)
}

// hostsOf returns the names of a Service, or of HOST.SERVICE, in a namespace as Pods of another one or the same one know it.
func hostsOf(name, namespace, from string) (hosts []string) {
	if namespace == from {
		hosts = append(hosts, name)
	}
	name += "." + namespace
	return append(hosts, name, name+".svc", name+".svc.cluster.local")
}

// ownNames returns the names of the Pods behind a headless Service that have a hostname in it, as those of a StatefulSet.
func ownNames(s *corev1.Service, behind []Pod, from string) (all []api.NodeName) {
	for _, p := range behind {
		if s.Spec.ClusterIP != corev1.ClusterIPNone || p.Spec.Subdomain != s.Name || p.Spec.Hostname == "" {
			continue
		}
		if ports := portsOf(s, []Pod{p}); len(ports) > 0 {
			all = append(all, api.NodeName{Namespace: from, Hosts: hostsOf(p.Spec.Hostname+"."+s.Name, s.Namespace, from), Ports: ports})
		}
	}
	return all
}

// portsOf returns the TCP ports of a Service. Clients of a headless one connect to the ports of its Pods.
func portsOf(s *corev1.Service, behind []Pod) (ports []api.NodePort) {
	for _, p := range s.Spec.Ports {
		if p.Protocol != corev1.ProtocolTCP && p.Protocol != "" {
			continue
		}
		open := api.NodePort{Port: uint16(p.Port)}
		for _, e := range behind {
			port := targetPort(p, e.Pod)
			if port == 0 {
				continue
			}
			if s.Spec.ClusterIP == corev1.ClusterIPNone {
				open.Port = port
			}
			if e.Task != "" && (e.Ready || s.Spec.PublishNotReadyAddresses) && e.DeletionTimestamp == nil {
				open.Targets = append(open.Targets, api.NodeTarget{Task: e.Task, Port: port})
			}
		}
		if !slices.ContainsFunc(ports, func(o api.NodePort) bool { return o.Port == open.Port }) {
			ports = append(ports, open)
		}
	}
	return ports
}

// targetPort returns the port of a Pod that a port of a Service leads to; 0 if no container has one of that name.
func targetPort(p corev1.ServicePort, pod *corev1.Pod) uint16 {
	switch {
	case p.TargetPort.Type == intstr.String:
		for _, c := range pod.Spec.Containers {
			for _, port := range c.Ports {
				if port.Name == p.TargetPort.StrVal && (port.Protocol == corev1.ProtocolTCP || port.Protocol == "") {
					return uint16(port.ContainerPort)
				}
			}
		}
		return 0
	case p.TargetPort.IntVal > 0 && p.TargetPort.IntVal < 1<<16:
		return uint16(p.TargetPort.IntVal)
	}
	return uint16(p.Port)
}
