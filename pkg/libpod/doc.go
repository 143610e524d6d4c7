// Package libpod reaches rootless Podman through Podman's own Go bindings. It
// is the only package that imports them, and the only one that reads Podman's
// error messages: everything above it sees an *Error with a Class.
//
// The names of pods and containers come from the caller and are deterministic,
// so every call may be repeated. Creating adopts what exists already with our
// label and the same specification; starting what runs, stopping what stopped
// and removing what is gone succeed. What carries our name without our label is
// somebody else's: it is never changed, and the answer is class Conflict.
//
// Duties of the caller:
//   - give every call a context with a deadline, or cancel it. Podman has calls
//     that never return on their own (a wait, a followed log, a stuck registry),
//     and this package adds no timeout of its own;
//   - after a failed call assume nothing and ask InspectContainer: a request that
//     was canceled or lost may still be carried out by Podman;
//   - treat Events and WaitContainer as hints.
//
// A Client is safe for concurrent use. At most four calls that change Podman's
// store (create, start, remove, tag) run at once, because Podman serialises them
// on its own locks and gains nothing from more; stops, pulls, probes, waits, logs
// and inspections are not counted.
//
// Supported are Podman 4.3.1 (Debian 12) to 5.x. Where the two differ the comment
// at the place names the version.
package libpod
