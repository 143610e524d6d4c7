package awsapi_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// expressMembers are the members of requests for Express services, each with its place in podtask: a table of docs/aws.md.
var expressMembers = []struct{ member, place string }{
	{"cluster", "`cluster` of CreateService"},
	{"cpu", "`cpu` of the definition"},
	{"cpuArchitecture", "`runtimePlatform.cpuArchitecture` of the definition"},
	{"executionRoleArn", "`executionRoleArn` of the definition"},
	{"healthCheckPath", "`healthCheck` of the container: the proxy asks the copies nothing by itself"},
	{"include", "`include` of DescribeServices"},
	{"infrastructureRoleArn", "none: nothing is made in an account"},
	{"memory", "`memory` of the definition"},
	{"networkConfiguration.securityGroups", "the firewall of the host"},
	{"networkConfiguration.subnets", "none: the network is the host's"},
	{"primaryContainer.awsLogsConfiguration.logGroup", "`logConfiguration` of the container, with the driver awslogs"},
	{"primaryContainer.awsLogsConfiguration.logStreamPrefix", "likewise"},
	{"primaryContainer.command", "`command` of the container"},
	{"primaryContainer.containerPort", "`portMappings` of the container, and the port of `--ingress`"},
	{"primaryContainer.environment.name", "`environment` of the container"},
	{"primaryContainer.environment.value", "likewise"},
	{"primaryContainer.image", "`image` of the container"},
	{"primaryContainer.repositoryCredentials.credentialsParameter", "`repositoryCredentials` of the container"},
	{"primaryContainer.secrets.name", "`secrets` of the container"},
	{"primaryContainer.secrets.valueFrom", "likewise"},
	{"scalingTarget.autoScalingMetric", "`--cpu`, `--memory` or `--requests` of `podtask service scaling set`, or PutScalingPolicy"},
	{"scalingTarget.autoScalingTargetValue", "likewise"},
	{"scalingTarget.maxTaskCount", "`--max` of `podtask service scaling set`, or RegisterScalableTarget"},
	{"scalingTarget.minTaskCount", "`--min`, likewise"},
	{"serviceArn", "`service` of UpdateService, DescribeServices and DeleteService"},
	{"serviceName", "`serviceName` of CreateService; the address is `--ingress https://NAME=CONTAINER:PORT` of `podtask service update`"},
	{"tags.key", "`tags` of CreateService"},
	{"tags.value", "likewise"},
	{"taskDefinitionArn", "`taskDefinition` of CreateService"},
	{"taskRoleArn", "`taskRoleArn` of the definition"},
}

// Express services are refused by name; the documentation has the place of each of their members.
func TestEachMemberOfExpressServicesHasItsPlace(t *testing.T) {
	t.Parallel()
	want := make(map[string]bool)
	for name, o := range sdkOperations() {
		if strings.HasSuffix(name, "ExpressGatewayService") {
			leaves("", o.input, func(path string, _ reflect.Type) { want[path] = true })
		}
	}
	var have []string
	for _, m := range expressMembers {
		if !want[m.member] {
			t.Errorf("the SDK has no member %s", m.member)
		}
		have = append(have, m.member)
		delete(want, m.member)
	}
	if len(want) > 0 || len(have) < 30 {
		t.Errorf("members without a place: %v", want)
	}
	if !slices.IsSorted(have) {
		t.Error(cmp.Diff(slices.Sorted(slices.Values(have)), have))
	}
}

func tableOfExpress() string {
	var b strings.Builder
	b.WriteString("\n| member | place |\n|---|---|\n")
	for _, m := range expressMembers {
		fmt.Fprintf(&b, "| `%s` | %s |\n", m.member, m.place)
	}
	return b.String() + "\n"
}
