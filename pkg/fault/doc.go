// Package fault describes the network faults that a task can have, as ECS injects them: a port that
// nothing passes, latency, and packet loss. It checks them in the words of ECS, and writes the input
// of nft and tc that puts them into a network namespace.
//
// The package is pure. internal/engine/act/endpoint carries its faults out, in the network namespaces of a
// task.
package fault
