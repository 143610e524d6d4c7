// Package preflight finds out whether this host can run a task before anything is made:
// limits, budget, ports, devices, secrets and Podman, all problems at once. It also gives the
// doctor what it examines. It changes nothing.
package preflight
