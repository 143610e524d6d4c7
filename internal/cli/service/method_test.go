package service

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/api"
)

func TestParseHook(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]api.Hook{
		"post-scale-up=/bin/check 'a b'":                     {Stages: []string{"POST_SCALE_UP"}, Kind: "COMMAND", Command: []string{"/bin/check", "a b"}},
		"migrate@pre-scale-up=task:schema:3":                 {Name: "migrate", Stages: []string{"PRE_SCALE_UP"}, Kind: "TASK", Target: "schema:3"},
		"smoke@post-test:90s=http://127.0.0.1:8000/x?a=b":    {Name: "smoke", Stages: []string{"POST_TEST_TRAFFIC_SHIFT"}, Kind: "URL", Target: "http://127.0.0.1:8000/x?a=b", TimeoutSeconds: 90},
		"ok@PRE_PRODUCTION_TRAFFIC_SHIFT:1h:continue=pause":  {Name: "ok", Stages: []string{"PRE_PRODUCTION_TRAFFIC_SHIFT"}, Kind: "PAUSE", TimeoutSeconds: 3600, TimeoutAction: "CONTINUE"},
		"test,production=arn:aws:lambda:r:1:function:verify": {Stages: []string{"TEST_TRAFFIC_SHIFT", "PRODUCTION_TRAFFIC_SHIFT"}, Kind: "AWS_LAMBDA", Target: "arn:aws:lambda:r:1:function:verify"},
	} {
		got, err := parseHook(word)
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(want)
		if err != nil || string(a) != string(b) {
			t.Errorf("%s: %s, %v", word, a, err)
		}
	}
	for _, word := range []string{"", "post-scale-up", "=pause", "post-scale-up=", "post-scale-up=check", "post-scale-up:x=pause", "post-scale-up:1s:wait=pause", "post-scale-up=/bin/check '"} {
		if h, err := parseHook(word); err == nil {
			t.Errorf("%q: %+v", word, h)
		}
	}
	hooks, err := parseHooks([]string{"pre-scale-up=pause", "b@post-scale-up=pause"})
	if err != nil || hooks[0].Name != "hook-1" || hooks[1].Name != "b" {
		t.Errorf("%+v, %v", hooks, err)
	}
	if none, err := parseHooks([]string{"none"}); len(none) != 0 || err != nil {
		t.Errorf("%+v, %v", none, err)
	}
}

func FuzzParseHook(f *testing.F) {
	f.Add("ok@post-test:1h:continue=pause")
	f.Add("a,b=/bin/x 'y z'")
	f.Fuzz(func(t *testing.T, word string) {
		h, err := parseHook(word)
		if err == nil && (len(h.Stages) == 0 || h.Kind == "" || h.TimeoutSeconds < 0) {
			t.Errorf("%+v", h)
		}
	})
}

func TestImages(t *testing.T) {
	t.Parallel()
	const two = `{"family":"web","containerDefinitions":[{"name":"app","image":"localhost/web:1","cpu":1},{"name":"proxy","image":"docker.io/library/nginx:1"}]}`
	for _, tt := range []struct {
		words []string
		want  string
	}{
		{[]string{"localhost/web:2"}, "localhost/web:2 docker.io/library/nginx:1"},
		{[]string{"nginx@sha256:" + strings.Repeat("a", 64)}, "localhost/web:1 nginx@sha256:" + strings.Repeat("a", 64)},
		{[]string{"app=other:1", "proxy=envoy:2"}, "other:1 envoy:2"},
	} {
		data, err := withImages([]byte(two), tt.words)
		var doc struct{ ContainerDefinitions []struct{ Image string } }
		if err == nil {
			err = json.Unmarshal(data, &doc)
		}
		var got []string
		for _, c := range doc.ContainerDefinitions {
			got = append(got, c.Image)
		}
		if strings.Join(got, " ") != tt.want || err != nil {
			t.Errorf("%q: %q, %v", tt.words, got, err)
		}
	}
	for _, words := range [][]string{{"other:1"}, {"sidecar=other:1"}, {"app="}} {
		if data, err := withImages([]byte(two), words); err == nil {
			t.Errorf("%q: %s", words, data)
		}
	}
	if _, err := withImages([]byte(`{"kind":"Pod"}`), []string{"a:1"}); err == nil {
		t.Error("a manifest was changed")
	}
}

