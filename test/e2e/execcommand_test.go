//go:build e2e

//e2e:bed systemd

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/aws/smithy-go"
)

// shellTask runs a task with a shell through the ECS API and returns its ID.
func shellTask(b *box, c *ecs.Client, enabled bool) string {
	b.t.Helper()
	ref, _ := b.push("shell:1", shellImage(b.t))
	if _, err := c.RegisterTaskDefinition(b.t.Context(), &ecs.RegisterTaskDefinitionInput{
		Family: &b.family, NetworkMode: types.NetworkModeAwsvpc, ContainerDefinitions: []types.ContainerDefinition{{Name: aws.String("app"), Image: &ref, Command: words("sleep forever"), StopTimeout: aws.Int32(2)}},
	}); err != nil {
		b.t.Fatal(err)
	}
	out, err := c.RunTask(b.t.Context(), &ecs.RunTaskInput{TaskDefinition: &b.family, EnableExecuteCommand: enabled})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, f := range out.Failures {
		b.t.Fatal(*f.Detail)
	}
	tasks := &ecs.DescribeTasksInput{Tasks: []string{*out.Tasks[0].TaskArn}}
	if err := ecs.NewTasksRunningWaiter(c, func(o *ecs.TasksRunningWaiterOptions) { o.MinDelay, o.MaxDelay = time.Second, time.Second }).Wait(b.t.Context(), tasks, within); err != nil {
		b.t.Fatal(err)
	}
	arn := *out.Tasks[0].TaskArn
	return arn[strings.LastIndexByte(arn, '/')+1:]
}

// executeCommand does what `aws ecs execute-command` does: it asks for a session and gives it to
// AWS' plugin, which is built from its own source, on a terminal.
func executeCommand(b *box, c *ecs.Client, address, task, command string) *terminal {
	b.t.Helper()
	out, err := c.ExecuteCommand(b.t.Context(), &ecs.ExecuteCommandInput{Task: &task, Container: aws.String("app"), Interactive: true, Command: &command})
	if err != nil {
		b.t.Fatal(err)
	}
	session, err := json.Marshal(map[string]string{"sessionId": *out.Session.SessionId, "streamUrl": *out.Session.StreamUrl, "tokenValue": *out.Session.TokenValue})
	if err != nil {
		b.t.Fatal(err)
	}
	env := awsEnv(b, address)
	plugin := os.Getenv("PODTASK_PLUGINBOX")
	return onTerminalWith(b, func(cmd *exec.Cmd) {
		cmd.Path, cmd.Args[0] = plugin, plugin
		for name, value := range env {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}, string(session), env["AWS_REGION"], "StartSession", "", `{"Target":"ecs:default_`+task+`_1"}`, env["AWS_ENDPOINT_URL"])
}

func TestAWSPluginHasAShell(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	address := loopback(t)
	b.agent("--aws-listen=" + address)
	c := ecsClient(b, address)
	task := shellTask(b, c, true)
	sh := executeCommand(b, c, address, task, "sh")
	sh.see("#")
	sh.keysIn("stty size\n")
	sh.see("24 80")
	for columns := uint16(100); columns < 110; columns++ { // the plugin sends sizes and keys at the same time
		sh.resize(50, columns)
		eventually(t, "the new size", func() bool {
			sh.keysIn("stty size\n")
			return sh.screen.cut(fmt.Sprint("50 ", columns))
		})
	}
	sh.keysIn("echo be''gun $TERM; sleep 1000\n")
	sh.see("begun xterm-256color")
	eventually(t, "the sleep", func() bool { return strings.Contains(b.top(), "sleep 1000") })
	sh.keysIn("\x03")
	sh.see("^C") // the plugin sends it apart from what is typed
	sh.see("#")
	sh.keysIn("echo it was $?\n")
	sh.see("it was 130")
	sh.keysIn("i=0; while [ $i -lt 30000 ]; do echo line $i; i=$((i+1)); done; echo d''one\n")
	sh.see("line 29999")
	sh.see("done")
	sh.keysIn("exit\n")
	sh.see("Exiting session with sessionId: ecs-execute-command-")
	sh.want(0)
	if top := b.top(); strings.Contains(top, "sh\n") {
		t.Errorf("the shell is still there:\n%s", top)
	}

	none := executeCommand(b, c, address, task, "nosuch -x")
	none.see(`the container has no command "nosuch"`)
	none.want(0)
	quoted := executeCommand(b, c, address, task, `sh -c "echo 'a  b'; exit 3"`)
	quoted.see("a  b")
	quoted.see("Exiting session")
	quoted.want(0)

	if _, err := c.StopTask(t.Context(), &ecs.StopTaskInput{Task: &task}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the refusal", func() bool {
		_, err := c.ExecuteCommand(t.Context(), &ecs.ExecuteCommandInput{Task: &task, Interactive: true, Command: aws.String("sh")})
		var refused smithy.APIError
		return errors.As(err, &refused) && refused.ErrorCode() == "InvalidParameterException"
	})
	closed := shellTask(b, c, false)
	var refused *types.InvalidParameterException
	if _, err := c.ExecuteCommand(t.Context(), &ecs.ExecuteCommandInput{Task: &closed, Interactive: true, Command: aws.String("sh")}); !errors.As(err, &refused) || !strings.Contains(*refused.Message, "not enabled") {
		t.Errorf("without enableExecuteCommand: %v", err)
	}
	b.want(0, append([]string{"rm", "-f"}, strings.Fields(b.want(0, "ps", "-aq").out)...)...)
}

