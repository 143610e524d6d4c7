package logdelivery

import (
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/logs/logfiles"
	"github.com/podtask/podtask/internal/logs/logroute"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// What waits is on the disk: ten containers with 200 MB each, whose server does not answer, take
// less than 40 MiB of memory.
func TestWhatWaitsTakesNoMemory(t *testing.T) { //nolint:paralleltest // it measures the process
	const routes, backlog, most = 10, 200 << 20, 40 << 20
	asked, end := make(chan struct{}, 10*routes), make(chan struct{})
	stalled := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-end
	}))
	defer stalled.Close()
	defer close(end)
	h := newHost(t)
	h.url = stalled.URL
	line := logroute.Piece{Time: time.Now(), Last: true, Text: []byte(strings.Repeat("x", 200))}.Append(nil)
	for i := range routes {
		if i > 0 {
			h.state.Task.Containers = append(h.state.Task.Containers, h.state.Task.Containers[0])
		}
		files := logfiles.In(h.dir).Of(taskID, i)
		if err := files.Place(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(files.Path(), []byte(strings.Repeat(string(line), (4<<20)/len(line))), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(files.Path(), backlog); err != nil { // what comes after is not read yet
			t.Fatal(err)
		}
	}
	h.state.Containers = make([]lifecycle.Container, routes)
	before := memory()
	p := h.process()
	for range routes {
		<-asked
	}
	debug.FreeOSMemory() // as a route that stands still does
	if grown := memory() - before; grown > most {
		t.Errorf("the process has grown by %d MiB", grown>>20)
	}
	all, err := p.Routes(p.State())
	if err != nil || len(all) != routes {
		t.Fatalf("the routes are %+v, %v", all, err)
	}
	for _, r := range all {
		if r.WaitingBytes != backlog {
			t.Errorf("%d bytes wait", r.WaitingBytes)
		}
	}
}

// memory is what the process has from the kernel.
func memory() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys - m.HeapReleased)
}
