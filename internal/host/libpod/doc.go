// Package libpod talks to rootless Podman through Podman's Go bindings. It is the
// only package that imports the bindings and the only one that interprets Podman's
// error messages. Its callers get an *Error with a Class.
//
// Pod and container names come from the caller and are deterministic, so every call
// may be repeated. Creating adopts an existing object that has podtask's label and the
// same specification. Starting a running container, stopping a stopped one and
// removing one that does not exist all succeed. An object that has one of podtask's
// names but not its label is not podtask's: it is never changed, and the call returns
// class Conflict.
//
// Callers must:
//   - pass a context with a deadline, or cancel it: some Podman calls never return on
//     their own (a wait, a followed log, a registry that hangs), and this package adds
//     no timeout of its own;
//   - call InspectContainer after a failed call instead of assuming its outcome: Podman
//     may still carry out a request that was canceled or whose reply was lost;
//   - treat Events and WaitContainer as hints only.
//
// A Client is safe for concurrent use. At most four calls that change Podman's store
// (create, start, remove, tag) run at once, because Podman serializes them on its own
// locks; starts of infra containers come first. Stops, pulls, probes, waits, logs and
// inspections are not limited.
//
// If Podman's service is killed, it may leave incomplete objects that make later calls fail and
// that it does not repair: names in its storage, addresses, and the network namespace that all
// bridge networks of a user share. A call that fails for such a reason repairs the object.
//
// The package never decides what a task does next, keeps no state about tasks, and
// does not read container output or secrets into its errors.
//
// It supports Podman 4.3.1 (Debian 12) and later. Comments name the version where
// versions differ.
package libpod
