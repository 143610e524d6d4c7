// Package awsapi answers the clients of Amazon ECS: the AWS command line, the SDKs and
// what is built on them. It is the door of an agent for them: it checks signatures, reads
// the JSON protocol (and the forms of AWS' older services), answers the operations of ECS
// that podtask has, and refuses all others by name, in the protocol of the caller. It
// decides what a request means; what there is, and what is done, it asks the interfaces
// that it declares for. internal/aws/adapter implements them.
//
// It never calls Podman, and it uses no AWS SDK: the SDK's serializers leave zeros out,
// which clients read.
//
// The files are named after the resources of ECS: account, cluster, service, task. What all operations share is in protocol and
// resource; CloudWatch Logs and Application Auto Scaling have packages of their own, logstreams and autoscaling.
//
// # Decisions
//
//   - AWS clients drive the agent over interfaces that internal/aws/awsapi declares. What a client sent and podtask
//     does not act on is one value of the task's options that no step reads. The ID of a task follows from the
//     client's token, so that a repeated request finds its task. Events of services are recorded with the names of
//     tasks and deployments that podtask's users know; awsapi puts the IDs and sentences of ECS in their place.
//   - A session of execute-command outlives its connection, not its agent. One goroutine has all of a session and
//     never blocks. What the client has not acknowledged is sent again when it is back.
//   - A forwarded port is a session too. AWS's plugin carries all its connections in the stream of one session
//     (smux); the agent connects from inside the container, as its checks over the network do.
package awsapi
