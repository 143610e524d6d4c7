// Package awsapi answers the clients of Amazon ECS: the AWS command line, the SDKs and
// what is built on them. It is the door of an agent for them: it checks signatures, reads
// the JSON protocol (and the forms of AWS' older services), answers the operations of ECS
// that podtask has, and refuses all others by name, in the protocol of the caller. It
// decides what a request means; what there is, and what is done, it asks the interfaces
// that it declares for. internal/aws/adapter implements them.
//
// It never calls Podman, and it uses no AWS SDK: the SDK's serializers leave zeros out,
// which clients read.
package awsapi
