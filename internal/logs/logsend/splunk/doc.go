// Package splunk sends the lines of a container to the HTTP Event Collector of a Splunk, as
// events of Docker's three formats. The collector acknowledges a request with its answer. The
// caller keeps the position and calls Send again after an error.
package splunk
