// Package routefile is the file by which the agent tells the ingress proxy where requests go: host
// names and paths, the addresses of copies that are healthy, and limits. The agent replaces the file,
// the proxy follows it. So the proxy needs no agent to start, and no access to Podman.
package routefile
