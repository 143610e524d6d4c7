package views

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/hostview"
	"github.com/podtask/podtask/internal/cli/reason"
	"github.com/podtask/podtask/internal/cli/top"
	"github.com/podtask/podtask/internal/cli/webui"
	"github.com/podtask/podtask/internal/engine/act/observe"
	"github.com/podtask/podtask/internal/engine/facts/conn"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
)

// UICommand is `podtask ui`.
func UICommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:  "ui",
		Usage: "show tasks and services in a browser on this host",
		Description: `Serves a page on 127.0.0.1 until Ctrl-C, and prints a link to it. The link works once; the
browser that opens it keeps a session. The page shows tasks with what they wait for, their usage
over time, timeline, logs and events, and services with their copies and deployments. It changes
nothing unless --write is given; then it can stop and restart tasks, roll services back and
continue paused deployments, and asks before each. The link has a host name below localhost, so that programs on other ports
of this host do not get the cookie of the session. With --host, the page shows another host, with several
--host or --all-hosts all of them; the link is for this machine.

Examples:
  podtask ui
  podtask --host ssh://box ui
  podtask ui --all-hosts
  podtask ui --port 8800 --write`,
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "port", Usage: "listen on `PORT` of 127.0.0.1", DefaultText: "a free one"},
			&cli.BoolFlag{Name: "write", Usage: "allow stopping and restarting tasks, and rolling back services"},
			allHostsFlag(),
		},
		Action: newOtherHosts(p).action(command.WithMachine(p, newUI), newPage(p).overHosts),
	}
}

// uiConnections is the limit of open connections.
const uiConnections = 32

type uiOptions struct {
	page
	view webView
}

func newUI(m *command.Machine) uiOptions {
	return uiOptions{page: newPage(m.Program), view: newWebView(m, true)}
}

// Run implements command.Runner.
func (o uiOptions) Run(ctx context.Context, c *cli.Context) error {
	return o.serve(ctx, c, o.view, o.view)
}

// page is the server of `podtask ui`.
type page struct {
	out, errOut io.Writer
	redirect    func(stderr io.Writer) (restore func())
}

func newPage(p *command.Program) page {
	return page{out: p.Stdout, errOut: p.Stderr, redirect: p.RedirectStderr}
}

// overHosts serves the page of other hosts.
func (o page) overHosts(c *cli.Context, view *hostview.View) error {
	ctx, stop := signal.NotifyContext(c.Context, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := view.Connected(ctx); err != nil {
		return interrupted(ctx, err)
	}
	return interrupted(ctx, o.serve(ctx, c, view, view))
}

func (o page) serve(ctx context.Context, c *cli.Context, source webui.Source, changes webui.Actions) error {
	if err := command.NoArguments(c); err != nil {
		return err
	}
	port := c.Int("port")
	if port < 0 || port > 65535 {
		return command.Usagef("ui", "--port is a number from 1 to 65535, not %d", port)
	}
	listeners, err := command.ListenLoopback(port)
	if err != nil {
		return fmt.Errorf("listen for the page: %w; choose another --port", err)
	}
	var actions webui.Actions
	if c.Bool("write") {
		actions = changes
	}
	port = command.PortOf(listeners[0])
	page := webui.New(port, source, actions, time.Now)
	tick := time.NewTicker(webui.Pace)
	defer tick.Stop()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go page.Watch(watching, tick.C)
	fmt.Fprintf(o.out, "%s\n", page.Link())
	fmt.Fprintln(o.errOut, "The link works once. Its host name is of this page alone: browsers find it on this host. Ctrl-C ends the page.")
	defer o.redirect(&lastLine{})() // or the same warning would be printed for every page
	if err := serveAll(ctx, listeners, page); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// serveAll answers at all listeners until ctx ends or one of them fails.
func serveAll(ctx context.Context, listeners []net.Listener, page http.Handler) error {
	serving, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	failures := make([]error, len(listeners))
	for i, l := range listeners {
		wg.Go(func() {
			defer stop()
			failures[i] = command.TCPServer{What: "the page", Listener: l, Handler: page, Connections: uiConnections}.Serve(serving)
		})
	}
	wg.Wait()
	return errors.Join(failures...)
}

// webView implements webui.Source and webui.Actions: taskView with lines of logs and facts about the host.
type webView struct {
	*taskView
	facts   *conn.Facts
	version string
	// local: the browser is on this host.
	local bool
}

func newWebView(m *command.Machine, local bool) webView {
	return webView{newTaskView(m), m.Engine.Facts, m.Program.Version, local}
}

// Tasks implements webui.Source.
func (v webView) Tasks(ctx context.Context) ([]top.Task, error) {
	tasks, err := v.taskView.Tasks(ctx)
	for i, t := range tasks {
		tasks[i].Why = reason.Task(t.Task, time.Now()).Why
	}
	return tasks, err
}

// Explain implements webui.Source.
func (v webView) Explain(ctx context.Context, id string) (top.Detail, error) {
	st, err := v.find(id)
	if err != nil {
		return top.Detail{}, err
	}
	d, err := v.taskView.Explain(ctx, st.ID)
	d.Task.Why = reason.Task(d.Task, time.Now()).Why
	return d, err
}

// Lines implements webui.Source.
func (v webView) Lines(ctx context.Context, id string, which webui.Lines, fn func(webui.Line) error) error {
	st, err := v.find(id)
	if err != nil {
		return err
	}
	return v.logs.Read(ctx, st, "", observe.LogOptions{Tail: which.Tail, Follow: which.Follow, Timestamps: true}, func(l observe.LogLine) error {
		return fn(webui.Line{Container: l.Container, Stderr: l.Stream == "stderr", Time: l.Time, Text: l.Text})
	})
}

func (v webView) find(id string) (lifecycle.State, error) {
	st, err := v.tasks.Find(id)
	if errors.As(err, new(*record.NotFoundError)) {
		return st, webui.ErrNotFound
	}
	return st, err
}

// Host implements webui.Source.
func (v webView) Host(ctx context.Context) webui.Host {
	h := webui.Host{Version: v.version, Local: v.local}
	h.Name, _ = os.Hostname() // empty if it is not known
	if podman, err := v.facts.Get(ctx); err == nil {
		h.Podman = podman.Version
	}
	client := v.owners.DialAgent(ctx)
	if client == nil {
		return h
	}
	defer client.Close()
	if agent, err := client.Version(ctx); err == nil {
		h.Agent = agent.Version
	}
	return h
}

var (
	_ webui.Source  = webView{}
	_ webui.Actions = webView{}
)
