// Package portforward carries the TCP connections of a client to a port of a container over one
// stream of bytes, as session-manager-plugin does with the document AWS-StartPortForwardingSession:
// the plugin is the client of smux, a protocol of streams in a stream, and a Forwarder its server.
package portforward
