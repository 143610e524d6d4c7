package arn

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"
)

// DefaultCluster has all tasks that came without a cluster.
const DefaultCluster = "default"

// Make returns the ARN of a thing of ECS.
func Make(kind, rest string) string {
	return Of("ecs", kind+"/"+rest)
}

// Cluster returns the ARN of a cluster.
func Cluster(name string) string { return Make("cluster", name) }

// Task returns the ARN of a task.
func Task(cluster, id string) string { return Make("task", cluster+"/"+id) }

// Container returns the ARN of a container of a task, the i-th of its definition.
func Container(cluster, task string, i int) string {
	return Make("container", fmt.Sprintf("%s/%s/%02d", cluster, task, i))
}

// Instance returns the ARN of the host in a cluster.
func Instance(cluster, id string) string { return Make("container-instance", cluster+"/"+id) }

// Service returns the ARN of a service.
func Service(cluster, name string) string { return Make("service", cluster+"/"+name) }

// ServiceDeployment returns the ARN of a deployment of a service.
func ServiceDeployment(cluster, service, id string) string {
	return Make("service-deployment", cluster+"/"+service+"/"+id)
}

// ServiceRevision returns the ARN of a revision of a service.
func ServiceRevision(cluster, service, id string) string {
	return Make("service-revision", cluster+"/"+service+"/"+id)
}

// Definition returns the ARN of a registered task definition.
func Definition(family string, revision int) string {
	return Make("task-definition", family+":"+strconv.Itoa(revision))
}

// RevisionID is the id of the revision of a deployment of a service, which is called
// NAME/NUMBER: a number of 19 digits, as on ECS.
func RevisionID(deployment string) string {
	const least = 1_000_000_000_000_000_000
	sum := sha256.Sum256([]byte(deployment))
	return strconv.FormatUint(least+binary.BigEndian.Uint64(sum[:8])%(8*least), 10)
}

// AttemptID is the id of the attempt of a number for clients, who call it a service deployment. No
// other service has it, also none of the same name.
func AttemptID(service string, number int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", service, number))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}
