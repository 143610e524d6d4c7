// Package conn holds the connections that the components of podtask share: to Podman, to
// the user's systemd manager, and what Podman says about the machine. Each is made on first
// use and made again when it was lost. It knows nothing of tasks. What a package needs of
// Podman it declares itself, as a small interface, and gets with As or Bind.
package conn
