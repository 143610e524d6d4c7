// Package sim is the simulated world in which the core of podtask is proved: a
// Podman, a registry, a user and a machine that may do at any moment whatever
// the real ones might. It holds no clock, no goroutine and no disk, so every
// run can be repeated exactly.
//
// A World is a lifecycle.State together with what is really so: which
// containers exist and run, whether the pod is up, which operations are in
// flight. From a World a number of moves is possible:
//
//   - an operation works; or acts and answers later; or fails before it acted,
//     or after; with every class of failure that makes a difference;
//   - Podman is away, or ends during an operation, or stays away;
//   - an operation that was given up answers so, having acted or not;
//   - an answer is delivered a second time, later;
//   - a container exits, or a user removes it from Podman behind our back;
//   - the driver tells that a watched container has ended, or raises a false alarm;
//   - there is no room on the host for the task yet, and then there is;
//   - time passes to the next timer; the clock is set back;
//   - a user asks to stop, to kill, to remove, to remove at once;
//   - the owner crashes, any subset of what was in flight having acted, and the
//     next owner starts; or the whole machine does.
//
// A Budget bounds how often each of the unfriendly moves is made, which makes
// the space finite.
//
// Three things are built on it. Explore walks all of the space, breadth first.
// Walk makes one random way through a larger one, from a seed. Play reads a
// script with a story and writes down what the core did at each line.
//
// After every move the properties must hold that are named by the constants of
// type Property, and lifecycle's own invariants; and from every World reached,
// once nothing unfriendly happens any more, the task must come to its goal.
// A Violation names the property and the moves that led there.
package sim
