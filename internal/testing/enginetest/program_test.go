package enginetest

import (
	"slices"
	"strings"
	"testing"
	"time"
)

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func TestProcess(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, steps string
		after       time.Duration
		ended       bool
		code        int
		lines       string
	}{
		{"no steps end with 0", "", 0, true, 0, ""},
		{"exit", "exit 300", 0, true, 44, ""},
		{"nothing happens before its time", "print a -- sleep 5s -- print b", 4 * time.Second, false, 0, "a"},
		{"and then it does", "print a -- sleep 5s -- print b -- exit 3", 5 * time.Second, true, 3, "a b"},
		{"forever", "sleep forever -- exit 1", time.Hour, false, 0, ""},
		{"a server continues after its last step", "serve 80", time.Hour, false, 0, ""},
		{"files", "write /f x -- exists /f -- cat /f -- remove /f -- exists /f", 0, true, 1, "x exists:"},
		{"an unknown step fails", "dance now", 0, true, 1, "dance:"},
		{"a step without arguments fails", "exit", 0, true, 1, "exit:"},
		{"an empty step fails", "-- exit 0", 0, true, 1, "an"},
	} {
		var lines []string
		p := newProcess(strings.Fields(c.steps), nil, newDisk(), begin, func(l line) {
			word, _, _ := strings.Cut(strings.TrimPrefix(l.text, "testbox: "), " ")
			lines = append(lines, word)
		})
		p.advance(begin.Add(c.after))
		if p.ended != c.ended || p.code != c.code || strings.Join(lines, " ") != c.lines {
			t.Errorf("%s: ended %t with %d, lines %q", c.name, p.ended, p.code, lines)
		}
	}
}

// FuzzProcess: a process never ends before it began, nor twice, and does the
// same in one go as in many.
func FuzzProcess(f *testing.F) {
	f.Add("print a -- sleep 2s -- write /f -- wait /f -- exit 3", uint8(3))
	f.Add("term ignore -- lines 3 -- sleep forever", uint8(1))
	f.Add("-- --", uint8(0))
	f.Fuzz(func(t *testing.T, steps string, seconds uint8) {
		if len(steps) > 1000 || strings.Contains(steps, "lines") && len(steps) > 40 {
			return
		}
		until := begin.Add(time.Duration(seconds) * time.Second)
		play := func(stops ...time.Time) (p *process, lines []string) {
			p = newProcess(strings.Fields(steps), nil, newDisk(), begin, func(l line) {
				if lines = append(lines, l.text); len(lines) > 10000 {
					t.Skip("too long")
				}
			})
			for _, at := range stops {
				p.advance(at)
			}
			return p, lines
		}
		var each []time.Time
		for s := begin; !s.After(until); s = s.Add(time.Second) {
			each = append(each, s)
		}
		once, a := play(until)
		many, b := play(each...)
		if once.ended != many.ended || once.code != many.code || !slices.Equal(a, b) {
			t.Errorf("in one go: ended %t, code %d, %q; in many: ended %t, code %d, %q", once.ended, once.code, a, many.ended, many.code, b)
		}
		if once.ended && (once.at.Before(begin) || once.at.After(until)) {
			t.Errorf("it ended at %v", once.at)
		}
	})
}
