package program

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/aws/instance"
	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/testing/ecsplane"
)

func TestEachFlagCanBeConfigured(t *testing.T) {
	t.Parallel()
	keys := config.ECSKeys()
	for _, c := range commands {
		if !c.takes("host") {
			continue
		}
		o := newOptions(c, new(bytes.Buffer), func(string) string { return "" }, "")
		o.flags.VisitAll(func(f *flag.Flag) {
			if has := slices.Contains(keys, f.Name); has == slices.Contains([]string{"debug", "socket", "format", "force", "undo", "activation-id", "activation-code-file"}, f.Name) {
				t.Errorf("%s: the flag %s is a key of [ecs]: %t", c.name, f.Name, has)
			}
		})
		for _, k := range keys {
			if o.flags.Lookup(k) == nil {
				t.Errorf("%s has no flag %s", c.name, k)
			}
		}
	}
	page, err := os.ReadFile("../../../../docs/ecs-anywhere.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		if !strings.Contains(string(page), "| `"+k+"` |") {
			t.Errorf("docs/ecs-anywhere.md has no row for %s", k)
		}
	}
}

// A command has the flags that it acts on, and no other; keys of the configuration for other commands do it no harm.
func TestCommandsHaveTheFlagsThatTheyActOn(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"activate": "activation-code-file activation-id region", "status": "format",
		"drain": "endpoint profile region undo", "leave": "endpoint force local profile region socket",
	}
	for _, c := range commands {
		var got []string
		newOptions(c, new(bytes.Buffer), func(string) string { return "" }, "").flags.VisitAll(func(f *flag.Flag) { got = append(got, f.Name) })
		if w, fixed := want[c.name]; fixed && strings.Join(got, " ") != w {
			t.Errorf("%s: %s", c.name, got)
		}
	}
	getenv := host(t, nil)
	dir := filepath.Join(getenv("HOME"), ".config", "podtask")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "podtask.toml"), []byte("[ecs]\nregion = \"eu-west-1\"\ncpu = 1024\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if code := run(context.Background(), []string{"status"}, streams{&out, &out}, getenv, "1"); code != 0 {
		t.Errorf("code %d: %s", code, &out)
	}
}

// host is a home without anything, and variables.
func host(t *testing.T, more map[string]string) func(string) string {
	t.Helper()
	home := t.TempDir()
	env := map[string]string{"HOME": home, "XDG_RUNTIME_DIR": filepath.Join(home, "run"), "XDG_STATE_HOME": filepath.Join(home, "state")}
	return func(key string) string {
		if v, ok := more[key]; ok {
			return v
		}
		return env[key]
	}
}

func TestAllProblemsAreReported(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	code := run(context.Background(), []string{"join", "--cluster", "a b", "--region", "here", "--endpoint", "http://ecs.example", "--attributes", "ecs.x=1", "--tags", "x",
		"--memory", "-1", "--cpu", "99999999", "--reserved-ports", "70000", "--task-cleanup-wait", "1s"}, streams{&out, &out}, host(t, nil), "1")
	for _, want := range []string{"--cluster", "--region", "https://", "--attributes", "--tags", "--memory -1", "--cpu 99999999", "--reserved-ports", "--task-cleanup-wait"} {
		if code != exitFailed || !strings.Contains(out.String(), want) {
			t.Errorf("code %d, no %s in %s", code, want, &out)
		}
	}
	out.Reset()
	if code := run(context.Background(), []string{"join"}, streams{&out, &out}, host(t, nil), "1"); code != exitFailed || !strings.Contains(out.String(), "--region is missing") {
		t.Errorf("code %d, %s", code, &out)
	}
	out.Reset()
	if code := run(context.Background(), []string{"join", "--region", "us-east-1"}, streams{&out, &out}, host(t, nil), "1"); code != exitFailed || !strings.Contains(out.String(), "no AWS credentials") {
		t.Errorf("code %d, %s", code, &out)
	}
	out.Reset()
	if code := run(context.Background(), []string{"activate", "--region", "us-east-1", "--activation-code-file", "/no/such"}, streams{&out, &out}, host(t, nil), "1"); code != exitFailed || !strings.Contains(out.String(), "--activation-id is missing") || !strings.Contains(out.String(), "/no/such") {
		t.Errorf("code %d, %s", code, &out)
	}
	out.Reset()
	if code := run(context.Background(), []string{"jion"}, streams{&out, &out}, host(t, nil), "1"); code != exitFailed || !strings.Contains(out.String(), "use join") {
		t.Errorf("code %d, %s", code, &out)
	}
}

