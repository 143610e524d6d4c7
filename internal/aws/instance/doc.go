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
//
// # Decisions
//
//   - An instance of an ECS cluster is a client of the agent. podtask-ecs holds the two web sockets of
//     internal/aws/instance. Each task of ECS has a worker with one record: what ECS sent, what it was told, and a
//     queue of changes that it has not accepted. The record is written before a payload is acknowledged and before a
//     change is sent; the agent's task has an ID that follows from the ARN, so that a process which ended between
//     making it and noting it makes no second one. No worker waits for another one. What is waited for is in one
//     file in memory (ecsstatus), which podtask ecs status, podtask why and the agent's metrics read, so that the
//     agent links no client of AWS. Its tests have a cluster (internal/testing/ecscluster): podtask's ECS API and
//     pkg/service schedule, and only the choice of an instance is the test's, because both know one host.
package instance
