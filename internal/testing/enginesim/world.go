package enginesim

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/engine/facts/conn"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/internal/testing/enginetest"
	"github.com/podtask/podtask/pkg/images"
	"github.com/podtask/podtask/pkg/lifecycle"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// clock is the time of a world. Who waits lets it pass at once.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

func (c *clock) After(d time.Duration) <-chan time.Time {
	c.now = c.now.Add(max(d, 0))
	done := make(chan time.Time, 1)
	done <- c.now
	return done
}

// world is everything there is in one run.
type world struct {
	r     *rand.Rand
	clock *clock
	fake  *enginetest.Fake
	disk  *disk
	// dir is a real directory for what is not simulated: locks, event log.
	dir   string
	locks *state.Locks
	tasks []*task
	// ghosts are pods that Podman is still to make for owners that have died.
	ghosts   []ghost
	settings *config.Settings // of all processes
	// calm: nothing unfriendly happens any more.
	calm bool
	// trouble is how often a call to Podman fails: one in this many.
	trouble int
	faults  enginetest.Faults
	// namespaces are those of processes in Podman.
	namespaces map[int]*namespace
	// pinned are references with digests to what the registry has.
	pinned []string
	known  int // facts of the Fake that have been looked at
	trail  *trail
	count  Count
}

// trail writes down what happens; nil does not.
type trail struct{ lines []string }

func (w *world) tell(format string, a ...any) {
	if w.trail != nil {
		w.trail.lines = append(w.trail.lines, w.clock.now.Sub(epoch).String()+" "+fmt.Sprintf(format, a...))
	}
}

// Count is how much happened in a run.
type Count struct {
	Tasks, Containers, Moves, Operations, Saves, Kills, PowerLosses int
	// Unsaved counts decisions that were carried out although the disk was full.
	Unsaved int
	// Queued counts the times a task was told to wait, Swept what no task was left for.
	Queued, Swept int
}

// Add adds another count.
func (c *Count) Add(d Count) {
	c.Tasks += d.Tasks
	c.Containers += d.Containers
	c.Moves += d.Moves
	c.Operations += d.Operations
	c.Saves += d.Saves
	c.Kills += d.Kills
	c.PowerLosses += d.PowerLosses
	c.Unsaved += d.Unsaved
	c.Queued += d.Queued
	c.Swept += d.Swept
}

// Violation is something that must not be.
type Violation struct {
	Seed   uint64
	Detail string
	Trail  []string
}

// maxTrail is the number of lines of a trail that are shown.
const maxTrail = 400

// Error tells what is wrong, how to see it again, and what led there.
func (v *Violation) Error() string {
	trail := v.Trail
	if n := len(trail) - maxTrail; n > 0 {
		trail = append([]string{fmt.Sprintf("(%d lines before)", n)}, trail[n:]...)
	}
	return fmt.Sprintf("seed %d: %s\nrepeat it: go test ./internal/testing/enginesim -run TestRandom -seed %d\n"+
		"keep it: add the seed to testdata/engine-seeds.txt\n  %s", v.Seed, v.Detail, v.Seed, strings.Join(trail, "\n  "))
}

// broken ends the run: a violation may come up in the middle of anything.
func (w *world) broken(format string, a ...any) {
	panic(&Violation{Detail: fmt.Sprintf(format, a...)})
}

// Run plays the world of a seed. dir is a real directory, which any number of
// worlds may share at the same time. The error is a *Violation.
func Run(seed uint64, dir string) (Count, error) {
	c, v := run(seed, dir, nil)
	if v == nil {
		return c, nil
	}
	// Once more, to write down what happens.
	t := &trail{}
	_, again := run(seed, dir, t)
	if again == nil || again.Detail != v.Detail {
		t.lines = append(t.lines, "THIS TRAIL IS OF ANOTHER RUN: the same seed did not do the same again")
	}
	v.Seed, v.Trail = seed, t.lines
	return c, v
}

func run(seed uint64, dir string, t *trail) (c Count, v *Violation) {
	w := newWorld(seed, dir, t)
	defer func() {
		c = w.count
		for _, t := range w.tasks {
			if t.owner != nil {
				t.owner.release()
			}
		}
		switch p := recover().(type) {
		case nil:
		case *Violation:
			v = p
		default:
			panic(p)
		}
	}()
	for range 60 + w.r.IntN(200) {
		move(w)
	}
	finish(w)
	return w.count, nil
}