func TestAnInstanceIsShownCheckedDrainedAndLeft(t *testing.T) {
	t.Parallel()
	var plane *ecsplane.Plane
	server := httptest.NewServer(nil)
	defer server.Close()
	plane = ecsplane.New(server.URL)
	server.Config.Handler = plane
	plane.Grant("ecs:DescribeClusters", "ecs:DescribeContainerInstances")
	getenv := host(t, map[string]string{"AWS_ACCESS_KEY_ID": ecsplane.KeyID, "AWS_SECRET_ACCESS_KEY": ecsplane.Secret, "AWS_REGION": ecsplane.Region, "AWS_ENDPOINT_URL": server.URL})
	type answer struct {
		code int
		out  string
	}
	do := func(args ...string) answer {
		var out bytes.Buffer
		code := run(context.Background(), args, streams{&out, &out}, getenv, "1")
		return answer{code, out.String()}
	}
	for _, c := range []string{"drain", "leave"} {
		if a := do(c); a.code != exitFailed || !strings.Contains(a.out, "this host is no instance") {
			t.Errorf("%s: %+v", c, a)
		}
	}
	if a := do("status"); a.code != 0 || !strings.Contains(a.out, "podtask ecs join") {
		t.Errorf("%+v", a)
	}
	// Before the host joins, all is tried that can be. There is no agent.
	before := do("check", "--cluster", "lab")
	for _, want := range []string{"FAILED   agent", "ok       reach ecs", "ok       reach secretsmanager", "ok       clock", "ok       GetCallerIdentity     account 111122223333, arn:aws:sts::111122223333:assumed-role/instance/mi-", "ok       DiscoverPollEndpoint", "skipped  ACS"} {
		if before.code != exitFailed || !strings.Contains(before.out, want) {
			t.Errorf("no %q in %+v", want, before)
		}
	}
	plane.Plan("DiscoverPollEndpoint", ecsplane.Answer{Status: 400, Type: "AccessDeniedException", Message: "not authorized to perform: ecs:DiscoverPollEndpoint"})
	if a := do("check"); !strings.Contains(a.out, "FAILED   DiscoverPollEndpoint") {
		t.Errorf("%+v", a)
	}
	records, err := instance.OpenRecords(filepath.Join(getenv("XDG_STATE_HOME"), "podtask", "ecs"))
	if err != nil {
		t.Fatal(err)
	}
	if err := records.SetIdentity(instance.Identity{Cluster: "lab", Region: ecsplane.Region, ARN: ecsplane.InstanceARN(1)}); err != nil {
		t.Fatal(err)
	}
	var d statusDocument
	if a := do("status", "--format", "json"); a.code != 0 || json.Unmarshal([]byte(a.out), &d) != nil || d.Instance != ecsplane.InstanceARN(1) || d.Running {
		t.Errorf("%+v", a)
	}
	// There is no agent, and no other problem.
	if a := do("check"); a.code != exitFailed || !strings.Contains(a.out, "FAILED   agent") || strings.Count(a.out, "FAILED") != 1 || !strings.Contains(a.out, "agentConnected true") {
		t.Errorf("%+v", a)
	}
	if a := do("drain"); a.code != 0 || !strings.Contains(a.out, "DRAINING") {
		t.Errorf("%+v", a)
	}
	release, err := records.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if a := do("leave"); a.code != exitFailed || !strings.Contains(a.out, "systemctl --user disable --now podtask-ecs.service") {
		t.Errorf("%+v", a)
	}
	release()
	// A cluster or an account that is gone keeps nobody here.
	plane.Plan("DeregisterContainerInstance", ecsplane.Answer{Status: 400, Type: "ClusterNotFoundException", Message: "Cluster not found."})
	if a := do("leave"); a.code != exitFailed || !strings.Contains(a.out, "podtask ecs leave --local") {
		t.Errorf("%+v", a)
	}
	if a := do("leave", "--local"); a.code != 0 || !strings.Contains(a.out, "aws ecs deregister-container-instance --force --region us-east-1 --cluster lab --container-instance "+ecsplane.InstanceARN(1)) {
		t.Errorf("%+v", a)
	}
	if id, err := records.Identity(); err != nil || id != (instance.Identity{}) {
		t.Errorf("%+v, %v", id, err)
	}
	if err := records.SetIdentity(instance.Identity{Cluster: "lab", Region: ecsplane.Region, ARN: ecsplane.InstanceARN(1)}); err != nil {
		t.Fatal(err)
	}
	if a := do("leave"); a.code != 0 || !strings.Contains(a.out, "was deregistered") {
		t.Errorf("%+v", a)
	}
	if id, err := records.Identity(); err != nil || id != (instance.Identity{}) {
		t.Errorf("%+v, %v", id, err)
	}
	for _, p := range plane.Problems() {
		t.Error(p)
	}
}

func TestLimitsThatAreOffAreNotAnnounced(t *testing.T) {
	t.Parallel()
	getenv := host(t, map[string]string{"AWS_REGION": "us-east-1"})
	dir := filepath.Join(getenv("HOME"), ".config", "podtask")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{"limits = \"off\"\n": "", "limits = \"of\"\n": "limits"} {
		if err := os.WriteFile(filepath.Join(dir, "podtask.toml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		h, err := newOptions(commands[0], new(bytes.Buffer), getenv, "").host()
		if want == "" && (err != nil || h.Limits) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %t, %v", text, h.Limits, err)
		}
	}
}
