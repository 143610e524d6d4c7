//go:build e2e

//e2e:bed systemd

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
)

// forwardPort does what `ecsta portforward` does: it asks for a session and gives it to AWS' plugin
// with the endpoint that it discovers.
func forwardPort(b *box, c *ecs.Client, address, task string, port int) *terminal {
	b.t.Helper()
	described, err := c.DescribeTasks(b.t.Context(), &ecs.DescribeTasksInput{Tasks: []string{task}})
	if err != nil || len(described.Tasks) != 1 {
		b.t.Fatalf("%+v %v", described, err)
	}
	target := "ecs:default_" + task + "_" + *described.Tasks[0].Containers[0].RuntimeId
	endpoint, err := c.DiscoverPollEndpoint(b.t.Context(), &ecs.DiscoverPollEndpointInput{})
	if err != nil {
		b.t.Fatal(err)
	}
	env := awsEnv(b, address)
	sessions := ssm.New(ssm.Options{BaseEndpoint: aws.String(env["AWS_ENDPOINT_URL"]), Region: env["AWS_REGION"], Credentials: awsCredentials(env)})
	out, err := sessions.StartSession(b.t.Context(), &ssm.StartSessionInput{
		Target: &target, DocumentName: aws.String("AWS-StartPortForwardingSession"),
		Parameters: map[string][]string{"portNumber": {fmt.Sprint(port)}, "localPortNumber": {"0"}},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	session, err := json.Marshal(out)
	if err != nil {
		b.t.Fatal(err)
	}
	plugin := os.Getenv("PODTASK_PLUGINBOX")
	return onTerminalWith(b, func(cmd *exec.Cmd) {
		cmd.Path, cmd.Args[0] = plugin, plugin
		for name, value := range env {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}, string(session), env["AWS_REGION"], "StartSession", "", `{"Target":"`+target+`"}`, *endpoint.Endpoint)
}

// get is a request over a connection of its own.
func get(url string) (string, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	r, err := client.Get(url) //nolint:noctx // it has a timeout
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	return string(body), err
}

var openedPort = regexp.MustCompile(`Port (\d+) opened for sessionId port-forwarding-`)

// localPort is the port that the plugin listens on.
func localPort(plugin *terminal) (port string) {
	plugin.t.Helper()
	eventually(plugin.t, "the port of the plugin", func() bool {
		found := openedPort.FindStringSubmatch(plugin.screen.String())
		if found != nil {
			port = found[1]
		}
		return found != nil
	})
	return port
}

// A port that is not published is reached through AWS' plugin, over several connections, and one on
// which no server listens has an error.
func TestAWSPluginForwardsAPort(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	address := loopback(t)
	b.agent("--aws-listen=" + address)
	c := ecsClient(b, address)
	definition := registerECS(b, c, "term 0 -- serve 8080")
	out, err := c.RunTask(t.Context(), &ecs.RunTaskInput{TaskDefinition: &definition, EnableExecuteCommand: true})
	if err != nil || len(out.Tasks) != 1 {
		t.Fatalf("%+v %v", out, err)
	}
	arn := *out.Tasks[0].TaskArn
	if err := ecs.NewTasksRunningWaiter(c, func(o *ecs.TasksRunningWaiterOptions) { o.MinDelay, o.MaxDelay = time.Second, time.Second }).Wait(t.Context(), &ecs.DescribeTasksInput{Tasks: []string{arn}}, within); err != nil {
		t.Fatal(err)
	}
	task := arn[strings.LastIndexByte(arn, '/')+1:]

	plugin := forwardPort(b, c, address, task, 8080)
	port := localPort(plugin)
	var want string
	eventually(t, "the server", func() bool {
		want, err = get("http://127.0.0.1:" + port + "/")
		return err == nil && want != ""
	})
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if got, err := get("http://127.0.0.1:" + port + "/"); err != nil || got != want {
				t.Errorf("%q %v, want %q", got, err, want)
			}
		})
	}
	wg.Wait()
	plugin.keysIn("\x03")
	plugin.see("Exiting session with sessionId: port-forwarding-")
	plugin.want(0)

	closed := forwardPort(b, c, address, task, 81)
	port = localPort(closed)
	if body, err := get("http://127.0.0.1:" + port + "/"); err == nil {
		t.Errorf("a closed port answers %q", body)
	}
	closed.see("Connection to destination port failed")
	closed.keysIn("\x03")
	closed.want(0)
	if _, err := c.StopTask(t.Context(), &ecs.StopTaskInput{Task: &arn}); err != nil {
		t.Fatal(err)
	}
	if err := ecs.NewTasksStoppedWaiter(c, func(o *ecs.TasksStoppedWaiterOptions) { o.MinDelay, o.MaxDelay = time.Second, time.Second }).Wait(t.Context(), &ecs.DescribeTasksInput{Tasks: []string{arn}}, within); err != nil {
		t.Fatal(err)
	}
	b.want(0, "rm", task)
}
