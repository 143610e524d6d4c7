package awsapi_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/podtask/podtask/internal/aws/awsapi"
	"github.com/podtask/podtask/internal/engine/facts/arn"
)

// With an account and a region of one's own, all ARNs have them, and what was tagged and set before is still there. The
// identity belongs to the process, so this test runs before those that run in parallel.
func TestAccountAndRegionAreInAllARNs(t *testing.T) { //nolint:paralleltest // see above
	w := newWorld(t)
	cluster := must[*ecs.CreateClusterOutput](t)(w.client.CreateCluster(t.Context(), &ecs.CreateClusterInput{ClusterName: aws.String("blue")})).Cluster
	must[*ecs.TagResourceOutput](t)(w.client.TagResource(t.Context(), &ecs.TagResourceInput{ResourceArn: cluster.ClusterArn, Tags: []types.Tag{{Key: aws.String("team"), Value: aws.String("a")}}}))
	must[*ecs.PutAccountSettingDefaultOutput](t)(w.client.PutAccountSettingDefault(t.Context(), &ecs.PutAccountSettingDefaultInput{Name: types.SettingNameAwsvpcTrunking, Value: aws.String("enabled")}))
	arn.Use(arn.Identity{Account: "123456789012", Region: "us-east-1"})
	t.Cleanup(func() { arn.Use(arn.Local) })
	w.start()
	list := must[*ecs.ListTagsForResourceOutput](t)(w.client.ListTagsForResource(t.Context(), &ecs.ListTagsForResourceInput{ResourceArn: aws.String("arn:aws:ecs:us-east-1:123456789012:cluster/blue")}))
	if len(list.Tags) != 1 || *list.Tags[0].Value != "a" {
		t.Errorf("the tags are %v", list.Tags)
	}
	settings := must[*ecs.ListAccountSettingsOutput](t)(w.client.ListAccountSettings(t.Context(), &ecs.ListAccountSettingsInput{Name: types.SettingNameAwsvpcTrunking, EffectiveSettings: true})).Settings
	if len(settings) != 1 || *settings[0].Value != "enabled" || *settings[0].PrincipalArn != "arn:aws:iam::123456789012:root" {
		t.Errorf("%+v", settings)
	}
	for _, r := range []struct{ operation, body string }{
		{"DescribeClusters", `{"clusters": ["blue", "none"]}`},
		{"RegisterTaskDefinition", `{"family": "web", "containerDefinitions": [{"name": "app", "image": "i", "memory": 64}]}`},
		{"CreateService", `{"serviceName": "web", "cluster": "arn:aws:ecs:us-east-1:123456789012:cluster/blue", "taskDefinition": "arn:aws:ecs:us-east-1:123456789012:task-definition/web:1", "desiredCount": 1, "role": "r"}`},
		{"DescribeServices", `{"services": ["web", "none"], "cluster": "blue"}`},
		{"RunTask", `{"taskDefinition": "web"}`},
		{"DescribeContainerInstances", `{"containerInstances": ["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]}`},
		{"ListServiceDeployments", `{"service": "web", "cluster": "blue"}`},
		{"Logs_20140328.CreateLogGroup", `{"logGroupName": "g"}`},
		{"Logs_20140328.DescribeLogGroups", `{}`},
	} {
		status, answer := w.post(r.operation, r.body)
		if status != 200 || strings.Contains(answer, ":"+arn.Local.Account+":") || strings.Contains(answer, ":local:") || len(answer) > 20 && !strings.Contains(answer, ":123456789012:") {
			t.Errorf("%s: %d %s", r.operation, status, answer)
		}
	}
	if _, answer := w.post("DescribeServices", `{"services": ["arn:aws:ecs:local:000000000000:service/blue/web"], "cluster": "blue"}`); !strings.Contains(answer, "InvalidParameterException") {
		t.Errorf("an ARN of another account: %s", answer)
	}
}

// Without the default cluster an account is empty at start, as one of AWS is.
func TestAnAccountWithoutTheDefaultCluster(t *testing.T) {
	t.Parallel()
	w := &world{t: t, host: &host{}, dir: t.TempDir(), now: time.Now(), configure: func(c *awsapi.Config) { c.NoDefaultCluster = true }}
	w.start()
	ask := func(operation, body, want string) {
		t.Helper()
		if _, answer := w.post(operation, body); !strings.Contains(answer, want) {
			t.Errorf("%s: %s, want %s", operation, answer, want)
		}
	}
	ask("ListClusters", `{}`, `"clusterArns":[]`)
	ask("DescribeClusters", `{}`, "MISSING")
	ask("ListTasks", `{}`, "ClusterNotFoundException")
	ask("RegisterTaskDefinition", `{"family": "web", "containerDefinitions": [{"name": "app", "image": "i", "memory": 64}]}`, "taskDefinitionArn")
	ask("RunTask", `{"taskDefinition": "web"}`, "ClusterNotFoundException")
	ask("CreateCluster", `{}`, "cluster/default")
	ask("ListClusters", `{}`, "cluster/default")
	ask("ListTasks", `{}`, `"taskArns":[]`)
	ask("DeleteCluster", `{"cluster": "default"}`, `"INACTIVE"`)
	ask("ListTasks", `{}`, "ClusterNotFoundException")
	if _, answer := w.post("ListClusters", "{}"); !json.Valid([]byte(answer)) || strings.Contains(answer, "default") {
		t.Error(answer)
	}
}
