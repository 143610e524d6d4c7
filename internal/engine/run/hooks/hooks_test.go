package hooks_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/podtask/podtask/internal/engine/run/hooks"
	"github.com/podtask/podtask/internal/testing/freeport"
	"github.com/podtask/podtask/internal/testing/hostile"
	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef/refs"
)

func TestParseAnswer(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]hooks.Answer{
		`{"hookStatus":"SUCCEEDED"}`: {Status: service.HookSucceeded},
		" {\"hookStatus\": \"FAILED\", \"callBackDelay\": \"x\", \"more\": 1}\n": {Status: service.HookFailed},
		`{"hookStatus":"IN_PROGRESS"}`:                                           {Status: service.HookInProgress},
		`{"hookStatus":"IN_PROGRESS","callBackDelay":60,"hookDetails":{"a":1}}`:  {Status: service.HookInProgress, CallBackDelay: time.Minute, Details: json.RawMessage(`{"a":1}`)},
		`{"hookStatus":"IN_PROGRESS","callBackDelaySeconds":1.5}`:                {Status: service.HookInProgress, CallBackDelay: 1500 * time.Millisecond},
		`{"hookStatus":"IN_PROGRESS","callBackDelay":null,"hookDetails":null}`:   {Status: service.HookInProgress},
		`{"hookStatus":"IN_PROGRESS","hookDetails":"text"}`:                      {Status: service.HookInProgress, Details: json.RawMessage(`"text"`)},
	} {
		got, err := hooks.ParseAnswer([]byte(text))
		if err != nil || !cmp.Equal(got, want) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"": "answered nothing", " \n": "answered nothing", "null": "not a JSON object", "ok": "not a JSON object", "[]": "not a JSON object", `"SUCCEEDED"`: "not a JSON object",
		"{}": "no hookStatus", `{"HookStatus":"SUCCEEDED"}`: "no hookStatus", `{"hookStatus":"succeeded"}`: "none of SUCCEEDED", `{"hookStatus":["SUCCEEDED"]}`: "none of", `{"hookStatus":"AWAITING_ACTION"}`: "none of",
		`{"hookStatus":"SUCCEEDED"}{"hookStatus":"FAILED"}`:      "more than one",
		`{"hookStatus":"IN_PROGRESS","callBackDelay":0}`:         "callBackDelay",
		`{"hookStatus":"IN_PROGRESS","callBackDelay":"60"}`:      "callBackDelay",
		`{"hookStatus":"IN_PROGRESS","callBackDelay":86401}`:     "callBackDelay",
		`{"hookStatus":"SUCCEEDED"` + strings.Repeat(" ", 70000): "more than",
		`{"errorMessage":"boom","errorType":"Exception"}`:        "no hookStatus",
	} {
		if text == `{"hookStatus":"SUCCEEDED"`+strings.Repeat(" ", 70000) {
			text += "}"
		}
		if got, err := hooks.ParseAnswer([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %+v, %v, want an error with %q", text, got, err, want)
		}
	}
}

