// Package preflight finds out whether this host can run a task before anything is made:
// limits, budget, ports, devices, secrets and Podman, all problems at once. It also collects
// the input of the doctor. It changes nothing.
package preflight
