package kubeserve_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/kube/kubeserve"
	"k8s.io/client-go/rest"
)

func TestLogs(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	lines := []kubeserve.Line{{Time: at, Text: "one"}, {Time: at, Text: "two"}}
	for _, tt := range []struct {
		name, query string
		err         error
		status      int
		want        string
		called      bool
	}{
		{name: "everything wrong at once", query: "follow=maybe&tailLines=-1&limitBytes=0&sinceTime=now", status: 400, want: "follow is true or false|tailLines is a number|limitBytes is a number|sinceTime is a time"},
		{name: "two beginnings", query: "sinceSeconds=5&sinceTime=2026-01-02T03:04:05Z", status: 400, want: "exclude each other"},
		{name: "no Pod", err: fmt.Errorf("pod web: %w", kubeserve.ErrNotFound), status: 404, want: "pod web", called: true},
		{name: "no previous run", query: "previous=true", err: fmt.Errorf("no previous run: %w", kubeserve.ErrRefused), status: 400, want: "no previous run\n", called: true},
		{name: "all lines", status: 200, want: "one\ntwo\n", called: true},
		{name: "times", query: "timestamps=true", status: 200, want: "2026-01-02T03:04:05.000000006Z one\n", called: true},
		{name: "so many bytes", query: "limitBytes=6", status: 200, want: "one\ntw", called: true},
		{name: "no lines", query: "tailLines=0", status: 200, want: ""},
		{name: "only new lines", query: "tailLines=0&follow=true", status: 200, want: "one\ntwo\n", called: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			if c.pods.err = tt.err; tt.err == nil {
				c.pods.lines = lines
			}
			status, body := c.get(c.server(), "/containerLogs/default/web/main?"+tt.query)
			if status != tt.status {
				t.Errorf("status %d, want %d: %s", status, tt.status, body)
			}
			for _, part := range strings.Split(tt.want, "|") {
				if !strings.Contains(body, part) || tt.want == "" && body != "" {
					t.Errorf("answer %q lacks %q", body, part)
				}
			}
			if c.pods.called() != tt.called {
				t.Errorf("calls %v", c.pods.calls)
			}
		})
	}
}

func TestLogThatBreaksOffIsNotComplete(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.pods.lines, c.pods.err = []kubeserve.Line{{Text: "one"}}, http.ErrHandlerTimeout
	client := c.server()
	transport, err := httpClient(client)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport.Get(client.Host + "/containerLogs/default/web/main")
	if err == nil {
		defer resp.Body.Close()
		_, err = readAll(resp.Body)
	}
	if err == nil {
		t.Error("the answer looks complete")
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	started := time.Unix(1000, 0)
	counts := func(cpu time.Duration, memory uint64) kubeserve.Counts {
		return kubeserve.Counts{Started: started, CPU: cpu, Memory: memory}
	}
	c.pods.usage = kubeserve.Usage{At: time.Unix(2000, 0), Node: counts(time.Hour, 1<<30), Pods: []kubeserve.PodUsage{{
		Namespace: "default", Name: "web", UID: "u", Total: counts(3*time.Second, 300),
		Containers: []kubeserve.ContainerUsage{{Name: "main", Counts: counts(2*time.Second, 200)}},
	}}}
	_, metrics := c.get(c.server(), "/metrics/resource")
	for _, line := range []string{ // the names that metrics-server reads
		"node_cpu_usage_seconds_total 3600 2000000", "node_memory_working_set_bytes 1.073741824e+09 2000000",
		`pod_cpu_usage_seconds_total{namespace="default",pod="web"} 3 2000000`, `pod_memory_working_set_bytes{namespace="default",pod="web"} 300 2000000`,
		`container_cpu_usage_seconds_total{container="main",namespace="default",pod="web"} 2 2000000`,
		`container_memory_working_set_bytes{container="main",namespace="default",pod="web"} 200 2000000`,
		`container_start_time_seconds{container="main",namespace="default",pod="web"} 1000`, "resource_scrape_error 0",
	} {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("no line %s in\n%s", line, metrics)
		}
	}
	_, summary := c.get(c.server(), "/stats/summary")
	for _, part := range []string{`"nodeName":"edge"`, `"usageCoreNanoSeconds":3600000000000`, `"podRef":{"name":"web","namespace":"default","uid":"u"}`, `"workingSetBytes":200`} {
		if !strings.Contains(summary, part) {
			t.Errorf("no %s in\n%s", part, summary)
		}
	}
}

func httpClient(cfg *rest.Config) (*http.Client, error) { return rest.HTTPClientFor(cfg) }

func readAll(r io.Reader) (string, error) {
	text, err := io.ReadAll(r)
	return string(text), err
}

// TestALineWithoutAnEndStaysSo: what the container wrote is what kubectl logs prints.
func TestALineWithoutAnEndStaysSo(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.pods.lines = []kubeserve.Line{{Text: "one"}, {Text: "DONE", Unended: true}}
	if status, body := c.get(c.server(), "/containerLogs/default/web/main"); status != 200 || body != "one\nDONE" {
		t.Errorf("%d %q", status, body)
	}
}
