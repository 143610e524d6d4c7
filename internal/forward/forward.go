package forward

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/podtask/podtask/internal/sleep"
	"github.com/podtask/podtask/pkg/api/connlimit"
	"golang.org/x/sys/unix"
)

// Target is where connections may go.
type Target struct {
	// ID names the target for Drain and Cut.
	ID string
	// Address is HOST:PORT, or what Config.Dial takes.
	Address string
}

// Set are targets that share the connections of a weight.
type Set struct {
	// ID names the set in Counts. It is unique among the sets of a forwarder.
	ID string
	// Weight is the part of the sum of all weights that the set has of new connections. A set
	// without weight gets connections only while no set with weight has a target that answers.
	Weight  int
	Targets []Target
}

// Config is how a Forwarder works. Zero values stand for the defaults.
type Config struct {
	Log *slog.Logger
	// MaxConnections of one listener are forwarded at a time (1024, but at most a sixteenth of the descriptors that the process may open).
	// Further ones wait in the kernel's queue, unless one of them has been quiet: it is closed then.
	MaxConnections int
	// Within bounds the connections of forwarders together (those of all in the process: a twelfth of its descriptors, because each
	// connection takes six: two sockets, and two pipes of splice(2)).
	Within *Budget
	// Quiet is the time for which a connection that makes room has carried nothing (30 s).
	Quiet time.Duration
	// Patience bounds the wait of a connection while no target can be dialed (10 s); SetPatience changes it.
	Patience time.Duration
	// DialTimeout limits an attempt to connect to a target (2 s).
	DialTimeout time.Duration
	// Dial connects to the address of a target; nil: over TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

const (
	maxConnections = 1024
	quiet          = 30 * time.Second
	// lookPause is between two looks for a quiet connection.
	lookPause   = 250 * time.Millisecond
	patience    = 10 * time.Second
	dialTimeout = 2 * time.Second
	// redial is the pause before a target is dialed again that could not be.
	redial = 100 * time.Millisecond
	// acceptPause is the pause after an Accept that failed, when descriptors have run out
	// for instance; that is logged once in tellPause.
	acceptPause = 50 * time.Millisecond
	tellPause   = time.Minute
)

// process bounds the connections of all forwarders, so that clients of listeners leave descriptors to everything else.
var process = sync.OnceValue(func() *Budget {
	const part, all = 12, 1 << 20
	return NewBudget(connlimit.Share(part, all))
})

// Forwarder forwards connections until it is closed. Its methods may be called
// concurrently.
type Forwarder struct {
	cfg     Config
	address net.Addr        // of Listen; nil for New
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	doors   map[*door]bool
	quiet   uint64 // connections that made room for others
	sets    []*share
	open    map[string]map[*connection]bool // by id of the target, also of one that was taken away
	live    int                             // connections, also those that have no target yet
	changed chan struct{}                   // closed and replaced when a field above changes
	refused uint64
	cut     uint64
	proxied bool // connections begin with the client's address
	// patience applies to connections to come.
	patience time.Duration
	use      *Use // notes connections to come; nil: nobody asks
}

// door is a listener whose connections are forwarded.
type door struct {
	net.Listener
	budget *Budget
	// shared: other listeners have the same budget, so none takes of it before there is a connection.
	shared bool
	done   chan struct{} // closed when the listener is not used any more
	ended  chan struct{} // closed when no connection is accepted any more
}

// Budget bounds the connections of several listeners together.
type Budget struct {
	slots   chan struct{}
	clients clients
}

// NewBudget returns a budget of n connections.
func NewBudget(n int) *Budget { return &Budget{slots: make(chan struct{}, n)} }

// connection is a connection that is forwarded, or is about to be.
type connection struct {
	client net.Conn
	server net.Conn // nil while the target is dialed
	set    string   // of whose weight the connection is a part; empty before the first choice
}

// Listen opens a listener at a TCP address, HOST:PORT, and begins to forward. Connections
// wait until there is a target.
func Listen(address string, cfg Config) (*Forwarder, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	f := New(cfg)
	f.address = listener.Addr()
	f.Serve(listener)
	return f, nil
}

// Share opens a listener at a TCP address, HOST:PORT, that another process of the same user may open with Share
// too while this one listens (SO_REUSEPORT), so that the address can move from one to the other without
// a gap.
func Share(address string) (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
		return errors.Join(err, failed)
	}}
	return config.Listen(context.Background(), "tcp", address)
}

