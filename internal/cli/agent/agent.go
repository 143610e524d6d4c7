package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/part"
	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/engine/act/limits"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/run/fleet"
	"github.com/podtask/podtask/internal/engine/run/services"
	"github.com/podtask/podtask/internal/forward/kept"
	"github.com/podtask/podtask/internal/serve"
	"github.com/podtask/podtask/internal/serve/metrics"
	"github.com/podtask/podtask/internal/serve/ownerapi"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/internal/unit/supervise"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/service"
	"github.com/urfave/cli/v2"
)

// Command is `podtask agent`.
func Command(p *command.Program, build part.Build) *cli.Command {
	return &cli.Command{
		Name:  "agent",
		Usage: "run the tasks and services of this user until stopped",
		Description: `The agent becomes the owner of every task that has none: tasks that exist when it starts,
tasks that ` + "`podtask run`" + ` hands over, and tasks whose owner dies. It serves the API on
$XDG_RUNTIME_DIR/podtask/podtask.sock (PODTASK_SOCKET), or on a socket passed by systemd.

SIGTERM and SIGINT stop the agent. Containers continue to run, and the next agent becomes
the owner of their tasks. With --stop-tasks, or if the user's systemd manager shuts down
(with the host or after the last logout), the tasks are stopped. SIGHUP reloads log-level
and stop-tasks from the configuration. SIGUSR1 logs what the agent is doing.

Examples:
  podtask agent
  systemctl --user enable --now podtask.socket podtask.service`,
		Flags:  command.ConfigFlags("agent"),
		Action: command.WithMachine(p, newAgent(build)),
	}
}

// agentOptions is what `podtask agent` uses: all of the engine.
type agentOptions struct {
	build     part.Build
	version   string
	notify    func(chan<- os.Signal, ...os.Signal)
	getenv    func(string) string
	configure func(*cli.Context) (*config.Settings, error)
	settings  *config.Settings
	log       *slog.Logger
	logLevel  *slog.LevelVar
	engine    *engine.Engine
	host      ownerapi.Host
	socket    string
	cleanUp   func(context.Context) // removes tasks that stopped long ago
}

func newAgent(build part.Build) func(*command.Machine) agentOptions {
	return func(m *command.Machine) agentOptions {
		p := m.Program
		return agentOptions{
			build: build, version: p.Version, notify: p.Notify, getenv: p.Getenv, configure: p.Configure, settings: m.Config, log: m.Log, logLevel: m.LogLevel,
			engine: m.Engine, host: m.Connector.Host, socket: m.Connector.AgentSocket, cleanUp: m.CleanUp,
		}
	}
}

// Run implements command.Runner.
func (o agentOptions) Run(ctx context.Context, c *cli.Context) error {
	if err := command.NoArguments(c); err != nil {
		return err
	}
	unlock, err := o.engine.Tasks.LockAgent()
	var locked *state.LockedError
	switch {
	case errors.As(err, &locked) && locked.Holder.PID == 0:
		return errors.New("there is an agent already, which starts at this moment: `podtask info` names it")
	case locked != nil:
		return fmt.Errorf("there is an agent already: process %d since %s; `systemctl --user status podtask` or `kill %d`",
			locked.Holder.PID, locked.Holder.Since.Local().Format(time.DateTime), locked.Holder.PID)
	case err != nil:
		return err
	}
	l, store, err := agentListener(o.socket, o.log)
	if err != nil {
		return errors.Join(err, unlock())
	}
	o.logLevel.Set(agentLevel(o.settings))
	a := &agentRun{agentOptions: o, kept: store, reload: func() (*config.Settings, error) { return o.configure(c) }}
	return errors.Join(a.run(ctx, l), unlock())
}

// agentLevel returns the level of the agent's log: info unless another one is configured.
func agentLevel(c *config.Settings) slog.Level {
	if c.Origin("log-level") == "default" {
		return slog.LevelInfo
	}
	return c.Logging.Level
}

// agentListener returns the socket that systemd passes, else a new one, and the store with the listeners of services
// that systemd has kept.
func agentListener(socket string, log *slog.Logger) (l net.Listener, store *kept.Store, err error) {
	named, err := activation.ListenersWithNames()
	if err != nil {
		return nil, nil, fmt.Errorf("take the socket from systemd: %w", err)
	}
	store = kept.New(log, named)
	passed := slices.Concat(slices.Collect(maps.Values(named))...)
	switch len(passed) {
	case 0:
		l, err = api.Listen(socket)
	case 1:
		l, err = api.Guard(passed[0])
	default:
		err = fmt.Errorf("systemd passes %d sockets: podtask.socket must have one ListenStream", len(passed))
	}
	return l, store, err
}

// agentRun is an agent that runs.
type agentRun struct {
	agentOptions
	// kept has the listeners of services that outlive this process.
	kept     *kept.Store
	fleet    *fleet.Fleet
	services *services.Services
	// beside has the other loops of the agent: servers on TCP addresses, and what parts do.
	beside []func(context.Context) error
	// reload reads the configuration again.
	reload func() (*config.Settings, error)
}

