//go:build e2e && nightly

package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/test/testbed"
)

// serviceKills is in how many starts Podman's service is killed.
const serviceKills = 200

// serviceKillCase is a way to start a task.
type serviceKillCase struct {
	agent      bool
	containers int
	network    string
	took       time.Duration // without a kill
}

// killedModes are the network modes of the tasks.
var killedModes = []string{"awsvpc", "bridge"}

func (c serviceKillCase) String() string {
	by := "owner"
	if c.agent {
		by = "agent"
	}
	return fmt.Sprintf("%s-%s-%d", by, c.network, c.containers)
}

// Podman's service is killed at a random moment during each start. Each task runs
// nevertheless unless Podman did not record a start, each program has been started once, and
// nothing is left. The seed is
// printed; PODTASK_SEED repeats it. It ends the service that all tests share, so it does
// not run beside them.
func TestServiceIsKilledDuringStarts(t *testing.T) {
	if servicePID() == 0 && testbed.PeerPID(filepath.Join(bed.runtime, "podman", "podman.sock")) != 0 {
		t.Skip("the bed's user has a Podman service of his own")
	}
	seed := seedOf(t)
	r := rand.New(rand.NewPCG(seed, 0))
	var cases []serviceKillCase
	for _, network := range killedModes {
		for _, n := range []int{1, 3} {
			for _, agent := range []bool{false, true} {
				c := serviceKillCase{agent: agent, containers: n, network: network}
				t.Run(fmt.Sprintf("%s without a kill", c), func(t *testing.T) { c.took = c.start(t, -1) })
				cases = append(cases, c)
			}
		}
	}
	failed, kills := 0, serviceKills
	if text := os.Getenv("PODTASK_KILLS"); text != "" {
		kills, _ = strconv.Atoi(text)
	}
	for i := range kills {
		c := cases[i%len(cases)]
		moment := time.Duration(r.Int64N(int64(c.took)))
		if !t.Run(fmt.Sprintf("%d %s after %s", i, c, moment.Round(time.Millisecond)), func(t *testing.T) { c.start(t, moment) }) {
			failed++
		}
	}
	t.Logf("%d starts, of which %d failed", kills, failed)
}

// The owner of a task, or the agent, and Podman's service are killed at the same random
// moment of a start. The next owner finishes the start, or ends the task if Podman did not
// record it. Each program has been started once, and nothing is left.
func TestOwnerAndServiceAreKilledDuringStarts(t *testing.T) {
	if servicePID() == 0 && testbed.PeerPID(filepath.Join(bed.runtime, "podman", "podman.sock")) != 0 {
		t.Skip("the bed's user has a Podman service of his own")
	}
	seed := seedOf(t)
	t.Run("without a kill", func(t *testing.T) { // Podman builds the image of infra containers
		serviceKillCase{containers: 1, network: "awsvpc"}.start(t, -1)
	})
	r := rand.New(rand.NewPCG(seed, 1))
	failed, kills := 0, serviceKills/5
	if text := os.Getenv("PODTASK_KILLS"); text != "" {
		kills, _ = strconv.Atoi(text)
	}
	for i := range kills {
		c := serviceKillCase{agent: i%2 == 1 || bed.name == "plain", containers: 1 + i/2%2*2, network: killedModes[i/4%len(killedModes)]}
		moment := time.Duration(r.Int64N(int64(2 * time.Second)))
		if !t.Run(fmt.Sprintf("%d %s after %s", i, c, moment.Round(time.Millisecond)), func(t *testing.T) { c.startKillingBoth(t, moment) }) {
			failed++
		}
	}
	t.Logf("%d starts, of which %d failed", kills, failed)
}

// startKillingBoth starts a task, kills its owner and Podman's service after a time, and
// removes the task when it has been started or has ended.
func (c serviceKillCase) startKillingBoth(t *testing.T, moment time.Duration) {
	b := newBox(t)
	if c.agent {
		b.agent()
	}
	runs := filepath.Join(b.dir, "runs")
	if err := os.Mkdir(runs, 0o777); err != nil {
		t.Fatal(err)
	}
	b.podman("pull", "-q", "--authfile", bed.auth, b.testbox())
	definition := b.write(c.definition(runs))
	before, err := leftovers()
	if err != nil {
		t.Fatal(err)
	}
	run := b.start("run", "-d", "--wait=running", "--pull", "never", definition)
	<-time.After(moment)
	killed := time.Now()
	killServiceAndOwners(b, run)
	var agent *process
	if c.agent {
		agent = b.agent()
	}
	run.wait() // it may have lost the owner
	var unrecorded, started bool
	for _, id := range strings.Fields(b.want(0, "ps", "--all", "--quiet").out) {
		var now task
		eventually(t, "the end of the start", func() bool {
			now = b.inspect(id)
			return now.Status == "RUNNING" || now.Status == "STOPPED"
		})
		started = now.Status == "RUNNING"
		unrecorded = strings.Contains(fmt.Sprint(now.StoppedReason, now.Containers), libpod.UnrecordedStart)
		if !started && !unrecorded {
			t.Errorf("killed at %s, it is %s: %s\n%s\n%s", killed.Format(time.RFC3339Nano), now.Status, now.StoppedReason,
				b.want(0, "inspect", id).out, b.want(0, "events", "--stream=false", "--since", "0", "--format", "json").out)
		}
	}
	if started {
		c.untilCounted(t, runs)
	}
	b.want(0, "rm", "--force", "--all")
	for i := range c.containers {
		text, err := os.ReadFile(filepath.Join(runs, fmt.Sprint("c", i)))
		if errors.Is(err, os.ErrNotExist) && !started {
			continue
		}
		if err != nil || strings.TrimSpace(string(text)) != "1" {
			t.Errorf("container %d was started %q times, %v", i, text, err)
		}
	}
	b.want(0, "gc")
	if c.agent {
		agent.end()
	}
	endService()
	wantNoLeftovers(t, before)
}

