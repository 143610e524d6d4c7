// Package program is the program podtask-ecs, which makes this host a container instance of an Amazon
// ECS cluster.
//
// It reads flags and configuration, takes the lock of the instance, and runs package instance over the
// user's podtask agent. Tasks continue when the program ends.
package program
