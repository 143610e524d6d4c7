package agent

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/flight"
	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/config"
	"github.com/podtask/podtask/pkg/images"
	"github.com/podtask/podtask/pkg/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/metadata"
	"github.com/podtask/podtask/pkg/state"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Config says where a Host keeps its things.
type Config struct {
	// StateDir and RuntimeDir are as state.Dirs gives them.
	StateDir, RuntimeDir string
	// Getenv reads the environment; os.Getenv outside of tests.
	Getenv func(string) string
	// Log gets what users need not see; nil drops it.
	Log *slog.Logger
	// Dial connects to Podman; nil means the real one, as Getenv says.
	Dial func(context.Context) (Podman, error)
	// Registry answers questions about images; nil means the real ones.
	Registry Registry
	// Progress is told how pulls get on, by several goroutines at once; nil: nobody
	// watches.
	Progress func(PullProgress)
	// NetnsHelper is a program with arguments that calls netns.PassListener with the
	// address added to them; nil means that tasks get no metadata endpoint.
	NetnsHelper []string
	// FS is where records are written; nil means state.OS.
	FS state.FS
}

// Host is podtask for one user on one machine. It is safe for concurrent use.
type Host struct {
	cfg   Config
	log   *slog.Logger
	store *state.Store
	locks *state.Locks
	// attendance is who shows a task to a user; see Attend.
	attendance *state.Locks
	// events is the host's ordered event log.
	events    *state.Log
	published publishedIndex
	// shared is the ledger of what owners share.
	shared *state.Ledger
	fail   *failPoint // nil: none
	// observe is told of each operation that has ended; nil: nobody is.
	observe func(lifecycle.Effect, time.Duration, lifecycle.Failure)
	// credentials is nil when no helper is configured.
	credentials *metadata.Helper

	policy config.Images
	book   imageBook
	pulls  flight.Group[job, fetched]
	board  pullBoard
	free   func(dir string) (int64, error) // bytes the user may still write

	mu     sync.Mutex // guards the lazy connections and what follows
	podman Podman
	user   *cgroups.User
	noUser error // why there is no user manager, once asked

	known struct { // see facts
		sync.Mutex
		facts libpod.Host
		at    time.Time
	}
	// askedIdle is when Podman was last asked about tasks without an owner.
	askedIdle time.Time
}

// Open prepares the state directory. It does not connect to anything.
func Open(cfg Config) (*Host, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Dial == nil {
		cfg.Dial = func(ctx context.Context) (Podman, error) { return dialPodman(ctx, cfg.Getenv) }
	}
	if cfg.Registry == nil {
		cfg.Registry = images.New(images.OptionsFromEnv(cfg.Getenv))
	}
	policy, err := config.ReadImages(cfg.Getenv)
	if err != nil {
		return nil, err
	}
	if cfg.FS == nil {
		cfg.FS = state.OS{}
	}
	fail, err := armed(cfg.Getenv)
	if err != nil {
		return nil, err
	}
	store, err := state.Open(cfg.StateDir, cfg.FS)
	if err != nil {
		return nil, fmt.Errorf("%w; make it writable, or set XDG_STATE_HOME to a directory that is", err)
	}
	locks, err := state.OpenLocks(cfg.StateDir, state.Holder{Command: "podtask"})
	if err != nil {
		return nil, fmt.Errorf("open locks in %s: %w", cfg.StateDir, err)
	}
	attendance, err := state.OpenLocks(filepath.Join(cfg.StateDir, "attended"), state.Holder{Command: "podtask run"})
	if err != nil {
		return nil, err
	}
	book, err := openImageBook(filepath.Join(cfg.StateDir, "images"), cfg.FS)
	if err != nil {
		return nil, err
	}
	events, err := state.OpenLog(cfg.StateDir, 0)
	if err != nil {
		return nil, fmt.Errorf("open event log in %s: %w", cfg.StateDir, err)
	}
	shared, err := state.OpenLedger(cfg.StateDir, cfg.FS)
	if err != nil {
		return nil, err
	}
	return &Host{
		cfg: cfg, log: cfg.Log, store: store, locks: locks, attendance: attendance, events: events, shared: shared,
		fail: fail, credentials: credentialsHelper(cfg.Getenv),
		policy: policy, book: book, free: freeSpace,
	}, nil
}

