// Package routes is the agent's side of the ingress proxy: it writes the file of routes that the proxy
// follows, asks the proxy to drain copies that are to stop, and knows what the proxy says about itself.
// The proxy is another process, which may end and start at any time.
package routes
