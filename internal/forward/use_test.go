package forward_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/forward"
)

// asker is told of changes of a use.
type asker chan struct{}

func (a asker) changed() {
	select {
	case a <- struct{}{}:
	default:
	}
}

func newUse() (*forward.Use, asker) {
	a := make(asker, 1)
	return forward.NewUse(a.changed), a
}

// until waits until the use is as wanted, and was told.
func until(t *testing.T, u *forward.Use, told asker, want func(forward.Usage) bool) forward.Usage {
	t.Helper()
	for {
		if now := u.Usage(); want(now) {
			return now
		}
		select {
		case <-told:
		case <-t.Context().Done():
			t.Fatalf("it was never told: %+v", u.Usage())
		}
	}
}

func TestUseTellsOfRestAndOfItsEnd(t *testing.T) {
	t.Parallel()
	u, told := newUse()
	u.Rests(time.Millisecond)
	defer u.Close()
	<-told // nothing was used for that time
	before := until(t, u, told, func(now forward.Usage) bool { return !now.Busy })
	end := u.Begin()
	<-told
	until(t, u, told, func(now forward.Usage) bool { return now.Busy && !now.Waiting })
	end()
	end() // once counts
	<-told
	if now := u.Usage(); now.Busy || !now.IdleSince.After(before.IdleSince) {
		t.Errorf("%+v after %+v", now, before)
	}
}

func TestUseTellsThatAConnectionWaits(t *testing.T) {
	t.Parallel()
	u, told := newUse()
	end := u.Begin()
	served := u.Wait()
	<-told
	if now := u.Usage(); !now.Waiting || !now.Busy {
		t.Errorf("%+v", now)
	}
	served()
	end()
	if now := u.Usage(); now.Waiting || now.Busy {
		t.Errorf("%+v", now)
	}
	var nobody *forward.Use // notes nothing
	nobody.Begin()()
	nobody.Wait()()
	nobody.Rests(time.Hour)
}

// Connections that come while there is no target are held until there is one, and all of them are served by it.
func TestConnectionsAreHeldUntilThereIsATarget(t *testing.T) {
	t.Parallel()
	u, told := newUse()
	f := start(t, forward.Config{Patience: time.Millisecond})
	f.SetUse(u)
	f.SetPatience(time.Minute)
	var clients []client
	var all sync.WaitGroup
	for range 50 {
		c := dial(t, f)
		clients = append(clients, c)
		all.Go(func() {
			if got := c.ask("x"); got != "one x\n" {
				t.Errorf("%q", got)
			}
		})
	}
	until(t, u, told, func(now forward.Usage) bool { return now.Waiting })
	one, _ := server(t, "one")
	f.Route(forward.Set{Weight: 1, Targets: []forward.Target{one}})
	all.Wait()
	if now := u.Usage(); !now.Busy || now.Waiting {
		t.Errorf("%+v", now)
	}
	for _, c := range clients {
		c.Close()
	}
	if err := f.DrainAll(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestAHeldConnectionIsClosedWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	f := start(t, forward.Config{})
	f.SetPatience(time.Millisecond)
	c := dial(t, f)
	var closed *net.OpError
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.As(err, &closed) {
		t.Errorf("%v", err)
	}
	if n := f.Counts().Refused; n != 1 {
		t.Errorf("%d were refused", n)
	}
}

// TestStrangersOfASleeper: hundreds of clients that connect and hang up, or say nothing, while there is no target tell who asks once, and
// take nobody's place: when a target comes, a client behind them is served.
func TestStrangersOfASleeper(t *testing.T) {
	t.Parallel()
	f := forward.New(forward.Config{MaxConnections: 8})
	defer f.Close()
	var told atomic.Int64
	use := forward.NewUse(func() { told.Add(1) })
	f.SetUse(use)
	f.SetPatience(time.Hour)
	use.Usage() // who asks has seen that there is none
	l := listen(t)
	f.Serve(l)
	strangers := make([]net.Conn, 300)
	for i := range strangers {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		strangers[i] = c
		if i%2 == 0 {
			_ = c.Close()
		}
	}
	honest, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer honest.Close()
	for !use.Usage().Waiting {
		runtime.Gosched()
	}
	if n := told.Load(); n > 4 {
		t.Errorf("who asks was told %d times", n)
	}
	one, _ := server(t, "one")
	f.Route(forward.Set{ID: "s", Weight: 1, Targets: []forward.Target{one}})
	for i, c := range strangers {
		if i%2 == 1 {
			_ = c.Close()
		}
	}
	fmt.Fprintln(honest, "hello")
	if line, err := bufio.NewReader(honest).ReadString('\n'); err != nil || line != "one hello\n" {
		t.Errorf("%q, %v", line, err)
	}
}
