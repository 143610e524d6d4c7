// Package ingress has the places and the documents by which the ingress proxy, the agent and the
// commands find and understand each other. The proxy is the program podtask-ingress
// (internal/ingress/program), which has no access to Podman: it reads the file of routes that the agent
// writes, and answers on a socket of its own.
package ingress
