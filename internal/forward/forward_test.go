package forward_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/forward"
	"github.com/podtask/podtask/internal/testing/freeport"
	"github.com/podtask/podtask/internal/testing/leaktest"
	"github.com/podtask/podtask/internal/testing/rudeclient"
)

// server answers each line of a connection with its name and the line, and after the end of
// what the client sends with "end".
func server(t *testing.T, name string) (target forward.Target, stop func()) {
	t.Helper()
	l := listen(t)
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer c.Close()
				lines := bufio.NewScanner(c)
				for lines.Scan() {
					fmt.Fprintf(c, "%s %s\n", name, lines.Text())
				}
				fmt.Fprintln(c, "end")
			})
		}
	})
	stop = sync.OnceFunc(func() {
		l.Close()
		conns.Wait()
	})
	t.Cleanup(stop)
	return forward.Target{ID: name, Address: l.Addr().String()}, stop
}

// listen returns a listener at a port that no other test gets when it is closed.
func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", freeport.For(t)))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// start returns a forwarder, which is closed before the servers are.
func start(t *testing.T, cfg forward.Config, targets ...forward.Target) *forward.Forwarder {
	t.Helper()
	f, err := forward.Listen("127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	f.Route(forward.Set{Weight: 1, Targets: targets})
	return f
}

// client is a connection to a forwarder.
type client struct {
	t *testing.T
	net.Conn
	lines *bufio.Reader
}

func dial(t *testing.T, f *forward.Forwarder) client {
	t.Helper()
	c, err := net.Dial("tcp", f.Address().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return client{t, c, bufio.NewReader(c)}
}

// ask sends a line and returns the answer.
func (c client) ask(line string) string {
	c.t.Helper()
	if _, err := fmt.Fprintln(c, line); err != nil {
		c.t.Error(err)
	}
	return c.next()
}

func (c client) next() string {
	c.t.Helper()
	answer, err := c.lines.ReadString('\n')
	if err != nil {
		c.t.Errorf("%q, %v", answer, err)
	}
	return answer
}

func TestConnectionsGoToTheTargetWithTheFewest(t *testing.T) {
	t.Parallel()
	one, _ := server(t, "one")
	two, _ := server(t, "two")
	f := start(t, forward.Config{}, one, two)
	got := map[string]int{}
	for range 10 {
		got[dial(t, f).ask("hello")]++
	}
	if got["one hello\n"] != 5 || got["two hello\n"] != 5 {
		t.Errorf("answers %v, want 5 of each", got)
	}
}

// The end of what a client sends reaches the server, whose answer still reaches the client.
func TestHalfClose(t *testing.T) {
	t.Parallel()
	one, _ := server(t, "one")
	c := dial(t, start(t, forward.Config{}, one))
	c.ask("hello")
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got := c.next(); got != "end\n" {
		t.Errorf("after the end of the request came %q", got)
	}
	if _, err := c.lines.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("after the answer: %v, want its end", err)
	}
}

func TestAnotherTargetIsDialedIfOneFails(t *testing.T) {
	t.Parallel()
	dead := forward.Target{ID: "dead", Address: fmt.Sprintf("127.0.0.1:%d", freeport.For(t))}
	one, _ := server(t, "one")
	f := start(t, forward.Config{}, dead, one)
	for range 5 {
		if got := dial(t, f).ask("hello"); got != "one hello\n" {
			t.Errorf("%q answered", got)
		}
	}
}

func TestConnectionsWaitForATarget(t *testing.T) {
	t.Parallel()
	one, _ := server(t, "one")
	f := start(t, forward.Config{Patience: time.Hour})
	c := dial(t, f)
	if _, err := fmt.Fprintln(c, "hello"); err != nil {
		t.Fatal(err)
	}
	f.Route(forward.Set{Weight: 1, Targets: []forward.Target{one}})
	if got := c.next(); got != "one hello\n" {
		t.Errorf("%q answered", got)
	}
}

func TestPatienceEnds(t *testing.T) {
	t.Parallel()
	c := dial(t, start(t, forward.Config{Patience: time.Nanosecond}))
	if _, err := c.lines.ReadByte(); err == nil {
		t.Error("a connection without a target has an answer")
	}
}

// A target that is taken away keeps its connections, gets no new ones, and is drained when
// the last one ends.
func TestDrain(t *testing.T) {
	t.Parallel()
	old, _ := server(t, "old")
	next, _ := server(t, "new")
	f := start(t, forward.Config{}, old)
	first := dial(t, f)
	first.ask("hello")
	f.Route(forward.Set{Weight: 1, Targets: []forward.Target{next}})
	for range 3 {
		if got := dial(t, f).ask("hello"); got != "new hello\n" {
			t.Errorf("a new connection went to %q", got)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Drain(ended, "old"); !errors.Is(err, context.Canceled) {
		t.Errorf("with an open connection: %v", err)
	}
	drained := make(chan error, 1)
	go func() { drained <- f.Drain(t.Context(), "old") }()
	if got := first.ask("still"); got != "old still\n" {
		t.Errorf("the old connection has %q", got)
	}
	first.Close()
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

// No connection is forwarded beyond the limit, and one that ends makes room.
func TestMaxConnections(t *testing.T) {
	t.Parallel()
	one, _ := server(t, "one")
	f := start(t, forward.Config{MaxConnections: 1}, one)
	first, second := dial(t, f), dial(t, f)
	first.ask("hello")
	if _, err := fmt.Fprintln(second, "hello"); err != nil {
		t.Fatal(err)
	}
	var ended atomic.Bool
	answered := make(chan bool)
	go func() {
		second.next()
		answered <- ended.Load()
	}()
	first.ask("again")
	ended.Store(true)
	first.Close()
	if !<-answered {
		t.Error("the second connection was forwarded beside the first")
	}
}

func TestCloseEndsEverything(t *testing.T) {
	leaktest.Check(t, func(t *testing.T) {
		one, _ := server(t, "one")
		f := start(t, forward.Config{Patience: time.Hour}, one)
		c := dial(t, f)
		c.ask("hello")
		f.Route()
		waiting := dial(t, f)
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		for name, c := range map[string]client{"an open": c, "a waiting": waiting} {
			if _, err := c.lines.ReadByte(); err == nil {
				t.Errorf("%s connection is not closed", name)
			}
		}
		again, err := forward.Listen(f.Address().String(), forward.Config{})
		if err != nil {
			t.Fatalf("its address cannot be used again: %v", err)
		}
		again.Close()
	})
}

// Connections that are one after the other use all targets.
func TestTargetsTakeTurns(t *testing.T) {
	t.Parallel()
	one, _ := server(t, "one")
	two, _ := server(t, "two")
	f := start(t, forward.Config{}, one, two)
	got := map[string]int{}
	for range 4 {
		c := dial(t, f)
		got[c.ask("hello")]++
		c.Close()
	}
	if len(got) != 2 {
		t.Errorf("answers %v, want some of each", got)
	}
}

func TestListenSaysWhy(t *testing.T) {
	t.Parallel()
	l := listen(t)
	defer l.Close()
	if f, err := forward.Listen(l.Addr().String(), forward.Config{}); err == nil {
		f.Close()
		t.Error("two listen at one address")
	}
}

// Targets come and go while clients ask: each request has an answer.
func TestNoRequestIsLostWhileTargetsChange(t *testing.T) {
	t.Parallel()
	const clients, requests = 8, 100
	f := start(t, forward.Config{})
	var asked atomic.Int64
	done := make(chan struct{})
	var replaced sync.WaitGroup
	replaced.Go(func() {
		for i := 0; ; i++ {
			next, stop := server(t, fmt.Sprint(i))
			f.Route(forward.Set{Weight: 1, Targets: []forward.Target{next}})
			for from := asked.Load(); asked.Load() < from+20; {
				select {
				case <-done:
					return
				default:
					runtime.Gosched()
				}
			}
			f.Route()
			if err := f.Drain(t.Context(), next.ID); err != nil {
				t.Error(err)
			}
			stop()
		}
	})
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for i := range requests {
				c, err := net.Dial("tcp", f.Address().String())
				if err != nil {
					t.Error(err)
					return
				}
				fmt.Fprintf(c, "%d\n", i)
				answer, err := bufio.NewReader(c).ReadString('\n')
				if err != nil {
					t.Errorf("request %d: %q, %v", i, answer, err)
				}
				asked.Add(1)
				c.Close()
			}
		})
	}
	all.Wait()
	close(done)
	replaced.Wait()
}

// Clients that say nothing take all the places. They make room for those that do.
func TestSilentClientsMakeRoom(t *testing.T) {
	t.Parallel()
	one, _ := server(t, "one")
	f := start(t, forward.Config{MaxConnections: 2, Quiet: 250 * time.Millisecond}, one)
	silent := []client{dial(t, f), dial(t, f)}
	for range 3 {
		if got := dial(t, f).ask("hello"); got != "one hello\n" {
			t.Errorf("%q answered", got)
		}
	}
	for _, c := range silent {
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := c.lines.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a silent connection: %v", err)
		}
	}
}

