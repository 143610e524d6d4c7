package awsapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/internal/aws/awsapi"
	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
)

// trip is a request that changes something, and the one that describes it afterwards.
type trip struct {
	operation, body string
	describe, with  string // the operation that describes, and its request
	at              string // where the answer has it
}

const (
	describeService = `{"services": ["SELF"], "include": ["TAGS"]}`
	inService       = "services[0]"
	describeCluster = `{"clusters": ["blue"], "include": ["TAGS", "SETTINGS", "CONFIGURATIONS"]}`
	inCluster       = "clusters[0]"
)

const (
	describeExpress = `{"serviceArn": "arn:aws:ecs:local:000000000000:service/default/expressed", "include": ["TAGS"]}`
	expressMembers  = `"cpu": "256", "memory": "1024", "cpuArchitecture": "X86_64", "executionRoleArn": "arn:aws:iam::000000000000:role/e", "taskRoleArn": "arn:aws:iam::000000000000:role/t", "healthCheckPath": "/up?a=b",
	  "networkConfiguration": {"subnets": ["s"], "securityGroups": ["g"]}, "scalingTarget": {"minTaskCount": 2, "maxTaskCount": 4, "autoScalingMetric": "AVERAGE_MEMORY", "autoScalingTargetValue": 70},
	  "primaryContainer": {"image": "i", "command": ["c"], "containerPort": 8080, "environment": [{"name": "N", "value": "v"}], "secrets": [{"name": "S", "valueFrom": "arn:aws:ssm:local:000000000000:parameter/s"}],
	    "repositoryCredentials": {"credentialsParameter": "arn:aws:secretsmanager:local:000000000000:secret:s"}, "awsLogsConfiguration": {"logGroup": "g", "logStreamPrefix": "p"}}`
)

