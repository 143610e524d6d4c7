package tasktest

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/define/testfile"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/taskdef"
)

const shop = `
family: shop
networkMode: NETWORK
containerDefinitions:
  - name: web
    image: web:1
    memory: 64
    portMappings: [{containerPort: 80, hostPort: 80}]
    dependsOn: [{containerName: db, condition: HEALTHY}, {containerName: router, condition: START}]
    mountPoints: [{sourceVolume: data, containerPath: /data}]
    logConfiguration: {logDriver: awsfirelens, options: {Name: stdout}}
  - name: db
    image: db:1
    memory: 64
    healthCheck: {command: [CMD, "true"]}
    environment: [{name: PASSWORD, value: x}]
    logConfiguration: {logDriver: syslog, options: {syslog-address: "udp://192.0.2.1:514"}}
  - {name: router, image: fluent:1, memory: 64, essential: false, firelensConfiguration: {type: fluentbit}}
volumes:
  - {name: data, dockerVolumeConfiguration: {scope: shared, autoprovision: true}}
  - {name: kept, dockerVolumeConfiguration: {scope: shared, autoprovision: true}}
`

func parse(t *testing.T, network string) taskdef.Task {
	t.Helper()
	task, _, err := taskdef.Parse("f", []byte(strings.Replace(shop, "NETWORK", network, 1)))
	if err != nil {
		t.Fatal(err)
	}
	return task
}

func TestTheTaskOfATestIsFresh(t *testing.T) {
	t.Parallel()
	task := parse(t, "bridge")
	c := testfile.Case{Test: testfile.Test{
		Settings: testfile.Settings{
			KeepVolumes: []string{"kept"},
			Stubs:       map[string]testfile.Stub{"db": {Image: "stub:1", Command: []string{"serve"}, Environment: map[string]string{"A": "b"}}, "router": {Image: "stub:1"}},
		},
		Expect: []testfile.Check{
			{HTTP: &testfile.HTTP{Endpoint: testfile.Endpoint{Container: "web", Port: 80}}},
			{Metric: &testfile.Metric{Endpoint: testfile.Endpoint{Container: "web", Port: 9000}}},
		},
	}}
	replaced, err := task.Adjust(taskdef.Adjustments{Replace: stubsOf(c)})
	if err != nil {
		t.Fatal(err)
	}
	got, wrong := change(replaced, c)
	if len(wrong) > 0 {
		t.Fatal(wrong)
	}
	web, db := got.Containers[0], got.Containers[1]
	wantPorts := []taskdef.Port{{ContainerPort: 80, Protocol: "tcp", HostIP: loopback}, {ContainerPort: 9000, Protocol: "tcp", HostIP: loopback}}
	if diff := cmp.Diff(wantPorts, web.Ports); diff != "" {
		t.Errorf("ports: %s", diff)
	}
	if web.DependsOn[0].Condition != taskdef.Start || web.Log != nil {
		t.Errorf("web waits for %s, and logs to %v", web.DependsOn[0].Condition, web.Log)
	}
	if db.Image != "stub:1" || db.HasHealth() || db.Log != nil || len(db.Environment) != 1 || db.Environment[0].Name != "A" || !db.Essential {
		t.Errorf("the stub is %+v", db)
	}
	if got.Volumes[0].Kind != taskdef.VolumeTask || got.Volumes[1].Kind != taskdef.VolumeShared {
		t.Errorf("volumes: %+v", got.Volumes)
	}
	if task.Containers[0].Ports[0].HostPort != 80 || task.Volumes[0].Kind != taskdef.VolumeShared || task.Containers[1].Image != "db:1" {
		t.Error("the definition itself changed")
	}
	if host, _ := change(parse(t, "host"), testfile.Case{}); host.Containers[0].Ports[0].HostPort != 80 {
		t.Error("a port of network mode host changed")
	}
}

func TestATestNamesWhatIsThere(t *testing.T) {
	t.Parallel()
	_, wrong := change(parse(t, "bridge"), testfile.Case{Test: testfile.Test{
		Settings: testfile.Settings{Stubs: map[string]testfile.Stub{"bd": {Image: "x"}}, KeepVolumes: []string{"nothing-like-it"}},
		Expect:   []testfile.Check{{Healthy: []string{"all", "wbe"}, Line: 7}, {Exit: &testfile.Exit{Container: "db"}}, {Log: &testfile.Log{}}},
	}})
	want := []string{
		`stubs names "bd", which the task does not have; did you mean "db"?`,
		`keepVolumes names "nothing-like-it", which the task does not have; it has [data kept]`,
		`the check in line 7 names "wbe", which the task does not have; did you mean "web"?`,
	}
	if diff := cmp.Diff(want, wrong); diff != "" {
		t.Error(diff)
	}
}

