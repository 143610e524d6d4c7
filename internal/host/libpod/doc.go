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
//
// # Socket and limits
//
// The socket is CONTAINER_HOST, else the user's podman.sock if a service answers there (systemd may accept
// connections and start none: while it shuts down, or before a unit has stopped that is ordered after
// podman.service), else podtask starts podman system service in a separate session with an idle timeout of one
// minute. All podtask processes of the user share that service and keep it running with an open connection, while a
// container of theirs runs and two minutes after a request: an agent whose services sleep needs no Podman. Ctrl-C
// does not reach it. If the service exits, the next call finds or starts one. A process makes at most four calls at
// once that create or start objects, infra containers first, because the containers of a pod wait for its own, and
// four that remove some. A call that takes longer than 15 seconds no longer counts, so that the calls of one task
// that hang do not delay those of another.
//
// The end of a container is learned from conmon, the process of Podman that holds it: from the exit file that it
// writes (inotify), or from its own end (a pidfd) if it was killed. So waiting costs nothing. Podman's clean-up,
// which conmon runs after that, is waited for only if the container was stopped with Podman: a user may be
// restarting it. The same holds for a Podman that does not say so, or whose clean-up could hit a container that was
// started again (before --stopped-only). If conmon is not a process of this host, Podman is asked to wait, which it
// does by polling. All are hints.
//
// A task is one pod. Its infra container, if it has one, holds network and ports. If the user has a systemd manager,
// the pod is in podtask<task id>.slice. The slice is created first, with all limits, which are then read back from
// the cgroup files.
package libpod
