package ecsexec

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/aws/datachannel"
)

// Target names the container of a session, with the command that it runs or the port that it connects to.
type Target struct {
	Task      string // its ID
	Container int    // its place in the definition
	Command   []string
	// Forward has the port that is forwarded instead of running a command.
	Forward datachannel.Forwarding
}

// forwards reports whether a session forwards a port.
func (t Target) forwards() bool { return t.Forward.Port != 0 }

// Program is one with a terminal. What is typed is written to it. Its methods may be called
// concurrently.
type Program interface {
	io.Writer
	// CopyOutput copies what the program prints until it has ended.
	CopyOutput(io.Writer) error
	Resize(ctx context.Context, size datachannel.Size) error
	// Wait returns the exit code when the output has ended.
	Wait(ctx context.Context) (code int, err error)
	// End ends the program, as a terminal that hangs up.
	End(ctx context.Context) error
}

// Forwarder is a Program that forwards a port. It ends when it is ended.
type Forwarder interface {
	Program
	// Failed has the errors of connections that could not be made.
	Failed() <-chan error
}

// Config is what sessions need.
type Config struct {
	Log *slog.Logger
	// Start starts a program, or a Forwarder. The connection to it ends with ctx; the program does not. What
	// the error says is shown to the user.
	Start func(ctx context.Context, t Target, size datachannel.Size) (Program, error)
}

// The times and numbers.
const (
	// Most is the number of sessions that there may be.
	Most = 32
	// away is the time for which a token is good, and how long a session waits for a client that has
	// lost its connection.
	away = time.Minute
	// greeting limits the time that a client may take for the handshake.
	greeting = 30 * time.Second
	// unsized is the time for which a program waits for the size of the terminal.
	unsized = time.Second
	// leaving limits the time that the last output may take to be acknowledged.
	leaving = 10 * time.Second
	// ending limits the time that a program may take to end that was told to.
	ending = 15 * time.Second
)

// ErrTooMany is the error if as many sessions are open as may be.
var ErrTooMany = fmt.Errorf("%d sessions are open: end one of them", Most)

// Grant lets a client connect to a session.
type Grant struct {
	// ID is that of the session.
	ID string
	// Token is good for one connection, within a minute.
	Token string
}

// Sessions are the sessions of an agent. Its methods may be called concurrently.
type Sessions struct {
	cfg  Config
	ctx  context.Context //nolint:containedctx // the lifetime of all sessions
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu   sync.Mutex
	open map[string]*entry
}

// entry is a session with the digest of the token that opens it.
type entry struct {
	*session
	token [sha256.Size]byte
	until time.Time // of the token; zero: it was used
}

// New returns sessions, none yet.
func New(cfg Config) *Sessions {
	s := &Sessions{cfg: cfg, open: make(map[string]*entry)}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// Close ends all sessions and returns when that is done: soon, also if a program or a client
// does not take part.
func (s *Sessions) Close() {
	s.mu.Lock()
	s.stop()
	s.mu.Unlock()
	s.wg.Wait()
}

// Open makes a session.
func (s *Sessions) Open(t Target) (Grant, error) {
	var random [16]byte
	rand.Read(random[:]) // never fails
	g := Grant{ID: "ecs-execute-command-" + hex.EncodeToString(random[:8])}
	if t.forwards() {
		g.ID = "port-forwarding-" + hex.EncodeToString(random[:8])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ctx.Err() != nil:
		return g, errors.New("the agent is ending")
	case len(s.open) >= Most:
		return g, ErrTooMany
	}
	e := &entry{session: newSession(g.ID, s.cfg, t, binary.BigEndian.Uint64(random[8:]))}
	g.Token = e.renew()
	s.open[g.ID] = e
	s.wg.Go(func() {
		e.run(s.ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, g.ID)
	})
	return g, nil
}

// renew gives a session another token. Sessions.mu is held, or the session is not shared yet.
func (e *entry) renew() string {
	var random [32]byte
	rand.Read(random[:]) // never fails
	token := base64.StdEncoding.EncodeToString(random[:])
	e.token, e.until = sha256.Sum256([]byte(token)), time.Now().Add(away)
	return token
}

// Resume lets the client of a session connect again; false: the session has ended.
func (s *Sessions) Resume(id string) (Grant, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.open[id]
	if e == nil {
		return Grant{}, false
	}
	return Grant{ID: id, Token: e.renew()}, true
}

// Terminate ends a session, if it has not ended.
func (s *Sessions) Terminate(id string) {
	s.mu.Lock()
	e := s.open[id]
	s.mu.Unlock()
	if e != nil {
		e.do(func() { e.end("the session was terminated") })
	}
}

// use returns the session that a token opens, once; nil: it opens none. Of a session the
// caller ends the connection with wg.Done.
func (s *Sessions) use(id, token string) *session {
	sum := sha256.Sum256([]byte(token))
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.open[id]
	if s.ctx.Err() != nil || e == nil || subtle.ConstantTimeCompare(sum[:], e.token[:]) != 1 || !time.Now().Before(e.until) {
		return nil
	}
	e.until = time.Time{}
	s.wg.Add(1)
	return e.session
}
