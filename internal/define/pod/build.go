package pod

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

var (
	dnsName  = lazy.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	dnsLabel = lazy.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	dataKey  = lazy.MustCompile(`^[-._a-zA-Z0-9]+$`)
)

// isDNSLabel reports whether s is a label of RFC 1123.
func isDNSLabel(s string) bool { return len(s) <= 63 && dnsLabel.MatchString(s) }

const (
	labelRule     = "use at most 63 lower-case letters, digits and hyphens"
	maxContainers = 64 // of a Pod; a bound for hostile files, Kubernetes has none
)

// The restart policies of Kubernetes.
const (
	RestartAlways    = "Always"
	RestartOnFailure = "OnFailure"
	RestartNever     = "Never"
)

// Labels of the containers of a Pod, as the kubelet gives them.
const (
	LabelNamespace = taskdef.LabelPodNamespace
	LabelName      = taskdef.LabelPodName
	LabelUID       = taskdef.LabelPodUID
	LabelContainer = "io.kubernetes.container.name"
)

// Pod is what a task keeps of the Pod it was made from.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
	// RestartPolicy is RestartAlways, RestartOnFailure or RestartNever.
	RestartPolicy string   `json:"restartPolicy"`
	QOSClass      QOSClass `json:"qosClass"`
	// HostMemory is the memory of the host when the Pod was read, in bytes; 0 means unknown. A resize computes oom_score_adj
	// from it.
	HostMemory int64 `json:"hostMemory,omitempty"`
	// Init and Sidecars are names of init containers, those that end and those that run
	// beside the containers.
	Init     []string `json:"init,omitempty"`
	Sidecars []string `json:"sidecars,omitempty"`
	// Source is the document as given, as JSON, without its status. No Secret is in it.
	Source json.RawMessage `json:"source,omitempty"`
}

// reader reads a manifest into a task. Its methods are in the files of what they read: containers,
// environments, checks, volumes, resources.
type reader struct {
	*manifest
	options Options
	result  Result
	// containers are the values of result.Task.Containers.
	containers []value
	volumes    map[string]volume
	parts      map[string][]part // mounts of the emptyDirs, by volume
	keptLogins []keptLogins      // of imagePullSecrets whose content is not in the file
	job        job
	ordinal    string // the name of the Pod with its number, where its controller numbers Pods
}

func (m *manifest) build(o Options) Result {
	b := &reader{manifest: m, options: o, volumes: make(map[string]volume), parts: make(map[string][]part)}
	b.readJob()
	b.metadata()
	b.number()
	b.list()
	if len(m.report.problems) > 0 && len(b.containers) > maxContainers {
		return Result{}
	}
	b.readVolumes()
	for i := range b.containers {
		b.container(i)
	}
	b.nest()
	known := b.logins()
	for i := range b.result.Task.Containers {
		b.credentials(&b.result.Task.Containers[i], known)
	}
	b.order()
	b.network()
	b.ingress()
	b.namespaces()
	b.resources()
	b.annotations()
	b.checkTask()
	return b.result
}

// metadata reads who the Pod is.
func (b *reader) metadata() {
	name := b.meta.at("name")
	if name.str() == "" {
		name = b.meta.at("generateName")
	}
	for _, member := range []string{"name", "generateName"} {
		if name.str() == "" && b.kind.template != nil {
			name = b.owner.at("metadata").at(member)
		}
	}
	p := &b.result.Pod
	p.Name = strings.TrimRight(name.str(), "-.")
	switch {
	case p.Name == "":
		b.owner.wrong("the "+b.kind.name+" has no name", "write metadata.name")
	case !dnsName.MatchString(p.Name) || len(p.Name) > 253:
		name.wrong(doctree.Quote(p.Name)+" is not a name", "use lower-case letters, digits, hyphens and dots, a letter or digit at both ends")
	}
	meta := b.meta
	if !meta.at("namespace").present() {
		meta = b.owner.at("metadata")
	}
	p.Namespace = namespaceOf(meta)
	if !isDNSLabel(p.Namespace) {
		meta.at("namespace").wrong(doctree.Quote(p.Namespace)+" is not a namespace", labelRule)
	}
	family := p.Name
	if b.ordinal = b.numbered(p.Name); b.ordinal != "" {
		p.Name = b.ordinal
	}
	p.UID = b.meta.at("uid").str()
	if p.UID == "" {
		p.UID = b.options.Facts["metadata.uid"]
	}
	p.RestartPolicy = b.spec.at("restartPolicy").word(RestartAlways, RestartAlways, RestartOnFailure, RestartNever)
	p.Source = b.source()
	b.result.Task.Family = strings.ReplaceAll(family, ".", "_")
	b.result.Task.Network = taskdef.NetworkBridge
	b.result.Task.Extensions.Network = taskdef.NetworkShared
	b.spec.at("os").at("name").word("linux", "linux")
}

