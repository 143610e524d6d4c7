package awsapi_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"
	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// terminals are sessions without programs.
type terminals struct {
	mu         sync.Mutex
	opened     []string
	full       bool
	terminated []string
}

const (
	sessionOpen    = "ecs-execute-command-0123456789abcdef"
	sessionForward = "port-forwarding-0123456789abcdef"
	sessionEnded   = "ecs-execute-command-ffffffffffffffff"
)

func (t *terminals) Open(task string, i int, command []string) (id, token string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.full {
		return "", "", errors.New("32 sessions are open: end one of them")
	}
	t.opened = append(t.opened, fmt.Sprintf("%s %d %q", task, i, command))
	return sessionOpen, "token", nil
}

func (t *terminals) Forward(task string, i int, port, local uint16) (id, token string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.opened = append(t.opened, fmt.Sprintf("%s %d forwards %d to %d", task, i, port, local))
	return sessionForward, "token", nil
}

func (t *terminals) Resume(id string) (token string, ok bool) {
	if id == sessionOpen {
		return "another", true
	}
	return "", false
}

func (t *terminals) Terminate(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.terminated = append(t.terminated, id)
}

func (t *terminals) Serve(w http.ResponseWriter, _ *http.Request, id string) {
	_, _ = io.WriteString(w, "the channel of "+id)
}

// runs makes a task RUNNING.
func runs(s *lifecycle.State) {
	s.Goal = lifecycle.Up
	for i := range s.Containers {
		s.Containers[i].Presence, s.Containers[i].StartedAt = lifecycle.Running, time.Unix(2000, 0)
	}
}

// signed sends a request of the JSON protocol with a signature.
func (w *world) signed(target, body string) (int, string) {
	if !strings.Contains(target, ".") {
		target = "AmazonEC2ContainerServiceV20141113." + target
	}
	r := httptest.NewRequestWithContext(w.t.Context(), http.MethodPost, w.url+"/", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	r.Header.Set("X-Amz-Target", target)
	sum := sha256.Sum256([]byte(body))
	if err := v4.NewSigner().SignHTTP(w.t.Context(), aws.Credentials{AccessKeyID: key.ID, SecretAccessKey: key.Secret}, r, hex.EncodeToString(sum[:]), "ecs", "local", w.now); err != nil {
		w.t.Fatal(err)
	}
	rec := httptest.NewRecorder()
	w.server.Signed().ServeHTTP(rec, r)
	return rec.Code, rec.Body.String()
}

func (w *world) sessions() *ssm.Client {
	return ssm.New(ssm.Options{BaseEndpoint: &w.url, Region: "local", RetryMaxAttempts: 1, HTTPClient: newWholeBodies(), Credentials: credentials(key)})
}

// execTask runs a task of two containers in which commands may be run.
func (w *world) execTask(enabled bool) string {
	w.t.Helper()
	if status, answer := w.post("RegisterTaskDefinition", `{"family": "two", "containerDefinitions": [{"name": "app", "image": "i", "memory": 64}, {"name": "side", "image": "i", "memory": 64, "essential": false}]}`); status != 200 {
		w.t.Fatal(answer)
	}
	out := must[*ecs.RunTaskOutput](w.t)(w.client.RunTask(w.t.Context(), &ecs.RunTaskInput{TaskDefinition: aws.String("two"), EnableExecuteCommand: enabled}))
	arn := *out.Tasks[0].TaskArn
	return arn[strings.LastIndexByte(arn, '/')+1:]
}

// `ecsta cp` sends a program in its command, which is longer than what people type, and in lines.
func TestACommandMayHoldAProgram(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.execTask(true)
	w.change(id, runs)
	script := "base64 -d <<EOF > /tmp/tncl\n" + strings.Repeat("f0VMRgIBAQAAAAAA", 2300) + "\nEOF\n\nchmod +x /tmp/tncl\n/tmp/tncl 127.0.0.1:12345 > \"/tmp/there.txt\"\n"
	must[*ecs.ExecuteCommandOutput](t)(w.client.ExecuteCommand(t.Context(), &ecs.ExecuteCommandInput{Task: &id, Container: aws.String("app"), Interactive: true, Command: aws.String("sh -e -c '" + script + "'\n")}))
	if diff := cmp.Diff([]string{fmt.Sprintf("%s 0 %q", id, []string{"sh", "-e", "-c", script})}, w.terminals.opened); diff != "" {
		t.Error(diff)
	}
}

func TestACommandGetsASession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.execTask(true)
	w.change(id, runs)
	out := must[*ecs.ExecuteCommandOutput](t)(w.client.ExecuteCommand(t.Context(), &ecs.ExecuteCommandInput{Task: &id, Container: aws.String("side"), Interactive: true, Command: aws.String(`sh -c "echo 'a  b'; exit"`)}))
	stream := "ws" + strings.TrimPrefix(w.url, "http") + "/v1/data-channel/" + sessionOpen + "?role=publish_subscribe"
	if diff := cmp.Diff([]string{*out.ContainerName, *out.Session.SessionId, *out.Session.StreamUrl, *out.Session.TokenValue}, []string{"side", sessionOpen, stream, "token"}); diff != "" || !out.Interactive {
		t.Error(diff)
	}
	if !strings.HasSuffix(*out.ContainerArn, "/"+id+"/01") || !strings.HasSuffix(*out.TaskArn, "/"+id) || !strings.HasSuffix(*out.ClusterArn, "cluster/default") {
		t.Errorf("%s %s %s", *out.ContainerArn, *out.TaskArn, *out.ClusterArn)
	}
	if diff := cmp.Diff([]string{id + ` 1 ["sh" "-c" "echo 'a  b'; exit"]`}, w.terminals.opened); diff != "" {
		t.Error(diff)
	}
	response, err := http.Get("http" + strings.TrimPrefix(stream, "ws")) //nolint:noctx // a test's
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); string(body) != "the channel of "+sessionOpen || err != nil {
		t.Errorf("%q %v", body, err)
	}

	again := must[*ssm.ResumeSessionOutput](t)(w.sessions().ResumeSession(t.Context(), &ssm.ResumeSessionInput{SessionId: aws.String(sessionOpen)}))
	if *again.SessionId != sessionOpen || *again.StreamUrl != stream || *again.TokenValue != "another" {
		t.Errorf("%s %s %s", *again.SessionId, *again.StreamUrl, *again.TokenValue)
	}
	// Without a token the plugin says that the session has ended.
	gone := must[*ssm.ResumeSessionOutput](t)(w.sessions().ResumeSession(t.Context(), &ssm.ResumeSessionInput{SessionId: aws.String(sessionEnded)}))
	if gone.TokenValue != nil {
		t.Errorf("a session that has ended has the token %s", *gone.TokenValue)
	}
	must[*ssm.TerminateSessionOutput](t)(w.sessions().TerminateSession(t.Context(), &ssm.TerminateSessionInput{SessionId: aws.String(sessionOpen)}))
	if diff := cmp.Diff([]string{sessionOpen}, w.terminals.terminated); diff != "" {
		t.Error(diff)
	}
	var none *ssmtypes.DoesNotExistException
	if _, err := w.sessions().TerminateSession(t.Context(), &ssm.TerminateSessionInput{SessionId: aws.String("mine")}); !errors.As(err, &none) {
		t.Errorf("%v", err)
	}
}