// Silent clients of one listener take all the places of the process. They make room for those of another listener.
func TestListenersShareTheProcess(t *testing.T) {
	t.Parallel()
	one, _ := server(t, "one")
	within := forward.NewBudget(2)
	crowded, other := start(t, forward.Config{Quiet: 250 * time.Millisecond, Within: within}, one), start(t, forward.Config{Quiet: 250 * time.Millisecond, Within: within}, one)
	for range 5 {
		dial(t, crowded)
	}
	for range 3 {
		for err := error(syscall.ECONNRESET); err != nil; { // on a busy host this client too may be silent for too long
			var got string
			c := dial(t, other)
			_, _ = fmt.Fprintln(c, "hello")
			if got, err = c.lines.ReadString('\n'); err == nil && got != "one hello\n" {
				t.Errorf("%q answered", got)
			}
		}
	}
}

func TestRudeClientsMakeRoom(t *testing.T) {
	t.Parallel()
	one, _ := server(t, "one")
	f := start(t, forward.Config{MaxConnections: 8, Quiet: 250 * time.Millisecond}, one)
	rudeclient.Crowd(t, 1, "/", func() (net.Conn, error) { return net.Dial("tcp", f.Address().String()) })
	if got := dial(t, f).ask("hello"); got != "one hello\n" {
		t.Errorf("%q answered", got)
	}
}

