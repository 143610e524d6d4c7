// Package messages keeps the files in which the containers of a Kubernetes Pod leave their
// termination messages: a file for each container, which it mounts, in the state directory.
// The interpreter of effects makes, replaces and removes them; what shows a Pod reads
// them. A message is in no record, because it may hold anything.
package messages
