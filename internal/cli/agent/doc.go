// Package agent has the commands that run servers: the agent with its TCP listeners, the access of
// AWS clients, and the node of a Kubernetes cluster.
package agent
