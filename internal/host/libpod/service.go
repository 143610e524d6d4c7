package libpod

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxSocketPath is the longest path a unix socket can have on Linux.
const maxSocketPath = 107

// pollService is the polling interval for a starting service and for a held lock.
const pollService = 20 * time.Millisecond

// answerLimit bounds the answer of the user's own service to a ping on a new connection, its start by systemd included.
const answerLimit = 5 * time.Second

// errSilent means that nothing serves a socket on which somebody listens: systemd accepts
// connections for a service that it cannot start now.
var errSilent = errors.New("no answer from Podman's service")

// service finds the Podman service, and starts one if there is none.
type service struct {
	fixed  string // from Options.URI: the only socket to try
	users  string // the user's own socket (podman.socket of systemd)
	ours   string // the socket of podtask's own service
	podman string
	idle   time.Duration
	log    *slog.Logger // may be nil

	mu      sync.Mutex
	current string
}

func newService(o Options) (*service, error) {
	s := &service{podman: o.Podman, idle: o.IdleTimeout, log: o.Log}
	if s.podman == "" {
		s.podman = "podman"
	}
	if s.idle < time.Second {
		s.idle = DefaultIdleTimeout
	}
	dir := o.RuntimeDir
	if dir == "" {
		dir = os.Getenv("XDG_RUNTIME_DIR")
	}
	s.users = filepath.Join(dir, "podman", "podman.sock")
	if o.URI != "" {
		u, err := url.Parse(o.URI)
		if err != nil || u.Scheme != "unix" || u.Host+u.Path == "" {
			return nil, &Error{Class: InvalidSpec, Cause: "not the address of a unix socket on this host; set CONTAINER_HOST to unix:///path, or unset it"}
		}
		fixed := u.Host + u.Path
		if !filepath.IsAbs(fixed) {
			// The bindings read unix://path as unix:///path.
			fixed = "/" + fixed
		}
		if dir == "" || filepath.Clean(fixed) != s.users {
			s.fixed, s.current = fixed, fixed
			return s, nil
		}
	}
	if dir == "" {
		return nil, &Error{Class: Unavailable, Cause: "XDG_RUNTIME_DIR is not set, so there is no directory for Podman's socket; log in with ssh or 'machinectl shell', or set it to a directory with mode 0700"}
	}
	s.ours = filepath.Join(dir, "podtask", "podman.sock")
	if len(s.ours) > maxSocketPath {
		return nil, &Error{Class: Unavailable, Cause: fmt.Sprintf("the socket path %s is longer than the %d bytes that the kernel allows; set XDG_RUNTIME_DIR to a shorter path", s.ours, maxSocketPath)}
	}
	return s, nil
}

// path returns the socket in use, or the first one to try.
func (s *service) path() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == "" {
		return s.users
	}
	return s.current
}

func (s *service) use(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = path
}

// own reports whether the service in use is one that podtask started.
func (s *service) own() bool { return s.ours != "" && s.path() == s.ours }

// dial connects to the service. If the service is gone or cannot be started, it finds or starts
// another one.
func (s *service) dial(ctx context.Context) (net.Conn, error) {
	path := s.path()
	conn, err := s.reach(ctx, path)
	if err == nil || s.fixed != "" || !notListening(err) && !errors.Is(err, errSilent) {
		return conn, err
	}
	if err := s.ensure(ctx, path); err != nil {
		return nil, err
	}
	var d net.Dialer
	return d.DialContext(ctx, "unix", s.path())
}

// reach connects to a socket. A connection to the user's own socket proves nothing: systemd
// listens there, and starts the service for the first connection. It does not while the user's
// manager shuts down, and not before a unit that is ordered after podman.service has stopped,
// which may be ours, waiting for this connection. So the service must answer first.
func (s *service) reach(ctx context.Context, path string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil || path != s.users {
		return conn, err
	}
	limited, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	err = greet(limited, conn)
	if err == nil {
		return conn, nil
	}
	_ = conn.Close()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if s.log != nil && limited.Err() != nil {
		s.log.Warn(fmt.Sprintf("Podman's service at %s did not answer for %.0f seconds: podtask uses a service of its own", path, answerLimit.Seconds()))
	}
	return nil, fmt.Errorf("%w at %s: %w", errSilent, path, err)
}

// greet makes a first request on a connection, which can be used for others afterwards.
func greet(ctx context.Context, conn net.Conn) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := io.WriteString(conn, "GET /_ping HTTP/1.1\r\nHost: d\r\n\r\n"); err != nil {
		return err
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return err
	}
	if res.Close {
		return io.ErrUnexpectedEOF
	}
	if !stop() {
		return context.Cause(ctx)
	}
	return nil
}

// notListening reports whether err means that nothing listens: there is no socket, or only the
// file of a dead service.
func notListening(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist)
}

// listening returns nil if a process listens on path.
func listening(ctx context.Context, path string) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return err
	}
	return conn.Close()
}

