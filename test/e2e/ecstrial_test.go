//go:build e2e

//e2e:bed systemd

package e2e

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/podtask/podtask/internal/aws/instance/wire"
	"github.com/podtask/podtask/internal/testing/ecsplane"
	"github.com/podtask/podtask/internal/testing/registrytest"
)

// awsAccountEnv makes the test program an aws command that sends its arguments to the URL in it.
const awsAccountEnv = "PODTASK_TEST_AWS_ACCOUNT"

func awsToAccount(address string, args []string) int {
	body, _ := json.Marshal(args)
	resp, err := http.Post(address, "application/json", bytes.NewReader(body))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 255
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		_, _ = io.Copy(os.Stderr, resp.Body)
		return 254
	}
	_, _ = io.Copy(os.Stdout, resp.Body)
	return 0
}

// account is an account of AWS behind the aws command, with a scheduler for one instance. Its secrets must not come into a report.
type account struct {
	i *ecsInstance

	mu          sync.Mutex
	made        map[string]string // what exists, with its document
	definitions map[string][]map[string]any
	tasks       map[string]*accountTask // by ARN
	service     []string                // its tasks, the newest last
	lines       []string
	messages    int
	refusals    int // of activations: a new role is not known at once
}

type accountTask struct {
	revision string
	status   wire.StateChange
	health   string
	stop     bool
}

const (
	activationCode = "Code-Of-The-Activation"
	activationID   = "0a1b2c3d-0000-1111-2222-0123456789ab"
	managedID      = "mi-0123456789abcdef0"
)

// ServeHTTP answers the aws command, and what Systems Manager and CloudWatch Logs answer; the rest is the control plane's.
func (a *account) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	target := r.Header.Get("X-Amz-Target")
	switch {
	case r.URL.Path == "/cli":
		var args []string
		if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
			a.i.t.Error(err)
			return
		}
		answer, err := a.command(args)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintln(w, err)
			return
		}
		_ = json.NewEncoder(w).Encode(answer)
	case target == "AmazonSSM.RegisterManagedInstance":
		fmt.Fprintf(w, `{"InstanceId": %q}`, managedID)
	case target == "AmazonSSM.RequestManagedInstanceRoleToken":
		_ = json.NewEncoder(w).Encode(map[string]any{"AccessKeyId": ecsplane.KeyID, "SecretAccessKey": ecsplane.Secret, "TokenExpirationDate": float64(time.Now().Add(time.Hour).Unix())})
	case strings.HasPrefix(target, "Logs_"):
		text, _ := io.ReadAll(r.Body)
		a.mu.Lock()
		a.lines = append(a.lines, string(text))
		a.mu.Unlock()
		fmt.Fprint(w, "{}")
	default:
		a.i.plane.ServeHTTP(w, r)
	}
}

