//go:build e2e

//e2e:bed systemd

package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

// openLoad asks a port at a rate, whether or not the answers before have come: one of twenty requests on a
// connection of its own, the others on kept ones, all with a body. It needs a host with time for it: requests
// pile up in a stall. More connections are too many for pasta, which Podman publishes ports with: after some
// 14,000 of them to a copy in a minute, each costs it much more time, and its queue of 128 overflows.
type openLoad struct {
	t     *testing.T
	port  int
	every time.Duration

	stop chan struct{}
	all  sync.WaitGroup
	kept chan *keptConn
	// dialed counts connections.
	dialed atomic.Uint32

	mu      sync.Mutex
	begin   time.Time
	answers map[string]int
	lost    []error
}

// keptConn is a connection for several requests. A client keeps it for less than the time to drain.
type keptConn struct {
	net.Conn
	lines *bufio.Reader
	until time.Time
}

const keptFor = 3 * time.Second

// startLoad begins to ask a port.
func startLoad(t *testing.T, port, perSecond int) *openLoad {
	l := &openLoad{t: t, port: port, every: time.Second / time.Duration(perSecond), stop: make(chan struct{}), kept: make(chan *keptConn, 64), begin: time.Now(), answers: make(map[string]int)}
	l.all.Go(func() {
		// What a tick was late for is made up for: the rate is that of the clock.
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; {
			select {
			case <-l.stop:
				return
			case <-tick.C:
			}
			for ; n < int(time.Since(l.begin)/l.every); n++ {
				l.all.Go(func() { l.ask(n%20 == 0) })
			}
		}
	})
	t.Cleanup(l.end)
	return l
}

func (l *openLoad) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
}

// ask sends a request and counts its answer.
func (l *openLoad) ask(once bool) {
	asked := time.Since(l.begin)
	text, err := l.request(once)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.lost = append(l.lost, fmt.Errorf("asked after %v, on a connection of its own: %t, lost after %v: %w", asked.Round(time.Millisecond), once, time.Since(l.begin).Round(time.Millisecond), err))
		return
	}
	l.answers[text]++
}

