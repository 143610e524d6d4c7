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
	"time"

	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/config"
	"github.com/podtask/podtask/pkg/images"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/state"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Config says where a Host keeps its things.
type Config struct {
	// StateDir and RuntimeDir are as state.Dirs gives them.
	StateDir, RuntimeDir string
	// Settings is the configuration; nil means the defaults.
	Settings *config.Settings
	// Getenv reads the environment for what is not podtask's: where Podman, systemd and
	// credentials are, and secrets. It is os.Getenv except in tests.
	Getenv func(string) string
	// FailPoint, for tests, is a fail point at which the process is killed; see
	// FailPointEnv.
	FailPoint string
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

// Agent is podtask for one user on one machine: its components, which may all be used
// by several goroutines at once.
type Agent struct {
	cfg    Config
	log    *slog.Logger
	policy *config.Images
	fail   *failPoint
	// observe gets each operation that has ended; nil: nothing does.
	observe func(lifecycle.Effect, time.Duration, lifecycle.Failure)

	Podman    *Connection
	User      *UserManager
	Facts     *Facts
	Tasks     *Tasks
	Events    *EventLog
	Ledger    *Ledger
	Images    *Resolver
	Puller    *Puller
	Pruner    *Pruner
	Pulls     *ProgressHub
	Queue     *Queue
	Ports     *PortHolders
	Slices    *Slices
	Secrets   *SecretStore
	Metadata  *Metadata
	Runtime   *Runtime
	Preflight *Preflight
	Creator   *Creator
	Owners    *Owners
	Orphans   *Orphans
	Expired   *Expired
	Logs      *Logs
	Stats     *Stats
	Exec      *Exec
	Pauser    *Pauser
}

// Open prepares the state directory. It does not connect to anything.
func Open(cfg Config) (*Agent, error) {
	a := &Agent{cfg: cfg}
	if err := a.configure(); err != nil {
		return nil, err
	}
	records, err := a.openState()
	if err != nil {
		return nil, err
	}
	a.connect()
	a.assemble(records)
	return a, nil
}

// configure fills in what the configuration leaves out.
func (a *Agent) configure() error {
	cfg := &a.cfg
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Dial == nil {
		cfg.Dial = func(ctx context.Context) (Podman, error) { return dialPodman(ctx, cfg.Getenv) }
	}
	if cfg.Registry == nil {
		cfg.Registry = images.New(images.OptionsFromEnv(cfg.Getenv))
	}
	if cfg.FS == nil {
		cfg.FS = state.OS{}
	}
	a.log = cfg.Log
	if cfg.Settings == nil {
		cfg.Settings = config.Default()
	}
	a.policy = &cfg.Settings.Images
	var err error
	a.fail, err = armed(cfg.FailPoint)
	return err
}

// openState opens what is kept in the state directory.
func (a *Agent) openState() (imageRecords, error) {
	var none imageRecords
	dir, fsys := a.cfg.StateDir, a.cfg.FS
	store, err := state.Open(dir, fsys)
	if err != nil {
		return none, fmt.Errorf("%w; make it writable, or set XDG_STATE_HOME to a directory that is", err)
	}
	locks, err := state.OpenLocks(dir, state.Holder{Command: "podtask"})
	if err != nil {
		return none, fmt.Errorf("open locks in %s: %w", dir, err)
	}
	foreground, err := state.OpenLocks(filepath.Join(dir, "attended"), state.Holder{Command: "podtask run"})
	if err != nil {
		return none, err
	}
	a.Tasks = &Tasks{Store: store, Locks: locks, foreground: foreground}
	records, err := openImageRecords(filepath.Join(dir, "images"), fsys)
	if err != nil {
		return none, err
	}
	events, err := state.OpenLog(dir, 0)
	if err != nil {
		return none, fmt.Errorf("open event log in %s: %w", dir, err)
	}
	a.Events = &EventLog{logger: a.log, log: events}
	ledger, err := state.OpenLedger(dir, fsys)
	if err != nil {
		return none, err
	}
	a.Ledger = &Ledger{log: a.log, store: ledger, tasks: a.Tasks}
	return records, nil
}

// connect prepares the connections, which are made when they are first used.
func (a *Agent) connect() {
	a.Podman = &Connection{dial: a.cfg.Dial}
	a.User = &UserManager{log: a.log, getenv: a.cfg.Getenv}
	a.Facts = &Facts{podman: a.Podman.Get}
}

// assemble gives each component the others that it needs.
func (a *Agent) assemble(records imageRecords) {
	cfg, podman := a.cfg, a.Podman.Get
	a.Pulls = &ProgressHub{}
	a.Images = &Resolver{getenv: cfg.Getenv, registry: cfg.Registry, podman: podman, records: records}
	a.Pruner = &Pruner{log: a.log, getenv: cfg.Getenv, policy: a.policy, podman: podman, facts: a.Facts, tasks: a.Tasks, records: records, free: freeSpace}
	a.Puller = &Puller{
		log: a.log, policy: a.policy, registry: cfg.Registry, progress: cfg.Progress, fail: a.fail,
		resolver: a.Images, pruner: a.Pruner, records: records, hub: a.Pulls,
	}
	a.Queue = &Queue{log: a.log, settings: cfg.Settings, podman: podman, tasks: a.Tasks, ledger: a.Ledger}
	a.Ports = &PortHolders{tasks: a.Tasks}
	a.Slices = &Slices{log: a.log, user: a.User, facts: a.Facts}
	a.Secrets = &SecretStore{getenv: cfg.Getenv, podman: podman, tasks: a.Tasks}
	a.Metadata = &Metadata{
		log: a.log, settings: cfg.Settings.Metadata, stateDir: cfg.StateDir, netnsHelper: cfg.NetnsHelper,
		podman: podman, credentials: credentialsHelper(cfg.Settings.Metadata.CredentialsHelper),
	}
	a.Runtime = &Runtime{
		log: a.log, getenv: cfg.Getenv, stateDir: cfg.StateDir, settings: cfg.Settings, fail: a.fail, podman: podman,
		images: a.Images, puller: a.Puller, queue: a.Queue, ports: a.Ports, slices: a.Slices, metadata: a.Metadata,
	}
	a.Preflight = &Preflight{
		getenv: cfg.Getenv, stateDir: cfg.StateDir, podman: podman, user: a.User, facts: a.Facts,
		ledger: a.Ledger, queue: a.Queue, ports: a.Ports, secrets: a.Secrets,
	}
	a.Owners = &Owners{agent: a, tasks: a.Tasks}
	a.Creator = &Creator{tasks: a.Tasks, ledger: a.Ledger, preflight: a.Preflight, secrets: a.Secrets, metadata: a.Metadata, owners: a.Owners}
	a.Orphans = &Orphans{log: a.log, stateDir: cfg.StateDir, runtimeDir: cfg.RuntimeDir, podman: podman, tasks: a.Tasks, runtime: a.Runtime}
	a.Expired = &Expired{log: a.log, stateDir: cfg.StateDir, tasks: a.Tasks, owners: a.Owners}
	a.Logs = &Logs{podman: podman, tasks: a.Tasks, events: a.Events}
	a.Stats = &Stats{podman: podman}
	a.Exec = &Exec{podman: podman}
	a.Pauser = &Pauser{podman: podman}
}

// Observe makes fn get each operation of an owner that has ended: what was asked of
// Podman, a registry or systemd, how long it took and how it failed, if it did. Fn is
// called by many goroutines. Observe is called before the first task is owned.
func (a *Agent) Observe(fn func(lifecycle.Effect, time.Duration, lifecycle.Failure)) { a.observe = fn }

// Close ends the connections. Owners must have been closed before.
func (a *Agent) Close() error {
	a.User.Close()
	return a.Podman.Close()
}

// Get returns the connection, making it on first use.
func (c *Connection) Get(ctx context.Context) (Podman, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.podman == nil {
		podman, err := c.dial(ctx)
		if err != nil {
			return nil, err
		}
		c.podman = podman
	}
	return c.podman, nil
}

// Close ends the connection, if one was made.
func (c *Connection) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.podman == nil {
		return nil
	}
	return c.podman.Close()
}