// command answers `aws SERVICE OPERATION --FLAG VALUE ...`.
func (a *account) command(args []string) (any, error) {
	flags := make(map[string]string)
	for n, arg := range args {
		if name, ok := strings.CutPrefix(arg, "--"); ok && n+1 < len(args) {
			flags[name] = args[n+1]
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if flags["region"] != ecsplane.Region {
		return nil, fmt.Errorf("the region is %q", flags["region"])
	}
	a.look()
	if args[0] == "ecs" {
		return a.ecs(args[1], flags)
	}
	if args[0] == "iam" {
		return a.iam(args[1], flags)
	}
	return a.other(args, flags)
}

func (a *account) iam(operation string, flags map[string]string) (any, error) {
	role := "role " + flags["role-name"]
	policy := "policy of " + role + " " + flags["policy-name"] + flags["policy-arn"]
	switch operation {
	case "create-role":
		a.made[role] = flags["assume-role-policy-document"]
		return obj{"Role": obj{"Arn": "arn:aws:iam::" + ecsplane.Account + ":role/" + flags["role-name"]}}, nil
	case "put-role-policy", "attach-role-policy":
		a.made[policy] = flags["policy-document"]
	case "delete-role-policy", "detach-role-policy":
		return obj{}, a.remove(policy)
	case "delete-role":
		return obj{}, a.remove(role)
	default:
		return nil, fmt.Errorf("the command iam %s is not known", operation)
	}
	return obj{}, nil
}

// other answers the commands ssm and logs.
func (a *account) other(args []string, flags map[string]string) (any, error) {
	switch args[1] {
	case "create-activation":
		if a.refusals++; a.refusals < 3 {
			return nil, fmt.Errorf("An error occurred (ValidationException): nonexistent role of account %s", ecsplane.Account)
		}
		a.made["activation"] = ""
		return obj{"ActivationId": activationID, "ActivationCode": activationCode}, nil
	case "describe-activations", "describe-instance-information": // nothing that the trial does not know
	case "delete-activation":
		return obj{}, a.remove("activation")
	case "deregister-managed-instance":
		if flags["instance-id"] != managedID {
			return nil, fmt.Errorf("InvalidInstanceId: %s", flags["instance-id"])
		}
	case "put-parameter":
		var in map[string]string
		text, err := os.ReadFile(strings.TrimPrefix(flags["cli-input-json"], "file://"))
		if err == nil {
			err = json.Unmarshal(text, &in)
		}
		a.i.plane.SetValue(in["Name"], in["Value"])
		a.made["parameter "+in["Name"]] = ""
		return obj{}, err
	case "delete-parameter":
		return obj{}, a.remove("parameter " + flags["name"])
	case "create-log-group":
		a.made["group "+flags["log-group-name"]] = ""
	case "delete-log-group":
		return obj{}, a.remove("group " + flags["log-group-name"])
	case "get-log-events":
		var events []obj
		for _, l := range a.lines {
			if strings.Contains(l, `"`+flags["log-stream-name"]+`"`) && strings.Contains(l, "hello") {
				events = append(events, obj{"message": "hello from podtask"})
			}
		}
		return obj{"events": events}, nil
	default:
		return nil, fmt.Errorf("the command %q is not known", args)
	}
	return obj{}, nil
}

func (a *account) remove(name string) error {
	if _, ok := a.made[name]; !ok {
		return fmt.Errorf("NoSuchEntity: %s", name)
	}
	delete(a.made, name)
	return nil
}

// look takes in what the instance has said, and has the scheduler do what follows.
func (a *account) look() {
	draining := false
	for _, e := range a.i.plane.Events() {
		switch e.Op {
		case "SubmitTaskStateChange":
			var c wire.StateChange
			if err := json.Unmarshal(e.Body, &c); err == nil && a.tasks[c.Task] != nil {
				a.tasks[c.Task].status = c
			}
		case wire.TypeHealth:
			var h wire.Health
			_ = json.Unmarshal(e.Body, &h)
			for _, k := range h.Tasks {
				if t := a.tasks[k.ARN]; t != nil {
					t.health = k.Containers[0].Status
				}
			}
		case "UpdateContainerInstancesState":
			draining = true
		}
	}
	for n, arn := range a.service {
		newer := n+1 < len(a.service) && a.tasks[a.service[n+1]].status.Status == "RUNNING"
		if newer || draining || a.made["service"] == "" {
			a.stop(arn)
		}
	}
}

func (a *account) stop(arn string) {
	if t := a.tasks[arn]; !t.stop {
		t.stop = true
		a.say(obj{"arn": arn, "desiredStatus": "STOPPED", "containers": []obj{}})
	}
}

func (a *account) say(task obj) {
	task["version"], task["networkMode"], task["launchType"] = "1", "bridge", "EXTERNAL"
	if task["family"] == nil {
		task["family"] = a.i.family
	}
	a.messages++
	if err := a.i.plane.Payload(fmt.Sprintf("payload-%d", a.messages), a.messages, task); err != nil {
		a.i.t.Error(err)
	}
}

// place has the instance run a task of a definition.
func (a *account) place(definition string) string {
	definition = definition[strings.LastIndexByte(definition, '/')+1:]
	family, revision, _ := strings.Cut(definition, ":")
	var n int
	_, _ = fmt.Sscan(revision, &n)
	d := maps.Clone(a.definitions[family][n-1])
	config, host := obj{}, obj{"NetworkMode": "bridge"}
	if h, ok := d["healthCheck"].(map[string]any); ok {
		d["healthCheckType"] = "docker"
		config["HealthCheck"] = obj{"Test": h["command"], "Interval": 5000000000, "Timeout": 5000000000, "Retries": 1}
	}
	if l, ok := d["logConfiguration"].(map[string]any); ok {
		host["LogConfig"] = obj{"Type": l["logDriver"], "Config": l["options"]}
	}
	list, _ := d["secrets"].([]any)
	for _, s := range list {
		maps.Copy(s.(map[string]any), obj{"provider": "ssm", "region": ecsplane.Region, "type": "ENVIRONMENT_VARIABLE", "target": "CONTAINER"})
	}
	delete(d, "healthCheck")
	delete(d, "logConfiguration")
	configText, _ := json.Marshal(config)
	hostText, _ := json.Marshal(host)
	d["dockerConfig"], d["overrides"] = obj{"config": string(configText), "hostConfig": string(hostText), "version": "1.18"}, "{}"
	arn := a.i.taskARN(len(a.tasks) + 1)
	a.tasks[arn] = &accountTask{revision: definition}
	a.say(obj{"arn": arn, "desiredStatus": "RUNNING", "family": a.i.family, "containers": []any{d}, "executionRoleCredentials": obj{
		"credentialsId": "exec", "roleArn": "arn:aws:iam::111122223333:role/exec", "accessKeyId": ecsplane.RoleKeyID, "secretAccessKey": ecsplane.RoleSecret, "expiration": "2100-01-01T00:00:00Z"}})
	return arn
}

func (a *account) ecs(operation string, flags map[string]string) (any, error) {
	switch operation {
	case "create-cluster":
		a.made["cluster "+flags["cluster-name"]] = ""
	case "delete-cluster":
		if len(a.i.plane.Of("http", "DeregisterContainerInstance")) == 0 {
			return nil, fmt.Errorf("ClusterContainsContainerInstancesException")
		}
		return obj{}, a.remove("cluster " + flags["cluster"])
	case "list-container-instances":
		return obj{"containerInstanceArns": []string{ecsplane.InstanceARN(1)}}, nil
	case "describe-container-instances":
		return obj{"containerInstances": []obj{{"agentConnected": len(a.i.plane.Of("acs", "open")) > 0 && len(a.i.plane.Of("tcs", "open")) > 0, "status": "ACTIVE"}}}, nil
	case "register-task-definition":
		var d []map[string]any
		if err := json.Unmarshal([]byte(flags["container-definitions"]), &d); err != nil || flags["execution-role-arn"] == "" {
			return nil, fmt.Errorf("ClientException: %v", err)
		}
		a.definitions[flags["family"]] = append(a.definitions[flags["family"]], d[0])
		name := fmt.Sprintf("%s:%d", flags["family"], len(a.definitions[flags["family"]]))
		a.made["definition "+name] = ""
		return obj{"taskDefinition": obj{"taskDefinitionArn": "arn:aws:ecs:us-east-1:111122223333:task-definition/" + name}}, nil
	case "deregister-task-definition":
		return obj{}, a.remove("definition " + flags["task-definition"][strings.LastIndexByte(flags["task-definition"], '/')+1:])
	case "run-task":
		return obj{"tasks": []obj{{"taskArn": a.place(flags["task-definition"])}}}, nil
	case "stop-task":
		a.stop(flags["task"])
	case "describe-tasks":
		return obj{"tasks": []obj{a.describe(flags["tasks"])}}, nil
	case "create-service", "update-service":
		a.made["service"] = flags["task-definition"]
		a.service = append(a.service, a.place(flags["task-definition"]))
	case "describe-services":
		return obj{"services": []obj{a.describeService()}}, nil
	case "delete-service":
		err := a.remove("service")
		a.look()
		return obj{}, err
	default:
		return nil, fmt.Errorf("the command ecs %s is not known", operation)
	}
	return obj{}, nil
}

func (a *account) describe(arn string) obj {
	t := a.tasks[arn]
	if t == nil {
		return obj{}
	}
	out := obj{"lastStatus": t.status.Status, "stoppedReason": t.status.Reason, "healthStatus": t.health}
	var containers []obj
	for _, c := range t.status.Containers {
		one := obj{"reason": c.Reason, "imageDigest": c.ImageDigest}
		if c.ExitCode != nil {
			one["exitCode"] = *c.ExitCode
		}
		containers = append(containers, one)
	}
	out["containers"] = containers
	return out
}

func (a *account) describeService() obj {
	running, state := 0, "IN_PROGRESS"
	for n, arn := range a.service {
		if a.tasks[arn].status.Status == "RUNNING" {
			running++
			if n == len(a.service)-1 {
				state = "COMPLETED"
			}
		}
	}
	return obj{"runningCount": running, "deployments": []obj{{"taskDefinition": a.made["service"], "rolloutState": state}}}
}

// shellImage is an image with a shell and sleep: those of this host, with their libraries.
func (b *box) shellImage() string {
	b.t.Helper()
	files := map[string]string{"/bin/sh": "/bin/sh", "/bin/sleep": "/bin/sleep"}
	for _, program := range []string{"/bin/sh", "/bin/sleep"} {
		f, err := elf.Open(program)
		if err != nil {
			b.t.Fatal(err)
		}
		libraries, _ := f.ImportedLibraries()
		text, _ := f.Section(".interp").Data()
		f.Close()
		loader := strings.TrimRight(string(text), "\x00")
		files[loader] = loader
		for _, l := range libraries {
			found, _ := filepath.Glob("/lib/*-linux-gnu*/" + l)
			if len(found) == 0 {
				b.t.Fatalf("%s is not here", l)
			}
			files[found[0]] = found[0]
		}
	}
	list := []registrytest.File{{Path: "/tmp/", Mode: 0o1777}}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		data, err := os.ReadFile(files[path])
		if err != nil {
			b.t.Fatal(err)
		}
		list = append(list, registrytest.File{Path: path, Data: data, Mode: 0o755})
	}
	img, err := registrytest.Image(v1.Config{Env: []string{"PATH=/bin"}}, list...)
	if err != nil {
		b.t.Fatal(err)
	}
	ref, _ := b.push("shell:1", img)
	return ref
}

// newAccount is an account whose aws command a box has, and the agent of the box.
func newAccount(t *testing.T) *account {
	t.Helper()
	server := httptest.NewServer(nil)
	t.Cleanup(server.Close)
	a := &account{i: &ecsInstance{box: newBox(t), plane: ecsplane.New(server.URL)}, made: make(map[string]string), definitions: make(map[string][]map[string]any), tasks: make(map[string]*accountTask)}
	server.Config.Handler = a
	b := a.i.box
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(b.dir, "bin")
	script := fmt.Sprintf("#!/bin/sh\nexport %s=%s/cli\nexec %s \"$@\"\n", awsAccountEnv, server.URL, self)
	if err := os.MkdirAll(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "aws"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	path := os.Getenv("PATH")
	for _, v := range b.env {
		if p, ok := strings.CutPrefix(v, "PATH="); ok {
			path = p
		}
	}
	b.env = append(b.env, "PATH="+bin+":"+path, "PODTASK_LIMITS=best-effort", "AWS_ENDPOINT_URL="+server.URL, "AWS_ENDPOINT_URL_CLOUDWATCH_LOGS="+server.URL, "AWS_SECRET_ACCESS_KEY=of-the-person")
	a.i.runner = a.i.agent()
	t.Cleanup(func() {
		a.i.plane.End("acs", 0)
		a.i.plane.End("tcs", 0)
		b.want(0, "rm", "--force", "--all")
		for _, p := range a.i.plane.Problems() {
			t.Error(p)
		}
	})
	return a
}

// A person's trial: ten tasks, each as expected, all is removed, and the report has nothing that is secret.
func TestATrialOnECS(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	b := a.i.box
	report := filepath.Join(b.dir, "report.md")
	if p := b.start("ecs", "trial", "--region", ecsplane.Region, "--report", report); p.wait().code == 0 || len(a.made) > 0 {
		t.Errorf("without an answer it makes %v", a.made)
	}
	out := b.start("ecs", "trial", "--region", ecsplane.Region, "--image", b.shellImage(), "--report", report, "--yes").wait()
	text := read(t, report)
	if out.code != 0 || strings.Count(text, "| ok |") != 10 || !strings.Contains(text, "Everything was removed") {
		t.Errorf("the trial ends with %d: %s\n%s\n%s", out.code, out.out, out.err, text)
	}
	a.nothingLeft(t, text)
	t.Logf("%s", text)
}

// A trial that is interrupted removes what it has made.
func TestATrialOnECSIsInterrupted(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	report := filepath.Join(a.i.dir, "report.md")
	p := a.i.start("ecs", "trial", "--region", ecsplane.Region, "--image", a.i.shellImage(), "--report", report, "--yes")
	eventually(t, "a task that runs", func() bool { return len(a.i.plane.Of("http", "SubmitTaskStateChange")) > 0 })
	p.signalAll(syscall.SIGINT)
	if r := p.wait(); r.code == 0 {
		t.Error("it succeeds")
	}
	a.nothingLeft(t, read(t, report))
}

// A trial that is killed leaves its instance and what is in the account; the next one removes both before it makes anything.
func TestATrialOnECSIsKilled(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	report := filepath.Join(a.i.dir, "report.md")
	trial := []string{"ecs", "trial", "--region", ecsplane.Region, "--image", a.i.shellImage(), "--report", report, "--yes"}
	p := a.i.start(trial...)
	eventually(t, "a task that runs", func() bool { return len(a.i.plane.Of("http", "SubmitTaskStateChange")) > 0 })
	p.signalAll(syscall.SIGKILL)
	p.wait()
	a.mu.Lock()
	before := maps.Clone(a.made)
	a.mu.Unlock()
	if len(before) == 0 {
		t.Error("the killed trial has left nothing")
	}
	next := a.i.start(trial...)
	eventually(t, "what was left is removed", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		for name := range before {
			if _, there := a.made[name]; there && strings.Contains(name, "podtask-trial-") {
				return false
			}
		}
		return true
	})
	next.signalAll(syscall.SIGINT)
	if r := next.wait(); !strings.Contains(r.out, "which was killed") || strings.Contains(r.out, "not removed") {
		t.Errorf("the next trial says:\n%s\n%s", r.out, r.err)
	}
	text, err := os.ReadFile(report)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // it was interrupted before it began anything of its own
		t.Fatal(err)
	}
	a.nothingLeft(t, string(text))
}

// nothingLeft checks that nothing of a trial is left, and that its report has nothing secret.
func (a *account) nothingLeft(t *testing.T, report string) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.made) > 0 {
		t.Errorf("left in the account: %v", a.made)
	}
	if left, _ := filepath.Glob(filepath.Join(a.i.stateHome(), "podtask", "podtask-trial-*")); len(left) > 0 {
		t.Errorf("left on the host: %v", left)
	}
	for _, secret := range []string{ecsplane.Account, activationCode, activationID, managedID, ecsplane.Secret, ecsplane.KeyID, "of-the-person", a.i.taskARN(1)} {
		if strings.Contains(report, secret) {
			t.Errorf("the report has %s:\n%s", secret, report)
		}
	}
}
