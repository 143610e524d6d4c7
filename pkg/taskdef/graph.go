package taskdef

import (
	"slices"
	"time"
)

// Index returns the index of the container with a name, and whether there is one.
func (t Task) Index(name string) (int, bool) {
	i := slices.IndexFunc(t.Containers, func(c Container) bool { return c.Name == name })
	return i, i >= 0
}

// Dependants returns the containers that name container i in dependsOn, in the
// order of the document.
func (t Task) Dependants(i int) []int {
	var out []int
	for j, c := range t.Containers {
		if slices.ContainsFunc(c.DependsOn, func(d Dependency) bool { return d.Container == i }) {
			out = append(out, j)
		}
	}
	return out
}

// Levels returns the containers by start level: those of level 0 depend on
// none, and those of level n on at least one of level n-1 and none of level n
// or above. Each level is in the order of the document.
func (t Task) Levels() [][]int {
	levels, _ := layers(dependenciesOf(t))
	return levels
}

// ShutdownOrder returns the containers by the earliest turn in which they may
// stop: first those that no container depends on, every other one after all its
// dependants. It is not Levels backwards: a container that is tied to no other
// starts and stops in the first turn.
func (t Task) ShutdownOrder() [][]int {
	levels, _ := layers(reversed(dependenciesOf(t)))
	return levels
}

// StopBound returns the longest time that stopping the task in ShutdownOrder
// may take if every container uses its whole StopTimeout: the longest chain of
// StopTimeouts along the dependencies.
func (t Task) StopBound() time.Duration {
	deps := dependenciesOf(t)
	until := make([]time.Duration, len(deps)) // from its own stop to that of the last one below it
	var bound time.Duration
	for _, level := range t.Levels() {
		for _, i := range level {
			for _, d := range deps[i] {
				until[i] = max(until[i], until[d])
			}
			until[i] += t.Containers[i].StopTimeout
			bound = max(bound, until[i])
		}
	}
	return bound
}

// dependenciesOf returns for each container those it depends on, without
// references to none.
func dependenciesOf(t Task) [][]int {
	out := make([][]int, len(t.Containers))
	for i, c := range t.Containers {
		for _, d := range c.DependsOn {
			if d.Container >= 0 && d.Container < len(t.Containers) {
				out[i] = append(out[i], d.Container)
			}
		}
	}
	return out
}

func reversed(edges [][]int) [][]int {
	out := make([][]int, len(edges))
	for i, targets := range edges {
		for _, j := range targets {
			out[j] = append(out[j], i)
		}
	}
	return out
}

// layers peels the graph: each layer holds the nodes all of whose edges lead
// to earlier layers. What remains is on a cycle or leads to one.
func layers(edges [][]int) (layers [][]int, remain []int) {
	open := make([]int, len(edges))
	for i, targets := range edges {
		open[i] = len(targets)
		remain = append(remain, i)
	}
	back := reversed(edges)
	for {
		var layer, rest []int
		for _, i := range remain {
			if open[i] == 0 {
				layer = append(layer, i)
			} else {
				rest = append(rest, i)
			}
		}
		if len(layer) == 0 {
			return layers, remain
		}
		for _, i := range layer {
			for _, j := range back[i] {
				open[j]--
			}
		}
		layers, remain = append(layers, layer), rest
	}
}

// cyclesOf returns one cycle for each group of containers that wait for each
// other, as indices in the order of waiting. Two cycles that share a container
// are one group. A container that waits for itself is not reported: it has a
// message of its own.
func cyclesOf(t Task) [][]int {
	edges := dependenciesOf(t)
	for i := range edges {
		edges[i] = slices.DeleteFunc(edges[i], func(j int) bool { return i == j })
	}
	var out [][]int
	for {
		_, remain := layers(edges)
		if len(remain) == 0 {
			return out
		}
		cycle := walk(edges, remain)
		out = append(out, cycle)
		for i := range edges {
			edges[i] = slices.DeleteFunc(edges[i], func(j int) bool { return slices.Contains(cycle, j) })
		}
		for _, i := range cycle {
			edges[i] = nil
		}
	}
}

// walk follows edges within remain, where every node has one, until it meets
// its own track. The cycle starts at its first container of the document.
func walk(edges [][]int, remain []int) []int {
	at := make(map[int]int)
	var track []int
	for i := remain[0]; ; {
		if start, met := at[i]; met {
			cycle := track[start:]
			first := slices.Index(cycle, slices.Min(cycle))
			return slices.Concat(cycle[first:], cycle[:first])
		}
		at[i] = len(track)
		track = append(track, i)
		next := slices.IndexFunc(edges[i], func(j int) bool { return slices.Contains(remain, j) })
		i = edges[i][next]
	}
}
