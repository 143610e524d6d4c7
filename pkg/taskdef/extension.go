package taskdef

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/images/imageage"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// extensionMember holds what podtask has beyond the ECS model. ECS itself
// refuses members that it does not know, so a definition for both leaves it out.
const extensionMember = "x-podtask"

// TaskExtensions are the task's own members of x-podtask.
type TaskExtensions struct {
	// StopWhenUnhealthy: the task stops when an essential container becomes
	// UNHEALTHY. ECS leaves that to the service scheduler.
	StopWhenUnhealthy bool `json:"stopWhenUnhealthy,omitempty"`
	// WatchDependencies: the task stops when, after the start of an essential
	// container, a HEALTHY dependency of it turns unhealthy or a START or HEALTHY
	// dependency ends. One that is being restarted has not ended.
	WatchDependencies bool `json:"watchDependencies,omitempty"`
	// Network is the program of the host that connects the task, NetworkPasta or
	// NetworkSlirp4netns, or NetworkShared for Podman's choice: the containers of such
	// a task share one network namespace. Any other word is the name of a network of
	// Podman's, which the task joins: see Joined. Empty: as the network mode has it.
	Network string `json:"network,omitempty"`
	// Pull is the pull behavior of the task for runs that choose none: always,
	// prefer-cached or never; empty for the default. Tasks made by earlier versions from
	// a Kubernetes manifest have it; now each container has its own.
	Pull string `json:"pull,omitempty"`
	// Pod is the part of the manifest that package pod keeps; nil for others.
	Pod json.RawMessage `json:"pod,omitempty"`
	// UntilLast: the task runs until the last of its essential containers that has
	// started ends, and not until the first does.
	UntilLast bool `json:"untilLast,omitempty"`
	// FailAtOnce, with UntilLast: an essential container that failed and is not started again ends the task.
	FailAtOnce bool `json:"failAtOnce,omitempty"`
	// Deadline limits the time that the task may run, counted from when it got its share of the
	// host; 0 means for ever. It is x-podtask.timeout, and at most MaxDeadline there.
	Deadline time.Duration `json:"deadline,omitempty"`
	// MinimumAge is the time for which the host must have known an image before the task follows a tag to it, as
	// imageage.ParseAge reads it; empty for that of the host.
	MinimumAge string `json:"minimumAge,omitempty"`
	// Namespace has the names by which the task reaches services; empty for none.
	Namespace string `json:"namespace,omitempty"`
	// Ingress are the public addresses of a service with this task.
	Ingress []Ingress `json:"ingress,omitempty"`
	// SleepAfter is the time without a connection after which the copies of a service with this task stop; 0 for never.
	SleepAfter time.Duration `json:"sleepAfter,omitempty"`
	// Requests is the share of the host that the task reserves, where that is not its limits.
	Requests *Requests `json:"requests,omitempty"`
}

// MaxDeadline is the longest time limit of a task that a definition or an adjustment may set.
const MaxDeadline = 365 * 24 * time.Hour

// MaxSleepAfter is the longest time without a connection after which a service may sleep.
const MaxSleepAfter = 30 * 24 * time.Hour

// Requests are amounts that a task reserves: cpu in units of the ECS model, and bytes.
type Requests struct {
	CPU    int64 `json:"cpu"`
	Memory int64 `json:"memory"`
}

// The programs that connect rootless containers without a network of Podman's.
const (
	NetworkPasta       = "pasta"
	NetworkSlirp4netns = "slirp4netns"
	// NetworkShared is Podman's usual program.
	NetworkShared = "shared"
)

