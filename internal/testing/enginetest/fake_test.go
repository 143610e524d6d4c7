package enginetest_test

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/testing/enginetest"
	"github.com/podtask/podtask/pkg/images"
)

// TestConformance runs in bubbles, where time passes at once.
func TestConformance(t *testing.T) {
	t.Parallel()
	enginetest.Conformance(t, func(t *testing.T, check func(*testing.T, enginetest.Subject)) {
		synctest.Test(t, func(t *testing.T) {
			f := enginetest.New(enginetest.Wall{})
			check(t, enginetest.Subject{Podman: f, Control: control{f, new(atomic.Int64)}})
		})
	})
}

// control is enginetest.Control for a Fake.
type control struct {
	f     *enginetest.Fake
	count *atomic.Int64
}

const local = "localhost/testbox:1"

// failing is the health check of the image of all rules.
var failing = &libpod.ImageHealth{Command: []string{"CMD", enginetest.Program, "exit", "1"}, Interval: time.Second}

func (c control) Local(*testing.T) string {
	c.f.Load(local, enginetest.Image{Command: []string{"exit", "0"}, Env: []string{"FROM_IMAGE=yes"}, Volume: true, Health: failing})
	return local
}

func (c control) Publish(*testing.T) (ref, digest string) {
	n := c.count.Add(1)
	ref = fmt.Sprintf("registry.test/app%d:1", n)
	return ref, c.f.Push(ref, enginetest.Image{Salt: ref})
}

func (c control) Foreign(t *testing.T, name, pod string) {
	if !c.f.Make(name, pod, c.Local(t)) {
		t.Fatalf("%s cannot be made", name)
	}
}

func (c control) Kill(t *testing.T, name string) {
	if !c.f.Kill(name, 137, false) {
		t.Fatalf("%s does not run", name)
	}
}

func (c control) Remove(t *testing.T, name string) {
	if !c.f.Remove(name) {
		t.Fatalf("there is no %s", name)
	}
}

func (c control) TakePort(*testing.T) uint16 {
	c.f.TakePort(8080, "tcp", true)
	return 8080
}

func (c control) Disconnect(t *testing.T, name, _ string) {
	if !c.f.Disconnect(name) {
		t.Fatalf("%s is on no network", name)
	}
}

func (c control) Volume(_ *testing.T, name string) string { return c.f.Volume(name) }

func (c control) FreePort(*testing.T) uint16 { return uint16(30000 + c.count.Add(1)) }

// world is a Fake in a bubble with one pod and one container that was created.
func world(t *testing.T, check func(t *testing.T, f *enginetest.Fake, name string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := enginetest.New(enginetest.Wall{})
		f.Load(local, enginetest.Image{})
		if _, err := enginetest.EnsurePod(t.Context(), f, libpod.PodSpec{Name: "pod", TaskID: "task"}); err != nil {
			t.Fatal(err)
		}
		s := libpod.ContainerSpec{Name: "a", Pod: "pod", TaskID: "task", Image: local, Command: []string{"sleep", "10s", "--", "exit", "3"}}
		if _, err := f.CreateContainer(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		check(t, f, s.Name)
	})
}

func TestACallThatFailsBeforeHasDoneNothing(t *testing.T) {
	t.Parallel()
	world(t, func(t *testing.T, f *enginetest.Fake, name string) {
		f.Fail(enginetest.Script("start container", enginetest.Fault{Moment: enginetest.Before, Class: libpod.Temporary}))
		if err := f.StartContainer(t.Context(), name); !errors.Is(err, libpod.Temporary) {
			t.Errorf("got %v", err)
		}
		if f.Running(name) {
			t.Error("it runs")
		}
		if err := f.StartContainer(t.Context(), name); err != nil || !f.Running(name) {
			t.Errorf("the second time: %v", err)
		}
	})
}

