package metadata

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/fault"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// injector is a task whose network does what it is told.
type injector struct {
	st      *lifecycle.State
	refused error
	failure error // of a start
}

func (i *injector) Refused() error { return i.refused }

func (i *injector) Start(_ context.Context, f fault.Fault, _ time.Duration) error {
	if i.failure != nil {
		return i.failure
	}
	f.Since = start
	faults, err := fault.Add(i.st.Faults, f)
	if err == nil {
		i.st.Faults = faults
	}
	return err
}

func (i *injector) Stop(_ context.Context, like fault.Fault) error {
	i.st.Faults = fault.Remove(i.st.Faults, like)
	return nil
}

// conversing returns a server of a task with faults, and a function that makes requests five seconds apart.
func conversing(t *testing.T, i *injector) func(path, body string, code int, want string) {
	st := running()
	i.st = &st
	src := source(st)
	now := start
	src.State, src.Faults, src.Now = func() lifecycle.State { return st }, i, func() time.Time { return now }
	s := New(src)
	return func(path, body string, code int, want string) {
		t.Helper()
		now = now.Add(5 * time.Second)
		if got, text := send(s, "POST", "/api/"+containerID(key, "web")+"/fault/v1/network-"+path, body); got != code || text != want {
			t.Errorf("%s %s: %d %s\nwant %d %s", path, body, got, text, code, want)
		}
	}
}

// The conversations of ECS: its documentation (fault-injection-endpoints) and the tests of its agent.
func TestFaultConversations(t *testing.T) {
	t.Parallel()
	i := &injector{}
	ask := conversing(t, i)
	const (
		isRunning, stopped, notRunning = `{"Status":"running"}`, `{"Status":"stopped"}`, `{"Status":"not-running"}`

		hole    = `{"Port":1234,"Protocol":"tcp","TrafficType":"ingress"}`
		latency = `{"DelayMilliseconds":123,"JitterMilliseconds":4,"Sources":["10.0.0.1","10.1.0.0/16"],"SourcesToFilter":["10.1.1.1"]}`
		loss    = `{"LossPercent":6,"Sources":["2001:db8::/32"],"FlowsPercent":50,"Unknown":true}`
	)
	ask("blackhole-port/status", hole, 200, notRunning)
	ask("blackhole-port/stop", hole, 200, stopped)
	ask("blackhole-port/start", hole, 200, isRunning)
	ask("blackhole-port/start", hole, 200, isRunning)
	ask("blackhole-port/status", hole, 200, isRunning)
	ask("blackhole-port/status", strings.Replace(hole, "1234", "1235", 1), 200, notRunning)
	ask("latency/status", "", 200, notRunning)
	ask("latency/start", latency, 200, isRunning)
	ask("latency/start", latency, 409, `{"Error":"There is already one network latency fault running"}`)
	ask("packet-loss/start", loss, 409, `{"Error":"There is already one network latency fault running"}`)
	ask("packet-loss/status", "", 200, notRunning)
	ask("latency/status", "{}", 200, isRunning)
	ask("latency/stop", "", 200, stopped)
	ask("packet-loss/start", loss, 200, isRunning)
	ask("latency/start", latency, 409, `{"Error":"There is already one network packet loss fault running"}`)
	if len(i.st.Faults) != 2 || i.st.Faults[1].FlowsPercent != 50 || i.st.Faults[1].Sources[0] != "2001:db8::/32" {
		t.Errorf("%+v", i.st.Faults)
	}
	ask("packet-loss/stop", "", 200, stopped)
	ask("packet-loss/stop", "", 200, stopped)
	ask("blackhole-port/stop", hole, 200, stopped)
	if len(i.st.Faults) != 0 {
		t.Errorf("%+v", i.st.Faults)
	}
}

// The document about a task says whether it may have faults.
func TestTheTaskSaysThatItMayHaveFaults(t *testing.T) {
	t.Parallel()
	st := running()
	st.Task.FaultInjection = true
	if _, body := ask(t, New(source(st)), "/v4/"+containerID(key, "web")+"/task"); !strings.Contains(body, `"FaultInjectionEnabled":true`) {
		t.Errorf("%s", body)
	}
}

