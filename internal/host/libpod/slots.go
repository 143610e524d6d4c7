package libpod

import (
	"context"
	"slices"
	"sync"
	"time"
)

// maxMutations is the number of calls that create and start objects that may run at once,
// of those that stop some, and of those that remove some. Six were no faster than four when measured.
const maxMutations = 4

// slots limits the number of concurrent calls, to make them faster. A call that hangs loses
// its slot after slotTime.
type slots struct {
	mu      sync.Mutex
	free    int
	waiting [2][]chan struct{} // for each priority, the waiting calls, which receive a slot
}

// priority is the order in which waiting calls get a slot; lower values come first.
type priority int

// The start of an infra container takes as long as the creation of several containers, and
// the containers of its pod can be started only after it.
const (
	urgent priority = iota
	normal
)

// slotTime is the longest time for which a call keeps its slot. Few calls of a busy Podman take
// longer, but a call that hangs, for example on a mount, may take minutes until its deadline.
const slotTime = 15 * time.Second

func newSlots(n int) *slots { return &slots{free: n} }

// take waits for a slot and returns a function that frees it.
func (s *slots) take(ctx context.Context, p priority) (free func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if turn := s.queue(p); turn != nil {
		select {
		case <-turn:
		case <-ctx.Done():
			s.leave(p, turn)
			return nil, ctx.Err()
		}
	}
	once := sync.OnceFunc(s.pass)
	late := time.AfterFunc(slotTime, once)
	return func() { late.Stop(); once() }, nil
}

// queue takes a free slot and returns nil. If none is free, it returns the channel that will
// receive one.
func (s *slots) queue(p priority) (turn chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free > 0 {
		s.free--
		return nil
	}
	turn = make(chan struct{}, 1)
	s.waiting[p] = append(s.waiting[p], turn)
	return turn
}

// leave ends the wait for a slot. A slot that was received meanwhile is passed on.
func (s *slots) leave(p priority, turn chan struct{}) {
	s.mu.Lock()
	i := slices.Index(s.waiting[p], turn)
	if i >= 0 {
		s.waiting[p] = slices.Delete(s.waiting[p], i, i+1)
	}
	s.mu.Unlock()
	if i < 0 {
		s.pass()
	}
}

// pass hands a slot to the next waiting call, or frees it.
func (s *slots) pass() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, calls := range s.waiting {
		if len(calls) > 0 {
			calls[0] <- struct{}{}
			s.waiting[p] = calls[1:]
			return
		}
	}
	s.free++
}
