package connect

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/podtask/podtask/internal/engine/run/owner"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/cgroups"
)

// Launcher starts owners: background processes that own a task.
type Launcher struct {
	*Connector
	Getenv     func(string) string
	Environ    func() []string
	Executable func() (string, error)
	// Flags give an owner the configuration of this process.
	Flags []string
}

// HandOver hands a new task over to the agent, or to a new owner if there is no agent, together
// with its lock. If that fails, the task is released.
func (s *Launcher) HandOver(ctx context.Context, o *owner.Owner) error {
	h := s.beginHandover(ctx, o.ID())
	defer h.close()
	return h.give(ctx, o)
}

// handover is the way of a new task to its owner: the agent, or a process that starts while the task is recorded.
type handover struct {
	launcher *Launcher
	id       string
	agent    *api.Client  // nil: there is none
	offer    *owner.Offer // nil: no process has been started
	err      error        // no process can be started
	started  chan ownerProcess
	cancel   context.CancelFunc
}

// ownerProcess is a process that was started, or why it was not.
type ownerProcess struct {
	died <-chan error // receives its end; nil: it is a unit of systemd
	err  error
}

// beginHandover looks for the agent, and if there is none begins to start an owner of the task with that ID, which the
// caller records meanwhile. The caller closes the handover.
func (s *Launcher) beginHandover(ctx context.Context, id string) *handover {
	h := &handover{launcher: s, id: id, agent: s.DialAgent(ctx)}
	if h.agent == nil {
		h.start(ctx)
	}
	return h
}

func (h *handover) start(ctx context.Context) {
	ctx, h.cancel = context.WithTimeout(ctx, ownerPatience)
	if h.offer, h.err = owner.NewOffer(h.launcher.OfferSocket(h.id)); h.err != nil {
		return
	}
	h.started = make(chan ownerProcess, 1)
	go func() {
		died, err := h.launcher.startOwner(ctx, h.id)
		h.started <- ownerProcess{died, err}
	}()
}

// give hands the task over, together with its lock. It is called once. If it fails, the task is released.
func (h *handover) give(ctx context.Context, o *owner.Owner) error {
	if h.agent != nil {
		if h.launcher.giveTo(ctx, h.agent, o) {
			return nil
		}
		h.start(ctx)
	}
	if h.err != nil {
		return errors.Join(h.err, o.Close())
	}
	h.offer.Give(o)
	process := <-h.started
	err := process.err
	if err == nil {
		err = h.launcher.awaitOwner(ctx, h.id, process.died)
	}
	if !h.offer.Close() {
		err = errors.Join(err, o.Close())
	}
	return err
}

// close ends the handover. A process that waits for a task that was not handed over ends by itself.
func (h *handover) close() {
	if h.agent != nil {
		h.agent.Close()
	}
	if h.cancel != nil {
		h.cancel()
	}
	if h.offer != nil {
		h.offer.Close()
	}
}

// GiveToAgent hands a task over to the agent, together with its lock. It reports false if there is
// no agent or it does not accept the task, which then still belongs to this process.
func (s *Connector) GiveToAgent(ctx context.Context, o *owner.Owner) bool {
	c := s.DialAgent(ctx)
	if c == nil {
		return false
	}
	defer c.Close()
	return s.giveTo(ctx, c, o)
}

func (s *Connector) giveTo(ctx context.Context, agent *api.Client, o *owner.Owner) bool {
	offer, err := o.Offer(s.OfferSocket(o.ID()))
	if err == nil {
		err = agent.Adopt(ctx, o.ID())
	}
	if err != nil {
		s.Log.Debug("the agent does not adopt the task", "task", o.ID(), "error", err)
	}
	return offer != nil && offer.Close()
}

