package begin

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// The garbage collector lets the heap of a process that works grow by workSpace without a cycle,
// instead of by as much as is in use. Initialization takes 2 MiB. A process that rests gets by with little.
const (
	shortPercent = 400 // of the 4 MiB that Go takes for the least heap
	restPercent  = 50  // half of Go's default
	workSpace    = 16 << 20
)

// restAfter is how long a process has no work before it rests.
const restAfter = 20 * time.Second

// collector is what the garbage collector of a process that stays was told.
type collector struct {
	mu      sync.Mutex
	resting *time.Timer // ends the work; nil until the first
	percent int         // as it was told last
}

var staying collector

// Working tells the garbage collector that this process, which stays, has work. It is cheap, so call
// it often. When no call has come for 20 seconds the process returns the memory that it does not use,
// and unmaps its program.
func Working() { staying.working() }

func (c *collector) working() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set(workPercent(live()))
	if c.resting == nil {
		c.resting = time.AfterFunc(restAfter, c.rest)
	}
	c.resting.Reset(restAfter)
}

func (c *collector) rest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set(restPercent)
	debug.FreeOSMemory()
	unmapProgram()
}

// set tells the garbage collector what it was not told last, because that stops the process.
func (c *collector) set(percent int) {
	if c.percent != percent {
		c.percent = percent
		collect(percent)
	}
}

// workPercent returns how much the heap of a process that works may grow, in percent of the bytes
// that are in use.
func workPercent(used uint64) int {
	return max(restPercent, min(shortPercent, int(100*workSpace/max(used, 1))))
}

// live returns how many bytes of the heap the last cycle found in use.
func live() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// collect sets when the garbage collector runs, unless the user has.
func collect(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}
