package pod

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/distribution/reference"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// The types of a status are those of k8s.io/api core/v1, with the members that podtask
// fills.

// Status is a PodStatus.
type Status struct {
	Phase                 string            `json:"phase"`
	Conditions            []Condition       `json:"conditions,omitempty"`
	Message               string            `json:"message,omitempty"`
	Reason                string            `json:"reason,omitempty"`
	HostIP                string            `json:"hostIP,omitempty"`
	HostIPs               []Address         `json:"hostIPs,omitempty"`
	PodIP                 string            `json:"podIP,omitempty"`
	PodIPs                []Address         `json:"podIPs,omitempty"`
	StartTime             *Time             `json:"startTime,omitempty"`
	InitContainerStatuses []ContainerStatus `json:"initContainerStatuses,omitempty"`
	ContainerStatuses     []ContainerStatus `json:"containerStatuses,omitempty"`
	QOSClass              QOSClass          `json:"qosClass,omitempty"`
}

// The phases of a Pod.
const (
	Pending   = "Pending"
	Running   = "Running"
	Succeeded = "Succeeded"
	Failed    = "Failed"
)

// Address is a PodIP or HostIP.
type Address struct {
	IP string `json:"ip"`
}

// Time is a metav1.Time: RFC 3339 in UTC with seconds.
type Time struct{ time.Time }

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(t.UTC().Format(time.RFC3339))
}

// Condition is a PodCondition.
type Condition struct {
	Type               string `json:"type"`
	Status             string `json:"status"` // True or False
	LastTransitionTime *Time  `json:"lastTransitionTime,omitempty"`
	Reason             string `json:"reason,omitempty"`
	Message            string `json:"message,omitempty"`
}

// ContainerStatus is that of core/v1.
type ContainerStatus struct {
	Name         string         `json:"name"`
	State        ContainerState `json:"state"`
	LastState    ContainerState `json:"lastState"`
	Ready        bool           `json:"ready"`
	RestartCount int            `json:"restartCount"`
	Image        string         `json:"image"`
	ImageID      string         `json:"imageID"`
	ContainerID  string         `json:"containerID,omitempty"`
	Started      *bool          `json:"started,omitempty"`
}

// ContainerState has at most one member.
type ContainerState struct {
	Waiting    *Waiting    `json:"waiting,omitempty"`
	Running    *RunningRun `json:"running,omitempty"`
	Terminated *Terminated `json:"terminated,omitempty"`
}

