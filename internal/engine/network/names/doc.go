// Package names lets tasks reach the services of their namespace by name.
//
// A task has an address for each name, which stays the same as long as the task exists, and a line of /etc/hosts
// that says so. The address is one of a network beside that of the task (netns.SideNetwork).
// The process that owns the task listens there and passes the connections to the forwarder of the
// service, which knows the healthy copies. A name that no service has any more keeps its address: connections to it are refused, and
// no other name gets it.
package names
