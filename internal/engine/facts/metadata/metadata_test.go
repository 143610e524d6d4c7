package metadata

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

const key = "0123456789abcdef0123456789abcdef"

var start = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// running is a task with a container that runs and one that is not made yet.
func running() lifecycle.State {
	s := lifecycle.New(strings.Repeat("ab", 16), "", taskdef.Task{
		Family: "shop", Revision: 3, Identity: taskdef.Identity{Tags: map[string]string{"team": "blue"}}, Network: taskdef.NetworkAWSVPC, CPU: 0.5, Memory: 512 << 20,
		Containers: []taskdef.Container{
			{Name: "web", Image: "example.com/web:1", Essential: true, Memory: 64 << 20, Ports: []taskdef.Port{{ContainerPort: 80, Protocol: "tcp"}}},
			{Name: "job", Image: "example.com/job:1"},
		},
	}, lifecycle.Options{MetadataOptions: lifecycle.MetadataOptions{MetadataKey: key}}, start)
	s.Sandbox.Ports = []taskdef.Port{{ContainerPort: 80, HostPort: 32768, Protocol: "tcp"}}
	s.Containers[0].ID, s.Containers[0].Presence, s.Containers[0].StartedAt, s.Containers[0].ImageID = "c0ffee", lifecycle.Running, start, "beef"
	s.History = []lifecycle.Transition{
		{Seq: 1, At: start.Add(-3 * time.Second), Status: "MANIFEST_PULLED"},
		{Seq: 2, At: start.Add(-2 * time.Second), Container: "web", Status: "PULLED"},
		{Seq: 3, At: start.Add(-time.Second), Container: "web", Status: "CREATED"},
	}
	return s
}

func source(s lifecycle.State) Source {
	return Source{
		Key: key, State: func() lifecycle.State { return s },
		Names: Names{Cluster: "podtask", TaskARN: "arn:task", Container: func(i int) (string, map[string]string) {
			return "podtask-" + s.Task.Containers[i].Name, map[string]string{"k": "v"}
		}},
		Addresses: []netip.Addr{netip.MustParseAddr("10.0.2.100"), netip.MustParseAddr("fd00::1")},
		Stats: func(_ context.Context, i int) (json.RawMessage, error) {
			return json.RawMessage(`{"read":"now"}`), nil
		},
	}
}

func ask(t *testing.T, s *Server, path string) (status int, body string) {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	if w.Header().Get("Content-Type") != "application/json" && w.Code != http.StatusNotFound && w.Code != http.StatusTooManyRequests {
		t.Errorf("%s: content type %q", path, w.Header().Get("Content-Type"))
	}
	return w.Code, strings.TrimSpace(w.Body.String())
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	s := New(source(running()))
	web, job := containerID(key, "web"), containerID(key, "job")
	const (
		container = `{"DockerId":"c0ffee","Name":"web","DockerName":"podtask-web","Image":"example.com/web:1","ImageID":"sha256:beef",` +
			`"Ports":[{"ContainerPort":80,"Protocol":"tcp","HostPort":32768}],"Labels":{"k":"v"},"DesiredStatus":"RUNNING","KnownStatus":"RUNNING",` +
			`"Limits":{"CPU":2,"Memory":64},"CreatedAt":"2026-05-01T11:59:59Z","StartedAt":"2026-05-01T12:00:00Z","Type":"NORMAL","ContainerARN":"arn:task/web",` +
			`"Networks":[{"NetworkMode":"awsvpc","IPv4Addresses":["10.0.2.100"],"IPv6Addresses":["fd00::1"]}]}`
		other = `{"DockerId":"","Name":"job","DockerName":"podtask-job","Image":"example.com/job:1","Labels":{"k":"v"},"DesiredStatus":"RUNNING","KnownStatus":"NONE",` +
			`"Limits":{"CPU":2,"Memory":0},"Type":"NORMAL","ContainerARN":"arn:task/job","Networks":[{"NetworkMode":"awsvpc","IPv4Addresses":["10.0.2.100"],"IPv6Addresses":["fd00::1"]}]}`
		task = `{"Cluster":"podtask","TaskARN":"arn:task","Family":"shop","Revision":"3","DesiredStatus":"RUNNING","KnownStatus":"NONE","Limits":{"CPU":0.5,"Memory":512},` +
			`"PullStartedAt":"2026-05-01T11:59:57Z","PullStoppedAt":"2026-05-01T11:59:58Z","LaunchType":"EXTERNAL","FaultInjectionEnabled":false,"Containers":[` + container + "," + other + `]}`
	)
	for path, want := range map[string]string{
		"/v4/" + web:                   container,
		"/v3/" + web:                   container,
		"/v4/" + job:                   other,
		"/v4/" + web + "/task":         task,
		"/v3/" + job + "/task":         task,
		"/v4/" + job + "/taskWithTags": strings.TrimSuffix(task, "}") + `,"TaskTags":{"team":"blue"}}`,
		"/v4/" + web + "/stats":        `{"read":"now"}`,
		"/v4/" + job + "/stats":        "null",
		"/v4/" + job + "/task/stats":   `{"c0ffee":{"read":"now"}}`,
	} {
		if code, body := ask(t, s, path); code != http.StatusOK || body != want {
			t.Errorf("%s: %d\n got %s\nwant %s", path, code, body, want)
		}
	}
	for _, path := range []string{"/", "/v4", "/v4/", "/v4/nobody", "/v4/nobody/task", "/v4/" + web + "/nothing", "/v2/metadata"} {
		if code, _ := ask(t, s, path); code != http.StatusNotFound {
			t.Errorf("%s: %d, want 404", path, code)
		}
	}
}