// run serves and owns tasks until a signal ends it.
func (a *agentRun) run(ctx context.Context, l net.Listener) error {
	signals := make(chan os.Signal, 8)
	a.notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1)
	owning, stopOwning := context.WithCancel(ctx)
	defer stopOwning()
	serving, stopServing := context.WithCancel(ctx)
	defer stopServing()

	a.fleet = engine.NewFleet(owning, a.engine)
	a.fleet.Taken = a.removeSocket
	v := api.ThisVersion(a.version)
	v.PID, v.Role, v.StateDir = os.Getpid(), "agent", a.host.StateDir
	keeping, stopKeeping := context.WithCancel(owning)
	defer stopKeeping()
	if err := a.openServices(keeping); err != nil {
		return errors.Join(err, l.Close())
	}
	backend := serve.NewAgentBackend(a.host, a.settings, a.fleet, a.services)
	a.services.HookSpec = func(ctx context.Context, definition string) (service.Spec, error) {
		return backend.Spec(ctx, definition, api.ServiceSettings{}, 1)
	}
	server := api.NewServer(backend, v)
	m := a.newMetrics()
	a.engine.Delivery.Observe(m.Output)
	a.engine.Owners.Observe(m.Operation)
	server.Handle("GET /metrics", m.Handler())
	if err := a.addParts(backend, server, m); err != nil {
		return errors.Join(err, l.Close())
	}
	failed := make(chan error, 4+len(a.beside))
	var wg sync.WaitGroup
	wg.Go(func() { a.count(serving, m) })
	for _, do := range a.beside {
		wg.Go(func() { failed <- do(serving) })
	}
	wg.Go(func() { failed <- a.fleet.Run() })
	kept := make(chan struct{})
	wg.Go(func() {
		defer close(kept)
		a.services.Run()
	})
	wg.Go(func() { failed <- server.Serve(serving, l) })
	supervise.Notify(a.log, daemon.SdNotifyReady, "STATUS=ready")
	a.log.Info("the agent is ready", "socket", l.Addr().String(), "pid", v.PID)
	a.warnUnlimited()

	err := a.work(ctx, signals, failed, a.watchdog())
	supervise.Notify(a.log, daemon.SdNotifyStopping, "STATUS=ending")
	stopKeeping()
	<-kept // or services would replace the tasks that are stopped now
	if err == nil {
		a.stopTasks(ctx, signals)
	}
	stopOwning()
	stopServing()
	wg.Wait()
	a.log.Info("the agent has ended")
	return err
}

// warnUnlimited logs which limits tasks run without.
func (a *agentRun) warnUnlimited() {
	if reason := a.engine.Preflight.LimitsReason(); reason != "" && a.settings.Tasks.Limits == limits.BestEffort {
		a.log.Warn("tasks run without limits that this host cannot apply", "reason", reason)
	}
}

// newMetrics returns the metrics of what the agent has.
func (a *agentRun) newMetrics() *metrics.Metrics {
	m := metrics.New(a.version, a.states, func() int { return len(a.fleet.Owners()) })
	m.Services(a.services.States)
	m.Traffic(a.services.Traffic)
	m.NodeNames(a.engine.NodeNames.Traffic)
	m.Ingress(a.services.Routes.Ask)
	m.Hooks(a.engine.Hooks.Counts, a.services.States)
	m.Logs(a.routes)
	m.Usage(a.states, a.engine.Stats.ReadSlice)
	return m
}

// openServices reads the records of services. Those that cannot be read are logged, and do not run.
func (a *agentRun) openServices(ctx context.Context) (err error) {
	options := lifecycle.Options{Limits: a.settings.Tasks.Limits, Pull: a.settings.Tasks.Pull}
	a.services, err = engine.NewServices(ctx, a.engine, a.fleet, options)
	if a.services == nil {
		return err
	}
	a.services.Keep(a.kept)
	if err != nil {
		a.log.Error("a service is not kept", "error", err)
	}
	return nil
}

// states returns the recorded tasks; those of this agent as their owners have them.
func (a *agentRun) states() []lifecycle.State {
	states, _ := a.engine.Tasks.States()
	for i, s := range states {
		if o := a.fleet.Owner(s.ID); o != nil {
			states[i] = o.State()
		}
	}
	return states
}

// count updates the counters of the metrics until ctx ends.
func (a *agentRun) count(ctx context.Context, m *metrics.Metrics) {
	err := a.engine.Events.Read(ctx, a.engine.Events.Last(ctx), true, func(e record.Event) error {
		m.Event(e)
		return nil
	})
	if err != nil && ctx.Err() == nil {
		a.log.Warn("the counters of the metrics stand still", "error", err)
	}
}

