package logdelivery

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/engine/facts/failpoint"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/logs/logfiles"
	"github.com/podtask/podtask/internal/logs/logroute"
	"github.com/podtask/podtask/internal/logs/logsend"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/internal/testing/logstest"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

// ownerEnv makes the test binary an owner: it holds "DIR ADDRESS LIFE", and LIFE is up, or over if
// the container has ended.
const ownerEnv = "PODTASK_TEST_DELIVERY"

func TestMain(m *testing.M) {
	if words := strings.Fields(os.Getenv(ownerEnv)); len(words) == 3 {
		if err := own(words[0], words[1], words[2] == "over"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// own delivers the output of the task in a directory until all was sent.
func own(dir, address string, over bool) error {
	fail, err := failpoint.Parse(os.Getenv(failpoint.Env))
	if err != nil {
		return err
	}
	locks, err := state.OpenLocks(dir, state.Holder{})
	if err != nil {
		return err
	}
	events, err := state.OpenLog(dir, 0)
	if err != nil {
		return err
	}
	log, settings := slog.New(slog.DiscardHandler), config.Default().Delivery
	d := &Deliverer{
		Log: log, Fail: fail, Settings: settings, Files: logfiles.In(dir), Locks: locks, Events: &record.Events{Log: log, Store: events},
		Podman: func(context.Context) (Podman, error) { return controlled(dir), nil }, Senders: testServers(settings),
	}
	task := settled{lifecycle.State{
		ID: taskID, Containers: []lifecycle.Container{{Ended: over}}, Options: lifecycle.Options{Logs: taskdef.LogsAuto, LogSize: 4 * smallSegment},
		Task: taskdef.Task{Family: "shop", Containers: []taskdef.Container{{
			Name: "app", Log: &taskdef.LogConfiguration{Driver: logdriver.Fluentd, Options: map[string]string{"fluentd-address": address}},
		}}},
	}}
	var wg sync.WaitGroup
	<-d.Start(context.Background(), task, &wg).done
	wg.Wait()
	return nil
}

// controlled is a Podman whose conmon has its FIFO in a directory.
type controlled string

func (c controlled) InspectContainer(context.Context, string) (libpod.Observed, error) {
	return libpod.Observed{Status: libpod.Running, Control: string(c)}, nil
}

// conmon writes the log file of a container, and opens it again when it is told to.
type conmon struct {
	t       *testing.T
	files   logfiles.Files
	control *os.File

	opened chan struct{} // gets a value for each new file

	mu    sync.Mutex
	out   *os.File
	lines int
}

func newConmon(t *testing.T, dir string) *conmon {
	t.Helper()
	c := &conmon{t: t, files: logfiles.In(dir).Of(taskID, 0), opened: make(chan struct{}, 100)}
	if err := errors.Join(c.files.Place(), syscall.Mkfifo(filepath.Join(dir, "ctl"), 0o600)); err != nil {
		t.Fatal(err)
	}
	var err error
	if c.control, err = os.OpenFile(filepath.Join(dir, "ctl"), os.O_RDWR, 0); err != nil {
		t.Fatal(err)
	}
	c.open(c.files.Path())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for commands := bufio.NewScanner(c.control); commands.Scan(); {
			c.open(c.files.Path() + ".tmp")
			if err := os.Rename(c.files.Path()+".tmp", c.files.Path()); err != nil {
				t.Error(err)
			}
			c.opened <- struct{}{}
		}
	}()
	t.Cleanup(func() { c.control.Close(); <-done; c.out.Close() })
	return c
}

func (c *conmon) open(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out != nil {
		c.out.Close()
	}
	var err error
	if c.out, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600); err != nil {
		c.t.Error(err)
	}
}

// write writes n numbered lines, each in two pieces, with one of the other stream between.
func (c *conmon) write(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range n / 2 {
		odd, even := logroute.Stream(c.lines/2%2), logroute.Stream(1-c.lines/2%2)
		var b []byte
		for _, p := range []logroute.Piece{
			{Stream: odd, Text: []byte(strings.Repeat("x", 200))},
			{Stream: even, Last: true, Text: fmt.Append(nil, c.lines+1)},
			{Stream: odd, Last: true, Text: fmt.Append(nil, c.lines)},
		} {
			p.Time = time.Now()
			b = p.Append(b)
		}
		c.lines += 2
		if _, err := c.out.Write(b); err != nil {
			c.t.Error(err)
		}
	}
}

// A container that writes fast has its file rotated again as soon as it is full again.
func TestAFullFileIsRotatedAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := newConmon(t, dir)
	a := &Delivery{most: 4 * smallSegment, Deliverer: &Deliverer{
		Log: slog.New(slog.DiscardHandler), Podman: func(context.Context) (Podman, error) { return controlled(dir), nil },
	}}
	one := &container{files: c.files}
	for range 3 {
		c.write(800) // more than a segment
		before := one.asked
		a.rotate(t.Context(), one)
		if !one.asked.After(before) {
			t.Fatal("conmon is not told to open its file again")
		}
		<-c.opened
	}
}

// number is that of a line.
func number(t *testing.T, text string) (n int) {
	t.Helper()
	if _, err := fmt.Sscan(strings.TrimLeft(text, "x"), &n); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return n
}

// An owner is killed with -9 at each point of the delivery. At any time, what the server has and
// what comes after the position is all that was written: no position is past what was
// acknowledged. In the end the server has all lines, and not more than a batch twice for each kill.
func TestKilledOwnersLoseNoLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	server := &logstest.Forward{}
	go server.Serve(l)
	c := newConmon(t, dir)
	owner := func(life, point string) error {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
		cmd.Env = append(os.Environ(), ownerEnv+"="+dir+" "+l.Addr().String()+" "+life, failpoint.Env+"="+point)
		cmd.Stderr = os.Stderr
		return cmd.Run()
	}
	const lines = 800 // more than a segment
	kills := 0
	for _, point := range []string{failpoint.LogAcknowledged, failpoint.LogLinked, failpoint.LogPosition, failpoint.LogReopened, failpoint.LogAcknowledged} {
		c.write(lines)
		var exit *exec.ExitError
		if err := owner("up", point); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("at %s the owner ended with %v", point, err)
		}
		kills++
		route, err := c.files.Load()
		if err != nil {
			t.Fatal(err)
		}
		left := c.files.Reader(route.Position, logsend.LineBytes)
		here := map[int]bool{}
		for e, err := left.Next(); err != io.EOF; e, err = left.Next() {
			if err != nil {
				t.Fatal(err)
			}
			here[number(t, e.Text)] = true
		}
		left.Close()
		for _, r := range server.Records() {
			here[number(t, r.Members["log"])] = true
		}
		if len(here) != c.lines {
			t.Fatalf("killed at %s: %d of %d lines are sent or still to be sent", point, len(here), c.lines)
		}
	}
	c.write(lines)
	if err := owner("over", ""); err != nil {
		t.Fatal(err)
	}
	seen := map[int]int{}
	for _, r := range server.Records() {
		seen[number(t, r.Members["log"])]++
	}
	if len(seen) != c.lines {
		t.Errorf("the server has %d of %d lines", len(seen), c.lines)
	}
	if twice := len(server.Records()) - len(seen); twice > kills*logsend.BatchLines {
		t.Errorf("after %d kills, %d lines came again", kills, twice)
	}
	if all, err := c.files.Segments(); err != nil || all[len(all)-1].Number < 2 {
		t.Errorf("the files were not rotated: %+v, %v", all, err)
	}
}