// serve returns a running task whose container web has port 80 at a server of this test.
func serve(t *testing.T, h http.HandlerFunc) api.Task {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	return api.Task{Status: "RUNNING", Containers: []api.Container{{Name: "web", Status: "RUNNING", Ports: []api.Port{{ContainerPort: 80, HostPort: uint16(port), Protocol: "tcp"}}}}}
}

var web80 = testfile.Endpoint{Container: "web", Port: 80}

func TestLookHTTP(t *testing.T) {
	t.Parallel()
	task := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Host", r.Host)
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "/", http.StatusFound)
			return
		}
		fmt.Fprintf(w, "%s %s", r.Method, r.URL.Path)
	})
	for _, tt := range []struct {
		ask  testfile.HTTP
		ok   bool
		says string
	}{
		{testfile.HTTP{Endpoint: web80, Path: "a", Method: "PUT", Body: &testfile.Text{Equals: "PUT /a"}}, true, ""},
		{testfile.HTTP{Endpoint: web80, Path: "/away", Status: 302}, true, ""},
		{testfile.HTTP{Endpoint: web80, Headers: map[string]string{"Host": "shop"}, Answer: map[string]string{"X-Host": "shop"}}, true, ""},
		{testfile.HTTP{Endpoint: web80, Status: 404}, false, `status 200, the body "GET /"`},
		{testfile.HTTP{Endpoint: web80, Body: &testfile.Text{Contains: "x"}}, false, `the body "GET /"`},
		{testfile.HTTP{Endpoint: testfile.Endpoint{Container: "web", Port: 81}}, false, "port 81 of web is not published yet"},
	} {
		f := lookHTTP(t.Context(), task, tt.ask)
		if f.ok != tt.ok || !strings.Contains(f.got, tt.says) {
			t.Errorf("%+v: %+v", tt.ask, f)
		}
	}
}

func TestLookMetric(t *testing.T) {
	t.Parallel()
	task := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "# TYPE requests_total counter\nrequests_total{code=\"200\",path=\"/\"} 3\nrequests_total{code=\"200\",path=\"/a\"} 4\nrequests_total{code=\"500\"} 1\n"+
			"# TYPE seconds histogram\nseconds_bucket{le=\"+Inf\"} 5\nseconds_sum 1.5\nseconds_count 5\nplain 2\n")
	})
	number := func(f float64) *float64 { return &f }
	for _, tt := range []struct {
		ask  testfile.Metric
		ok   bool
		says string
	}{
		{testfile.Metric{Name: "requests_total", Labels: map[string]string{"code": "200"}, Value: number(7)}, true, ""},
		{testfile.Metric{Name: "requests_total", Min: number(9)}, false, "the value 8"},
		{testfile.Metric{Name: "requests_total", Labels: map[string]string{"code": "404"}}, false, "no sample of it"},
		{testfile.Metric{Name: "seconds_count", Value: number(5)}, true, ""},
		{testfile.Metric{Name: "seconds_sum", Max: number(1.5)}, true, ""},
		{testfile.Metric{Name: "plain", Min: number(1), Max: number(2)}, true, ""},
		{testfile.Metric{Name: "other"}, false, "no sample of it"},
	} {
		tt.ask.Endpoint = web80
		if f := lookMetric(t.Context(), task, tt.ask); f.ok != tt.ok || !strings.Contains(f.got, tt.says) {
			t.Errorf("%+v: %+v", tt.ask, f)
		}
	}
}

