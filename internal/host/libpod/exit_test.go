package libpod_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/host/libpod"
)

const exitID = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// monitor starts what looks like the conmon of container exitID until the test ends.
func monitor(t *testing.T, dir string) (pid int) {
	t.Helper()
	pid, _ = libpod.StartMonitor(t, exitID, dir)
	return pid
}

// monitored returns a client of a Podman whose container x is in a state and has a conmon,
// and the number of its waits.
func monitored(t *testing.T, status string, conmon *atomic.Int64) (c *libpod.Client, inspected <-chan struct{}, waits *atomic.Int64) {
	t.Helper()
	seen := make(chan struct{}, 16)
	waits = new(atomic.Int64)
	c = recorded(t, "5.4.2", func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/wait") {
			waits.Add(1)
			reply(w, http.StatusOK, "0")
			return
		}
		reply(w, http.StatusOK, fmt.Sprintf(`{"Id":%q,"Name":"x","State":{"Status":%q,"Pid":1,"ConmonPid":%d}}`, exitID, status, conmon.Load()))
		seen <- struct{}{}
	})
	return c, seen, waits
}

// What an inspection says of conmon is kept until an inspection finds that the container
// does not run, if nothing waits for it before.
func TestOnlyContainersThatRunAreRemembered(t *testing.T) {
	t.Parallel()
	var status atomic.Value
	c := recorded(t, "5.4.2", func(w http.ResponseWriter, _ *http.Request) {
		if status.Load() == "" {
			reply(w, http.StatusNotFound, `{"message":"no such container","response":404}`)
			return
		}
		reply(w, http.StatusOK, fmt.Sprintf(`{"Id":%q,"Name":"x","State":{"Status":%q,"Pid":1,"ConmonPid":1}}`, exitID, status.Load()))
	})
	for _, end := range []string{"exited", ""} {
		for now, want := range map[string]int{"running": 1, end: 0} {
			status.Store("running")
			if _, err := c.InspectContainer(t.Context(), "x"); err != nil {
				t.Fatal(err)
			}
			status.Store(now)
			if _, err := c.InspectContainer(t.Context(), "x"); err != nil {
				t.Fatal(err)
			}
			if n := libpod.Remembered(c); n != want {
				t.Errorf("%q: %d containers are remembered, want %d", now, n, want)
			}
		}
	}
}

// The end of a container is learned from its conmon, whatever of it is missing, and from
// Podman if conmon is not here.
func TestWaitLearnsOfTheExitFromConmon(t *testing.T) {
	t.Parallel()
	write := func(dir string) error {
		fresh := filepath.Join(dir, exitID+".fresh")
		if err := os.WriteFile(fresh, []byte("0"), 0o600); err != nil {
			return err
		}
		return os.Rename(fresh, filepath.Join(dir, exitID))
	}
	for name, c := range map[string]struct {
		status string
		before func(dir string) error // before the wait
		after  func(dir string) error
		other  bool // the process is not this container's conmon
		waits  int64
	}{
		"the exit file is written":        {status: "running", after: write},
		"it is there already":             {status: "running", before: write},
		"the container does not run":      {status: "exited", before: os.Remove},
		"the process is not its conmon":   {status: "running", other: true, waits: 1},
		"a paused one is waited for, too": {status: "paused", after: write},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			pid := monitor(t, dir)
			if c.other {
				pid = os.Getpid()
			}
			var conmon atomic.Int64
			conmon.Store(int64(pid))
			client, inspected, waits := monitored(t, c.status, &conmon)
			if c.before != nil {
				if err := c.before(dir); err != nil {
					t.Fatal(err)
				}
			}
			done := make(chan error, 1)
			go func() { done <- client.WaitContainer(soon(t), "x") }()
			<-inspected
			if c.after != nil {
				if err := c.after(dir); err != nil {
					t.Fatal(err)
				}
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
			if got := waits.Load(); got != c.waits {
				t.Errorf("Podman was asked to wait %d times, want %d", got, c.waits)
			}
		})
	}
}

// The exit of a container that was not stopped is reported without Podman's clean-up. One that a
// user restarts is stopped first, so the end of the clean-up is waited for.
func TestExitIsReportedBeforeTheCleanUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		state string
		args  []string
		early bool
	}{
		"exited by itself":           {`"Status":"stopped"`, []string{"--stopped-only"}, true},
		"stopped by a user":          {`"Status":"stopped","StoppedByUser":true`, []string{"--stopped-only"}, false},
		"runs again":                 {`"Status":"running"`, []string{"--stopped-only"}, false},
		"a clean-up that may damage": {`"Status":"stopped"`, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			pid, end := libpod.StartMonitor(t, exitID, dir, c.args...)
			var exited atomic.Bool
			var inspections atomic.Int64
			client := recorded(t, "5.4.2", func(w http.ResponseWriter, r *http.Request) {
				state := `"Status":"running"`
				if exited.Load() {
					state = c.state
				}
				inspections.Add(1)
				reply(w, http.StatusOK, fmt.Sprintf(`{"Id":%q,"Name":"x","State":{%s,"Pid":1,"ConmonPid":%d}}`, exitID, state, pid))
			})
			if _, err := client.InspectContainer(soon(t), "x"); err != nil {
				t.Fatal(err)
			}
			exited.Store(true)
			if err := os.WriteFile(filepath.Join(dir, exitID), []byte("3"), 0o600); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(soon(t))
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- client.WaitContainer(ctx, "x") }()
			if c.early {
				if err := <-done; err != nil {
					t.Error(err)
				}
				for _, want := range []bool{true, false} { // it is forgotten
					if o, ok := client.SeenExit("x", time.Time{}); ok != want || ok && o.Status != libpod.Exited {
						t.Errorf("the exit was seen: %t, %+v", ok, o)
					}
				}
				return
			}
			for c.args != nil && inspections.Load() < 2 {
				runtime.Gosched()
			}
			select {
			case err := <-done:
				t.Errorf("the wait ended before conmon: %v", err)
			default:
			}
			end()
			if err := <-done; err != nil {
				t.Error(err)
			}
			if o, ok := client.SeenExit("x", time.Time{}); ok {
				t.Errorf("an exit was seen: %+v", o)
			}
		})
	}
}

