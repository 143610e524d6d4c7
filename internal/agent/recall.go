package agent

import (
	"hash/maphash"
	"time"

	"github.com/podtask/podtask/pkg/libpod"
)

// recall remembers the last lines that were read of a log, so that another reading
// of its end tells which lines the first one left out.
type recall struct {
	// fromStart: the first reading began with the first line there is.
	fromStart bool
	// lines are those of the present reading, of whole seconds, in the log's order;
	// left are those of the one before that this one has not come to.
	lines, left []recalled
	dropped     bool // lines were longer once
}

// recalled stands for a line. Podman tells the second of a line, not more.
type recalled struct {
	second time.Time
	hash   uint64
}

// maxRecall is about how many lines are remembered: what a container may well write
// in the second before its end.
const maxRecall = 1 << 14

var recallSeed = maphash.MakeSeed()

// since is the time from which on the log is to be read again; false if nothing has
// been read.
func (r *recall) since() (time.Time, bool) {
	if len(r.lines) == 0 {
		return time.Time{}, false
	}
	return r.lines[0].second.Add(-1), true // Podman leaves out what is just as old
}

// resume begins a reading of the log from since on. The function it returns is
// called for each line and tells whether it is new.
func (r *recall) resume() func(l libpod.LogLine) bool {
	r.lines, r.left = nil, append(r.lines, r.left...)
	// Lines before the first one we know are older than what was asked for.
	older := len(r.left) > 0 && (r.dropped || !r.fromStart)
	return func(l libpod.LogLine) bool {
		line := recalled{l.Time, maphash.String(recallSeed, string(l.Stream)+" "+l.Text)}
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

// add remembers a line, and forgets the older half of the seconds when there are
// too many.
func (r *recall) add(line recalled) {
	r.lines = append(r.lines, line)
	if len(r.lines) < 2*maxRecall {
		return
	}
	keep := maxRecall
	for keep < len(r.lines)-1 && r.lines[keep].second.Equal(r.lines[keep-1].second) {
		keep++
	}
	r.lines = append([]recalled(nil), r.lines[keep:]...)
	r.dropped = true
}
