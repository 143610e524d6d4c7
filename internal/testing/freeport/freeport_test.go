package freeport_test

import (
	"net"
	"strconv"
	"sync"
	"testing"

	"github.com/podtask/podtask/internal/testing/freeport"
)

func TestEachPortIsGivenOutOnce(t *testing.T) {
	t.Parallel()
	var (
		mu    sync.Mutex
		wg    sync.WaitGroup
		given = map[uint16]bool{}
	)
	for range 4 {
		wg.Go(func() {
			for range 50 {
				port, err := freeport.Port()
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if given[port] {
					t.Errorf("port %d twice", port)
				}
				given[port] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

func TestAPortThatIsTakenIsPassedOver(t *testing.T) {
	t.Parallel()
	port := freeport.For(t)
	l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(int(port+1)))
	if err != nil {
		return // another process has it, and may leave it
	}
	defer l.Close()
	for range 3 {
		if got := freeport.For(t); got == port+1 {
			t.Errorf("port %d has a listener", got)
		}
	}
}
