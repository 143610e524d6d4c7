package awsapi_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// ignoreMarks leaves out what the SDK puts into its types for itself.
var ignoreMarks = cmpopts.IgnoreUnexported(
	types.ClusterSetting{}, types.ClusterConfiguration{}, types.ExecuteCommandConfiguration{}, types.ClusterServiceConnectDefaults{}, types.CapacityProviderStrategyItem{},
	types.Tag{}, types.Setting{}, types.Failure{}, types.CapacityProvider{}, types.NetworkConfiguration{}, types.AwsVpcConfiguration{},
)

// readCluster makes the calls with which the provider of Terraform reads aws_ecs_cluster and
// aws_ecs_cluster_capacity_providers.
func (w *world) readCluster(name string) types.Cluster {
	w.t.Helper()
	out := must[*ecs.DescribeClustersOutput](w.t)(w.client.DescribeClusters(w.t.Context(), &ecs.DescribeClustersInput{
		Clusters: []string{name}, Include: []types.ClusterField{types.ClusterFieldTags, types.ClusterFieldConfigurations, types.ClusterFieldSettings},
	}))
	if len(out.Clusters) != 1 {
		w.t.Fatalf("%s: %+v", name, out)
	}
	return out.Clusters[0]
}

// aws_ecs_cluster: what is sent is read back, also after a restart of the agent.
func TestTerraformManagesACluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	insights := func(value string) []types.ClusterSetting {
		return []types.ClusterSetting{{Name: types.ClusterSettingNameContainerInsights, Value: &value}}
	}
	created := must[*ecs.CreateClusterOutput](t)(w.client.CreateCluster(t.Context(), &ecs.CreateClusterInput{
		ClusterName: aws.String("blue"), Settings: insights("enabled"), Tags: []types.Tag{{Key: aws.String("a"), Value: aws.String("b")}},
	}))
	arn := *created.Cluster.ClusterArn
	configuration := &types.ClusterConfiguration{ExecuteCommandConfiguration: &types.ExecuteCommandConfiguration{Logging: types.ExecuteCommandLoggingDefault}}
	must[*ecs.UpdateClusterOutput](t)(w.client.UpdateCluster(t.Context(), &ecs.UpdateClusterInput{
		Cluster: &arn, Settings: insights("disabled"), Configuration: configuration, ServiceConnectDefaults: &types.ClusterServiceConnectDefaultsRequest{Namespace: aws.String("ns")},
	}))
	w.start()
	got := w.readCluster(arn)
	for _, diff := range []string{
		cmp.Diff(insights("disabled"), got.Settings, ignoreMarks), cmp.Diff(configuration, got.Configuration, ignoreMarks),
		cmp.Diff(&types.ClusterServiceConnectDefaults{Namespace: aws.String("ns")}, got.ServiceConnectDefaults, ignoreMarks),
		cmp.Diff("ACTIVE", *got.Status), cmp.Diff(1, len(got.Tags)),
	} {
		if diff != "" {
			t.Error(diff)
		}
	}
	must[*ecs.UpdateClusterSettingsOutput](t)(w.client.UpdateClusterSettings(t.Context(), &ecs.UpdateClusterSettingsInput{Cluster: &arn, Settings: insights("enhanced")}))
	if got := w.readCluster(arn); cmp.Diff(insights("enhanced"), got.Settings, ignoreMarks) != "" || got.Configuration == nil {
		t.Errorf("%+v", got)
	}
	must[*ecs.DeleteClusterOutput](t)(w.client.DeleteCluster(t.Context(), &ecs.DeleteClusterInput{Cluster: &arn}))
	if got := w.readCluster(arn); *got.Status != "INACTIVE" {
		t.Errorf("a deleted cluster is %s", *got.Status)
	}
	if _, err := w.client.UpdateCluster(t.Context(), &ecs.UpdateClusterInput{Cluster: &arn, Settings: insights("enabled")}); code(err) != "ClusterNotFoundException" {
		t.Errorf("a deleted cluster is updated: %v", err)
	}
}