// removeSocket removes the socket that a killed owner of a task has left.
func (a *agentRun) removeSocket(id string) {
	if err := os.Remove(a.host.Socket(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.log.Warn("the socket of the task's last owner stays", "task", id, "error", err)
	}
}

// watchdog returns the interval in which systemd expects a message; 0 for none.
func (a *agentRun) watchdog() time.Duration {
	within, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		a.log.Warn("the watchdog is not fed", "error", err)
	}
	return within
}

// statusEvery is the interval between updates of the status line.
const statusEvery = 10 * time.Second

// work handles signals, the watchdog and the status line. It returns nil at a signal to end, or the
// first error of a server or a loop.
func (a *agentRun) work(ctx context.Context, signals <-chan os.Signal, failed <-chan error, watchdog time.Duration) error {
	var feed <-chan time.Time
	if watchdog > 0 {
		t := time.NewTicker(watchdog / 2)
		defer t.Stop()
		feed = t.C
	}
	status := time.NewTicker(statusEvery)
	defer status.Stop()
	for {
		select {
		case sig := <-signals:
			switch sig {
			case syscall.SIGUSR1:
				a.dump()
			case syscall.SIGHUP:
				a.reconfigure()
			default:
				a.log.Info("the agent ends", "signal", sig.String())
				return nil
			}
		case err := <-failed:
			if err == nil {
				err = errors.New("the agent ended by itself")
			}
			return err
		case <-feed:
			a.feed(ctx, watchdog)
		case <-status.C:
			supervise.Notify(a.log, "STATUS="+a.status())
			a.cleanUp(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// reconfigure applies the settings that can change while the agent runs. A configuration
// with errors changes nothing.
func (a *agentRun) reconfigure() {
	settings, err := a.reload()
	if err != nil {
		a.log.Error("the configuration stays as it was", "error", err)
		return
	}
	a.settings.Logging.Level, a.settings.Agent.StopTasks = settings.Logging.Level, settings.Agent.StopTasks
	a.logLevel.Set(agentLevel(settings))
	a.log.Info("the configuration is read", "log-level", a.logLevel.Level(), "stop-tasks", settings.Agent.StopTasks)
}

// feed resets the watchdog if no loop of a task or a service is stuck and the API answers.
func (a *agentRun) feed(ctx context.Context, within time.Duration) {
	if stuck := a.fleet.Stuck(within / 2); len(stuck) > 0 {
		a.log.Error("the loops of these tasks are stuck", "tasks", stuck)
		return
	}
	if stuck := a.services.Stuck(within / 2); len(stuck) > 0 {
		a.log.Error("the loops of these services are stuck", "services", stuck)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, within/4)
	defer cancel()
	c, err := api.Dial(ctx, a.socket)
	if err != nil {
		a.log.Error("the agent does not answer itself", "error", err)
		return
	}
	c.Close()
	supervise.Notify(a.log, daemon.SdNotifyWatchdog)
}

// status counts the tasks of this agent, for `systemctl status`.
func (a *agentRun) status() string {
	owners := a.fleet.Owners()
	running := 0
	for _, o := range owners {
		if o.State().Status() == lifecycle.StatusRunning {
			running++
		}
	}
	return fmt.Sprintf("%d tasks owned, %d of them running", len(owners), running)
}

// dump logs what each owner is doing.
func (a *agentRun) dump() {
	now := time.Now()
	a.log.Warn("state asked for by SIGUSR1", "status", a.status(), "pid", os.Getpid())
	for _, o := range a.fleet.Owners() {
		s := o.State()
		a.log.Warn("task", "id", s.ID, "name", s.Name, "status", s.Status().String(), "goal", s.Goal.String(),
			"health", s.Health().String(), "busy", o.Busy(now), "wake", s.Wake(now))
	}
}

// stopTasks stops the tasks in order if stop-tasks says so for this way to end. A second signal cancels
// that.
func (a *agentRun) stopTasks(ctx context.Context, signals <-chan os.Signal) {
	if when := a.settings.Agent.StopTasks; when == config.StopNever || when == config.StopAtShutdown && !a.engine.User.ShuttingDown(ctx) {
		return
	}
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.fleet.StopAll(ctx, lifecycle.ByAgent)
	}()
	more := time.NewTicker(statusEvery)
	defer more.Stop()
	for {
		supervise.Notify(a.log, "STATUS=stopping: "+a.status(), fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", (3*statusEvery).Microseconds()))
		select {
		case <-done:
			return
		case sig := <-signals:
			if sig == syscall.SIGTERM || sig == syscall.SIGINT {
				giveUp()
			}
		case <-more.C:
		}
	}
}

// routes lists the containers whose output is sent to a server.
func (a *agentRun) routes() (all []api.LogRoute) {
	for _, st := range a.states() {
		routes, err := a.engine.Delivery.Routes(st)
		if err != nil {
			a.log.Warn("the log files cannot be measured", "task", st.ID, "error", err)
		}
		all = append(all, routes...)
	}
	return all
}