func FuzzParseAnswer(f *testing.F) {
	for _, seed := range []string{`{"hookStatus":"IN_PROGRESS","callBackDelay":60,"hookDetails":{"a":1}}`, `{"hookStatus":"FAILED"}`, "null", `{"callBackDelaySeconds":1e9,"hookStatus":"IN_PROGRESS"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := hooks.ParseAnswer(data)
		if err != nil {
			if a.Status != "" || len(err.Error()) > 200 {
				t.Errorf("%+v, %v", a, err)
			}
			return
		}
		if a.Status != service.HookInProgress && (a.CallBackDelay != 0 || a.Details != nil) || a.CallBackDelay < 0 || a.CallBackDelay > 24*time.Hour {
			t.Errorf("%+v", a)
		}
		if len(a.Details) > 0 && !json.Valid(a.Details) {
			t.Errorf("details %q", a.Details)
		}
	})
}

// web is a service with a call of a hook.
func web(t service.HookTarget) (service.State, service.HookRequest) {
	s := service.State{ID: strings.Repeat("a", 32), Name: "web"}
	return s, service.HookRequest{
		HookCall: service.HookCall{ID: "ecs-lambda-x", Hook: "smoke", Stage: service.Production, Number: 3}, Config: service.Hook{Name: "smoke", Target: t},
		Attempt: 2, Green: "web/2", ProductionWeights: map[string]service.Permille{"web/1": 995, "web/2": 5}, Details: json.RawMessage(`{"a":1}`),
	}
}

func shell(script string) service.HookTarget {
	return service.HookTarget{Kind: service.HookLambda, Value: "arn:aws:lambda:r:1:function:smoke", Command: []string{"/bin/sh", "-c", script}}
}

func runner() *hooks.Runner { return hooks.New(os.Getenv) }

func call(t *testing.T, target service.HookTarget) service.HookAnswered {
	t.Helper()
	s, q := web(target)
	return runner().Call(t.Context(), s, q)
}

// The payload is that of ECS: the members of its example, with weights in percent by the ARN of a revision.
func TestPayload(t *testing.T) {
	t.Parallel()
	s, q := web(service.HookTarget{})
	data, err := hooks.Payload(s, q)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	details, _ := got["executionDetails"].(map[string]any)
	const arns = "arn:aws:ecs:local:000000000000:"
	if got["lifecycleStage"] != "PRODUCTION_TRAFFIC_SHIFT" || !strings.HasPrefix(fmt.Sprint(got["resourceArn"]), arns+"service-deployment/default/web/") || details["serviceArn"] != arns+"service/default/web" {
		t.Errorf("%s", data)
	}
	target := fmt.Sprint(details["targetServiceRevisionArn"])
	if weights, _ := details["productionTrafficWeights"].(map[string]any); len(weights) != 2 || weights[target] != 0.5 || !strings.HasPrefix(target, arns+"service-revision/default/web/") {
		t.Errorf("the weights are %v, the target is %s", weights, target)
	}
	if weights, ok := details["testTrafficWeights"].(map[string]any); !ok || len(weights) > 0 {
		t.Errorf("the test weights are %v", details["testTrafficWeights"])
	}
	if len(fmt.Sprint(got["executionId"])) != 36 || !cmp.Equal(got["hookDetails"], map[string]any{"a": 1.0}) {
		t.Errorf("%s", data)
	}
	again, _ := hooks.Payload(s, q)
	if string(again) != string(data) {
		t.Error("a repeated call has another payload")
	}
	q.Details = nil
	if data, _ := hooks.Payload(s, q); strings.Contains(string(data), "hookDetails") {
		t.Errorf("without details: %s", data)
	}
}

func TestProgramsAnswer(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		script string
		want   service.HookAnswered
		reason string
	}{
		"succeeds":                {script: `echo '{"hookStatus":"SUCCEEDED"}'`, want: service.HookAnswered{Status: service.HookSucceeded}},
		"reads the payload":       {script: `grep -q '"lifecycleStage":"PRODUCTION_TRAFFIC_SHIFT"' && echo '{"hookStatus":"SUCCEEDED"}'`, want: service.HookAnswered{Status: service.HookSucceeded}},
		"is told":                 {script: `[ $PODTASK_HOOK$PODTASK_SERVICE$PODTASK_LIFECYCLE_STAGE = smokewebPRODUCTION_TRAFFIC_SHIFT ] && echo '{"hookStatus":"SUCCEEDED"}'`, want: service.HookAnswered{Status: service.HookSucceeded}},
		"is in progress":          {script: `echo '{"hookStatus":"IN_PROGRESS","callBackDelay":5,"hookDetails":{"b":2}}'`, want: service.HookAnswered{Status: service.HookInProgress, CallBackDelay: 5 * time.Second, Details: json.RawMessage(`{"b":2}`)}},
		"fails":                   {script: `echo why >&2; echo '{"hookStatus":"FAILED"}'`, reason: "it answered FAILED; it wrote: why"},
		"says nothing":            {script: `exit 0`, reason: "it answered nothing"},
		"says nonsense":           {script: "printf 'all is\\033[31m well\\n'", reason: "not a JSON object such as {\"hookStatus\": \"SUCCEEDED\"}; it wrote: all is [31m well"},
		"ends with an error":      {script: `echo '{"hookStatus":"SUCCEEDED"}'; echo oh >&2; exit 3`, reason: "it ended with exit status 3; it wrote: {\"hookStatus\":\"SUCCEEDED\"} oh"},
		"writes without end":      {script: `yes`, reason: "it wrote more than 65536 bytes; it wrote: y y"},
		"complains without end":   {script: `yes | head -c 1000000 >&2; echo '{"hookStatus":"SUCCEEDED"}'`, want: service.HookAnswered{Status: service.HookSucceeded}},
		"leaves something behind": {script: `sleep 1000 & echo '{"hookStatus":"SUCCEEDED"}'`, want: service.HookAnswered{Status: service.HookSucceeded}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := call(t, shell(tt.script))
			tt.want.ID, tt.want.Number = "ecs-lambda-x", 3
			if tt.reason != "" {
				tt.want.Status = service.HookFailed
				if !strings.Contains(got.Reason, tt.reason) || len(got.Reason) > 5000 {
					t.Errorf("%.300q, want %q", got.Reason, tt.reason)
				}
				got.Reason = ""
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if got := call(t, service.HookTarget{Kind: service.HookCommand, Command: []string{"/no/such"}}); got.Status != service.HookFailed || !strings.Contains(got.Reason, "/no/such cannot be run: no such file") {
		t.Errorf("a program that is not there: %+v", got)
	}
	if got := call(t, service.HookTarget{Kind: service.HookLambda}); got.Status != service.HookFailed || got.Reason == "" {
		t.Errorf("a hook without an answer: %+v", got)
	}
}

// A program gets no variable of podtask's environment but a few that programs need.
func TestProgramsGetNoSecrets(t *testing.T) {
	t.Parallel()
	s, q := web(shell(`env >&2; echo '{"hookStatus":"FAILED"}'`))
	got := hooks.New(func(name string) string {
		if name == "PATH" {
			return os.Getenv(name)
		}
		return "secret of " + name
	}).Call(t.Context(), s, q)
	for _, name := range []string{"AWS_SECRET_ACCESS_KEY", "PODTASK_STATE", "NOTIFY_SOCKET", "CREDENTIALS_DIRECTORY"} {
		if strings.Contains(got.Reason, name) {
			t.Errorf("it has %s: %s", name, got.Reason)
		}
	}
	if !strings.Contains(got.Reason, "PODTASK_HOOK=smoke") {
		t.Error(got.Reason)
	}
}

// When a call is given up, its program ends with all that it has started, before Call returns.
func TestACanceledProgramEndsWithItsGroup(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "pid")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	s, q := web(shell(`sleep 1000 & echo $! >` + fifo + `; wait`))
	r := runner()
	over := make(chan service.HookAnswered)
	go func() { over <- r.Call(ctx, s, q) }()
	text, err := os.ReadFile(fifo)
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	fmt.Sscan(string(text), &pid)
	sleep, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(sleep)
	cancel(errors.New("the call is over"))
	if got := <-over; got.Status != service.HookFailed || !strings.Contains(got.Reason, "the call is over") {
		t.Errorf("%+v", got)
	}
	// It was killed; when it is gone is up to the kernel. Without a kill it lasts 1000 seconds.
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(sleep), Events: unix.POLLIN}}, 30_000); n != 1 {
		t.Errorf("process %d runs still: %v", pid, err)
	}
	if n := len(r.Counts()); n > 0 {
		t.Errorf("a call that was given up is counted: %+v", r.Counts())
	}
}

func TestEndpointsAnswer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" || !strings.Contains(string(body), `"executionId"`):
			http.Error(w, "bad request", http.StatusBadRequest)
		case r.URL.Path == "/ok":
			fmt.Fprint(w, `{"hookStatus":"SUCCEEDED"}`)
		case r.URL.Path == "/lambda": // an error of a function in the Lambda runtime's emulator
			fmt.Fprint(w, `{"errorMessage":"boom","errorType":"ValueError"}`)
		case r.URL.Path == "/moved":
			http.Redirect(w, r, "/ok", http.StatusTemporaryRedirect)
		case r.URL.Path == "/long":
			fmt.Fprint(w, strings.Repeat("x", 1<<20))
		case r.URL.Path == "/cut":
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, "{")
		default:
			http.Error(w, "no such hook", http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	for path, reason := range map[string]string{
		"/ok": "", "/lambda": "no hookStatus; it wrote: {\"errorMessage\":\"boom\"", "/moved": "answered 307", "/long": "more than 65536 bytes", "/cut": "broke off", "/none": "answered 404 Not Found; it wrote: no such hook",
	} {
		got := call(t, service.HookTarget{Kind: service.HookURL, Value: server.URL + path})
		if want := map[bool]service.HookStatus{true: service.HookSucceeded, false: service.HookFailed}[reason == ""]; got.Status != want || !strings.Contains(got.Reason, reason) {
			t.Errorf("%s: %+v, want %s %q", path, got, want, reason)
		}
	}
	if got := call(t, service.HookTarget{Kind: service.HookLambda, Value: "arn:x", Source: server.URL + "/ok"}); got.Status != service.HookSucceeded {
		t.Errorf("an ARN with an endpoint: %+v", got)
	}
	gone := fmt.Sprintf("http://127.0.0.1:%d/ok", freeport.For(t))
	if got := call(t, service.HookTarget{Kind: service.HookURL, Value: gone}); got.Status != service.HookFailed || !strings.Contains(got.Reason, "cannot be called") {
		t.Errorf("an endpoint that is gone: %+v", got)
	}
}

// raw is an endpoint that answers each request with a text, and nothing else.
func raw(t *testing.T, text string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
					_, _ = io.WriteString(c, text)
				}
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// What an endpoint answers in the line of the status and in headers is in no reason as it is, and no reason is long. An endpoint that
// leads to another address, such as one with the credentials of a machine in a cloud, is not followed.
func TestHostileEndpoints(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 10)
	metadata := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.Path }))
	t.Cleanup(metadata.Close)
	evil := "\x1b]0;evil\a\u202e\u009b2J"
	for name, answer := range map[string]string{
		"words of the status": "HTTP/1.1 500 " + evil + strings.Repeat("x", 30_000) + "\r\nContent-Length: 0\r\n\r\n",
		"no HTTP":             evil + strings.Repeat("y", 30_000) + "\r\n\r\n",
		"a broken header":     "HTTP/1.1 200 OK\r\n" + evil + strings.Repeat("z", 30_000) + "\r\n\r\n",
		"endless headers":     "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", 100_000),
		"a broken chunk":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + evil + "\r\n",
		"a redirect":          "HTTP/1.1 302 Found\r\nLocation: " + metadata.URL + "/latest/meta-data/\r\nContent-Length: 0\r\n\r\n",
		"another one":         "HTTP/1.1 307 Temporary Redirect\r\nLocation: " + metadata.URL + "/latest/api/token\r\nContent-Length: 0\r\n\r\n",
	} {
		to := raw(t, answer)
		got := call(t, service.HookTarget{Kind: service.HookURL, Value: to})
		_, err := runner().CheckAlarm(t.Context(), service.Alarm{Name: "errors", Target: service.HookTarget{Kind: service.HookURL, Value: to}})
		if got.Status != service.HookFailed || err == nil {
			t.Errorf("%s: %+v, %v", name, got, err)
			continue
		}
		for _, reason := range []string{got.Reason, err.Error()} {
			if len(reason) > 1000 || hostile.Steers(reason) != 0 {
				t.Errorf("%s: the reason has %d bytes: %.200q", name, len(reason), reason)
			}
		}
	}
	select {
	case path := <-asked:
		t.Errorf("the other address was asked for %s", path)
	default:
	}
}

// An endpoint that never answers is given up with its call.
func TestASilentEndpointIsGivenUp(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		close(asked)
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { <-asked; cancel(errors.New("given up")) }()
	s, q := web(service.HookTarget{Kind: service.HookURL, Value: server.URL})
	if got := runner().Call(ctx, s, q); got.Status != service.HookFailed || got.Reason != "given up" {
		t.Errorf("%+v", got)
	}
}

func TestCallsAreCounted(t *testing.T) {
	t.Parallel()
	r := runner()
	for _, script := range []string{`echo '{"hookStatus":"SUCCEEDED"}'`, `echo '{"hookStatus":"SUCCEEDED"}'`, "exit 1"} {
		s, q := web(shell(script))
		r.Call(t.Context(), s, q)
	}
	got := make(map[service.HookStatus]uint64)
	for _, c := range r.Counts() {
		got[c.Status] = c.Calls
	}
	if got[service.HookSucceeded] != 2 || got[service.HookFailed] != 1 {
		t.Errorf("%v", got)
	}
}

func TestCheckAlarm(t *testing.T) {
	t.Parallel()
	var asked string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Query().Get("query")
		switch asked {
		case "up < 1":
			fmt.Fprint(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"0"]}]}}`)
		case "up > 1":
			fmt.Fprint(w, `{"status":"success","data":{"resultType":"vector","result":[]}}`)
		case "1":
			fmt.Fprint(w, `{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}`)
		default:
			http.Error(w, `{"status":"error","error":"parse error"}`, http.StatusBadRequest)
		}
	}))
	t.Cleanup(server.Close)
	query := func(q string) service.HookTarget {
		return service.HookTarget{Kind: service.HookLambda, Source: server.URL + "/api/v1/query?query=" + strings.ReplaceAll(q, " ", "+")}
	}
	for name, tt := range map[string]struct {
		target service.HookTarget
		raised bool
		err    string
	}{
		"a program says no":        {target: shell("exit 0")},
		"a program says yes":       {target: shell("[ $PODTASK_ALARM = errors ] && exit 1"), raised: true},
		"a program fails":          {target: shell("echo why >&2; exit 2"), err: "exit status 2; it wrote: why"},
		"a query finds something":  {target: query("up < 1"), raised: true},
		"a query finds nothing":    {target: query("up > 1")},
		"a query is no comparison": {target: query("1"), err: "comparison"},
		"a query is wrong":         {target: query("up <"), err: "parse error"},
		"no answer":                {err: "no way"},
	} {
		raised, err := runner().CheckAlarm(t.Context(), service.Alarm{Name: "errors", Target: tt.target})
		if raised != tt.raised || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %t, %v", name, raised, err)
		}
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	const smoke = "arn:aws:lambda:eu-west-1:111122223333:function:smoke"
	table := refs.Table{
		{Match: "arn:aws:*", Command: []string{"/bin/values"}, Origin: "values"},
		{Match: "arn:aws:lambda:*:function:smoke", Command: []string{"/bin/smoke", "{0}"}},
		{Match: "arn:aws:lambda:*:function:web-*", Source: "http://127.0.0.1:9000/{2}"},
		{Match: "arn:aws:lambda:*:function:file", Source: "file:/x", Origin: "podtask.toml:3"},
		{Match: "alarm:errors", Source: "http://127.0.0.1:9090/api/v1/query?query=up"},
	}
	lambda := func(arn string) service.Hook {
		return service.Hook{Name: arn[strings.LastIndex(arn, ":")+1:], Target: service.HookTarget{Kind: service.HookLambda, Value: arn}}
	}
	m, err := hooks.Resolve(table, service.Method{
		Hooks:  []service.Hook{lambda(smoke), lambda("arn:aws:lambda:r:1:function:web-test"), {Name: "pause", Target: service.HookTarget{Kind: service.HookPause}}},
		Alarms: service.Alarms{Enable: true, Alarms: []service.Alarm{{Name: "errors", Target: service.HookTarget{Kind: service.HookLambda}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Hooks[0].Target.Command; !cmp.Equal(got, []string{"/bin/smoke", smoke}) {
		t.Errorf("the program is %q", got)
	}
	if m.Hooks[1].Target.Source != "http://127.0.0.1:9000/test" || m.Alarms.Alarms[0].Target.Source == "" {
		t.Errorf("%+v", m)
	}
	_, err = hooks.Resolve(table, service.Method{
		Hooks:  []service.Hook{lambda("arn:aws:lambda:r:1:function:none"), lambda("arn:aws:lambda:r:1:function:file")},
		Alarms: service.Alarms{Enable: true, Alarms: []service.Alarm{{Name: "latency", Target: service.HookTarget{Kind: service.HookLambda}}}},
	})
	for _, want := range []string{`the hook none: nothing on this host answers`, `match = "arn:aws:lambda:r:1:function:none"`, "the hook file: podtask.toml:3 answers", `match = "alarm:latency"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
