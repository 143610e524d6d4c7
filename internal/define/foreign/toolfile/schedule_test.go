package toolfile

import (
	"strings"
	"testing"
	"time"
)

func TestAScheduleOfAnotherTool(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ rule, due, flags, lost string }{
		{"an expression and a time zone are flags", "{expression: rate(1 hour), zone: Europe/Vienna}", "--at rate(1 hour) --timezone Europe/Vienna", ""},
		{"a state that is off is paused", "{expression: rate(1 hour), state: disabled}", "--at rate(1 hour) --paused", ""},
		{"a state for more events is on", "{expression: rate(1 hour), state: ENABLED_WITH_ALL_CLOUDTRAIL_MANAGEMENT_EVENTS}", "--at rate(1 hour)", ""},
		{"several tasks are one", "{expression: rate(1 hour), count: 2}", "--at rate(1 hour)", "the schedule starts 2 tasks: one is started here"},
		{"overrides are lost", "{expression: rate(1 hour), input: '{\"containerOverrides\": []}'}", "--at rate(1 hour)", "the overrides of the target are not applied"},
		{"no overrides are not", "{expression: rate(1 hour), input: ' {} '}", "--at rate(1 hour)", ""},
		{"events alone make no schedule", "{pattern: {source: [x]}}", "", "eventPattern: on AWS events start the task; here nothing watches for them"},
		{"a beginning that is to come pauses", "{expression: rate(1 hour), start: '2026-12-01'}", "--at rate(1 hour) --paused", "startDate 2026-12-01: a schedule has no beginning here, so it is created paused"},
		{"a beginning that has been does not", "{expression: rate(1 hour), start: '2026-11-01T00:00:00'}", "--at rate(1 hour)", ""},
		{"an end that is to come is lost", "{expression: rate(1 hour), end: '2026-12-01T00:00:00Z'}", "--at rate(1 hour)", "endDate 2026-12-01T00:00:00Z: a schedule has no end here"},
		{"an end that has been pauses", "{expression: rate(1 hour), end: '2026-11-01'}", "--at rate(1 hour) --paused", "endDate 2026-11-01 has passed: on AWS it starts nothing anymore, so it is created paused"},
		{"a time that has been pauses", "{expression: at(2026-11-28T11:00:00)}", "--at at(2026-11-28T11:00:00) --paused", "at(2026-11-28T11:00:00) has passed: on AWS it starts nothing anymore, so it is created paused"},
		{"a time of another zone may still come", "{expression: at(2026-11-28T11:00:00), zone: America/New_York}", "--at at(2026-11-28T11:00:00) --timezone America/New_York", ""},
		{"a rate that a timer cannot have is lost", "{expression: rate(7 minutes)}", "", "a schedule: rate(7 minutes): systemd has no times for a rate that divides neither an hour nor"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			t.Parallel()
			n, r := parsed(t, tc.due)
			r.Now = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
			res := &Result{Name: "s"}
			r.AddDue(res, Due{
				At: n, Expression: TextOf(n.Member("expression")), Zone: TextOf(n.Member("zone")), State: n.Member("state"), Start: n.Member("start"), End: n.Member("end"),
				Count: n.Member("count"), Input: n.Member("input"), Pattern: n.Member("pattern"),
			})
			flags := ""
			for _, s := range res.Schedules {
				flags += strings.Join(s.Flags, " ")
			}
			if flags != tc.flags || !strings.HasPrefix(lost(r), tc.lost) || tc.lost == "" && lost(r) != "" || r.Err() != nil {
				t.Errorf("%s; lost %q; %v", flags, lost(r), r.Err())
			}
		})
	}
	for _, tc := range []struct{ rule, due, want string }{
		{"a state that is neither", "{expression: rate(1 hour), state: paused}", `state is ENABLED or DISABLED, not "PAUSED"`},
		{"a number of tasks that is none", "{expression: rate(1 hour), count: some}", `the number of tasks is a whole number, not "some"`},
		{"a date that is none", "{expression: rate(1 hour), end: soon}", `endDate: "soon" is no date such as 2030-01-31T00:00:00Z`},
		{"no expression", "{count: 1}", "the schedule has no expression"},
	} {
		n, r := parsed(t, tc.due)
		r.AddDue(&Result{}, Due{At: n, Expression: TextOf(n.Member("expression")), State: n.Member("state"), End: n.Member("end"), Count: n.Member("count")})
		if err := r.Err(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s is refused: %v", tc.rule, err)
		}
	}
	_, r := parsed(t, "{}")
	res := &Result{Name: "s"}
	for range 2 {
		r.AddSchedule(res, Due{Expression: "rate(1 hour)"}, false)
	}
	if res.Schedules[0].Name != "s" || res.Schedules[1].Name != "s-2" {
		t.Errorf("a second schedule has a number: %v", res.Schedules)
	}
}
