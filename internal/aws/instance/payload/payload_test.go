package payload

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/aws/instance/wire"
	"github.com/podtask/podtask/pkg/taskdef"
)

func read(t *testing.T, text string) wire.Task {
	t.Helper()
	var task wire.Task
	if err := json.Unmarshal([]byte(text), &task); err != nil {
		t.Fatal(err)
	}
	return task
}

// whole has each setting that is known.
const whole = `{"arn":"arn:aws:ecs:us-east-1:111122223333:task/lab/1","family":"fam","version":"3","desiredStatus":"RUNNING","networkMode":"bridge",
"cpu":0.25,"memory":512,"pidMode":"task","roleCredentials":{"roleArn":"arn:aws:iam::111122223333:role/app","accessKeyId":"A"},
"executionRoleCredentials":{"roleArn":"arn:aws:iam::111122223333:role/exec"},
"volumes":[{"name":"data","host":{}},{"name":"etc","host":{"sourcePath":"/srv/etc"}},{"name":"cache","type":"docker","dockerVolumeConfiguration":{"scope":"shared","autoprovision":true,"driver":"local","labels":{"a":"b"}}}],
"containers":[{"name":"db","image":"db:1","essential":false,"cpu":10,"memory":128,"healthCheckType":"docker",
 "dockerConfig":{"config":"{\"HealthCheck\":{\"Test\":[\"CMD-SHELL\",\"true\"],\"Interval\":30000000000,\"Timeout\":5000000000,\"Retries\":3,\"StartPeriod\":0}}","hostConfig":"{\"NetworkMode\":\"bridge\"}"}},
 {"name":"app","image":"app:1","command":["run"],"entryPoint":["/sh"],"environment":{"B":"2","A":"1"},"cpu":10,"memory":256,"essential":true,"links":["db"],
 "environmentFiles":[{"type":"s3","value":"arn:aws:s3:::bucket/web.env"}],
 "portMappings":[{"containerPort":80,"hostPort":8080,"protocol":"tcp"},{"containerPortRange":"90-92","protocol":"udp"}],
 "mountPoints":[{"sourceVolume":"data","containerPath":"/data","readOnly":true}],"volumesFrom":[{"sourceContainer":"db"}],
 "dependsOn":[{"containerName":"db","condition":"HEALTHY"}],"startTimeout":60,"stopTimeout":5,
 "restartPolicy":{"enabled":true,"ignoredExitCodes":[3],"restartAttemptPeriod":90},
 "secrets":[{"name":"S","valueFrom":"/p","provider":"ssm","region":"us-east-1","type":"ENVIRONMENT_VARIABLE","target":"CONTAINER"},
  {"name":"splunk-token","valueFrom":"arn:aws:secretsmanager:us-east-1:111122223333:secret:tok-AbCdEf","provider":"asm","target":"LOG_DRIVER"}],
 "registryAuthentication":{"type":"ecr","ecrAuthData":{"registryId":"111122223333","region":"us-east-1","useExecutionRole":true}},
 "overrides":"{\"command\":[\"other\"]}",
 "dockerConfig":{"config":"{\"User\":\"0\",\"WorkingDir\":\"/w\",\"Hostname\":\"h\",\"Tty\":true,\"OpenStdin\":true,\"Labels\":{\"l\":\"1\"}}",
 "hostConfig":"{\"NetworkMode\":\"bridge\",\"CapAdd\":[\"NET_ADMIN\"],\"CapDrop\":[\"ALL\"],\"Dns\":[\"10.0.0.1\"],\"DnsSearch\":[\"a.b\"],\"ExtraHosts\":[\"x:10.0.0.2\"],\"LogConfig\":{\"Type\":\"splunk\",\"Config\":{\"splunk-url\":\"https://s\"}},\"Ulimits\":[{\"Name\":\"nofile\",\"Soft\":10,\"Hard\":20}],\"Sysctls\":{\"net.core.somaxconn\":\"1\"},\"ReadonlyRootfs\":true,\"SecurityOpt\":[\"no-new-privileges\"],\"MemoryReservation\":67108864,\"Init\":true,\"ShmSize\":67108864,\"MemorySwap\":301989888,\"Tmpfs\":{\"/run\":\"rw,size=64m\"},\"Devices\":[{\"PathOnHost\":\"/dev/null\",\"PathInContainer\":\"/dev/n\",\"CgroupPermissions\":\"rw\"}]}"}}]}`