// aws_ecs_cluster_capacity_providers: put, read, the default for tasks and services, and removed.
func TestTerraformManagesCapacityProviders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must[*ecs.CreateClusterOutput](t)(w.client.CreateCluster(t.Context(), &ecs.CreateClusterInput{ClusterName: aws.String("blue")}))
	strategy := []types.CapacityProviderStrategyItem{{CapacityProvider: aws.String("FARGATE_SPOT"), Base: 1, Weight: 100}}
	put := func(providers []string, strategy []types.CapacityProviderStrategyItem) error {
		_, err := w.client.PutClusterCapacityProviders(t.Context(), &ecs.PutClusterCapacityProvidersInput{
			Cluster: aws.String("blue"), CapacityProviders: providers, DefaultCapacityProviderStrategy: strategy,
		})
		return err
	}
	if err := put([]string{"FARGATE", "FARGATE_SPOT", "mine"}, strategy); err != nil {
		t.Fatal(err)
	}
	w.start()
	got := w.readCluster("blue")
	if diff := cmp.Diff([]string{"FARGATE", "FARGATE_SPOT", "mine"}, got.CapacityProviders) + cmp.Diff(strategy, got.DefaultCapacityProviderStrategy, ignoreMarks); diff != "" {
		t.Error(diff)
	}
	described := must[*ecs.DescribeCapacityProvidersOutput](t)(w.client.DescribeCapacityProviders(t.Context(), &ecs.DescribeCapacityProvidersInput{CapacityProviders: []string{"mine", "FARGATE", "none"}}))
	if len(described.CapacityProviders) != 2 || described.CapacityProviders[1].Status != types.CapacityProviderStatusActive || len(described.Failures) != 1 {
		t.Errorf("%+v", described)
	}
	w.register("web")
	run := must[*ecs.RunTaskOutput](t)(w.client.RunTask(t.Context(), &ecs.RunTaskInput{Cluster: aws.String("blue"), TaskDefinition: aws.String("web")}))
	if p := run.Tasks[0].CapacityProviderName; p == nil || *p != "FARGATE_SPOT" || run.Tasks[0].LaunchType != types.LaunchTypeFargate {
		t.Errorf("a task without a launch type: %v %s", p, run.Tasks[0].LaunchType)
	}
	run = must[*ecs.RunTaskOutput](t)(w.client.RunTask(t.Context(), &ecs.RunTaskInput{Cluster: aws.String("blue"), TaskDefinition: aws.String("web"), LaunchType: types.LaunchTypeEc2}))
	if run.Tasks[0].CapacityProviderName != nil || run.Tasks[0].LaunchType != types.LaunchTypeEc2 {
		t.Errorf("a task with a launch type: %+v", run.Tasks[0])
	}
	service := must[*ecs.CreateServiceOutput](t)(w.client.CreateService(t.Context(), &ecs.CreateServiceInput{
		Cluster: aws.String("blue"), ServiceName: aws.String("web"), TaskDefinition: aws.String("web"), DesiredCount: aws.Int32(0),
	}))
	if diff := cmp.Diff(strategy, service.Service.CapacityProviderStrategy, ignoreMarks); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []struct {
		providers []string
		strategy  []types.CapacityProviderStrategyItem
	}{
		{[]string{"FARGATE"}, strategy},
		{[]string{"a b"}, []types.CapacityProviderStrategyItem{}},
		{[]string{"a"}, []types.CapacityProviderStrategyItem{{CapacityProvider: aws.String("a"), Weight: 1001}}},
		{[]string{"a", "b"}, []types.CapacityProviderStrategyItem{{CapacityProvider: aws.String("a"), Base: 1}, {CapacityProvider: aws.String("b"), Base: 1}}},
	} {
		if err := put(bad.providers, bad.strategy); code(err) != "InvalidParameterException" {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if err := put([]string{}, []types.CapacityProviderStrategyItem{}); err != nil {
		t.Fatal(err)
	}
	if got := w.readCluster("blue"); len(got.CapacityProviders)+len(got.DefaultCapacityProviderStrategy) != 0 {
		t.Errorf("%+v", got)
	}
}

// aws_ecs_account_setting_default: put, read as the effective setting, and put to the default.
func TestTerraformManagesAccountSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	read := func(name types.SettingName) types.Setting {
		t.Helper()
		in := &ecs.ListAccountSettingsInput{EffectiveSettings: true, Name: name}
		var all []types.Setting
		for p := ecs.NewListAccountSettingsPaginator(w.client, in); p.HasMorePages(); {
			all = append(all, must[*ecs.ListAccountSettingsOutput](t)(p.NextPage(t.Context())).Settings...)
		}
		if len(all) != 1 {
			t.Fatalf("%s: %+v", name, all)
		}
		return all[0]
	}
	for _, c := range []struct {
		name        types.SettingName
		value, last string
	}{
		{types.SettingNameContainerInsights, "enhanced", "disabled"},
		{types.SettingNameAwsvpcTrunking, "enabled", "disabled"},
		{types.SettingNameTagResourceAuthorization, "on", "off"},
		{types.SettingNameFargateTaskRetirementWaitPeriod, "14", "7"},
		{types.SettingNameDefaultLogDriverMode, "blocking", "non-blocking"},
	} {
		out := must[*ecs.PutAccountSettingDefaultOutput](t)(w.client.PutAccountSettingDefault(t.Context(), &ecs.PutAccountSettingDefaultInput{Name: c.name, Value: &c.value}))
		w.start()
		if got := read(c.name); *got.Value != c.value || *got.PrincipalArn != *out.Setting.PrincipalArn || !strings.HasSuffix(*got.PrincipalArn, ":root") {
			t.Errorf("%s is %s of %s", c.name, *got.Value, *got.PrincipalArn)
		}
		must[*ecs.PutAccountSettingDefaultOutput](t)(w.client.PutAccountSettingDefault(t.Context(), &ecs.PutAccountSettingDefaultInput{Name: c.name, Value: &c.last}))
		if got := read(c.name); *got.Value != c.last {
			t.Errorf("%s is %s, want %s", c.name, *got.Value, c.last)
		}
	}
	// The provider ignores this sentence when it destroys the resource.
	_, err := w.client.PutAccountSettingDefault(t.Context(), &ecs.PutAccountSettingDefaultInput{Name: types.SettingNameTaskLongArnFormat, Value: aws.String("disabled")})
	if code(err) != "InvalidParameterException" || !strings.Contains(err.Error(), "You can no longer disable") {
		t.Error(err)
	}
}