func (l *openLoad) request(once bool) (answer string, err error) {
	var c *keptConn
	for c == nil && !once {
		select {
		case c = <-l.kept:
			if time.Now().After(c.until) {
				c.Close()
				c = nil
				continue
			}
		default:
		}
		break
	}
	if c == nil {
		// Of one address, the ports that wait for late packets would be used up after 28,000 connections in a minute.
		from := net.IPv4(127, 0, 1, byte(1+l.dialed.Add(1)%200))
		conn, err := (&net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: from}}).Dial("tcp", fmt.Sprintf("127.0.0.1:%d", l.port))
		if err != nil {
			return "", err
		}
		c = &keptConn{conn, bufio.NewReader(conn), time.Now().Add(keptFor)}
	}
	defer func() {
		if once || err != nil {
			c.Close()
			return
		}
		select {
		case l.kept <- c:
		default:
			c.Close()
		}
	}()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	body := strings.Repeat("x", 3000)
	if _, err := fmt.Fprintf(c, "POST /env/GREETING HTTP/1.1\r\nHost: service\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
		return "", fmt.Errorf("send: %w", err)
	}
	r, err := http.ReadResponse(c.lines, nil)
	if err != nil {
		return "", fmt.Errorf("receive: %w", err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	name, n, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	if err == nil && (r.StatusCode != http.StatusOK || n != fmt.Sprint(len(body))) {
		err = fmt.Errorf("status %s: %s", r.Status, text)
	}
	return name, err
}

// none checks that no request was lost, and returns the answers.
func (l *openLoad) none() map[string]int {
	l.t.Helper()
	l.end()
	l.all.Wait()
	for len(l.kept) > 0 {
		(<-l.kept).Close()
	}
	total := 0
	for _, n := range l.answers {
		total += n
	}
	l.t.Logf("answers: %v, %d in all", l.answers, total)
	if n := len(l.lost); n > 0 {
		l.t.Errorf("%d requests were lost, the first and the last:\n%v\n%v", n, l.lost[0], l.lost[n-1])
	}
	return l.answers
}

// answerHooks writes a configuration in which a program answers the Lambda functions ok and broken, and
// returns the file in which it writes what it is called with.
func (b *box) answerHooks() (calls string) {
	b.t.Helper()
	home := filepath.Join(b.dir, "config")
	calls = filepath.Join(b.dir, "calls")
	program := b.file("hook", "#!/bin/sh\n{ cat; echo; } >>"+calls+"\nif [ \"$1\" = broken ] && [ \"$PODTASK_LIFECYCLE_STAGE\" = POST_PRODUCTION_TRAFFIC_SHIFT ]; then echo 'too many errors' >&2; echo '{\"hookStatus\": \"FAILED\"}'; else echo '{\"hookStatus\": \"SUCCEEDED\"}'; fi\n")
	userConfig, err := os.UserConfigDir()
	if err != nil {
		b.t.Fatal(err)
	}
	config := fmt.Sprintf("[[reference]]\nmatch = \"arn:aws:lambda:*:function:*\"\ncommand = [%q, \"{2}\"]\n", program)
	if err := errors.Join(
		os.Chmod(program, 0o700), os.MkdirAll(filepath.Join(home, "podtask"), 0o700),
		os.Symlink(filepath.Join(userConfig, "containers"), filepath.Join(home, "containers")), // Podman's
		os.WriteFile(filepath.Join(home, "podtask", "podtask.toml"), []byte(config), 0o600),
	); err != nil {
		b.t.Fatal(err)
	}
	b.env = append(b.env, "XDG_CONFIG_HOME="+home)
	return calls
}

// function is a hook of a Lambda function in some stages.
func function(name string, stages ...types.DeploymentLifecycleHookStage) types.DeploymentLifecycleHook {
	return types.DeploymentLifecycleHook{HookTargetArn: aws.String("arn:aws:lambda:eu-west-1:111122223333:function:" + name), RoleArn: aws.String("arn:aws:iam::111122223333:role/hooks"), LifecycleStages: stages}
}

// A linear deployment that pauses and is continued, and a canary that its hook rolls back, under a load that
// loses nothing: AWS' client asks for both, a program of this host answers their Lambda functions.
func TestTrafficShiftsLoseNoRequest(t *testing.T) {
	t.Parallel()
	trafficShifts(t, 300, 0)
}

// trafficShifts shifts the connections of a service forward and back under a load, which lasts for a time at least.
func trafficShifts(t *testing.T, perSecond int, least time.Duration) {
	b := newBox(t)
	calls := b.answerHooks()
	address, at := loopback(t), freePort(t)
	agent := b.agent("--aws-listen=" + address)
	s := ecsService{b, ecsClient(b, address)}
	one, two, three := s.greets("one"), s.greets("two"), s.greets("three")
	made, err := s.client.CreateService(t.Context(), &ecs.CreateServiceInput{ServiceName: &b.family, TaskDefinition: &one, DesiredCount: aws.Int32(2), DeploymentConfiguration: &types.DeploymentConfiguration{Strategy: types.DeploymentStrategyBlueGreen, BakeTimeInMinutes: aws.Int32(0)}})
	if err != nil {
		t.Fatal(err)
	}
	s.wait(*made.Service.CurrentServiceDeployment, types.ServiceDeploymentStatusSuccessful)
	b.want(0, "service", "update", b.family, fmt.Sprintf("--listen=127.0.0.1:%d=app:8080", at), "--drain=12s")
	b.wantAnswer(at, "one")
	load := startLoad(t, at, perSecond)
	s.shiftInSteps(two, calls)
	s.shiftAndBack(three)
	eventually(t, "the time of the load", func() bool { return time.Since(load.begin) >= least })
	if answers := load.none(); answers["one"] == 0 || answers["two"] == 0 { // three has connections for moments only
		t.Errorf("answers by copies: %v, want some of both revisions that stayed", answers)
	}
	if t.Failed() {
		var undialed []string
		for line := range strings.Lines(agent.err.String()) {
			if strings.Contains(line, "a target cannot be dialed") {
				undialed = append(undialed, line)
			}
		}
		t.Logf("%d attempts to dial a copy failed, the last: %s", len(undialed), lastLines(strings.Join(undialed, ""), 5))
	}
	b.wantAnswer(at, "two")
	b.removeService()
}

// greets registers a definition whose copies answer with a greeting.
func (s ecsService) greets(greeting string) (definition string) {
	s.t.Helper()
	out, err := s.client.RegisterTaskDefinition(s.t.Context(), &ecs.RegisterTaskDefinitionInput{Family: &s.family, NetworkMode: types.NetworkModeAwsvpc, ContainerDefinitions: []types.ContainerDefinition{{
		Name: aws.String("app"), Image: aws.String(s.testbox()), Command: words("term 0 -- serve 8080 -- write /tmp/well"), Environment: []types.KeyValuePair{{Name: aws.String("GREETING"), Value: &greeting}},
		PortMappings: []types.PortMapping{{ContainerPort: aws.Int32(8080)}}, HealthCheck: &types.HealthCheck{Command: []string{"CMD", "/testbox", "exists", "/tmp/well"}, Interval: aws.Int32(5)},
	}}})
	if err != nil {
		s.t.Fatal(err)
	}
	return *out.TaskDefinition.TaskDefinitionArn
}

// roll updates the service to a definition in a way, and returns the deployment that begins.
func (s ecsService) roll(definition string, c types.DeploymentConfiguration) (arn string) {
	s.t.Helper()
	out, err := s.client.UpdateService(s.t.Context(), &ecs.UpdateServiceInput{Service: &s.family, TaskDefinition: &definition, DeploymentConfiguration: &c})
	if err != nil {
		s.t.Fatal(err)
	}
	return *out.Service.CurrentServiceDeployment
}

// shiftInSteps deploys in four steps, with a pause before the first, and looks at what the hook of each was called with.
func (s ecsService) shiftInSteps(definition, calls string) {
	s.t.Helper()
	linear := s.roll(definition, types.DeploymentConfiguration{
		Strategy: types.DeploymentStrategyLinear, LinearConfiguration: &types.LinearConfiguration{StepPercent: aws.Float64(25), StepBakeTimeInMinutes: aws.Int32(0)},
		LifecycleHooks: []types.DeploymentLifecycleHook{
			function("ok", types.DeploymentLifecycleHookStageProductionTrafficShift),
			{TargetType: types.DeploymentLifecycleHookTargetTypePause, LifecycleStages: []types.DeploymentLifecycleHookStage{types.DeploymentLifecycleHookStagePostTestTrafficShift}},
		},
	})
	var paused types.ServiceDeployment
	eventually(s.t, "a pause", func() bool {
		paused = s.deployment(linear)
		return len(paused.LifecycleHookDetails) > 0
	})
	if h := paused.LifecycleHookDetails[0]; paused.LifecycleStage != "POST_TEST_TRAFFIC_SHIFT" || h.Status != "AWAITING_ACTION" || aws.ToFloat64(paused.TargetServiceRevision.RequestedProductionTrafficWeight) != 0 {
		s.t.Errorf("%+v %+v", paused, h)
	}
	if _, err := s.client.ContinueServiceDeployment(s.t.Context(), &ecs.ContinueServiceDeploymentInput{ServiceDeploymentArn: &linear, HookId: paused.LifecycleHookDetails[0].HookId}); err != nil {
		s.t.Fatal(err)
	}
	s.wait(linear, types.ServiceDeploymentStatusSuccessful)
	var weights []float64
	text, err := os.ReadFile(calls)
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var call struct {
			Details struct {
				Target     string             `json:"targetServiceRevisionArn"`
				Production map[string]float64 `json:"productionTrafficWeights"`
			} `json:"executionDetails"`
		}
		if err := json.Unmarshal([]byte(line), &call); err != nil {
			s.t.Fatalf("%s: %v", line, err)
		}
		weights = append(weights, call.Details.Production[call.Details.Target])
	}
	if got := fmt.Sprint(weights); got != "[25 50 75 100]" {
		s.t.Errorf("the hook was called with the weights %s", got)
	}
}

// shiftAndBack deploys a canary that gets all, and is then found to be broken.
func (s ecsService) shiftAndBack(definition string) {
	s.t.Helper()
	canary := s.roll(definition, types.DeploymentConfiguration{
		Strategy: types.DeploymentStrategyCanary, CanaryConfiguration: &types.CanaryConfiguration{CanaryPercent: aws.Float64(10), CanaryBakeTimeInMinutes: aws.Int32(0)},
		LifecycleHooks: []types.DeploymentLifecycleHook{function("broken", types.DeploymentLifecycleHookStagePostProductionTrafficShift, types.DeploymentLifecycleHookStageProductionTrafficShift)},
	})
	back := s.wait(canary, types.ServiceDeploymentStatusRollbackSuccessful)
	if reason := aws.ToString(back.StatusReason); !strings.Contains(reason, "POST_PRODUCTION_TRAFFIC_SHIFT hooks failed: broken: it answered FAILED; it wrote: too many errors") {
		s.t.Errorf("the reason is %q", reason)
	}
}
