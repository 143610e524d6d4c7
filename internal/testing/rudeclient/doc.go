// Package rudeclient plays clients of a server that do harm: they say nothing, stop in the
// middle of a request, send garbage, or read no answer. Tests of each listener use it. It
// knows no server.
package rudeclient
