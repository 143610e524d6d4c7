//go:build e2e && !nightly && !bed_systemd

package e2e

// queueTasks is how many tasks go through a queue for four.
const queueTasks = 100
