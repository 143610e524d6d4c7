// Package heap says when a process collects garbage and gives memory back.
//
// It is a package of its own because others allocate 3 MB while they initialize, at which a collection would begin: a tenth of the
// processor time of a start. Go initializes packages in the order of their import paths, each after those that it imports; this
// one imports little, so its turn comes early. Nothing depends on that order but the time that a start takes.
package heap

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// first is GOGC of a process that has just begun: the heap grows to 16 MB before it is collected first, which most commands never need.
const first = 400

func init() {
	if !given() {
		debug.SetGCPercent(first)
	}
}

// given reports whether the user has set GOGC, which is respected.
func given() bool { return os.Getenv("GOGC") != "" }

// shortLife is the age at which a process begins to save memory.
const shortLife = 5 * time.Second

// SaveLater has a process that goes on after shortLife save memory as usual, and give back what it used until then and
// whenever it rests.
func SaveLater() {
	if !given() {
		time.AfterFunc(shortLife, func() {
			debug.SetGCPercent(100)
			freeAtRest(0, 0)
		})
	}
}

const (
	// restInterval is the time after which a process that allocates at most restBytes in it rests.
	restInterval = 10 * time.Second
	restBytes    = 1 << 20
)

// freeAtRest gives unused memory back to the system, now and whenever the process rests after it has allocated more than restBytes.
// The runtime keeps as much as its heap may grow to. Seen and freed are the bytes that were allocated at the last call and when
// memory was given back.
func freeAtRest(seen, freed uint64) {
	allocs := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(allocs)
	now := allocs[0].Value.Uint64()
	if seen == 0 || now-seen <= restBytes && now-freed > restBytes {
		debug.FreeOSMemory()
		freed = now
	}
	time.AfterFunc(restInterval, func() { freeAtRest(now, freed) })
}
