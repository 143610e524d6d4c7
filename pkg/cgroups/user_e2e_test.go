//go:build e2e && (bed_systemd || bed_vm)

package cgroups_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/test/testbed"
)

// These need a real systemd user manager; the beds have one.

// ways are the two ways to reach it.
var ways = map[string]func(string) string{
	"session bus": os.Getenv,
	"systemd's own socket": func(k string) string {
		if k == "XDG_RUNTIME_DIR" {
			return onlyPrivate
		}
		return ""
	},
}

// onlyPrivate is a runtime directory with systemd's socket and no bus.
var onlyPrivate string

func TestMain(m *testing.M) {
	os.Exit(testbed.Main(m, func(dir string) (func() error, error) {
		onlyPrivate = dir
		return noUnits, os.Symlink(filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "systemd"), filepath.Join(dir, "systemd"))
	}))
}

// noUnits waits until no unit of podtask is left.
func noUnits() (err error) {
	var units []string
	if testbed.Until(func() bool { units, err = testbed.Units(); return err == nil && len(units) == 0 }) {
		return nil
	}
	return errors.Join(err, fmt.Errorf("left behind: %q", units))
}

func eachWay(t *testing.T, test func(*testing.T, *cgroups.User)) {
	for name, getenv := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			u, err := cgroups.Dial(ctx, getenv)
			cancel() // the end of dialing is not the end of the connection
			if errors.Is(err, cgroups.ErrNoUserManager) && os.Getenv("CI") != "true" {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(u.Close)
			test(t, u)
		})
	}
}

// newSlice returns the name of a slice that is gone after the test.
func newSlice(t *testing.T, u *cgroups.User) string {
	t.Helper()
	id := make([]byte, 16)
	rand.Read(id)
	name, err := cgroups.SliceName(hex.EncodeToString(id))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
		defer cancel()
		if err := u.StopSlice(ctx, name); err != nil {
			t.Error(err)
		}
	})
	return name
}

func listed(t *testing.T, u *cgroups.User, name string) bool {
	t.Helper()
	names, err := u.ListSlices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return slices.Contains(names, name)
}

func TestSliceComesAndGoes(t *testing.T) {
	eachWay(t, func(t *testing.T, u *cgroups.User) {
		name := newSlice(t, u)
		for range 2 { // doing it twice finds the first
			if err := u.EnsureSlice(t.Context(), name, cgroups.Limits{CPU: 0.5, Memory: 64 << 20, TasksMax: 64}); err != nil {
				t.Fatal(err)
			}
			if !listed(t, u, name) {
				t.Fatalf("%s is not listed", name)
			}
		}
		for range 2 {
			if err := u.StopSlice(t.Context(), name); err != nil {
				t.Fatal(err)
			}
			if listed(t, u, name) {
				t.Fatalf("%s is still listed", name)
			}
		}
		if err := u.ResetFailed(t.Context(), name); err != nil {
			t.Error(err)
		}
	})
}

