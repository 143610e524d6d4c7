package metrics

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/engine/act/logdelivery"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/network/nodenames"
	"github.com/podtask/podtask/internal/engine/run/hooks"
	"github.com/podtask/podtask/internal/engine/run/services"
	"github.com/podtask/podtask/internal/forward"
	"github.com/podtask/podtask/internal/ingress"
	"github.com/podtask/podtask/internal/serve/metrics/awsmetrics"
	"github.com/podtask/podtask/internal/serve/metrics/ecsmetrics"
	"github.com/podtask/podtask/internal/serve/metrics/imagemetrics"
	"github.com/podtask/podtask/internal/serve/metrics/noticemetrics"
	"github.com/podtask/podtask/internal/serve/metrics/schedulemetrics"
	"github.com/podtask/podtask/internal/serve/metrics/stackmetrics"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	rec := httptest.NewRecorder()
	m.Handler().ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	if rec.Code != 200 {
		t.Fatalf("status %d: %s", rec.Code, rec.Body)
	}
	return rec.Body.String()
}

func TestMetricsTellWhatIsAndWhatHappened(t *testing.T) {
	t.Parallel()
	def := taskdef.Task{Family: "web", Network: taskdef.NetworkBridge, Containers: []taskdef.Container{{Name: "app", Image: "app:1", Essential: true}}}
	fresh := lifecycle.New(strings.Repeat("a", 32), "", def, lifecycle.Options{Limits: "off"}, time.Unix(0, 0))
	up := fresh
	up.Containers = []lifecycle.Container{{Presence: lifecycle.Running, StartedAt: time.Unix(1, 0), Restarts: 2}}
	m := New("1.2.3", func() []lifecycle.State { return []lifecycle.State{fresh, up} }, func() int { return 1 })

	fromTheStart := scrape(t, m)
	for _, want := range []string{`podtask_container_exits_total{outcome="failure"} 0`, `podtask_errors_total{error="OutOfMemoryError"} 0`} {
		if !strings.Contains(fromTheStart, want) {
			t.Errorf("%s is missing: an alert would miss the first one", want)
		}
	}

	one, zero := 1, 0
	for _, tr := range []lifecycle.Transition{
		{Status: "RUNNING"},
		{Container: "app", Status: "RUNNING"},
		{Container: "app", Status: "STOPPED", ExitCode: &one, Reason: "OutOfMemoryError: killed"},
		{Container: "db", Status: "STOPPED", ExitCode: &zero},
		{Container: "late", Status: "STOPPED", Reason: "it was not needed"},
		{Container: lifecycle.Infra, Status: "STOPPED", ExitCode: &zero},
	} {
		m.Event(record.Event{Transition: tr})
	}
	m.Operation(lifecycle.PullImage{}, 3*time.Second, lifecycle.Failure{})
	m.Operation(lifecycle.PullImage{}, time.Second, lifecycle.Failure{Class: lifecycle.Temporary})
	m.Operation(lifecycle.PullImage{}, time.Second, lifecycle.Failure{Class: lifecycle.Canceled})
	got := scrape(t, m)
	for _, want := range []string{
		`podtask_build_info{version="1.2.3"} 1`,
		`podtask_tasks_owned 1`,
		`podtask_tasks{status="STOPPED"} 0`,
		`podtask_containers_restarts 2`,
		`podtask_transitions_total{kind="task",status="RUNNING"} 1`,
		`podtask_transitions_total{kind="container",status="STOPPED"} 4`,
		`podtask_container_exits_total{outcome="failure"} 1`,
		`podtask_container_exits_total{outcome="success"} 1`,
		`podtask_container_exits_total{outcome="none"} 1`,
		`podtask_errors_total{error="OutOfMemoryError"} 1`,
		`podtask_operation_duration_seconds_count{operation="PullImage",outcome="ok"} 1`,
		`podtask_operation_duration_seconds_count{operation="PullImage",outcome="retry"} 1`,
		`process_resident_memory_bytes`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing in\n%s", want, got)
		}
	}
	if strings.Contains(got, fresh.ID) {
		t.Error("a label holds the id of a task")
	}
	problems, err := promlint.New(strings.NewReader(got)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "podtask_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// The rules and the dashboard ask for metrics that exist.
func TestContribNamesMetricsThatExist(t *testing.T) {
	t.Parallel()
	m := New("1", func() []lifecycle.State { return nil }, func() int { return 0 })
	one := 1
	m.Event(record.Event{Transition: lifecycle.Transition{Container: "app", Status: "STOPPED", ExitCode: &one, Reason: "OutOfMemoryError: killed"}})
	m.Operation(lifecycle.PullImage{}, time.Second, lifecycle.Failure{})
	m.Services(func() []service.State {
		return []service.State{{Name: "web", Deployments: []service.Deployment{{}}, Config: service.Config{Sleep: &service.Sleep{After: time.Minute}}}}
	})
	m.Usage(func() []lifecycle.State { return []lifecycle.State{runningTask("a", "web")} },
		func(lifecycle.State) (cgroups.Usage, bool) { return wholeUsage, true })
	m.Logs(func() []api.LogRoute { return []api.LogRoute{{Driver: "gelf"}} })
	m.Ingress(func(context.Context) (*ingress.Status, error) {
		return &ingress.Status{Certificates: []ingress.Certificate{{Name: "app.example.org", Issuer: "acme"}}}, nil
	})
	have := scrape(t, m)
	names := regexp.MustCompile(`\bpodtask_[a-z_]+`)
	for _, file := range []string{"prometheus/podtask.rules.yml", "grafana/podtask.json"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "contrib", file))
		if err != nil {
			t.Fatal(err)
		}
		found := names.FindAllString(string(text), -1)
		if len(found) < 5 {
			t.Errorf("%s names only %q", file, found)
		}
		for _, name := range found {
			if !strings.Contains(have, "\n"+name+"{") && !strings.Contains(have, "\n"+name+" ") {
				t.Errorf("%s: there is no %s", file, name)
			}
		}
	}
}