// A setting of a principal comes before that of the account, and is listed as its own.
func TestAccountSettingsOfPrincipals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	insights := types.SettingNameContainerInsights
	values := func(effective bool) (all []string) {
		for _, s := range must[*ecs.ListAccountSettingsOutput](t)(w.client.ListAccountSettings(t.Context(), &ecs.ListAccountSettingsInput{Name: insights, EffectiveSettings: effective})).Settings {
			all = append(all, *s.Value)
		}
		return all
	}
	if got := values(false); got != nil {
		t.Errorf("own settings are %v", got)
	}
	must[*ecs.PutAccountSettingDefaultOutput](t)(w.client.PutAccountSettingDefault(t.Context(), &ecs.PutAccountSettingDefaultInput{Name: insights, Value: aws.String("enabled")}))
	must[*ecs.PutAccountSettingOutput](t)(w.client.PutAccountSetting(t.Context(), &ecs.PutAccountSettingInput{Name: insights, Value: aws.String("enhanced")}))
	if own, all := values(false), values(true); cmp.Diff([]string{"enhanced"}, own)+cmp.Diff(own, all) != "" {
		t.Errorf("own settings are %v, effective ones %v", own, all)
	}
	deleted := must[*ecs.DeleteAccountSettingOutput](t)(w.client.DeleteAccountSetting(t.Context(), &ecs.DeleteAccountSettingInput{Name: insights}))
	if *deleted.Setting.Value != "enabled" || values(false) != nil {
		t.Errorf("%s, own settings %v", *deleted.Setting.Value, values(false))
	}
	for body, says := range map[string]string{
		`{"name": "speed", "value": "on"}`: "speed should be one of [serviceLongArnFormat,", `{"name": "containerInsights", "value": "much"}`: "none of", `{"name": "guardDutyActivate", "value": "on"}`: "GuardDuty",
		`{"name": "containerInsights", "value": "enabled", "principalArn": "arn:aws:iam::111111111111:root"}`: "account",
	} {
		if status, answer := w.post("PutAccountSetting", body); status != 400 || !strings.Contains(answer, "InvalidParameterException") || !strings.Contains(answer, says) {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
}

// aws_cloudwatch_log_group with retention and tags: created, read, changed, destroyed, and created again
// while tasks of before still have their logs.
func TestTerraformManagesALogGroup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := logsClient(w)
	name := aws.String("/ecs/shop")
	read := func() (g logtypes.LogGroup, tags map[string]string) {
		t.Helper()
		var found []logtypes.LogGroup
		for p := cloudwatchlogs.NewDescribeLogGroupsPaginator(c, &cloudwatchlogs.DescribeLogGroupsInput{LogGroupNamePrefix: name}); p.HasMorePages(); {
			found = append(found, must[*cloudwatchlogs.DescribeLogGroupsOutput](t)(p.NextPage(t.Context())).LogGroups...)
		}
		if len(found) != 1 {
			t.Fatalf("%+v", found)
		}
		arn := strings.TrimSuffix(*found[0].Arn, ":*")
		return found[0], must[*cloudwatchlogs.ListTagsForResourceOutput](t)(c.ListTagsForResource(t.Context(), &cloudwatchlogs.ListTagsForResourceInput{ResourceArn: &arn})).Tags
	}
	create := func() {
		t.Helper()
		must[*cloudwatchlogs.CreateLogGroupOutput](t)(c.CreateLogGroup(t.Context(), &cloudwatchlogs.CreateLogGroupInput{LogGroupName: name, KmsKeyId: aws.String("key"), Tags: map[string]string{"a": "b"}}))
		must[*cloudwatchlogs.PutRetentionPolicyOutput](t)(c.PutRetentionPolicy(t.Context(), &cloudwatchlogs.PutRetentionPolicyInput{LogGroupName: name, RetentionInDays: aws.Int32(14)}))
	}
	create()
	w.start()
	c = logsClient(w)
	g, tags := read()
	if aws.ToInt32(g.RetentionInDays) != 14 || aws.ToString(g.KmsKeyId) != "key" || g.LogGroupClass != logtypes.LogGroupClassStandard || cmp.Diff(map[string]string{"a": "b"}, tags) != "" {
		t.Errorf("%+v, tags %v", g, tags)
	}
	arn := strings.TrimSuffix(*g.Arn, ":*")
	must[*cloudwatchlogs.DeleteRetentionPolicyOutput](t)(c.DeleteRetentionPolicy(t.Context(), &cloudwatchlogs.DeleteRetentionPolicyInput{LogGroupName: name}))
	must[*cloudwatchlogs.TagResourceOutput](t)(c.TagResource(t.Context(), &cloudwatchlogs.TagResourceInput{ResourceArn: &arn, Tags: map[string]string{"c": "d"}}))
	must[*cloudwatchlogs.UntagResourceOutput](t)(c.UntagResource(t.Context(), &cloudwatchlogs.UntagResourceInput{ResourceArn: &arn, TagKeys: []string{"a"}}))
	if g, tags = read(); g.RetentionInDays != nil || cmp.Diff(map[string]string{"c": "d"}, tags) != "" {
		t.Errorf("%v days, tags %v", g.RetentionInDays, tags)
	}

	// A task logs to the group, and the group is deleted.
	w.writeTo("/ecs/shop", "shop/app/1", w.now.Add(-time.Minute), "x")
	must[*cloudwatchlogs.DeleteLogGroupOutput](t)(c.DeleteLogGroup(t.Context(), &cloudwatchlogs.DeleteLogGroupInput{LogGroupName: name}))
	if _, err := c.DeleteLogGroup(t.Context(), &cloudwatchlogs.DeleteLogGroupInput{LogGroupName: name}); code(err) != "ResourceNotFoundException" {
		t.Errorf("deleted twice: %v", err)
	}
	create()
	if g, tags = read(); len(tags) != 1 || aws.ToInt32(g.RetentionInDays) != 14 {
		t.Errorf("created again: %+v, tags %v", g, tags)
	}
	w.writeTo("/ecs/shop", "shop/app/2", w.now.Add(time.Minute), "y")
	streams := must[*cloudwatchlogs.DescribeLogStreamsOutput](t)(c.DescribeLogStreams(t.Context(), &cloudwatchlogs.DescribeLogStreamsInput{LogGroupName: name}))
	if len(streams.LogStreams) != 1 || *streams.LogStreams[0].LogStreamName != "shop/app/2" {
		t.Errorf("the streams of the new group are %+v", streams.LogStreams)
	}
	for _, bad := range []string{
		`{"logGroupName": "/ecs/shop", "retentionInDays": 2}`, `{"logGroupName": "/ecs/shop"}`, `{"logGroupName": "/ecs/shop", "retentionInDays": 1.5}`,
	} {
		if status, answer := w.post("Logs_20140328.PutRetentionPolicy", bad); status != 400 || !strings.Contains(answer, "retentionInDays") {
			t.Errorf("%s: %d %s", bad, status, answer)
		}
	}
}

