package kubenode

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podtask/podtask/internal/kube/kubepods"
	"github.com/podtask/podtask/internal/kube/pressure"
	"github.com/podtask/podtask/internal/sleep"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/cgroups"
)

// Identity is the name of a node and its addresses.
type Identity struct {
	Name string
	// Labels and Taints are set when the node registers; labels later, too.
	Labels map[string]string
	Taints []corev1.Taint
	// Address is the address under which hosts of the cluster reach this one; Port is the port of the endpoint for logs
	// and exec, 0 if there is none.
	Address netip.Addr
	Port    int32
	// Version is the version of podtask.
	Version string
	// Pods is the greatest number of Pods on the node.
	Pods int64
	// UserNamespace: root in a container is not root on the host.
	UserNamespace bool
}

// LabelUserNamespace is the label of a node whose containers run in a user namespace. The member
// runningInUserNamespace of Kubernetes 1.37 says the same, but selectors only know labels.
const LabelUserNamespace = "podtask/running-in-user-namespace"

// TaintNoNetwork is the taint of a node that registers with no others.
const TaintNoNetwork = "podtask/no-pod-network"

// Host reports the capacity of an agent; a kubepods.Socket is one.
type Host interface {
	Version(ctx context.Context) (api.Version, error)
	Budget(ctx context.Context) (api.Budget, error)
}

// node is the node object: the node.NodeProvider of Virtual Kubelet.
type node struct {
	identity Identity
	host     Host
	figures  func(stateDir string) pressure.Figures
	log      *slog.Logger
	every    time.Duration // between two measurements of the host
	pressure *pressures
	// noLimits returns why limits cannot be applied, with the fix; nil if nobody knows.
	noLimits func() string

	mu     sync.Mutex
	object *corev1.Node // as last made
	disk   string       // a directory of the disk that containers use; empty until an agent says
	ending bool         // the host shuts down

	notify   func(*corev1.Node) // reports to the API server; nil if nobody listens
	reported *corev1.Node       // as last reported; nil for not at all
	busy     bool               // notify is being called
}

// Ping implements node.NodeProvider. The node lives while this process does; what is
// wrong with the agent is in the condition Ready.
func (n *node) Ping(ctx context.Context) error { return ctx.Err() }

// NotifyNodeStatus implements node.NodeProvider.
func (n *node) NotifyNodeStatus(_ context.Context, notify func(*corev1.Node)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.notify, n.busy = notify, false
}

// room returns the sum of resources for all Pods.
func (n *node) room() corev1.ResourceList {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.object == nil {
		return nil
	}
	return n.object.Status.Allocatable
}

// pressures returns the conditions for which the node rejects Pods.
func (n *node) pressures() (out []corev1.NodeConditionType) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.object == nil {
		return nil
	}
	for _, c := range n.object.Status.Conditions {
		if c.Type != corev1.NodeReady && c.Type != ConditionNoLimits && c.Status == corev1.ConditionTrue {
			out = append(out, c.Type)
		}
	}
	return out
}

// run measures the host until ctx ends, reports changes and has Pods evicted.
func (n *node) run(ctx context.Context, evict func(context.Context, pressure.Shortage)) {
	for sleep.For(ctx, n.every) {
		n.update(ctx)
		if short := n.pressure.shortages(); len(short) > 0 {
			evict(ctx, short[0])
		}
	}
}

// update makes the object from the present state of the host and the agent, and returns it. A change is reported in the
// background: Virtual Kubelet takes one when the API server has taken the one before.
func (n *node) update(ctx context.Context) *corev1.Node {
	budget, version, err := n.ask(ctx)
	n.mu.Lock()
	defer n.mu.Unlock()
	if err == nil {
		n.disk = version.StateDir
	}
	n.object = n.make(budget, version, err, n.object)
	out := n.object.DeepCopy()
	if n.reported == nil {
		n.reported = out // the controller is made with it
	}
	if n.notify != nil && !n.busy && !equality.Semantic.DeepEqual(n.reported.Status, out.Status) {
		n.busy, n.reported = true, out
		go n.report(n.notify, out.DeepCopy())
	}
	return out.DeepCopy()
}

func (n *node) report(notify func(*corev1.Node), now *corev1.Node) {
	notify(now)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.busy = false
}

// answerWithin bounds a call of the agent.
const answerWithin = 5 * time.Second

