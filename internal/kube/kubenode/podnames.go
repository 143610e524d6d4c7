package kubenode

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podtask/podtask/pkg/api"
)

// podNames tells the agent by which names the Pods of the node reach each other: those of Services of which a Pod is
// on the node.
type podNames struct {
	pods    *Pods
	changed chan struct{} // has room for one

	mu   sync.Mutex
	sent []byte // what the agent has; nil if that is not known
}

// wake has the names computed again.
func (n *podNames) wake() {
	select {
	case n.changed <- struct{}{}:
	default: // they will be
	}
}

// run keeps the agent informed until ctx ends.
func (n *podNames) run(ctx context.Context) {
	for {
		select {
		case <-n.changed:
		case <-ctx.Done():
			return
		}
		for pause := n.pods.Pace.Steady; !n.tell(ctx); pause = min(2*pause, n.pods.Pace.Most) {
			if !sleep(ctx, pause) {
				return
			}
		}
	}
}

// tell tells the agent the names as they are now, if it does not know them; false to try again.
func (n *podNames) tell(ctx context.Context) bool {
	if n.pods.Services == nil {
		return true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	all, err := n.pods.Services(ctx, metav1.NamespaceAll)
	if err != nil {
		n.pods.Log.Debug("the names of Services are not known", "error", err)
		return false
	}
	names, complete := namesOf(all, n.pods.ends())
	text, err := json.Marshal(names)
	if err != nil || bytes.Equal(text, n.sent) {
		return true
	}
	switch err := n.pods.Agent.SetNames(ctx, n.pods.Node, names); {
	case failedWith(err, api.NotFound), failedWith(err, api.Unsupported), failedWith(err, api.BadRequest):
		n.pods.Log.Warn("the agent does not take the names of Services: Pods do not reach them", "error", err)
	case err != nil:
		n.pods.Log.Debug("the agent does not know the names of Services yet", "error", err)
		return false
	}
	if !complete {
		n.pods.Log.Warn("Pods do not reach all Services by name: there are more ports than listeners on this node")
	}
	n.sent = text
	return true
}

// podEnd is a Pod of the node as the target of connections.
type podEnd struct {
	pod   *corev1.Pod
	task  string // empty while there is none
	ready bool
}

// ends are the Pods of the node that have not ended.
func (p *Pods) ends() (out []podEnd) {
	p.mu.Lock()
	all := slices.Clone(p.all)
	p.mu.Unlock()
	for _, w := range all {
		if !w.report.ended() && w.ctx.Err() == nil {
			out = append(out, podEnd{w.latest(), w.taskID(), w.report.ready()})
		}
	}
	return out
}

// Each port of a name is a listener of the agent for each Pod of the namespace. These limits keep the Services of one namespace from
// using up the agent's memory, or the names of others.
const (
	mostListeners = 10_000 // of all Pods of the node
	mostPorts     = 200    // of the names in a namespace
	mostForeign   = 20     // of those that belong to the Services of one other namespace
)

// namesOf are the names of the Services that have Pods on the node, for the namespaces of the node's Pods. Those of a namespace's own
// Services come first. Complete is false if a limit leaves some out.
func namesOf(services []*corev1.Service, ends []podEnd) (all api.NodeNames, complete bool) {
	var namespaces []string
	for _, e := range ends {
		if !slices.Contains(namespaces, e.pod.Namespace) {
			namespaces = append(namespaces, e.pod.Namespace)
		}
	}
	slices.Sort(namespaces)
	complete = true
	for _, namespace := range namespaces {
		room := min(mostPorts, mostListeners/len(ends))
		foreign := make(map[string]int)
		add := func(s *corev1.Service) {
			for _, name := range namesOfService(s, ends, namespace) {
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

// namesOfService are the names of a Service, and of the Pods behind a headless one, for Pods of a namespace.
func namesOfService(s *corev1.Service, ends []podEnd, from string) (all []api.NodeName) {
	if len(s.Spec.Selector) == 0 || s.Spec.Type == corev1.ServiceTypeExternalName || s.Namespace == metav1.NamespaceDefault && s.Name == "kubernetes" {
		return nil
	}
	var behind []podEnd
	for _, e := range ends {
		if e.pod.Namespace == s.Namespace && labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(e.pod.Labels)) {
			behind = append(behind, e)
		}
	}
	if ports := portsOf(s, behind); len(behind) > 0 && len(ports) > 0 {
		all = append(all, api.NodeName{Namespace: from, Hosts: hostsOf(s.Name, s.Namespace, from), Ports: ports})
	}
	return append(all, ownNames(s, behind, from)...)
}

// hostsOf are the names of a Service, or of HOST.SERVICE, in a namespace as Pods of another one or the same one know it.
func hostsOf(name, namespace, from string) (hosts []string) {
	if namespace == from {
		hosts = append(hosts, name)
	}
	name += "." + namespace
	return append(hosts, name, name+".svc", name+".svc.cluster.local")
}

// ownNames are the names of the Pods behind a headless Service that have a hostname in it, as those of a StatefulSet.
func ownNames(s *corev1.Service, behind []podEnd, from string) (all []api.NodeName) {
	for _, e := range behind {
		if s.Spec.ClusterIP != corev1.ClusterIPNone || e.pod.Spec.Subdomain != s.Name || e.pod.Spec.Hostname == "" {
			continue
		}
		if ports := portsOf(s, []podEnd{e}); len(ports) > 0 {
			all = append(all, api.NodeName{Namespace: from, Hosts: hostsOf(e.pod.Spec.Hostname+"."+s.Name, s.Namespace, from), Ports: ports})
		}
	}
	return all
}

// portsOf are the TCP ports of a Service. Clients of a headless one connect to the ports of its Pods.
func portsOf(s *corev1.Service, behind []podEnd) (ports []api.NodePort) {
	for _, p := range s.Spec.Ports {
		if p.Protocol != corev1.ProtocolTCP && p.Protocol != "" {
			continue
		}
		open := api.NodePort{Port: uint16(p.Port)}
		for _, e := range behind {
			port := targetPort(p, e.pod)
			if port == 0 {
				continue
			}
			if s.Spec.ClusterIP == corev1.ClusterIPNone {
				open.Port = port
			}
			if e.task != "" && (e.ready || s.Spec.PublishNotReadyAddresses) && e.pod.DeletionTimestamp == nil {
				open.Targets = append(open.Targets, api.NodeTarget{Task: e.task, Port: port})
			}
		}
		if !slices.ContainsFunc(ports, func(o api.NodePort) bool { return o.Port == open.Port }) {
			ports = append(ports, open)
		}
	}
	return ports
}

// targetPort is the port of a Pod that a port of a Service leads to; 0 if no container has one of that name.
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