// An exit stands for an inspection only of its run.
func TestAnExitOfAnotherRunIsNotTheNewest(t *testing.T) {
	t.Parallel()
	dir, began := t.TempDir(), time.Now()
	pid, _ := libpod.StartMonitor(t, exitID, dir, "--stopped-only")
	var exited atomic.Bool
	client := recorded(t, "5.4.2", func(w http.ResponseWriter, _ *http.Request) {
		state := "running"
		if exited.Load() {
			state = "exited"
		}
		reply(w, http.StatusOK, fmt.Sprintf(`{"Id":%q,"Name":"x","State":{"Status":%q,"Pid":1,"ConmonPid":%d,"StartedAt":%q}}`, exitID, state, pid, began.Format(time.RFC3339Nano)))
	})
	if _, err := client.InspectContainer(soon(t), "x"); err != nil {
		t.Fatal(err)
	}
	exited.Store(true)
	if err := os.WriteFile(filepath.Join(dir, exitID), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := client.WaitContainer(soon(t), "x"); err != nil {
		t.Fatal(err)
	}
	if o, ok := client.SeenExit("x", began.Add(time.Second)); ok {
		t.Errorf("the exit of another run: %+v", o)
	}
}

// Nobody asks for the exit of a container that podtask has stopped: it is forgotten with the pod.
func TestAnExitIsForgottenWithItsPod(t *testing.T) {
	t.Parallel()
	dir, began := t.TempDir(), time.Now()
	pid, _ := libpod.StartMonitor(t, exitID, dir, "--stopped-only")
	var exited atomic.Bool
	client := recorded(t, "5.4.2", func(w http.ResponseWriter, r *http.Request) {
		state := map[bool]string{false: "running", true: "exited"}[exited.Load()]
		switch {
		case r.Method == http.MethodDelete:
			reply(w, http.StatusOK, `{"Id":"web"}`)
		case strings.HasSuffix(r.URL.Path, "/pods/web/json"):
			reply(w, http.StatusOK, fmt.Sprintf(`{"Name":"web","Labels":{"podtask.task-id":"t"},"Containers":[{"Id":%q,"Name":"x","State":%q}]}`, exitID, state))
		default:
			reply(w, http.StatusOK, fmt.Sprintf(`{"Id":%q,"Name":"x","Config":{"Labels":{"podtask.task-id":"t"}},"State":{"Status":%q,"Pid":1,"ConmonPid":%d,"StartedAt":%q}}`,
				exitID, state, pid, began.Format(time.RFC3339Nano)))
		}
	})
	if _, err := client.InspectContainer(soon(t), "x"); err != nil {
		t.Fatal(err)
	}
	exited.Store(true)
	if err := os.WriteFile(filepath.Join(dir, exitID), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(client.WaitContainer(soon(t), "x"), client.RemovePod(soon(t), "web", "t")); err != nil {
		t.Fatal(err)
	}
	if o, ok := client.SeenExit("x", began); ok || o.Status == libpod.Exited {
		t.Errorf("an exit is kept: %+v", o)
	}
}

// A wait after an inspection asks Podman nothing, if the inspection is of the same run.
func TestWaitAsksNothingAfterAnInspection(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		restarted   bool
		inspections int
	}{"same run": {false, 1}, "another run": {true, 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			var conmon atomic.Int64
			conmon.Store(int64(monitor(t, dir)))
			inspections := 1
			if c.restarted {
				conmon.Store(int64(os.Getpid())) // that conmon has ended, and its number was given to another
			}
			client, inspected, waits := monitored(t, "running", &conmon)
			if _, err := client.InspectContainer(soon(t), "x"); err != nil {
				t.Fatal(err)
			}
			<-inspected
			if c.restarted {
				conmon.Store(int64(monitor(t, dir)))
			}
			if err := os.WriteFile(filepath.Join(dir, exitID), []byte("0"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := client.WaitContainer(soon(t), "x"); err != nil {
				t.Error(err)
			}
			inspections += len(inspected)
			if inspections != c.inspections || waits.Load() != 0 {
				t.Errorf("%d inspections, want %d; %d waits", inspections, c.inspections, waits.Load())
			}
		})
	}
}

// A wait ends with its context, and a client can be closed while it waits.
func TestWaitForConmonEndsWithItsContext(t *testing.T) {
	t.Parallel()
	pid := monitor(t, t.TempDir())
	var conmon atomic.Int64
	conmon.Store(int64(pid))
	client, inspected, _ := monitored(t, "running", &conmon)
	ctx, cancel := context.WithCancel(soon(t))
	done := make(chan error, 1)
	go func() { done <- client.WaitContainer(ctx, "x") }()
	<-inspected
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-done; !errors.Is(err, libpod.Canceled) {
		t.Errorf("got %v", err)
	}
}
