package enginetest_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/enginetest"
	"github.com/podtask/podtask/pkg/libpod"
)

func TestAnInterruptedStartIsRepairedByARemoval(t *testing.T) {
	t.Parallel()
	world(t, func(t *testing.T, f *enginetest.Fake, name string) {
		f.Fail(enginetest.Script("start container", enginetest.Fault{Moment: enginetest.During, Class: libpod.Temporary}))
		if err := f.StartContainer(t.Context(), name); !errors.Is(err, libpod.Temporary) {
			t.Errorf("the interrupted start: %v", err)
		}
		for range 2 {
			if err := f.StartContainer(t.Context(), name); !errors.Is(err, libpod.Interrupted) {
				t.Errorf("a further start: %v", err)
			}
		}
		if o := f.See(name); o.Status != libpod.Created {
			t.Errorf("it is %s", o.Status)
		}
	})
}

func TestAnInterruptedStartAfterTheSetUpIsFinal(t *testing.T) {
	t.Parallel()
	world(t, func(t *testing.T, f *enginetest.Fake, name string) {
		if _, err := f.InitContainer(t.Context(), name); err != nil {
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
