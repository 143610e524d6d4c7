//go:build !race

package instance

import (
	"fmt"
	"testing"
	"time"
)

// recordedAgain returns the address of a link that AWS's agent opens again, as it was recorded.
func recordedAgain(t *testing.T, on string) (query string) {
	t.Helper()
	for _, x := range recording(t, "links") {
		if x.On == on && x.Op == "connect" && x.From == "agent" {
			query = masked(x.Query) // the latest
		}
	}
	return query
}

// Thirteen hours of the false clock with a heartbeat each minute and a task each hour: links end when their life of 30 to 35 minutes
// does and are opened again at once, as AWS's agent was recorded to open them; the endpoints are asked for again after twelve hours;
// no message stays without an answer, and each task runs once.
func TestThirteenHoursOfAConversation(t *testing.T) {
	recorded := map[string]string{"acs": recordedAgain(t, "acs"), "tcs": recordedAgain(t, "tcs")}
	withLab(t, func(l *lab) {
		l.join()
		begun := time.Now()
		const hours = 13
		for minute := range hours * 60 {
			l.deliver("HeartbeatMessage", fmt.Sprintf("hb-%d", minute), map[string]any{"healthy": true})
			if minute%60 == 30 {
				task := 1 + minute/60
				l.deliver("PayloadMessage", fmt.Sprintf("payload-%d", task), map[string]any{"seqNum": task, "tasks": []any{simple(task)}})
				l.life(task, 0)
			}
			if rest := time.Until(begun.Add(time.Duration(minute+1) * time.Minute)); rest > 0 {
				l.pass(rest)
			}
			if n := len(l.plane.Of("http", "DiscoverPollEndpoint")); n != 1 && time.Since(begun) < 12*time.Hour {
				t.Fatalf("the endpoints are asked for %d times in %s", n, time.Since(begun))
			}
		}
		for task := 1; task <= hours; task++ {
			l.expect(task, "PENDING", "RUNNING", "STOPPED")
		}
		if n := len(l.plane.Of("http", "DiscoverPollEndpoint")); n < 2 || n > 3 {
			t.Errorf("the endpoints are asked for %d times in %d hours", n, hours)
		}
		least, most := hours*60/36, hours*60/30+1
		for on, want := range recorded {
			if n := len(l.plane.Of(on, "open")); n < least || n > most {
				t.Errorf("%s: %d links in %d hours, want %d to %d", on, n, hours, least, most)
			}
			l.checkOpenedAgain(on, want)
		}
	})
}

// checkOpenedAgain checks that each link but the first was opened with the address that was recorded, at once after the one
// before it.
func (l *lab) checkOpenedAgain(on, recorded string) {
	l.t.Helper()
	var closed time.Time
	for _, e := range inOrder(l.plane.Events()) {
		switch {
		case e.On != on:
		case e.Op == "closed":
			closed = e.At
		case e.Op == "connect" && !closed.IsZero():
			query := make(map[string]string)
			for name := range e.Query {
				query[name] = e.Query.Get(name)
			}
			if got := masked(query); got != recorded {
				l.t.Errorf("%s is opened again with %s, and AWS's agent was recorded with %s", on, got, recorded)
				return
			}
			if pause := e.At.Sub(closed); pause > 2*time.Second {
				l.t.Errorf("%s is opened again after %s", on, pause)
			}
		}
	}
}
