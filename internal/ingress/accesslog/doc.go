// Package accesslog writes the access log of the ingress proxy, one JSON object a line, and keeps the
// latest parts of it.
package accesslog
