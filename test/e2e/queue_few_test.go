//go:build e2e && !nightly && bed_systemd

package e2e

// queueTasks is how many tasks go through a queue for four: the other bed has a
// hundred.
const queueTasks = 20
