package libpod

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// hungCall makes a call that gets no answer, and returns its error and how long it took.
func hungCall(ctx context.Context, p *pulse) (took time.Duration, err error) {
	began := time.Now()
	watched, done := p.watch(ctx)
	<-watched.Done()
	err = done(fail(watched, "stop container", "web", watched.Err()))
	return time.Since(began), err
}

// silent is a ping that gets no answer.
func silent(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestAServiceThatHangsIsNoticed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // so that calls that are not ended fail the test
		defer cancel()
		var missed []int
		p := &pulse{ping: silent, socket: func() string { return "/run/p.sock" }, ending: func(n int) func() {
			missed = append(missed, n)
			if n < 3 {
				return nil
			}
			return func() {}
		}}
		other := make(chan error)
		go func() {
			_, err := hungCall(ctx, p)
			other <- err
		}()
		took, err := hungCall(ctx, p)
		for _, err := range []error{err, <-other} {
			if !errors.Is(err, Unavailable) || !strings.Contains(err.Error(), "stop container web: ") || !strings.Contains(err.Error(), "/run/p.sock") {
				t.Errorf("a call that hangs: %v", err)
			}
		}
		if took != pulseAfter+pulseLimit || took > 10*time.Second {
			t.Errorf("it took %s", took)
		}
		if _, err := hungCall(ctx, p); err == nil {
			t.Error("a call to a service that still hangs did not end")
		}
		if _, err := hungCall(ctx, p); !strings.Contains(err.Error(), "was ended") {
			t.Errorf("the service was ended, yet %v", err)
		}
		if len(missed) != 3 || missed[2] != 3 {
			t.Errorf("pings without an answer: %v", missed)
		}
	})
}

func TestOutageLastsWhileCallsWaitForAnAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan struct{})
		ping := func(ctx context.Context) error {
			select {
			case <-answers:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		p := &pulse{ping: ping, socket: func() string { return "" }, ending: func(int) func() { return nil }}
		began := time.Now()
		check := func(when string, want time.Duration) {
			t.Helper()
			synctest.Wait()
			since := p.outageSince(time.Now())
			if want == 0 && !since.IsZero() || want > 0 && !since.Equal(began.Add(want)) {
				t.Errorf("%s the outage began at %s, want %s", when, since.Sub(began), want)
			}
		}
		_, done := p.watch(t.Context())
		<-time.After(pulseAfter)
		check("when the ping is sent,", 0)
		<-time.After(outageAfter)
		check("soon after that,", pulseAfter)
		<-time.After(pulseLimit + pulsePause)
		check("at the second ping,", pulseAfter)
		answers <- struct{}{}
		check("after an answer,", 0)
		<-time.After(pulsePause + outageAfter)
		check("at the next ping,", time.Now().Add(-outageAfter).Sub(began))
		_ = done(nil)
		check("without a call,", 0)
	})
}

// A call may take long for good reasons: a stop with a grace period, a pull.
func TestAServiceThatAnswersPingsIsLeftAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pings := 0
		slow := func(ctx context.Context) error {
			pings++
			select {
			case <-time.After(pulseLimit - time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		p := &pulse{ping: slow, socket: func() string { return "" }, ending: func(int) func() { t.Error("ended"); return nil }}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if took, err := hungCall(ctx, p); took != time.Minute || !errors.Is(err, Timeout) {
			t.Errorf("%v after %s", err, took)
		}
		if pings < 4 {
			t.Errorf("%d pings in a minute", pings)
		}
	})
}

// On a busy machine many calls take long at once. Each causes a ping, but none causes a row of
// pings of its own.
func TestManySlowCallsShareTheirPings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const calls = 20
		pings := 0
		p := &pulse{ping: func(context.Context) error { pings++; return nil }}
		began := time.Now()
		var all []func(error) error
		for range calls {
			_, done := p.watch(t.Context())
			all = append(all, done)
			<-time.After(time.Second / 10)
		}
		<-time.After(time.Minute)
		took := time.Since(began)
		for _, done := range all {
			_ = done(nil)
		}
		if most := calls + int(took/pulsePause); pings > most || pings < int(time.Minute/pulsePause) {
			t.Errorf("%d pings in %s, want at most %d", pings, took, most)
		}
		before := pings
		<-time.After(time.Minute)
		if pings != before {
			t.Errorf("%d pings after the end of all calls", pings-before)
		}
	})
}

// Calls that end soon, or a service that is gone, cause no ping without an answer.
func TestShortCallsArePingedNever(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &pulse{ping: func(context.Context) error { t.Error("pinged"); return nil }}
		for range 10 {
			_, done := p.watch(t.Context())
			<-time.After(pulseAfter / 2)
			if err := done(nil); err != nil {
				t.Error(err)
			}
		}
		<-time.After(time.Minute)
	})
	synctest.Test(t, func(t *testing.T) {
		p := &pulse{ping: func(context.Context) error { return errors.New("connection refused") }, ending: func(int) func() { t.Error("ended"); return nil }}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if took, err := hungCall(ctx, p); took != time.Minute || !errors.Is(err, Timeout) {
			t.Errorf("%v after %s", err, took)
		}
	})
}
