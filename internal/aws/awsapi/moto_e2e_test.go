//go:build e2e && bed_systemd && nightly

package awsapi_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/testing/mototest"
)

// comparedRequests are sent to podtask and to moto. A name may have a word behind it, which tells apart requests of one
// operation. Words in capital letters are what an earlier answer of the same server said.
var comparedRequests = []struct{ name, body string }{
	{"CreateCluster", `{"clusterName": "blue", "tags": [{"key": "a", "value": "b"}], "settings": [{"name": "containerInsights", "value": "enabled"}]}`},
	{"CreateCluster again", `{"clusterName": "blue"}`},
	{"DescribeClusters", `{"clusters": ["blue", "none"], "include": ["TAGS", "SETTINGS", "CONFIGURATIONS", "STATISTICS"]}`},
	{"DescribeClusters without include", `{"clusters": ["blue"]}`},
	{"ListClusters", `{}`},
	{"UpdateCluster", `{"cluster": "blue", "settings": [{"name": "containerInsights", "value": "disabled"}]}`},
	{"UpdateCluster unknown", `{"cluster": "none", "settings": [{"name": "containerInsights", "value": "disabled"}]}`},
	{"PutClusterCapacityProviders", `{"cluster": "blue", "capacityProviders": ["FARGATE"], "defaultCapacityProviderStrategy": [{"capacityProvider": "FARGATE", "weight": 1, "base": 0}]}`},
	{"PutClusterCapacityProviders unknown", `{"cluster": "none", "capacityProviders": ["FARGATE"], "defaultCapacityProviderStrategy": []}`},
	{"DescribeCapacityProviders", `{"capacityProviders": ["none"]}`},
	{"PutAccountSetting", `{"name": "containerInsights", "value": "enabled"}`},
	{"ListAccountSettings", `{"name": "containerInsights"}`},
	{"PutAccountSetting bad name", `{"name": "nonsense", "value": "enabled"}`},
	{"PutAccountSetting bad value", `{"name": "containerInsights", "value": "maybe"}`},
	{"DeleteAccountSetting", `{"name": "containerInsights"}`},

	{"RegisterTaskDefinition", `{"family": "web", "networkMode": "bridge", "cpu": "256", "memory": "512", "volumes": [{"name": "data", "host": {"sourcePath": "/srv"}}],
	  "requiresCompatibilities": ["EC2"], "runtimePlatform": {"cpuArchitecture": "X86_64", "operatingSystemFamily": "LINUX"},
	  "tags": [{"key": "team", "value": "shop"}], "containerDefinitions": [{"name": "app", "image": "nginx:1", "memory": 64, "portMappings": [{"containerPort": 80}],
	  "environment": [{"name": "A", "value": "1"}], "mountPoints": [{"sourceVolume": "data", "containerPath": "/data"}], "dependsOn": [{"containerName": "db", "condition": "START"}],
	  "healthCheck": {"command": ["CMD", "true"]}}, {"name": "db", "image": "db:1", "memory": 64, "essential": false, "ulimits": [{"name": "nofile", "softLimit": 10, "hardLimit": 20}]}]}`},
	{"DescribeTaskDefinition", `{"taskDefinition": "web", "include": ["TAGS"]}`},
	{"DescribeTaskDefinition without include", `{"taskDefinition": "web:1"}`},
	{"DescribeTaskDefinition unknown", `{"taskDefinition": "none"}`},
	{"DescribeTaskDefinition unknown revision", `{"taskDefinition": "web:9"}`},
	{"DescribeTaskDefinition without the member", `{}`},
	{"ListTaskDefinitions", `{}`},
	{"ListTaskDefinitionFamilies", `{"familyPrefix": "w"}`},

	{"CreateService", `{"cluster": "blue", "serviceName": "web", "taskDefinition": "web", "desiredCount": 0, "tags": [{"key": "a", "value": "b"}]}`},
	{"CreateService again", `{"cluster": "blue", "serviceName": "web", "taskDefinition": "web", "desiredCount": 0}`},
	{"CreateService in no cluster", `{"cluster": "none", "serviceName": "other", "taskDefinition": "web", "desiredCount": 0}`},
	{"CreateService of no definition", `{"cluster": "blue", "serviceName": "other", "taskDefinition": "none", "desiredCount": 0}`},
	{"DescribeServices", `{"cluster": "blue", "services": ["web", "none"], "include": ["TAGS"]}`},
	{"DescribeServices without include", `{"cluster": "blue", "services": ["web"]}`},
	{"DescribeServices in no cluster", `{"cluster": "none", "services": ["web"]}`},
	{"DescribeServices without the member", `{"cluster": "blue"}`},
	{"UpdateService", `{"cluster": "blue", "service": "web", "desiredCount": 1}`},
	{"UpdateService unknown", `{"cluster": "blue", "service": "none", "desiredCount": 1}`},
	{"UpdateService in no cluster", `{"cluster": "none", "service": "web", "desiredCount": 1}`},
	{"ListServices", `{"cluster": "blue"}`},
	{"ListServices in no cluster", `{"cluster": "none"}`},

	{"ListContainerInstances", `{"cluster": "blue"}`},
	{"ListContainerInstances in no cluster", `{"cluster": "none"}`},
	{"DescribeContainerInstances unknown", `{"cluster": "blue", "containerInstances": ["11111111-1111-1111-1111-111111111111"]}`},
	{"DescribeContainerInstances in no cluster", `{"cluster": "none", "containerInstances": ["x"]}`},
	{"UpdateContainerInstancesState bad status", `{"cluster": "blue", "containerInstances": ["x"], "status": "ASLEEP"}`},

	{"RunTask", `{"cluster": "blue", "taskDefinition": "web", "launchType": "FARGATE", "startedBy": "me", "group": "g", "tags": [{"key": "a", "value": "b"}],
	  "overrides": {"containerOverrides": [{"name": "app", "environment": [{"name": "A", "value": "2"}]}]},
	  "networkConfiguration": {"awsvpcConfiguration": {"subnets": ["SUBNET"], "securityGroups": ["GROUP"]}}}`},
	{"RunTask in no cluster", `{"cluster": "none", "taskDefinition": "web"}`},
	{"RunTask of no definition", `{"cluster": "blue", "taskDefinition": "none"}`},
	{"RunTask without the member", `{"cluster": "blue"}`},
	{"DescribeTasks", `{"cluster": "blue", "tasks": ["TASK_ARN", "11111111111111111111111111111111"], "include": ["TAGS"]}`},
	{"DescribeTasks in no cluster", `{"cluster": "none", "tasks": ["x"]}`},
	{"DescribeTasks without the member", `{"cluster": "blue"}`},
	{"ListTasks", `{"cluster": "blue"}`},
	{"ListTasks in no cluster", `{"cluster": "none"}`},
	{"ListTasks of a family", `{"cluster": "blue", "family": "other"}`},
	{"ListTasks with a bad status", `{"cluster": "blue", "desiredStatus": "ASLEEP"}`},
	{"TagResource", `{"resourceArn": "TASK_ARN", "tags": [{"key": "c", "value": "d"}]}`},
	{"ListTagsForResource", `{"resourceArn": "TASK_ARN"}`},
	{"UntagResource", `{"resourceArn": "TASK_ARN", "tagKeys": ["a", "c"]}`},
	{"ListTagsForResource bad ARN", `{"resourceArn": "nonsense"}`},
	{"TagResource bad ARN", `{"resourceArn": "nonsense", "tags": [{"key": "a", "value": "b"}]}`},
	{"StopTask", `{"cluster": "blue", "task": "TASK_ARN", "reason": "enough"}`},
	{"StopTask unknown", `{"cluster": "blue", "task": "11111111111111111111111111111111"}`},
	{"StopTask in no cluster", `{"cluster": "none", "task": "x"}`},
	{"StopTask without the member", `{"cluster": "blue"}`},

	{"DeleteService that runs", `{"cluster": "blue", "service": "web"}`},
	{"DeleteService", `{"cluster": "blue", "service": "web", "force": true}`},
	{"DeleteService unknown", `{"cluster": "blue", "service": "none"}`},
	{"DescribeServices deleted", `{"cluster": "blue", "services": ["web"]}`},
	{"CreateService without a name", `{"cluster": "blue", "taskDefinition": "web", "desiredCount": 0}`},
	{"DeregisterTaskDefinition", `{"taskDefinition": "web:1"}`},
	{"DeregisterTaskDefinition without a revision", `{"taskDefinition": "web"}`},
	{"DeregisterTaskDefinition unknown", `{"taskDefinition": "none:1"}`},
	{"DescribeTaskDefinition deregistered", `{"taskDefinition": "web:1"}`},
	{"ListTaskDefinitions inactive", `{"status": "INACTIVE"}`},
	{"RunTask of an inactive definition", `{"cluster": "blue", "taskDefinition": "web:1"}`},
	{"DeleteTaskDefinitions", `{"taskDefinitions": ["web:1", "web:7"]}`},
	{"DeleteCluster unknown", `{"cluster": "none"}`},
	{"CreateCluster empty", `{"clusterName": "green"}`},
	{"DeleteCluster", `{"cluster": "green"}`},
	{"RegisterTaskDefinition without containers", `{"family": "bad", "containerDefinitions": []}`},
	{"RegisterTaskDefinition without family", `{"containerDefinitions": [{"name": "app", "image": "i", "memory": 64}]}`},
	{"RegisterTaskDefinition without memory", `{"family": "bad", "containerDefinitions": [{"name": "app", "image": "i"}]}`},
	{"RegisterTaskDefinition of Fargate without cpu", `{"family": "bad", "requiresCompatibilities": ["FARGATE"], "networkMode": "awsvpc", "containerDefinitions": [{"name": "app", "image": "i"}]}`},
	{"CreateCluster bad name", `{"clusterName": "a b"}`},
	{"DescribeClusters deleted", `{"clusters": ["green"]}`},
}

