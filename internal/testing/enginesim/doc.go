// Package enginesim plays whole lives of tasks against a Podman in memory: what
// driver.Task decides, agent.Runtime does, on enginetest.Fake; records are kept by
// state.Store on a disk that loses power. One seed is one world, and makes the
// same one each time.
//
// In a world, three to eight tasks of one to five containers with random
// dependencies, programs and health checks live at once. Meanwhile
//
//   - Podman refuses calls, acts and loses the answer, is killed in the middle of a start
//     and leaves half of it, or is gone for a while;
//   - the registry does, images lose their tags to others and are removed locally;
//   - owners are killed: between two moves, in the middle of an operation, or
//     before any operation on a file;
//   - the machine loses power: the disk keeps and loses what a disk may, and Podman
//     resets its containers;
//   - the network of a container cannot be entered, or Podman leaves it without one;
//   - the disk is full for a while, or fails: nothing begins meanwhile, but what is to end
//     does;
//   - tasks share two vCPU and some ports, and wait for them in a queue;
//   - Podman makes a pod that a dead owner had asked for;
//   - users stop, kill and remove tasks, kill and remove containers, take ports,
//     and put containers of their own into our pods.
//
// Then all of that ceases. Every task must come to its goal, be stopped and be
// removed. What must hold on the way is listed in check.go. Truth is what the Fake
// noted when it happened, not what was reported.
//
// Tasks are driven by the code that drives them in the product, internal/engine/decide/driver. Only
// what carries its decisions out is simulated here: the loop around it has goroutines, reads
// the real clock and leaves the order of answers to the scheduler, so no seed would
// repeat it.
//
// Run it for long with
//
//	go test ./internal/testing/enginesim -run TestRandom -timeout 0 -seeds 1000000
package enginesim