// list reads which containers there are.
func (b *reader) list() {
	t := &b.result.Task
	seen := make(map[string]bool)
	for _, member := range []string{"initContainers", "containers"} {
		for _, v := range b.spec.at(member).items() {
			name := v.at("name")
			switch s := name.str(); {
			case s == "":
				v.wrong("the container has no name", "")
			case !isDNSLabel(s):
				name.wrong(doctree.Quote(s)+" is not a name of a container", labelRule)
			case seen[s]:
				name.wrong("another container is named "+doctree.Quote(s), "rename one of them")
			}
			seen[name.str()] = true
			if member == "initContainers" {
				b.addInit(v, name.str())
			}
			t.Containers = append(t.Containers, taskdef.Container{Name: name.str(), Essential: member == "containers"})
			if b.job.indexed {
				v = b.index(v)
			}
			b.containers = append(b.containers, v)
		}
	}
	if len(b.spec.at("containers").items()) == 0 {
		b.spec.at("containers").wrong("the Pod has no containers", "")
	}
	if n := len(b.containers); n > maxContainers {
		b.spec.wrong(fmt.Sprintf("a Pod has at most %d containers here, and this one has %d with its init containers", maxContainers, n), "split the Pod")
	}
}

func (b *reader) addInit(v value, name string) {
	switch policy := v.at("restartPolicy").word("", RestartAlways, RestartOnFailure, RestartNever); policy {
	case RestartAlways:
		b.result.Pod.Sidecars = append(b.result.Pod.Sidecars, name)
	default:
		b.result.Pod.Init = append(b.result.Pod.Init, name)
	}
}

func (p Pod) isInit(name string) bool    { return slices.Contains(p.Init, name) }
func (p Pod) isSidecar(name string) bool { return slices.Contains(p.Sidecars, name) }

// order gives every container its dependencies: init containers run one after another,
// sidecars start in their turn and stop after the containers that come later.
func (b *reader) order() {
	var sidecars []int
	last := -1 // the init container that ends last
	for i := range b.result.Task.Containers {
		c := &b.result.Task.Containers[i]
		for _, s := range sidecars {
			c.DependsOn = append(c.DependsOn, taskdef.Dependency{Container: s, Condition: taskdef.Start})
		}
		if last >= 0 {
			c.DependsOn = append(c.DependsOn, taskdef.Dependency{Container: last, Condition: taskdef.Success})
		}
		switch {
		case b.result.Pod.isSidecar(c.Name):
			sidecars = append(sidecars, i)
		case b.result.Pod.isInit(c.Name):
			last = i
		}
	}
}

// The back-off of Kubernetes: the first restart does not wait, the one after it waits for
// 10 s, and each next one twice as long, up to 5 minutes. A run of 10 minutes starts it
// again (kubelet: doBackOff, initialBackOff; client-go: flowcontrol.Backoff).
const (
	firstPause  = 10 * time.Second
	steadyAfter = 10 * time.Minute
)

// restartPolicy is that of container i; nil where it is not restarted.
func (b *reader) restartPolicy(i int) *taskdef.RestartPolicy {
	name, v := b.result.Task.Containers[i].Name, b.containers[i].at("restartPolicy")
	policy := b.result.Pod.RestartPolicy
	if b.result.Pod.isInit(name) && policy == RestartAlways {
		policy = RestartOnFailure // an init container is to succeed once
	}
	policy = v.word(policy, RestartAlways, RestartOnFailure, RestartNever)
	p := &taskdef.RestartPolicy{AttemptPeriod: steadyAfter, BackOff: firstPause, FirstAtOnce: true, Rules: b.restartRules(i)}
	switch policy {
	case RestartNever:
		if p.RulesOnly = true; len(p.Rules) == 0 {
			p = nil
		}
	case RestartOnFailure:
		p.IgnoredExitCodes = []int{0}
	}
	if b.result.Pod.isSidecar(name) {
		return p
	}
	return b.job.restart(p, policy)
}

// Bounds of Kubernetes (validateContainerRestartPolicy).
const (
	maxRestartRules = 20
	maxRuleCodes    = 255
)

// restartRules reads after which exit codes container i is restarted whatever its policy says. As an
// init container is to succeed once, none of its rules is about exit code 0 (kubelet, computeInitContainerActions).
func (b *reader) restartRules(i int) (rules []taskdef.RestartRule) {
	in, init := b.containers[i], b.result.Pod.isInit(b.result.Task.Containers[i].Name)
	list := in.at("restartPolicyRules")
	items := list.items()
	if len(items) > 0 && !in.at("restartPolicy").filled() {
		list.wrong("restartPolicyRules go with a restartPolicy of the container, which decides where no rule does", "add restartPolicy: Never, or another one, to the container")
	}
	if len(items) > maxRestartRules {
		list.wrong(fmt.Sprintf("there are %d rules, and Kubernetes permits %d", len(items), maxRestartRules), "join rules with the same operator")
	}
	for _, v := range items {
		rule := restartRule(v)
		switch at := slices.Index(rule.ExitCodes, 0); {
		case init && rule.Not && at < 0:
			rule.ExitCodes = append(rule.ExitCodes, 0)
		case init && !rule.Not && at >= 0:
			rule.ExitCodes = slices.DeleteFunc(rule.ExitCodes, func(code int) bool { return code == 0 })
		}
		rules = append(rules, rule)
	}
	return rules
}

