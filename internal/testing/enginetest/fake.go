package enginetest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/host/libpod"
)

// Clock is the time of a Fake. After's channel gets a value once Now has come to
// d later; a clock without waiters may advance at once.
type Clock interface {
	Now() time.Time
	After(d time.Duration) <-chan time.Time
}

// Wall is the clock on the wall, or that of a synctest bubble.
type Wall struct{}

// Now implements Clock.
func (Wall) Now() time.Time { return time.Now() }

// After implements Clock.
func (Wall) After(d time.Duration) <-chan time.Time { return time.After(d) }

// Fake is a Podman in memory. It is safe for concurrent use. Its containers see
// the time only when it is called.
type Fake struct {
	// Version is what Host says; set it before the first call. It changes no behavior.
	Version string

	clock Clock

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when something may have changed
	objects
	record
}

// objects are what a Fake has, by name, and what its registry and its host have.
type objects struct {
	pods       map[string]*pod
	containers map[string]*container
	images     map[string]*image  // by id
	names      map[string]string  // tags and repository digests to ids
	registry   map[string]*image  // name@digest, what can be pulled
	tags       map[string]string  // name:tag to digest, at the registry
	volumes    map[string]*volume // named ones
	secrets    map[string]*secret
	networks   map[string]*libpod.NetworkSpec
	kept       map[address]string   // addresses that no container has, to the container that had it
	taken      map[libpod.Port]bool // host ports that other programs hold
	lastID     int
}

// record is what happened to a Fake, and which of its calls fail.
type record struct {
	calls     []Call
	facts     []Fact
	faults    Faults
	downUntil time.Time
	down      libpod.Class // of the errors until then
}

var _ Podman = (*Fake)(nil)

// New returns a Podman that has nothing.
func New(c Clock) *Fake {
	return &Fake{
		Version: "5.4.2", clock: c, changed: make(chan struct{}),
		objects: objects{
			pods: map[string]*pod{}, containers: map[string]*container{}, images: map[string]*image{}, names: map[string]string{},
			registry: map[string]*image{}, tags: map[string]string{}, volumes: map[string]*volume{}, secrets: map[string]*secret{},
			networks: map[string]*libpod.NetworkSpec{}, kept: map[address]string{}, taken: map[libpod.Port]bool{},
		},
	}
}

// What is the kind of a Fact.
type What string

// The facts of a container's life.
const (
	Created  What = "created"
	Started  What = "started"
	Ended    What = "ended"
	Healthy  What = "healthy" // a probe found it so
	Removed  What = "removed"
	Reset    What = "reset" // a reboot made it as if it had never run
	TermSent What = "term"  // it was asked to stop
)

// Fact is something that became true of a container, whether or not a client was
// told.
type Fact struct {
	At        time.Time
	What      What
	Container string // its name
	ID        string // Podman's
	Code      int    // of Ended
	PID       int    // of its present or last run
}

func (f Fact) String() string {
	if f.What == Ended {
		return fmt.Sprintf("%s ended with %d", f.Container, f.Code)
	}
	return f.Container + " " + string(f.What)
}

func (f *Fake) note(w What, c *container, at time.Time) {
	f.facts = append(f.facts, Fact{At: at, What: w, Container: c.spec.Name, ID: c.id, Code: c.code, PID: c.pid})
}

// Facts returns what became true after the first n facts.
func (f *Fake) Facts(n int) []Fact {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settle()
	return slices.Clone(f.facts[n:])
}

// Calls returns the calls made so far.
func (f *Fake) Calls() []Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

// Host implements Podman.
func (f *Fake) Host(ctx context.Context) (libpod.Host, error) {
	return request(ctx, f, "get information about", "the host", func() (libpod.Host, error) {
		return libpod.Host{
			Version: f.Version, CgroupManager: "cgroupfs", CgroupVersion: "v2", Runtime: "crun", NetworkBackend: "netavark",
			RootlessNetwork: "pasta", EventLogger: "file", LogDriver: "k8s-file", Rootless: true, CPUs: 2, Memory: 4 << 30,
			Arch: "amd64", GraphRoot: "/", Socket: "/fake/podman.sock",
		}, nil
	})
}

// Close implements Podman.
func (f *Fake) Close() error { return nil }

// settle carries every container to the present, in the order of their names.
func (f *Fake) settle() {
	now := f.clock.Now()
	var names []string
	for name, c := range f.containers {
		if due := c.due(); !due.IsZero() && !due.After(now) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		f.advance(f.containers[name], now)
	}
}

// notify wakes who waits for a change.
func (f *Fake) notify() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// pause waits, unlocked, until due, a change or the end of ctx. A zero due never
// comes.
func (f *Fake) pause(ctx context.Context, due time.Time) {
	changed := f.changed
	var timer <-chan time.Time
	if !due.IsZero() {
		timer = f.clock.After(due.Sub(f.clock.Now()))
	}
	f.mu.Unlock()
	defer f.mu.Lock()
	select {
	case <-changed:
	case <-timer:
	case <-ctx.Done():
	}
}

// newID returns the next id, as long as Podman's.
func (f *Fake) newID() string {
	f.lastID++
	return fmt.Sprintf("%064x", f.lastID)
}

// digestOf is the digest by which an object's specification is recognized.
func digestOf(spec any) string {
	text, err := json.Marshal(spec)
	if err != nil {
		panic("enginetest: a specification cannot be encoded: " + err.Error())
	}
	return string(text)
}

// owned returns nil if the object with this label belongs to the task.
func owned(label, task string) error {
	switch label {
	case task:
		return nil
	case "":
		return refusal(libpod.Conflict, "the name is used by an object that podtask did not create")
	default:
		return refusal(libpod.Conflict, "it belongs to task %q", label)
	}
}

// Left lists what belongs to a task; empty means to any.
func (f *Fake) Left(task string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settle()
	var left []string
	ours := func(label string) bool { return label != "" && (task == "" || label == task) }
	for name, p := range f.pods {
		if ours(p.spec.TaskID) {
			left = append(left, "pod "+name)
		}
	}
	for name, c := range f.containers {
		if ours(c.spec.TaskID) {
			left = append(left, fmt.Sprintf("container %s %s", name, c.status))
		}
	}
	for name, v := range f.volumes {
		if ours(v.task) {
			left = append(left, "volume "+name)
		}
	}
	for name, s := range f.secrets {
		if ours(s.task) {
			left = append(left, "secret "+name)
		}
	}
	for name, n := range f.networks {
		if ours(n.TaskID) {
			left = append(left, "network "+name)
		}
	}
	slices.Sort(left)
	return left
}

// String lists everything there is, for messages.
func (f *Fake) String() string { return strings.Join(f.Left(""), "\n") }