// trips have together each member of the SDK's model that is accepted. SELF stands for a name of its own, TASK for the latest task.
var trips = []trip{
	{"RegisterTaskDefinition", `{"family": "SELF", "cpu": "512", "memory": "1024", "enableFaultInjection": true, "ephemeralStorage": {"sizeInGiB": 30}, "executionRoleArn": "arn:aws:iam::000000000000:role/e",
	  "taskRoleArn": "arn:aws:iam::000000000000:role/t", "networkMode": "awsvpc", "pidMode": "task", "requiresCompatibilities": ["FARGATE"], "runtimePlatform": {"cpuArchitecture": "X86_64", "operatingSystemFamily": "LINUX"},
	  "tags": [{"key": "a", "value": "b"}], "volumes": [{"name": "v", "host": {}}, {"name": "e", "efsVolumeConfiguration": {"fileSystemId": "fs-1", "rootDirectory": "/",
	    "transitEncryption": "ENABLED", "transitEncryptionPort": 2999, "authorizationConfig": {"accessPointId": "fsap-1", "iam": "ENABLED"}}}],
	  "containerDefinitions": [{"name": "app", "image": "i", "cpu": 128, "memory": 256, "memoryReservation": 64, "essential": true, "command": ["c"], "entryPoint": ["e"], "interactive": true, "pseudoTerminal": true,
	    "user": "1000", "workingDirectory": "/w", "readonlyRootFilesystem": true, "startTimeout": 10, "stopTimeout": 10, "versionConsistency": "disabled",
	    "dependsOn": [{"containerName": "side", "condition": "START"}], "dockerLabels": {"l": "1"}, "environment": [{"name": "N", "value": "v"}], "environmentFiles": [{"type": "s3", "value": "arn:aws:s3:::b/k.env"}],
	    "healthCheck": {"command": ["CMD", "true"], "interval": 10, "retries": 2, "startPeriod": 5, "timeout": 4}, "linuxParameters": {"capabilities": {"add": ["SYS_PTRACE"], "drop": ["CHOWN"]}, "initProcessEnabled": true},
	    "logConfiguration": {"logDriver": "awslogs", "options": {"awslogs-group": "g", "awslogs-region": "local", "awslogs-stream-prefix": "p"}},
	    "mountPoints": [{"containerPath": "/v", "readOnly": true, "sourceVolume": "v"}, {"containerPath": "/e", "sourceVolume": "e"}], "portMappings": [{"appProtocol": "http", "containerPort": 80, "hostPort": 80, "name": "web", "protocol": "tcp"}, {"containerPortRange": "90-91", "protocol": "udp"}],
	    "repositoryCredentials": {"credentialsParameter": "arn:aws:secretsmanager:local:000000000000:secret:s"}, "restartPolicy": {"enabled": true, "ignoredExitCodes": [3], "restartAttemptPeriod": 60},
	    "secrets": [{"name": "S", "valueFrom": "arn:aws:ssm:local:000000000000:parameter/s"}], "systemControls": [{"namespace": "net.ipv4.tcp_keepalive_time", "value": "500"}], "ulimits": [{"name": "nofile", "softLimit": 10, "hardLimit": 20}]},
	   {"name": "side", "image": "j", "essential": false, "memory": 64, "volumesFrom": [{"sourceContainer": "app", "readOnly": true}], "firelensConfiguration": {"type": "fluentbit", "options": {"enable-ecs-log-metadata": "true"}}}]}`,
		"DescribeTaskDefinition", `{"taskDefinition": "SELF", "include": ["TAGS"]}`, "taskDefinition"},
	{"RegisterTaskDefinition", `{"family": "SELF", "networkMode": "bridge", "ipcMode": "host", "pidMode": "host", "requiresCompatibilities": ["EC2"], "placementConstraints": [{"type": "memberOf", "expression": "attribute:a == b"}],
	  "proxyConfiguration": {"type": "APPMESH", "containerName": "side", "properties": [{"name": "ProxyIngressPort", "value": "1"}]}, "inferenceAccelerators": [{"deviceName": "d", "deviceType": "t"}],
	  "volumes": [{"name": "v", "host": {"sourcePath": "/srv"}}, {"name": "d", "dockerVolumeConfiguration": {"scope": "shared", "autoprovision": true, "driver": "local", "driverOpts": {"type": "tmpfs"}, "labels": {"a": "b"}}}],
	  "containerDefinitions": [{"name": "app", "image": "i", "memory": 256, "privileged": true, "hostname": "h", "links": ["side"], "dnsServers": ["10.0.0.1"], "dnsSearchDomains": ["example.com"], "dockerSecurityOptions": ["no-new-privileges"],
	    "disableNetworking": false, "extraHosts": [{"hostname": "x", "ipAddress": "10.0.0.2"}], "resourceRequirements": [{"type": "GPU", "value": "1"}],
	    "linuxParameters": {"devices": [{"hostPath": "/dev/null", "containerPath": "/dev/x", "permissions": ["read"]}], "maxSwap": 100, "swappiness": 10, "sharedMemorySize": 64, "tmpfs": [{"containerPath": "/t", "size": 10, "mountOptions": ["noexec"]}]},
	    "logConfiguration": {"logDriver": "splunk", "options": {"splunk-url": "https://s"}, "secretOptions": [{"name": "splunk-token", "valueFrom": "arn:aws:ssm:local:000000000000:parameter/s"}]}},
	   {"name": "side", "image": "j", "memory": 64}]}`, "DescribeTaskDefinition", `{"taskDefinition": "SELF"}`, "taskDefinition"},
	{"RegisterTaskDefinition", `{"family": "SELF", "containerDefinitions": [{"name": "app", "image": "i", "memory": 64}], "volumes": [{"name": "v", "configuredAtLaunch": true},
	  {"name": "w", "fsxWindowsFileServerVolumeConfiguration": {"fileSystemId": "fs-1", "rootDirectory": "/", "authorizationConfig": {"credentialsParameter": "arn:c", "domain": "d"}}},
	  {"name": "x", "s3filesVolumeConfiguration": {"fileSystemArn": "arn:f", "accessPointArn": "arn:a", "rootDirectory": "/", "transitEncryptionPort": 1}}]}`, "DescribeTaskDefinition", `{"taskDefinition": "SELF"}`, "taskDefinition"},
	{"CreateService", `{"serviceName": "SELF", "cluster": "default", "clientToken": "t", "taskDefinition": "web:1", "desiredCount": 0, "availabilityZoneRebalancing": "ENABLED", "capacityProviderStrategy": [{"capacityProvider": "FARGATE", "base": 1, "weight": 2}],
	  "enableECSManagedTags": true, "enableExecuteCommand": true, "healthCheckGracePeriodSeconds": 9, "platformVersion": "1.4.0", "propagateTags": "SERVICE", "role": "arn:aws:iam::000000000000:role/r", "schedulingStrategy": "REPLICA",
	  "tags": [{"key": "a", "value": "b"}], "deploymentController": {"type": "ECS"}, "placementConstraints": [{"type": "memberOf", "expression": "e"}], "placementStrategy": [{"type": "spread", "field": "host"}],
	  "networkConfiguration": {"awsvpcConfiguration": {"subnets": ["s"], "securityGroups": ["g"], "assignPublicIp": "ENABLED"}},
	  "deploymentConfiguration": {"strategy": "CANARY", "bakeTimeInMinutes": 3, "maximumPercent": 150, "minimumHealthyPercent": 100, "canaryConfiguration": {"canaryPercent": 7.5, "canaryBakeTimeInMinutes": 4},
	    "alarms": {"alarmNames": ["x"], "enable": true, "rollback": true}, "deploymentCircuitBreaker": {"enable": true, "rollback": true, "resetOnHealthyTask": false, "thresholdConfiguration": {"type": "COUNT", "value": 4}},
	    "lifecycleHooks": [{"hookTargetArn": "arn:aws:lambda:local:000000000000:function:f", "roleArn": "arn:aws:iam::000000000000:role/r", "lifecycleStages": ["PRE_SCALE_UP"], "hookDetails": {"a": 1}},
	      {"targetType": "PAUSE", "lifecycleStages": ["POST_SCALE_UP"], "timeoutConfiguration": {"action": "CONTINUE", "timeoutInMinutes": 5}}]},
	  "loadBalancers": [{"targetGroupArn": "a", "containerName": "app", "containerPort": 80, "advancedConfiguration": {"alternateTargetGroupArn": "b", "productionListenerRule": "p", "testListenerRule": "q", "roleArn": "r"}}]}`,
		"DescribeServices", describeService, inService},
	{"CreateService", `{"serviceName": "SELF", "taskDefinition": "web:1", "desiredCount": 0, "launchType": "EC2", "schedulingStrategy": "REPLICA", "loadBalancers": [{"loadBalancerName": "classic", "containerName": "app", "containerPort": 80}],
	  "deploymentConfiguration": {"strategy": "ROLLING", "earlySuccessCriteria": {"enable": true, "healthyPercent": 100, "sourceServiceRevisionCleanup": "DEFERRED"}},
	  "serviceRegistries": [{"registryArn": "arn:aws:servicediscovery:local:000000000000:service/srv-1", "port": 1, "containerName": "app", "containerPort": 80}]}`, "DescribeServices", describeService, inService},
	{"CreateService", `{"serviceName": "SELF", "taskDefinition": "named:1", "desiredCount": 0, "deploymentConfiguration": {"strategy": "LINEAR", "linearConfiguration": {"stepPercent": 12.5, "stepBakeTimeInMinutes": 2}},
	  "serviceConnectConfiguration": {"enabled": true, "namespace": "n", "accessLogConfiguration": {"format": "JSON", "includeQueryParameters": "ENABLED"}, "logConfiguration": {"logDriver": "awslogs", "options": {"a": "b"}, "secretOptions": [{"name": "n", "valueFrom": "v"}]},
	    "services": [{"portName": "web", "discoveryName": "d", "ingressPortOverride": 81, "timeout": {"idleTimeoutSeconds": 1, "perRequestTimeoutSeconds": 2}, "tls": {"issuerCertificateAuthority": {"awsPcaAuthorityArn": "arn:x"}, "kmsKey": "k", "roleArn": "r"},
	      "clientAliases": [{"port": 80, "dnsName": "d.n", "testTrafficRules": {"header": {"name": "h", "value": {"exact": "e"}}}}]}]}}`, "DescribeServices", describeService, inService},
	{"UpdateService", `{"service": "there", "cluster": "default", "taskDefinition": "web:1", "desiredCount": 3, "forceNewDeployment": true, "availabilityZoneRebalancing": "ENABLED", "capacityProviderStrategy": [{"capacityProvider": "FARGATE", "base": 1, "weight": 2}],
	  "enableECSManagedTags": true, "enableExecuteCommand": true, "healthCheckGracePeriodSeconds": 9, "platformVersion": "1.4.0", "propagateTags": "SERVICE", "deploymentController": {"type": "ECS"},
	  "placementConstraints": [{"type": "memberOf", "expression": "e"}], "placementStrategy": [{"type": "spread", "field": "host"}], "networkConfiguration": {"awsvpcConfiguration": {"subnets": ["s"], "securityGroups": ["g"], "assignPublicIp": "ENABLED"}},
	  "deploymentConfiguration": {"strategy": "CANARY", "bakeTimeInMinutes": 3, "maximumPercent": 150, "minimumHealthyPercent": 100, "canaryConfiguration": {"canaryPercent": 7.5, "canaryBakeTimeInMinutes": 4},
	    "alarms": {"alarmNames": ["x"], "enable": true, "rollback": true}, "deploymentCircuitBreaker": {"enable": true, "rollback": true, "resetOnHealthyTask": false, "thresholdConfiguration": {"type": "COUNT", "value": 4}},
	    "lifecycleHooks": [{"hookTargetArn": "arn:aws:lambda:local:000000000000:function:f", "roleArn": "arn:aws:iam::000000000000:role/r", "lifecycleStages": ["PRE_SCALE_UP"], "hookDetails": {"a": 1}},
	      {"targetType": "PAUSE", "lifecycleStages": ["POST_SCALE_UP"], "timeoutConfiguration": {"action": "CONTINUE", "timeoutInMinutes": 5}}]},
	  "loadBalancers": [{"targetGroupArn": "a", "containerName": "app", "containerPort": 80, "advancedConfiguration": {"alternateTargetGroupArn": "b", "productionListenerRule": "p", "testListenerRule": "q", "roleArn": "r"}}]}`,
		"DescribeServices", `{"services": ["there"]}`, inService},
	{"UpdateService", `{"service": "there", "loadBalancers": [{"loadBalancerName": "classic", "containerName": "app", "containerPort": 80}],
	  "deploymentConfiguration": {"strategy": "ROLLING", "earlySuccessCriteria": {"enable": true, "healthyPercent": 100, "sourceServiceRevisionCleanup": "DEFERRED"}},
	  "serviceRegistries": [{"registryArn": "arn:aws:servicediscovery:local:000000000000:service/srv-1", "port": 1, "containerName": "app", "containerPort": 80}]}`, "DescribeServices", `{"services": ["there"]}`, inService},
	{"UpdateService", `{"service": "connected", "deploymentConfiguration": {"strategy": "LINEAR", "linearConfiguration": {"stepPercent": 12.5, "stepBakeTimeInMinutes": 2}},
	  "serviceConnectConfiguration": {"enabled": true, "namespace": "n", "accessLogConfiguration": {"format": "JSON", "includeQueryParameters": "ENABLED"}, "logConfiguration": {"logDriver": "awslogs", "options": {"a": "b"}, "secretOptions": [{"name": "n", "valueFrom": "v"}]},
	    "services": [{"portName": "web", "discoveryName": "d", "ingressPortOverride": 81, "timeout": {"idleTimeoutSeconds": 1, "perRequestTimeoutSeconds": 2}, "tls": {"issuerCertificateAuthority": {"awsPcaAuthorityArn": "arn:x"}, "kmsKey": "k", "roleArn": "r"},
	      "clientAliases": [{"port": 80, "dnsName": "d.n", "testTrafficRules": {"header": {"name": "h", "value": {"exact": "e"}}}}]}]}}`, "DescribeServices", `{"services": ["connected"]}`, inService},
	{"RunTask", `{"taskDefinition": "web:1", "cluster": "default", "clientToken": "r", "count": 1, "enableECSManagedTags": true, "enableExecuteCommand": true, "group": "g", "launchType": "FARGATE", "platformVersion": "1.4.0", "propagateTags": "TASK_DEFINITION", "referenceId": "r",
	  "startedBy": "me", "tags": [{"key": "team", "value": "b"}], "networkConfiguration": {"awsvpcConfiguration": {"subnets": ["s"], "securityGroups": ["g"], "assignPublicIp": "ENABLED"}},
	  "placementConstraints": [{"type": "memberOf", "expression": "e"}], "placementStrategy": [{"type": "spread", "field": "host"}],
	  "overrides": {"cpu": "256", "memory": "512", "executionRoleArn": "e", "taskRoleArn": "t", "ephemeralStorage": {"sizeInGiB": 30}, "inferenceAcceleratorOverrides": [{"deviceName": "d", "deviceType": "t"}],
	    "containerOverrides": [{"resourceRequirements": [{"type": "GPU", "value": "1"}], "name": "app", "command": ["c"], "cpu": 10, "memory": 64, "memoryReservation": 32, "environment": [{"name": "N", "value": "v"}], "environmentFiles": [{"type": "s3", "value": "arn:aws:s3:::b/k.env"}]}]}}`,
		"DescribeTasks", `{"tasks": ["TASK"], "include": ["TAGS"]}`, "tasks[0]"},
	{"RunTask", `{"taskDefinition": "web:1", "capacityProviderStrategy": [{"capacityProvider": "FARGATE", "base": 1, "weight": 2}]}`, "DescribeTasks", `{"tasks": ["TASK"]}`, "tasks[0]"},
	{"StartTask", `{"taskDefinition": "web:1", "cluster": "default", "containerInstances": ["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"], "enableECSManagedTags": true, "enableExecuteCommand": true, "group": "g", "propagateTags": "TASK_DEFINITION", "referenceId": "r",
	  "startedBy": "me", "tags": [{"key": "team", "value": "b"}], "networkConfiguration": {"awsvpcConfiguration": {"subnets": ["s"], "securityGroups": ["g"], "assignPublicIp": "ENABLED"}},
	  "overrides": {"cpu": "256", "memory": "512", "executionRoleArn": "e", "taskRoleArn": "t", "ephemeralStorage": {"sizeInGiB": 30}, "inferenceAcceleratorOverrides": [{"deviceName": "d", "deviceType": "t"}],
	    "containerOverrides": [{"resourceRequirements": [{"type": "GPU", "value": "1"}], "name": "app", "command": ["c"], "cpu": 10, "memory": 64, "memoryReservation": 32, "environment": [{"name": "N", "value": "v"}], "environmentFiles": [{"type": "s3", "value": "arn:aws:s3:::b/k.env"}]}]}}`,
		"DescribeTasks", `{"tasks": ["TASK"], "include": ["TAGS"]}`, "tasks[0]"},
	{"CreateCluster", `{"clusterName": "blue", "capacityProviders": ["FARGATE"], "defaultCapacityProviderStrategy": [{"capacityProvider": "FARGATE", "base": 1, "weight": 2}], "settings": [{"name": "containerInsights", "value": "enabled"}], "tags": [{"key": "a", "value": "b"}],
	  "serviceConnectDefaults": {"namespace": "n"}, "configuration": {"managedStorageConfiguration": {"kmsKeyId": "k", "fargateEphemeralStorageKmsKeyId": "f"},
	  "executeCommandConfiguration": {"kmsKeyId": "k", "logging": "OVERRIDE", "logConfiguration": {"cloudWatchEncryptionEnabled": true, "cloudWatchLogGroupName": "g", "s3BucketName": "b", "s3EncryptionEnabled": true, "s3KeyPrefix": "p"}}}}`,
		"DescribeClusters", describeCluster, inCluster},
	{"UpdateCluster", `{"cluster": "blue", "settings": [{"name": "containerInsights", "value": "enhanced"}], "serviceConnectDefaults": {"namespace": "m"}, "configuration": {"managedStorageConfiguration": {"kmsKeyId": "l", "fargateEphemeralStorageKmsKeyId": "g"},
	  "executeCommandConfiguration": {"kmsKeyId": "l", "logging": "OVERRIDE", "logConfiguration": {"cloudWatchEncryptionEnabled": true, "cloudWatchLogGroupName": "h", "s3BucketName": "c", "s3EncryptionEnabled": true, "s3KeyPrefix": "q"}}}}`,
		"DescribeClusters", describeCluster, inCluster},
	{"UpdateClusterSettings", `{"cluster": "blue", "settings": [{"name": "containerInsights", "value": "disabled"}]}`, "DescribeClusters", describeCluster, inCluster},
	{"PutClusterCapacityProviders", `{"cluster": "blue", "capacityProviders": ["FARGATE_SPOT"], "defaultCapacityProviderStrategy": [{"capacityProvider": "FARGATE_SPOT", "base": 3, "weight": 4}]}`, "DescribeClusters", describeCluster, inCluster},
	{"PutAccountSetting", `{"name": "awsvpcTrunking", "value": "enabled", "principalArn": "arn:aws:iam::000000000000:user/u"}`, "ListAccountSettings", `{"name": "awsvpcTrunking", "principalArn": "arn:aws:iam::000000000000:user/u"}`, "settings[0]"},
	{"PutAccountSettingDefault", `{"name": "containerInsights", "value": "enabled"}`, "ListAccountSettings", `{"name": "containerInsights", "effectiveSettings": true}`, "settings[0]"},
	{"CreateExpressGatewayService", `{"serviceName": "expressed", "cluster": "default", "infrastructureRoleArn": "arn:aws:iam::000000000000:role/i", ` + expressMembers + `, "tags": [{"key": "a", "value": "b"}]}`, "DescribeExpressGatewayService", describeExpress, "service"},
	{"UpdateExpressGatewayService", `{"serviceArn": "arn:aws:ecs:local:000000000000:service/default/expressed", ` + strings.NewReplacer("8080", "80", "256", "512", "1024", "2048", `"minTaskCount": 2`, `"minTaskCount": 1`).Replace(expressMembers) + `}`, "DescribeExpressGatewayService", describeExpress, "service"},
	{"UpdateExpressGatewayService", `{"serviceArn": "arn:aws:ecs:local:000000000000:service/default/expressed", "taskDefinitionArn": "arn:aws:ecs:local:000000000000:task-definition/main:1"}`, "DescribeExpressGatewayService", describeExpress, "service"},
	{"CreateExpressGatewayService", `{"serviceName": "own", "infrastructureRoleArn": "arn:aws:iam::000000000000:role/i", "taskDefinitionArn": "arn:aws:ecs:local:000000000000:task-definition/main:1"}`, "DescribeExpressGatewayService", `{"serviceArn": "arn:aws:ecs:local:000000000000:service/default/own"}`, "service"},
	{"logs CreateLogGroup", `{"logGroupName": "/g", "kmsKeyId": "k", "logGroupClass": "INFREQUENT_ACCESS", "deletionProtectionEnabled": true, "tags": {"a": "b"}}`, "logs DescribeLogGroups", `{"logGroupNamePrefix": "/g"}`, "logGroups[0]"},
	{"logs PutRetentionPolicy", `{"logGroupName": "/g", "retentionInDays": 14}`, "logs DescribeLogGroups", `{"logGroupNamePrefix": "/g"}`, "logGroups[0]"},
}