func TestTheOnlyContainerNeedsNoName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.register("web")
	run := must[*ecs.RunTaskOutput](t)(w.client.RunTask(t.Context(), &ecs.RunTaskInput{TaskDefinition: aws.String("web"), EnableExecuteCommand: true}))
	arn := *run.Tasks[0].TaskArn
	w.change(arn[strings.LastIndexByte(arn, '/')+1:], runs)
	out := must[*ecs.ExecuteCommandOutput](t)(w.client.ExecuteCommand(t.Context(), &ecs.ExecuteCommandInput{Task: &arn, Interactive: true, Command: aws.String("sh")}))
	if *out.ContainerName != *run.Tasks[0].Containers[0].Name {
		t.Errorf("the container is %s", *out.ContainerName)
	}
}

func TestCommandsThatAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, closed := w.execTask(true), w.execTask(false)
	body := func(task, more string) string {
		return `{"task": "` + task + `", "container": "app", "command": "sh", "interactive": true` + more + `}`
	}
	refused := func(body, code, says string) {
		t.Helper()
		if status, answer := w.signed("ExecuteCommand", body); status != 400 || !strings.Contains(answer, `"`+code+`"`) || !strings.Contains(answer, says) {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
	refused(body(id, ""), "InvalidParameterException", "not RUNNING")
	w.change(id, runs)
	w.change(closed, runs)
	refused(body(closed, ""), "InvalidParameterException", "execute command was not enabled")
	refused(body(strings.Repeat("0", 32), ""), "InvalidParameterException", "task was not found")
	refused(body("x", ""), "InvalidParameterException", "not the id")
	refused(body(id, `, "cluster": "nowhere"`), "ClusterNotFoundException", "")
	refused(`{"task": "`+id+`", "command": "sh", "interactive": true}`, "InvalidParameterException", "name one of app, side")
	refused(`{"task": "`+id+`", "container": "web", "command": "sh", "interactive": true}`, "InvalidParameterException", `no container`)
	refused(`{"task": "`+id+`", "container": "app", "command": "sh", "interactive": false}`, "InvalidParameterException", "Interactive is the only mode")
	refused(`{"task": "`+id+`", "container": "app", "command": "sh"}`, "InvalidParameterException", "interactive is required")
	for _, command := range []string{"", "  ", "''", "sh -c 'x", `a\\`, `a\u0000b`, strings.Repeat("x", 65<<10), "# nothing"} {
		refused(`{"task": "`+id+`", "container": "app", "interactive": true, "command": "`+command+`"}`, "InvalidParameterException", "command")
	}
	if status, answer := w.post("ExecuteCommand", body(id, "")); status != 400 || !strings.Contains(answer, "aws-listen") {
		t.Errorf("without a connection of its own: %d %s", status, answer)
	}
	w.terminals.full = true
	refused(body(id, ""), "ClientException", "32 sessions")
	w.terminals.full = false
	w.change(id, func(s *lifecycle.State) {
		s.Containers[1].Presence, s.Containers[1].Ended, s.Containers[1].HasExit = lifecycle.Exited, true, true
	})
	refused(strings.Replace(body(id, ""), `"app"`, `"side"`, 1), "TargetNotConnectedException", "side is STOPPED")
	w.change(id, end)
	refused(body(id, ""), "InvalidParameterException", "STOPPED, not RUNNING")
	if w.terminals.opened != nil {
		t.Errorf("%v", w.terminals.opened)
	}
	if status, answer := w.signed("AmazonSSM.GetParameter", `{"Name": "x"}`); status != 400 || !strings.Contains(answer, "UnknownOperationException") {
		t.Errorf("%d %s", status, answer)
	}
}

// ecsta forwards a port with the target that `aws ecs execute-command` makes, and gives the plugin the
// endpoint that it discovers.
func TestAPortIsForwarded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must[*ecs.CreateClusterOutput](t)(w.client.CreateCluster(t.Context(), &ecs.CreateClusterInput{ClusterName: aws.String("a_b")}))
	must[*ecs.RegisterTaskDefinitionOutput](t)(w.client.RegisterTaskDefinition(t.Context(), &ecs.RegisterTaskDefinitionInput{
		Family: aws.String("two"), ContainerDefinitions: []types.ContainerDefinition{{Name: aws.String("app"), Image: aws.String("i"), Memory: aws.Int32(64)}},
	}))
	run := func(enabled bool) string {
		out := must[*ecs.RunTaskOutput](t)(w.client.RunTask(t.Context(), &ecs.RunTaskInput{Cluster: aws.String("a_b"), TaskDefinition: aws.String("two"), EnableExecuteCommand: enabled}))
		id := (*out.Tasks[0].TaskArn)[strings.LastIndexByte(*out.Tasks[0].TaskArn, '/')+1:]
		w.change(id, func(s *lifecycle.State) { s.Containers[0].ID = "f00" + id })
		return id
	}
	id, closed := run(true), run(false)
	in := &ssm.StartSessionInput{
		Target: aws.String("ecs:a_b_" + id + "_f00" + id), DocumentName: aws.String("AWS-StartPortForwardingSession"), Reason: aws.String("port forwarding"),
		Parameters: map[string][]string{"portNumber": {"8080"}, "localPortNumber": {"0"}},
	}
	if _, err := w.sessions().StartSession(t.Context(), in); code(err) != "TargetNotConnected" {
		t.Errorf("a task that does not run: %v", err)
	}
	w.change(id, runs)
	w.change(closed, runs)
	out := must[*ssm.StartSessionOutput](t)(w.sessions().StartSession(t.Context(), in))
	stream := "ws" + strings.TrimPrefix(w.url, "http") + "/v1/data-channel/" + sessionForward + "?role=publish_subscribe"
	if diff := cmp.Diff([]string{sessionForward, stream, "token", id + " 0 forwards 8080 to 0"}, append([]string{*out.SessionId, *out.StreamUrl, *out.TokenValue}, w.terminals.opened...)); diff != "" {
		t.Error(diff)
	}
	endpoint := must[*ecs.DiscoverPollEndpointOutput](t)(w.client.DiscoverPollEndpoint(t.Context(), &ecs.DiscoverPollEndpointInput{Cluster: aws.String("a_b")}))
	if *endpoint.Endpoint != w.url+"/" {
		t.Errorf("the endpoint is %s", *endpoint.Endpoint)
	}
	for _, c := range []struct{ target, document, parameters, code, says string }{
		{*in.Target, "SSM-SessionManagerRunShell", `{}`, "InvalidDocument", "execute-command"},
		{*in.Target, "AWS-StartPortForwardingSessionToRemoteHost", `{"host": ["db"], "portNumber": ["1"]}`, "InvalidDocument", "ports of containers"},
		{*in.Target, forwardDocument, `{"portNumber": ["0"]}`, "InvalidParameters", "no port"},
		{*in.Target, forwardDocument, `{"portNumber": ["70000"]}`, "InvalidParameters", "no port"},
		{*in.Target, forwardDocument, `{"portNumber": ["1", "2"]}`, "InvalidParameters", "one value"},
		{*in.Target, forwardDocument, `{"host": ["db"]}`, "InvalidParameters", "host"},
		{"i-0123456789", forwardDocument, `{}`, "TargetNotConnected", "ecs:CLUSTER"},
		{"ecs:a_b_" + id + "_other", forwardDocument, `{}`, "TargetNotConnected", "runtime ID"},
		{"ecs:a_b_" + id + "_", forwardDocument, `{}`, "TargetNotConnected", "runtime ID"},
		{"ecs:default_" + id + "_f00" + id, forwardDocument, `{}`, "TargetNotConnected", "no such task"},
		{"ecs:nowhere_" + id + "_f00" + id, forwardDocument, `{}`, "TargetNotConnected", "no such cluster"},
		{"ecs:a_b_" + closed + "_f00" + closed, forwardDocument, `{}`, "TargetNotConnected", "not enabled"},
	} {
		body := fmt.Sprintf(`{"Target": %q, "DocumentName": %q, "Parameters": %s}`, c.target, c.document, c.parameters)
		if status, answer := w.signed("AmazonSSM.StartSession", body); status != 400 || !strings.Contains(answer, `"`+c.code+`"`) || !strings.Contains(answer, c.says) {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
	if len(w.terminals.opened) != 1 {
		t.Errorf("%v", w.terminals.opened)
	}
	if status, answer := w.post("DiscoverPollEndpoint", `{}`); status != 400 || !strings.Contains(answer, "aws-listen") {
		t.Errorf("without an address: %d %s", status, answer)
	}
}

const forwardDocument = "AWS-StartPortForwardingSession"

// A tool that waits for the agent of execute-command sees it with the container. What a service
// says counts for its tasks.
func TestWhereCommandsCanBeRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	look := func(id string) (enabled bool, agents []types.ManagedAgent) {
		t.Helper()
		out := must[*ecs.DescribeTasksOutput](t)(w.client.DescribeTasks(t.Context(), &ecs.DescribeTasksInput{Tasks: []string{id}}))
		return out.Tasks[0].EnableExecuteCommand, out.Tasks[0].Containers[0].ManagedAgents
	}
	id := w.execTask(true)
	if on, agents := look(id); !on || len(agents) != 1 || *agents[0].LastStatus != "PENDING" || agents[0].LastStartedAt != nil {
		t.Errorf("%v %+v", on, agents)
	}
	w.change(id, runs)
	if on, agents := look(id); !on || len(agents) != 1 || agents[0].Name != types.ManagedAgentNameExecuteCommandAgent || *agents[0].LastStatus != "RUNNING" || agents[0].LastStartedAt.Unix() != 2000 {
		t.Errorf("%v %+v", on, agents)
	}
	id = w.execTask(false)
	if on, agents := look(id); on || agents != nil {
		t.Errorf("%v %+v", on, agents)
	}
	must[*ecs.CreateServiceOutput](t)(w.client.CreateService(t.Context(), &ecs.CreateServiceInput{ServiceName: aws.String("web"), TaskDefinition: aws.String("two"), DesiredCount: aws.Int32(1)}))
	w.change(id, func(s *lifecycle.State) { s.Options.Service = "web" })
	if on, _ := look(id); on {
		t.Error("a service without it allows it")
	}
	must[*ecs.UpdateServiceOutput](t)(w.client.UpdateService(t.Context(), &ecs.UpdateServiceInput{Service: aws.String("web"), EnableExecuteCommand: aws.Bool(true)}))
	if on, _ := look(id); !on {
		t.Error("a service with it does not allow it")
	}
}
