// Package ingress has the commands of `podtask ingress`: they run the ingress proxy, show what it serves,
// and help to trust its own certificates.
package ingress