// Waiting is the state of a container that does not run yet, or not at the moment.
type Waiting struct {
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// RunningRun is the state of a container that runs.
type RunningRun struct {
	StartedAt Time `json:"startedAt"`
}

// Terminated is how a run ended.
type Terminated struct {
	ExitCode    int    `json:"exitCode"`
	Signal      int    `json:"signal,omitempty"`
	Reason      string `json:"reason,omitempty"`
	Message     string `json:"message,omitempty"`
	StartedAt   Time   `json:"startedAt"`
	FinishedAt  Time   `json:"finishedAt"`
	ContainerID string `json:"containerID,omitempty"`
}

// Reasons why a container waits, as the kubelet writes them.
const (
	WaitPodInitializing     = "PodInitializing"
	WaitContainerCreating   = "ContainerCreating"
	WaitErrImagePull        = "ErrImagePull"
	WaitImagePullBackOff    = "ImagePullBackOff"
	WaitErrImageNeverPull   = "ErrImageNeverPull"
	WaitCreateError         = "CreateContainerError"
	WaitCreateConfigError   = "CreateContainerConfigError"
	WaitRunError            = "RunContainerError"
	WaitCrashLoopBackOff    = "CrashLoopBackOff"
	endedCompleted          = "Completed"
	endedError              = "Error"
	endedOOMKilled          = "OOMKilled"
	firstSignal             = 128 // exit codes above are 128 and a signal
	conditionTrue           = "True"
	conditionFalse          = "False"
	containersNotReady      = "ContainersNotReady"
	containersUninitialized = "ContainersNotInitialized"
	podCompleted            = "PodCompleted"
	podFailed               = "PodFailed"
	deadlineExceeded        = "DeadlineExceeded"
)

// Seen is what the state of a task does not hold.
type Seen struct {
	// Host and Pod are addresses.
	Host, Pod []netip.Addr
	// Messages are the termination messages, by the index of the container; nil for none.
	Messages []Messages
}

// Messages are those of the latest run of a container, and of the run before.
type Messages struct{ Now, Before string }

func (s Seen) messages(i int) Messages {
	if i < len(s.Messages) {
		return s.Messages[i]
	}
	return Messages{}
}

// Of returns the Pod that stands for a task that was not made from one: containers that
// others wait for to end are its init containers.
func Of(name string, t taskdef.Task) Pod {
	p := Pod{Namespace: "default", Name: cmp.Or(name, t.Family), RestartPolicy: RestartNever, QOSClass: Burstable}
	for i, c := range t.Containers {
		ends := slices.ContainsFunc(t.Containers, func(o taskdef.Container) bool {
			return slices.ContainsFunc(o.DependsOn, func(d taskdef.Dependency) bool {
				return d.Container == i && (d.Condition == taskdef.Success || d.Condition == taskdef.Complete)
			})
		})
		if ends && !c.Essential {
			p.Init = append(p.Init, c.Name)
		}
	}
	return p
}

// Object returns the Pod with its status, as `kubectl get -o json` would.
func (p Pod) Object(s Status) (json.RawMessage, error) {
	source := struct {
		Metadata map[string]any  `json:"metadata"`
		Spec     json.RawMessage `json:"spec,omitempty"`
	}{}
	if len(p.Source) > 0 {
		if err := json.Unmarshal(p.Source, &source); err != nil {
			return nil, fmt.Errorf("the Pod as given: %w", err)
		}
	}
	if source.Metadata == nil {
		source.Metadata = make(map[string]any)
	}
	source.Metadata["name"], source.Metadata["namespace"] = p.Name, p.Namespace
	if p.UID != "" {
		source.Metadata["uid"] = p.UID
	}
	return json.Marshal(struct {
		APIVersion string          `json:"apiVersion"`
		Kind       string          `json:"kind"`
		Metadata   map[string]any  `json:"metadata"`
		Spec       json.RawMessage `json:"spec,omitempty"`
		Status     Status          `json:"status"`
	}{"v1", "Pod", source.Metadata, source.Spec, s})
}

// StatusOf returns the status of a Pod from the state of its task.
func StatusOf(p Pod, s lifecycle.State, a Seen) Status {
	out := Status{Phase: phase(p, s), QOSClass: p.QOSClass, StartTime: timeOf(s.Began())}
	for i, c := range s.Task.Containers {
		status := containerStatus(p, s, i)
		status.tell(a.messages(i))
		if p.isInit(c.Name) || p.isSidecar(c.Name) {
			out.InitContainerStatuses = append(out.InitContainerStatuses, status)
		} else {
			out.ContainerStatuses = append(out.ContainerStatuses, status)
		}
	}
	switch {
	case exceeded(s):
		out.Reason, out.Message = deadlineExceeded, "Pod was active on the node longer than the specified deadline"
	case s.Goal != lifecycle.Up && out.Phase == Failed:
		out.Reason, out.Message = s.Stop.Code, s.Stop.Reason
	}
	out.HostIPs, out.PodIPs = addresses(a.Host), addresses(a.Pod)
	if len(out.HostIPs) > 0 {
		out.HostIP = out.HostIPs[0].IP
	}
	if len(out.PodIPs) > 0 {
		out.PodIP = out.PodIPs[0].IP
	}
	out.Conditions = conditions(p, s, out)
	return out
}

func addresses(all []netip.Addr) (out []Address) {
	for _, a := range all {
		out = append(out, Address{a.String()})
	}
	return out
}

func timeOf(t time.Time) *Time {
	if t.IsZero() {
		return nil
	}
	return &Time{t}
}

// mains are the indices of the containers proper.
func mains(p Pod, s lifecycle.State) (out []int) {
	for i, c := range s.Task.Containers {
		if !p.isInit(c.Name) && !p.isSidecar(c.Name) {
			out = append(out, i)
		}
	}
	return out
}

// phase is that of the Pod (kubelet, getPhase): Running from the first start of a
// container until all have ended for good.
func phase(p Pod, s lifecycle.State) string {
	started, ended, succeeded := 0, 0, 0
	all := mains(p, s)
	for _, i := range all {
		c := s.Containers[i]
		if !c.FirstStartedAt.IsZero() {
			started++
		}
		if c.Ended {
			ended++
		}
		if c.Ended && c.HasExit && c.ExitCode == 0 && !c.StartedAt.IsZero() {
			succeeded++
		}
	}
	beside := slices.ContainsFunc(s.Containers, func(c lifecycle.Container) bool { return c.Presence == lifecycle.Running && !c.Ended })
	switch {
	case exceeded(s):
		return Failed
	case ended == len(all) && beside && started > 0:
		return Running // until the sidecars have stopped
	case succeeded == len(all):
		return Succeeded
	case ended == len(all):
		return Failed
	case started > 0:
		return Running
	}
	return Pending
}

// exceeded reports whether the Pod was stopped for its deadline.
func exceeded(s lifecycle.State) bool { return s.Stop.Code == lifecycle.StopDeadlineExceeded }

// containerStatus is that of container i.
func containerStatus(p Pod, s lifecycle.State, i int) ContainerStatus {
	c, def := s.Containers[i], s.Task.Containers[i]
	out := ContainerStatus{Name: def.Name, Image: def.Image, ImageID: imageID(def.Image, c), RestartCount: c.Restarts, State: containerState(p, s, i)}
	out.LastState = lastState(c, out.State.Terminated != nil && !c.Ended)
	if c.ID != "" {
		out.ContainerID = containerID(c)
	}
	runs := out.State.Running != nil
	up := runs && s.Up(i)
	out.Started = &up
	switch {
	case p.isInit(def.Name):
		out.Ready = out.State.Terminated != nil && out.State.Terminated.ExitCode == 0
	case def.HasHealth():
		out.Ready = up && c.HealthStatus() == lifecycle.HealthHealthy
	default:
		out.Ready = up
	}
	return out
}

// tell adds the termination messages.
func (c *ContainerStatus) tell(m Messages) {
	if t := c.State.Terminated; t != nil {
		t.Message = cmp.Or(m.Now, t.Message)
	}
	before := m.Before
	if c.State.Waiting != nil { // until the restart
		before = m.Now
	}
	if t := c.LastState.Terminated; t != nil {
		t.Message = cmp.Or(before, t.Message)
	}
}

func containerID(c lifecycle.Container) string { return "podman://" + c.ID }

// imageID names the image by its repository and digest where that is known, and else by
// its ID.
func imageID(image string, c lifecycle.Container) string {
	named, err := reference.ParseNormalizedNamed(image)
	if c.Digest != "" && err == nil {
		return reference.TrimNamed(named).String() + "@" + c.Digest
	}
	return c.ImageID
}

func containerState(p Pod, s lifecycle.State, i int) ContainerState {
	c := s.Containers[i]
	switch {
	case c.Ended && !c.StartedAt.IsZero():
		return ContainerState{Terminated: lastRun(c)}
	case !c.RestartAt.IsZero() && c.RestartAt.Sub(c.FinishedAt) < shortestPause:
		return ContainerState{Terminated: lastRun(c)} // and is about to be started again
	case !c.RestartAt.IsZero():
		pause := c.RestartAt.Sub(c.FinishedAt).Round(time.Second)
		return ContainerState{Waiting: &Waiting{WaitCrashLoopBackOff, fmt.Sprintf("back-off %s restarting failed container=%s pod=%s_%s(%s)", pause, s.Task.Containers[i].Name, p.Name, p.Namespace, p.UID)}}
	case c.Presence == lifecycle.Running && !c.StartedAt.IsZero():
		return ContainerState{Running: &RunningRun{Time{c.StartedAt}}}
	}
	return ContainerState{Waiting: waiting(p, s, i)}
}

// lastRun is how the latest run of a container ended.
func lastRun(c lifecycle.Container) *Terminated {
	t := &Terminated{ExitCode: c.ExitCode, StartedAt: Time{c.StartedAt}, FinishedAt: Time{c.FinishedAt}, ContainerID: containerID(c), Message: c.Fatal()}
	if !c.HasExit {
		t.ExitCode, t.Reason = firstSignal+9, "ContainerStatusUnknown"
		return t
	}
	killed := slices.ContainsFunc(c.Failures, func(f lifecycle.Failure) bool {
		return f.Name == lifecycle.ErrOutOfMemory && !f.At.Before(c.StartedAt)
	})
	t.Reason, t.Signal = ended(c.ExitCode, killed)
	return t
}

func ended(code int, outOfMemory bool) (reason string, signal int) {
	if code > firstSignal && code < firstSignal+65 {
		signal = code - firstSignal
	}
	switch {
	case outOfMemory:
		return endedOOMKilled, signal
	case code == 0:
		return endedCompleted, 0
	}
	return endedError, signal
}

// shortestPause is the least back-off that a container is shown to wait for.
const shortestPause = time.Second

// lastState is the run before the one that State is about, which may be the latest of
// those that have ended.
func lastState(c lifecycle.Container, shown bool) ContainerState {
	runs := c.Runs
	if shown && len(runs) > 0 {
		runs = runs[:len(runs)-1]
	}
	if len(runs) == 0 {
		return ContainerState{}
	}
	r := runs[len(runs)-1]
	t := &Terminated{ExitCode: r.ExitCode, StartedAt: Time{r.StartedAt}, FinishedAt: Time{r.FinishedAt}, ContainerID: containerID(c)}
	t.Reason, t.Signal = ended(r.ExitCode, r.OOMKilled)
	return ContainerState{Terminated: t}
}

// waiting explains why a container has not started.
func waiting(p Pod, s lifecycle.State, i int) *Waiting {
	c := s.Containers[i]
	message := cmp.Or(c.Fatal(), c.Retry.Last)
	failed := c.Ended || c.Retry.Attempts > 0
	switch {
	case failed && !c.Pulled && s.Options.Pull.Or(s.Task.Containers[i].Extensions.Kube.Pull) == lifecycle.PullNever && message != "" && !dependencyFailed(c):
		return &Waiting{WaitErrImageNeverPull, message}
	case failed && !c.Pulled && message != "" && !dependencyFailed(c):
		if c.Op.Busy() || c.Ended {
			return &Waiting{WaitErrImagePull, message}
		}
		return &Waiting{WaitImagePullBackOff, "back-off pulling image " + s.Task.Containers[i].Image + ": " + message}
	case failed && message != "" && !dependencyFailed(c):
		return &Waiting{creation(c, message), message}
	case len(p.Init)+len(p.Sidecars) > 0: // all containers of such a Pod, also the first
		return &Waiting{WaitPodInitializing, s.Sandbox.Retry.Last}
	}
	return &Waiting{WaitContainerCreating, s.Sandbox.Retry.Last}
}

// dependencyFailed reports whether the container ended because another one did not come
// up, which is no failure of its own.
func dependencyFailed(c lifecycle.Container) bool {
	return c.Ended && c.StartedAt.IsZero() && c.HasExit
}

// creation names the step at which a container with an image failed.
func creation(c lifecycle.Container, message string) string {
	switch {
	case c.Presence >= lifecycle.Created:
		return WaitRunError
	case strings.HasPrefix(message, WaitCreateConfigError), strings.Contains(message, "secret"):
		return WaitCreateConfigError
	}
	return WaitCreateError
}

// mainStarted reports whether a container proper has run: from then on what a sidecar does
// no longer matters.
func mainStarted(p Pod, s lifecycle.State) bool {
	return slices.ContainsFunc(mains(p, s), func(i int) bool { return !s.Containers[i].FirstStartedAt.IsZero() })
}
