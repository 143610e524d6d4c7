// Package cli is the command line of podtask.
//
// A command parses its part of the line, finds the process that owns a task or becomes its owner,
// sends requests and shows what changes.
package cli

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/buildversion"
	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/part"
)

// Main runs the command line of this process and returns its exit code. Version is the version of
// the program; if it is empty, that of the main module. Build has the parts that are linked.
func Main(ctx context.Context, args []string, version string, build part.Build) int {
	completeLogin()
	collectLater()
	p := &command.Program{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.Getenv, Environ: os.Environ, Executable: os.Executable,
		Notify: signal.Notify, Version: buildversion.Of(version),
		Patience: 10 * time.Second,
	}
	p.Stdout, p.Stderr = command.ToTerminal(p.Stdout), command.ToTerminal(p.Stderr)
	defer command.ResetTerminal(p.Stdout)
	defer command.ResetTerminal(p.Stderr)
	return runLine(ctx, p, build, args)
}

// shortLife is the age at which a process begins to save memory.
const shortLife = 5 * time.Second

// collectLater lets the heap grow to 16 MB before it is collected first, which most commands never need, and which is a tenth of the
// processor time of a start. A process that goes on after shortLife saves memory as usual, and gives back what it used until then
// and whenever it rests. GOGC is respected.
func collectLater() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
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

// completeLogin sets the variables of a login that a process of cron, su or sudo lacks, so that it finds the agent and
// Podman. Podman takes the same directory.
func completeLogin() {
	if _, set := os.LookupEnv("XDG_RUNTIME_DIR"); set {
		return
	}
	environ := os.Environ()
	for _, e := range sessionEnviron(environ)[len(environ):] {
		name, value, _ := strings.Cut(e, "=")
		_ = os.Setenv(name, value) // it cannot fail for these names
	}
}