// A connection that is in use is not closed for others, which wait.
func TestConnectionsInUseAreKept(t *testing.T) {
	t.Parallel()
	one, _ := server(t, "one")
	f := start(t, forward.Config{MaxConnections: 1, Quiet: time.Hour}, one)
	first := dial(t, f)
	first.ask("hello")
	second := dial(t, f)
	if _, err := fmt.Fprintln(second, "later"); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if got := first.ask("again"); got != "one again\n" {
			t.Fatalf("the first connection: %q", got)
		}
	}
	first.Close()
	if got := second.next(); got != "one later\n" {
		t.Errorf("the second connection: %q", got)
	}
}

// The connections of a target that has left are cut, and counted; others are not.
func TestCut(t *testing.T) {
	t.Parallel()
	old, _ := server(t, "old")
	next, _ := server(t, "new")
	f := start(t, forward.Config{}, old)
	left := dial(t, f)
	left.ask("hello")
	f.Route(forward.Set{ID: "green", Weight: 1, Targets: []forward.Target{next}})
	stays := dial(t, f)
	stays.ask("hello")
	if n := f.Cut("old"); n != 1 {
		t.Errorf("%d connections were cut, want 1", n)
	}
	if _, err := left.lines.ReadByte(); err == nil {
		t.Error("a connection was cut and has an answer")
	}
	if err := f.Drain(t.Context(), "old"); err != nil {
		t.Error(err)
	}
	if got := stays.ask("again"); got != "new again\n" {
		t.Errorf("the other connection: %q", got)
	}
	if c := f.Counts(); c.Cut != 1 || c.Refused != 0 || c.Forwarded["green"] != 1 {
		t.Errorf("counted %+v", c)
	}
}

// A set with weight and without a target that answers leaves its connections to the others, of
// which one may be without weight.
func TestASetWithoutTargetsIsStoodInFor(t *testing.T) {
	t.Parallel()
	dead := forward.Target{ID: "dead", Address: fmt.Sprintf("127.0.0.1:%d", freeport.For(t))}
	one, _ := server(t, "one")
	f := start(t, forward.Config{})
	green := forward.Set{ID: "green", Targets: []forward.Target{one}}
	for _, blue := range []forward.Set{{ID: "blue", Weight: 100}, {ID: "blue", Weight: 100, Targets: []forward.Target{dead}}} {
		f.Route(blue, green)
		for range 3 {
			if got := dial(t, f).ask("hello"); got != "one hello\n" {
				t.Errorf("%+v: %q answered", blue, got)
			}
		}
	}
}

