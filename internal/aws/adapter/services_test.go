package adapter

import (
	"errors"
	"fmt"
	"testing"

	"github.com/podtask/podtask/internal/aws/awsapi"
	"github.com/podtask/podtask/internal/engine/services"
	svc "github.com/podtask/podtask/pkg/service"
)

type passing bool

func (passing) Error() string     { return "Podman does not answer" }
func (p passing) Temporary() bool { return bool(p) }

func TestClientFailures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want string
	}{
		{&services.BadServiceError{Cause: errors.New("the count is negative")}, "InvalidParameterException"},
		{&services.BadServiceError{Cause: passing(false)}, "InvalidParameterException"},
		{&services.BadServiceError{Cause: errors.Join(errors.New("one problem"), passing(true))}, ""}, // the client tries again
		{fmt.Errorf("%w: web", services.ErrNoService), "ServiceNotFoundException"},
		{svc.ErrNoAttempt, "ServiceDeploymentNotFoundException"},
		{fmt.Errorf("%w: it is STOPPED", svc.ErrEnded), "ConflictException"},
		{svc.ErrNoReturn, "InvalidParameterException"},
	} {
		got, f := "", new(awsapi.Failure)
		if errors.As(clientFailure(c.err), &f) {
			got = f.Code
		}
		if got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}
