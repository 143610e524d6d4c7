package effects

import (
	"context"
	"errors"
	"strings"

	"github.com/podtask/podtask/internal/engine/act/imagestore"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/images"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/transient"
)

// plain replaces the texts of Go's context errors in messages for users, and a code of registries that Podman repeats as its text.
var plain = strings.NewReplacer(
	": "+context.DeadlineExceeded.Error(), "",
	context.DeadlineExceeded.Error(), "no answer within the time limit",
	context.Canceled.Error(), "canceled",
	"manifest unknown: manifest unknown", "manifest unknown: the registry has no such tag or digest",
)

// ErrCreateConfig is Kubernetes' reason for a container that cannot be created because of
// its specification.
const ErrCreateConfig = "CreateContainerConfigError"

// Failure converts an error to data for the state machine. It is the only place that derives
// a failure's class from an error.
func Failure(err error) lifecycle.Failure {
	if err == nil {
		return lifecycle.Failure{}
	}
	f := lifecycle.Failure{Class: lifecycle.Permanent, Message: plain.Replace(err.Error())}
	var pod *libpod.Error
	var img *images.Error
	switch {
	case libpod.Away(err):
		f.Class = lifecycle.Outage
	case errors.As(err, new(*transient.Error)): // the mark overrides the class of its cause
		f.Class = lifecycle.Temporary
	case errors.As(err, &pod):
		f.Class, f.ExitCode = podmanClass(pod)
	case errors.As(err, &img):
		f.Class = imageClass(img)
	case transient.Is(err):
		f.Class = lifecycle.Temporary
	case errors.Is(err, context.DeadlineExceeded):
		f.Class = lifecycle.Timeout
	case errors.Is(err, context.Canceled):
		f.Class = lifecycle.Canceled
	}
	if errors.Is(err, libpod.RootUser) {
		f.Name = ErrCreateConfig
	}
	if _, ok := errors.AsType[*imagestore.CredentialsError](err); ok && f.Class == lifecycle.Permanent {
		f.Name = "CannotPullContainerAuthError"
	}
	return f
}

func podmanClass(e *libpod.Error) (class lifecycle.Class, exitCode int) {
	switch {
	case e.Class == libpod.Canceled:
		return lifecycle.Canceled, 0
	case e.Class == libpod.Timeout:
		return lifecycle.Timeout, 0
	case e.Class == libpod.NoImage && e.Op == "create container":
		return lifecycle.NoImage, 0
	case e.Class == libpod.CommandNotFound:
		return lifecycle.Permanent, 127
	case e.Class == libpod.CommandNotExecutable:
		return lifecycle.Permanent, 126
	case e.Class == libpod.QuotaExceeded:
		return lifecycle.QuotaUsedUp, 0
	case transient.Is(e):
		return lifecycle.Temporary, 0
	default:
		return lifecycle.Permanent, 0
	}
}

func imageClass(e *images.Error) lifecycle.Class {
	switch {
	case e.Class == images.Canceled:
		return lifecycle.Canceled
	case e.Class == images.Timeout:
		return lifecycle.Timeout
	case transient.Is(e):
		return lifecycle.Temporary
	default:
		return lifecycle.Permanent
	}
}
