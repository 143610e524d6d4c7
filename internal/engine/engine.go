package engine

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/engine/act/admit"
	"github.com/podtask/podtask/internal/engine/act/effects"
	"github.com/podtask/podtask/internal/engine/act/endpoint"
	"github.com/podtask/podtask/internal/engine/act/imagestore"
	"github.com/podtask/podtask/internal/engine/act/leftover"
	"github.com/podtask/podtask/internal/engine/act/limits"
	"github.com/podtask/podtask/internal/engine/act/logdelivery"
	"github.com/podtask/podtask/internal/engine/act/observe"
	"github.com/podtask/podtask/internal/engine/act/preflight"
	"github.com/podtask/podtask/internal/engine/act/prober"
	"github.com/podtask/podtask/internal/engine/act/tasksecrets"
	"github.com/podtask/podtask/internal/engine/facts/conn"
	"github.com/podtask/podtask/internal/engine/facts/failpoint"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/network/names"
	"github.com/podtask/podtask/internal/engine/network/nodenames"
	"github.com/podtask/podtask/internal/engine/network/routes"
	"github.com/podtask/podtask/internal/engine/run/cleanup"
	"github.com/podtask/podtask/internal/engine/run/fleet"
	"github.com/podtask/podtask/internal/engine/run/hooks"
	"github.com/podtask/podtask/internal/engine/run/owner"
	"github.com/podtask/podtask/internal/engine/run/services"
	"github.com/podtask/podtask/internal/host/gpu"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/logs/logfiles"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/images"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/netns"
	"github.com/podtask/podtask/pkg/service"
)

// Config configures an Engine.
type Config struct {
	// StateDir and RuntimeDir are as returned by state.Dirs.
	StateDir, RuntimeDir string
	// Settings is the configuration; nil means the defaults.
	Settings *config.Settings
	// Getenv reads variables that are not podtask's settings: where Podman, systemd and
	// credentials are, and secrets. It is os.Getenv except in tests.
	Getenv func(string) string
	// FailPoint, for tests, is a fail point at which the process is killed; see
	// FailPointEnv.
	FailPoint string
	// Log receives what users do not need to see; nil discards it.
	Log *slog.Logger
	// Dial connects to Podman; nil means the real one, as Getenv says.
	Dial func(context.Context) (conn.Podman, error)
	// Registry answers questions about images; nil means the real ones.
	Registry imagestore.Registry
	// Progress is called with the progress of pulls, by several goroutines at once; nil
	// means that it is not shown.
	Progress func(imagestore.Progress)
	// NetnsHelper is a program with arguments that calls netns.Help with one more
	// argument; nil means that tasks get no metadata endpoint and no checks over the network.
	NetnsHelper []string
	// FS is where records are written; nil means state.OS.
	FS state.FS
	// Root contains the host's files, for facts about it; nil means "/".
	Root fs.FS
}

// Engine is podtask for one user on one machine: its components, which may all be used
// by several goroutines at once.
type Engine struct {
	cfg    Config
	log    *slog.Logger
	policy *config.Images
	fail   *failpoint.Point

	logLocks *state.Locks

	Podman    *conn.Lazy
	User      *conn.UserManager
	Facts     *conn.Facts
	Tasks     *record.Tasks
	Events    *record.Events
	Ledger    *admit.Ledger
	Images    *imagestore.Resolver
	Sights    *imagestore.Sights
	Puller    *imagestore.Puller
	Pruner    *imagestore.Pruner
	Pulls     *imagestore.ProgressHub
	Queue     *admit.Queue
	Ports     *admit.PortHolders
	Slices    *limits.Slices
	Secrets   *tasksecrets.Store
	Metadata  *endpoint.Factory
	Names     *names.Directory
	NodeNames *nodenames.Nodes
	Prober    *prober.Prober
	Runtime   *effects.Interpreter
	Preflight *preflight.Checker
	Creator   *owner.Creator
	Owners    *owner.Owners
	Delivery  *logdelivery.Deliverer
	Orphans   *cleanup.Orphans
	Expired   *cleanup.Expired
	Logs      *observe.Logs
	Stats     *observe.Stats
	Exec      *observe.Exec
	Pauser    *observe.Pauser
	Unowned   *observe.Unowned
	Hooks     *hooks.Runner
}

