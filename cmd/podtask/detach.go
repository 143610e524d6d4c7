package main

import (
	"bufio"
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

	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/taskdef"
)

// detached makes the task, leaves it to an owner of its own, prints the id and
// waits as long as it was asked to.
func (s *session) detached(ctx context.Context, r request, task taskdef.Task) error {
	r.options.Remove = r.remove
	st, err := s.create(ctx, r, task)
	if err != nil {
		return err
	}
	if err := s.handOver(ctx, st.ID); err != nil {
		return fmt.Errorf("task %s is recorded, but has no owner: %w; `podtask rm -f %s` forgets it", shortID(st.ID), err, nameOf(st))
	}
	fmt.Fprintln(s.stdout, st.ID)
	if r.wait == "" {
		return nil
	}
	if r.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.timeout)
		defer cancel()
	}
	show := func(api.Task) {}
	if !r.quiet {
		show = newProgress(s.stderr, coloursFor(s.stderr, s.getenv), st.CreatedAt, 0).show
	}
	t, err := s.await(ctx, st, r.wait, show)
	var missed *missedError
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded) && err != nil:
		return fmt.Errorf("task %s is not %s after %s; it goes on: `podtask why %s` tells what it waits for", shortID(st.ID), r.wait, r.timeout, nameOf(st))
	case errors.As(err, &missed):
		fmt.Fprintln(s.stderr, "Error: "+err.Error())
		return exitStatus(max(1, codeOf(missed.task)))
	case err != nil:
		return err
	case r.wait == untilStopped:
		return exitWith(codeOf(t))
	}
	return nil
}

func codeOf(t api.Task) int {
	if t.ExitCode == nil {
		return 0
	}
	return int(*t.ExitCode)
}

// handOver gives a new task to the agent, and where there is none to an owner of its
// own.
func (s *session) handOver(ctx context.Context, id string) error {
	if c := s.dialAgent(ctx); c != nil {
		defer c.Close()
		err := c.Adopt(ctx, id)
		if err == nil {
			return nil
		}
		s.log.Debug("the agent does not take the task", "error", err)
	}
	return s.startOwner(ctx, id)
}

// startOwner starts `podtask owner ID` and returns when it answers: as a unit of
// the systemd user manager, which outlives this login, or where there is none as a
// process in a session of its own.
func (s *session) startOwner(ctx context.Context, id string) error {
	argv, err := s.ownerCommandLine(id)
	if err != nil {
		return err
	}
	user, err := cgroups.Dial(ctx, s.getenv)
	if err == nil {
		defer user.Close()
		err = user.Available(ctx)
	}
	if err != nil {
		s.log.Debug("no user manager for the owner", "error", err)
		died, err := spawn(argv, s.ownerLog(id))
		if err != nil {
			return err
		}
		return s.awaitOwner(ctx, id, died)
	}
	if err := user.RunTransient(ctx, "podtask-owner-"+id+".service", argv, ownerEnvironment(s.environ())); err != nil {
		return err
	}
	return s.awaitOwner(ctx, id, nil)
}

// ownerCommandLine also makes the directory of the owner's log.
func (s *session) ownerCommandLine(id string) ([]string, error) {
	self, err := s.executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	log := s.ownerLog(id)
	if err := os.MkdirAll(filepath.Dir(log), 0o700); err != nil {
		return nil, err
	}
	argv := append([]string{self}, s.config.FlagArgs()...)
	return append(argv, "owner", "--log-file="+log, id), nil
}

// ownerEnvironment is what a unit of the user manager gets of our environment: what
// changes where podtask, Podman and the registries are found and what they trust.
func ownerEnvironment(environ []string) []string {
	wanted := []string{"PATH", "HOME", "TMPDIR", "REGISTRY_AUTH_FILE", "DOCKER_CONFIG", "SSL_CERT_FILE", "SSL_CERT_DIR", "DBUS_SESSION_BUS_ADDRESS"}
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

// spawn starts a process that survives us. Died gives its end.
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
	go func() { end <- cmd.Wait() }() // ends with us at the latest
	return end, nil
}

// ownerPatience is how long a new owner may take to answer.
const ownerPatience = 30 * time.Second

// awaitOwner returns nil when the owner answers, or has done its work already.
func (s *session) awaitOwner(ctx context.Context, id string, died <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, ownerPatience)
	defer cancel()
	retry := time.NewTicker(25 * time.Millisecond)
	defer retry.Stop()
	for {
		c, err := api.Dial(ctx, s.socket(id))
		if err == nil {
			c.Close()
			return nil
		}
		if st, err := s.host.Tasks.Find(id); isGone(err) || err == nil && st.Settled() {
			return nil
		}
		if r := s.reachAgent(ctx, id); r != nil { // one that has just started was faster
			r.Close()
			return nil
		}
		if said := lastError(s.ownerLog(id)); said != "" {
			return errors.New(said)
		}
		select {
		case <-retry.C:
		case end := <-died:
			if end == nil { // it let go, or settled the task just now
				died = nil
				continue
			}
			return fmt.Errorf("the owner ended: %w; %s", end, firstOf(lastError(s.ownerLog(id)), "it said nothing"))
		case <-ctx.Done():
			return fmt.Errorf("the owner does not answer on %s: %w", s.socket(id), ctx.Err())
		}
	}
}

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