// start starts a task, kills Podman's service after a time unless that is negative, and
// removes the task. It returns how long the start took.
func (c serviceKillCase) start(t *testing.T, moment time.Duration) time.Duration {
	b := newBox(t)
	var agent *process
	if c.agent {
		agent = b.agent()
	}
	runs := filepath.Join(b.dir, "runs")
	if err := os.Mkdir(runs, 0o777); err != nil {
		t.Fatal(err)
	}
	image := b.testbox()
	b.podman("pull", "-q", "--authfile", bed.auth, image)
	definition := b.write(c.definition(runs))

	before, err := leftovers()
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	run := b.start("run", "-d", "--wait=running", "--pull", "never", definition)
	if moment >= 0 {
		<-time.After(moment)
		if pid := servicePID(); pid != 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	got := run.wait()
	took := time.Since(begin)
	// Podman may not have recorded a start. Then the task fails: nothing is started twice.
	unrecorded := strings.Contains(got.err, libpod.UnrecordedStart)
	if id := strings.TrimSpace(got.out); unrecorded {
		t.Log("a start was not recorded")
	} else if got.code != 0 {
		t.Errorf("the start ended with code %d:\n%s%s", got.code, got.out, got.err)
	} else if now := b.inspect(id); now.Status != "RUNNING" {
		t.Errorf("it is %s: %s", now.Status, now.StoppedReason)
	}
	if !unrecorded && got.code == 0 {
		c.untilCounted(t, runs)
	}
	b.want(0, "rm", "--force", "--all")
	for i := range c.containers {
		text, err := os.ReadFile(filepath.Join(runs, fmt.Sprint("c", i)))
		if unrecorded && errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil || strings.TrimSpace(string(text)) != "1" {
			t.Errorf("container %d was started %q times, %v", i, text, err)
		}
	}
	b.want(0, "gc")
	if agent != nil {
		agent.end()
	}
	endService() // the unit of an owner that has started it lasts as long
	if moment >= 0 {
		wantNoLeftovers(t, before)
	}
	return took
}

// untilCounted waits until the program of each container has counted its start.
func (c serviceKillCase) untilCounted(t *testing.T, runs string) {
	t.Helper()
	eventually(t, "the count of each program", func() bool {
		for i := range c.containers {
			if text, err := os.ReadFile(filepath.Join(runs, fmt.Sprint("c", i))); err != nil || len(text) == 0 {
				return false
			}
		}
		return true
	})
}

// killServiceAndOwners kills Podman's service and all processes of podtask in the box but one,
// and returns when these have ended.
func killServiceAndOwners(b *box, but *process) {
	b.t.Helper()
	var killed []int
	if pid := servicePID(); pid != 0 {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	for _, text := range b.owners() {
		if pid, _ := strconv.Atoi(text); pid > 1 && pid != but.cmd.Process.Pid {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			killed = append(killed, pid)
		}
	}
	eventually(b.t, "the end of those that were killed", func() bool {
		return !slices.ContainsFunc(killed, func(pid int) bool { return syscall.Kill(pid, 0) == nil })
	})
}

// definition is that of a task whose containers count their starts in runs.
func (c serviceKillCase) definition(runs string) def {
	d := def{Network: c.network, More: obj{"volumes": []obj{{"name": "runs", "host": obj{"sourcePath": runs}}}}}
	for i := range c.containers {
		name := fmt.Sprint("c", i)
		d.Containers = append(d.Containers, ctr{
			Name: name, Command: words("tally /runs/" + name + " 1 -- sleep forever"), StopTimeout: 5,
			More: obj{"mountPoints": []obj{{"sourceVolume": "runs", "containerPath": "/runs"}}},
		})
	}
	return d
}

// leftovers lists what is left of tasks in the bed, with Podman's own slices of pods.
func leftovers() ([]string, error) {
	found, err := testbed.Leftovers()
	podSlices, podErr := testbed.PodSlices()
	return append(found, podSlices...), errors.Join(err, podErr)
}

// wantNoLeftovers waits until nothing is left of tasks that was not there before.
func wantNoLeftovers(t *testing.T, before []string) {
	t.Helper()
	var found []string
	var err error
	none := testbed.Until(func() bool {
		found, err = leftovers()
		found = slices.DeleteFunc(found, func(s string) bool { return slices.Contains(before, s) })
		return err == nil && len(found) == 0
	})
	if !none {
		t.Errorf("left behind: %v\n%s", err, strings.Join(found, "\n"))
	}
}
