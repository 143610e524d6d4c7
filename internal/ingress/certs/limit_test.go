package certs

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mholt/acmez/v3/acme"
)

// A server that has refused a request for a limit is not asked before the time that it says, or for an hour.
func TestLimitsAreRespected(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC)
	limited := func(detail string) error {
		return fmt.Errorf("order: %w", acme.Problem{Type: acme.ProblemTypeRateLimited, Status: 429, Detail: detail})
	}
	for _, c := range []struct {
		err    error
		pauses time.Duration
	}{
		{limited("too many certificates (5) already issued in the last 168h0m0s, retry after 2026-11-28 02:30:00 UTC: see https://letsencrypt.org/docs/rate-limits/"), 16*time.Hour + 30*time.Minute},
		{limited("retry after 2026-11-27T10:05:00Z"), 5 * time.Minute},
		{limited("retry after 2026-11-01 10:05:00 UTC"), time.Hour}, // in the past
		{limited("retry after 2036-11-01 10:05:00 UTC"), time.Hour}, // not to be believed
		{limited("retry after 2026-99-99 10:05:00 UTC"), time.Hour},
		{limited("slow down"), time.Hour},
		{acme.Problem{Type: acme.ProblemTypeServerInternal, Detail: "retry after 2026-11-28 02:30:00 UTC"}, 0},
		{errors.New("HTTP 503"), 0},
	} {
		at := now
		m, err := New(t.Context(), Config{Dir: t.TempDir(), Now: func() time.Time { return at }})
		if err != nil {
			t.Fatal(err)
		}
		tell := func(event string) error {
			return m.event(t.Context(), event, map[string]any{"identifier": "a.test", "error": c.err})
		}
		if err := errors.Join(tell("cert_obtaining"), tell("cert_failed")); err != nil {
			t.Fatal(err)
		}
		if err := tell("cert_obtaining"); (err != nil) != (c.pauses > 0) {
			t.Errorf("%v: it is asked again: %v", c.err, err)
		}
		text := m.failures["a.test"].explain(nil)
		if c.pauses > 0 && !strings.Contains(text, "not asked before "+now.Add(c.pauses).Format(time.RFC3339)) {
			t.Errorf("%v: the problem is %q", c.err, text)
		}
		if err := m.event(t.Context(), "cert_obtaining", map[string]any{"identifier": "b.test"}); err != nil {
			t.Errorf("another name: %v", err)
		}
		at = now.Add(c.pauses - time.Second)
		if err := tell("cert_obtaining"); (err != nil) != (c.pauses > 0) {
			t.Errorf("%v: a second before its end: %v", c.err, err)
		}
		at = now.Add(c.pauses)
		if err := tell("cert_obtaining"); err != nil {
			t.Errorf("%v: after %v: %v", c.err, c.pauses, err)
		}
	}
}
