// Package metrics provides an agent's metrics to Prometheus: gauges of the current
// tasks, computed at each scrape, and counters since the start of the agent, fed from
// the event log and from the owners' operations. cmd/podtask serves them.
//
// Names follow https://prometheus.io/docs/practices/naming/. No label contains the ID
// or name of a task, so the number of series does not grow over time.
package metrics
