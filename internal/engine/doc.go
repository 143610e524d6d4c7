// Package engine is the composition root: Open creates the components that run tasks for one
// user on one machine, and connects them. The components are the exported fields of Agent;
// callers use them directly. The command line, internal/serve/metrics and tests call it. It
// decides nothing itself. Its tests drive the components together, on a fake Podman and in
// the test beds on the real one.
package engine