func TestRolloutLine(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	s := api.Service{
		ServiceName: "web",
		Deployments: []api.Deployment{
			{Status: "PRIMARY", TaskDefinition: "web:2", HealthyCount: 1, RunningCount: 2, DesiredCount: 3, RolloutState: "IN_PROGRESS"},
			{Status: "ACTIVE", TaskDefinition: "web:1", HealthyCount: 3, RunningCount: 3, DesiredCount: 3},
		},
		DeploymentConfiguration: api.DeploymentConfiguration{DeploymentMethod: api.DeploymentMethod{Strategy: "CANARY"}},
		History: []api.PastDeployment{{Progress: &api.DeploymentProgress{
			Stage: "PRODUCTION_TRAFFIC_SHIFT", Percent: 5, Until: at.Add(90 * time.Second),
			Hooks: []api.HookCall{{Hook: "smoke", Status: "IN_PROGRESS", StartedAt: at.Add(-12 * time.Second), ExpiresAt: at.Add(48 * time.Second)}, {Hook: "old", Status: "SUCCEEDED"}},
		}}},
	}
	want := "web · web:2 1/3 healthy · old web:1 3/3 healthy · PRODUCTION_TRAFFIC_SHIFT · hook smoke, 12s of 1m0s · 5 % shifted · 1m30s left"
	if got := rolloutLine(s, at); got != want {
		t.Errorf("%q\nwant %q", got, want)
	}
	s.History[0].FinishedAt = at
	if got, want := rolloutLine(s, at), "web · web:2 1/3 healthy · old web:1 3/3 healthy · in progress"; got != want {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// Two deployments of one definition, as after a change of the environment only, are told apart.
func TestRolloutLineNamesDeploymentsOfOneDefinition(t *testing.T) {
	t.Parallel()
	s := api.Service{ServiceName: "web", Deployments: []api.Deployment{
		{ID: "web/4", Status: "PRIMARY", TaskDefinition: "web:2", DesiredCount: 1, RolloutState: "IN_PROGRESS"},
		{ID: "web/3", Status: "ACTIVE", TaskDefinition: "web:2", HealthyCount: 1, RunningCount: 1, DesiredCount: 1},
	}}
	if got, want := rolloutLine(s, time.Time{}), "web · web/4 0/1 healthy · old web/3 1/1 healthy · in progress"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// The tutorial shows such an update.
func TestTheTutorialShowsTheLineOfAnUpdate(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/tutorial.md")
	if err != nil {
		t.Fatal(err)
	}
	s := api.Service{ServiceName: "web", Deployments: []api.Deployment{
		{ID: "web/2", Status: "PRIMARY", TaskDefinition: "web:1", DesiredCount: 3, RolloutState: "IN_PROGRESS"},
		{ID: "web/1", Status: "ACTIVE", TaskDefinition: "web:1", HealthyCount: 3, RunningCount: 3},
	}}
	if line := rolloutLine(s, time.Time{}); !strings.Contains(string(page), line) {
		t.Errorf("docs/tutorial.md does not show %q", line)
	}
}

// A wait that does not end by itself is not silent: what the service waits for is told, once.
func TestWaitingTellsWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	s := api.Service{
		ServiceName: "web", Deployments: []api.Deployment{{Status: "PRIMARY", TaskDefinition: "web:2", DesiredCount: 1, RolloutState: "IN_PROGRESS"}},
		Why: []api.Reason{{Code: "rolling", Text: "deployment web/2 is in progress"}, {Code: "queued", Text: "web-1 waits for 1 vCPU"}},
	}
	var out strings.Builder
	f := newFollower(&out, false, s, time.Time{})
	for range 3 {
		f.show(s, time.Time{})
	}
	s.Why = []api.Reason{{Code: "retry", Text: "web-1 does not start and podtask keeps trying: no such host"}}
	f.show(s, time.Time{})
	s.Why = []api.Reason{{Code: "pending", Text: "0 of 1 copy of web:2 healthy"}}
	f.show(s, time.Time{})
	want := "    0.0s  web · web:2 0/1 healthy · in progress\n    0.0s  web-1 waits for 1 vCPU\n    0.0s  web-1 does not start and podtask keeps trying: no such host\n"
	if out.String() != want {
		t.Errorf("%q\nwant %q", out.String(), want)
	}
	out.Reset()
	s.Why = []api.Reason{{Code: "queued", Text: "web-1 waits for 1 vCPU"}}
	newFollower(&out, true, s, time.Time{}).show(s, time.Time{})
	if want := "in progress · web-1 waits for 1 vCPU"; !strings.Contains(out.String(), want) {
		t.Errorf("%q has no %q", out.String(), want)
	}
}

func TestTheLineMovesOnATerminal(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	f := &follower{out: &out, moving: true}
	f.draw("a long line")
	f.draw("short")
	f.end()
	if got, want := out.String(), "\ra long line\rshort      \n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestStepsAreLinesWithoutATerminal(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	at := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	s := api.Service{
		ServiceName: "web", Deployments: []api.Deployment{{Status: "PRIMARY", TaskDefinition: "web:2", DesiredCount: 2, PendingCount: 2, RolloutState: "IN_PROGRESS"}},
		Tasks: []api.ServiceTask{{ID: "a", Name: "web-1", Phase: "STOPPED", Reason: "of an earlier command"}, {ID: "b", Name: "web-2", Phase: "LIVE"}},
	}
	f := newFollower(&out, false, s, at)
	f.show(s, at)
	f.show(s, at.Add(time.Second)) // nothing has changed
	s.Tasks[1].Phase, s.Tasks[1].Reason = "STOPPING", "app exited with 3"
	s.Deployments[0].HealthyCount = 1
	f.show(s, at.Add(2*time.Second))
	want := "    0.0s  web · web:2 0/2 healthy · in progress\n    2.0s  web-2 stops: app exited with 3\n    2.0s  web · web:2 1/2 healthy · in progress\n"
	if got := out.String(); got != want {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// A long reason, such as an image that does not exist, is told once and not of each copy; a short one is always told.
func TestALongReasonIsToldOnce(t *testing.T) {
	t.Parallel()
	long := "essential container web could not start: CannotPullContainerError: the registry has no such tag or digest"
	tasks := []api.ServiceTask{
		{ID: "a", Name: "web-1", Phase: "STOPPED", Reason: long},
		{ID: "b", Name: "web-2", Phase: "STOPPED", Reason: long},
		{ID: "c", Name: "web-3", Phase: "STOPPED", Reason: "replaced by deployment web/2"},
		{ID: "d", Name: "web-4", Phase: "STOPPED", Reason: "replaced by deployment web/2"},
		{ID: "e", Name: "web-5", Phase: "STOPPED", Reason: long},
	}
	var out strings.Builder
	at := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	s := api.Service{ServiceName: "web", Deployments: []api.Deployment{{Status: "PRIMARY", TaskDefinition: "web:2", RolloutState: "FAILED"}}}
	f := newFollower(&out, false, s, at)
	for n := range tasks {
		s.Tasks = tasks[:n+1]
		f.show(s, at)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		if _, text, ok := strings.Cut(line, " stops: "); ok {
			got = append(got, strings.TrimSpace(text))
		}
	}
	want := []string{long, "for the same reason", "replaced by deployment web/2", "replaced by deployment web/2", long}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}
