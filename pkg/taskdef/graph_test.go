package taskdef

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// chain returns a task of containers a, b, c ... from the indices that each
// depends on.
func chain(deps ...[]int) Task {
	t := Task{Family: "f", Network: NetworkBridge}
	for i, on := range deps {
		c := Container{Name: string(rune('a' + i)), Image: "i", Essential: true, StopTimeout: time.Duration(i+1) * time.Second}
		for _, d := range on {
			c.DependsOn = append(c.DependsOn, Dependency{d, Start})
		}
		t.Containers = append(t.Containers, c)
	}
	return t
}

func TestOrders(t *testing.T) {
	t.Parallel()
	// a <- b <- d, a <- c, e alone
	task := chain(nil, []int{0}, []int{0}, []int{1}, nil)
	for _, c := range []struct {
		name      string
		got, want any
	}{
		{"levels", task.Levels(), [][]int{{0, 4}, {1, 2}, {3}}},
		{"shutdown order", task.ShutdownOrder(), [][]int{{2, 3, 4}, {1}, {0}}},
		{"dependants of a", task.Dependants(0), []int{1, 2}},
		{"dependants of e", task.Dependants(4), []int(nil)},
		{"stop bound", task.StopBound(), 7 * time.Second}, // d, b, a
		{"stop bound of nothing", Task{}.StopBound(), time.Duration(0)},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	if i, ok := task.Index("d"); i != 3 || !ok {
		t.Errorf("Index(d) = %d, %v", i, ok)
	}
	if _, ok := task.Index("z"); ok {
		t.Error("Index finds a container that is not there")
	}
}

// acyclic draws a task in which containers depend on earlier ones of a hidden
// order.
func acyclic(t *rapid.T) Task {
	n := rapid.IntRange(1, maxContainers).Draw(t, "containers")
	order := rapid.Permutation(upTo(n)).Draw(t, "order")
	deps := make([][]int, n)
	for at, i := range order {
		for _, j := range order[:at] {
			if rapid.Bool().Draw(t, fmt.Sprintf("%d on %d", i, j)) {
				deps[i] = append(deps[i], j)
			}
		}
	}
	return chain(deps...)
}

func upTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// turns maps each container to its turn and fails unless each has one.
func turns(t *rapid.T, task Task, order [][]int) map[int]int {
	at := make(map[int]int)
	for turn, containers := range order {
		if !slices.IsSorted(containers) {
			t.Fatalf("turn %d is not in the order of the document: %v", turn, containers)
		}
		for _, i := range containers {
			if _, twice := at[i]; twice {
				t.Fatalf("container %d has two turns in %v", i, order)
			}
			at[i] = turn
		}
	}
	if len(at) != len(task.Containers) {
		t.Fatalf("%v is not all of %d containers", order, len(task.Containers))
	}
	return at
}

func TestOrdersKeepEveryDependencyAndWaitForNothingElse(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		task := acyclic(t)
		if err := task.Check(); err != nil {
			t.Fatal(err)
		}
		up, down := turns(t, task, task.Levels()), turns(t, task, task.ShutdownOrder())
		for i, c := range task.Containers {
			earliestUp, earliestDown := 0, 0
			for _, d := range c.DependsOn {
				earliestUp = max(earliestUp, up[d.Container]+1)
				if !slices.Contains(task.Dependants(d.Container), i) {
					t.Fatalf("%d depends on %d and is none of its dependants", i, d.Container)
				}
			}
			for _, j := range task.Dependants(i) {
				earliestDown = max(earliestDown, down[j]+1)
			}
			if up[i] != earliestUp || down[i] != earliestDown {
				t.Fatalf("container %d starts in turn %d (earliest %d), stops in %d (earliest %d)", i, up[i], earliestUp, down[i], earliestDown)
			}
		}
	})
}

// TestStopBoundIsTheTimeAStopTakes plays the stop: each container begins to
// stop when its last dependant has stopped.
func TestStopBoundIsTheTimeAStopTakes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		task := acyclic(t)
		stopped := make(map[int]time.Duration)
		var last time.Duration
		for _, turn := range task.ShutdownOrder() {
			for _, i := range turn {
				var begin time.Duration
				for _, j := range task.Dependants(i) {
					begin = max(begin, stopped[j])
				}
				stopped[i] = begin + task.Containers[i].StopTimeout
				last = max(last, stopped[i])
			}
		}
		if got := task.StopBound(); got != last {
			t.Fatalf("bound is %v, the stop takes %v", got, last)
		}
	})
}

func TestEveryCycleIsFound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		task := acyclic(t)
		n := len(task.Containers)
		if n < 2 {
			return
		}
		// Close a path: the first container of some chain waits for the last.
		ring := rapid.Permutation(upTo(n)).Draw(t, "ring")[:rapid.IntRange(2, n).Draw(t, "length")]
		for k, i := range ring {
			next := ring[(k+1)%len(ring)]
			if c := &task.Containers[i]; !slices.ContainsFunc(c.DependsOn, func(d Dependency) bool { return d.Container == next }) {
				c.DependsOn = append(c.DependsOn, Dependency{next, Start})
			}
		}
		cycles := cyclesOf(task)
		if len(cycles) == 0 {
			t.Fatalf("the ring %v is not found", ring)
		}
		for _, cycle := range cycles {
			for k, i := range cycle {
				next := cycle[(k+1)%len(cycle)]
				if !slices.ContainsFunc(task.Containers[i].DependsOn, func(d Dependency) bool { return d.Container == next }) {
					t.Fatalf("%v is no cycle: %d does not wait for %d", cycle, i, next)
				}
			}
		}
		if task.Check() == nil {
			t.Fatal("Check accepts a cycle")
		}
	})
}

func TestWithEnvReplacesInPlaceAndLeavesTheTaskAlone(t *testing.T) {
	t.Parallel()
	task := chain(nil, nil)
	env := make([]EnvVar, 0, 8) // spare room that a careless append would share
	task.Containers[0].Environment = append(env, EnvVar{"A", "1"}, EnvVar{"B", "2"})
	got := task.WithEnv([]EnvVar{{"A", "new"}, {"C", "3"}, {"C", "4"}})
	if diff := cmp.Diff([]EnvVar{{"A", "new"}, {"B", "2"}, {"C", "4"}}, got.Containers[0].Environment); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]EnvVar{{"A", "new"}, {"C", "4"}}, got.Containers[1].Environment); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]EnvVar{{"A", "1"}, {"B", "2"}}, task.Containers[0].Environment); diff != "" {
		t.Error("the task was changed:", diff)
	}
	if task.Containers[1].Environment != nil || env[:3][2] != (EnvVar{}) {
		t.Error("the task was changed")
	}
}