func (n *node) ask(ctx context.Context) (b api.Budget, v api.Version, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	if v, err = n.host.Version(ctx); err != nil {
		return b, v, err
	}
	b, err = n.host.Budget(ctx)
	return b, v, err
}

// make returns the node object. Failed is the error of the agent, nil if it answered; after an error the resources of before
// are kept.
func (n *node) make(b api.Budget, v api.Version, failed error, before *corev1.Node) *corev1.Node {
	id := n.identity
	f := n.figures(n.disk)
	pressed := n.pressure.update(f)
	out := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: id.Name, Labels: map[string]string{
			corev1.LabelHostname: id.Name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: runtime.GOARCH,
			"type": "virtual-kubelet", corev1.LabelNodeExcludeBalancers: "true",
		}},
		Spec: corev1.NodeSpec{Taints: id.Taints},
		Status: corev1.NodeStatus{
			Capacity: corev1.ResourceList{
				corev1.ResourceCPU: *resource.NewQuantity(f.CPUs, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(f.Memory, resource.BinarySI),
				corev1.ResourceEphemeralStorage: *resource.NewQuantity(f.Disk, resource.BinarySI), corev1.ResourcePods: *resource.NewQuantity(id.Pods, resource.DecimalSI),
			},
			NodeInfo: corev1.NodeSystemInfo{
				KubeletVersion: kubepods.KubernetesVersion + "-podtask." + versionWord(id.Version), OperatingSystem: "linux", Architecture: runtime.GOARCH,
				KernelVersion: f.Kernel, OSImage: f.OS, MachineID: f.Machine, BootID: f.Boot, ContainerRuntimeVersion: "podtask://" + v.Version,
			},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: id.Port}},
			Addresses:       []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: id.Name}},
		},
	}
	if id.UserNamespace {
		out.Labels[LabelUserNamespace] = "true"
	}
	maps.Copy(out.Labels, id.Labels)
	if id.Address.IsValid() {
		out.Status.Addresses = append([]corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: id.Address.String()}}, out.Status.Addresses...)
	}
	out.Status.Allocatable = allocatable(out.Status.Capacity, b)
	if failed != nil && before != nil {
		out.Status.Allocatable, out.Status.NodeInfo.ContainerRuntimeVersion = before.Status.Allocatable, before.Status.NodeInfo.ContainerRuntimeVersion
	}
	var known []corev1.NodeCondition
	if before != nil {
		known = before.Status.Conditions
	}
	if n.ending {
		failed = errShutdown
	}
	now := conditions(pressed, b, failed)
	if n.noLimits != nil {
		now = append(now, limitsCondition(n.noLimits()))
	}
	out.Status.Conditions = withTimes(now, known, metav1.Now())
	return out
}

// allocatable returns the resources for Pods: those of the host, or the budget of the agent where it is smaller.
func allocatable(capacity corev1.ResourceList, b api.Budget) corev1.ResourceList {
	out := capacity.DeepCopy()
	if cpu := *resource.NewMilliQuantity(int64(b.CPU*1000), resource.DecimalSI); b.CPU > 0 && cpu.Cmp(out[corev1.ResourceCPU]) < 0 {
		out[corev1.ResourceCPU] = cpu
	}
	if memory := *resource.NewQuantity(b.Memory, resource.BinarySI); b.Memory > 0 && memory.Cmp(out[corev1.ResourceMemory]) < 0 {
		out[corev1.ResourceMemory] = memory
	}
	return out
}

// versionWord returns a version as a part of another one: other characters than letters, digits, dots and hyphens are replaced.
func versionWord(v string) string {
	out := []byte(v)
	for i, c := range out {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '.' && c != '-' {
			out[i] = '-'
		}
	}
	if len(out) == 0 {
		return "unknown"
	}
	return string(out)
}

// conditions returns the conditions of the kubelet, without times.
func conditions(pressed map[corev1.NodeConditionType]bool, b api.Budget, failed error) []corev1.NodeCondition {
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "podtask runs Pods"}
	switch {
	case errors.Is(failed, errShutdown):
		ready.Status, ready.Reason, ready.Message = corev1.ConditionFalse, "KubeletNotReady", failed.Error()
	case failed != nil:
		ready.Status, ready.Reason, ready.Message = corev1.ConditionFalse, "KubeletNotReady", "the podtask agent does not answer: "+failed.Error()
	case b.Draining:
		ready.Status, ready.Reason, ready.Message = corev1.ConditionFalse, "KubeletNotReady", "podtask is drained: `podtask drain --undo` ends that"
	}
	return []corev1.NodeCondition{
		ready,
		pressureOf(corev1.NodeMemoryPressure, pressed[corev1.NodeMemoryPressure], "KubeletHasInsufficientMemory", "KubeletHasSufficientMemory", "memory"),
		pressureOf(corev1.NodeDiskPressure, pressed[corev1.NodeDiskPressure], "KubeletHasDiskPressure", "KubeletHasNoDiskPressure", "disk space"),
		pressureOf(corev1.NodePIDPressure, pressed[corev1.NodePIDPressure], "KubeletHasInsufficientPID", "KubeletHasSufficientPID", "process IDs"),
	}
}

