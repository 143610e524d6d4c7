package podnames

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// ReasonNotServed is the reason of an event about a name of a Pod that leads nowhere.
const ReasonNotServed = "PodNameNotServed"

// NotServed returns a warning for a Pod with a name below a headless Service, as a StatefulSet gives it: Pods of
// other nodes do not find that name. It is empty for a Pod without such a name.
func NotServed(pod *corev1.Pod) string {
	if pod.Spec.Subdomain == "" {
		return ""
	}
	return fmt.Sprintf("Pods of other nodes do not find this one as %s.%s, only those of this node do: it has no Pod network and no cluster DNS. "+
		"Elsewhere use the address of the node and a hostPort", cmp.Or(pod.Spec.Hostname, pod.Name), pod.Spec.Subdomain)
}