// elsewhere are members that an answer has under another name; "../" leaves what describes the thing.
var elsewhere = map[string]string{
	"CreateService role":                        "roleArn",
	"CreateService serviceConnectConfiguration": "deployments[0].serviceConnectConfiguration",
	"UpdateService serviceConnectConfiguration": "deployments[0].serviceConnectConfiguration",
	"UpdateService service":                     "serviceName",
	"RegisterTaskDefinition tags":               "../tags",
}

func init() {
	for _, m := range []string{"cpu", "memory", "cpuArchitecture", "executionRoleArn", "taskRoleArn", "healthCheckPath", "networkConfiguration", "scalingTarget", "primaryContainer", "taskDefinitionArn"} {
		elsewhere["CreateExpressGatewayService "+m] = "activeConfigurations[0]." + m
		elsewhere["UpdateExpressGatewayService "+m] = "activeConfigurations[0]." + m
	}
}

// notGivenBack are accepted members that the answer has with another value, or not at all, each with the reason.
var notGivenBack = map[string]string{
	"CreateService taskDefinition": "an ARN in answers",
	"UpdateService taskDefinition": "an ARN in answers",
}

// declined are requests with the members that are refused by their value. Those that the table of an operation refuses
// need no request.
var declined = []struct{ operation, body string }{
	{"RegisterTaskDefinition", `{"family": "f", "containerDefinitions": [{"name": "app", "image": "i", "memory": 64, "credentialSpecs": ["credentialspec:arn:aws:s3:::b/k"]}]}`},
	{"RegisterTaskDefinition", `{"family": "f", "containerDefinitions": [{"name": "app", "image": "i", "memory": 64, "resourceRequirements": [{"type": "GPU", "value": "1", "sharingStrategy": {"timeSlicing": {}}}]}]}`},
	{"RegisterTaskDefinition", `{"family": "f", "trustedExecutionConfiguration": {"isolationMode": "SHARED", "attestationPolicy": "p"}, "containerDefinitions": [{"name": "app", "image": "i", "memory": 64}]}`},
	{"CreateService", `{"serviceName": "c", "taskDefinition": "named:1", "desiredCount": 0, "serviceConnectConfiguration": {"enabled": true, "namespace": "n", "containerConfigurations": [{}]}}`},
	{"UpdateService", `{"service": "connected", "serviceConnectConfiguration": {"enabled": true, "namespace": "n", "containerConfigurations": [{}]}}`},
	{"RunTask", `{"taskDefinition": "web:1", "overrides": {"containerOverrides": [{"name": "app", "resourceRequirements": [{"type": "GPU", "value": "1", "sharingStrategy": {"timeSlicing": {}}}]}]}}`},
	{"StartTask", `{"taskDefinition": "web:1", "containerInstances": ["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"], "overrides": {"containerOverrides": [{"name": "app", "resourceRequirements": [{"type": "GPU", "value": "1", "sharingStrategy": {"timeSlicing": {}}}]}]}}`},
}