// Values that are of one server: those differ by their nature.
var (
	anARN   = regexp.MustCompile(`^arn:aws:ecs:[a-z0-9-]+:[0-9]{12}:`)
	anID    = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32}\b|ecs-svc/[0-9]+`)
	aTime   = regexp.MustCompile(`(At|Timestamp|Since)$`)
	taskARN = regexp.MustCompile(`arn:aws:ecs:[^"]*:task/[^"]*`)
)

// flatten makes a map of an answer: paths of members and what they hold. Empty lists and objects are values.
func flatten(path string, v any, into map[string]string) {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 && path != "" {
			into[path] = "{}"
		}
		for name, value := range v {
			flatten(strings.TrimPrefix(path+"."+name, "."), value, into)
		}
	case []any:
		if len(v) == 0 {
			into[path] = "[]"
		}
		for i, value := range v {
			flatten(fmt.Sprintf("%s[%d]", path, i), value, into)
		}
	case string:
		into[path] = anID.ReplaceAllString(anARN.ReplaceAllString(v, "arn:"), "ID")
	default:
		into[path] = fmt.Sprint(v)
	}
	if _, ok := into[path]; ok && aTime.MatchString(path) {
		into[path] = "a time"
	}
}

// moto is moto's server.
type moto struct {
	t   *testing.T
	url string

	status int // of the last answer
}

// ask sends a request of ECS.
func (m *moto) ask(name, body string) (int, string) {
	m.t.Helper()
	r, err := http.NewRequestWithContext(m.t.Context(), http.MethodPost, m.url, strings.NewReader(body))
	if err != nil {
		m.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	r.Header.Set("X-Amz-Target", "AmazonEC2ContainerServiceV20141113."+name)
	text := m.send(r, "ecs")
	return m.status, text
}

// send sends a request to a service. moto does not check signatures.
func (m *moto) send(r *http.Request, service string) string {
	m.t.Helper()
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+key.ID+"/20260101/us-east-1/"+service+"/aws4_request, SignedHeaders=host, Signature=0")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		m.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		m.t.Fatal(err)
	}
	m.status = answer.StatusCode
	return string(text)
}

// read makes a map of an answer.
func read(t *testing.T, status int, text string) map[string]string {
	t.Helper()
	all := map[string]string{"status": fmt.Sprint(status)}
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		all["message"] = "no JSON"
		return all
	}
	flatten("", v, all)
	if m, ok := all["Message"]; ok {
		delete(all, "Message")
		all["message"] = m
	}
	if kind, ok := all["__type"]; ok {
		all["__type"] = kind[strings.LastIndexByte(kind, '#')+1:]
	}
	return all
}

// motoVersion is the version whose differences are known. Those of another one are only listed.
const motoVersion = "5.2."

// differences compares two answers. Where one is an error and the other is not, that is the only difference.
func differences(request string, ours, theirs map[string]string) (all []difference) {
	if ours["status"] != theirs["status"] {
		word := func(m map[string]string) string {
			return strings.TrimSpace(m["status"] + " " + m["__type"] + " " + m["message"])
		}
		return []difference{{request, "answer", word(ours), word(theirs)}}
	}
	paths := maps.Clone(ours)
	maps.Copy(paths, theirs)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		a, b := cmp.Or(ours[path], "-"), cmp.Or(theirs[path], "-")
		d := difference{request, anIndex.ReplaceAllString(path, "[]"), a, b}
		if a != b && !slices.Contains(all, d) {
			all = append(all, d)
		}
	}
	return all
}

// ec2 returns the first match in what moto's EC2 answers.
func (m *moto) ec2(action string, pattern *regexp.Regexp) string {
	m.t.Helper()
	body := strings.NewReader("Action=" + action + "&Version=2016-11-15")
	r, err := http.NewRequestWithContext(m.t.Context(), http.MethodPost, m.url, body)
	if err != nil {
		m.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return pattern.FindString(m.send(r, "ec2"))
}

// motoComplaint reports a difference: as a failure if moto has the version of which the differences are known.
func motoComplaint(t *testing.T) func(format string, args ...any) {
	t.Helper()
	version, err := exec.CommandContext(t.Context(), "python3", "-c", "import moto; print(moto.__version__)").Output()
	if err == nil && strings.HasPrefix(string(version), motoVersion) {
		return t.Errorf
	}
	t.Logf("the tables are of moto %s; this is %s %v", motoVersion, version, err)
	return t.Logf
}

// What podtask answers to requests is compared with what moto answers. Each difference is in the table of
// docs/dev/moto.md, with who is right by AWS's documentation.
func TestAnswersComparedWithMoto(t *testing.T) {
	if _, err := exec.LookPath("moto_server"); err != nil {
		t.Skip(err)
	}
	w, m := newWorld(t), &moto{t: t, url: mototest.Start(t)}
	network := strings.NewReplacer("SUBNET", m.ec2("DescribeSubnets", regexp.MustCompile(`subnet-[0-9a-f]+`)), "GROUP", m.ec2("DescribeSecurityGroups", regexp.MustCompile(`sg-[0-9a-f]+`)))
	complain := motoComplaint(t)
	used := make(map[int]bool)
	var ours, theirs string // ARNs of the task
	for _, r := range comparedRequests {
		name, _, _ := strings.Cut(r.name, " ")
		if name == "DescribeTasks" {
			w.change(w.states[0].ID, runs)
		}
		body := network.Replace(r.body)
		status, text := w.post(name, strings.ReplaceAll(body, "TASK_ARN", ours))
		motoStatus, motoText := m.ask(name, strings.ReplaceAll(body, "TASK_ARN", theirs))
		if r.name == "RunTask" {
			ours, theirs = taskARN.FindString(text), taskARN.FindString(motoText)
		}
		for _, d := range differences(r.name, read(t, status, text), read(t, motoStatus, motoText)) {
			i := slices.IndexFunc(knownDifferences, func(k knownDifference) bool { return k.fits(d) })
			if i < 0 {
				complain("a difference that docs/dev/moto.md does not explain: %s", d)
				continue
			}
			used[i] = true
		}
	}
	for i, k := range knownDifferences {
		if !used[i] {
			complain("docs/dev/moto.md explains what is no difference: %s, %s", k.request, k.member)
		}
	}
}