// A scope that failed does not keep its slices in systemd's memory.
func TestSliceWithAFailedScopeGoes(t *testing.T) {
	eachWay(t, func(t *testing.T, u *cgroups.User) {
		name := newSlice(t, u)
		if err := u.EnsureSlice(t.Context(), name, cgroups.Limits{}); err != nil {
			t.Fatal(err)
		}
		below := strings.TrimSuffix(name, ".slice") + "-pod.slice"
		scope := "podtask-test-" + strings.TrimSuffix(name, ".slice") + ".scope"
		cmd := exec.Command("systemd-run", "--user", "--quiet", "--scope", "--unit="+scope, "--slice="+below, "--property=TimeoutStopSec=100ms",
			"sh", "-c", `trap "" TERM; echo ready; while :; do sleep 1000; done`)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if err := u.StopSlice(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		var units []byte
		gone := testbed.Until(func() bool {
			units, err = exec.Command("systemctl", "--user", "list-units", "--all", "--plain", "--no-legend", name, below, scope).Output()
			return err == nil && len(units) == 0
		})
		if !gone {
			t.Errorf("left: %s, %v", units, err)
		}
	})
}

// Limits are in the kernel, or the error names the controllers the host does
// not delegate: never silence.
func TestReadBackTellsTheTruth(t *testing.T) {
	host := cgroups.Detect(os.DirFS("/"), os.Getuid(), os.Getenv)
	t.Logf("%+v", host)
	eachWay(t, func(t *testing.T, u *cgroups.User) {
		name := newSlice(t, u)
		l := cgroups.Limits{CPU: 0.5, Memory: 64 << 20, TasksMax: 64}
		if err := u.EnsureSlice(t.Context(), name, l); err != nil {
			t.Fatal(err)
		}
		err := u.ReadBack(t.Context(), name, l)
		missing := host.Missing(l)
		if len(missing) == 0 {
			if err != nil {
				t.Fatalf("all controllers are delegated: %v", err)
			}
			more := cgroups.Limits{CPU: 0.25, Memory: 32 << 20, TasksMax: 32}
			var stale *cgroups.NotAppliedError
			if err := u.ReadBack(t.Context(), name, more); !errors.As(err, &stale) {
				t.Errorf("other limits: %v, want NotAppliedError", err)
			}
			if err := errors.Join(u.EnsureSlice(t.Context(), name, more), u.ReadBack(t.Context(), name, more)); err != nil {
				t.Errorf("changed limits: %v", err)
			}
			return
		}
		var undelegated *cgroups.UndelegatedError
		if !errors.As(err, &undelegated) || !slices.Equal(undelegated.Controllers, missing) {
			t.Errorf("ReadBack: %v, want an UndelegatedError for %v", err, missing)
		}
	})
}

// A slice that another unit names exists already, without limits; and one of
// an earlier life may have more than it should. Both get what is asked, and keep what
// runs in them.
func TestSliceThatIsThereGetsTheLimits(t *testing.T) {
	host := cgroups.Detect(os.DirFS("/"), os.Getuid(), os.Getenv)
	eachWay(t, func(t *testing.T, u *cgroups.User) {
		name := newSlice(t, u)
		unit := "podtask-test-" + rand.Text() + ".service"
		if out, err := exec.Command("systemd-run", "--user", "--unit="+unit, "--slice="+name, "--collect", "sleep", "1h").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		many := cgroups.Limits{CPU: 0.5, Memory: 64 << 20, MemoryLow: 1 << 20, SwapMax: 64 << 20, TasksMax: 64}
		few := cgroups.Limits{TasksMax: 32}
		for _, l := range []cgroups.Limits{many, few} {
			if err := u.EnsureSlice(t.Context(), name, l); err != nil {
				t.Fatal(err)
			}
			if len(host.Missing(l)) > 0 {
				continue
			}
			if err := u.ReadBack(t.Context(), name, l); err != nil {
				t.Error(err)
			}
		}
		if state, err := u.ActiveState(t.Context(), unit); err != nil || state != "active" {
			t.Errorf("what ran in the slice is %s, %v", state, err)
		}
		if len(host.Missing(many)) > 0 {
			t.Log("no limits to read here")
			return
		}
		for file, want := range map[string]string{"cpu.max": "max 100000", "memory.max": "max", "memory.low": "0", "memory.swap.max": "max", "pids.max": "32"} {
			text, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", cgroups.Path(os.Getuid(), name), file))
			if got := strings.TrimSpace(string(text)); err != nil || got != want {
				t.Errorf("%s is %q, want %q: %v", file, got, want, err)
			}
		}
	})
}

func TestReadBackOfAMissingSliceFails(t *testing.T) {
	eachWay(t, func(t *testing.T, u *cgroups.User) {
		name := newSlice(t, u)
		if err := u.ReadBack(t.Context(), name, cgroups.Limits{Memory: 64 << 20}); err == nil {
			t.Error("a slice that is not there was confirmed")
		}
		if err := u.ReadBack(t.Context(), name, cgroups.Limits{}); err != nil {
			t.Errorf("no limits, nothing to confirm: %v", err)
		}
	})
}

// Systemd keeps limits and cgroup of a slice that was given limits while it was not active.
func TestOnlyAnActiveSliceIsChanged(t *testing.T) {
	eachWay(t, func(t *testing.T, u *cgroups.User) {
		name := newSlice(t, u)
		change := func(want bool) {
			t.Helper()
			if active, err := u.Change(t.Context(), name, cgroups.Limits{Memory: 64 << 20}); err != nil || active != want {
				t.Errorf("active: %v, %v; want %v", active, err, want)
			}
		}
		gone := func() {
			t.Helper()
			if _, err := os.Stat(filepath.Join("/sys/fs/cgroup", cgroups.Path(os.Getuid(), name))); listed(t, u, name) || !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("there is a slice: %v", err)
			}
		}
		change(false)
		gone()
		if err := u.EnsureSlice(t.Context(), name, cgroups.Limits{}); err != nil {
			t.Fatal(err)
		}
		change(true)
		if err := u.StopSlice(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		change(false)
		gone()
	})
}

// A failed unit keeps its name from others until systemd forgets that it failed.
func TestResetFailedFreesTheName(t *testing.T) {
	eachWay(t, func(t *testing.T, u *cgroups.User) {
		unit := "podtask-test-" + rand.Text() + ".service"
		start := func(program string) error {
			return exec.Command("systemd-run", "--user", "--wait", "--unit="+unit, program).Run()
		}
		_ = start("false")
		if state, err := u.ActiveState(t.Context(), unit); err != nil || state != "failed" {
			t.Fatalf("the unit is %s, %v", state, err)
		}
		if err := start("true"); err == nil {
			t.Error("a failed unit did not keep its name")
		}
		if err := u.ResetFailed(t.Context(), unit); err != nil {
			t.Fatal(err)
		}
		if err := start("true"); err != nil {
			t.Errorf("after the reset: %v", err)
		}
	})
}

func TestTransientServiceRuns(t *testing.T) {
	eachWay(t, func(t *testing.T, u *cgroups.User) {
		dir := t.TempDir()
		watch, err := fsnotify.NewWatcher()
		if err != nil {
			t.Fatal(err)
		}
		defer watch.Close()
		if err := watch.Add(dir); err != nil {
			t.Fatal(err)
		}
		unit := "podtask-test-" + filepath.Base(filepath.Dir(dir)) + filepath.Base(dir) + rand.Text() + ".service"
		script := `printf %s "$GREETING" > "$1/new" && mv "$1/new" "$1/done"`
		if err := u.RunTransient(t.Context(), unit, []string{"/bin/sh", "-c", script, "sh", dir}, []string{"GREETING=a b"}); err != nil {
			t.Fatal(err)
		}
		for {
			text, err := os.ReadFile(filepath.Join(dir, "done"))
			if err == nil {
				if string(text) != "a b" {
					t.Errorf("the service saw %q", text)
				}
				return
			}
			select {
			case <-watch.Events:
			case <-t.Context().Done():
				t.Fatal("the service left no trace")
			}
		}
	})
}

func TestTransientServiceThatCannotExecFails(t *testing.T) {
	eachWay(t, func(t *testing.T, u *cgroups.User) {
		unit := "podtask-test-" + rand.Text() + ".service"
		if err := u.RunTransient(t.Context(), unit, []string{filepath.Join(t.TempDir(), "none")}, nil); err == nil {
			t.Error("a program that is not there was started")
		}
		if err := u.RunTransient(t.Context(), unit, []string{"sh"}, nil); err == nil {
			t.Error("a relative path was accepted")
		}
	})
}