// What the agent of ECS refuses, in its words.
func TestFaultRequestsThatAreRefused(t *testing.T) {
	t.Parallel()
	ask := conversing(t, &injector{})
	refused := func(path, body, why string) {
		t.Helper()
		ask(path, body, http.StatusBadRequest, `{"Error":"`+why+`"}`)
	}
	for _, verb := range []string{"start", "stop", "status"} {
		refused("blackhole-port/"+verb, "", "required request body is missing")
		refused("blackhole-port/"+verb, `{"Port":"1234","Protocol":"tcp","TrafficType":"ingress"}`, "json: cannot unmarshal string into Go struct field NetworkBlackholePortRequest.Port of type uint16")
		refused("blackhole-port/"+verb, `{"Port":1234,"Protocol":"tcp"}`, "required parameter TrafficType is missing")
		refused("blackhole-port/"+verb, `{"Port":1234,"Protocol":"tcp","TrafficType":""}`, "required parameter TrafficType is missing")
		refused("blackhole-port/"+verb, `{"Port":1234,"Protocol":"invalid","TrafficType":"ingress"}`, "invalid value invalid for parameter Protocol")
		refused("blackhole-port/"+verb, `{"Port":1234,"Protocol":"udp","TrafficType":"invalid"}`, "invalid value invalid for parameter TrafficType")
	}
	refused("latency/start", "", "required request body is missing")
	refused("latency/start", `{"JitterMilliseconds":1,"Sources":["10.0.0.1"]}`, "required parameter DelayMilliseconds is missing")
	refused("latency/start", `{"DelayMilliseconds":1,"Sources":["10.0.0.1"]}`, "required parameter JitterMilliseconds is missing")
	refused("latency/start", `{"DelayMilliseconds":0,"JitterMilliseconds":0,"Sources":["10.0.0.1"]}`, "required either DelayMilliseconds or JitterMilliseconds to be non-zero")
	refused("latency/start", `{"DelayMilliseconds":1,"JitterMilliseconds":0}`, "required parameter Sources is missing")
	refused("latency/start", `{"DelayMilliseconds":1,"JitterMilliseconds":0,"Sources":["10.0.0"]}`, "invalid value 10.0.0 for parameter Sources")
	refused("latency/start", `{"DelayMilliseconds":1,"JitterMilliseconds":0,"Sources":["::1"],"SourcesToFilter":["x"]}`, "invalid value x for parameter SourcesToFilter")
	refused("latency/start", `{"DelayMilliseconds":-1,"JitterMilliseconds":0,"Sources":["::1"]}`, "json: cannot unmarshal number -1 into Go struct field NetworkLatencyRequest.DelayMilliseconds of type uint64")
	refused("latency/start", `{"DelayMilliseconds":1,"JitterMilliseconds":0,"Sources":["::1"],"FlowsPercent":0}`, "invalid value 0 for parameter flowsPercent")
	refused("packet-loss/start", `{"Sources":["10.0.0.1"]}`, "required parameter LossPercent is missing")
	refused("packet-loss/start", `{"LossPercent":101,"Sources":["10.0.0.1"]}`, "invalid value 101 for parameter LossPercent")
	refused("packet-loss/start", `{"LossPercent":0,"Sources":["10.0.0.1"]}`, "invalid value 0 for parameter LossPercent")
	refused("packet-loss/start", `{"LossPercent":1,"Sources":["`+strings.Repeat("x", maxFaultBody)+`"]}`, "http: request body too large")
}

func TestFaultsOfATaskThatCannotHaveThem(t *testing.T) {
	t.Parallel()
	const latency = `{"DelayMilliseconds":1,"JitterMilliseconds":0,"Sources":["10.0.0.1"]}`
	ask := conversing(t, &injector{refused: fault.Refuse(fault.Invalid, "enableFaultInjection is not enabled for task: arn:task")})
	for _, verb := range []string{"start", "stop", "status"} {
		ask("latency/"+verb, latency, 400, `{"Error":"enableFaultInjection is not enabled for task: arn:task"}`)
	}
	ask = conversing(t, &injector{failure: fault.Refuse(fault.Failed, "the kernel has no sch_netem")})
	ask("latency/start", latency, 500, `{"Error":"the kernel has no sch_netem"}`)
	s := New(source(running()))
	if code, text := send(s, "POST", "/api/nobody/fault/v1/network-latency/status", ""); code != 404 || text != `{"Error":"unable to get task arn from request: unable to get task Arn from v3 endpoint ID: nobody"}` {
		t.Errorf("%d %s", code, text)
	}
	if code, text := send(s, "POST", "/api/"+containerID(key, "web")+"/fault/v1/network-latency/status", ""); code != 400 || !strings.Contains(text, "cannot be injected") {
		t.Errorf("without an owner that can: %d %s", code, text)
	}
	for _, path := range []string{"network-latency/status", "network-fire/start", "network-latency/pause"} {
		method := map[bool]string{true: "GET", false: "POST"}[path == "network-latency/status"]
		if code, _ := send(s, method, "/api/"+containerID(key, "web")+"/fault/v1/"+path, ""); code != 404 {
			t.Errorf("%s %s: %d", method, path, code)
		}
	}
}

// Each container has its own limit, for each request.
func TestFaultRequestsAreLimited(t *testing.T) {
	t.Parallel()
	st := running()
	src := source(st)
	now := start
	src.Faults, src.Now = &injector{st: &st}, func() time.Time { return now }
	s := New(src)
	ask := func(container, path string) int {
		code, text := send(s, "POST", "/api/"+containerID(key, container)+"/fault/v1/"+path, "")
		if code == http.StatusTooManyRequests && text != `{"Error":"You have reached maximum request limit"}` {
			t.Errorf("%s", text)
		}
		return code
	}
	for _, c := range []struct {
		after           time.Duration
		container, path string
		want            int
	}{
		{0, "web", "network-latency/status", 200},
		{time.Second, "web", "network-latency/status", 429},
		{0, "web", "network-latency/stop", 200},
		{0, "web", "network-packet-loss/status", 200},
		{0, "job", "network-latency/status", 200},
		{4 * time.Second, "web", "network-latency/status", 200},
	} {
		now = now.Add(c.after)
		if got := ask(c.container, c.path); got != c.want {
			t.Errorf("%s %s after %s: %d, want %d", c.container, c.path, c.after, got, c.want)
		}
	}
}

func FuzzReadFault(f *testing.F) {
	f.Add(0, "start", `{"Port":1234,"Protocol":"tcp","TrafficType":"ingress"}`)
	f.Add(1, "start", `{"DelayMilliseconds":1,"JitterMilliseconds":0,"Sources":["10.0.0.1"]}`)
	f.Add(2, "stop", `{"LossPercent":1,"Sources":["10.0.0.1"]}`)
	f.Fuzz(func(t *testing.T, kind int, verb, body string) {
		kinds := fault.Kinds()
		what := faultRequest{kind: kinds[(kind%len(kinds)+len(kinds))%len(kinds)], verb: verb}
		got, wrong := readFault(strings.NewReader(body), what)
		if wrong == "" && (verb == "start" || !got.Shaped()) && len(got.Problems()) > 0 {
			t.Errorf("%s is taken and has problems: %q", body, got.Problems())
		}
	})
}
