package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/podtask/podtask/internal/engine/admit"
	"github.com/podtask/podtask/internal/engine/limits"
	"github.com/podtask/podtask/internal/engine/record"
	"github.com/podtask/podtask/internal/testing/enginetest"
	"github.com/podtask/podtask/pkg/lifecycle"
)

func (s *site) wantShares(want ...string) {
	s.t.Helper()
	if got := s.process().Queue.Reservations(); !slices.Equal(got, want) {
		s.t.Errorf("shares are held or waited for by %v, want %v", got, want)
	}
}

// The ECS agent's TestHostResourceManagerTrickleQueue, with an owner for each task.
func TestThirdTaskStartsWhenTheFirstHasStopped(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	first := s.running(512, "first")
	second := s.running(512, "second")
	third := s.sleeper(512, "third")
	if why := third.untilQueued(); !strings.Contains(why, "0.5 vCPU (0 vCPU of 1 vCPU free), which first (") || !strings.Contains(why, "second (") {
		t.Errorf("it waits for %q", why)
	}
	if left := s.podman.Left(third.id); len(left) > 0 {
		t.Errorf("a task in the queue has %v", left)
	}
	if v := s.process().Queue.Waiting()[third.id]; v.Word() != "cpu" {
		t.Errorf("others see %+v", v)
	}
	first.stop()
	third.untilRunning()
	s.wantShares(second.id, third.id)
	second.stop()
	third.stop()
	s.wantShares()
}

// The ECS agent's TestHostResourceManagerResourceUtilization.
func TestTaskThatIsSlowToStopDelaysNobodyWhoHasRoom(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	slow := s.run(s.box(512, 0, "term", "ignore", "--", "sleep", "forever"), "slow")
	slow.untilRunning()
	slow.owner.Send(lifecycle.StopRequested{By: "test"})
	slow.until("stopping", func(st lifecycle.State) bool { return st.Goal == lifecycle.Down })
	next := s.running(512, "next")
	if s.podman.Running("podtask-box-"+slow.id[:12]+"-app") != true {
		t.Error("the slow task has stopped too early for this test to say anything")
	}
	slow.stop()
	next.stop()
}

// The ECS agent's TestHostResourceManagerStopTaskNotBlockWaitingTasks.
func TestQueuedTaskCanBeStoppedAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	holder := s.running(1024, "holder")
	leaver := s.sleeper(1024, "leaver")
	leaver.untilQueued()
	patient := s.sleeper(1024, "patient")
	patient.untilQueued()
	leaver.owner.Send(lifecycle.StopRequested{By: "test"})
	leaver.end()
	s.wantShares(holder.id, patient.id)
	holder.stop()
	patient.untilRunning()
	patient.stop()
}

// The ECS agent's TestHostResourceManagerLaunchTypeBehavior.
func TestTaskWithLimitsOffIsNotAccountedFor(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	h := s.process()
	st, err := h.Creator.Create(t.Context(), s.box(4096, 0, "sleep", "forever"), "", lifecycle.Options{Pull: lifecycle.PullNever, Limits: limits.Off})
	if err != nil {
		t.Fatal(err)
	}
	r := s.own(h, st.ID)
	r.untilRunning() // though it declares four vCPU and the budget is one
	all := s.running(1024, "all")
	s.wantShares(r.id, all.id)
	all.stop()
	r.stop()
}

// quietPort listens on a port below the range from which the kernel chooses ports, so it
// can be released and taken again.
func quietPort(t *testing.T) net.Listener {
	t.Helper()
	const lowest, highest = 20000, 32000 // net.ipv4.ip_local_port_range begins at 32768
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", lowest+rand.IntN(highest-lowest)))
		if err == nil {
			return l
		}
	}
	t.Fatal("no port is free")
	return nil
}

