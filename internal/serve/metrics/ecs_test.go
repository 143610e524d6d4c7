package metrics

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/ecsstatus"
	"github.com/podtask/podtask/internal/serve/metrics/ecsmetrics"
	"github.com/podtask/podtask/pkg/lifecycle"
)

func TestMetricsOfAnInstanceOfECS(t *testing.T) {
	t.Parallel()
	var status *ecsstatus.Status
	running, is := false, false
	m := New("", func() []lifecycle.State { return nil }, func() int { return 0 })
	m.Add(ecsmetrics.New(func() (*ecsstatus.Status, bool, bool) { return status, running, is }))
	scrape := func() string {
		rec := httptest.NewRecorder()
		m.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
		return rec.Body.String()
	}
	if got := scrape(); strings.Contains(got, "podtask_ecs_") {
		t.Errorf("a host that is no instance has %s", got)
	}
	is, status = true, &ecsstatus.Status{ACS: ecsstatus.Link{Connected: true, Connections: 3}}
	if got := scrape(); !strings.Contains(got, "podtask_ecs_up 0") || strings.Contains(got, "podtask_ecs_link") {
		t.Errorf("without a process: %s", got)
	}
	running = true
	status.Wait(ecsstatus.WaitState, "a", "x", time.Now().Add(-time.Hour))
	status.Wait(ecsstatus.WaitState, "b", "x", time.Now())
	got := scrape()
	for _, want := range []string{
		"podtask_ecs_up 1", "podtask_ecs_inactive 0", `podtask_ecs_link_connected{link="acs"} 1`, `podtask_ecs_link_connected{link="tcs"} 0`,
		`podtask_ecs_link_connections_total{link="acs"} 3`, `podtask_ecs_waits{kind="state"} 2`, `podtask_ecs_waits{kind="credentials"} 0`,
		`podtask_ecs_wait_seconds{kind="state"} 36`, `podtask_ecs_wait_seconds{kind="agent"} 0`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing", want)
		}
	}
}
