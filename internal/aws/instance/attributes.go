package instance

import (
	"fmt"

	"github.com/podtask/podtask/internal/aws/instance/wire"
)

// capabilities are the attributes of what podtask does on a host. ECS places a task only where all
// that its definition needs is there, so each is a promise.
func capabilities(h Host) (out []wire.Attribute) {
	own := func(names ...string) {
		for _, name := range names {
			out = append(out, wire.Attribute{Name: "ecs.capability." + name})
		}
	}
	amazon := func(names ...string) {
		for _, name := range names {
			out = append(out, wire.Attribute{Name: "com.amazonaws.ecs.capability." + name})
		}
	}
	own("private-registry-authentication.secretsmanager", "secrets.ssm.environment-variables", "secrets.ssm.bootstrap.log-driver",
		"ecr-endpoint", "secrets.asm.environment-variables", "secrets.asm.bootstrap.log-driver", "container-ordering", "full-sync",
		"env-files.s3", "network.container-port-range", "container-restart-policy")
	for _, version := range []int{17, 18, 19, 20, 21, 22, 23, 24, 25, 28, 29, 30, 32} {
		amazon(fmt.Sprintf("docker-remote-api.1.%d", version))
	}
	amazon("logging-driver.json-file")
	if h.AWSLogs {
		amazon("logging-driver.awslogs")
	}
	for _, driver := range []string{"journald", "syslog", "fluentd", "gelf", "splunk", "none"} {
		amazon("logging-driver." + driver)
	}
	amazon("task-iam-role", "ecr-auth")
	if h.Limits {
		own("task-cpu-mem-limit", "increased-task-cpu-limit")
	}
	own("execution-role-ecr-pull", "container-health-check")
	if h.AWSLogs {
		own("execution-role-awslogs")
	}
	own("docker-plugin.local", "pid-ipc-namespace-sharing", "firelens.fluentd", "firelens.fluentbit")
	amazon("logging-driver.awsfirelens")
	own("logging-driver.awsfirelens.log-driver-buffer-limit", "firelens.options.config.file", "external")
	arch := map[string]string{"amd64": "x86_64", "arm64": "arm64"}[h.Arch]
	out = append(out, wire.Attribute{Name: "ecs.os-type", Value: "linux"}, wire.Attribute{Name: "ecs.os-family", Value: "LINUX"}, wire.Attribute{Name: "ecs.os-type-detailed", Value: "LINUX"})
	if arch != "" {
		out = append(out, wire.Attribute{Name: "ecs.cpu-architecture", Value: arch})
	}
	return out
}