// leaves calls fn for each member of a type that has no members itself. Lists are read as their element.
func leaves(path string, t reflect.Type, fn func(path string, t reflect.Type)) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t.Kind() == reflect.Slice:
		leaves(path, t.Elem(), fn)
	case t.Kind() == reflect.Struct && t != reflect.TypeFor[time.Time]():
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() {
				leaves(strings.TrimPrefix(path+"."+memberOf(t, f), "."), f.Type, fn)
			}
		}
	default:
		fn(path, t)
	}
}

// has reports whether a type has a member at a path.
func has(t reflect.Type, path string) bool {
	found := false
	leaves("", t, func(p string, _ reflect.Type) {
		found = found || p == path || strings.HasPrefix(p, path+".") || strings.HasPrefix(path, p+".")
	})
	return found
}

// sentMembers calls fn for each value of a request that is no object; path is that of leaves, at that of the value.
func sentMembers(path, at string, v any, fn func(path, at string, v any)) {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			fn(path, at, v)
		}
		for name, item := range v {
			sentMembers(strings.TrimPrefix(path+"."+name, "."), strings.TrimPrefix(at+"."+name, "."), item, fn)
		}
	case []any:
		for i, item := range v {
			sentMembers(path, fmt.Sprintf("%s[%d]", at, i), item, fn)
		}
	default:
		fn(path, at, v)
	}
}

