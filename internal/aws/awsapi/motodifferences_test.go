package awsapi_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// difference is one way in which the answers of podtask and moto differ; "-" is a member that one does not have.
type difference struct{ request, member, ours, theirs string }

func (d difference) String() string {
	return fmt.Sprintf("%s: %s is %s, moto has %s", d.request, d.member, d.ours, d.theirs)
}

// knownDifference is a row of docs/dev/moto.md. Request and member are regular expressions for the whole text.
type knownDifference struct {
	request, member string
	ours, theirs    string // in words
	right           string // by AWS's documentation: podtask, moto, both
	why             string
}

func (k knownDifference) fits(d difference) bool {
	return whole(k.request).MatchString(d.request) && whole(k.member).MatchString(d.member)
}

func whole(pattern string) *regexp.Regexp { return regexp.MustCompile("^(" + pattern + ")$") }

const (
	anyCluster    = `(CreateCluster|DescribeClusters|UpdateCluster|PutClusterCapacityProviders|DeleteCluster).*`
	anyDefinition = `(Register|Describe|Deregister|Delete)TaskDefinitions?.*`
	anyService    = `(Create|Describe|Update|Delete)Services?.*`
	anyTask       = `(RunTask|DescribeTasks|StopTask).*`
)

var knownDifferences = []knownDifference{
	{anyCluster, `clusters?(\[\])?\.(capacityProviders|defaultCapacityProviderStrategy|statistics|tags)`, "empty list", "no member", "both", "an empty list says the same"},
	{anyCluster, `clusters?(\[\])?\.registeredContainerInstancesCount`, "1", "0", "both", "the host is the container instance of each cluster"},
	{anyCluster, `clusters?(\[\])?\.tags\[\]\.(key|value)`, "as they were sent", "not there", "podtask", "tags of CreateCluster come back, with TAGS in include"},
	{"CreateCluster again|DescribeClusters", `clusters?(\[\])?\.settings\[\]\.value`, "as it was sent", "disabled", "podtask", "moto drops the settings of CreateCluster, or replaces them at its repetition"},
	{"DescribeClusters (without include|deleted)", `clusters\[\]\.settings.*`, "empty list", "shown", "podtask", "shown only with SETTINGS in include"},
	{"ListClusters", `clusterArns\[\]`, "also default", "only those created", "both", "the cluster default is always there"},
	{"CreateCluster bad name", "answer", "refused", "made", "podtask", "letters, digits, dashes and underscores"},
	{"DescribeCapacityProviders", `failures\[\]\.arn`, "capacity-provider/", "capacity_provider/", "podtask", "the form of the ARN"},
	{"(Put|List|Delete)AccountSettings?", `settings?(\[\])?\.(principalArn|type|name|value)`, "there", "not there", "podtask", "members of Setting; DeleteAccountSetting answers with the setting that holds now"},
	{"PutAccountSetting bad .*", "answer", "refused", "stored", "podtask", "names and values are enumerated"},

	{"RegisterTaskDefinition", `tags\[\]\.(key|value)`, "there", "not there", "podtask", "tags are a member of the answer"},
	{anyDefinition, `taskDefinitions?(\[\])?\.compatibilities\[\]`, "EXTERNAL, EC2, FARGATE", "EC2", "neither", "ECS checks each launch type. podtask runs a definition with every launch type, also a bridge network with FARGATE, and says so"},
	{anyDefinition, `.*\.portMappings\[\]\.(hostPort|protocol)`, "0, tcp", "not there", "podtask", "the defaults are given back"},
	{anyDefinition, `.*\.(systemControls|requiresAttributes)`, "empty list", "no member", "both", "an empty list says the same"},
	{anyDefinition, `.*\.((de)?registeredAt|registeredBy)`, "there", "not there", "podtask", "members of TaskDefinition"},
	{"DescribeTaskDefinition without the member|RunTask of an inactive definition|(RunTask|StopTask) without the member|StopTask unknown|DescribeContainerInstances unknown|ListTaskDefinitionFamilies", "answer", "answered or refused", "500, no JSON", "podtask", "moto fails"},
	{"RegisterTaskDefinition without (containers|family)", "answer", "refused", "registered", "podtask", "both are required"},
	{"RegisterTaskDefinition (without memory|of Fargate without cpu)", "answer", "registered", "refused", "moto", "ECS wants memory of the container or the task, and cpu and memory of a task on Fargate. On purpose: podtask runs definitions without limits, and refuses none that it can run"},
	{"DeregisterTaskDefinition without a revision", "__type|message", "InvalidParameterException", "ClientException", "both", "both are errors of the operation; the text is not documented"},
	{"(RunTask|CreateService) of no definition|DeregisterTaskDefinition unknown", "message", "not found", "Unable to describe task definition.", "both", "the same exception; the text is not documented"},

	{anyService, `.*\.(capacityProviderStrategy|launchType|platformVersion|platformFamily).*`, "the default strategy of the cluster", "EC2", "podtask", "a service without a launch type uses the default strategy, and then has none"},
	{anyService, `services?(\[\])?\.(createdAt|createdBy|currentServiceDeployment|currentServiceRevisions.*|deploymentConfiguration\..*|enableECSManagedTags|enableExecuteCommand|placementConstraints|placementStrategy)`, "there", "not there", "podtask", "members of Service with their defaults"},
	{anyService, `services?(\[\])?\.events.*`, "there", "empty list", "podtask", "a service tells what it does"},
	{anyService, `services?(\[\])?\.(networkConfiguration|tags)`, "not there", "empty", "both", "an empty member says the same"},
	{"DescribeServices", `services\[\]\.tags\[\].*`, "there", "not there", "podtask", "tags of CreateService come back, with TAGS in include"},
	{anyService, `services?(\[\])?\.(deployments\[\]\.)?(rolloutState|rolloutStateReason|desiredCount|pendingCount|runningCount|status|failedTasks|updatedAt)`, "as it is: a task must start and end first", "as if it had happened", "podtask", "a deployment is IN_PROGRESS and a deleted service DRAINING until its tasks have changed"},
	{"CreateService again|CreateService without a name", "answer", "refused", "made again", "podtask", "a name is required, and unique among those that are not deleted"},
	{"DescribeServices", `failures\[\]\.arn`, "with its cluster", "without", "podtask", "the long form of ARNs"},
	{"DescribeServices without the member", "answer", "refused", "empty list", "podtask", "services is required"},

	{"ListContainerInstances", `containerInstanceArns(\[\])?`, "this host", "empty list", "both", "the host is the container instance of each cluster"},
	{"ListContainerInstances in no cluster", "answer", "ClusterNotFoundException", "empty list", "podtask", "an exception of the operation"},
	{"UpdateContainerInstancesState bad status|DescribeTasks without the member|(ListTagsFor|Tag)Resource bad ARN", "message", "names the member", "another sentence", "both", "the same exception; the text is not documented"},

	{anyTask, `tasks?(\[\])?\.(attributes|attachments|connectivity|containerInstanceArn|containers\[\]\.(networkBindings|networkInterfaces)).*`, "of a container on this host", "of an interface in a VPC", "both", "tasks have no interface in a VPC here"},
	{anyTask, `tasks?(\[\])?\.containers\[\]\.(containerArn|taskArn|cpu|image|memory|name)`, "all containers, with their ARNs", "one container, with the ARN of the definition", "podtask", "members of Container"},
	{anyTask, `tasks?(\[\])?\.containers\[\]\.(exitCode|healthStatus)`, "not there; UNKNOWN", "0; HEALTHY", "podtask", "a container that runs has no exit code; one that is not checked is UNKNOWN"},
	{anyTask, `tasks?(\[\])?\.(containers\[\]\.)?(lastStatus|desiredStatus)`, "as it is", "goes on by one state with each request", "podtask", "moto has no containers"},
	{anyTask, `tasks?(\[\])?\.(cpu|memory|createdAt|ephemeralStorage.*|healthStatus|version|enableExecuteCommand|platformFamily|platformVersion|pullStartedAt|pullStoppedAt|startedAt|stopCode|stoppingAt|stoppedAt|executionStoppedAt|inferenceAccelerators)`, "there when it is known", "not there", "podtask", "members of Task"},
	{"DescribeTasks", `failures.*`, "MISSING", "empty list", "podtask", "a task that is not found is a failure"},
	{"ListTasks with a bad status", "answer", "refused", "empty list", "podtask", "values are enumerated"},
	{"ListTagsForResource", `tags\[\]\.(key|value)`, "by their keys", "latest first", "both", "the order is not documented"},
}

