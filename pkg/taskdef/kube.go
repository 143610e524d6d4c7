package taskdef

import (
	"slices"
	"strings"
)

// Kube holds the settings of a container that only a Kubernetes Pod has. Of a task definition only stopSignal of
// x-podtask sets one.
type Kube struct {
	// Groups are supplementary groups of the processes, besides those that their user has
	// in the image.
	Groups []int64 `json:"groups,omitempty"`
	// Group is the primary group of the image's user; nil for that of the image. User is
	// empty then.
	Group *int64 `json:"group,omitempty"`
	// NonRoot: the container is not made unless the image's user is known not to be root.
	NonRoot bool `json:"nonRoot,omitempty"`
	// SeccompUnconfined: no system call is filtered.
	SeccompUnconfined bool `json:"seccompUnconfined,omitempty"`
	// Unmasked: nothing of /proc and /sys is hidden or read-only.
	Unmasked bool `json:"unmasked,omitempty"`
	// Pull selects when the image is pulled, for runs that choose nothing: always, prefer-cached or never; empty for the
	// task's way.
	Pull string `json:"pull,omitempty"`
	// StopSignal is the name of the signal that asks the container to stop, as in
	// SIGTERM; empty for that of the image.
	StopSignal string `json:"stopSignal,omitempty"`
	// Images are the file systems of images, mounted read-only.
	Images []ImageMount `json:"images,omitempty"`
	// MessagePath is the absolute path of the file in which the container leaves its
	// termination message; empty for none.
	MessagePath string `json:"messagePath,omitempty"`
	// HostsFile: the container has the /etc/hosts that a node of Kubernetes gives.
	HostsFile bool `json:"hostsFile,omitempty"`
	// OOMScoreAdj is the oom_score_adj of the processes, -997 to 1000, as a kubelet sets it by the class of the Pod. A user
	// without root has only values above that of his session. 0 leaves it to Podman.
	OOMScoreAdj int `json:"oomScoreAdj,omitempty"`
	// MessageFromLog: after a failure without a message the end of the log is the message.
	MessageFromLog bool `json:"messageFromLog,omitempty"`
}

// ImageMount is the file system of an image at a path of a container.
type ImageMount struct {
	Image string `json:"image"`         // as the user wrote it
	Path  string `json:"containerPath"` // absolute
	// SubPath is a directory of the image; empty for all of it.
	SubPath string `json:"subPath,omitempty"`
	// Pull is as for the image of a container.
	Pull string `json:"pull,omitempty"`
}

// PodIP and PodIPs stand for the address and the addresses (with commas) of the task's
// network in values of the environment, in EntryPoint and in Command: they are known when
// the network is there. No text holds their first and last character (Unicode
// noncharacters).
const (
	PodIP  = "\ufdd0status.podIP\ufdd1"
	PodIPs = "\ufdd0status.podIPs\ufdd1"
)

// NeedsAddress reports whether the container can only be created when the addresses of the
// task's network are known.
func (c Container) NeedsAddress() bool {
	refers := func(v string) bool { return strings.Contains(v, PodIP) || strings.Contains(v, PodIPs) }
	if slices.ContainsFunc(c.Environment, func(v EnvVar) bool { return refers(v.Value) }) {
		return true
	}
	return slices.ContainsFunc(c.EntryPoint, refers) || slices.ContainsFunc(c.Command, refers)
}

// Labels of the containers of a Pod, as the kubelet gives them.
const (
	LabelPodNamespace = "io.kubernetes.pod.namespace"
	LabelPodName      = "io.kubernetes.pod.name"
	LabelPodUID       = "io.kubernetes.pod.uid"
)

// AnnotationNode is the annotation of the Pods that a node of Kubernetes gives the agent: the name of the
// node.
const AnnotationNode = "podtask/node"

// PodRef identifies a Kubernetes Pod.
type PodRef struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
}

// String returns NAMESPACE/NAME.
func (p PodRef) String() string { return p.Namespace + "/" + p.Name }

// Fits reports whether ref is the Pod's name, NAMESPACE/NAME or UID.
func (p PodRef) Fits(ref string) bool {
	return p.Name != "" && (ref == p.Name || ref == p.String()) || p.UID != "" && ref == p.UID
}

// PodRefOf returns the Pod that a task was made from; zero for a task that was made from
// another definition.
func PodRefOf(t Task) PodRef {
	if len(t.Extensions.Pod) == 0 || len(t.Containers) == 0 {
		return PodRef{}
	}
	labels := t.Containers[0].Labels
	return PodRef{Namespace: labels[LabelPodNamespace], Name: labels[LabelPodName], UID: labels[LabelPodUID]}
}
