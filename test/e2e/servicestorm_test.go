//go:build e2e

//e2e:bed plain

package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/test/testbed"
)

// stormStarts is the number of starts of a storm; PODTASK_STORM_STARTS and PODTASK_STORMS set others.
const stormStarts = 8

// numberOf returns the number in a variable, or another one without it.
func numberOf(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Tasks are started two tenths of a second apart, and Podman's service is killed at a random moment of each. A
// Podman that dies again and again costs no task: each of them runs, and is removed afterward, while it goes on
// dying. It ends the service that all tests share, so it does not run beside them.
func TestAPodmanThatDiesAgainAndAgainCostsNoTask(t *testing.T) {
	if servicePID() == 0 && testbed.PeerPID(filepath.Join(bed.runtime, "podman", "podman.sock")) != 0 {
		t.Skip("the bed's user has a Podman service of his own")
	}
	starts := numberOf(t, "PODTASK_STORM_STARTS", stormStarts)
	seed := seedOf(t)
	for n := range numberOf(t, "PODTASK_STORMS", 1) {
		t.Run(fmt.Sprint("storm ", n), func(t *testing.T) { storm(t, rand.New(rand.NewPCG(seed, uint64(n))), starts) })
	}
}

// seedOf returns the seed of a random test and prints it.
func seedOf(t *testing.T) (seed uint64) {
	t.Helper()
	seed = uint64(time.Now().UnixNano())
	if text := os.Getenv("PODTASK_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("PODTASK_SEED=%d", seed)
	return seed
}

// killPodmanService kills the service that podtask has started.
func killPodmanService() {
	if pid := servicePID(); pid != 0 {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

func storm(t *testing.T, r *rand.Rand, starts int) {
	b := newBox(t)
	b.podman("pull", "-q", "--authfile", bed.auth, b.testbox())
	definition := b.write(def{Containers: []ctr{{Name: "app", Command: words("sleep forever"), StopTimeout: 5}}})
	begun := make([]*process, starts)
	for i := range begun {
		begun[i] = b.start("run", "-d", "--wait=running", "--pull", "never", "--name", fmt.Sprint("storm-", i), definition)
		moment := time.Duration(r.Int64N(int64(200 * time.Millisecond)))
		<-time.After(moment)
		killPodmanService()
		<-time.After(200*time.Millisecond - moment)
	}
	unrecorded := 0
	for i, p := range begun {
		switch got := p.wait(); {
		case strings.Contains(got.err, libpod.UnrecordedStart): // nothing is started twice
			unrecorded++
		case got.code != 0:
			t.Errorf("start %d ended with code %d:\n%s%s\n%s", i, got.code, got.out, got.err, b.podtask("inspect", fmt.Sprint("storm-", i)).out)
		}
	}
	t.Logf("%d starts, of which Podman did not record %d", starts, unrecorded)
	removal := b.start("rm", "--force", "--all")
	for range 5 {
		<-time.After(time.Duration(r.Int64N(int64(400 * time.Millisecond))))
		killPodmanService()
	}
	if got := removal.wait(); got.code != 0 {
		t.Errorf("the removal ended with code %d:\n%s%s", got.code, got.out, got.err)
	}
	b.want(0, "gc")
}
