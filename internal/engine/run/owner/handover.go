package owner

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/podtask/podtask/pkg/api"
)

// Offer hands a task over, with its lock, to another process of this user: no third process can
// become the owner in between.
type Offer struct {
	listener net.Listener
	cancel   context.CancelFunc
	wg       sync.WaitGroup
	task     *Owner
	given    chan struct{} // closed: task is set
	accepted bool
}

// Offer offers the task at a socket, until another process has received it or the offer is closed.
// Until then the owner must not be run or closed.
func (o *Owner) Offer(socket string) (*Offer, error) {
	f, err := NewOffer(socket)
	if err == nil {
		f.Give(o)
	}
	return f, err
}

// NewOffer makes an offer of a task that does not exist yet. A process that calls Receive waits for Give.
func NewOffer(socket string) (*Offer, error) {
	l, err := api.Listen(socket)
	if err != nil {
		return nil, fmt.Errorf("offer the task to another process: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	f := &Offer{listener: l, cancel: cancel, given: make(chan struct{})}
	f.wg.Go(func() {
		defer l.Close()
		for !f.accepted {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f.send(ctx, c.(*net.UnixConn))
			_ = c.Close()
		}
	})
	return f, nil
}

// Give gives the task to the process that has called Receive, or will. It is called once. Until the offer is closed, the owner must
// not be run or closed.
func (f *Offer) Give(o *Owner) {
	f.task = o
	close(f.given)
}

// send sends the task to a process that wants it.
func (f *Offer) send(ctx context.Context, c *net.UnixConn) {
	select {
	case <-f.given:
	case <-ctx.Done():
		return
	}
	if err := f.task.lock.Send(ctx, c); err != nil {
		f.task.all.Log.Debug("the task is still offered", "task", f.task.id, "error", err)
		return
	}
	f.accepted = true
}

// Close ends the offer and reports whether another process has received the task. If not, it is
// still owned by this process.
func (f *Offer) Close() (accepted bool) {
	f.cancel()
	_ = f.listener.Close()
	f.wg.Wait()
	return f.accepted
}

// ErrNotOffered means that no process offers the task.
var ErrNotOffered = errors.New("the task is not offered")

// Receive becomes the owner of a task that another process offers at a socket.
func (o *Owners) Receive(ctx context.Context, id, socket string) (*Owner, error) {
	c, err := api.DialSocket(ctx, socket)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotOffered, err)
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	lock, err := o.Tasks.Locks.Receive(c, id)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotOffered, err)
	}
	return o.load(id, lock)
}