func restartRule(v value) (rule taskdef.RestartRule) {
	const restart, all, opIn, opNotIn = "Restart", "RestartAllContainers", "In", "NotIn"
	switch action := v.at("action"); action.word("", restart, all) {
	case all:
		action.wrong("podtask cannot start all containers of a Pod again when one has ended: Kubernetes gives such Pods to nodes that declare it", "use "+restart+", which is for this container")
	case "":
		if !action.filled() {
			v.wrong("action is missing", "add action: "+restart)
		}
	}
	codes := v.at("exitCodes")
	if !codes.present() {
		v.wrong("exitCodes are missing", "write them as in exitCodes: {operator: In, values: [42]}")
		return rule
	}
	operator := codes.at("operator")
	if rule.Not = operator.word("", opIn, opNotIn) == opNotIn; !operator.filled() {
		codes.wrong("operator is missing", "use In or NotIn")
	}
	values := codes.at("values").items()
	if len(values) > maxRuleCodes {
		codes.at("values").wrong(fmt.Sprintf("there are %d exit codes, and Kubernetes permits %d", len(values), maxRuleCodes), "use the other operator with the rest of them")
	}
	for _, item := range values {
		const absent = -1
		code := int(item.integer(-1<<31, 1<<31-1, absent))
		if code < 0 || code > 255 {
			item.warn("no container ends with this exit code: they go from 0 to 255", "")
			continue
		}
		rule.ExitCodes = append(rule.ExitCodes, code)
	}
	return rule
}

// namespaces says which namespaces of the kernel the containers share.
func (b *reader) namespaces() {
	t := &b.result.Task
	t.IPCMode = taskdef.IPCTask
	if b.spec.at("hostIPC").flag(false) {
		t.IPCMode = taskdef.IPCHost
	}
	share, host := b.spec.at("shareProcessNamespace"), b.spec.at("hostPID")
	switch {
	case share.flag(false) && host.flag(false):
		share.wrong("shareProcessNamespace does not go with hostPID", "remove one of the two")
	case share.flag(false):
		t.PIDMode = taskdef.PIDTask
	case host.flag(false):
		t.PIDMode = taskdef.PIDHost
	}
	t.Extensions.UntilLast = true
	t.Extensions.FailAtOnce = b.job.tries > 0 && b.result.Pod.RestartPolicy == RestartOnFailure
	t.Extensions.Deadline = time.Duration(b.spec.at("activeDeadlineSeconds").integer(1, 1<<31-1, 0)) * time.Second
	if d := b.job.deadline; d > 0 && (t.Extensions.Deadline == 0 || d < t.Extensions.Deadline) {
		t.Extensions.Deadline = d
	}
}

// pullBehavior is the imagePullPolicy of an image, with Kubernetes' default by tag, as a
// pull behavior of podtask.
func pullBehavior(v value, image string) string {
	const always, ifNotPresent, never = "Always", "IfNotPresent", "Never"
	name, digest, _ := strings.Cut(image, "@")
	_, tag, tagged := strings.Cut(name[strings.LastIndexByte(name, '/')+1:], ":")
	unset := ifNotPresent
	if digest == "" && (!tagged || tag == "latest") {
		unset = always
	}
	return map[string]string{always: "always", ifNotPresent: "prefer-cached", never: "never"}[v.word(unset, always, ifNotPresent, never)]
}

// grace is terminationGracePeriodSeconds.
func (b *reader) grace() time.Duration {
	v := b.spec.at("terminationGracePeriodSeconds")
	return time.Duration(max(v.integer(0, 86400, 30), 1)) * time.Second
}

// checkTask holds the task against the rules of every task. What they find is about
// the Pod, and what the Pod's own checks have found already is not repeated.
func (b *reader) checkTask() {
	if len(b.report.problems) > 0 || len(b.report.needs) > 0 {
		return
	}
	var invalid *taskdef.InvalidError
	if !errors.As(b.result.Task.Check(), &invalid) {
		return
	}
	for _, p := range invalid.Problems {
		at := b.spec
		var i int
		if _, err := fmt.Sscanf(p.Pointer, "/containerDefinitions/%d/", &i); err == nil && i < len(b.containers) {
			at = b.containers[i]
		}
		at.wrong(p.Message, p.Fix)
	}
}