func TestLogsThatWaitAreMeasured(t *testing.T) {
	t.Parallel()
	m := New("1", func() []lifecycle.State { return nil }, func() int { return 0 })
	m.Logs(func() []api.LogRoute {
		return []api.LogRoute{{Driver: "awslogs", WaitingBytes: 3}, {Driver: "awslogs", WaitingBytes: 4, Error: "denied"}, {Driver: "awslogs", WaitingBytes: 1, Error: "denied"}, {Driver: "gelf", Error: "all was given up"}}
	})
	m.Event(record.Event{Transition: lifecycle.Transition{Container: "app", Status: "LOGS_STALLED", Reason: "OutOfMemoryError"}})
	m.Output(logdelivery.Outcome{Driver: "gelf", Lines: 2, Bytes: 20, LostLines: 1, LostBytes: 9})
	got := scrape(t, m)
	for _, want := range []string{
		`podtask_log_records_total{driver="gelf",outcome="delivered"} 2`, `podtask_log_records_total{driver="gelf",outcome="lost"} 1`,
		`podtask_log_bytes_total{driver="gelf"} 20`, `podtask_log_lost_bytes_total{driver="gelf"} 9`, `podtask_log_records_total{driver="splunk",outcome="lost"} 0`,
		`podtask_log_backlog_bytes{driver="awslogs"} 8`, `podtask_log_routes{driver="awslogs",state="ok"} 1`, `podtask_log_routes{driver="awslogs",state="stalled"} 2`,
		`podtask_errors_total{error="OutOfMemoryError"} 0`, `podtask_log_routes{driver="gelf",state="ok"} 1`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing", want)
		}
	}
}

func TestConnectionsAreCounted(t *testing.T) {
	t.Parallel()
	m := New("1", func() []lifecycle.State { return nil }, func() int { return 0 })
	m.Traffic(func() []services.Traffic {
		return []services.Traffic{{Service: "web", Address: "127.0.0.1:80", Counts: forward.Counts{Forwarded: map[string]uint64{"web/1": 3, "web/2": 4}, Cut: 5, Refused: 6}}}
	})
	m.NodeNames(func() []nodenames.Traffic {
		return []nodenames.Traffic{{Node: "edge", Namespace: "shop", Name: "db", Port: 5432, Counts: forward.Counts{Forwarded: map[string]uint64{"edge": 8}, Refused: 9, Quiet: 10, Open: 11}}}
	})
	m.Hooks(func() []hooks.Count {
		return []hooks.Count{{Service: "web", Hook: "smoke", Status: service.HookFailed, Calls: 7}, {Service: "gone", Hook: "smoke", Calls: 1}}
	}, func() []service.State { return []service.State{{Name: "web", Deployments: []service.Deployment{{}}}} })
	got := scrape(t, m)
	if strings.Contains(got, `service="gone"`) {
		t.Error("a service that is gone has a series")
	}
	for _, want := range []string{
		`podtask_service_hook_calls_total{hook="smoke",service="web",status="FAILED"} 7`,
		`podtask_service_connections_total{deployment="web/1",listener="127.0.0.1:80",service="web"} 3`, `podtask_service_connections_total{deployment="web/2",listener="127.0.0.1:80",service="web"} 4`,
		`podtask_service_connections_closed_total{listener="127.0.0.1:80",reason="drain",service="web"} 5`, `podtask_service_connections_closed_total{listener="127.0.0.1:80",reason="no-copy",service="web"} 6`,
		`podtask_service_connections_closed_total{listener="127.0.0.1:80",reason="quiet",service="web"} 0`,
		`podtask_node_name_connections{name="db",namespace="shop",node="edge",port="5432"} 11`, `podtask_node_name_connections_total{name="db",namespace="shop",node="edge",port="5432"} 8`,
		`podtask_node_name_connections_closed_total{name="db",namespace="shop",node="edge",port="5432",reason="no-pod"} 9`, `podtask_node_name_connections_closed_total{name="db",namespace="shop",node="edge",port="5432",reason="quiet"} 10`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing", want)
		}
	}
}