// startOwner starts `podtask owner ID`. It is a unit of the systemd user manager, which outlives
// this login, or a process in its own session if there is no user manager; died receives its end then.
func (s *Launcher) startOwner(ctx context.Context, id string) (died <-chan error, err error) {
	argv, err := s.ownerCommandLine(id)
	if err != nil {
		return nil, err
	}
	user, err := cgroups.Dial(ctx, s.Getenv)
	if err != nil {
		s.Log.Debug("no user manager for the owner", "error", err)
		return spawn(argv, s.OwnerLog(id))
	}
	defer user.Close()
	return nil, user.RunTransient(ctx, "podtask-owner-"+id+".service", argv, OwnerEnvironment(s.Environ()))
}

// ownerCommandLine also creates the directory of the owner's log.
func (s *Launcher) ownerCommandLine(id string) ([]string, error) {
	self, err := s.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	log := s.OwnerLog(id)
	if err := os.MkdirAll(filepath.Dir(log), 0o700); err != nil {
		return nil, err
	}
	argv := append([]string{self}, s.Flags...)
	return append(argv, "owner", "--log-file="+log, id), nil
}

// OwnerEnvironment returns the variables that a unit of the user manager gets: those that
// change where podtask, Podman and registries are found and what they trust.
func OwnerEnvironment(environ []string) []string {
	wanted := []string{"PATH", "HOME", "TMPDIR", "STORAGE_DRIVER", "STORAGE_OPTS", "REGISTRY_AUTH_FILE", "DOCKER_CONFIG", "SSL_CERT_FILE", "SSL_CERT_DIR", "DBUS_SESSION_BUS_ADDRESS"}
	prefixes := []string{"XDG_", "CONTAINER_", "CONTAINERS_", "PODTASK_"}
	var env []string
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		upper := strings.ToUpper(name)
		if slices.Contains(wanted, name) || strings.HasSuffix(upper, "_PROXY") ||
			slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			env = append(env, e)
		}
	}
	return env
}

// spawn starts a process that survives this one. Died receives its end.
func spawn(argv []string, log string) (died <-chan error, err error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the owner: %w", err)
	}
	end := make(chan error, 1)
	go func() { end <- cmd.Wait() }() // ends with this process at the latest
	return end, nil
}

// ownerPatience limits the start of a new owner, and then its first answer.
const ownerPatience = 30 * time.Second

// awaitOwner returns nil when the owner answers, or has finished already.
func (s *Launcher) awaitOwner(ctx context.Context, id string, died <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, ownerPatience)
	defer cancel()
	retry := time.NewTicker(10 * time.Millisecond)
	defer retry.Stop()
	for {
		c, err := api.Dial(ctx, s.Socket(id))
		if err == nil {
			c.Close()
			return nil
		}
		if st, err := s.Engine.Tasks.Find(id); IsGone(err) || err == nil && st.Settled() {
			return nil
		}
		if r := s.connectAgent(ctx, id); r != nil { // an agent that has just started was faster
			r.Close()
			return nil
		}
		if said := lastError(s.OwnerLog(id)); said != "" {
			return errors.New(said)
		}
		select {
		case <-retry.C:
		case end := <-died:
			if end == nil { // it released the task, or settled it just now
				died = nil
				continue
			}
			return fmt.Errorf("the owner ended: %w; %s", end, cmp.Or(lastError(s.OwnerLog(id)), "it said nothing"))
		case <-ctx.Done():
			return &slowOwnerError{s.Socket(id), ctx.Err()}
		}
	}
}

// slowOwnerError reports a new owner that did not answer in time.
type slowOwnerError struct {
	socket string
	cause  error
}

func (e *slowOwnerError) Error() string {
	return "the owner does not answer on " + e.socket + " yet: see `podtask inspect`, and try again"
}

func (e *slowOwnerError) Unwrap() error { return e.cause }

// lastError is the last line of an owner's log that reports an error.
func lastError(log string) (said string) {
	f, err := os.Open(log)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "Error: "); ok {
			said = text
		}
	}
	return said
}
