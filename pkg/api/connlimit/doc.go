// Package connlimit limits how many connections an HTTP server keeps open, so that one
// client cannot use up the descriptors and the memory of the process. internal/engine/facts/metadata, pkg/api
// and the metrics listener of the agent use it. A listener never blocks at the limit: it
// closes the connection that has waited longest without a request being served, or else the
// new one.
package connlimit