// ConditionNoLimits is the type of a condition of nodes: it is true if limits of Pods cannot be applied on its
// host. Without it, each Pod with a limit would have to say so.
const ConditionNoLimits corev1.NodeConditionType = "podtask/LimitsUnavailable"

// NoLimits returns why limits cannot be applied for the user on this host, with the fix; empty if they can.
func NoLimits(getenv func(string) string) string {
	return cgroups.Detect(os.DirFS("/"), os.Geteuid(), getenv).Reason
}

// limitsCondition says whether limits can be applied; why is empty if they can.
func limitsCondition(why string) corev1.NodeCondition {
	if why == "" {
		return corev1.NodeCondition{Type: ConditionNoLimits, Status: corev1.ConditionFalse, Reason: "CgroupsDelegated", Message: "limits of CPU, memory and processes are applied"}
	}
	return corev1.NodeCondition{Type: ConditionNoLimits, Status: corev1.ConditionTrue, Reason: "CgroupsNotDelegated",
		Message: "Pods with limits do not start, or run without them if podtask.toml has limits = \"best-effort\": " + why}
}

// withTimes gives conditions their times: that of a change is that of before where nothing has changed.
func withTimes(out, before []corev1.NodeCondition, now metav1.Time) []corev1.NodeCondition {
	same := len(before) == len(out)
	for i := range out {
		out[i].LastTransitionTime = now
		for _, o := range before {
			if o.Type != out[i].Type {
				continue
			}
			same = same && o.Status == out[i].Status && o.Reason == out[i].Reason && o.Message == out[i].Message
			if o.Status == out[i].Status {
				out[i].LastTransitionTime = o.LastTransitionTime
			}
		}
	}
	beat := now
	if same && now.Sub(before[0].LastHeartbeatTime.Time) < heartbeatEvery {
		beat = before[0].LastHeartbeatTime
	}
	for i := range out {
		out[i].LastHeartbeatTime = beat
	}
	return out
}

// heartbeatEvery is the interval in which unchanged conditions are reported (kubelet: nodeStatusReportFrequency). The
// lease of the node is renewed more often.
const heartbeatEvery = 5 * time.Minute

func pressureOf(kind corev1.NodeConditionType, short bool, yes, no, what string) corev1.NodeCondition {
	if short {
		return corev1.NodeCondition{Type: kind, Status: corev1.ConditionTrue, Reason: yes, Message: "the host is short of " + what}
	}
	return corev1.NodeCondition{Type: kind, Status: corev1.ConditionFalse, Reason: no, Message: "the host has enough " + what}
}

// pressures remembers the shortages of a host. A condition stays for a while after a shortage, so that it does not come
// and go (kubelet: eviction-pressure-transition-period).
type pressures struct {
	thresholds []pressure.Threshold
	now        func() time.Time

	mu    sync.Mutex
	short []pressure.Shortage
	last  map[corev1.NodeConditionType]time.Time
}

const pressureStays = 5 * time.Minute

func newPressures(thresholds []pressure.Threshold) *pressures {
	return &pressures{thresholds: thresholds, now: time.Now, last: make(map[corev1.NodeConditionType]time.Time)}
}

// update notes a measurement, and returns the conditions that are true.
func (p *pressures) update(f pressure.Figures) map[corev1.NodeConditionType]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.short = pressure.Shortages(f.Levels, p.thresholds)
	for _, s := range p.short {
		p.last[s.Signal.Condition()] = p.now()
	}
	out := make(map[corev1.NodeConditionType]bool)
	for kind, at := range p.last {
		out[kind] = p.now().Sub(at) < pressureStays
	}
	return out
}

// shortages returns the shortages of the latest measurement.
func (p *pressures) shortages() []pressure.Shortage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.short
}
