package awsapi

import (
	"strings"

	"github.com/podtask/podtask/internal/aws/awsapi/autoscaling"
	"github.com/podtask/podtask/internal/aws/awsapi/logstreams"
	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
)

// Operations lists what is answered, for the documentation: the name of each operation, after
// its service if that is not ECS, and the members of its request.
func Operations() map[string][]protocol.Member {
	all := make(map[string][]protocol.Member)
	for target, o := range New(Config{}).operations {
		all[servicePrefix(target)+o.Name] = o.Members
	}
	return all
}

// servicePrefix returns the service of a target, such as "logs ", as docs/aws.md writes it before an operation; empty for ECS.
func servicePrefix(target string) string {
	switch {
	case strings.HasPrefix(target, logstreams.Target):
		return "logs "
	case strings.HasPrefix(target, targetSSM):
		return "ssm "
	case strings.HasPrefix(target, autoscaling.Target):
		return "application-autoscaling "
	}
	return ""
}
