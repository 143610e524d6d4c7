// Package host has the commands about other hosts: contexts, forwarded ports, images that are sent, and
// the set-up of a host.
package host