// Observe has fn told of each operation of an owner that has ended: what was asked of
// Podman, a registry or systemd, how long it took and how it failed, if it did. Fn is
// called by many goroutines. Observe is called before the first task is owned.
func (h *Host) Observe(fn func(lifecycle.Effect, time.Duration, lifecycle.Failure)) { h.observe = fn }

// Close ends the connections. Owners must have been closed before.
func (h *Host) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.user != nil {
		h.user.Close()
	}
	if h.podman != nil {
		return h.podman.Close()
	}
	return nil
}

// Podman returns the connection to Podman, making it on first use.
func (h *Host) Podman(ctx context.Context) (Podman, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.podman == nil {
		c, err := h.cfg.Dial(ctx)
		if err != nil {
			return nil, err
		}
		h.podman = c
	}
	return h.podman, nil
}

// userManager returns the connection to the systemd user manager, a new one where the
// last was lost; an error says that there is none, and is remembered.
func (h *Host) userManager(ctx context.Context) (*cgroups.User, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	lost := h.user != nil && !h.user.Connected() // the bus was restarted, or stopped at shutdown
	if lost || h.user == nil && h.noUser == nil {
		u, err := cgroups.Dial(ctx, h.cfg.Getenv)
		if err == nil {
			if err = u.Available(ctx); err != nil {
				u.Close()
			}
		}
		switch {
		case err != nil && (lost || ctx.Err() != nil):
			return nil, err // there was one, or nobody waited for the answer: asked again
		case err != nil:
			h.noUser = err
			return nil, err
		case lost:
			h.user.Close()
		}
		h.user = u
	}
	return h.user, h.noUser
}

// States returns the recorded state of every task in the order of their
// creation, and beside it an error for each record that cannot be read.
func (h *Host) States() ([]lifecycle.State, []error) {
	var out []lifecycle.State
	var errs []error
	for r, err := range h.store.All(h.locks) {
		if err == nil {
			var s lifecycle.State
			if s, err = decode(r.Data); err == nil {
				out = append(out, s)
				continue
			}
			err = fmt.Errorf("record %s: %w", r.Key, err)
		}
		errs = append(errs, err)
	}
	slices.SortStableFunc(out, func(a, b lifecycle.State) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return out, errs
}

// NotFoundError says that no task fits what the user typed.
type NotFoundError struct{ Ref string }

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("no task %q: `podtask ps -a` lists them", e.Ref)
}

// AmbiguousError says that several tasks fit.
type AmbiguousError struct {
	Ref string
	IDs []string
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("%q fits %d tasks (%s): give more of the id", e.Ref, len(e.IDs), strings.Join(e.IDs, ", "))
}

// Find returns the task with the id, the name or the unique prefix of an id. Of
// several tasks of one name the one that has not stopped counts, else the newest.
func (h *Host) Find(ref string) (lifecycle.State, error) {
	if data, err := h.store.Get(ref); err == nil {
		return decode(data)
	} else if errors.Is(err, state.ErrCorrupt) || errors.Is(err, state.ErrFuture) {
		return lifecycle.State{}, err
	}
	all, _ := h.States()
	var named, prefixed []lifecycle.State
	for _, s := range slices.Backward(all) {
		if s.Name == ref && ref != "" {
			named = append(named, s)
		}
		if strings.HasPrefix(s.ID, ref) && ref != "" {
			prefixed = append(prefixed, s)
		}
	}
	slices.SortStableFunc(named, func(a, b lifecycle.State) int { return stopped(a) - stopped(b) })
	switch {
	case len(named) > 0:
		return named[0], nil
	case len(prefixed) == 1:
		return prefixed[0], nil
	case len(prefixed) > 1:
		e := &AmbiguousError{Ref: ref}
		for _, s := range prefixed {
			e.IDs = append(e.IDs, s.ID[:12])
		}
		return lifecycle.State{}, e
	}
	return lifecycle.State{}, &NotFoundError{Ref: ref}
}

