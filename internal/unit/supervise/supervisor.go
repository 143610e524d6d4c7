package supervise

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/engine/run/owner"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// ReadyNo as Unit.Ready: the unit does not wait for the service to be ready.
const ReadyNo connect.Condition = "no"

// Unit holds the settings of a unit.
type Unit struct {
	// Name is the name of the task.
	Name string
	// Ready is the condition that the task must meet for READY=1.
	Ready connect.Condition
	// Settle is the time for which a task with new images must stay ready before the service is
	// ready; 0 if it is ready at once.
	Settle time.Duration
	// Remove has the task removed when it has stopped.
	Remove bool
	// Options are those of the task.
	Options lifecycle.Options
}

// Definition reads the definition of a unit's task.
type Definition interface {
	// Launch reads it for the start of the unit.
	Launch(ctx context.Context) (connect.Launch, error)
	// Reload reads it again while the task runs.
	Reload(ctx context.Context) (taskdef.Task, error)
}

// Display shows a task to the user.
type Display interface {
	// Progress returns a function that shows the progress of one task.
	Progress() func(api.Task)
	// CopyLogs writes the logs of a task until it has stopped. The text says what is missing of them; empty for nothing.
	CopyLogs(ctx context.Context, st lifecycle.State) (missing string)
}

// Host runs and removes tasks.
type Host interface {
	// Start replaces an earlier task, checks this host and records a task that this process owns.
	Start(ctx context.Context, l connect.Launch) (*owner.Owner, error)
	// Listen opens the socket of a task; nil if that fails.
	Listen(id string) net.Listener
	// Drive runs an owned task until it has settled, and serves it on l.
	Drive(ctx context.Context, o *owner.Owner, l net.Listener) error
	// Remove removes a task.
	Remove(ctx context.Context, id, by string, force bool, show func(api.Task)) error
}

// Images resolves image references.
type Images interface {
	// Digest returns the digest that a reference has at its registry.
	Digest(ctx context.Context, st lifecycle.State, ref string) (string, error)
}

// Config is what a Supervisor needs. All fields are required.
type Config struct {
	Unit
	Definition Definition
	Display    Display
	Host       Host
	Images     Images
	// StateDir holds the rollback records.
	StateDir string
	// Signals delivers the signals of the process: SIGHUP reloads, SIGPIPE is ignored, any
	// other stops the task, and the second of those kills it.
	Signals <-chan os.Signal
	Log     *slog.Logger
	// Report adds to the event log how an update of the unit went: a status of a deployment, and why.
	Report func(status, reason string)
	// Warn prints a warning for the user.
	Warn func(format string, args ...any)
}

// Supervisor runs the task of a unit as the main process of its systemd service:
//
//	READY=1                when the task meets Unit.Ready
//	STATUS=                one line for `systemctl status`
//	EXTEND_TIMEOUT_USEC=   while the task starts or stops, so that systemd does not take a
//	                       long pull or an orderly stop for a hang
//	WATCHDOG=1             as long as the owner is alive
//	SIGHUP                 reads the definition and resolves the images again, and
//	                       replaces the task if anything differs
//	SIGTERM                stops the task in order; a second one kills it
type Supervisor struct {
	Config
	heartbeat *heartbeat
	updates   updates
	// stopped is set by the first signal to stop.
	stopped bool
	// missing is the text about output of the last task that was not copied; empty for none.
	missing string
}

// New returns a supervisor that has not started.
func New(c Config) *Supervisor {
	return &Supervisor{Config: c, heartbeat: newHeartbeat(c.Log), updates: updates{unit: c.Unit, images: c.Images, stateDir: c.StateDir, warn: c.Warn, report: c.Report}}
}

// Run supervises the unit's tasks until the last one has stopped, and returns the exit
// code of that one; 0 after a requested stop. Early ends with the first signal before the
// task is created.
func (s *Supervisor) Run(ctx, early context.Context) (exitCode int, err error) {
	beating, stopBeating := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stopBeating()
	wg.Go(func() { s.heartbeat.run(beating) })

	launch, err := s.Definition.Launch(early)
	if err == nil && s.Options.AutoUpdate != "" {
		s.updates.open()
	}
	for created := early; ; created = ctx {
		var o *owner.Owner
		task := launch.Task
		if err == nil {
			launch.Task = s.updates.choose(created, task)
			o, err = s.Host.Start(created, launch)
		}
		if o == nil && early.Err() != nil && created == early {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		end, next, err := s.runTask(ctx, o, task)
		if err != nil {
			return 0, err
		}
		if next == nil {
			Notify(s.Log, daemon.SdNotifyStopping, "STATUS="+endLine(end, s.missing))
			if end.Stop.Code == lifecycle.StopUserInitiated {
				return 0, nil
			}
			return end.ExitCode(), nil
		}
		launch.Task, launch.Replace = *next, false // the one before has stopped
	}
}

// runTask runs one task until it has stopped and is removed. Next is the task to run in
// its place; nil if there is none.
func (s *Supervisor) runTask(ctx context.Context, o *owner.Owner, task taskdef.Task) (end lifecycle.State, next *taskdef.Task, err error) {
	st := o.State()
	s.heartbeat.enter(starting, o, time.Now(), 0)
	var wg sync.WaitGroup
	done := make(chan error, 1)
	changed := make(chan struct{}, 1)
	wg.Go(func() { done <- s.Host.Drive(ctx, o, s.Host.Listen(st.ID)) })
	wg.Go(func() {
		_ = o.Watch(ctx, func(lifecycle.State) bool {
			select {
			case changed <- struct{}{}:
			default:
			}
			return true
		})
	})
	wg.Go(func() { s.missing = s.Display.CopyLogs(ctx, st) })
	run := &taskRun{Supervisor: s, owner: o, task: task, show: s.Display.Progress(), reloads: make(chan reload, 1)}
	next, err = run.supervise(ctx, changed, done)
	s.heartbeat.enter(stopping, nil, time.Now(), st.Task.StopBound())
	wg.Wait()
	if closed := o.Close(); err == nil {
		err = closed
	}
	end = o.State()
	if err != nil {
		return end, nil, fmt.Errorf("podtask no longer manages task %s, whose containers keep running (stop it with `podtask stop %s`): %w", lifecycle.ShortID(st.ID), st.DisplayName(), err)
	}
	if s.Remove && end.Goal != lifecycle.Gone {
		err = s.Host.Remove(ctx, end.ID, "podtask run --rm", true, func(api.Task) {})
	}
	return end, next, err
}