// valueAt returns the value at a path such as a.b[0].c, nil if there is none.
func valueAt(v any, path string) any {
	for _, name := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		switch now := v.(type) {
		case map[string]any:
			v = now[name]
		case []any:
			var i int
			if n, err := fmt.Sscan(name, &i); n != 1 || err != nil || i >= len(now) {
				return nil
			}
			v = now[i]
		default:
			return nil
		}
	}
	return v
}

// inAnswer is the place of a member in the answer that describes.
func (r trip) inAnswer(at string) string {
	for name, to := range elsewhere {
		member, ok := strings.CutPrefix(name, r.operation+" ")
		rest, here := strings.CutPrefix(at, member)
		if !ok || !here || rest != "" && rest[0] != '.' && rest[0] != '[' {
			continue
		}
		if whole, ok := strings.CutPrefix(to, "../"); ok {
			return whole + rest
		}
		return r.at + "." + to + rest
	}
	return r.at + "." + at
}

// trip sends a request and returns its answer. TASK in it stands for the latest task.
func (w *world) trip(operation, body string) (any, error) {
	if n := len(w.states); n > 0 {
		body = strings.ReplaceAll(body, `"TASK"`, `"`+w.states[n-1].ID+`"`)
	}
	status, answer := w.post(strings.Replace(operation, "logs ", "Logs_20140328.", 1), body)
	var got any
	if err := json.Unmarshal([]byte(answer), &got); err != nil || status != 200 {
		return nil, fmt.Errorf("%d %s %v", status, answer, err)
	}
	return got, nil
}