// FailPoint returns the fail point that a test has chosen; nil for none.
func (a *Engine) FailPoint() *failpoint.Point { return a.fail }

// Open prepares the state directory. It does not connect to anything.
func Open(cfg Config) (*Engine, error) {
	a := &Engine{cfg: cfg}
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
func (a *Engine) configure() error {
	cfg := &a.cfg
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Dial == nil {
		cfg.Dial = func(ctx context.Context) (conn.Podman, error) { return conn.Dial(ctx, cfg.Getenv, cfg.Log) }
	}
	if cfg.Registry == nil {
		cfg.Registry = images.New(images.OptionsFromEnv(cfg.Getenv))
	}
	if cfg.FS == nil {
		cfg.FS = state.OS{}
	}
	if cfg.Root == nil {
		cfg.Root = os.DirFS("/")
	}
	a.log = cfg.Log
	if cfg.Settings == nil {
		cfg.Settings = config.Default()
	}
	a.policy = &cfg.Settings.Images
	var err error
	a.fail, err = failpoint.Parse(cfg.FailPoint)
	return err
}

// openState opens what is kept in the state directory.
func (a *Engine) openState() (imagestore.Records, error) {
	var none imagestore.Records
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
	a.Tasks = &record.Tasks{Store: store, Locks: locks, Foreground: foreground, Removed: state.OpenTraces(filepath.Join(dir, "removed"))}
	a.logLocks, err = state.OpenLocks(filepath.Join(dir, "logs"), state.Holder{Command: "podtask"})
	if err != nil {
		return none, err
	}
	records, err := imagestore.OpenRecords(filepath.Join(dir, "images"), fsys)
	if err != nil {
		return none, err
	}
	events, err := state.OpenLog(dir, 0)
	if err != nil {
		return none, fmt.Errorf("open event log in %s: %w", dir, err)
	}
	a.Events = &record.Events{Log: a.log, Store: events}
	shared, err := state.OpenLedger(dir, fsys)
	if err != nil {
		return none, err
	}
	seen, err := state.OpenLedger(filepath.Join(dir, "image-ages"), fsys)
	if err != nil {
		return none, err
	}
	a.Sights = &imagestore.Sights{Log: a.log, Ledger: seen}
	a.Ledger = &admit.Ledger{Log: a.log, Store: shared, Tasks: a.Tasks}
	return records, nil
}

// connect prepares the connections, which are made when they are first used.
func (a *Engine) connect() {
	a.Podman = &conn.Lazy{Dial: a.cfg.Dial}
	a.User = &conn.UserManager{Log: a.log, Getenv: a.cfg.Getenv}
	a.Facts = &conn.Facts{Podman: conn.As[conn.HostReader](a.Podman), File: filepath.Join(a.cfg.RuntimeDir, "host.json")}
}

// assemble gives each component the others that it needs.
func (a *Engine) assemble(records imagestore.Records) {
	cfg := a.cfg
	a.Pulls = &imagestore.ProgressHub{}
	fromAWS := awsReader(cfg.Settings, cfg.Getenv)
	a.Images = &imagestore.Resolver{AWS: fromAWS, Log: a.log, Getenv: cfg.Getenv, Registry: cfg.Registry, Podman: conn.As[imagestore.Podman](a.Podman), Secrets: conn.As[imagestore.SecretReader](a.Podman), Records: records, Timeout: cfg.Settings.References.Timeout,
		Sights: a.Sights, MinimumAge: cfg.Settings.Tasks.MinimumAge, Rules: cfg.Settings.Updates}
	a.Pruner = &imagestore.Pruner{Log: a.log, Getenv: cfg.Getenv, Policy: a.policy, Podman: conn.As[imagestore.Podman](a.Podman), Facts: a.Facts, Tasks: a.Tasks, Records: records, Free: imagestore.FreeSpace}
	a.Puller = &imagestore.Puller{
		Log: a.log, Root: cfg.Root, Policy: a.policy, Registry: cfg.Registry, Progress: cfg.Progress, Fail: a.fail, Podman: conn.As[imagestore.Podman](a.Podman),
		Resolver: a.Images, Pruner: a.Pruner, Records: records, Hub: a.Pulls,
	}
	a.Queue = &admit.Queue{Log: a.log, Root: cfg.Root, Settings: cfg.Settings, Podman: conn.As[admit.Lister](a.Podman), Tasks: a.Tasks, Ledger: a.Ledger,
		GPUs: func(names []string) ([]string, error) {
			dirs, _ := libpod.CDISpecDirs()
			return gpu.Find(dirs, names)
		}}
	a.Ports = &admit.PortHolders{Tasks: a.Tasks, Queue: a.Queue}
	a.Slices = &limits.Slices{Log: a.log, Root: cfg.Root, User: a.User, Facts: a.Facts, Getenv: cfg.Getenv}
	a.Secrets = &tasksecrets.Store{Getenv: cfg.Getenv, Podman: conn.As[tasksecrets.Podman](a.Podman), Tasks: a.Tasks, Timeout: cfg.Settings.References.Timeout, AWS: fromAWS}
	a.Metadata = &endpoint.Factory{
		Log: a.log, Settings: cfg.Settings.Metadata, StateDir: cfg.StateDir,
		DockerStats: conn.As[endpoint.DockerStatsReader](a.Podman), Podman: conn.As[endpoint.Podman](a.Podman), Getenv: cfg.Getenv, Role: a.Secrets.RoleCredentials,
	}
	a.Prober = &prober.Prober{NetnsHelper: cfg.NetnsHelper, Podman: conn.As[prober.Podman](a.Podman)}
	a.assembleNames()
	a.Runtime = &effects.Interpreter{
		Log: a.log, StateDir: cfg.StateDir, Settings: cfg.Settings, Fail: a.fail, Podman: conn.As[effects.Podman](a.Podman), Storage: a.Facts.Storage,
		Images: a.Images, Puller: a.Puller, Queue: a.Queue, Ports: a.Ports, Slices: a.Slices, Secrets: a.Secrets, Metadata: a.Metadata, Prober: a.Prober,
	}
	a.Preflight = &preflight.Checker{
		Root: cfg.Root, Getenv: cfg.Getenv, StateDir: cfg.StateDir, Podman: conn.As[preflight.Podman](a.Podman), User: a.User, Facts: a.Facts,
		Ledger: a.Ledger, Queue: a.Queue, Ports: a.Ports, Secrets: a.Secrets,
	}
	left := &leftover.Remover{
		Log: a.log, Dir: filepath.Join(cfg.RuntimeDir, "interrupted"), RunDir: cfg.Getenv("XDG_RUNTIME_DIR"),
		Podman: conn.As[leftover.Podman](a.Podman), Manager: a.User.Get,
	}
	a.Orphans = &cleanup.Orphans{Log: a.log, StateDir: cfg.StateDir, RuntimeDir: cfg.RuntimeDir, Podman: conn.As[cleanup.Podman](a.Podman), Tasks: a.Tasks, Runtime: a.Runtime, Leftover: left}
	a.Delivery = &logdelivery.Deliverer{
		Log: a.log, Fail: a.fail, Settings: cfg.Settings.Delivery, Files: logfiles.In(cfg.StateDir), Locks: a.logLocks, Podman: conn.As[logdelivery.Podman](a.Podman),
		Events: a.Events, Senders: &logdelivery.Servers{Settings: cfg.Settings.Delivery, Getenv: cfg.Getenv, Podman: conn.As[logdelivery.Describer](a.Podman), Secret: a.Secrets.LogOption, Role: a.Secrets.ExecutionCredentials, Processes: conn.As[logdelivery.Podman](a.Podman), NetnsHelper: cfg.NetnsHelper, Files: logfiles.In(cfg.StateDir)},
	}
	a.Owners = &owner.Owners{
		Log: a.log, Fail: a.fail, Tasks: a.Tasks, Events: a.Events, Ledger: a.Ledger, Slices: a.Slices,
		Metadata: a.Metadata, Runtime: a.Runtime, Leftover: left, Logs: a.Delivery, Sweep: a.Orphans.SweepAndLog, Prune: a.Pruner.Rounds,
	}
	a.Creator = &owner.Creator{Tasks: a.Tasks, Ledger: a.Ledger, Preflight: a.Preflight, Secrets: a.Secrets, Metadata: a.Metadata, Owners: a.Owners, LogSize: cfg.Settings.Tasks.LogSize, Logs: cfg.Settings.Tasks.Logs}
	a.Expired = &cleanup.Expired{Log: a.log, StateDir: cfg.StateDir, Tasks: a.Tasks, Owners: a.Owners}
	a.Logs = &observe.Logs{Podman: conn.As[observe.LogReader](a.Podman), Files: logfiles.In(cfg.StateDir), Tasks: a.Tasks, Events: a.Events}
	a.Stats = &observe.Stats{Root: cfg.Root, Podman: conn.As[observe.StatsReader](a.Podman)}
	a.Exec = &observe.Exec{Podman: conn.As[observe.Execer](a.Podman), Containers: conn.As[observe.ContainerReader](a.Podman)}
	a.Pauser = &observe.Pauser{Podman: conn.As[observe.Freezer](a.Podman)}
	a.Hooks = hooks.New(cfg.Getenv)
	a.Unowned = &observe.Unowned{Podman: conn.As[observe.Lister](a.Podman), Here: a.Runtime.CheckStorage}
}

// assembleNames makes what gives tasks names in their network namespaces.
func (a *Engine) assembleNames() {
	a.Names = &names.Directory{Log: a.log, Dir: filepath.Join(a.cfg.StateDir, "names")}
	a.NodeNames = &nodenames.Nodes{Log: a.log, Dir: filepath.Join(a.cfg.StateDir, "nodes"), Tasks: a.Tasks, Dial: a.Prober.DialPort, Names: a.Names}
	a.Metadata.Names = a.Names
	if a.cfg.NetnsHelper != nil {
		helper := netns.Helper(a.cfg.NetnsHelper)
		a.Metadata.Namespaces, a.Metadata.Networks = helper, netns.Networks{}
		a.Names.Open = func(ctx context.Context, pid int) (names.Network, error) { return helper.OpenSide(ctx, pid) }
	}
}

// NewFleet returns a fleet that owns nothing yet and works until ctx ends. Run makes it
// look for tasks; Wait waits for its end.
func NewFleet(ctx context.Context, a *Engine) *fleet.Fleet {
	return fleet.New(ctx, a.log, a.Tasks, a.Owners)
}

// NewServices returns the services that are recorded in the state directory. The
// fleet owns their tasks, which get options.
func NewServices(ctx context.Context, a *Engine, f *fleet.Fleet, options lifecycle.Options) (*services.Services, error) {
	store, err := state.OpenIn(filepath.Join(a.cfg.StateDir, "services"), a.cfg.FS)
	if err != nil {
		return nil, err
	}
	a.Names.Serve()
	a.NodeNames.Load()
	return services.Open(ctx, services.Config{
		Log: a.log, Store: store, Options: options, Override: a.override, Tasks: a.Tasks, Events: a.Events, Ledger: a.Ledger, Preflight: a.Preflight, Creator: a.Creator, Fleet: f, Provide: a.Secrets.Provide, Names: a.Names,
		Hooks: a.Hooks, ResolveHooks: a.resolveHooks, Routes: routes.Open(a.cfg.StateDir, a.cfg.RuntimeDir, a.log), ReadSecret: a.Secrets.ReadSecret,
	})
}

// resolveHooks names who answers the Lambda functions and alarms of a service, by the table of
// references as it is now.
func (a *Engine) resolveHooks(m service.Method) (service.Method, error) {
	table, err := a.cfg.Settings.Rules()
	if err != nil {
		return m, err
	}
	return hooks.Resolve(table, m)
}

// override changes the options of a task by keys of the configuration.
func (a *Engine) override(o lifecycle.Options, given map[string]string) (lifecycle.Options, error) {
	tasks, err := a.cfg.Settings.Override(given)
	o.Pull, o.Limits, o.Quota = tasks.Pull, tasks.Limits, tasks.Quota
	return o, err
}

// Close ends the connections. Owners must have been closed before.
func (a *Engine) Close() error {
	a.NodeNames.Close()
	a.User.Close()
	return a.Podman.Close()
}
