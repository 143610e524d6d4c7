package task

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/pkg/api"
	"github.com/urfave/cli/v2"
)

// busyHost returns 50 tasks as a host with stacks, services, jobs and a node of several images has them.
func busyHost() (rows []row) {
	services := []string{"checkout-payments-worker", "storefront-web", "inventory-api", "postgres-primary", "otel-collector", "notification-mailer"}
	for i := range 50 {
		service := services[i%len(services)]
		t := api.Task{
			ID: fmt.Sprintf("%032x", 0x5eed+i*7919), Name: fmt.Sprintf("%s-%d", service, i), Family: service, Revision: 3 + i, Service: service,
			Status: "RUNNING", Health: "HEALTHY", Settled: false, Owner: api.Owner{PID: 1234567, Alive: true}, CreatedAt: after(-time.Duration(i) * time.Hour),
			Containers: []api.Container{
				{Name: "app", Status: "RUNNING", RestartCount: i % 3, Image: "registry.example.com/team/" + service + ":2026.11.28-4f2c9e1"},
				{Name: "proxy", Status: "RUNNING", Image: "docker.io/envoyproxy/envoy:distroless-v1.36.2@sha256:" + strings.Repeat("a", 64)},
			},
		}
		switch i % 5 {
		case 0: // of a stack
			t.Name, t.Service, t.Tags = "shop-"+t.Name, "shop-"+service, map[string]string{"stack": "shop"}
		case 1: // with ports
			t.Name, t.Service, t.Family = fmt.Sprintf("nightly-report-%d", i), "", "report-generator-monthly-summary"
			t.Ports = []api.Port{{ContainerPort: 8080, HostPort: uint16(30000 + i), Protocol: "tcp"}, {ContainerPort: 9090, HostPort: uint16(31000 + i), Protocol: "tcp"}}
		case 2:
			t.UnappliedLimits = []string{"cpu", "memory", "pids"}
		}
		r := newRow(t, "", false, noon)
		if t.Service != "" {
			r.Addresses = []string{"https://" + service + ".apps.example.com", fmt.Sprintf("127.0.0.1:%d", 18000+i)}
			r.Namespace = "production"
		}
		rows = append(rows, r)
	}
	return rows
}

// listed returns what podtask ps prints of rows without a terminal.
func listed(t *testing.T, rows []row, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	app := &cli.App{Name: "podtask", HideHelp: true, Commands: []*cli.Command{{
		Name: "ps", HideHelp: true, HideHelpCommand: true, Flags: []cli.Flag{command.NoTruncFlag("ids"), command.FormatFlag(command.ListFormats), command.SortFlag()},
		Action: func(c *cli.Context) error {
			l := taskListing(rows, c.Bool("no-trunc"))
			l.Hints = &out
			return l.Print(&out, c)
		},
	}}, ExitErrHandler: func(*cli.Context, error) {}}
	if err := app.Run(append([]string{"podtask", "ps"}, args...)); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestWideListOfABusyHostFits(t *testing.T) {
	t.Parallel()
	rows := busyHost()
	wide := listed(t, rows, "-o", "wide")
	for line := range strings.Lines(wide) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > console.WideWidth {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, r := range rows {
		if !strings.Contains(wide, "\n"+r.Name+" ") {
			t.Errorf("the name %s was shortened\n%s", r.Name, wide)
			break
		}
	}
	for _, want := range []string{"…", "RESTARTS", " 0.0.0.0:30001->8080/tcp, ", "Left out: DEFINITION, ", "ADDRESSES", "--no-trunc shows all."} {
		if !strings.Contains(wide, want) {
			t.Errorf("no %s in\n%s", want, wide)
		}
	}
	whole := listed(t, rows, "-o", "wide", "--no-trunc")
	for _, want := range []string{"https://checkout-payments-worker.apps.example.com, 127.0.0.1:18000", "registry.example.com/team/storefront-web:2026.11.28-4f2c9e1, docker.io/", "NAMESPACE", "NO LIMIT", "OWNER"} {
		if !strings.Contains(whole, want) {
			t.Errorf("--no-trunc does not print %s", want)
		}
	}
}

// Columns that say the same as others are left out of a wide list, and still order it.
func TestWideListLeavesOutWhatNamesSay(t *testing.T) {
	t.Parallel()
	rows := []row{newRow(api.Task{ID: strings.Repeat("1", 32), Name: "web-1", Family: "web", Revision: 2, Service: "web"}, "", false, noon), newRow(api.Task{ID: strings.Repeat("2", 32), Name: "job", Family: "job", Revision: 1}, "", false, noon)}
	wide := listed(t, rows, "-o", "wide", "--sort", "service")
	if strings.Contains(wide, "SERVICE") || strings.Contains(wide, "RESTARTS") || strings.Contains(wide, "OWNER") || !strings.Contains(wide, "web:2") {
		t.Error(wide)
	}
	rows[1].filterValues["service"] = "batch"
	if wide := listed(t, rows, "-o", "wide"); !strings.Contains(wide, "SERVICE") {
		t.Errorf("the service of a task with a name of its own is left out:\n%s", wide)
	}
}