// Each member of a request that changes something is refused, or comes back, or is in notGivenBack, or ECS has no such
// member in its answer.
func TestEveryAcceptedMemberComesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.prepareTrips()
	sdk, sent := answerable(), make(map[string]bool)
	for i, r := range trips {
		self := strings.NewReplacer(`"SELF"`, fmt.Sprintf(`"self%d"`, i))
		var request any
		if err := json.Unmarshal([]byte(self.Replace(r.body)), &request); err != nil {
			t.Fatalf("%s: %v", r.operation, err)
		}
		if _, err := w.trip(r.operation, self.Replace(r.body)); err != nil {
			t.Errorf("%s: %v", r.operation, err)
			continue
		}
		got, err := w.trip(r.describe, self.Replace(r.with))
		if err != nil {
			t.Errorf("%s: %v", r.describe, err)
			continue
		}
		sentMembers("", "", request, func(path, at string, v any) {
			sent[r.operation+" "+path] = true
			at = r.inAnswer(at)
			if !has(sdk[r.describe].output, anIndex.ReplaceAllString(at, "")) {
				return
			}
			back := cmp.Diff(v, valueAt(got, at)) == ""
			if _, told := notGivenBack[r.operation+" "+path]; back == told {
				t.Errorf("%s: sent %v, %s is %v, in notGivenBack: %t", r.operation+" "+path, v, at, valueAt(got, at), told)
			}
		})
	}
	for _, r := range declined {
		var request any
		if err := json.Unmarshal([]byte(r.body), &request); err != nil {
			t.Fatalf("%s: %v", r.body, err)
		}
		if answer, err := w.trip(r.operation, r.body); err == nil {
			t.Errorf("%s was accepted: %s", r.operation, r.body)
		} else if !strings.HasPrefix(err.Error(), "400") {
			t.Errorf("%s: %v %v", r.operation, answer, err)
		}
		sentMembers("", "", request, func(path, _ string, _ any) { sent[r.operation+" "+path] = true })
	}
	w.checkTrips(sdk, sent)
}

