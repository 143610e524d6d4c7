package logsend

import (
	"slices"
	"time"

	"github.com/podtask/podtask/internal/logs/logroute"
)

// The limits of one batch.
const (
	BatchBytes = 256 << 10
	BatchLines = 1000
)

// LineBytes is the length at which Docker cuts lines for all drivers but awslogs.
const LineBytes = 16 << 10

// Queue holds the lines that wait to be sent, T is what they become. The zero value is empty.
type Queue[T any] struct {
	lines []line[T]
	bytes int
	// passed is the position behind what is not sent and came before all lines.
	passed logroute.Position
	moved  bool
}

type line[T any] struct {
	record T
	entry  logroute.Entry
}

// Add takes in a line as a record.
func (q *Queue[T]) Add(e logroute.Entry, record T) {
	q.lines = append(q.lines, line[T]{record, e})
	q.bytes += len(e.Text)
}

// Skip takes in a line that is not sent.
func (q *Queue[T]) Skip(e logroute.Entry) {
	if n := len(q.lines); n > 0 {
		q.lines[n-1].entry.Next = e.Next
		return
	}
	q.passed, q.moved = e.Next, true
}

// Full reports whether there is enough for a batch.
func (q *Queue[T]) Full() bool { return q.bytes >= BatchBytes || len(q.lines) >= BatchLines }

// Settle implements the method of senders for which every line is whole.
func (q *Queue[T]) Settle(time.Time) bool { return false }

// Records returns the records of the next batch.
func (q *Queue[T]) Records() []T {
	all := make([]T, len(q.lines))
	for i := range q.lines {
		all[i] = q.lines[i].record
	}
	return all
}

// Done takes out the first n lines, of which some are lost. With n = 0 it passes over what is
// not sent.
func (q *Queue[T]) Done(n, lost int, why string) logroute.Sent {
	if n == 0 {
		sent := logroute.Sent{Next: q.passed, Moved: q.moved}
		q.moved = false
		return sent
	}
	sent := logroute.Sent{Moved: true, Next: q.lines[n-1].entry.Next, Lines: int64(n - lost), Lost: int64(lost), Why: why}
	for _, l := range q.lines[:n] {
		q.bytes -= len(l.entry.Text)
		sent.Bytes += int64(len(l.entry.Text))
		if l.entry.Time.After(sent.Until) {
			sent.Until = l.entry.Time
		}
	}
	q.lines = slices.Delete(q.lines, 0, n)
	q.moved = false
	return sent
}