// Serve forwards the connections of a listener, at most MaxConnections at a time, until stop or Close, which close the
// listener. Open connections survive stop.
func (f *Forwarder) Serve(l net.Listener) (stop func()) {
	return f.attach(&door{Listener: l, budget: NewBudget(f.cfg.MaxConnections)})
}

// New returns a forwarder that listens nowhere yet.
func New(cfg Config) *Forwarder {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.MaxConnections == 0 {
		const part = 16
		cfg.MaxConnections = connlimit.Share(part, maxConnections)
	}
	if cfg.Within == nil {
		cfg.Within = process()
	}
	if cfg.Quiet == 0 {
		cfg.Quiet = quiet
	}
	if cfg.Patience == 0 {
		cfg.Patience = patience
	}
	if cfg.Dial == nil {
		cfg.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
	}
	if cfg.DialTimeout == 0 {
		cfg.DialTimeout = dialTimeout
	}
	f := &Forwarder{cfg: cfg, doors: make(map[*door]bool), open: make(map[string]map[*connection]bool), changed: make(chan struct{}), patience: cfg.Patience}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f
}

// Attach forwards the connections of a listener too, until detach or Close, which close it. Open connections
// survive detach. A forwarder that is closed closes the listener at once. The budget may be that of listeners of other forwarders
// too: a connection beyond it waits, unless one of them all has been quiet, which is closed then.
func (f *Forwarder) Attach(l net.Listener, b *Budget) (detach func()) {
	return f.attach(&door{Listener: l, budget: b, shared: true})
}

func (f *Forwarder) attach(d *door) (detach func()) {
	d.done, d.ended = make(chan struct{}), make(chan struct{})
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		d.Close()
		return func() {}
	}
	f.doors[d] = true
	f.running.Go(func() { f.accept(d) })
	return sync.OnceFunc(func() {
		close(d.done)
		d.Close()
		<-d.ended
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.doors, d)
	})
}

// Address is where the forwarder listens; nil after New.
func (f *Forwarder) Address() net.Addr { return f.address }

// Route replaces the sets to which new connections go. Connections that exist stay where they
// are, whatever the weights are now.
func (f *Forwarder) Route(sets ...Set) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if routes, changed := reroute(f.sets, sets); changed {
		f.sets = routes
		f.change()
	}
}

// SendAddress has new connections to targets begin with the client's address, in a header of the PROXY protocol,
// version 1, or not.
func (f *Forwarder) SendAddress(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.proxied = on
}

func (f *Forwarder) sendsAddress() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.proxied
}

// SetPatience changes how long connections to come wait while no target can be dialed; 0 stands for that of Config.
func (f *Forwarder) SetPatience(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.patience = cmp.Or(d, f.cfg.Patience)
}

// SetUse has a use note connections to come; nil: none is noted.
func (f *Forwarder) SetUse(u *Use) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.use = u
}

func (f *Forwarder) sleeper() (*Use, time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.use, f.patience
}

// Drain returns when a target that was taken away has no connection any more, or with the
// error of ctx.
func (f *Forwarder) Drain(ctx context.Context, id string) error {
	return f.whenNone(ctx, func() int { return len(f.open[id]) })
}

// DrainAll returns when no target has a connection any more, or with the error of ctx.
func (f *Forwarder) DrainAll(ctx context.Context) error {
	return f.whenNone(ctx, func() int { return len(f.open) })
}

// Settle returns when there is no connection any more, also none that has no target yet, or with the error of ctx. Connections that were
// accepted before a listener was stopped count.
func (f *Forwarder) Settle(ctx context.Context) error {
	return f.whenNone(ctx, func() int { return f.live })
}