func stopped(s lifecycle.State) int {
	if s.Status() == lifecycle.StatusStopped {
		return 1
	}
	return 0
}

// ErrNameTaken says that a task of that name has not stopped yet.
var ErrNameTaken = errors.New("name is taken")

// hostKey is the lock for what concerns all tasks: handing out names.
var hostKey = strings.Repeat("0", 32)

// Create makes the durable record of a new task and returns its state. It starts
// nothing, but keeps secrets that only this process can read. Call Preflight before;
// the state's Options.Unapplied says which limits will not be applied.
func (h *Host) Create(ctx context.Context, t taskdef.Task, name string, o lifecycle.Options) (lifecycle.State, error) {
	owner, err := h.CreateOwned(ctx, t, name, o)
	if err != nil {
		return lifecycle.State{}, err
	}
	return owner.State(), owner.Close()
}

// CreateOwned is Create for who owns the task from the first moment on, so that
// nobody takes it for one whose owner has died. The caller runs and closes the owner.
func (h *Host) CreateOwned(ctx context.Context, t taskdef.Task, name string, o lifecycle.Options) (*Owner, error) {
	return h.createAs(ctx, newID(), t, name, o)
}

// createAs is CreateOwned under a given id that no task has.
func (h *Host) createAs(ctx context.Context, id string, t taskdef.Task, name string, o lifecycle.Options) (*Owner, error) {
	owner, err := h.record(ctx, id, t, name, o)
	if err != nil {
		return nil, err
	}
	if err := h.keepBound(ctx, owner.State()); err != nil {
		return nil, errors.Join(err, owner.lock.Remove())
	}
	return owner, nil
}

// record gives the task its name and its record.
func (h *Host) record(ctx context.Context, id string, t taskdef.Task, name string, o lifecycle.Options) (*Owner, error) {
	lock, err := h.locks.LockWait(ctx, hostKey)
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	if err := h.refuseDraining(); err != nil {
		return nil, err
	}
	if name != "" {
		if s, err := h.Find(name); err == nil && s.Status() != lifecycle.StatusStopped {
			return nil, fmt.Errorf("%w: task %s is called %s; stop it or choose another --name", ErrNameTaken, s.ID[:12], name)
		}
	}
	if o.Unapplied, _, err = h.unapplied(ctx, t, o); err != nil {
		return nil, err
	}
	s := lifecycle.New(id, name, t, h.withDefaults(h.withEndpoint(o)), time.Now().UTC())
	if err := lifecycle.Check(s); err != nil {
		return nil, fmt.Errorf("a new task is already broken: %w", err)
	}
	data, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	mine, err := h.locks.Lock(s.ID)
	if err != nil {
		return nil, err
	}
	if err := h.store.Put(s.ID, data); err != nil {
		return nil, errors.Join(err, mine.Remove())
	}
	return newOwner(h, mine, s), nil
}

func newID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: crypto/rand aborts the program instead
	return hex.EncodeToString(b[:])
}

// Holder returns who owns the task, if anybody does.
func (h *Host) Holder(id string) (state.Holder, bool) {
	holder, held, err := h.locks.Holder(id)
	return holder, held && err == nil
}

// decode reads a record, which may have been damaged or edited.
func decode(data []byte) (lifecycle.State, error) {
	var s lifecycle.State
	if err := json.Unmarshal(data, &s); err != nil {
		return lifecycle.State{}, fmt.Errorf("record is not a task: %w", err)
	}
	if err := lifecycle.Check(s); err != nil {
		return lifecycle.State{}, fmt.Errorf("record is inconsistent: %w", err)
	}
	return s, nil
}

// hostRoot is where facts about the host are read.
var hostRoot fs.FS = os.DirFS("/")
