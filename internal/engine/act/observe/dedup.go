package observe

import (
	"hash/maphash"
	"slices"
	"time"

	"github.com/podtask/podtask/internal/host/libpod"
)

// logDeduper remembers the last lines that were read of a log, so that another reading
// of its end tells which lines the first one left out.
type logDeduper struct {
	// fromStart: the first reading began with the first line there is.
	fromStart bool
	// whole: the reading before left nothing out, but the next one may.
	whole bool
	// lines are those of the present reading, of whole seconds, in the log's order;
	// left are those of the one before that this one has not come to.
	lines, left []seenLine
	dropped     bool // lines were longer once
}

// seenLine stands for a line. Podman tells the second of a line, not more.
type seenLine struct {
	second time.Time
	hash   uint64
}

// maxDedupLines is about how many lines are remembered: what a container may well write
// in the second before its end.
const maxDedupLines = 1 << 14

var dedupSeed = maphash.MakeSeed()

// since is the time from which on the log is to be read again; false if nothing has
// been read.
func (r *logDeduper) since() (time.Time, bool) {
	if len(r.lines) == 0 {
		return time.Time{}, false
	}
	return r.lines[0].second.Add(-1), true // Podman leaves out what is just as old
}

// resume begins a reading of the log from since on. The function it returns is
// called for each line and tells whether it is new.
func (r *logDeduper) resume() func(l libpod.LogLine) bool {
	r.lines, r.left = nil, append(r.lines, r.left...)
	// Lines before the first one we know are older than what was asked for.
	older := len(r.left) > 0 && (r.dropped || !r.fromStart)
	whole := r.whole
	r.whole = false
	return func(l libpod.LogLine) bool {
		line := seenLine{l.Time, maphash.String(dedupSeed, string(l.Stream)+" "+l.Text)}
		if whole {
			r.skipTo(line)
		}
		known := len(r.left) > 0 && r.left[0] == line
		if older = older && !known; older {
			return false
		}
		r.add(line)
		if known {
			r.left = r.left[1:]
		}
		return !known
	}
}

// skipTo takes lines before a known one for read.
func (r *logDeduper) skipTo(line seenLine) {
	for range max(0, slices.Index(r.left, line)) {
		r.add(r.left[0])
		r.left = r.left[1:]
	}
}

// add remembers a line, and forgets the older half of the seconds when there are
// too many.
func (r *logDeduper) add(line seenLine) {
	r.lines = append(r.lines, line)
	if len(r.lines) < 2*maxDedupLines {
		return
	}
	keep := maxDedupLines
	for keep < len(r.lines)-1 && r.lines[keep].second.Equal(r.lines[keep-1].second) {
		keep++
	}
	r.lines = append([]seenLine(nil), r.lines[keep:]...)
	r.dropped = true
}