func newWorld(seed uint64, dir string, t *trail) *world {
	r := rand.New(rand.NewPCG(seed, 1))
	w := &world{r: r, clock: &clock{now: epoch}, dir: dir, trail: t, trouble: 8 + r.IntN(60), namespaces: map[int]*namespace{}}
	getenv := environment(r.IntN(3))
	var err error
	if w.settings, err = config.FromEnvironment(getenv); err != nil {
		w.broken("the configuration: %v", err)
	}
	if w.locks, err = state.OpenLocks(dir, state.Holder{Command: "enginesim"}); err != nil {
		w.broken("the locks do not open: %v", err)
	}
	w.fake = enginetest.New(w.clock)
	w.faults = enginetest.Seeded(r, w.trouble)
	w.fake.Fail(w.faults)
	w.disk = newDisk(w)
	for i := range imageCount {
		if i != imageMissing {
			w.push(i)
		}
	}
	for i := range 3 + r.IntN(6) {
		w.tasks = append(w.tasks, newTask(w, i))
	}
	w.count.Tasks = len(w.tasks)
	return w
}

// The images there are, one of which the registry does not have.
const (
	imageCount   = 5
	imageMissing = 4
)

func imageName(i int) string { return fmt.Sprintf("registry.test/app%d:1", i) }

// push gives an image's name to new content.
func (w *world) push(i int) {
	digest := w.fake.Push(imageName(i), enginetest.Image{Salt: fmt.Sprint(i, w.r.Uint64())})
	w.pinned = append(w.pinned, ref(imageName(i)).At(digest))
}

func ref(name string) images.Ref {
	r, err := images.ParseRef(name)
	if err != nil {
		panic("enginesim: " + err.Error())
	}
	return r
}

// open starts a process of podtask: what it shares with others is on the disk
// and in Podman.
func (w *world) open() *engine.Engine {
	h, err := engine.Open(engine.Config{
		StateDir: w.dir, RuntimeDir: w.dir, Root: noFiles{},
		Settings: w.settings, Getenv: noVariable,
		Dial:     func(context.Context) (conn.Podman, error) { return w.fake, nil },
		Registry: simRegistry{w.fake.Registry(), w},
		FS:       w.disk,
	})
	if err != nil {
		w.broken("a process does not start: %v", err)
	}
	h.Queue.GPUs = func([]string) ([]string, error) { return gpus, nil }
	h.Metadata.Namespaces = namespaces{w}
	return h
}

// noFiles are the files of a host that says nothing about itself.
type noFiles struct{}

func (noFiles) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// environment gives all owners the same budget: two vCPU, of which tasks take a half, one
// or none. Overtake is how many later tasks may pass one that waits.
func environment(overtake int) func(string) string {
	return func(name string) string {
		switch name {
		case "PODTASK_BUDGET_CPU":
			return "2"
		case "PODTASK_BUDGET_MEMORY":
			return "none"
		case "PODTASK_QUEUE_OVERTAKE":
			return strconv.Itoa(overtake)
		default:
			return ""
		}
	}
}

func noVariable(string) string { return "" }

// simRegistry is the fake Podman's registry, which cannot always be reached.
type simRegistry struct {
	enginetest.Registry
	w *world
}

// Resolve implements agent.Registry.
func (r simRegistry) Resolve(ctx context.Context, name string, login images.Login) (images.Resolution, error) {
	if ctx.Err() == nil && !r.w.calm && r.w.r.IntN(r.w.trouble) == 0 {
		return images.Resolution{}, &images.Error{Class: images.Unreachable, Ref: name, Message: "fault on order"}
	}
	return r.Registry.Resolve(ctx, name, login)
}

// short names an effect in a trail.
func short(e lifecycle.Effect) string {
	return strings.TrimPrefix(fmt.Sprintf("%T%v", e, e), "lifecycle.")
}

// say names an event in a trail.
func say(ev lifecycle.Event) string {
	f, ok := ev.(lifecycle.OpFinished)
	if !ok {
		return strings.TrimPrefix(fmt.Sprintf("%T%v", ev, ev), "lifecycle.")
	}
	if f.Failure.Class != lifecycle.OK {
		return fmt.Sprintf("of operation %d: %s: %s", f.ID, f.Failure.Class, f.Failure)
	}
	return fmt.Sprintf("of operation %d: it worked; seen %s", f.ID, f.Result.Seen.Presence)
}
