package libpod

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/blang/semver/v4"
	"github.com/containers/podman/v5/pkg/bindings"
	"github.com/podtask/podtask/internal/sleep"
	"github.com/podtask/podtask/pkg/transient"
)

// TaskLabel is the label of every object that podtask creates; its value is the task's
// ID.
const TaskLabel = "podtask.task-id"

// specLabel holds the digest of the specification that an object was created from. An object
// of an earlier attempt is adopted only if its specification is the same.
const specLabel = "podtask.spec"

// missingLabel holds Observed.Missing.
const missingLabel = "podtask.missing-addresses"

// DefaultIdleTimeout is the time that a service started by Dial keeps running after its last
// connection is closed.
const DefaultIdleTimeout = 60 * time.Second

// Options configure how Dial reaches Podman. The zero value uses the same socket as Podman's
// own tools.
type Options struct {
	// URI is a unix:// address (CONTAINER_HOST). If set, no other socket is tried and no
	// service is started, unless it is the address of the user's own socket. Other schemes are rejected, because a task's slice, ports and
	// namespaces must be on this machine.
	URI string
	// RuntimeDir replaces $XDG_RUNTIME_DIR.
	RuntimeDir string
	// Podman is the program that starts a service; "" means podman from PATH.
	Podman string
	// IdleTimeout is the time for which a service started by Dial runs without a connection, in
	// whole seconds; 0 means DefaultIdleTimeout.
	IdleTimeout time.Duration
	// Log receives a line for each request at the level debug; nil logs nothing.
	Log *slog.Logger
}

// Client is a connection to one user's Podman. It is safe for concurrent use. Close it when
// done. Calls of one kind are in one file. Callers declare the calls that they need as an
// interface of their own.
type Client struct {
	service *service
	// runtimeDir is the directory of files of Podman that do not outlive a reboot.
	runtimeDir string
	pool       *http.Transport
	context    context.Context //nolint:containedctx // the bindings keep the connection in a context
	version    semver.Version
	// makes limits the calls that create and start objects, stops those that signal and stop containers,
	// removals those that remove some. A hanging call of one kind does not delay the others.
	makes, stops, removals *slots

	storage storage
	pulse   pulse
	// images maps the ID of each image that was looked up to its imageConfig.
	images sync.Map
	// monitored maps the names of running containers to the conmon that an inspection reported
	// (monitored), until WaitContainer uses it.
	monitored sync.Map
	// exited maps names of containers to an exit, until SeenExit returns it or their pod is removed: no effect asks for the exit of a
	// container that podtask stops.
	exited sync.Map
	// made maps the IDs of containers that this client has created to the IDs of their tasks, until they or their pods are removed.
	made    sync.Map
	exits   exitFiles
	resizes delayedCalls
	// stopPings ends the goroutine that keeps podtask's own service running; pings waits
	// for it.
	stopPings context.CancelFunc
	pings     sync.WaitGroup
	need      need
}

// Dial connects to Podman: to Options.URI if given, else to the user's socket
// $RuntimeDir/podman/podman.sock if it answers, else to podtask's own service on
// $RuntimeDir/podtask/podman.sock, which Dial starts if it is not running. That service
// runs in its own session, so Ctrl-C does not reach it. All of the user's podtask
// processes share it. It keeps running as long as one of them needs it: a Client that waits for
// a container, or made a request within two times IdleTimeout. It exits when no Client needs it.
//
// It is normal for a service to disappear (idle, restarted, killed): the next call finds
// or starts another one. Errors have class Unavailable, Canceled, Timeout or InvalidSpec
// (URI).
func Dial(ctx context.Context, o Options) (*Client, error) {
	s, err := newService(o)
	if err != nil {
		return nil, fail(ctx, "connect to Podman", o.URI, err)
	}
	bound, end, err := s.connect(ctx, o.Log)
	if err != nil {
		return nil, err
	}
	conn, err := bindings.GetClient(bound)
	if err != nil {
		end()
		return nil, fail(ctx, "connect to Podman", s.path(), err)
	}
	// The default transport dials a fixed path and cannot find another service later.
	conn.Client.CloseIdleConnections()

	pool := &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return s.dial(ctx) },
		DisableCompression:  true,
		MaxIdleConnsPerHost: maxMutations,
	}
	c := &Client{
		service: s, runtimeDir: cmp.Or(o.RuntimeDir, os.Getenv("XDG_RUNTIME_DIR")),
		pool: pool, context: bound, version: *bindings.ServiceVersion(bound),
		makes: newSlots(maxMutations), stops: newSlots(maxMutations), removals: newSlots(maxMutations),
		storage: storage{log: o.Log, broken: s.end}, stopPings: end,
		pulse: pulse{log: o.Log, ping: s.pingOnce, ending: s.ending, socket: s.path},
	}
	c.need.request()
	conn.Client = &http.Client{Transport: transport{next: pool, log: o.Log, need: &c.need}}
	c.pings.Go(func() { c.keepServiceRunning(bound) })
	return c, nil
}

