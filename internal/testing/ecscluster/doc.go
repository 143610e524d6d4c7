// Package ecscluster is a cluster of ECS for tests: clients make services through podtask's own ECS API, and
// container instances run the copies.
//
// The API of internal/aws/awsapi answers clients, and pkg/service decides how many copies there are and which
// are replaced. What these two do not have is more than one host: awsapi has one Host, and pkg/service starts a
// copy without a place for it. So this package places copies on instances, sends them payloads, and moves copies
// away from an instance that is drained. The product needs no change for that, because both sides are reached
// through interfaces that the agent implements, too.
package ecscluster
