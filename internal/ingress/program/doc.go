// Package program is podtask-ingress, the proxy between the network and the services of a user: a
// process of its own, without access to Podman. It listens, follows the file of routes, has the
// certificates, answers the agent on a socket, and hands its listeners to its successor.
package program
