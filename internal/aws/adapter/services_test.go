package adapter

import (
	"errors"
	"fmt"
	"testing"

	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
	"github.com/podtask/podtask/internal/engine/run/services"
	svc "github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/transient"
)

var errPodman = errors.New("podman does not answer")

func TestClientFailures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want string
	}{
		{&services.BadServiceError{Cause: errors.New("the count is negative")}, "InvalidParameterException"},
		{&services.BadServiceError{Cause: errPodman}, "InvalidParameterException"},
		{&services.BadServiceError{Cause: errors.Join(errors.New("one problem"), transient.Mark(errPodman))}, ""}, // the client tries again
		{fmt.Errorf("%w: web", services.ErrNoService), "ServiceNotFoundException"},
		{svc.ErrNoAttempt, "ServiceDeploymentNotFoundException"},
		{fmt.Errorf("%w: it is STOPPED", svc.ErrEnded), "ConflictException"},
		{svc.ErrNoReturn, "InvalidParameterException"},
	} {
		got, f := "", new(protocol.Failure)
		if errors.As(clientFailure(c.err), &f) {
			got = f.Code
		}
		if got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}
