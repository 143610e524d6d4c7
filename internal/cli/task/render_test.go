package task

import (
	"bytes"
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/engine/act/observe"
	"github.com/podtask/podtask/pkg/api"
	"github.com/urfave/cli/v2"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return noon.Add(d) }

func code(n int) *api.ExitCode { c := api.ExitCode(n); return &c }

func shopTask() api.Task {
	digest := "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	return api.Task{
		ID: strings.Repeat("0123456789abcdef", 2), Name: "shop", Family: "shop", Status: "STOPPED", Health: "HEALTHY", Settled: true,
		CreatedAt: noon, ExitCode: code(3),
		Ports:      []api.Port{{ContainerPort: 80, HostPort: 8080, Protocol: "tcp"}, {ContainerPort: 53, HostPort: 53, Protocol: "udp", HostIP: "::1"}},
		Containers: []api.Container{{Name: "migrate", Status: "STOPPED"}, {Name: "server", Status: "STOPPED"}},
		History: []api.Transition{
			{Seq: 1, At: after(100 * time.Millisecond), Container: "server", Status: "MANIFEST_PULLED", Digest: digest},
			{Seq: 2, At: after(110 * time.Millisecond), Status: "MANIFEST_PULLED"},
			{Seq: 3, At: after(2 * time.Second), Container: "~infra", Status: "RESOURCES_PROVISIONED"},
			{Seq: 4, At: after(3 * time.Second), Container: "migrate", Status: "STOPPED", ExitCode: code(0)},
			{Seq: 5, At: after(4 * time.Second), Container: "server", Status: "UNHEALTHY", Reason: "3 failed checks in a row, last: exit code 1 line\nline\x1b[31m"},
			{Seq: 6, At: after(65 * time.Second), Container: "server", Status: "STOPPED", ExitCode: code(3), Reason: "OutOfMemoryError: killed"},
			{Seq: 7, At: after(66 * time.Second), Status: "STOPPED", ExitCode: code(3), Reason: "EssentialContainerExited: server"},
		},
	}
}