// aws_ecs_service: what the provider sends is what it reads.
func TestTerraformManagesAService(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.register("web")
	in := &ecs.CreateServiceInput{
		ServiceName: aws.String("web"), TaskDefinition: aws.String("web:1"), DesiredCount: aws.Int32(0), SchedulingStrategy: types.SchedulingStrategyReplica,
		CapacityProviderStrategy: []types.CapacityProviderStrategyItem{{CapacityProvider: aws.String("FARGATE"), Weight: 1}}, PlatformVersion: aws.String("LATEST"),
		DeploymentController: &types.DeploymentController{Type: types.DeploymentControllerTypeEcs}, EnableECSManagedTags: true, PropagateTags: types.PropagateTagsService,
		DeploymentConfiguration: &types.DeploymentConfiguration{
			Strategy: types.DeploymentStrategyRolling, BakeTimeInMinutes: aws.Int32(0), MaximumPercent: aws.Int32(200), MinimumHealthyPercent: aws.Int32(100),
			DeploymentCircuitBreaker: &types.DeploymentCircuitBreaker{Enable: true, Rollback: true},
		},
		NetworkConfiguration: &types.NetworkConfiguration{AwsvpcConfiguration: &types.AwsVpcConfiguration{Subnets: []string{"subnet-1"}, SecurityGroups: []string{"sg-1"}, AssignPublicIp: types.AssignPublicIpDisabled}},
		Tags:                 []types.Tag{{Key: aws.String("a"), Value: aws.String("b")}},
	}
	must[*ecs.CreateServiceOutput](t)(w.client.CreateService(t.Context(), in))
	w.start()
	got := must[*ecs.DescribeServicesOutput](t)(w.client.DescribeServices(t.Context(), &ecs.DescribeServicesInput{Services: []string{"web"}, Include: []types.ServiceField{types.ServiceFieldTags}})).Services[0]
	for _, diff := range []string{
		cmp.Diff(in.CapacityProviderStrategy, got.CapacityProviderStrategy, ignoreMarks), cmp.Diff(types.LaunchType(""), got.LaunchType), cmp.Diff(in.Tags, got.Tags, ignoreMarks),
		cmp.Diff(in.NetworkConfiguration, got.NetworkConfiguration, ignoreMarks), cmp.Diff(in.SchedulingStrategy, got.SchedulingStrategy), cmp.Diff(in.PropagateTags, got.PropagateTags),
		cmp.Diff(types.DeploymentStrategyRolling, got.DeploymentConfiguration.Strategy), cmp.Diff(int32(200), *got.DeploymentConfiguration.MaximumPercent),
		cmp.Diff(int32(100), *got.DeploymentConfiguration.MinimumHealthyPercent), cmp.Diff(true, got.DeploymentConfiguration.DeploymentCircuitBreaker.Rollback), cmp.Diff("LATEST", *got.PlatformVersion),
		cmp.Diff(true, got.EnableECSManagedTags), cmp.Diff("ACTIVE", *got.Status), cmp.Diff([]types.LoadBalancer(nil), got.LoadBalancers, cmpopts.EquateEmpty()),
	} {
		if diff != "" {
			t.Error(diff)
		}
	}
}