// prepareTrips makes what requests of trips name.
func (w *world) prepareTrips() {
	w.t.Helper()
	w.register("web")
	for _, r := range []struct{ operation, body string }{
		{"RegisterTaskDefinition", `{"family": "named", "networkMode": "bridge", "containerDefinitions": [{"name": "app", "image": "i", "memory": 64, "portMappings": [{"name": "web", "containerPort": 80}]}]}`},
		{"RegisterTaskDefinition", `{"family": "main", "containerDefinitions": [{"name": "Main", "image": "i", "memory": 64, "portMappings": [{"name": "web", "containerPort": 80}]}]}`},
		{"CreateService", `{"serviceName": "there", "desiredCount": 1, "taskDefinition": "web:1"}`},
		{"CreateService", `{"serviceName": "connected", "desiredCount": 1, "taskDefinition": "named:1"}`},
	} {
		if _, err := w.trip(r.operation, r.body); err != nil {
			w.t.Fatal(err)
		}
	}
}

// checkTrips reports members that no request has, and that are not refused.
func (w *world) checkTrips(sdk map[string]sdkOperation, sent map[string]bool) {
	w.t.Helper()
	changing := make(map[string]bool)
	for _, r := range trips {
		changing[r.operation] = true
	}
	for operation := range changing {
		refused := func(path string) bool {
			return slices.ContainsFunc(awsapi.Operations()[operation], func(m protocol.Member) bool {
				return m.Answer == protocol.Refused && (path == m.Path || strings.HasPrefix(path, m.Path+"."))
			})
		}
		leaves("", sdk[operation].input, func(path string, _ reflect.Type) {
			if !refused(path) && !slices.ContainsFunc(slices.Collect(maps.Keys(sent)), func(s string) bool {
				return s == operation+" "+path || strings.HasPrefix(s, operation+" "+path+".")
			}) {
				w.t.Errorf("no request has %s %s", operation, path)
			}
		})
	}
}

// anIndex is a place in a list.
var anIndex = regexp.MustCompile(`\[[0-9]+\]`)