func TestLookHealthyAndExit(t *testing.T) {
	t.Parallel()
	zero, three := api.ExitCode(0), api.ExitCode(3)
	task := api.Task{Status: "RUNNING", Containers: []api.Container{
		{Name: "web", Status: "RUNNING", Essential: true, Health: &api.Health{Status: "HEALTHY"}},
		{Name: "db", Status: "RUNNING", Health: &api.Health{Status: "UNHEALTHY", Output: "refused"}},
		{Name: "job", Status: "STOPPED", ExitCode: &zero},
		{Name: "bad", Status: "STOPPED", ExitCode: &three},
	}}
	for _, tt := range []struct {
		names []string
		ok    bool
		says  string
	}{
		{[]string{"web"}, true, ""},
		{[]string{"web", "job"}, false, "job is STOPPED"},
		{[]string{"db"}, false, `db is RUNNING and UNHEALTHY, its check printed "refused"`},
		{[]string{"all"}, false, "bad is STOPPED"},
	} {
		if f := lookHealthy(task, tt.names); f.ok != tt.ok || !strings.Contains(f.got, tt.says) {
			t.Errorf("%v: %+v", tt.names, f)
		}
	}
	task.Containers = append(task.Containers[:1], task.Containers[2])
	if f := lookHealthy(task, []string{"all"}); !f.ok {
		t.Errorf("a job that is done: %+v", f)
	}
	if f := lookExit(task, testfile.Exit{Container: "job", Code: 1}); f.ok || !f.hopeless || f.got != "exit code 0" {
		t.Errorf("another code: %+v", f)
	}
	task.Containers = append(task.Containers, api.Container{Name: "lost", Status: "STOPPED", Reason: "no such program"})
	if f := lookExit(task, testfile.Exit{Container: "lost"}); f.ok || !f.hopeless || f.got != "it never ran: no such program" {
		t.Errorf("a container that never ran: %+v", f)
	}
	if f := lookExit(task, testfile.Exit{Container: "web"}); f.ok || f.hopeless {
		t.Errorf("a container that runs: %+v", f)
	}
}

func TestFirstFile(t *testing.T) {
	t.Parallel()
	archive := func(head tar.Header, text string) *bytes.Buffer {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		head.Size = int64(len(text))
		if err := w.WriteHeader(&head); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return &b
	}
	if text, ok, err := firstFile(archive(tar.Header{Name: "a", Typeflag: tar.TypeReg}, "hello")); text != "hello" || !ok || err != nil {
		t.Errorf("a file: %q, %v, %v", text, ok, err)
	}
	if _, ok, err := firstFile(archive(tar.Header{Name: "a/", Typeflag: tar.TypeDir}, "")); ok || err != nil {
		t.Errorf("a directory: %v, %v", ok, err)
	}
	if _, _, err := firstFile(strings.NewReader("nothing of the kind")); err == nil {
		t.Error("no archive is accepted")
	}
}

func TestSteps(t *testing.T) {
	t.Parallel()
	task, err := stepTask(testfile.Step{Image: "curl:1", Command: []string{"a"}, Environment: map[string]string{"A": "b"}}, map[string]string{"ADDRESS_WEB_80": "127.0.0.1:1"})
	if err != nil || task.Network != taskdef.NetworkHost || len(task.Containers[0].Environment) != 2 {
		t.Errorf("%+v, %v", task, err)
	}
	if _, err := stepTask(testfile.Step{Image: "A B"}, nil); err == nil {
		t.Error("a step without a valid image")
	}
	running := serve(t, func(http.ResponseWriter, *http.Request) {})
	running.Containers[0].Name = "my-web"
	if got := addresses(running); len(got) != 1 || !strings.HasPrefix(got["ADDRESS_MY_WEB_80"], loopback+":") {
		t.Errorf("addresses: %v", got)
	}
}

func failed() Result {
	r := Result{
		File: "web.test.yaml", Test: "answers [TAG=2]", Name: "answers", Line: 3, Column: 3, Status: Passed, Seconds: 31.25,
		Passed: []string{"healthy all (2.0s)"}, Why: "web waits for db", Containers: []string{"web is RUNNING", "db is STOPPED with exit code 1"},
		Logs: []ContainerLog{{Container: "db", Lines: []string{"no \x1b[31mdisk", "space"}}},
	}
	r.fail(&Failure{What: "GET / of web port 80", Expected: "status 200", Got: "status 502", Evidence: []string{"GET http://127.0.0.1:1/"}, Line: 9, Column: 5})
	r.fail(&Failure{What: "remove the task", Expected: "nothing is left", Got: "Podman hangs"})
	return r
}