func TestStaticPortOfATaskIsWaitedForAndOfAnotherProgramIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	listener := quietPort(t)
	port := uint16(listener.Addr().(*net.TCPAddr).Port)
	task := s.box(0, port, "sleep", "forever")
	if err := s.process().Preflight.Check(t.Context(), task, boxOptions); err == nil || !strings.Contains(err.Error(), fmt.Sprint(port)) {
		t.Errorf("another program has the port: %v", err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	first := s.run(task, "first")
	first.untilRunning()
	// The port is bound in truth as well, by the first task's Podman.
	podman, err := net.Listen("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer podman.Close()
	if err := s.process().Preflight.Check(t.Context(), task, boxOptions); err != nil {
		t.Errorf("a task has the port: %v", err)
	}
	second := s.run(task, "second")
	if why := second.untilQueued(); !strings.HasPrefix(why, fmt.Sprintf("port %d/tcp, which first (", port)) {
		t.Errorf("it waits for %q", why)
	}
	first.stop()
	second.untilRunning()
	second.stop()
}

func TestImpossibleTaskIsRefusedBeforeAnythingIsMade(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	task := s.box(2048, 0, "sleep", "forever")
	err := s.process().Preflight.Check(t.Context(), task, boxOptions)
	if err == nil || !strings.Contains(err.Error(), "2 vCPU") || !strings.Contains(err.Error(), "1 vCPU (PODTASK_BUDGET_CPU)") {
		t.Errorf("it says %v", err)
	}
	r := s.run(task, "") // as a process with another budget created it
	r.end()
	if st := r.owner.State(); st.Stop.Code != lifecycle.StopTaskFailedToStart || !strings.Contains(st.Stop.Reason, "2 vCPU") {
		t.Errorf("it ended with %+v", st.Stop)
	}
	s.wantShares()
}

func TestTaskOfADeadOwnerKeepsItsShareWhileItRuns(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	dead := s.running(1024, "dead")
	dead.kill()
	waiter := s.sleeper(1024, "waiter")
	if why := waiter.untilQueued(); !strings.Contains(why, "which dead (") {
		t.Errorf("it waits for %q", why)
	}
	heir := s.own(s.process(), dead.id)
	heir.until("running", func(st lifecycle.State) bool {
		return st.Sandbox.Reservation == lifecycle.ReservationGranted && st.Status() == lifecycle.StatusRunning
	})
	s.wantShares(dead.id, waiter.id)
	heir.stop()
	waiter.untilRunning()
	waiter.stop()
	s.wantShares()
}

func TestShareOfADeadOwnerIsFreedOnceNothingRuns(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	dead := s.running(1024, "dead")
	dead.kill()
	s.podman.Reboot(true)
	next := s.running(1024, "next")
	s.wantShares(next.id)
	heir := s.own(s.process(), dead.id) // it finds its container ended
	heir.end()
	next.stop()
	s.wantShares()
}

func TestOwnerThatDiesInTheQueueHoldsUpNobody(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	holder := s.running(1024, "holder")
	dead := s.sleeper(1024, "dead")
	dead.untilQueued()
	dead.kill()
	next := s.sleeper(1024, "next")
	next.untilQueued()
	holder.stop()
	next.untilRunning()
	heir := s.own(s.process(), dead.id)
	heir.untilQueued()
	next.stop()
	heir.untilRunning()
	heir.stop()
	s.wantShares()
}

func TestUpdateChangesTheShare(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	large := s.running(1024, "large")
	small := s.sleeper(512, "small")
	small.untilQueued()
	half := lifecycle.Quota{CPU: 0.5}
	large.owner.Send(lifecycle.LimitsRequested{Quota: half})
	small.untilRunning()
	if err := s.process().Preflight.CheckLimits(large.owner.State(), lifecycle.Quota{CPU: 2}); err == nil || !strings.Contains(err.Error(), "2 vCPU") {
		t.Errorf("more than the host has: %v", err)
	}
	large.stop()
	small.stop()
}

func TestDamagedLedgerIsMadeAnewOfTheRecords(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	holder := s.running(1024, "holder")
	file := filepath.Join(s.dir, "state", "ledger", strings.Repeat("0", 32)+".json")
	if err := os.WriteFile(file, []byte("damage"), 0o600); err != nil {
		t.Fatal(err)
	}
	next := s.sleeper(1024, "next")
	if why := next.untilQueued(); !strings.Contains(why, "which holder (") {
		t.Errorf("it waits for %q", why)
	}
	holder.stop()
	next.untilRunning()
	next.stop()
}

func TestDrainingHostTakesNoNewTasks(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	h := s.process()
	for range 2 { // twice is as once
		if err := h.Ledger.SetDraining(t.Context(), true); err != nil {
			t.Fatal(err)
		}
	}
	other := s.process()
	task := s.box(0, 0, "exit", "0")
	if _, err := other.Creator.Create(t.Context(), task, "", boxOptions); !errors.Is(err, admit.ErrDraining) {
		t.Errorf("Create: %v", err)
	}
	if err := other.Preflight.Check(t.Context(), task, boxOptions); !errors.Is(err, admit.ErrDraining) {
		t.Errorf("Preflight: %v", err)
	}
	if err := other.Ledger.SetDraining(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	s.run(task, "").end()
}

// Twenty tasks, each with an owner in a process of its own, go through a host that
// has room for four. Each runs until three others do.
func TestManyTasksGoThroughASmallHost(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	task := s.box(256, 0, "term", "0", "--", "sleep", "forever")
	var wg sync.WaitGroup
	running := make(chan *ownedBox, 20)
	for range 20 {
		r := s.run(task, "")
		wg.Go(func() {
			if err := r.owner.Watch(t.Context(), func(st lifecycle.State) bool { return st.Status() != lifecycle.StatusRunning }); err != nil {
				t.Error(err)
			}
			running <- r
			if err := <-r.ended; err != nil {
				t.Error(err)
			}
			if st := r.owner.State(); st.ExitCode() != 0 || st.Status() != lifecycle.StatusStopped {
				t.Errorf("%s: %s, %d: %+v", r.id, st.Status(), st.ExitCode(), st.Stop)
			}
		})
	}
	for range 5 {
		for _, r := range []*ownedBox{<-running, <-running, <-running, <-running} {
			r.owner.Send(lifecycle.StopRequested{By: "test"})
		}
	}
	wg.Wait()
	s.wantShares()
	s.checkEvents(20)
	most, now, ran := 0, 0, 0
	for _, f := range s.podman.Facts(0) {
		switch f.What {
		case enginetest.Started:
			now++
			ran++
			most = max(most, now)
		case enginetest.Ended:
			now--
		}
	}
	if ran != 20 || most != 4 {
		t.Errorf("%d containers ran, %d of them at a time", ran, most)
	}
}

// checkEvents: the events of all owners are one stream, without gaps and doubles,
// and those of each task are in its own order.
func (s *site) checkEvents(tasks int) {
	s.t.Helper()
	last, lastOf, stopped := uint64(0), map[string]uint64{}, 0
	err := s.process().Events.Read(s.t.Context(), 0, false, func(e record.Event) error {
		if e.Seq != last+1 || e.TaskSeq != lastOf[e.Task]+1 {
			s.t.Errorf("event %d, %d of its task, follows %d, %d", e.Seq, e.TaskSeq, last, lastOf[e.Task])
		}
		last, lastOf[e.Task] = e.Seq, e.TaskSeq
		if e.Container == "" && e.Status == lifecycle.StatusStopped.String() {
			stopped++
		}
		return nil
	})
	if err != nil || stopped != tasks || len(lastOf) != tasks {
		s.t.Errorf("%d tasks, %d of them STOPPED (%v)", len(lastOf), stopped, err)
	}
}
