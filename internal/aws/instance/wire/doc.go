// Package wire has the messages between ECS and a container instance: the calls of the ECS API
// that only agents make, the messages of ACS (what to run) and those of TCS (telemetry).
//
// The members are those of the public model of ECS and of what amazon-ecs-agent 1.105.1 was recorded
// to send; the recordings are in the test data of package instance. The package does no I/O.
package wire