func TestReports(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	failed().writeText(&b, console.Colors(false))
	want := `FAIL  web.test.yaml: answers [TAG=2]  (31.2s)
      web.test.yaml:9: GET / of web port 80
        expected: status 200
        got:      status 502
          | GET http://127.0.0.1:1/
      web.test.yaml:3: remove the task
        expected: nothing is left
        got:      Podman hangs
      held before: healthy all (2.0s)
      containers:  web is RUNNING
                   db is STOPPED with exit code 1
      the task:    web waits for db
      last lines of db:
        | no  [31mdisk
        | space
      look at it:  podtask test --keep --run '^answers' web.test.yaml
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
	b.Reset()
	failed().writeGitHub(&b, "")
	if want := "::error file=web.test.yaml,line=9,col=5,title=podtask::answers [TAG=2]: GET / of web port 80: expected status 200, got status 502\n"; !strings.HasPrefix(b.String(), want) {
		t.Error(b.String())
	}
	file := filepath.Join(t.TempDir(), "report.xml")
	if err := writeJUnit(file, []Result{failed(), {File: "web.test.yaml", Test: "b", Status: Passed}, {File: "c.test.yaml", Test: "c", Status: Passed}}, 40*time.Second); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	for _, part := range []string{
		`<testsuites tests="3" failures="1" time="40.000">`, `<testsuite name="web.test.yaml" tests="2" failures="1" time="31.250">`,
		`<failure message="GET / of web port 80: expected status 200, got status 502">web.test.yaml:9: GET / of web port 80`, `<testcase classname="c.test" name="c"`,
	} {
		if err != nil || !strings.Contains(string(text), part) {
			t.Errorf("no %s in\n%s%v", part, text, err)
		}
	}
}

// An annotation stands beside a line only if its path starts where the repository was checked out.
func TestAnnotationsNameFilesFromTheWorkspaceOn(t *testing.T) {
	t.Parallel()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	above := filepath.Dir(here)
	for _, c := range []struct{ file, workspace, want string }{
		{"a.test.yaml", above, filepath.Base(here) + "/a.test.yaml"},
		{filepath.Join(here, "a.test.yaml"), here, "a.test.yaml"},
		{"../a.test.yaml", here, "../a.test.yaml"},
		{"a.test.yaml", "", "a.test.yaml"},
	} {
		if got := inWorkspace(c.file, c.workspace); got != c.want {
			t.Errorf("%s in %s is %s", c.file, c.workspace, got)
		}
	}
}

func TestFilesAreFoundByTheirNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"a.test.yaml", "b.yaml", "sub/c.test.json", "sub/.test.yaml"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := findFiles([]string{dir, filepath.Join(dir, "b.yaml")})
	want := []string{filepath.Join(dir, "a.test.yaml"), filepath.Join(dir, "sub/c.test.json"), filepath.Join(dir, "b.yaml")}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	if _, err := findFiles([]string{t.TempDir()}); err == nil {
		t.Error("a directory without tests")
	}
}

// A log that nothing describes is looked for until the time is over.
func TestADeadlineIsNamed(t *testing.T) {
	t.Parallel()
	run := &running{last: api.Task{Status: "RUNNING"}, changed: make(chan struct{})}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(fmt.Errorf("the test took longer than its timeout of 5m0s"))
	f := (&runner{}).expect(ctx, run, testfile.Check{Exit: &testfile.Exit{Container: "web"}}, 0)
	if f == nil || !strings.Contains(f.Got, "there is no such container") {
		t.Errorf("%+v", f)
	}
	f = (&runner{}).expect(ctx, run, testfile.Check{Healthy: []string{"all"}}, 0)
	if f != nil {
		t.Errorf("a task without containers that runs is healthy: %+v", f)
	}
	run.last.Status = "CREATED"
	f = (&runner{}).expect(ctx, run, testfile.Check{Healthy: []string{"all"}}, 0)
	if f == nil || !strings.Contains(f.Got, "the task is CREATED; the test took longer than its timeout of 5m0s") {
		t.Errorf("%+v", f)
	}
}

// A source that the definition names itself is replaced, with its path below the directory of the test file.
func TestSecretsComeFromWhereTheTestSays(t *testing.T) {
	t.Parallel()
	rules, direct, wrong := references("/tests", testfile.Case{Test: testfile.Test{Settings: testfile.Settings{
		Secrets: map[string]string{"podman:db": "file:password", "arn:aws:ssm:eu-west-1:1:parameter/a": "env:A"}, Volumes: map[string]string{"data": "dir"},
	}}})
	if len(wrong) > 0 || len(rules) != 2 || rules[0].Match != "arn:aws:ssm:eu-west-1:1:parameter/a" || rules[1].Text() != "file:/tests/dir" {
		t.Errorf("%v %v", rules, wrong)
	}
	task := taskdef.Task{Containers: []taskdef.Container{{Secrets: []taskdef.Secret{{Name: "A", SecretValue: taskdef.SecretValue{Source: "podman:db"}}, {Name: "B", SecretValue: taskdef.SecretValue{Source: "podman:other"}}}}}}
	got := replaceSources(task, direct).Containers[0].Secrets
	if got[0].Source != "file:/tests/password" || got[1].Source != "podman:other" || task.Containers[0].Secrets[0].Source != "podman:db" {
		t.Errorf("%v; the task itself %v", got, task.Containers[0].Secrets)
	}
}
