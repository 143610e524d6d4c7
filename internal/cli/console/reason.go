package console

import (
	"fmt"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Reason returns a reason as one or two sentences, without the last full stop: what a task or service waits for, how
// long already, and what podtask does when: "pulling web failed once, error: refused. podtask tries again in 3s".
// The first letter is that of the reason, so that it can follow a colon.
func Reason(r api.Reason, now time.Time) string {
	text := strings.TrimRight(term.Line(r.Text), ".")
	if spent := now.Sub(r.Since); !r.Since.IsZero() && r.Code != lifecycle.WhyEnded && spent >= time.Second {
		text += fmt.Sprintf(" (%s so far)", ReasonSpan(spent))
	}
	if r.Until.IsZero() || r.Then == "" {
		return text
	}
	when := "now"
	if left := r.Until.Sub(now); left >= time.Second {
		when = "in " + ReasonSpan(left)
	}
	return text + ". " + Capital(term.Line(r.Then)) + " " + when
}

// ReasonSpan formats a duration as Span does, from an hour on in whole minutes, and without what is zero: "1m", "2h".
func ReasonSpan(d time.Duration) string {
	if d >= time.Hour {
		d = d.Round(time.Minute)
	}
	text := Span(d)
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Capital begins a sentence: with a capital letter, unless its first word is a name.
func Capital(text string) string {
	switch first, _, _ := strings.Cut(text, " "); first {
	case "a", "all", "connections", "deployment", "it", "its", "next", "no", "the":
		return strings.ToUpper(text[:1]) + text[1:]
	}
	return text
}
