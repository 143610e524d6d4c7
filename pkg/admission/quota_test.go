package admission_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/admission"
	"pgregory.net/rapid"
)

// keys is a quota of which a task takes one and each of its containers one.
func keys(most, used int64) admission.Quota {
	return admission.Quota{Name: "keys", Most: most, Used: used, PerTask: 1, PerContainer: 1, Fix: "raise it"}
}

func containers(n int64) admission.Need { return admission.Need{Containers: n} }

func quotaHost(t *testing.T, most, used int64) *host {
	h := newHost(t, admission.Unlimited)
	h.Quotas = []admission.Quota{keys(most, used)}
	return h
}

func TestQuotaBoundsContainers(t *testing.T) {
	t.Parallel()
	h := quotaHost(t, 10, 3)
	h.in("a", containers(1))
	h.in("b", containers(3)) // 2 + 4 + 3 of others
	h.waits("c", containers(1), "2 of keys (1 of 10 free, 3 used by others), used by a and b")
	if v := h.ask("c", containers(1)); v.Word() != "keys" {
		t.Errorf("the word is %q", v.Word())
	}
	h.waits("d", containers(1), "2 of keys (1 of 10 free, 3 used by others), used by a and b")
	h.q = h.q.Release("a")
	h.in("c", containers(1))
}

func TestQuotaThatOthersUseUp(t *testing.T) {
	t.Parallel()
	h := quotaHost(t, 10, 9)
	h.waits("a", containers(1), "2 of keys (1 of 10 free, 9 used by others)")
	h.Quotas = []admission.Quota{keys(10, 8)} // another container of the user has ended
	h.in("a", containers(1))
}

// Tasks that were admitted and have not started yet do not show in what is used, so the
// share of others must be remembered meanwhile.
func TestOthersAreRememberedWhileTasksStart(t *testing.T) {
	t.Parallel()
	h := quotaHost(t, 10, 4)
	h.in("a", containers(1))
	h.in("b", containers(1))
	h.in("c", containers(1)) // 6 of podtask and 4 of others: full, though 4 are used
	h.waits("d", containers(1), "2 of keys (0 of 10 free, 4 used by others), used by a, b and c")
	h.Quotas = []admission.Quota{keys(10, 8)} // two of them run
	h.waits("d", containers(1), "2 of keys (0 of 10 free, 4 used by others), used by a, b and c")
	h.Quotas = []admission.Quota{keys(10, 7)} // all of them run, and others have ended
	v := h.q.Judge(h.Budget, "d", epoch.Add(time.Hour), h.present)
	if !v.Admitted {
		t.Errorf("later it waits for %s", v)
	}
	if v := h.q.Judge(h.Budget, "d", epoch, h.present); v.Admitted {
		t.Error("it is admitted before the others have started")
	}
}

// A host that is busy may take minutes to start a task.
func TestOthersAreRememberedWhileATaskStartsSlowly(t *testing.T) {
	t.Parallel()
	h := quotaHost(t, 10, 4)
	h.in("a", containers(1))
	h.in("b", containers(1))
	h.in("c", containers(1))
	h.Quotas = []admission.Quota{keys(10, 8)} // c has not started
	h.ask("d", containers(1))
	h.Starting = func(task string) bool { return task == "c" }
	later := epoch.Add(time.Minute)
	if v := h.q.Judge(h.Budget, "d", later, h.present); v.Admitted {
		t.Error("it is admitted before c has started")
	}
	h.Starting = func(string) bool { return false }
	h.Quotas = []admission.Quota{keys(10, 8)} // c runs, and others have ended
	if v := h.q.Judge(h.Budget, "d", later, h.present); !v.Admitted {
		t.Errorf("when all have started it waits for %s", v)
	}
	h.Starting = func(string) bool { return true } // for ever, perhaps for want of a dependency
	if v := h.q.Judge(h.Budget, "d", epoch.Add(time.Hour), h.present); !v.Admitted {
		t.Errorf("after an hour it waits for %s", v)
	}
}

func TestQuotaWithoutItsUse(t *testing.T) {
	t.Parallel()
	h := quotaHost(t, 4, admission.Unlimited)
	h.in("a", containers(1))
	h.in("b", containers(1))
	h.waits("c", containers(1), "2 of keys (0 of 4 free), used by a and b")
}

func TestMoreContainersThanTheQuotaAreRefused(t *testing.T) {
	t.Parallel()
	h := quotaHost(t, 4, 4)
	if err := h.Refuse(containers(3)); err != nil {
		t.Errorf("what just fits is refused: %v", err)
	}
	err := h.Refuse(containers(4))
	if err == nil || !strings.Contains(err.Error(), "4 containers need 5 of keys, which is 4: raise it") {
		t.Errorf("%v", err)
	}
}

// Whatever starts, ends and uses the quota in whatever order: as long as others do not
// take more after a task was admitted, no start finds the quota used up.
func TestAdmittedTasksFindRoom(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const most = 20
		var q admission.Queue
		at, others, started := epoch, rapid.Int64Range(0, 12).Draw(t, "others"), map[string]bool{}
		used := func() (n int64) {
			for _, e := range q.Entries {
				if started[e.Task] {
					n += 1 + e.Need.Containers
				}
			}
			return n + others
		}
		for i := range rapid.IntRange(1, 60).Draw(t, "moves") {
			switch rapid.IntRange(0, 4).Draw(t, "move") {
			case 0:
				others = rapid.Int64Range(0, others).Draw(t, "fewer")
			case 1:
				if len(q.Entries) > 0 {
					q = q.Release(rapid.SampledFrom(q.Entries).Draw(t, "ends").Task)
				}
			case 2: // all that were admitted start
				for _, e := range q.Entries {
					started[e.Task] = started[e.Task] || e.Held
				}
				at = at.Add(time.Minute)
			default:
				b := admission.Budget{CPU: admission.Unlimited, Memory: admission.Unlimited, Quotas: []admission.Quota{keys(most, used())}}
				q, _ = q.Ask(b, admission.Entry{Task: fmt.Sprint(i), Need: containers(rapid.Int64Range(1, 5).Draw(t, "containers"))}, at, everybody)
			}
			sum := others
			for _, e := range q.Entries {
				if e.Held {
					sum += 1 + e.Need.Containers
				}
			}
			if sum > most {
				t.Fatalf("%d of %d are promised, %d of them to others: %+v", sum, most, others, q)
			}
		}
	})
}