func TestAPayloadIsADefinition(t *testing.T) {
	t.Parallel()
	plan, problems := Of(read(t, whole), "arn:instance")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	var d struct {
		CPU, Memory                   string
		TaskRoleArn, ExecutionRoleArn string
		ContainerDefinitions          []map[string]any
	}
	if err := json.Unmarshal(plan.Definition, &d); err != nil {
		t.Fatal(err)
	}
	if d.CPU != "256" || d.Memory != "512" || !strings.HasSuffix(d.TaskRoleArn, "/app") || !strings.HasSuffix(d.ExecutionRoleArn, "/exec") {
		t.Errorf("the task: %+v", d)
	}
	got, err := json.Marshal(d.ContainerDefinitions[1])
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"command":["other"],"cpu":10,"dependsOn":[{"condition":"HEALTHY","containerName":"db"}],"dnsSearchDomains":["a.b"],"dnsServers":["10.0.0.1"],"dockerLabels":{"l":"1"},"dockerSecurityOptions":["no-new-privileges"],"entryPoint":["/sh"],"environment":[{"name":"A","value":"1"},{"name":"B","value":"2"}],"environmentFiles":[{"type":"s3","value":"arn:aws:s3:::bucket/web.env"}],"essential":true,"extraHosts":[{"hostname":"x","ipAddress":"10.0.0.2"}],"hostname":"h","image":"app:1","interactive":true,"links":["db"],"linuxParameters":{"capabilities":{"add":["NET_ADMIN"],"drop":["ALL"]},"devices":[{"containerPath":"/dev/n","hostPath":"/dev/null","permissions":["read","write"]}],"initProcessEnabled":true,"maxSwap":32,"sharedMemorySize":64,"tmpfs":[{"containerPath":"/run","mountOptions":["rw"],"size":64}]},"logConfiguration":{"logDriver":"splunk","options":{"splunk-url":"https://s"},"secretOptions":[{"name":"splunk-token","valueFrom":"arn:aws:secretsmanager:us-east-1:111122223333:secret:tok-AbCdEf"}]},"memory":256,"memoryReservation":64,"mountPoints":[{"containerPath":"/data","readOnly":true,"sourceVolume":"data"}],"name":"app","portMappings":[{"containerPort":80,"hostPort":8080,"protocol":"tcp"},{"containerPortRange":"90-92","protocol":"udp"}],"pseudoTerminal":true,"readonlyRootFilesystem":true,"repositoryCredentials":{"credentialsParameter":"/ecs/registry/us-east-1/111122223333/execution-role"},"restartPolicy":{"enabled":true,"ignoredExitCodes":[3],"restartAttemptPeriod":90},"secrets":[{"name":"S","valueFrom":"/p"}],"startTimeout":60,"stopTimeout":5,"systemControls":[{"namespace":"net.core.somaxconn","value":"1"}],"ulimits":[{"hardLimit":20,"name":"nofile","softLimit":10}],"user":"0","volumesFrom":[{"readOnly":false,"sourceContainer":"db"}],"workingDirectory":"/w"}`
	if string(got) != want {
		t.Errorf("the container:\n%s, want\n%s", got, want)
	}
	kinds := make(map[Kind]bool)
	for _, n := range plan.Needs {
		kinds[n.Kind] = true
	}
	for _, k := range []Kind{Role, FromSSM, FromASM, FromS3, RegistryECR} {
		if !kinds[k] {
			t.Errorf("it needs no %s", k)
		}
	}
	if _, report, err := taskdef.Parse("task.json", plan.Definition); err != nil {
		t.Errorf("podtask does not take the definition: %v, %+v", err, report)
	}
}

func TestSettingsThatAreNotKnownAreRefused(t *testing.T) {
	t.Parallel()
	container := func(members string) string {
		return `{"arn":"a","containers":[{"name":"main","image":"i",` + members + `}]}`
	}
	for text, want := range map[string]string{
		container(`"dockerConfig":{"hostConfig":"{\"UsernsMode\":\"host\"}"}`):                                                        "dockerConfig.hostConfig.UsernsMode: podtask does not know this setting",
		container(`"dockerConfig":{"config":"{\"StopSignal\":\"SIGINT\"}"}`):                                                          "dockerConfig.config.StopSignal",
		container(`"dockerConfig":{"config":"["}`):                                                                                    "dockerConfig.config is not a JSON object",
		container(`"dockerConfig":{"hostConfig":"{\"NetworkMode\":\"host\"}"}`):                                                       "is not the networkMode",
		container(`"healthCheckType":"docker"`):                                                                                       "docker health check is nil",
		container(`"dockerConfig":{"config":"{\"Healthcheck\":{\"Test\":[\"CMD\"],\"Interval\":1}}"}`):                                "not a number of seconds",
		container(`"credentialSpecs":["x"]`):                                                                                          "credentialSpecs",
		container(`"secrets":[{"name":"x","valueFrom":"y","provider":"vault"}]`):                                                      "provider",
		container(`"registryAuthentication":{"type":"other"}`):                                                                        "registryAuthentication",
		`{"arn":"a","containers":[]}`:                                                                                                 "no containers",
		`{"arn":"a","proxyConfiguration":{"type":"APPMESH"},"containers":[{"name":"m","image":"i"}]}`:                                 "proxyConfiguration",
		`{"arn":"a","trustedExecutionConfiguration":{"isolationMode":"x"},"containers":[{"name":"m","image":"i"}]}`:                   "trustedExecutionConfiguration",
		`{"arn":"a","volumes":[{"name":"v","type":"logDriverOutput","logDriverVolumeConfiguration":{}}],"containers":[{"name":"m"}]}`: "logDriverOutput",
		`{"arn":"a","attachments":[{}],"containers":[{"name":"m","image":"i"}]}`:                                                      "attachments",
		`{"arn":"a","volumes":[{"name":"v","type":"s3files"}],"containers":[{"name":"m","image":"i"}]}`:                               "s3files",
	} {
		_, problems := Of(read(t, text), "")
		if len(problems) != 1 || !strings.Contains(problems[0].Error(), want) {
			t.Errorf("%s: %v, want %s", text, problems, want)
		}
	}
	// Values that ask for nothing are no settings.
	if _, problems := Of(read(t, container(`"dockerConfig":{"hostConfig":"{\"UsernsMode\":\"\",\"Binds\":null,\"Privileged\":false,\"CpuPeriod\":0}"}`)), ""); len(problems) > 0 {
		t.Error(problems)
	}
}

// Both ways give the same task: the payload alone, and the definition with what the payload overrides.
func TestADescribedDefinitionGivesTheSameTask(t *testing.T) {
	t.Parallel()
	for name, task := range recorded(t) {
		translated, problems := Of(task, "arn:instance")
		if len(problems) > 0 {
			continue // it cannot run either way
		}
		var d map[string]any
		if err := json.Unmarshal(translated.Definition, &d); err != nil {
			t.Fatal(err)
		}
		// The definition was registered before its task was launched, so it has other values of what is overridden.
		for _, c := range d["containerDefinitions"].([]any) {
			c := c.(map[string]any)
			c["environment"] = []any{map[string]string{"name": "OLD", "value": "1"}}
			c["memory"] = 7
		}
		d["tags"], d["taskRoleArn"], d["status"] = nil, "arn:aws:iam::1:role/old", "ACTIVE"
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		described, problems := Described(text, task, "arn:instance")
		if len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
			continue
		}
		a, _, errA := taskdef.Parse("task", translated.Definition)
		b, _, errB := taskdef.Parse("task", described.Definition)
		if errA == nil && (errB != nil || !reflect.DeepEqual(a, b)) {
			t.Errorf("%s: %+v\n%+v\n%v", name, a, b, errB)
		}
		if len(described.Needs) != len(translated.Needs) {
			t.Errorf("%s needs %v and %v", name, described.Needs, translated.Needs)
		}
	}
	if _, problems := Described([]byte(`{"containerDefinitions":[{"name":"other"}]}`), wire.Task{Containers: []wire.Container{{Name: "main"}}}, ""); len(problems) != 2 {
		t.Errorf("another definition: %v", problems)
	}
	if _, problems := Described([]byte(`[]`), wire.Task{}, ""); len(problems) != 1 {
		t.Errorf("no definition: %v", problems)
	}
}

// recorded are the tasks of all recorded payloads, and the one with each setting.
func recorded(t *testing.T) map[string]wire.Task {
	t.Helper()
	out := map[string]wire.Task{"whole": read(t, whole)}
	files, err := filepath.Glob("../testdata/recordings/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatal("no recordings")
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for l := range strings.Lines(string(text)) {
			var line struct {
				Op   string
				Body struct {
					Message struct{ Tasks []json.RawMessage }
				}
			}
			if json.Unmarshal([]byte(l), &line) != nil || line.Op != "PayloadMessage" {
				continue
			}
			for _, raw := range line.Body.Message.Tasks {
				var task wire.Task
				if json.Unmarshal(raw, &task) == nil && task.DesiredStatus == "RUNNING" {
					out[filepath.Base(f)+" "+task.ARN] = task
				}
			}
		}
	}
	return out
}

func TestGPUsAreRefusedByName(t *testing.T) {
	t.Parallel()
	task := read(t, `{"arn":"a","family":"f","associations":[{"name":"GPU-12ab","type":"gpu","containers":["main"]}],"containers":[{"name":"main","image":"i","memory":64}]}`)
	if _, problems := Of(task, ""); len(problems) != 1 || !strings.Contains(problems[0].Text, `associations: GPU "GPU-12ab" for main: this instance announces no GPUs`) {
		t.Errorf("%v", problems)
	}
	definition := []byte(`{"family":"f","containerDefinitions":[{"name":"main","image":"i","resourceRequirements":[{"type":"GPU","value":"1"}]}]}`)
	if _, problems := Described(definition, task, ""); len(problems) != 1 || !strings.Contains(problems[0].Text, "GPU-12ab") {
		t.Errorf("%v", problems)
	}
	task.Associations = nil // a GPU that ECS has not chosen is not left out in silence
	if _, problems := Described(definition, task, ""); len(problems) != 1 || problems[0].Container != "main" || !strings.Contains(problems[0].Text, "resourceRequirements") {
		t.Errorf("%v", problems)
	}
}

func TestLogsGoWithTheExecutionRole(t *testing.T) {
	t.Parallel()
	task := `{"arn":"a","executionRoleCredentials":{"roleArn":"arn:aws:iam::1:role/exec"},"containers":[{"name":"main","image":"i","dockerConfig":{"hostConfig":"{\"LogConfig\":{\"Type\":\"DRIVER\",\"Config\":{\"awslogs-group\":\"g\",\"awslogs-region\":\"r\"}}}"}}]}`
	for driver, want := range map[string]int{"awslogs": 1, "json-file": 0} {
		plan, problems := Of(read(t, strings.Replace(task, "DRIVER", driver, 1)), "")
		if len(problems) > 0 || len(plan.Needs) != want || want > 0 && plan.Needs[0] != (Need{Kind: LogRole, Match: "execution-role:arn:aws:iam::1:role/exec"}) {
			t.Errorf("%s: %+v, %v", driver, plan.Needs, problems)
		}
	}
}

// The stream of a container in CloudWatch Logs has the ID that ECS gave the task, as the console looks for it.
func TestTheStreamHasTheIDOfECS(t *testing.T) {
	t.Parallel()
	config := `{\"awslogs-group\":\"g\",\"awslogs-region\":\"r\",\"awslogs-stream-prefix\":\"shop\"}`
	task := read(t, `{"arn":"arn:aws:ecs:r:1:task/lab/abc","family":"web","containers":[{"name":"main","image":"i","dockerConfig":{"hostConfig":"{\"LogConfig\":{\"Type\":\"awslogs\",\"Config\":`+config+`}}"}}]}`)
	plan, problems := Of(task, "")
	described, more := Described(json.RawMessage(`{"family":"web","containerDefinitions":[{"name":"main","image":"i","logConfiguration":{"logDriver":"awslogs","options":`+strings.ReplaceAll(config, `\`, "")+`}}]}`), task, "")
	for _, p := range []Plan{plan, described} {
		if text := string(p.Definition); !strings.Contains(text, `"awslogs-stream":"shop/main/abc"`) || strings.Contains(text, "prefix") {
			t.Errorf("%s, %v, %v", text, problems, more)
		}
	}
}

func FuzzPayload(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte(`{"arn":"a","containers":[{"name":"m","dockerConfig":{"config":"{}","hostConfig":"{\"Tmpfs\":{\"/a\":\"size=9999999999g\"}}"}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var task wire.Task
		if json.Unmarshal(text, &task) != nil {
			return
		}
		plan, problems := Of(task, "arn")
		if (len(problems) > 0) == (plan.Definition != nil) {
			t.Errorf("%d problems, and the definition %s", len(problems), plan.Definition)
		}
	})
}
