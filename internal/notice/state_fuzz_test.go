package notice_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/notice"
)

// FuzzState: a record that was edited is refused, or can be worked with; it never ends the agent, and makes no storm.
func FuzzState(f *testing.F) {
	for _, text := range []string{
		`{"outbox":[{"id":"x","rule":"all"}]}`,
		`{"restarts":{"service/web":[]}}`,
		`{"rules":{"all":{"held":3}}}`,
		`{"rules":{"all":{"held":-3,"samples":[{"id":"0123456789abcdef0123456789abcdef"}]}}}`,
		`{"outbox":[{"id":"0123456789abcdef0123456789abcdef","rule":"all"}],"rules":{"all":{"attempts":-5,"from":"9999-12-31T23:59:59Z","next":"9999-12-31T23:59:59Z"}}}`,
		`{"open":{"x":{"condition":"nonsense","wellAt":"0001-01-01T00:00:01Z"}},"rules":{"all":{"held":1,"length":9223372036854775807,"samples":[{"id":"0123456789abcdef0123456789abcdef"}]}}}`,
		`{"open":{"failed service/web":{"condition":"failed","subject":"service/web","told":{"all":"9999-01-01T00:00:00Z"},"wellAt":"2026-01-01T00:00:00Z"}},"cursor":18446744073709551615}`,
		`null`,
	} {
		f.Add([]byte(text))
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text []byte) {
		var s notice.State
		if json.Unmarshal(text, &s) != nil || notice.Check(s) != nil {
			return
		}
		rules, before := all, len(s.Outbox)
		code := 1
		s = notice.Step(rules, s, now, []notice.Event{{Seq: s.Cursor + 1, At: now, About: notice.About{Kind: notice.Task, Name: "web", Task: "1", Service: "web"}, Status: "STOPPED", Reason: "EssentialContainerExited: x", ExitCode: &code}})
		s = notice.Observe(rules, s, now, []notice.Look{{Condition: notice.Disk, Bad: map[string]string{"/": "full"}}})
		notice.Next(s)
		for _, m := range notice.Due(s, now) {
			m.Text("bed")
			s = notice.NotDelivered(s, m.ID, now, notice.Failure{Text: "x"}, 0.5)
			s = notice.Delivered(s, m.ID, now)
		}
		if len(s.Outbox) > before+len(s.Open)+len(rules)*20+20 {
			t.Errorf("%d messages became %d", before, len(s.Outbox))
		}
		if err := notice.Check(s); err != nil {
			t.Errorf("the next state is none: %v", err)
		}
	})
}
