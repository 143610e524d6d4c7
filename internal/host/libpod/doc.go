// Package libpod talks to rootless Podman through Podman's Go bindings. It is the
// only package that imports the bindings and the only one that interprets Podman's
// error messages: its callers see an *Error with a Class. internal/engine is its only
// user in the product.
//
// Pod and container names come from the caller and are deterministic, so every call
// may be repeated. Creating adopts an existing object that has podtask's label and the
// same specification. Starting a running container, stopping a stopped one and
// removing one that does not exist all succeed. An object that has one of podtask's
// names but not its label belongs to someone else: it is never changed, and the call
// returns class Conflict.
//
// Callers must:
//   - pass a context with a deadline, or cancel it: some Podman calls never return on
//     their own (a wait, a followed log, a registry that hangs), and this package adds
//     no timeout;
//   - call InspectContainer after a failed call instead of assuming its outcome: Podman
//     may still carry out a request that was canceled or whose reply was lost;
//   - treat Events and WaitContainer as hints only.
//
// A Client is safe for concurrent use. At most four calls that change Podman's store
// (create, start, remove, tag) run at once, because Podman serializes them on its own
// locks; starts of infra containers come first. Stops, pulls, probes, waits, logs and
// inspections are not limited.
//
// What Podman's service leaves broken when it is killed, and does not repair itself, is repaired
// where it stands in the way of a call: names held in the storage, addresses, and the network
// namespace that the bridge networks of a user share.
//
// The package never decides what a task does next, keeps no state about tasks, and
// does not read container output or secrets into its errors.
//
// It supports Podman 4.3.1 (Debian 12) and later. Comments name the version where
// versions differ.
package libpod
