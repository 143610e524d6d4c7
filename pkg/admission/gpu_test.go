package admission_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/pkg/admission"
	"pgregory.net/rapid"
)

func gpuNeed(n int) admission.Need { return admission.Need{GPUs: n} }

func newGPUHost(t *testing.T) *host {
	h := newHost(t, admission.Unlimited)
	h.GPUs, h.GPUsFrom = []string{"v/gpu=0", "v/gpu=1"}, "CDI devices v/gpu"
	return h
}

func (h *host) has(task string, want ...string) {
	h.t.Helper()
	if e, _ := h.q.Find(task); !e.Held || !slices.Equal(e.GPUs, want) {
		h.t.Fatalf("%s: held %t with %v, want %v", task, e.Held, e.GPUs, want)
	}
}

func TestEachGPUHasOneTask(t *testing.T) {
	t.Parallel()
	h := newGPUHost(t)
	h.in("a", gpuNeed(1))
	h.in("b", gpuNeed(1))
	h.has("a", "v/gpu=0")
	h.has("b", "v/gpu=1")
	h.waits("c", gpuNeed(1), "1 GPU such as v/gpu=0 (0 of 2 free), used by a and b")
	h.waits("d", gpuNeed(2), "2 GPUs such as v/gpu=0 (0 of 2 free), used by a and b")
	h.q = h.q.Release("b")
	h.in("c", gpuNeed(1))
	h.has("c", "v/gpu=1")
	h.in("a", gpuNeed(1)) // asked again, it keeps what it has
	h.has("a", "v/gpu=0")
	h.q = h.q.Release("a").Release("c")
	h.in("d", gpuNeed(2))
	h.has("d", "v/gpu=0", "v/gpu=1")
}

func TestMoreGPUsThanTheHostHasAreRefused(t *testing.T) {
	t.Parallel()
	h := newGPUHost(t)
	if err := h.Refuse(gpuNeed(2)); err != nil {
		t.Error(err)
	}
	if err := h.Refuse(gpuNeed(3)); err == nil || !strings.Contains(err.Error(), "3 GPUs and this host has 2 (CDI devices v/gpu)") {
		t.Error(err)
	}
}

// A task that has begun gets its own devices again, not others, and waits if one was given to
// another task in the meantime.
func TestATaskThatHasBegunGetsItsOwnGPUs(t *testing.T) {
	t.Parallel()
	h := newGPUHost(t)
	begun := admission.Entry{Task: "a", Need: gpuNeed(1), GPUs: []string{"v/gpu=1"}}
	q, v := h.q.Take(begun, epoch)
	if !v.Admitted || !slices.Equal(v.GPUs, begun.GPUs) {
		t.Fatalf("%+v", v)
	}
	h.q = q.Release("a")
	h.in("b", gpuNeed(2))
	h.q, v = h.q.Take(begun, epoch)
	if v.Admitted || v.String() != "GPU v/gpu=1, used by b" || v.Word() != "GPU v/gpu=1" {
		t.Fatalf("%+v", v)
	}
	h.q = h.q.Release("b")
	h.waits("c", gpuNeed(2), "its turn: a is ahead")
	h.q, v = h.q.Take(begun, epoch)
	if !v.Admitted {
		t.Fatalf("it waits for %s", v)
	}
	h.has("a", "v/gpu=1")
}

// Whatever tasks ask, take and release: no device has two tasks, and a task that is in has as
// many as it needs.
func TestGPUsAreNeverShared(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		h := newGPUHost(t)
		had := map[string][]string{}
		for range rapid.IntRange(1, 40).Draw(r, "moves") {
			task := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(r, "task")
			need := gpuNeed(len(task[:1]) + int(task[0]-'a')%2)
			switch rapid.IntRange(0, 3).Draw(r, "move") {
			case 0:
				h.q = h.q.Release(task)
				delete(had, task)
			case 1: // its owner died, and nothing of it ran
				h.q = h.q.Release(task)
			case 2:
				h.ask(task, need)
			case 3:
				if had[task] != nil {
					h.q, _ = h.q.Take(admission.Entry{Task: task, Need: need, GPUs: had[task]}, epoch)
				}
			}
			seen := map[string]string{}
			for _, e := range h.q.Entries {
				if !e.Held {
					continue
				}
				had[e.Task] = e.GPUs
				if len(e.GPUs) != e.Need.GPUs {
					r.Fatalf("%s needs %d and has %v", e.Task, e.Need.GPUs, e.GPUs)
				}
				for _, name := range e.GPUs {
					if seen[name] != "" {
						r.Fatalf("%s has two tasks, %s and %s", name, seen[name], e.Task)
					}
					seen[name] = e.Task
				}
			}
		}
	})
}