// networkName is what Podman allows as the name of a network; the other words mean
// something else to it, or are modes of the ECS model.
var (
	networkName      = lazy.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`)
	reservedNetworks = []string{"awsvpc", "bridge", "container", "default", "host", "none", "ns", "private"}
)

// ContainerExtensions are a container's own members of x-podtask.
type ContainerExtensions struct {
	// CPULimit is a hard limit in vCPU; 0 means none. The container's cpu of the
	// ECS model is a share only.
	CPULimit float64 `json:"cpuLimit,omitempty"`
	// ImageHealthCheck: where the definition has no health check, that of the
	// image is used.
	ImageHealthCheck bool `json:"imageHealthCheck,omitempty"`
	// EmptyCommand: the entry point of the image runs without the image's command.
	EmptyCommand bool `json:"emptyCommand,omitempty"`
	// SecretFiles are secrets given as files; paths are unique.
	SecretFiles []SecretFile `json:"secretFiles,omitempty"`
	// Probes and Hooks are those of a container made from a Kubernetes manifest. An ECS definition
	// can have a readiness probe by HTTP: httpHealthCheck.
	Probes Probes `json:"probes,omitzero"`
	Hooks  Hooks  `json:"hooks,omitzero"`
	// Kube has the other requests of a Kubernetes Pod.
	Kube Kube `json:"kube,omitzero"`
}

// maxNamespace is the length of the longest name of a namespace in bytes, as on Cloud Map.
const maxNamespace = 1024

var namespacePattern = lazy.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)

// signalName is a name of a signal of Linux, those that Kubernetes has (corev1.Signal).
var signalName = lazy.MustCompile(`^SIG(ABRT|ALRM|BUS|CHLD|CLD|CONT|FPE|HUP|ILL|INT|IO|IOT|KILL|PIPE|POLL|PROF|PWR|QUIT|SEGV|STKFLT|STOP|SYS|TERM|TRAP|TSTP|TTIN|TTOU|URG|USR1|USR2|VTALRM|WINCH|XCPU|XFSZ|RTMIN(\+([1-9]|1[0-5]))?|RTMAX(-([1-9]|1[0-5]))?)$`)

// IsSignal reports whether a text is a name of a signal, such as SIGQUIT or SIGRTMIN+3.
func IsSignal(text string) bool { return signalName.MatchString(text) }

// NamespaceName reports whether a text can be the name of a namespace of services.
func NamespaceName(text string) bool {
	return len(text) <= maxNamespace && namespacePattern.MatchString(text)
}

func decodeTaskExtensions(c cursor) TaskExtensions {
	c.want(doctree.Object, "")
	return TaskExtensions{
		StopWhenUnhealthy: c.at("stopWhenUnhealthy").flag(false),
		WatchDependencies: c.at("watchDependencies").flag(false),
		Network:           c.at("network").str(),
		Deadline:          decodeSeconds(c.at("timeout"), 0),
		MinimumAge:        c.at("minimumAge").str(),
		Namespace:         c.at("namespace").str(),
		Ingress:           decodeIngress(c.at("ingress")),
		SleepAfter:        decodeSeconds(c.at("sleepAfter"), 0),
	}
}

func decodeContainerExtensions(c cursor) ContainerExtensions {
	c.want(doctree.Object, "")
	return ContainerExtensions{
		CPULimit:         decodeDecimal(c.at("cpuLimit")),
		ImageHealthCheck: c.at("imageHealthCheck").flag(false),
		EmptyCommand:     c.at("emptyCommand").flag(false),
		SecretFiles:      decodeSecretFiles(c.at("secretFiles")),
		Probes:           decodeHTTPHealthCheck(c.at(httpHealthCheck)),
		Kube:             Kube{StopSignal: c.at("stopSignal").str()},
	}
}

// decodeDecimal decodes a number with a fraction; 0 for an absent one.
func decodeDecimal(c cursor) float64 {
	if !c.present() || c.held() {
		return 0
	}
	if k := c.node.Kind; k != doctree.Text && k != doctree.Number {
		c.wrong(fmt.Sprintf("this must be a number, not %s", k), "")
		return 0
	}
	f, err := strconv.ParseFloat(c.node.Text, 64)
	if err != nil || quantity.FindString(c.node.Text) == "" {
		c.wrong(quote(c.node.Text)+" is not a number", "write a number of vCPU, as in 0.5")
		return 0
	}
	return f
}

func checkTaskExtensions(r rules, t Task) {
	if t.Extensions.Pod == nil { // Kubernetes has other limits
		r.in(extensionMember).in("timeout").require(0 <= t.Extensions.Deadline && t.Extensions.Deadline <= MaxDeadline, "leave it out for no limit",
			"timeout is out of range: it must be 1 to %d seconds", int64(MaxDeadline/time.Second))
	}
	r.in(extensionMember).in("sleepAfter").require(0 <= t.Extensions.SleepAfter && t.Extensions.SleepAfter <= MaxSleepAfter, "leave it out for a service that never sleeps",
		"sleepAfter is out of range: it must be 1 to %d seconds", int64(MaxSleepAfter/time.Second))
	checkMinimumAge(r.in(extensionMember).in("minimumAge"), t)
	if n := t.Extensions.Namespace; n != "" {
		in := r.in(extensionMember).in("namespace")
		in.require(NamespaceName(n), "use letters, digits, dots, dashes and underscores, and begin and end with a letter or a digit", "%s is not the name of a namespace", quote(n))
		in.require(t.Network != NetworkHost && t.Network != NetworkNone, "remove one of the two, or use awsvpc or bridge",
			"with networkMode %s the task has no network in which the names of a namespace could lead to services", quote(string(t.Network)))
	}
	checkIngress(r.in(extensionMember), t)
	if t.Extensions.Network == "" {
		return
	}
	in := r.in(extensionMember).in("network")
	_, joins := t.Joined()
	in.require(!joins || networkName.MatchString(t.Extensions.Network) && !slices.Contains(reservedNetworks, t.Extensions.Network),
		"write pasta, slirp4netns, shared, or the name of a network of Podman's", "%s is not a network to join", quote(t.Extensions.Network))
	in.require(t.Network == NetworkBridge || t.Network == NetworkAWSVPC, "remove one of the two",
		"%s connects nothing with networkMode %s", t.Extensions.Network, quote(string(t.Network)))
}

func checkMinimumAge(in rules, t Task) {
	text := t.Extensions.MinimumAge
	if text == "" {
		return
	}
	age, err := imageage.ParseAge(text)
	in.require(err == nil, "", "minimumAge: %v", err)
	follows := func(c Container) bool { return !strings.Contains(c.Image, "@") }
	in.require(err != nil || age == 0 || len(t.Containers) == 0 || slices.ContainsFunc(t.Containers, follows), "remove it, or write a tag without a digest",
		"the minimum age %s has no effect: each image has a digest, and such an image is never updated", text)
	for _, c := range t.Containers {
		in.require(err != nil || age == 0 || !c.Unpinned, "remove one of the two",
			"the minimum age %s has no effect on container %s: with versionConsistency disabled it runs what the tag has", text, quote(c.Name))
	}
}

func checkExtensions(r rules, t Task, c Container) {
	in := r.in(extensionMember).in("emptyCommand")
	in.require(!c.Extensions.EmptyCommand || len(c.Command) == 0, "remove one of the two", "emptyCommand drops the command of the image, and command replaces it")
	in = r.in(extensionMember).in("stopSignal")
	sig := c.Extensions.Kube.StopSignal
	in.require(sig == "" || IsSignal(sig), "write a name as in SIGQUIT or SIGRTMIN+3", "stopSignal cannot be %s", quote(sig))
	in = r.in(extensionMember).in("cpuLimit")
	limit := c.Extensions.CPULimit
	in.require(limit == 0 || limit >= 0.01 && limit <= maxUnits/unitsPerVCPU, "", "cpuLimit is out of range: it must be 0.01 to 192 vCPU")
	in.require(t.CPU == 0 || limit <= t.CPU || math.IsNaN(limit), "raise the cpu of the task or lower cpuLimit",
		"cpuLimit (%v vCPU) is more than the whole task may use (%v vCPU)", limit, t.CPU)
}