const (
	// connectAttempts is the number of attempts of Dial. A service may end just after Dial found it.
	connectAttempts = 3
	// killedLimit bounds the time in which Dial goes on while services are killed; killedPause is the pause between two attempts.
	killedLimit = 2 * time.Minute
	killedPause = 250 * time.Millisecond
)

// connect finds or starts the service and makes a first request. It returns the context that
// holds the bindings' connection; end cancels it.
func (s *service) connect(ctx context.Context, log *slog.Logger) (bound context.Context, end func(), err error) {
	began := time.Now()
	for n := 1; ; n++ {
		err := s.ensure(ctx, "")
		again := errors.Is(err, Temporary) // the service was killed
		if err == nil {
			bound, end, err = s.bindSoon(ctx, n, log)
			if err == nil {
				return bound, end, nil
			}
			again = true
		}
		err = fail(ctx, "connect to Podman", s.path(), err)
		if e := new(Error); s.fixed != "" && errors.As(err, &e) && e.Class == Unavailable {
			e.Cause += "; CONTAINER_HOST names this socket: start its service, or unset CONTAINER_HOST"
		}
		if !again || !transient.Is(err) || s.fixed != "" || n >= connectAttempts && (!CutOff(err) || time.Since(began) > killedLimit) {
			return nil, nil, err
		}
		if n >= connectAttempts && !sleep.For(ctx, killedPause) {
			return nil, nil, err
		}
	}
}

// bindSoon is bind for a service that may hang. attempt counts from 1.
func (s *service) bindSoon(ctx context.Context, attempt int, log *slog.Logger) (bound context.Context, end func(), err error) {
	limited, cancel := context.WithTimeout(ctx, pulseAfter+pulseLimit)
	defer cancel()
	bound, end, err = bind(limited, s.path())
	if err == nil || limited.Err() == nil || ctx.Err() != nil {
		return bound, end, err
	}
	e := &Error{Class: Unavailable, Cause: hungCause(s.path())}
	if end := s.ending(attempt); end != nil {
		end()
		e.Cause = "Podman's service did not answer for 10 seconds and was ended"
	}
	if log != nil {
		log.Warn(e.Cause)
	}
	return nil, nil, e
}

// bind creates the bindings' connection to a socket. The first request ends with ctx; the
// connection does not.
func bind(ctx context.Context, path string) (bound context.Context, end func(), err error) {
	connection, end := context.WithCancel(context.WithoutCancel(ctx))
	detach := context.AfterFunc(ctx, end)
	bound, err = bindings.NewConnection(connection, "unix://"+path)
	if !detach() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		end()
		return nil, nil, err
	}
	return bound, end, nil
}

// Close closes the connection. It does not interrupt calls in flight; cancel their contexts
// for that. Podman and its containers are not affected.
func (c *Client) Close() error {
	c.stopPings()
	c.pings.Wait()
	c.exits.close()
	c.pool.CloseIdleConnections()
	return nil
}

// Version is the version of the libpod API that answered Dial, which is Podman's
// own version.
func (c *Client) Version() semver.Version { return c.version }