// Close ends the connection, if one was made.
func (u *UserManager) Close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.conn != nil {
		u.conn.Close()
	}
}

// Get returns the connection to the systemd user manager, a new one where the
// last was lost; an error says that there is none, and is remembered.
func (u *UserManager) Get(ctx context.Context) (*cgroups.User, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	lost := u.conn != nil && !u.conn.Connected() // the bus was restarted, or stopped at shutdown
	if lost || u.conn == nil && u.absent == nil {
		conn, err := cgroups.Dial(ctx, u.getenv)
		if err == nil {
			if err = conn.Available(ctx); err != nil {
				conn.Close()
			}
		}
		switch {
		case err != nil && (lost || ctx.Err() != nil):
			return nil, err // there was one, or nobody waited for the answer: asked again
		case err != nil:
			u.absent = err
			return nil, err
		case lost:
			u.conn.Close()
		}
		u.conn = conn
	}
	return u.conn, u.absent
}

// States returns the recorded state of every task in the order of their
// creation, and beside it an error for each record that cannot be read.
func (t *Tasks) States() ([]lifecycle.State, []error) {
	var out []lifecycle.State
	var errs []error
	for r, err := range t.Store.All(t.Locks) {
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
func (t *Tasks) Find(ref string) (lifecycle.State, error) {
	if data, err := t.Store.Get(ref); err == nil {
		return decode(data)
	} else if errors.Is(err, state.ErrCorrupt) || errors.Is(err, state.ErrFuture) {
		return lifecycle.State{}, err
	}
	all, _ := t.States()
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
func (c *Creator) Create(ctx context.Context, t taskdef.Task, name string, o lifecycle.Options) (lifecycle.State, error) {
	owner, err := c.CreateOwned(ctx, t, name, o)
	if err != nil {
		return lifecycle.State{}, err
	}
	return owner.State(), owner.Close()
}

// CreateOwned is Create for who owns the task from the first moment on, so that
// nobody takes it for one whose owner has died. The caller runs and closes the owner.
func (c *Creator) CreateOwned(ctx context.Context, t taskdef.Task, name string, o lifecycle.Options) (*Owner, error) {
	return c.CreateAs(ctx, newID(), t, name, o)
}

// CreateAs is CreateOwned under a given id that no task has.
func (c *Creator) CreateAs(ctx context.Context, id string, t taskdef.Task, name string, o lifecycle.Options) (*Owner, error) {
	owner, err := c.record(ctx, id, t, name, o)
	if err != nil {
		return nil, err
	}
	if err := c.secrets.PersistLocal(ctx, owner.State()); err != nil {
		return nil, errors.Join(err, owner.lock.Remove())
	}
	return owner, nil
}

// record gives the task its name and its record.
func (c *Creator) record(ctx context.Context, id string, t taskdef.Task, name string, o lifecycle.Options) (*Owner, error) {
	lock, err := c.tasks.Locks.LockWait(ctx, hostKey)
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	if err := c.ledger.RefuseDraining(); err != nil {
		return nil, err
	}
	if name != "" {
		if s, err := c.tasks.Find(name); err == nil && s.Status() != lifecycle.StatusStopped {
			return nil, fmt.Errorf("%w: task %s is called %s; stop it or choose another --name", ErrNameTaken, s.ID[:12], name)
		}
	}
	if o.Unapplied, _, err = c.preflight.Unsupported(ctx, t, o); err != nil {
		return nil, err
	}
	s := lifecycle.New(id, name, t, c.preflight.Defaults(c.metadata.Options(o)), time.Now().UTC())
	if err := lifecycle.Check(s); err != nil {
		return nil, fmt.Errorf("a new task is already broken: %w", err)
	}
	data, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	mine, err := c.tasks.Locks.Lock(s.ID)
	if err != nil {
		return nil, err
	}
	if err := c.tasks.Store.Put(s.ID, data); err != nil {
		return nil, errors.Join(err, mine.Remove())
	}
	return newOwner(c.owners.agent, mine, s), nil
}

func newID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: crypto/rand aborts the program instead
	return hex.EncodeToString(b[:])
}

// Holder returns who owns the task, if anybody does.
func (t *Tasks) Holder(id string) (state.Holder, bool) {
	holder, held, err := t.Locks.Holder(id)
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