func TestACallWhoseAnswerIsLostHasActed(t *testing.T) {
	t.Parallel()
	world(t, func(t *testing.T, f *enginetest.Fake, name string) {
		f.Fail(enginetest.Script("start container", enginetest.Fault{Moment: enginetest.After, Class: libpod.Timeout}))
		if err := f.StartContainer(t.Context(), name); !errors.Is(err, libpod.Timeout) {
			t.Errorf("got %v", err)
		}
		if !f.Running(name) {
			t.Error("it does not run")
		}
		calls := f.Calls()
		if last := calls[len(calls)-1]; !last.Acted || last.Err == "" || last.Op != "start container" {
			t.Errorf("the log says %v", last)
		}
	})
}

func TestAServiceThatIsDownComesBackAndContainersRunOn(t *testing.T) {
	t.Parallel()
	world(t, func(t *testing.T, f *enginetest.Fake, name string) {
		if err := f.StartContainer(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		f.Down(time.Now().Add(20*time.Second), libpod.Unavailable)
		if _, err := f.InspectContainer(t.Context(), name); !errors.Is(err, libpod.Unavailable) {
			t.Errorf("while it is down: %v", err)
		}
		<-time.After(20 * time.Second)
		o, err := f.InspectContainer(t.Context(), name)
		if err != nil || o.ExitCode != 3 || o.FinishedAt.Sub(o.StartedAt) != 10*time.Second {
			t.Errorf("afterwards: %+v, %v", o, err)
		}
	})
}

func TestContainersOfAReadOnlyStorageCanBeStopped(t *testing.T) {
	t.Parallel()
	world(t, func(t *testing.T, f *enginetest.Fake, name string) {
		if err := f.StartContainer(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		f.Down(time.Now().Add(20*time.Second), libpod.ReadOnly)
		_, inspect := f.InspectContainer(t.Context(), name)
		if stop := f.StopContainer(t.Context(), name, 0); !errors.Is(inspect, libpod.ReadOnly) || !errors.Is(stop, libpod.ReadOnly) || f.Running(name) {
			t.Errorf("while it is read-only: %v, %v, runs %t", inspect, stop, f.Running(name))
		}
		<-time.After(20 * time.Second)
		if o, err := f.InspectContainer(t.Context(), name); err != nil || o.Status != libpod.Exited {
			t.Errorf("afterwards: %+v, %v", o, err)
		}
	})
}

func TestFactsTellWhatNobodyWasTold(t *testing.T) {
	t.Parallel()
	world(t, func(t *testing.T, f *enginetest.Fake, name string) {
		known := len(f.Facts(0))
		f.Fail(enginetest.Script("start container", enginetest.Fault{Moment: enginetest.After, Class: libpod.Temporary}))
		_ = f.StartContainer(t.Context(), name)
		<-time.After(time.Minute)
		f.Reboot(true)
		f.Remove(name)
		var got []string
		for _, fact := range f.Facts(known) {
			got = append(got, fact.String())
		}
		if want := []string{"a started", "a ended with 3", "a reset", "pod-infra reset", "a removed"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if got, want := f.Left("task"), []string{"container pod-infra created", "pod pod"}; !slices.Equal(got, want) {
			t.Errorf("left %q, want %q", got, want)
		}
	})
}

func TestADigestIsThatOfWhatIsPulled(t *testing.T) {
	t.Parallel()
	f := enginetest.New(enginetest.Wall{})
	const name = "registry.test/app:1"
	old := f.Push(name, enginetest.Image{Salt: "old"})
	f.Push(name, enginetest.Image{Salt: "new"})
	ref, err := images.ParseRef(name)
	if err != nil {
		t.Fatal(err)
	}
	if now, found := f.Digest(ref); !found || now == old {
		t.Errorf("the registry has %s (%t)", now, found)
	}
	if _, err := f.Pull(t.Context(), ref.At(old), libpod.PullOptions{}); err != nil {
		t.Errorf("the image that lost its tag: %v", err)
	}
	if !f.RemoveImage(ref.At(old)) || f.RemoveImage(ref.At(old)) {
		t.Error("RemoveImage")
	}
}
