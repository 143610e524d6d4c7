// Package cleanup removes what is left over: pods and networks of tasks without a record,
// sockets of owners that died, and tasks that stopped long ago. It decides by locks and
// records, never by the age of an object in Podman.
package cleanup