// Tasks are started on the host by name, and the host drains by the API.
func TestTheHostIsNamedAndDrained(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.register("web")
	instances := must[*ecs.ListContainerInstancesOutput](t)(w.client.ListContainerInstances(t.Context(), &ecs.ListContainerInstancesInput{})).ContainerInstanceArns
	started := must[*ecs.StartTaskOutput](t)(w.client.StartTask(t.Context(), &ecs.StartTaskInput{
		TaskDefinition: aws.String("web"), ContainerInstances: append(instances, strings.Repeat("b", 32)), StartedBy: aws.String("cron"),
	}))
	if len(started.Tasks) != 1 || *started.Tasks[0].ContainerInstanceArn != instances[0] || *started.Tasks[0].StartedBy != "cron" {
		t.Errorf("%+v", started.Tasks)
	}
	if len(started.Failures) != 1 || *started.Failures[0].Reason != "MISSING" {
		t.Errorf("%+v", started.Failures)
	}
	for _, status := range []types.ContainerInstanceStatus{types.ContainerInstanceStatusDraining, types.ContainerInstanceStatusActive} {
		out := must[*ecs.UpdateContainerInstancesStateOutput](t)(w.client.UpdateContainerInstancesState(t.Context(), &ecs.UpdateContainerInstancesStateInput{ContainerInstances: instances, Status: status}))
		if len(out.ContainerInstances) != 1 || *out.ContainerInstances[0].Status != string(status) || w.drained != (status == types.ContainerInstanceStatusDraining) {
			t.Errorf("%s: %+v", status, out.ContainerInstances)
		}
	}
	for name, body := range map[string]string{
		"StartTask": `{"taskDefinition": "web", "containerInstances": []}`, "UpdateContainerInstancesState": `{"containerInstances": ["x"], "status": "DEREGISTERING"}`,
	} {
		if status, answer := w.post(name, body); status != 400 || !strings.Contains(answer, "InvalidParameterException") {
			t.Errorf("%s: %d %s", name, status, answer)
		}
	}
	bad := []string{instances[0], "arn:aws:ecs:local:000000000000:task/x"}
	if _, err := w.client.UpdateContainerInstancesState(t.Context(), &ecs.UpdateContainerInstancesStateInput{ContainerInstances: bad, Status: types.ContainerInstanceStatusDraining}); code(err) != "InvalidParameterException" || w.drained {
		t.Errorf("a request with what is no instance: %v, drained %t", err, w.drained)
	}
	out := must[*ecs.UpdateContainerInstancesStateOutput](t)(w.client.UpdateContainerInstancesState(t.Context(), &ecs.UpdateContainerInstancesStateInput{ContainerInstances: []string{strings.Repeat("b", 32)}, Status: types.ContainerInstanceStatusDraining}))
	if len(out.Failures) != 1 || w.drained {
		t.Errorf("another host: %+v, drained %t", out.Failures, w.drained)
	}
}

// DescribeClusters shows settings and the configuration only if they are asked for; a cluster without settings says that
// Container Insights is off.
func TestClustersShowWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	configuration := &types.ClusterConfiguration{ExecuteCommandConfiguration: &types.ExecuteCommandConfiguration{Logging: types.ExecuteCommandLoggingDefault}}
	must[*ecs.CreateClusterOutput](t)(w.client.CreateCluster(t.Context(), &ecs.CreateClusterInput{ClusterName: aws.String("blue"), Configuration: configuration}))
	if got := w.readCluster("blue"); len(got.Settings) != 1 || *got.Settings[0].Value != "disabled" || got.Configuration == nil {
		t.Errorf("asked for all: %+v", got)
	}
	out := must[*ecs.DescribeClustersOutput](t)(w.client.DescribeClusters(t.Context(), &ecs.DescribeClustersInput{Clusters: []string{"blue"}}))
	if got := out.Clusters[0]; len(got.Settings) != 0 || got.Configuration != nil {
		t.Errorf("asked for nothing: %+v", got)
	}
	if got := w.readCluster("blue"); got.Configuration == nil {
		t.Error("the configuration is lost")
	}
}
