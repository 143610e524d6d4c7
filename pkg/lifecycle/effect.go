package lifecycle

import "time"

// Effect is a request that goes out. The set is closed and every effect is a
// comparable value; what it needs beyond its fields is in the State it came with.
// Each effect may be repeated: finding its work already done is success.
type Effect interface {
	// Op is the operation that the effect begins, or gives up.
	Op() OpID
	effect()
}

// AdmitTask asks for the task's share of the host: cpu, memory, ports and GPUs, all or
// nothing. It never waits: "not yet" is an answer, and the driver delivers
// QueueMoved when asking again may help. A task that has Begun is let in whether or
// not there is room, because it may run already; it only waits for GPUs that another task got
// when nothing of this one ran.
type AdmitTask struct {
	ID    OpID
	Begun bool
}

// ReleaseTask gives the share back, or leaves the queue.
type ReleaseTask struct{ ID OpID }

// CreateSandbox makes the slice and the pod, and what its containers mount and are given.
type CreateSandbox struct{ ID OpID }

// RunSandbox starts the infra container of the pod.
type RunSandbox struct{ ID OpID }

// InspectSandbox finds out whether the infra container runs, and since when.
type InspectSandbox struct{ ID OpID }

// StopSandbox stops the infra container and the slice; containers have ended.
type StopSandbox struct{ ID OpID }

// RemoveSandbox removes containers, pod and slice.
type RemoveSandbox struct{ ID OpID }

// ResolveImage asks the registry for the digest of a reference.
type ResolveImage struct {
	ID    OpID
	Index int
	Ref   string
}

// PullImage brings the image into local storage, by digest when there is one.
type PullImage struct {
	ID     OpID
	Index  int
	Ref    string
	Digest string
}

// CreateContainer creates the container from an image in local storage.
type CreateContainer struct {
	ID    OpID
	Index int
	Image string
}

// StartContainer starts a created container, or one that has exited. Restart counts
// from 1 when it ran before; 0 is the first start.
type StartContainer struct {
	ID      OpID
	Index   int
	Restart int
}

// StopContainer asks the container to stop and kills it after Grace; at once
// when Grace is 0.
type StopContainer struct {
	ID    OpID
	Index int
	Grace time.Duration
}

// InspectContainer finds out what is true of a container.
type InspectContainer struct {
	ID    OpID
	Index int
}

// CheckHealth makes one of the container's checks once. The driver must not give up on it
// before it has ended or is canceled: Step counts overruns itself.
type CheckHealth struct {
	ID    OpID
	Index int
	Probe ProbeKind
}

// RunHook runs a hook of a container, PostStart or PreStop. The driver gives up on it
// after Limit, which for a hook that sleeps is how long it sleeps.
type RunHook struct {
	ID    OpID
	Index int
	Hook  Kind
	Limit time.Duration
}

// FlushLogs passes the last lines of the task to its log router, the container Index, which is
// stopped after it. The driver gives up on it after Limit.
type FlushLogs struct {
	ID    OpID
	Index int
	Limit time.Duration
}

// CancelOp asks that the operation ID be given up. The operation still answers.
type CancelOp struct{ ID OpID }

func (e AdmitTask) Op() OpID        { return e.ID }
func (e ReleaseTask) Op() OpID      { return e.ID }
func (e CreateSandbox) Op() OpID    { return e.ID }
func (e RunSandbox) Op() OpID       { return e.ID }
func (e InspectSandbox) Op() OpID   { return e.ID }
func (e StopSandbox) Op() OpID      { return e.ID }
func (e RemoveSandbox) Op() OpID    { return e.ID }
func (e ResolveImage) Op() OpID     { return e.ID }
func (e PullImage) Op() OpID        { return e.ID }
func (e CreateContainer) Op() OpID  { return e.ID }
func (e StartContainer) Op() OpID   { return e.ID }
func (e StopContainer) Op() OpID    { return e.ID }
func (e InspectContainer) Op() OpID { return e.ID }
func (e CheckHealth) Op() OpID      { return e.ID }
func (e RunHook) Op() OpID          { return e.ID }
func (e FlushLogs) Op() OpID        { return e.ID }
func (e CancelOp) Op() OpID         { return e.ID }

func (AdmitTask) effect()        {}
func (ReleaseTask) effect()      {}
func (CreateSandbox) effect()    {}
func (RunSandbox) effect()       {}
func (InspectSandbox) effect()   {}
func (StopSandbox) effect()      {}
func (RemoveSandbox) effect()    {}
func (ResolveImage) effect()     {}
func (PullImage) effect()        {}
func (CreateContainer) effect()  {}
func (StartContainer) effect()   {}
func (StopContainer) effect()    {}
func (InspectContainer) effect() {}
func (CheckHealth) effect()      {}
func (RunHook) effect()          {}
func (FlushLogs) effect()        {}
func (CancelOp) effect()         {}