// Weights change under kept connections: each has its answers until it ends.
func TestAChangeOfWeightsCutsNothing(t *testing.T) {
	t.Parallel()
	blue, _ := server(t, "blue")
	green, _ := server(t, "green")
	f := start(t, forward.Config{})
	weigh := func(b, g int) {
		f.Route(forward.Set{ID: "blue", Weight: b, Targets: []forward.Target{blue}}, forward.Set{ID: "green", Weight: g, Targets: []forward.Target{green}})
	}
	var kept []client
	for _, step := range [][2]int{{100, 0}, {90, 10}, {50, 50}, {0, 100}, {100, 0}} {
		weigh(step[0], step[1])
		got := map[string]int{}
		for range 20 {
			c := dial(t, f)
			got[c.ask("hello")]++
			c.Close()
		}
		kept = append(kept, dial(t, f))
		for _, c := range kept {
			c.ask("still")
		}
		if want := step[1] / 5; max(got["green hello\n"]-want, want-got["green hello\n"]) > 1 {
			t.Errorf("weights %v: answers %v of 20", step, got)
		}
	}
	if c := f.Counts(); c.Cut+c.Refused+c.Quiet > 0 {
		t.Errorf("counted %+v", c)
	}
}

// Several listeners share targets and counts; one that is detached leaves the connections of all alone.
func TestListenersAreAttachedAndDetached(t *testing.T) {
	leaktest.Check(t, func(t *testing.T) {
		target, stop := server(t, "a")
		defer stop()
		f := forward.New(forward.Config{})
		defer f.Close()
		f.Route(forward.Set{ID: "set", Targets: []forward.Target{target}})
		one, two := listen(t), listen(t)
		budget := forward.NewBudget(2)
		detach := f.Attach(one, budget)
		f.Attach(two, budget)
		ask := func(c net.Conn) {
			t.Helper()
			fmt.Fprintln(c, "x")
			if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || line != "a x\n" {
				t.Errorf("%q, %v", line, err)
			}
		}
		var conns []net.Conn
		for _, l := range []net.Listener{one, two} {
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			ask(c)
			conns = append(conns, c)
		}
		detach()
		detach()
		if c, err := net.Dial("tcp", one.Addr().String()); err == nil {
			c.Close()
			t.Error("a listener that is detached accepts")
		}
		for _, c := range conns {
			ask(c)
		}
		if n := f.Counts().Forwarded["set"]; n != 2 {
			t.Errorf("%d connections were counted", n)
		}
		third, err := net.Dial("tcp", two.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer third.Close()
		fmt.Fprintln(third, "x") // it waits for a place in the budget
		conns[0].Close()
		if line, err := bufio.NewReader(third).ReadString('\n'); err != nil || line != "a x\n" {
			t.Errorf("the connection that waited: %q, %v", line, err)
		}
		f.Close()
		late := listen(t)
		f.Attach(late, budget)()
		if c, err := net.Dial("tcp", late.Addr().String()); err == nil {
			c.Close()
			t.Error("a forwarder that is closed accepts")
		}
	})
}

// TestConnectionsSettle: a connection that was accepted before its listener was stopped has its time, also if it had no target yet.
func TestConnectionsSettle(t *testing.T) {
	t.Parallel()
	f := forward.New(forward.Config{})
	defer f.Close()
	l := listen(t)
	stop := f.Serve(l)
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	use := forward.NewUse(func() {})
	f.SetUse(use)
	second, err := net.Dial("tcp", l.Addr().String()) // accepted after the first one
	if err != nil {
		t.Fatal(err)
	}
	_ = second.Close()
	for !use.Usage().Busy {
		runtime.Gosched()
	}
	stop()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Settle(over); !errors.Is(err, context.Canceled) {
		t.Errorf("connections without a target do not count: %v", err)
	}
	one, _ := server(t, "one")
	f.Route(forward.Set{ID: "s", Weight: 1, Targets: []forward.Target{one}})
	fmt.Fprintln(c, "hello")
	_ = c.(*net.TCPConn).CloseWrite()
	if text, err := io.ReadAll(c); err != nil || string(text) != "one hello\nend\n" {
		t.Errorf("%q, %v", text, err)
	}
	_ = c.Close()
	if err := f.Settle(t.Context()); err != nil {
		t.Error(err)
	}
}