func (f *Forwarder) whenNone(ctx context.Context, n func() int) error {
	return WhenNone(ctx, func() (int, <-chan struct{}) {
		f.mu.Lock()
		defer f.mu.Unlock()
		return n(), f.changed
	})
}

// WhenNone returns when count is 0, or with the error of ctx. The channel that count returns is closed when the number has
// changed.
func WhenNone(ctx context.Context, count func() (n int, changed <-chan struct{})) error {
	for {
		n, changed := count()
		if n == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lives counts connections.
func (f *Forwarder) lives(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.live += n; f.live == 0 {
		f.change()
	}
}

// Cut closes the connections of a target that was taken away and returns how many these were.
// One that is just being opened goes to another target.
func (f *Forwarder) Cut(id string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.open[id] {
		if c.server == nil {
			continue
		}
		c.client.Close()
		c.server.Close()
		n++
	}
	f.cut += uint64(n)
	return n
}

// Counts are numbers of connections since the forwarder was opened.
type Counts struct {
	// Forwarded are those that reached a target, by id of the set, of the sets that there are.
	Forwarded map[string]uint64
	// Refused are those that were closed because no target could be dialed in time, Cut those
	// that Cut closed, and Quiet those that made room for others.
	Refused, Cut, Quiet uint64
	// Open are those that there are now.
	Open int
}

// Counts returns what was counted so far.
func (f *Forwarder) Counts() Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := Counts{Forwarded: make(map[string]uint64), Refused: f.refused, Cut: f.cut, Quiet: f.quiet}
	for _, s := range f.sets {
		c.Forwarded[s.ID] = s.forwarded
	}
	for _, open := range f.open {
		c.Open += len(open)
	}
	return c
}

// Close stops listening, closes all connections, and returns when nothing of the forwarder
// runs.
func (f *Forwarder) Close() error {
	f.cancel()
	f.mu.Lock()
	f.closed = true
	var errs []error
	for d := range f.doors {
		errs = append(errs, d.Close())
	}
	f.mu.Unlock()
	f.running.Wait()
	return errors.Join(errs...)
}

// change wakes those who wait. The caller holds mu.
func (f *Forwarder) change() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// accept accepts connections of a listener until it is detached or the forwarder is closed.
func (f *Forwarder) accept(d *door) {
	defer close(d.ended)
	here := func() bool { return true }
	var told time.Time
	for d.shared || f.takeSlot(d, d.budget, func() bool { return queued(d.Listener) }) {
		client, err := d.Accept()
		switch {
		case f.ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			if err == nil {
				client.Close()
			}
			return
		case err != nil:
			if time.Since(told) > tellPause {
				f.cfg.Log.Warn("a connection could not be accepted", "address", d.Addr(), "error", err)
				told = time.Now()
			}
			if !d.shared {
				<-d.budget.slots
			}
			sleep.For(f.ctx, acceptPause)
		case d.shared && !f.takeSlot(d, d.budget, here):
			client.Close()
			return
		case !f.takeSlot(d, f.cfg.Within, here):
			<-d.budget.slots
			client.Close()
			return
		default:
			f.lives(1)
			f.running.Go(func() {
				defer f.lives(-1)
				defer func() { _, _ = <-d.budget.slots, <-f.cfg.Within.slots }()
				f.forward(d, client)
			})
		}
	}
}

// takeSlot waits until a budget has room for another connection, and makes room while one waits; false: the listener is detached
// or the forwarder is closed.
func (f *Forwarder) takeSlot(d *door, b *Budget, waits func() bool) bool {
	slots := b.slots
	look := time.NewTimer(0)
	defer look.Stop()
	for {
		select {
		case slots <- struct{}{}:
			return true
		default:
		}
		select {
		case slots <- struct{}{}:
			return true
		case <-look.C:
			if waits() && b.clients.closeQuietest(f.cfg.Quiet) {
				f.mu.Lock()
				f.quiet++
				f.mu.Unlock()
			}
			look.Reset(lookPause)
		case <-d.done:
			return false
		case <-f.ctx.Done():
			return false
		}
	}
}

// forward forwards one connection, which it closes.
func (f *Forwarder) forward(d *door, client net.Conn) {
	defer client.Close()
	use, patience := f.sleeper()
	defer use.Begin()()
	defer d.budget.clients.add(client)()
	defer f.cfg.Within.clients.add(client)()
	c := &connection{client: client}
	id := f.connect(c, use, patience)
	if id == "" {
		return
	}
	defer f.done(id, c)
	server := c.server
	defer server.Close()
	stop := context.AfterFunc(f.ctx, func() {
		client.Close()
		server.Close()
	})
	defer stop()
	if f.sendsAddress() {
		if _, err := io.WriteString(server, proxyHeader(client)); err != nil {
			return
		}
	}
	join(client, server)
}

// connect connects to a target and returns its id. It tries one after the other, and again
// until patience ends. Without a connection it returns "".
func (f *Forwarder) connect(c *connection, use *Use, patience time.Duration) (id string) {
	ctx, cancel := context.WithTimeout(f.ctx, patience)
	defer cancel()
	var failed []string
	var waited func()
	defer func() {
		if waited != nil {
			waited()
		}
	}()
	for ctx.Err() == nil {
		target, found, changed := f.pick(c, failed)
		if !found {
			// Each was tried, or there is none.
			again := redial
			if len(failed) == 0 {
				if again = patience; waited == nil {
					waited = use.Wait()
				}
			}
			wait := time.NewTimer(again)
			select {
			case <-changed:
			case <-wait.C:
			case <-ctx.Done():
			}
			wait.Stop()
			failed = nil
			continue
		}
		once, cancel := context.WithTimeout(ctx, f.cfg.DialTimeout)
		server, err := f.cfg.Dial(once, target.Address)
		cancel()
		if err == nil && f.opened(c, server, target) {
			return target.ID
		}
		if err == nil {
			err = errors.New("it was taken away while it was dialed")
			server.Close()
		}
		f.cfg.Log.Debug("a target cannot be dialed", "address", c.client.LocalAddr(), "target", target.ID, "error", err)
		f.done(target.ID, c)
		failed = append(failed, target.ID)
	}
	if f.ctx.Err() == nil {
		f.mu.Lock()
		f.refused++
		f.mu.Unlock()
	}
	return ""
}

// pick chooses a target for a connection that is not among those that failed, and counts the
// connection to it.
func (f *Forwarder) pick(c *connection, failed []string) (best Target, found bool, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if set := choose(f.sets, c.set); set != nil {
		c.set = set.ID
	}
	for _, set := range inOrder(f.sets, c.set) {
		if best, found = set.pick(failed, func(id string) int { return len(f.open[id]) }); found {
			break
		}
	}
	if found {
		if f.open[best.ID] == nil {
			f.open[best.ID] = make(map[*connection]bool)
		}
		f.open[best.ID][c] = true
	}
	return best, found, f.changed
}

// opened notes that a connection has reached its target; false: the target was taken away
// meanwhile.
func (f *Forwarder) opened(c *connection, server net.Conn, target Target) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, set := range f.sets {
		if slices.Contains(set.Targets, target) {
			set.forwarded++
			c.server = server
			return true
		}
	}
	return false
}

// done counts a connection to a target less.
func (f *Forwarder) done(id string, c *connection) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if delete(f.open[id], c); len(f.open[id]) == 0 {
		delete(f.open, id)
		f.change()
	}
}

// join copies both ways. The end of one direction is passed on, and the other continues; an
// error ends both.
func join(a, b net.Conn) {
	var both sync.WaitGroup
	both.Go(func() { copyTo(a, b) })
	copyTo(b, a)
	both.Wait()
}

func copyTo(dst, src net.Conn) {
	_, err := io.Copy(dst, src)
	if half, ok := dst.(interface{ CloseWrite() error }); ok && err == nil {
		err = half.CloseWrite()
	}
	if err != nil {
		dst.Close()
		src.Close()
	}
}
