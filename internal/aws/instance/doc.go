// Package instance makes a host with a podtask agent a container instance of an Amazon ECS cluster,
// of the kind that is called external (ECS Anywhere).
//
// It registers the host, holds the two web sockets of an instance (ACS, which says what to run, and
// TCS, which takes telemetry), and has a taskWorker for each task of the cluster: the worker has the
// agent run the task, tells ECS each change of its state in order, and removes it some time after its
// end. A task is recorded before its message is acknowledged, and a change of state before it is sent,
// so that neither is lost however the process ends. Tasks continue without the process.
//
// The behavior is that of amazon-ecs-agent 1.105.1 as recorded; where it differs, differences_test.go
// has the reason. Credentials of roles are in memory and in files of the runtime directory only.
package instance