// sweptDifferences are the rules by which one server accepts what the other refuses. Their ours and theirs are regular
// expressions for a part of the answers.
var sweptDifferences = []knownDifference{
	{request: ".*", ours: `^\{"(tasks?|cluster|setting|service|taskDefinition)"`, theirs: "Internal Server Error", right: "podtask", why: "moto fails"},
	{request: ".* without .*", ours: "is (required|missing)", theirs: `^\{"(taskDefinition|service|cluster|setting)"`, right: "podtask", why: "moto does not ask for members that are required"},
	{request: "RegisterTaskDefinition without volumes", ours: "no volume named", theirs: `^\{"taskDefinition"`, right: "podtask", why: "moto does not look for the volumes that mount points name"},
	{request: "RunTask with .*", ours: "another request had this token", theirs: `^\{"tasks"`, right: "podtask", why: "moto does not compare requests with the same token"},
	{request: "(Create|Update)Service .*", ours: `^\{"service"`, theirs: "Error retrieving subnet information", right: "both", why: "moto looks for subnets in its EC2; there are none here"},
}

const (
	motoPage = "../../../docs/dev/moto.md"
	motoMark = "<!-- table of differences -->\n"
)

// The table of docs/dev/moto.md is the one that the comparison uses; UPDATE_GOLDEN=1 writes it.
func TestDifferencesFromMotoAreOnTheirPage(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile(motoPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(doc), motoMark)
	old, after, ok2 := strings.Cut(rest, tableTo)
	if !ok || !ok2 {
		t.Fatal("docs/dev/moto.md has no marks around its table")
	}
	var table strings.Builder
	table.WriteString("| requests | members | podtask | moto | right by AWS's documentation | why |\n|---|---|---|---|---|---|\n")
	for _, k := range knownDifferences {
		cell := func(pattern string) string {
			return "`" + strings.ReplaceAll(strings.ReplaceAll(pattern, `\`, ""), "|", `\|`) + "`"
		}
		fmt.Fprintf(&table, "| %s | %s | %s | %s | %s | %s |\n", cell(k.request), cell(k.member), k.ours, k.theirs, k.right, k.why)
	}
	table.WriteString("\nThe same for requests that are made by machine: each member, each two members and all of them, of each operation that changes something\n(`TestSweepAgainstMoto`). Compared is only whether they are accepted.\n\n| requests | right by AWS's documentation | why |\n|---|---|---|\n")
	for _, k := range sweptDifferences {
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", strings.ReplaceAll(k.request, "|", `\|`), k.right, k.why)
	}
	diff := cmp.Diff(table.String(), old)
	if diff == "" {
		return
	}
	if os.Getenv("UPDATE_GOLDEN") == "" {
		t.Fatalf("docs/dev/moto.md is not current (UPDATE_GOLDEN=1 writes it):\n%s", diff)
	}
	if err := os.WriteFile(motoPage, []byte(before+motoMark+table.String()+tableTo+after), 0o600); err != nil {
		t.Fatal(err)
	}
}
