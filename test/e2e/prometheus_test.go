//go:build e2e && bed_plain

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// prometheusTool is a program of Debian's package prometheus.
func prometheusTool(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(filepath.Dir(bed.podtask), name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no %s here: hack/install.sh prometheus", name)
	}
	return path
}

func contribFile(name string) string {
	return filepath.Join(filepath.Dir(os.Getenv("PODTASK_EXAMPLES")), "contrib", name)
}

func TestAlertRulesFire(t *testing.T) {
	t.Parallel()
	promtool := prometheusTool(t, "promtool")
	rules := filepath.Join(t.TempDir(), "rules.yml")
	text, err := exec.CommandContext(t.Context(), bed.podtask, "notify", "rules").Output()
	if err == nil {
		err = os.WriteFile(rules, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"check", "rules", rules},
		{"check", "rules", contribFile("prometheus/podtask.rules.yml")},
		{"test", "rules", contribFile("prometheus/podtask.rules.test.yml")},
	} {
		if out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

// relay passes connections on to a unix socket until the test ends: Prometheus cannot
// read from one.
func relay(t *testing.T, socket string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("unix", socket)
			if err != nil {
				from.Close()
				continue
			}
			go func() { defer from.Close(); _, _ = io.Copy(from, to) }()
			go func() { defer to.Close(); _, _ = io.Copy(to, from) }()
		}
	}()
	return l.Addr().String()
}

// prometheus runs a Prometheus that scrapes the targets, and returns its address.
func (b *box) prometheus(targets ...string) string {
	b.t.Helper()
	program := prometheusTool(b.t, "prometheus")
	config, addr := filepath.Join(b.dir, "prometheus.yml"), loopback(b.t)
	text := fmt.Sprintf(`global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
  - job_name: podtask
    static_configs: [{targets: [%s]}]
`, contribFile("prometheus/podtask.rules.yml"), strings.Join(targets, ", "))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, "--config.file="+config, "--web.listen-address="+addr,
		"--storage.tsdb.path="+filepath.Join(b.dir, "tsdb"), "--log.level=warn")
	var said syncBuffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // killed
		if b.t.Failed() {
			b.t.Logf("prometheus: %s", &said)
		}
	})
	return addr
}

// askPrometheus asks it and returns what it says under data.
func askPrometheus(t *testing.T, addr, path string) json.RawMessage {
	t.Helper()
	resp, err := http.Get("http://" + addr + "/api/v1/" + path)
	if err != nil {
		return nil // not up yet
	}
	defer resp.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer.Status != "success" {
		if resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s: %s %v", path, answer.Error, err)
		}
		return nil
	}
	return answer.Data
}

// results counts the series that a query finds.
func results(t *testing.T, addr, query string) int {
	t.Helper()
	var found struct{ Result []json.RawMessage }
	if data := askPrometheus(t, addr, "query?query="+url.QueryEscape(query)); data != nil {
		if err := json.Unmarshal(data, &found); err != nil {
			t.Error(err)
		}
	}
	return len(found.Result)
}

// dashboardQueries are those of the Grafana dashboard, for all instances.
func dashboardQueries(t *testing.T) (queries []string) {
	t.Helper()
	text, err := os.ReadFile(contribFile("grafana/podtask.json"))
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			queries = append(queries, strings.NewReplacer("$instance", ".*", "$task", ".*").Replace(target.Expr))
		}
	}
	return queries
}

func TestPrometheusScrapesTheAgent(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	prometheusTool(t, "prometheus")
	metrics := loopback(t)
	b.agent("--metrics-listen=" + metrics)
	prom := b.prometheus(metrics, relay(t, b.agentSocket()))
	eventually(t, "both targets up", func() bool { return results(t, prom, `up{job="podtask"} == 1`) == 2 })

	// One task that runs, one that cannot start, and the copy of a service.
	id := b.detach("--wait=running", b.waiter())
	b.up(id)
	bad := b.start("run", b.define(ctr{Name: "bad", More: obj{"entryPoint": []string{"/nothing"}}}))
	bad.want(127)

	b.want(0, "service", "create", b.family, b.define(copyOf("one")), "--wait", "--timeout=4m")

	queries := dashboardQueries(t)
	if len(queries) < 8 {
		t.Errorf("the dashboard has only %d queries", len(queries))
	}
	queries = slices.DeleteFunc(queries, func(q string) bool {
		if !strings.Contains(q, "podtask_task_") {
			return false
		}
		results(t, prom, q) // fails for an error; this bed has no slices to measure
		return true
	})
	for _, q := range append(queries, `podtask_tasks{status="RUNNING"} == 2`, `increase(podtask_errors_total{error="CannotStartContainerError"}[5m]) > 0`) {
		eventually(t, "an answer to "+q, func() bool { return results(t, prom, q) > 0 })
	}
	eventually(t, "all rules evaluated", func() bool {
		var rules struct {
			Groups []struct {
				Rules []struct{ Health, LastError string }
			}
		}
		if data := askPrometheus(t, prom, "rules"); data == nil || json.Unmarshal(data, &rules) != nil || len(rules.Groups) != 1 {
			return false
		}
		for _, r := range rules.Groups[0].Rules {
			if r.Health != "ok" {
				return false
			}
		}
		return len(rules.Groups[0].Rules) >= 6
	})
	b.want(0, "service", "rm", "--force", "--wait", "--timeout=4m", b.family)
	b.want(0, "rm", "-f", "--all")
}