func TestPortsOfARangeAndOnePortTwice(t *testing.T) {
	t.Parallel()
	mappings := []taskdef.Port{
		{ContainerPort: 80, HostPort: 8080, Protocol: "tcp"}, {ContainerPort: 80, Protocol: "tcp"}, {ContainerPort: 80, Protocol: "udp", HostIP: "127.0.0.1"},
		{ContainerPort: 9000, ContainerPortEnd: 9001, Protocol: "tcp"}, {ContainerPort: 9500, ContainerPortEnd: 9501, HostPort: 9500, Protocol: "tcp"},
	}
	bound := []taskdef.Port{
		{ContainerPort: 80, HostPort: 8080, Protocol: "tcp"}, {ContainerPort: 80, HostPort: 40000, Protocol: "tcp"}, {ContainerPort: 80, HostPort: 40001, Protocol: "udp", HostIP: "127.0.0.1"},
		{ContainerPort: 81, HostPort: 8081, Protocol: "tcp"}, {ContainerPort: 9000, HostPort: 41000, Protocol: "tcp"}, {ContainerPort: 9001, HostPort: 41001, Protocol: "tcp"},
		{ContainerPort: 9500, HostPort: 9500, Protocol: "tcp"}, {ContainerPort: 9501, HostPort: 9501, Protocol: "tcp"},
	}
	asBound := []Port{
		{80, "tcp", 8080, ""}, {80, "tcp", 40000, ""}, {80, "udp", 40001, "127.0.0.1"},
		{9000, "tcp", 41000, ""}, {9001, "tcp", 41001, ""}, {9500, "tcp", 9500, ""}, {9501, "tcp", 9501, ""},
	}
	asWanted := []Port{
		{80, "tcp", 8080, ""}, {80, "udp", 0, "127.0.0.1"}, {9000, "tcp", 0, ""}, {9001, "tcp", 0, ""}, {9500, "tcp", 9500, ""}, {9501, "tcp", 9501, ""},
	}
	for name, tt := range map[string]struct {
		network     taskdef.NetworkMode
		pod, member []taskdef.Port
		want        []Port
	}{
		"published by the pod":       {taskdef.NetworkAWSVPC, bound, nil, asBound},
		"published by the container": {taskdef.NetworkBridge, nil, bound, asBound},
		"not published yet":          {taskdef.NetworkBridge, nil, nil, asWanted},
	} {
		s := running()
		s.Task.Network, s.Task.Containers[0].Ports = tt.network, mappings
		s.Sandbox.Ports, s.Containers[0].Ports = tt.pod, tt.member
		if got := ContainerOf(s, 0, source(s).Names, nil).Ports; !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

func TestWhatADefinitionAsksForIsTold(t *testing.T) {
	t.Parallel()
	s := running()
	s.Options.Service = "shop-service"
	s.Task.Volumes = []taskdef.Volume{{Name: "data", Kind: taskdef.VolumeTask}, {Name: "conf", Kind: taskdef.VolumeBind, HostPath: "/etc/shop"}}
	web := &s.Task.Containers[0]
	web.Mounts = []taskdef.Mount{{Volume: "data", Path: "/data"}, {Volume: "conf", Path: "/conf"}}
	web.Log = &taskdef.LogConfiguration{Driver: logdriver.JSONFile, Options: map[string]string{"max-size": "1m"}}
	web.Restart, web.HealthCheck = &taskdef.RestartPolicy{}, &taskdef.HealthCheck{}
	s.Containers[0].Restarts, s.Containers[0].Health.Status = 2, lifecycle.HealthHealthy
	s.Task.Containers[1].Log = &taskdef.LogConfiguration{Driver: "awslogs", Options: map[string]string{"awslogs-group": "shop"}}
	for at, status := range []string{"HEALTHY", "UNHEALTHY", "HEALTHY"} {
		s.History = append(s.History, lifecycle.Transition{At: start.Add(time.Duration(at) * time.Minute), Container: "web", Status: status})
	}
	n := source(s).Names
	n.Volume = func(i int) string { return "podtask-" + s.Task.Volumes[i].Name }
	got, err := json.Marshal(TaskOf(s, n, nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"ServiceName":"shop-service"`,
		`"Volumes":[{"DockerName":"podtask-data","Destination":"/data"},{"Source":"/etc/shop","Destination":"/conf"}]`,
		`"LogDriver":"json-file","LogOptions":{"max-size":"1m"}`, `"RestartCount":2`,
		`"Health":{"status":"HEALTHY","statusSince":"2026-05-01T12:02:00Z"}`,
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
	if strings.Contains(string(got), "awslogs") {
		t.Errorf("logs are said to be where they are not: %s", got)
	}
}

// The second sample has the rate since the first; one that comes at once has the same.
func TestStatisticsHaveTheRateOfTheNetwork(t *testing.T) {
	t.Parallel()
	answer := ""
	src := source(running())
	src.Stats = func(context.Context, int) (json.RawMessage, error) { return json.RawMessage(answer), nil }
	s := New(src)
	for i, tt := range []struct {
		second         float64
		received, sent int
		want           string // nothing: no rate
	}{
		{0, 1000, 100, ""},
		{2, 5000, 300, `{"rx_bytes_per_sec":2000,"tx_bytes_per_sec":100}`},
		{2.5, 9000, 900, `{"rx_bytes_per_sec":2000,"tx_bytes_per_sec":100}`},
		{4, 5000, 500, `{"rx_bytes_per_sec":0,"tx_bytes_per_sec":100}`},
		{6, 10, 10, ""}, // another network
		{7, 20, 20, `{"rx_bytes_per_sec":10,"tx_bytes_per_sec":10}`},
	} {
		answer = fmt.Sprintf(`{"read":%q,"networks":{"a":{"rx_bytes":%d,"tx_bytes":%d},"b":{"rx_bytes":0,"tx_bytes":0}}}`,
			start.Add(time.Duration(tt.second*float64(time.Second))).Format(time.RFC3339Nano), tt.received, tt.sent)
		code, body := ask(t, s, "/v4/"+containerID(key, "web")+"/stats")
		var got struct {
			Read  string          `json:"read"`
			Rates json.RawMessage `json:"network_rate_stats"`
		}
		if err := json.Unmarshal([]byte(body), &got); code != http.StatusOK || err != nil || got.Read == "" || string(got.Rates) != tt.want {
			t.Errorf("answer %d: %d %s, want the rate %s", i, code, body, tt.want)
		}
	}
	for _, answer = range []string{`{"read":"now"}`, `[]`, `{}`} {
		if _, body := ask(t, s, "/v4/"+containerID(key, "web")+"/stats"); body != answer {
			t.Errorf("%s became %s", answer, body)
		}
	}
}

func TestFailedStatisticsAreAnError(t *testing.T) {
	t.Parallel()
	src := source(running())
	src.Stats = func(context.Context, int) (json.RawMessage, error) { return nil, errors.New("Podman is away") }
	if code, body := ask(t, New(src), "/v4/"+containerID(key, "web")+"/stats"); code != http.StatusInternalServerError || !strings.Contains(body, "Podman is away") {
		t.Errorf("%d %s", code, body)
	}
}

func TestWhoAsksHasStarted(t *testing.T) {
	t.Parallel()
	before := running()
	before.Containers[0].Presence, before.Containers[0].StartedAt = lifecycle.Created, time.Time{}
	src := source(before)
	src.Watch = func(_ context.Context, fn func(lifecycle.State) bool) error {
		if fn(before) {
			fn(running())
		}
		return nil
	}
	if _, body := ask(t, New(src), "/v4/"+containerID(key, "web")); !strings.Contains(body, `"KnownStatus":"RUNNING"`) {
		t.Error(body)
	}
}

func TestTooManyRequestsAreRefused(t *testing.T) {
	t.Parallel()
	s := New(source(running()))
	refused := 0
	for range 3 * burst {
		if code, _ := ask(t, s, "/v4/"+containerID(key, "web")); code == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
}

func TestIDsCannotBeGuessed(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, id := range []string{containerID(key, "web"), containerID(key, "job"), containerID("other", "web"), credentialsID(key), credentialsID("other")} {
		if seen[id] || strings.Contains(id, key[:8]) {
			t.Errorf("id %s", id)
		}
		seen[id] = true
	}
	if id := containerID(key, "web"); !regexp.MustCompile(`^[0-9a-f]{32}-[0-9]{10}$`).MatchString(id) {
		t.Errorf("id %s is not as the ECS agent's", id)
	}
}

// TestTheIDsOfAnotherTaskAreUnknown: a container that has learned all addresses of another task gets nothing of it at its own endpoint,
// with any method, and its own answers as often as before.
func TestTheIDsOfAnotherTaskAreUnknown(t *testing.T) {
	t.Parallel()
	own := source(running())
	own.Credentials = func(context.Context) (Credentials, error) { return Credentials{SecretAccessKey: "own"}, nil }
	own.Protect = func(context.Context, time.Time) error { t.Error("the task was protected"); return nil }
	own.Faults = &injector{st: new(lifecycle.State)}
	s := New(own)
	const another = "fedcba9876543210fedcba9876543210"
	other, mine := containerID(another, "web"), containerID(key, "web")
	paths := []string{
		"/v2/credentials/" + credentialsID(another), "/v2/credentials/" + credentialsID(key)[:35], "/v2/credentials/%2e%2e/" + credentialsID(key), "/v2/credentials/" + strings.ToUpper(credentialsID(another)),
		"/v4/" + other + "/../" + other + "/task", "/v2/credentials/..%2f" + credentialsID(another), "//v2/credentials/" + credentialsID(another),
	}
	for _, v := range []string{"/v3/", "/v4/"} {
		for _, rest := range []string{"", "/task", "/taskWithTags", "/stats", "/task/stats", "/task%2f"} {
			paths = append(paths, v+other+rest)
		}
	}
	for _, kind := range []string{"network-blackhole-port", "network-latency", "network-packet-loss"} {
		for _, verb := range []string{"start", "stop", "status"} {
			paths = append(paths, "/api/"+other+"/fault/v1/"+kind+"/"+verb)
		}
	}
	paths = append(paths, "/api/"+other+"/task-protection/v1/state")
	for _, path := range paths {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE", "OPTIONS"} {
			code, text := send(s, method, path, `{"ProtectionEnabled":true}`)
			if code < 300 || strings.Contains(text, "own") || strings.Contains(text, "shop") {
				t.Errorf("%s %s: %d %s", method, path, code, text)
			}
		}
	}
	if code, text := ask(t, s, "/v2/credentials/"+credentialsID(key)); code != http.StatusOK || !strings.Contains(text, "own") {
		t.Errorf("the task's own credentials: %d %s", code, text)
	}
	if code, _ := ask(t, s, "/v4/"+mine); code != http.StatusOK {
		t.Errorf("the task's own metadata: %d", code)
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	id := containerID(key, "web")
	env := Env(key, Address, "web", true)
	if env["ECS_AGENT_URI"] != "http://169.254.170.2/api/"+id {
		t.Error(env)
	}
	if env["ECS_CONTAINER_METADATA_URI_V4"] != "http://169.254.170.2/v4/"+id || env["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"] != "/v2/credentials/"+credentialsID(key) {
		t.Error(env)
	}
	env = Env(key, "127.0.0.1:4000", "web", true)
	if env["ECS_CONTAINER_METADATA_URI"] != "http://127.0.0.1:4000/v3/"+id || env["ECS_AGENT_URI"] != "http://127.0.0.1:4000/api/"+id || env["AWS_CONTAINER_CREDENTIALS_FULL_URI"] == "" || env["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"] != "" {
		t.Error(env)
	}
	for name := range Env(key, Address, "web", false) {
		if strings.HasPrefix(name, "AWS") {
			t.Errorf("%s is set for a task without a role", name)
		}
	}
}

// helper writes a program that prints text and counts its runs.
func helper(t *testing.T, text string) (command []string, runs func() int) {
	t.Helper()
	dir := t.TempDir()
	count, said := filepath.Join(dir, "count"), filepath.Join(dir, "said")
	if err := os.WriteFile(said, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"sh", "-c", `echo secret-on-stderr >&2; echo x >> "$0"; cat "$1"`, count, said}, func() int {
		data, _ := os.ReadFile(count)
		return strings.Count(string(data), "x")
	}
}

func TestCredentialsAreFetchedBeforeTheyEnd(t *testing.T) {
	t.Parallel()
	command, runs := helper(t, `{"Version":1,"AccessKeyId":"AKIA","SecretAccessKey":"s3cret","SessionToken":"tok","Expiration":"2026-05-01T13:00:00Z"}`)
	now := start
	h := &Helper{Command: command, RoleARN: "arn:role", Now: func() time.Time { return now }}
	src := source(running())
	src.Credentials = h.Credentials
	s := New(src)
	path := credentialsPath + credentialsID(key)
	const want = `{"RoleArn":"arn:role","AccessKeyId":"AKIA","SecretAccessKey":"s3cret","Token":"tok","Expiration":"2026-05-01T13:00:00Z"}`
	for _, step := range []struct {
		after time.Duration
		runs  int
	}{{0, 1}, {49 * time.Minute, 1}, {51 * time.Minute, 2}} {
		now = start.Add(step.after)
		if code, body := ask(t, s, path); code != http.StatusOK || body != want || runs() != step.runs {
			t.Errorf("after %s: %d %s, %d runs of the helper, want %d", step.after, code, body, runs(), step.runs)
		}
	}
	// A helper that fails now does no harm while the old ones last.
	h.Command = []string{"false"}
	if code, _ := ask(t, s, path); code != http.StatusOK {
		t.Errorf("%d while the credentials still hold", code)
	}
	now = start.Add(2 * time.Hour)
	if code, body := ask(t, s, path); code != http.StatusServiceUnavailable || !strings.Contains(body, "CredentialsUninitialized") {
		t.Errorf("%d %s after their end", code, body)
	}
}

// The program is told for whom the credentials are, and has the environment of this process.
func TestHelperIsToldTheTask(t *testing.T) {
	t.Parallel()
	h := &Helper{Env: []string{"ROLE=arn:role"}, Command: []string{"sh", "-c", `echo '{"Version":1,"AccessKeyId":"'$ROLE'","SecretAccessKey":"'${PATH:+path}'"}'`}}
	c, err := h.Credentials(t.Context())
	if err != nil || c.AccessKeyID != "arn:role" || c.SecretAccessKey != "path" {
		t.Errorf("key %q, %v", c.AccessKeyID, err)
	}
}

func TestCredentialsErrors(t *testing.T) {
	t.Parallel()
	s := New(source(running()))
	if code, body := ask(t, s, credentialsPath+credentialsID(key)); code != http.StatusServiceUnavailable || !strings.Contains(body, "no credentials helper") {
		t.Errorf("without a helper: %d %s", code, body)
	}
	if code, body := ask(t, s, credentialsPath+"guess"); code != http.StatusBadRequest || !strings.Contains(body, "InvalidIdInRequest") {
		t.Errorf("wrong id: %d %s", code, body)
	}
	for name, text := range map[string]string{"no JSON": "secret", "no version": `{"AccessKeyId":"secret","SecretAccessKey":"secret"}`, "no key": `{"Version":1,"SessionToken":"secret"}`} {
		command, _ := helper(t, text)
		_, err := (&Helper{Command: command}).Credentials(t.Context())
		if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "credential_process") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	lasting, _ := helper(t, `{"Version":1,"AccessKeyId":"a","SecretAccessKey":"b"}`)
	if c, err := (&Helper{Command: lasting, Now: func() time.Time { return start }}).Credentials(t.Context()); err != nil || !c.Expiration.Equal(start.Add(time.Hour)) {
		t.Errorf("without an end: %v until %v, %v", c, c.Expiration, err)
	}
}

// Others replace what is in a file, long before it ends.
func TestNewCredentialsOfAFileAreServedAtOnce(t *testing.T) {
	t.Parallel()
	text := `{"Version":1,"AccessKeyId":"ONE","SecretAccessKey":"x","Expiration":"2026-05-01T18:00:00Z"}`
	var failure error
	now := start
	h := &Helper{Fresh: true, Now: func() time.Time { return now }, Read: func(context.Context) ([]byte, error) { return []byte(text), failure }}
	want := func(key string) {
		t.Helper()
		if c, err := h.Credentials(t.Context()); err != nil || c.AccessKeyID != key {
			t.Errorf("%s, %v; want %s", c.AccessKeyID, err, key)
		}
	}
	want("ONE")
	text = strings.ReplaceAll(text, "ONE", "TWO")
	want("TWO")
	failure = errors.New("no such file")
	want("TWO") // they are good
	failure, text = nil, strings.ReplaceAll(text, "TWO", "THREE")
	now = now.Add(retryAfter)
	want("THREE")
}

func TestCredentialsOfASource(t *testing.T) {
	t.Parallel()
	now, reads, text := start, 0, `{"Version":1,"AccessKeyId":"A","SecretAccessKey":"hunter2","Expiration":"2026-05-01T13:00:00Z"}`
	h := &Helper{RoleARN: "arn:role", Now: func() time.Time { return now }, Read: func(context.Context) ([]byte, error) {
		reads++
		return []byte(text), nil
	}}
	for range 2 {
		if c, err := h.Credentials(t.Context()); err != nil || c.AccessKeyID != "A" || c.RoleARN != "arn:role" || reads != 1 {
			t.Fatalf("%v after %d reads", err, reads)
		}
	}
	now, text = start.Add(55*time.Minute), `hunter2`
	if _, err := h.Credentials(t.Context()); err != nil || reads != 2 {
		t.Errorf("the credentials that are still valid are not used: %v, %d reads", err, reads)
	}
	now = start.Add(2 * time.Hour)
	if _, err := h.Credentials(t.Context()); err == nil || !strings.Contains(err.Error(), "the source of the role has no credentials") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v", err)
	}
}
