package lifecycle

import (
	"hash/fnv"
	"slices"
	"time"
)

// Error names of the ECS agent that podtask gives to failures.
const (
	ErrTimeout                = "DockerTimeoutError"
	ErrLimitsNotApplied       = "LimitsNotAppliedError"
	ErrOutOfMemory            = "OutOfMemoryError"
	ErrContainerVanished      = "ContainerVanishedError"
	ErrMonitorLost            = "ContainerMonitorLostError"
	ErrCannotPullManifest     = "CannotPullImageManifestError"
	ErrCannotPull             = "CannotPullContainerError"
	ErrCannotCreate           = "CannotCreateContainerError"
	ErrCannotStart            = "CannotStartContainerError"
	ErrCannotStop             = "CannotStopContainerError"
	ErrCannotInspect          = "CannotInspectContainerError"
	ErrCannotRemove           = "CannotRemoveContainerError"
	ErrResourceInitialization = "ResourceInitializationError"
)

var errorNames = [numKind]string{
	Resolve: ErrCannotPullManifest,
	Pull:    ErrCannotPull,
	Create:  ErrCannotCreate,
	Start:   ErrCannotStart,
	Stop:    ErrCannotStop,
	Inspect: ErrCannotInspect,
	Prepare: ErrResourceInitialization,
	Launch:  ErrResourceInitialization,
	Halt:    ErrCannotStop,
	Remove:  ErrCannotRemove,
	Admit:   ErrResourceInitialization,
	Release: ErrCannotStop,
}

// named gives a failure without a name the one that belongs to its operation.
func (f Failure) named(k Kind) Failure {
	if f.Name == "" {
		f.Name = errorNames[k]
		if f.Class == Timeout {
			f.Name = ErrTimeout
		}
	}
	return f
}

// mayPass reports whether trying again makes sense.
func (f Failure) mayPass() bool {
	return f.Class == Temporary || f.Class == Timeout || f.Class == QuotaUsedUp || f.Class == Outage
}

// attemptLimit is the number of times that a move that failed is tried before it is given up. Manifest and
// pull follow the ECS agent (9 and 5 attempts). A pod, and a container with a network
// of its own, gets half a minute, in which the network of a host that boots comes up; so does a container of a
// Kubernetes Pod, whose files the kubelet makes again. A
// create may fail three times because Podman's service ended once: the call itself breaks, it
// leaves the name in Podman's storage, and the pod is discarded and created again.
func attemptLimit(s *State, k Kind, f Failure) int {
	switch {
	case k == Resolve:
		return 9
	case f.Class == QuotaUsedUp:
		return quotaAttempts
	case k == Prepare, k == Launch, k == Start && f.Class != Timeout && (s.Task.Bridged() || s.Sandbox.NoInfra || len(s.Task.Extensions.Pod) > 0):
		return 8
	case k == Pull, k == Create && f.Class != Timeout:
		return 5
	default:
		return 3
	}
}

// imageAttemptLimit is attemptLimit for the manifest or the pull of a container. A registry that did not
// answer for the manifest is asked once more by the pull.
func imageAttemptLimit(s *State, i int, k Kind, f Failure) int {
	if k == Pull && !s.Options.GiveUp && s.Containers[i].manifestFailed() {
		return 2
	}
	return attemptLimit(s, k, f)
}

// manifestFailed reports whether the registry did not give the digest.
func (c *Container) manifestFailed() bool {
	return c.Digest == "" && slices.ContainsFunc(c.Failures, func(f Failure) bool { return f.Name == ErrCannotPullManifest && f.Tolerated })
}

// quotaAttempts is the number of times that a move is tried that fails because a quota of the host is used
// up: for about two minutes, in which other containers of the user may end.
const quotaAttempts = 11

// ResolveLimit limits the time that a digest may take, all attempts and the pauses between them
// included. It is shorter than that of ECS (ManifestPullTimeout, 1 min), because a person may wait. A
// task that is Persistent has it for each attempt.
const ResolveLimit = 20 * time.Second

// patientResolveLimit is the limit of ECS for a digest, for a task that is to behave as on ECS (Options.GiveUp).
const patientResolveLimit = time.Minute

// ResolveLimit returns the longest time that a digest of the task may take.
func (o Options) ResolveLimit() time.Duration {
	if o.GiveUp {
		return patientResolveLimit
	}
	return ResolveLimit
}

// Left is what is left of the time that a move may take in all, for the attempt that
// begins at the given time; never less than a second, in which it can say why it fails.
func (r Retry) Left(limit time.Duration, at time.Time) time.Duration {
	if !r.Since.IsZero() {
		limit -= max(at.Sub(r.Since), 0)
	}
	return max(limit, time.Second)
}

// removalAttempts is the number of failures in a row that end a removal, or hand a container
// that Podman can neither stop nor inspect over to it: about a minute.
const removalAttempts = 8

// releaseAttempts is the number of failures in a row to give the share of the host back that a removal
// tolerates.
const releaseAttempts = 3

const (
	backoffBase = 250 * time.Millisecond
	backoffCap  = 30 * time.Second
	// imageAttemptPace is the attempt from which on resolves and pulls keep their
	// distance: 2 s, which gives a registry about 12 s to come back.
	imageAttemptPace = 4
)

// backoff doubles from backoffBase to backoffCap; jitter takes off up to a fifth.
func backoff(attempt int, jitter uint64) time.Duration {
	d := backoffCap
	if attempt < 8 {
		d = backoffBase << max(attempt-1, 0)
	}
	d = min(d, backoffCap)
	return d - time.Duration(jitter%uint64(d/5))
}

// jitter is the same for the same task, container and operation, so that a run
// can be repeated exactly.
func jitter(s *State, index int) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s.ID))
	h.Write([]byte{byte(index), byte(s.NextOp), byte(s.NextOp >> 8)})
	return h.Sum64()
}

// Retry is the bookkeeping of failed attempts.
type Retry struct {
	// Attempts counts failures of the present move; past a limit the move is given up.
	Attempts int `json:"attempts,omitempty"`
	// Persist counts failures of moves that are never given up: stop, inspect,
	// halt, remove. It only sets the pace.
	Persist  int       `json:"persist,omitempty"`
	NotUntil time.Time `json:"notUntil,omitzero"`
	// Since is the time at which the first of the failed attempts of the present move began, where the
	// move has a limit over all of them (resolve, pull).
	Since time.Time `json:"since,omitzero"`
	// CutOff: the latest attempt failed because of an outage of Podman.
	CutOff bool `json:"cutOff,omitempty"`
	// AwaySince is the first failure of the present move that did not count because of an outage.
	AwaySince time.Time `json:"awaySince,omitzero"`
	// Last is the failure of the latest attempt, for people who ask why it takes so long.
	Last string `json:"last,omitempty"`
}

func (r *Retry) tried() int { r.Attempts++; return r.Attempts }

func (r *Retry) persisted() int { r.Persist++; return r.Persist }

// postpone sets the next attempt n failures on.
func (r *Retry) postpone(at time.Time, f Failure, n int, jitter uint64) {
	r.NotUntil = at.Add(backoff(n, jitter))
	r.Last = f.Message
}
