package admit_test

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

	"github.com/podtask/podtask/internal/engine/act/admit"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/testing/enginehost"
	"github.com/podtask/podtask/internal/testing/enginetest"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// wantReservations checks which tasks are in the queue, with or without a reservation.
func wantReservations(t *testing.T, host *enginehost.Host, want ...string) {
	t.Helper()
	if got := host.Open().Queue.Reservations(); !slices.Equal(got, want) {
		t.Errorf("the queue has %v, want %v", got, want)
	}
}

// The ECS agent's TestHostResourceManagerTrickleQueue, with an owner for each task.
func TestThirdTaskStartsWhenTheFirstHasStopped(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	first := host.RunSleeper(512, "first")
	second := host.RunSleeper(512, "second")
	third := host.StartSleeper(512, "third")
	if why := third.UntilQueued(); !strings.Contains(why, "0.5 vCPU (0 of 1 vCPU free), used by first (") || !strings.Contains(why, "second (") {
		t.Errorf("it waits for %q", why)
	}
	if left := host.Podman.Left(third.ID); len(left) > 0 {
		t.Errorf("a task in the queue has %v", left)
	}
	if v := host.Open().Queue.Waiting()[third.ID]; v.Word() != "cpu" {
		t.Errorf("others see %+v", v)
	}
	first.Stop()
	third.UntilRunning()
	wantReservations(t, host, second.ID, third.ID)
	second.Stop()
	third.Stop()
	wantReservations(t, host)
}

// A task that replaces another one keeps its share although a third one waits for it.
func TestATaskThatReplacesAnotherKeepsItsShare(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	old := host.RunSleeper(1024, "web")
	waiting := host.StartSleeper(1024, "waiting")
	waiting.UntilQueued()
	e := host.Open()
	id := host.Create(e, host.Box(1024, 0, "sleep", "forever"), "new", enginehost.Admitted).ID
	if err := e.Queue.Bequeath(t.Context(), old.ID, id); err != nil {
		t.Fatal(err)
	}
	old.Stop()
	wantReservations(t, host, id, waiting.ID)
	replacement := host.Own(e, id)
	replacement.UntilRunning()
	if s := waiting.Owner.State(); !s.Queued() {
		t.Error("the one that waits is in")
	}
	replacement.Stop()
	waiting.UntilRunning()
	waiting.Stop()
	wantReservations(t, host)
}

// The ECS agent's TestHostResourceManagerResourceUtilization.
func TestTaskThatIsSlowToStopDelaysNobodyWhoHasRoom(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	slow := host.Start(host.Box(512, 0, "term", "ignore", "--", "sleep", "forever"), "slow")
	slow.UntilRunning()
	slow.Owner.Send(lifecycle.StopRequested{By: "test"})
	slow.Until("stopping", func(st lifecycle.State) bool { return st.Goal == lifecycle.Down })
	next := host.RunSleeper(512, "next")
	if host.Podman.Running("podtask-box-"+slow.ID[:12]+"-app") != true {
		t.Error("the slow task has stopped too early for this test to say anything")
	}
	slow.Stop()
	next.Stop()
}

// The ECS agent's TestHostResourceManagerStopTaskNotBlockWaitingTasks.
func TestQueuedTaskCanBeStoppedAtOnce(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	holder := host.RunSleeper(1024, "holder")
	leaver := host.StartSleeper(1024, "leaver")
	leaver.UntilQueued()
	patient := host.StartSleeper(1024, "patient")
	patient.UntilQueued()
	leaver.Owner.Send(lifecycle.StopRequested{By: "test"})
	leaver.Wait()
	wantReservations(t, host, holder.ID, patient.ID)
	holder.Stop()
	patient.UntilRunning()
	patient.Stop()
}

