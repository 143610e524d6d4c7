package enginetest_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/testing/enginetest"
)

func TestAnInterruptedStartIsRepairedByARemoval(t *testing.T) {
	t.Parallel()
	world(t, func(t *testing.T, f *enginetest.Fake, name string) {
		f.Fail(enginetest.Script("start container", enginetest.Fault{Moment: enginetest.During, Class: libpod.Temporary}))
		if err := f.StartContainer(t.Context(), name); !errors.Is(err, libpod.Temporary) {
			t.Errorf("the interrupted start: %v", err)
		}
		if err := f.StartContainer(t.Context(), name); !errors.Is(err, libpod.Interrupted) {
			t.Errorf("the next start: %v", err)
		}
		if o := f.See(name); o.Status != libpod.Created {
			t.Errorf("it is %s", o.Status)
		}
		if err := f.StartContainer(t.Context(), name); err != nil {
			t.Errorf("the start after that: %v", err)
		}
		if o := f.See(name); o.Status != libpod.Exited || o.ExitCode != 137 {
			t.Errorf("it is %s with code %d", o.Status, o.ExitCode)
		}
	})
}

func TestAnInterruptedStartAfterTheSetUpIsFinal(t *testing.T) {
	t.Parallel()
	world(t, func(t *testing.T, f *enginetest.Fake, name string) {
		if _, err := f.InitContainer(t.Context(), name, libpod.OwnNetwork{}); err != nil {
			t.Fatal(err)
		}
		f.Fail(enginetest.Script("start container", enginetest.Fault{Moment: enginetest.During, Class: libpod.Temporary}))
		if err := f.StartContainer(t.Context(), name); !errors.Is(err, libpod.Temporary) {
			t.Errorf("the interrupted start: %v", err)
		}
		for range 2 {
			if err := f.StartContainer(t.Context(), name); !errors.Is(err, libpod.Other) || !strings.Contains(err.Error(), libpod.UnrecordedStart) {
				t.Errorf("a further start: %v", err)
			}
		}
	})
}

func TestAnInterruptedStartMayKeepTheAddress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := enginetest.New(enginetest.Wall{})
		f.Load(local, enginetest.Image{})
		if err := f.EnsureNetwork(t.Context(), libpod.NetworkSpec{Name: "net", TaskID: "abc"}); err != nil {
			t.Fatal(err)
		}
		spec := libpod.ContainerSpec{Name: "c", TaskID: "abc", Image: local, Command: []string{"sleep", "forever"},
			Own: &libpod.OwnNetwork{Network: "net", Members: [][]string{{"c"}}}}
		kept := false
		for range 4 { // the service dies before the OCI runtime knows the container, or after
			if _, err := f.CreateContainer(t.Context(), spec); err != nil {
				t.Fatal(err)
			}
			f.Fail(enginetest.Script("start container", enginetest.Fault{Moment: enginetest.During, Class: libpod.Temporary}))
			_ = f.StartContainer(t.Context(), "c")
			err := f.StartContainer(t.Context(), "c")
			if !errors.Is(err, libpod.Interrupted) {
				t.Fatalf("a further start: %v", err)
			}
			if err := f.RemoveContainer(t.Context(), "c", "abc"); err != nil {
				t.Fatal(err)
			}
			if kept = strings.Contains(err.Error(), "already allocated"); kept {
				break
			}
		}
		if !kept {
			t.Fatal("no address was kept")
		}
		for _, c := range []struct {
			spare uint64
			ok    bool
		}{{0, false}, {1, true}} {
			spec.Own.Spare = c.spare
			if _, err := f.CreateContainer(t.Context(), spec); err != nil {
				t.Fatal(err)
			}
			if err := f.StartContainer(t.Context(), "c"); (err == nil) != c.ok {
				t.Errorf("with spare address %d: %v", c.spare, err)
			}
			if err := f.RemoveContainer(t.Context(), "c", "abc"); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestAnInterruptedMoveLeavesTheContainerWithoutANetwork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := enginetest.New(enginetest.Wall{})
		f.Load(local, enginetest.Image{})
		must := func(errs ...error) {
			t.Helper()
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
		}
		must(f.EnsureNetwork(t.Context(), libpod.NetworkSpec{Name: "net", TaskID: "abc"}))
		on := libpod.OwnNetwork{Network: "net", Members: [][]string{{"c"}}}
		for _, name := range []string{"c", "holder"} { // of the same place
			_, err := f.CreateContainer(t.Context(), libpod.ContainerSpec{Name: name, TaskID: "abc", Image: local, Command: []string{"sleep", "forever"}, Own: &on})
			must(err)
		}
		must(f.StartContainer(t.Context(), "c"), f.StopContainer(t.Context(), "c", 0), f.StartContainer(t.Context(), "holder"))
		f.Fail(enginetest.Script("initialize container", enginetest.Fault{Moment: enginetest.During, Class: libpod.Temporary}))
		_, err := f.InitContainer(t.Context(), "c", on)
		if o, _ := f.InspectContainer(t.Context(), "c"); err == nil || !o.Disconnected {
			t.Errorf("after the interrupted move: %+v, %v", o, err)
		}
		o, err := f.InitContainer(t.Context(), "c", on)
		if must(err); o.Disconnected || len(o.Addresses) != 1 || len(o.Missing) != 1 {
			t.Errorf("after the next one: %+v", o)
		}
	})
}

func TestAnInterruptedCreationLeavesAPodWithoutItsInfraContainer(t *testing.T) {
	t.Parallel()
	world(t, func(t *testing.T, f *enginetest.Fake, _ string) {
		f.Fail(enginetest.Script("create pod", enginetest.Fault{Moment: enginetest.During, Class: libpod.Temporary}))
		spec := libpod.PodSpec{Name: "half", TaskID: "abc"}
		if _, err := enginetest.EnsurePod(t.Context(), f, spec); !errors.Is(err, libpod.Temporary) {
			t.Errorf("the interrupted creation: %v", err)
		}
		if _, err := enginetest.EnsurePod(t.Context(), f, spec); !errors.Is(err, libpod.Temporary) {
			t.Errorf("at once: %v", err)
		}
		<-time.After(time.Minute)
		if _, err := enginetest.EnsurePod(t.Context(), f, spec); !errors.Is(err, libpod.Interrupted) {
			t.Errorf("later: %v", err)
		}
		if err := f.RemovePod(t.Context(), "half", "abc"); err != nil {
			t.Error(err)
		}
		if pod, err := enginetest.EnsurePod(t.Context(), f, spec); err != nil || pod.ID == "" {
			t.Errorf("after a removal: %v", err)
		}
	})
}