// ensure finds or starts a service and remembers its socket. It does not try the user's own
// socket if that has just failed.
func (s *service) ensure(ctx context.Context, failed string) error {
	if s.fixed != "" {
		return listening(ctx, s.fixed)
	}
	for _, path := range []string{s.users, s.ours} {
		if path == s.users && path == failed {
			continue
		}
		conn, err := s.reach(ctx, path)
		if err == nil {
			s.use(path)
			return conn.Close()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	s.use(s.ours)
	return nil
}

// start starts podtask's own service unless another process has just done so. The lock
// lets concurrent processes share one service, and makes it safe to remove the socket
// file of a dead service, which would make Podman fail.
func (s *service) start(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Dir(s.ours), 0o700); err != nil {
		return unavailable("cannot create the directory for Podman's socket: %v", err)
	}
	lock, err := lockFile(ctx, filepath.Join(filepath.Dir(s.ours), "podman.lock"))
	if err != nil {
		return err
	}
	defer lock.Close()
	err = listening(ctx, s.ours)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ECONNREFUSED):
		if err := os.Remove(s.ours); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return unavailable("cannot remove the socket of a dead service: %v", err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return s.launch(ctx)
}

// end kills podtask's own service if that hangs. The next call starts another one.
func (s *service) end() {
	if !s.own() {
		return
	}
	if pid := s.pid(); pid > 0 {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

// pid returns the process that listens on the socket of podtask's own service; 0 if there is
// none.
func (s *service) pid() (pid int) {
	conn, err := net.DialTimeout("unix", s.ours, time.Second) // a full backlog blocks
	if err != nil {
		return 0
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(peer.Pid)
		}
	})
	return pid
}

// launch starts the service and returns when it listens. Podman runs in its own session
// with detached input and output, so that it survives the terminal's signals and the end
// of this process. It is never killed, not even if ctx is canceled: another process may
// already use it, and it exits by itself when idle.
func (s *service) launch(ctx context.Context) error {
	logPath := filepath.Join(filepath.Dir(s.ours), "podman.log")
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return unavailable("cannot create the log file of the Podman service: %v", err)
	}
	defer log.Close()
	cmd := exec.Command(s.podman, "system", "service", "--time", strconv.Itoa(int(s.idle.Seconds())), "unix://"+s.ours)
	cmd.Env = serviceEnv(os.Environ())
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return unavailable("%s cannot be started: %v; install Podman 4.3 or later, or set CONTAINER_HOST", s.podman, err)
	}
	exited := make(chan error, 1)
	// This goroutine ends with the service, which by design may outlive this process.
	go func() { exited <- cmd.Wait() }()

	tick := time.NewTicker(pollService)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-exited:
			if exit, ok := errors.AsType[*exec.ExitError](err); ok && !exit.Exited() {
				return &Error{Op: "start Podman's service", Class: Temporary, Cause: fmt.Sprintf("%s (its service ended at once: %v)", ConnectionBroke, err)}
			}
			if isClient(lastLine(logPath)) {
				return unavailable("podman serves nothing on this host: remote = true under [engine] in containers.conf makes it a client of another one; " +
					"remove it there, or set CONTAINER_HOST to unix:///PATH, the socket of a Podman on this host")
			}
			return unavailable("podman system service exited immediately (%v): %s; its log is %s", err, lastLine(logPath), logPath)
		case <-tick.C:
			if listening(ctx, s.ours) == nil {
				return nil
			}
		}
	}
}

// isClient reports whether a podman that said this when it should serve is the client of another host: it does not know the command.
func isClient(said string) bool {
	return strings.Contains(said, "accepts at most 1 arg(s), received") || strings.Contains(said, "unrecognized command")
}

// dropped lists the variables that a service must not inherit. With CONTAINER_HOST podman
// would itself become a client; with LISTEN_FDS it would use file descriptor 3 as its
// socket; and it would pass NOTIFY_SOCKET on to containers, which could then report
// podtask's unit as ready.
var dropped = []string{
	"CONTAINER_HOST", "CONTAINER_CONNECTION", "CONTAINER_SSHKEY", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES",
	"NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "MAINPID", "INVOCATION_ID", "JOURNAL_STREAM",
}

// serviceEnv returns env without the dropped variables.
func serviceEnv(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(dropped, name)
	})
}

// lockFile takes the exclusive lock on path, which closing the file releases.
func lockFile(ctx context.Context, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, unavailable("cannot open the lock for starting Podman: %v", err)
	}
	tick := time.NewTicker(pollService)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			_ = f.Close()
			return nil, unavailable("lock %s: %v", path, err)
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

// lastLine returns the last line of a small log file, or a text saying that it is empty.
func lastLine(path string) string {
	data, err := os.ReadFile(path)
	data = bytes.TrimSpace(data)
	if err != nil || len(data) == 0 {
		return "it printed nothing"
	}
	return string(data[bytes.LastIndexByte(data, '\n')+1:])
}

func unavailable(format string, args ...any) error {
	return &Error{Class: Unavailable, Cause: fmt.Sprintf(format, args...)}
}
