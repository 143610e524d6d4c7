package agent

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/flight"
	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/config"
	"github.com/podtask/podtask/pkg/libpod"
	"github.com/podtask/podtask/pkg/metadata"
	"github.com/podtask/podtask/pkg/state"
)

// Connection is the connection to Podman, which is made on first use.
type Connection struct {
	dial func(context.Context) (Podman, error)

	mu     sync.Mutex // guards podman
	podman Podman
}

// UserManager is the connection to the user's systemd manager, which is made on first
// use and again when it was lost.
type UserManager struct {
	log    *slog.Logger
	getenv func(string) string

	mu     sync.Mutex // guards the fields below
	conn   *cgroups.User
	absent error // why there is no user manager, once that is known
}

// Facts is what Podman says about the machine, remembered for a minute.
type Facts struct {
	podman func(context.Context) (Podman, error)

	mu    sync.Mutex // guards the fields below; one caller asks at a time
	facts libpod.Host
	at    time.Time
}

// Tasks are the records of all tasks, and the locks that say who owns a task.
type Tasks struct {
	// Store holds the records, Locks the lock of each task.
	Store *state.Store
	Locks *state.Locks
	// foreground holds a lock for each task that a process shows to a user.
	foreground *state.Locks
}

// EventLog is the ordered log of the transitions of all tasks.
type EventLog struct {
	logger *slog.Logger
	log    *state.Log
	index  publishedIndex
}

// Ledger is what all owners share: the queue, whether new tasks are refused, and when
// leftovers were last removed.
type Ledger struct {
	log   *slog.Logger
	store *state.Ledger
	tasks *Tasks
}

// Resolver finds out what an image reference stands for.
type Resolver struct {
	getenv   func(string) string
	registry Registry
	podman   func(context.Context) (Podman, error)
	records  imageRecords
}

// Puller brings images into local storage.
type Puller struct {
	log      *slog.Logger
	policy   *config.Images
	registry Registry
	progress func(PullProgress)
	fail     *failPoint
	resolver *Resolver
	pruner   *Pruner
	records  imageRecords
	hub      *ProgressHub
	flights  flight.Group[job, fetched]
}

// Pruner removes images that podtask pulled and that nothing uses.
type Pruner struct {
	log     *slog.Logger
	getenv  func(string) string
	policy  *config.Images
	podman  func(context.Context) (Podman, error)
	facts   *Facts
	tasks   *Tasks
	records imageRecords
	free    func(dir string) (int64, error) // bytes the user may still write
}

// Queue admits tasks as far as the budget allows.
type Queue struct {
	log      *slog.Logger
	settings *config.Settings
	podman   func(context.Context) (Podman, error)
	tasks    *Tasks
	ledger   *Ledger

	mu        sync.Mutex // guards askedIdle
	askedIdle time.Time  // when Podman was last asked about tasks without an owner
}

// PortHolders finds out who uses a host port.
type PortHolders struct {
	tasks *Tasks
}

// Slices are the systemd slices of tasks, with their limits.
type Slices struct {
	log   *slog.Logger
	user  *UserManager
	facts *Facts
}

// SecretStore makes and removes the Podman secrets of tasks.
type SecretStore struct {
	getenv func(string) string
	podman func(context.Context) (Podman, error)
	tasks  *Tasks
}

// Metadata is what the metadata endpoints of all tasks have in common.
type Metadata struct {
	log         *slog.Logger
	settings    config.Metadata
	stateDir    string
	netnsHelper []string
	podman      func(context.Context) (Podman, error)
	credentials *metadata.Helper // nil: none is configured
}

// Runtime applies the effects that a task's state machine asks for.
type Runtime struct {
	log      *slog.Logger
	getenv   func(string) string
	stateDir string
	settings *config.Settings
	fail     *failPoint
	podman   func(context.Context) (Podman, error)
	images   *Resolver
	puller   *Puller
	queue    *Queue
	ports    *PortHolders
	slices   *Slices
	metadata *Metadata
}

// Preflight finds out whether this host can run a task, before anything is made.
type Preflight struct {
	getenv   func(string) string
	stateDir string
	podman   func(context.Context) (Podman, error)
	user     *UserManager
	facts    *Facts
	ledger   *Ledger
	queue    *Queue
	ports    *PortHolders
	secrets  *SecretStore
}

// Creator makes the durable records of new tasks.
type Creator struct {
	tasks     *Tasks
	ledger    *Ledger
	preflight *Preflight
	secrets   *SecretStore
	metadata  *Metadata
	owners    *Owners
}

// Orphans removes what dead owners have left behind.
type Orphans struct {
	log                  *slog.Logger
	stateDir, runtimeDir string
	podman               func(context.Context) (Podman, error)
	tasks                *Tasks
	runtime              *Runtime
}

// Expired removes tasks that stopped long ago.
type Expired struct {
	log      *slog.Logger
	stateDir string
	tasks    *Tasks
	owners   *Owners
}

// Logs reads what containers have written.
type Logs struct {
	podman func(context.Context) (Podman, error)
	tasks  *Tasks
	events *EventLog
}

// Stats measures what tasks use.
type Stats struct {
	podman func(context.Context) (Podman, error)
}

// Exec runs programs in containers besides their own.
type Exec struct {
	podman func(context.Context) (Podman, error)
}

// Pauser pauses the containers of tasks.
type Pauser struct {
	podman func(context.Context) (Podman, error)
}

// Owners makes this process the owner of tasks.
type Owners struct {
	agent *Agent
	tasks *Tasks
}
