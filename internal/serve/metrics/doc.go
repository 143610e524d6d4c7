// Package metrics provides an agent's metrics to Prometheus: gauges of the current
// tasks, computed at each scrape, and counters since the start of the agent, fed from
// the event log and from the owners' operations. internal/cli serves them.
//
// Names follow https://prometheus.io/docs/practices/naming/. Only what the slices of running
// tasks use has a label for the task, for at most 500 of them; so the number of series in an
// answer is bounded.
package metrics