// cable is a way to an address that can be cut.
type cable struct {
	mu    sync.Mutex
	conns []net.Conn
}

// newCable returns a way to an address and its own address.
func newCable(b *box, to string) (c *cable, address string) {
	b.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	c = new(cable)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				_ = near.Close()
				continue
			}
			c.mu.Lock()
			c.conns = append(c.conns, near, far)
			c.mu.Unlock()
			wg.Go(func() { _, _ = io.Copy(near, far); _ = near.Close() })
			wg.Go(func() { _, _ = io.Copy(far, near); _ = far.Close() })
		}
	})
	b.t.Cleanup(func() {
		_ = l.Close()
		c.cut()
		wg.Wait()
	})
	return c, l.Addr().String()
}

// cut breaks all connections off.
func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	c.conns = nil
}

// The address by which a client has reached the agent is that of its terminal too.
func TestAWSPluginComesBackToItsShell(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	address := loopback(t)
	b.agent("--aws-listen=" + address)
	wire, through := newCable(b, address)
	c := ecsClient(b, through)
	task := shellTask(b, c, true)
	const lines = 20_000
	sh := executeCommand(b, c, through, task, fmt.Sprintf(`sh -c "i=0; while [ $i -lt %d ]; do echo line $i.; i=$((i+1)); done"`, lines))
	for _, line := range []int{1_000, 8_000, 15_000} {
		eventually(t, "output", func() bool { return strings.Contains(sh.screen.String(), fmt.Sprintf("line %d.", line)) })
		wire.cut()
	}
	// Nothing is typed: the plugin reads no more keys after one that it could not send.
	eventually(t, "the end", func() bool { return strings.Contains(sh.screen.String(), "Exiting session") })
	sh.want(0)
	// The plugin shows a message whose acknowledgement it cannot send, and again when it comes
	// again: up to 1024 bytes for each cut, also from the middle of a line.
	seen, shown := make(map[string]bool), 0
	for line := range strings.Lines(sh.screen.String()) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "line ") {
			seen[line], shown = true, shown+1
		}
	}
	for n := range lines {
		if !seen[fmt.Sprintf("line %d.", n)] {
			t.Errorf("line %d is lost", n)
		}
	}
	if most := 3 * (1024/len("line 0.\r\n") + 2); shown > lines+most {
		t.Errorf("%d lines come again", shown-lines)
	}
	b.want(0, "stop", task)
	b.want(0, "rm", task)
}

// A client that is killed is waited for a minute, because it may come back.
func TestAWSPluginThatIsKilledLeavesNoCommand(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	address := loopback(t)
	agent := b.agent("--aws-listen=" + address)
	c := ecsClient(b, address)
	task := shellTask(b, c, true)
	sh := executeCommand(b, c, address, task, `sh -c "trap '' HUP; echo re''ady; sleep 3000"`)
	sh.see("ready")
	sh.kill()
	eventually(t, "the end of the command", func() bool { return !strings.Contains(b.top(), "3000") })

	left := executeCommand(b, c, address, task, `sh -c "echo re''ady; sleep 4000"`)
	left.see("ready")
	agent.end()
	left.see("the agent is ending")
	left.want(0)
	if top := b.top(); strings.Contains(top, "4000") {
		t.Errorf("the agent has ended, its command has not:\n%s", top)
	}
	b.want(0, append([]string{"rm", "-f"}, strings.Fields(b.want(0, "ps", "-aq").out)...)...)
}
