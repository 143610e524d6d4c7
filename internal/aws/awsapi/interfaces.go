package awsapi

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/service"
)

// Tasks are the tasks of the host.
type Tasks interface {
	// States are all tasks that are recorded, as their owners know them, oldest first.
	States(ctx context.Context) []lifecycle.State
	// State is one of them; false: it is not recorded.
	State(ctx context.Context, id string) (lifecycle.State, bool)
	// Run records a task and has it run. If there is a task of that id already, it is
	// returned as it is. The error is a *RefusedError if the host
	// cannot run the task.
	Run(ctx context.Context, t NewTask) (lifecycle.State, error)
	// Stop asks a task to stop; reason is its stopped reason.
	Stop(ctx context.Context, id, reason string) error
	// Protect keeps the updates of services and a drain from stopping a task until then;
	// zero: no longer. It returns when that is recorded.
	Protect(ctx context.Context, id string, until time.Time) error
}

// NewTask is a task to run.
type NewTask struct {
	// ID is 32 lower-case hexadecimal digits.
	ID         string
	Definition Document
	// Overrides is an ECS TaskOverride; empty for none.
	Overrides json.RawMessage
	// Cluster and Client become those of lifecycle.Options.
	Cluster string
	Client  json.RawMessage
	// Once: the ID follows from a client token.
	Once bool
}

// Document is a registered task definition.
type Document struct {
	// Name is FAMILY:REVISION, Dir the directory from which relative paths count; empty for
	// none.
	Name, Dir string
	Revision  int
	Source    []byte
}

// Parser reads task definitions as this host does.
type Parser interface {
	// Check checks a document. What it needs besides, such as a source of a secret, does
	// not make it invalid. An error about the document is a *Failure.
	Check(source []byte) (Checked, error)
}

// Checked is a valid document: the family of its task, and the digest of what it says.
type Checked struct{ Family, Digest string }

// RefusedError explains why this host cannot run a task.
type RefusedError struct{ Cause error }

func (e *RefusedError) Error() string { return e.Cause.Error() }

func (e *RefusedError) Unwrap() error { return e.Cause }

// ErrDraining is the cause of a RefusedError of a host that takes no new tasks.
var ErrDraining = errors.New("the host is draining")

// Services are the services of the host, by name. An error that a client has caused is a
// *Failure.
type Services interface {
	States() []service.State
	// State returns a service of the host; false: there is none of the name.
	State(name string) (service.State, bool)
	Create(ctx context.Context, n NewService) (service.State, error)
	Update(ctx context.Context, name string, c ServiceChange) (service.State, error)
	// Remove has a service stop and remove its tasks. It is gone when they are.
	Remove(ctx context.Context, name string) (service.State, error)
	// StopAttempt gives up an attempt of the service's history, as service.StopAttempt does.
	StopAttempt(ctx context.Context, name string, number int, abort bool) error
	// ContinueAttempt answers the pause of an id at which an attempt waits: it continues, or is
	// rolled back. One that does not wait there is an InvalidParameterException.
	ContinueAttempt(ctx context.Context, name string, number int, pause string, rollback bool) error
}

// NewService is a service to make.
type NewService struct {
	Name string
	// Definition is FAMILY:REVISION.
	Definition string
	Count      int
	Config     service.Config
}

// ErrChanged is the error of a ServiceChange that was made from an earlier state of the service.
var ErrChanged = errors.New("the service was changed meanwhile")

// ServiceChange is what is to be different; nil and empty values leave things as they are.
type ServiceChange struct {
	// From is the state that it was made from. If the service has another primary deployment or configuration by then, the error is
	// ErrChanged. Nil: any.
	From       *service.State
	Definition string
	Count      *int
	// Config makes the new configuration of the present one.
	Config func(service.Config) service.Config
	// Force begins a deployment of the definition there is.
	Force bool
	// Notes become events.
	Notes []string
}

// Host tells what the host has: it is the container instance of every cluster.
type Host interface {
	Instance() (Instance, error)
	// ID returns the ID of the container instance.
	ID() string
	// SetDraining has the host take no new tasks, or take them again.
	SetDraining(ctx context.Context, draining bool) error
}

// Instance is the host.
type Instance struct {
	// ID is 32 lower-case hexadecimal digits, the same each time.
	ID           string
	RegisteredAt time.Time
	Draining     bool
	// All is what tasks may take together, Taken what they take.
	All, Taken Resources
	// Version is podtask's.
	Version string
}

// Resources are those of a host or of tasks.
type Resources struct {
	CPU    int64    // in units of 1/1024 vCPU
	Memory int64    // in bytes
	Ports  []string // of TCP; of a host those that no task may have
	UDP    []string
}
