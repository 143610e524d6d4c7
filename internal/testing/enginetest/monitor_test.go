package enginetest_test

import (
	"testing"
	"time"

	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/testing/enginetest"
)

func TestAKilledMonitorHidesTheEnd(t *testing.T) {
	t.Parallel()
	world(t, func(t *testing.T, f *enginetest.Fake, name string) {
		if err := f.StartContainer(t.Context(), name); err != nil || !f.KillMonitor(name) {
			t.Fatalf("it does not run: %v", err)
		}
		begun := time.Now()
		if err := f.WaitContainer(t.Context(), name); err != nil || !time.Now().Equal(begun) {
			t.Errorf("the wait took %v: %v", time.Since(begun), err)
		}
		if o := f.See(name); o.Status != libpod.Running || !o.Unmonitored || o.ProcessGone {
			t.Errorf("before the end: %+v", o)
		}
		<-time.After(time.Minute)
		if o := f.See(name); o.Status != libpod.Running || !o.Unmonitored || !o.ProcessGone {
			t.Errorf("after the end: %+v", o)
		}
		if err := f.StopContainer(t.Context(), name, time.Second); err != nil {
			t.Error(err)
		}
		if o := f.See(name); o.Status != libpod.Exited || o.ExitCode != -1 || o.Unmonitored {
			t.Errorf("after a stop: %+v", o)
		}
	})
}
