// Package enginehost is test support for the packages of internal/engine: a host with a fake
// Podman and a state directory. Tests open engines on it, as processes of podtask do, create tasks
// and own them.
package enginehost