// The ECS agent's TestHostResourceManagerLaunchTypeBehavior.
func TestTaskWithLimitsOffIsNotAccountedFor(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	e := host.Open()
	r := host.Own(e, host.Create(e, host.Box(4096, 0, "sleep", "forever"), "", enginehost.Unlimited).ID)
	r.UntilRunning() // though it declares four vCPU and the budget is one
	all := host.RunSleeper(1024, "all")
	wantReservations(t, host, r.ID, all.ID)
	all.Stop()
	r.Stop()
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
	host := enginehost.New(t)
	listener := quietPort(t)
	port := uint16(listener.Addr().(*net.TCPAddr).Port)
	task := host.Box(0, port, "sleep", "forever")
	if err := host.Open().Preflight.Check(t.Context(), task, enginehost.Admitted); err == nil || !strings.Contains(err.Error(), fmt.Sprint(port)) {
		t.Errorf("another program has the port: %v", err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	first := host.Start(task, "first")
	first.UntilRunning()
	// The port is bound in truth as well, by the first task's Podman.
	podman, err := net.Listen("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer podman.Close()
	if err := host.Open().Preflight.Check(t.Context(), task, enginehost.Admitted); err != nil {
		t.Errorf("a task has the port: %v", err)
	}
	second := host.Start(task, "second")
	if why := second.UntilQueued(); !strings.HasPrefix(why, fmt.Sprintf("port %d/tcp, used by first (", port)) {
		t.Errorf("it waits for %q", why)
	}
	first.Stop()
	second.UntilRunning()
	second.Stop()
}

func TestImpossibleTaskIsRefusedBeforeAnythingIsMade(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	task := host.Box(2048, 0, "sleep", "forever")
	err := host.Open().Preflight.Check(t.Context(), task, enginehost.Admitted)
	if err == nil || !strings.Contains(err.Error(), "2 vCPU") || !strings.Contains(err.Error(), "1 vCPU (PODTASK_BUDGET_CPU)") {
		t.Errorf("it says %v", err)
	}
	r := host.Start(task, "") // as a process with another budget created it
	r.Wait()
	if st := r.Owner.State(); st.Stop.Code != lifecycle.StopTaskFailedToStart || !strings.Contains(st.Stop.Reason, "2 vCPU") {
		t.Errorf("it ended with %+v", st.Stop)
	}
	wantReservations(t, host)
}

func TestTaskOfADeadOwnerKeepsItsShareWhileItRuns(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	dead := host.RunSleeper(1024, "dead")
	dead.Kill()
	waiter := host.StartSleeper(1024, "waiter")
	if why := waiter.UntilQueued(); !strings.Contains(why, "used by dead (") {
		t.Errorf("it waits for %q", why)
	}
	heir := host.Own(host.Open(), dead.ID)
	heir.Until("running", func(st lifecycle.State) bool {
		return st.Sandbox.Reservation == lifecycle.ReservationGranted && st.Status() == lifecycle.StatusRunning
	})
	wantReservations(t, host, dead.ID, waiter.ID)
	heir.Stop()
	waiter.UntilRunning()
	waiter.Stop()
	wantReservations(t, host)
}

func TestShareOfADeadOwnerIsFreedOnceNothingRuns(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	dead := host.RunSleeper(1024, "dead")
	dead.Kill()
	host.Podman.Reboot(true)
	next := host.RunSleeper(1024, "next")
	wantReservations(t, host, next.ID)
	heir := host.Own(host.Open(), dead.ID) // it finds its container ended
	heir.Wait()
	next.Stop()
	wantReservations(t, host)
}

func TestOwnerThatDiesInTheQueueHoldsUpNobody(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	holder := host.RunSleeper(1024, "holder")
	dead := host.StartSleeper(1024, "dead")
	dead.UntilQueued()
	dead.Kill()
	next := host.StartSleeper(1024, "next")
	next.UntilQueued()
	holder.Stop()
	next.UntilRunning()
	heir := host.Own(host.Open(), dead.ID)
	heir.UntilQueued()
	next.Stop()
	heir.UntilRunning()
	heir.Stop()
	wantReservations(t, host)
}

func TestUpdateChangesTheShare(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	large := host.RunSleeper(1024, "large")
	small := host.StartSleeper(512, "small")
	small.UntilQueued()
	half := lifecycle.Quota{CPU: 0.5}
	large.Owner.Send(lifecycle.LimitsRequested{Quota: half})
	small.UntilRunning()
	if err := host.Open().Preflight.CheckLimits(large.Owner.State(), lifecycle.Quota{CPU: 2}); err == nil || !strings.Contains(err.Error(), "2 vCPU") {
		t.Errorf("more than the host has: %v", err)
	}
	large.Stop()
	small.Stop()
}

func TestDamagedLedgerIsMadeAnewOfTheRecords(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	holder := host.RunSleeper(1024, "holder")
	file := filepath.Join(host.StateDir(), "ledger", strings.Repeat("0", 32)+".json")
	if err := os.WriteFile(file, []byte("damage"), 0o600); err != nil {
		t.Fatal(err)
	}
	next := host.StartSleeper(1024, "next")
	if why := next.UntilQueued(); !strings.Contains(why, "used by holder (") {
		t.Errorf("it waits for %q", why)
	}
	holder.Stop()
	next.UntilRunning()
	next.Stop()
}

func TestDrainingHostTakesNoNewTasks(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	e := host.Open()
	for range 2 { // twice is as once
		if err := e.Ledger.SetDraining(t.Context(), true); err != nil {
			t.Fatal(err)
		}
	}
	other := host.Open()
	task := host.Box(0, 0, "exit", "0")
	if _, err := enginehost.Record(t.Context(), other.Creator, task, "", enginehost.Admitted); !errors.Is(err, admit.ErrDraining) {
		t.Errorf("Create: %v", err)
	}
	if err := other.Preflight.Check(t.Context(), task, enginehost.Admitted); !errors.Is(err, admit.ErrDraining) {
		t.Errorf("Preflight: %v", err)
	}
	if err := other.Ledger.SetDraining(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	host.Start(task, "").Wait()
}

// Twenty tasks, each with an owner in a process of its own, go through a host that
// has room for four. Each runs until three others do.
func TestManyTasksGoThroughASmallHost(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	task := host.Box(256, 0, "term", "0", "--", "sleep", "forever")
	var wg sync.WaitGroup
	running := make(chan *enginehost.Process, 20)
	for range 20 {
		r := host.Start(task, "")
		wg.Go(func() {
			if err := r.Owner.Watch(t.Context(), func(st lifecycle.State) bool { return st.Status() != lifecycle.StatusRunning }); err != nil {
				t.Error(err)
			}
			running <- r
			if err := <-r.Ended; err != nil {
				t.Error(err)
			}
			if st := r.Owner.State(); st.ExitCode() != 0 || st.Status() != lifecycle.StatusStopped {
				t.Errorf("%s: %s, %d: %+v", r.ID, st.Status(), st.ExitCode(), st.Stop)
			}
		})
	}
	for range 5 {
		for _, r := range []*enginehost.Process{<-running, <-running, <-running, <-running} {
			r.Owner.Send(lifecycle.StopRequested{By: "test"})
		}
	}
	wg.Wait()
	wantReservations(t, host)
	checkEvents(t, host, 20)
	most, now, ran := 0, 0, 0
	for _, f := range host.Podman.Facts(0) {
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
func checkEvents(t *testing.T, host *enginehost.Host, tasks int) {
	t.Helper()
	last, lastOf, stopped := uint64(0), map[string]uint64{}, 0
	err := host.Open().Events.Read(t.Context(), 0, false, func(e record.Event) error {
		if e.Seq != last+1 || e.TaskSeq != lastOf[e.Task]+1 {
			t.Errorf("event %d, %d of its task, follows %d, %d", e.Seq, e.TaskSeq, last, lastOf[e.Task])
		}
		last, lastOf[e.Task] = e.Seq, e.TaskSeq
		if e.Container == "" && e.Status == lifecycle.StatusStopped.String() {
			stopped++
		}
		return nil
	})
	if err != nil || stopped != tasks || len(lastOf) != tasks {
		t.Errorf("%d tasks, %d of them STOPPED (%v)", len(lastOf), stopped, err)
	}
}