func TestProgressIsAlignedAndShownOnce(t *testing.T) {
	t.Parallel()
	const want = `
    0.1s  server   MANIFEST_PULLED        sha256:0123456789ab
    0.1s  (task)   MANIFEST_PULLED
    2.0s  (pod)    RESOURCES_PROVISIONED  0.0.0.0:8080->80/tcp, [::1]:53->53/udp
    3.0s  migrate  STOPPED                exit code 0
    4.0s  server   UNHEALTHY              3 failed checks in a row, last: exit code 1 line line [31m
   65.0s  server   STOPPED                exit code 3, OutOfMemoryError: killed
   66.0s  (task)   STOPPED                exit code 3, EssentialContainerExited: server
`
	var out bytes.Buffer
	p := console.NewProgress(&out, false, noon, 0)
	task := shopTask()
	for n := range task.History { // as it comes
		part := task
		part.History = task.History[:n+1]
		p.Show(part)
	}
	p.Show(task)
	if diff := cmp.Diff(want[1:], out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestProgressBeginsWhereItIsTold(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	console.NewProgress(&out, false, after(60*time.Second), 6).Show(shopTask())
	if want := "    6.0s  (task)   STOPPED                exit code 3, EssentialContainerExited: server\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

func TestProgressShowsEachFailedAttemptOnce(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := console.NewProgress(&out, false, noon, 0)
	task := api.Task{Containers: []api.Container{{Name: "server", Retry: &api.Retry{Attempts: 1, Error: "connection\nrefused"}}}}
	p.Show(task)
	p.Show(task)
	task.Containers[0].Retry = &api.Retry{Attempts: 2, Error: "no route"}
	p.Show(task)
	const want = "" +
		"          server  retry                  connection refused\n" +
		"          server  retry                  no route\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestColorsChangeNoText(t *testing.T) {
	t.Parallel()
	var plainOut, painted bytes.Buffer
	console.NewProgress(&plainOut, false, noon, 0).Show(shopTask())
	console.NewProgress(&painted, true, noon, 0).Show(shopTask())
	if !strings.Contains(painted.String(), string(console.Red)+"UNHEALTHY") {
		t.Error("what is bad is not red")
	}
	bare := painted.String()
	for _, i := range append(console.Inks[:], console.Red, console.Green, console.Faint, console.Reset) {
		bare = strings.ReplaceAll(bare, string(i), "")
	}
	if diff := cmp.Diff(plainOut.String(), bare); diff != "" {
		t.Error(diff)
	}
}

func TestColorsAreForTerminalsOnly(t *testing.T) {
	t.Parallel()
	if console.ColorsFor(&bytes.Buffer{}, func(string) string { return "" }) {
		t.Error("colors for a buffer")
	}
}

func TestLogLinesGoWhereTheyWereWritten(t *testing.T) {
	t.Parallel()
	var out, err bytes.Buffer
	l := &console.LogPrinter{Out: &out, Err: &err, Prefix: true, Width: 6, Index: map[string]int{"app": 0, "server": 1}}
	for _, line := range []observe.LogLine{{Container: "app", Stream: "stdout", Text: "one"}, {Container: "server", Stream: "stderr", Text: "two"}, {Container: "server", Stream: "stdout", Text: ""}} {
		if err := l.Line(line); err != nil {
			t.Fatal(err)
		}
	}
	if want := "app    | one\nserver | \n"; out.String() != want {
		t.Errorf("stdout %q, want %q", out.String(), want)
	}
	if want := "server | two\n"; err.String() != want {
		t.Errorf("stderr %q, want %q", err.String(), want)
	}
	out.Reset()
	l.Prefix, l.Stamps = false, true
	_ = l.Line(observe.LogLine{Container: "app", Stream: "stdout", Time: noon, Text: "one"})
	if want := "2026-01-02T12:00:00Z one\n"; out.String() != want {
		t.Errorf("with a time: %q, want %q", out.String(), want)
	}
}

func TestTableOfTasks(t *testing.T) {
	t.Parallel()
	orphan := shopTask()
	for i := range orphan.Containers {
		orphan.Containers[i].Image = "registry.example/shop/web:1"
	}
	stopped := orphan
	stopped.Containers = slices.Clone(orphan.Containers)
	orphan.ID, orphan.Name, orphan.Status, orphan.Settled, orphan.ExitCode = strings.Repeat("f", 32), "", "RUNNING", false, nil
	orphan.Containers[1].Status = "RUNNING"
	owned := orphan
	owned.ID, owned.Owner = strings.Repeat("e", 32), api.Owner{PID: 4711, Alive: true}
	now := after(2 * time.Hour)
	var out bytes.Buffer
	l := taskListing([]row{newRow(orphan, "", false, now), newRow(owned, "", true, now), newRow(stopped, "", false, now)}, false)
	if err := console.WriteTable(&out, l.Rows(false, true)); err != nil {
		t.Fatal(err)
	}
	const want = `
NAME                                    STATUS       HEALTH    PORTS                                    IMAGE   AGE
shop ffffffffffff                       no owner     -         0.0.0.0:8080->80/tcp, [::1]:53->53/udp   web:1   2h
shop eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee   running      healthy   0.0.0.0:8080->80/tcp, [::1]:53->53/udp   web:1   2h
shop                                    exited (3)   -                                                  web:1   2h
`
	if diff := cmp.Diff(want[1:], out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestAgo(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second: "just now", 0: "just now", time.Second: "1 second ago", 119 * time.Second: "1 minute ago",
		3 * time.Hour: "3 hours ago", 24 * time.Hour: "1 day ago", 400 * 24 * time.Hour: "400 days ago",
	} {
		if got := console.Ago(after(d), noon); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}

func TestTemplates(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	err := command.PrintTemplate(&out, "ps", `{{.ID}}\t{{.Containers}} {{json .ExitCode}} {{print .ExitCode}}`, []row{newRow(shopTask(), "", false, noon)})
	if want := "0123456789ab\t0/2 3 3\n"; err != nil || out.String() != want {
		t.Errorf("%q, %v; want %q", out.String(), err, want)
	}
	for _, bad := range []string{"{{", "{{.Nonsense}}"} {
		if err := command.PrintTemplate(&out, "ps", bad, []row{{}}); err == nil || !strings.Contains(err.Error(), "--format") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// Every word of --format is taken, and all else is refused.
func TestFormats(t *testing.T) {
	t.Parallel()
	rows := []row{newRow(shopTask(), "", false, noon)}
	printed := func(args ...string) (string, error) {
		var out bytes.Buffer
		app := &cli.App{Name: "podtask", HideHelp: true, Commands: []*cli.Command{{
			Name: "ps", HideHelp: true, HideHelpCommand: true, Flags: []cli.Flag{command.FormatFlag(command.ListFormats), command.SortFlag(), command.QuietFlag("ids")},
			Action: func(c *cli.Context) error { return taskListing(rows, false).Print(&out, c) },
		}}, ExitErrHandler: func(*cli.Context, error) {}}
		err := app.Run(append([]string{"podtask", "ps"}, args...))
		return out.String(), err
	}
	for format, want := range map[string]string{
		"":                                    "NAME   STATUS       HEALTH",
		"table":                               "NAME   STATUS       HEALTH",
		"wide":                                "ID             RUNNING\n",
		"json":                                `"id": "0123456789ab"`,
		"yaml":                                "- id: 0123456789ab\n  name: shop\n",
		"{{.ID}}":                             "0123456789ab\n",
		`table {{.Name}}\t{{.Status}}`:        "NAME   STATUS\nshop   STOPPED\n",
		`table {{.CreatedAt.Year}} {{.Exit}}`: "YEAR EXIT\n2026 3\n",
	} {
		if got, err := printed("-o", format); err != nil || !strings.Contains(got, want) {
			t.Errorf("%q: %v\n%s", format, err, got)
		}
	}
	for _, args := range [][]string{{"-o", "xml"}, {"-o", "table x"}, {"-o", "{{"}, {"--sort", "size"}} {
		if got, err := printed(args...); err == nil {
			t.Errorf("%q is accepted: %s", args, got)
		}
	}
}

func TestSortedByAColumn(t *testing.T) {
	t.Parallel()
	rows := []row{{Name: "b", CreatedAt: noon}, {Name: "a", CreatedAt: after(time.Hour)}, {Name: "c", CreatedAt: after(-time.Hour)}}
	for key, want := range map[string]string{"name": "abc", "created": "abc", "restarts": "bac"} {
		l := taskListing(slices.Clone(rows), false)
		set := flag.NewFlagSet("ps", flag.ContinueOnError)
		set.String("sort", key, "")
		if err := l.Sort(cli.NewContext(nil, set, nil)); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, r := range l.Items {
			got += r.Name
		}
		if got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
}

// A port of a container with a network of its own is among those of the task too.
func TestEachPublishedPortIsListedOnce(t *testing.T) {
	t.Parallel()
	web := api.Port{ContainerPort: 80, HostPort: 8080, Protocol: "tcp"}
	dns := api.Port{ContainerPort: 53, HostPort: 5353, Protocol: "udp"}
	task := api.Task{Ports: []api.Port{web, dns}, Containers: []api.Container{{Name: "app", Ports: []api.Port{web}}}}
	want := []portRow{{Container: "app", Port: web}, {Port: dns}}
	if diff := cmp.Diff(want, publishedPorts(task)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
