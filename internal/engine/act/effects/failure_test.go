package effects

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/transient"
)

func TestFailureClasses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		err  error
		want lifecycle.Failure
	}{
		{"success", nil, lifecycle.Failure{}},
		{"a missing command exits 127", &libpod.Error{Class: libpod.CommandNotFound}, lifecycle.Failure{Class: lifecycle.Permanent, ExitCode: 127}},
		{"a command that is none exits 126", &libpod.Error{Class: libpod.CommandNotExecutable}, lifecycle.Failure{Class: lifecycle.Permanent, ExitCode: 126}},
		{"no service is an outage", &libpod.Error{Class: libpod.Unavailable}, lifecycle.Failure{Class: lifecycle.Outage}},
		{"so is a service that ended, whatever was made of it", transient.Mark(&libpod.Error{Class: libpod.Temporary, Cause: libpod.ConnectionBroke + " (EOF)"}), lifecycle.Failure{Class: lifecycle.Outage}},
		{"a service that refuses is there", &libpod.Error{Class: libpod.Temporary, Status: 500}, lifecycle.Failure{Class: lifecycle.Temporary}},
		{"an image lost before the create is pulled again", &libpod.Error{Op: "create container", Class: libpod.NoImage}, lifecycle.Failure{Class: lifecycle.NoImage}},
		{"an image the registry lacks is not", &libpod.Error{Op: "pull image", Class: libpod.NoImage, Cause: "manifest unknown: manifest unknown"}, lifecycle.Failure{Class: lifecycle.Permanent}},
		{"a used-up quota may have room when another container ends", &libpod.Error{Class: libpod.QuotaExceeded}, lifecycle.Failure{Class: lifecycle.QuotaUsedUp}},
		{"a taken port stays taken", &libpod.Error{Class: libpod.PortInUse}, lifecycle.Failure{Class: lifecycle.Permanent}},
		{"a deadline of podtask", context.DeadlineExceeded, lifecycle.Failure{Class: lifecycle.Timeout}},
		{"a deadline of podtask, with what was tried", fmt.Errorf("pull app: not done after 2h: %w", context.DeadlineExceeded), lifecycle.Failure{Class: lifecycle.Timeout}},
		{"canceled by podtask", context.Canceled, lifecycle.Failure{Class: lifecycle.Canceled}},
	} {
		got := Failure(c.err)
		for _, raw := range []string{"context deadline exceeded", "context canceled", "unknown: manifest unknown"} {
			if strings.Contains(got.Message, raw) {
				t.Errorf("%s: a user sees %q", c.name, got.Message)
			}
		}
		got.Message = ""
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestRemovalsThatPodmanRefusesAreTriedAgain(t *testing.T) {
	t.Parallel()
	busy := &libpod.Error{Op: "remove pod", Class: libpod.Other, Cause: "device or resource busy"}
	taken := &libpod.Error{Op: "remove volume", Class: libpod.Conflict, Cause: "it belongs to another task"}
	for _, c := range []struct {
		name string
		err  error
		want lifecycle.Class
		says []string
	}{
		{"success", nil, lifecycle.OK, nil},
		{"a busy mount", busy, lifecycle.Temporary, []string{"busy"}},
		{"another task's object", taken, lifecycle.Permanent, []string{"another task"}},
		{"both, and neither is lost", errors.Join(busy, taken), lifecycle.Temporary, []string{"busy", "another task"}},
	} {
		got := Failure(RetryRemoval(c.err))
		if got.Class != c.want {
			t.Errorf("%s: class %v, want %v", c.name, got.Class, c.want)
		}
		for _, text := range c.says {
			if !strings.Contains(got.Message, text) {
				t.Errorf("%s: %q does not contain %q", c.name, got.Message, text)
			}
		}
	}
}