func TestStagesAreMeasured(t *testing.T) {
	t.Parallel()
	m := New("1", func() []lifecycle.State { return nil }, func() int { return 0 })
	pause := service.Hook{Name: "ok", Stages: []service.Stage{service.PreScaleUp}, Target: service.HookTarget{Kind: service.HookPause}}
	c := service.Config{Method: service.Method{Strategy: service.BlueGreen, Hooks: []service.Hook{pause}}}
	s := service.New("0123456789abcdef0123456789abcdef", "web", service.Spec{TaskDefinition: "web:1"}, 1, c, time.Now().Add(-time.Minute))
	m.Services(func() []service.State { return []service.State{s} })
	got := scrape(t, m)
	for _, want := range []string{
		`podtask_service_hooks_open{kind="pause",service="web"} 1`, `podtask_service_hooks_open{kind="call",service="web"} 0`,
		`podtask_service_shifted_percent{service="web"} 0`, `podtask_service_stage_seconds{service="web",stage="PRE_SCALE_UP"} 6`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing", want)
		}
	}
}

func TestIngress(t *testing.T) {
	t.Parallel()
	var status *ingress.Status
	m := New("", func() []lifecycle.State { return nil }, func() int { return 0 })
	m.Ingress(func(context.Context) (*ingress.Status, error) { return status, nil })
	scrape := func() string {
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return w.Body.String()
	}
	if got := scrape(); !strings.Contains(got, "podtask_ingress_up 0") || strings.Contains(got, "podtask_ingress_connections ") {
		t.Errorf("without a proxy: %s", got)
	}
	status = &ingress.Status{
		Connections:  3,
		Requests:     []ingress.Count{{Service: "web", Class: 2, Count: 7}},
		Certificates: []ingress.Certificate{{Name: "a.test", Issuer: "internal", NotAfter: time.Unix(1800000000, 0)}, {Name: "b.example.org", Issuer: "acme", Problem: "it is being issued"}},
	}
	got := scrape()
	for _, want := range []string{
		"podtask_ingress_up 1", "podtask_ingress_connections 3", `podtask_ingress_requests_total{class="2xx",service="web"} 7`,
		`podtask_ingress_certificate_expiry_timestamp_seconds{issuer="internal",name="a.test"} 1.8e+09`, `podtask_ingress_certificate_problem{issuer="internal",name="a.test"} 0`,
		`podtask_ingress_certificate_expiry_timestamp_seconds{issuer="acme",name="b.example.org"} 0`, `podtask_ingress_certificate_problem{issuer="acme",name="b.example.org"} 1`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing", want)
		}
	}
}

// TestDocument holds docs/metrics.md against the metrics; UPDATE_GOLDEN=1 writes it.
func TestDocument(t *testing.T) {
	t.Parallel()
	m := New("", func() []lifecycle.State { return nil }, func() int { return 0 })
	m.Services(func() []service.State { return nil })
	m.Traffic(nil)
	m.NodeNames(nil)
	m.Ingress(func(context.Context) (*ingress.Status, error) { return nil, nil })
	m.Add(ecsmetrics.New(nil))
	m.Hooks(nil, nil)
	m.Add(schedulemetrics.New(nil))
	m.Add(stackmetrics.New(nil, nil))
	m.Add(noticemetrics.New(nil, nil))
	m.Add(awsmetrics.New(nil))
	m.Add(imagemetrics.New(nil))
	m.Logs(func() []api.LogRoute { return nil })
	m.Usage(nil, nil)
	descs := make(chan *prometheus.Desc, 1000)
	m.registry.Describe(descs)
	close(descs)
	parts := regexp.MustCompile(`fqName: "(podtask_[^"]*)", help: "([^"]*)", (?:unit: "[^"]*", )?constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}`)
	var rows []string
	for desc := range descs {
		found := parts.FindStringSubmatch(desc.String())
		if found == nil {
			continue // of the collectors of Go and of processes
		}
		labels := found[4]
		if name, _, ok := strings.Cut(found[3], "="); ok {
			labels = name
		}
		rows = append(rows, "| `"+found[1]+"` | "+strings.ReplaceAll(labels, ",", ", ")+" | "+found[2]+" |\n")
	}
	slices.Sort(rows)
	text := "<!-- Generated from the code: UPDATE_GOLDEN=1 go test ./internal/serve/metrics -->\n\n# Metrics\n\n" +
		"What the agent serves at `GET /metrics`; [monitoring.md](monitoring.md) sets up Prometheus.\n" +
		"Beside these there are `go_*` and `process_*` of the agent's process.\n\n" +
		"| metric | labels | meaning |\n|---|---|---|\n" + strings.Join(rows, "")
	path := filepath.Join("..", "..", "..", "docs", "metrics.md")
	if old, err := os.ReadFile(path); err == nil && string(old) == text {
		return
	}
	if os.Getenv("UPDATE_GOLDEN") == "" {
		t.Fatalf("%s differs: run UPDATE_GOLDEN=1 go test ./internal/serve/metrics", path)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
