package libpod

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// refusal is the answer of a service that has panicked.
func refusal() error {
	return &Error{Op: "inspect container", Class: ReadOnly, Status: 500, Cause: "open /x/containers.lock: read-only file system"}
}

// hang makes a call that gets no answer, and returns its error and how long it took.
func hang(ctx context.Context, s *storage, grace time.Duration) (took time.Duration, err error) {
	began := time.Now()
	limited, done := s.within(ctx, grace, true)
	<-limited.Done()
	err = done(fail(limited, "stop container", "web", limited.Err()))
	return time.Since(began), err
}

// Calls that hang after the storage was read-only end soon, with the reason; those that were
// in flight do too.
func TestCallsToAServiceThatHangsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ended := 0
		s := &storage{broken: func() { ended++ }}
		inFlight := make(chan error)
		go func() {
			_, err := hang(t.Context(), s, 0)
			inFlight <- err
		}()
		synctest.Wait()
		for range 2 {
			_, done := s.within(t.Context(), 0, false)
			if err := done(refusal()); !errors.Is(err, ReadOnly) {
				t.Errorf("the refused call: %v", err)
			}
		}
		took, err := hang(t.Context(), s, 30*time.Second)
		for _, err := range []error{err, <-inFlight} {
			if !errors.Is(err, ReadOnly) || !strings.Contains(err.Error(), "stop container web: ") || !strings.Contains(err.Error(), "restart the service") {
				t.Errorf("a call that hangs: %v", err)
			}
		}
		if took != 30*time.Second+hangLimit || ended != 1 {
			t.Errorf("it took %s; the service was ended %d times", took, ended)
		}
	})
}

// What shows that the service does not hang, or has ended, ends the limit.
func TestServiceWorksAgain(t *testing.T) {
	t.Parallel()
	for name, sign := range map[string]error{
		"a call that writes":              nil,
		"a connection that breaks":        &Error{Class: Temporary, Cause: "the connection to Podman broke"},
		"a service that does not answer":  &Error{Class: Unavailable},
		"the error of a broken transport": fail(t.Context(), "stop container", "web", &net.OpError{Op: "read", Err: errors.New("reset")}),
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &storage{broken: func() {}}
			_, done := s.within(t.Context(), 0, false)
			_ = done(refusal())
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			limited, end := s.within(ctx, 0, false) // in flight
			_, done = s.within(t.Context(), 0, true)
			_ = done(sign)
			<-limited.Done()
			if err := end(fail(limited, "inspect container", "web", limited.Err())); !errors.Is(err, Timeout) {
				t.Errorf("after %s, a call in flight: %v", name, err)
			}
			if took, err := hang(ctx, s, 0); !errors.Is(err, Timeout) || took != 0 {
				t.Errorf("after %s, a call: %v after %s", name, err, took)
			}
		})
	}
}

// A reading call may succeed while calls that write hang.
func TestAReadingCallProvesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &storage{broken: func() {}}
		_, done := s.within(t.Context(), 0, false)
		_ = done(refusal())
		_, done = s.within(t.Context(), 0, false)
		_ = done(nil)
		if _, err := hang(t.Context(), s, 0); !errors.Is(err, ReadOnly) {
			t.Error(err)
		}
	})
}
