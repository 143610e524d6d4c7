package task

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/engine/act/admit"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/ingress/routefile"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
)

// PsCommand is `podtask ps`.
func PsCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:    "ps",
		Aliases: []string{"ls", "list"},
		Usage:   "list tasks",
		Description: `Without --all, stopped tasks are not shown. A queued task waits for cpu, memory or a port
that other tasks use; "podtask why" names them. A task that is "no owner" has lost the process
that looks after it; how many of its containers run now is what Podman says, and any command
about the task takes it over. --format wide shows the ID, definition, service, the
addresses that lead to the task and more, as far as they tell what the rest of a row does not, in 160 columns;
--no-trunc shows them whole. --format json has the words of ECS, such as RUNNING, as "status", and those of the table as "state".
Without tasks, stdout stays empty, and a hint goes to stderr.

Examples:
  podtask ps
  podtask ps -a --filter family=web --filter status=stopped
  podtask ps --watch --sort created
  podtask ps -q --latest
  podtask ps -o wide
  podtask ps --format 'table {{.Name}}\t{{.Status}}'`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "show stopped tasks too"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print ids only"},
			command.NoTruncFlag("ids, images and what is too wide"),
			&cli.BoolFlag{Name: "noheading", Usage: "print no headers"},
			&cli.BoolFlag{Name: "latest", Aliases: []string{"l"}, Usage: "show the newest task only, stopped or not"},
			&command.OptionalFlag{StringFlag: &cli.StringFlag{Name: "watch", Aliases: []string{"w"}, Usage: "show the list again every `DURATION`, until Ctrl-C"}, Bare: "2s"},
			command.FormatFlag(command.ListFormats), command.SortFlag(),
			command.FilterFlag(command.TaskFilterKeys),
		},
		Action: command.WithMachine(p, newPs),
	}
}

type psOptions struct {
	out    io.Writer
	errOut io.Writer
	getenv func(string) string
	warn   func(format string, args ...any)
	reader command.TaskReader
	tasks  *record.Tasks
	queue  *admit.Queue
	// routes is the path of the file with the addresses of services.
	routes string
	owners *connect.Connector
}

func newPs(m *command.Machine) psOptions {
	return psOptions{
		out:    m.Program.Stdout,
		errOut: m.Program.Stderr,
		getenv: m.Program.Getenv,
		warn:   m.Program.Warn,
		reader: m.TaskReader(),
		tasks:  m.Engine.Tasks,
		queue:  m.Engine.Queue,
		routes: routefile.Path(m.Engine.Runtime.StateDir),
		owners: m.Connector,
	}
}

// Run implements command.Runner.
func (o psOptions) Run(ctx context.Context, c *cli.Context) error {
	if err := command.NoArguments(c); err != nil {
		return err
	}
	wanted, err := command.ParseTaskFilters(c)
	if err != nil {
		return err
	}
	if c.String("watch") == "" {
		return o.print(ctx, c, o.out, o.errOut, wanted)
	}
	show := func(w io.Writer) error { return o.print(ctx, c, w, w, wanted) }
	pace, err := time.ParseDuration(c.String("watch"))
	if err != nil || pace < 100*time.Millisecond {
		return command.Usagef("ps", "--watch is 100ms or more, not %q", c.String("watch"))
	}
	return console.Watch(ctx, o.out, o.getenv, pace, show)
}

// print prints the tasks once; that there are none, and what to do then, on hints.
func (o psOptions) print(ctx context.Context, c *cli.Context, w, hints io.Writer, wanted command.Filters) error {
	format := c.String("format")
	full := c.Bool("no-trunc") || format != "" && format != console.FormatTable && format != console.FormatWide && !strings.Contains(format, "{{")
	rows := o.rows(ctx, c.Bool("all") || c.Bool("latest") || len(wanted["status"]) > 0, full, time.Now())
	rows = slices.DeleteFunc(rows, func(r row) bool { return !wanted.Match(r.filterValues) })
	if c.Bool("latest") {
		rows = rows[:min(1, len(rows))]
	}
	list := taskListing(rows, full)
	list.Hints, list.None = hints, o.emptyText(c.Bool("all"), len(wanted) > 0)
	return list.Print(w, c)
}

// emptyText says what to do where there are no tasks.
func (o psOptions) emptyText(all, filtered bool) string {
	states, _ := o.tasks.States()
	switch n := len(states); {
	case filtered && n > 0:
		return "No task matches the filters."
	case all || n == 0:
		return "There are no tasks. Run one with `podtask run FILE`; `podtask init` writes a FILE to begin with."
	case n == 1:
		return "No task is running. `podtask ps -a` shows the one that has stopped."
	default:
		return fmt.Sprintf("No task is running. `podtask ps -a` shows the %d that have stopped.", n)
	}
}

// taskListing returns the table of tasks; with full, no value is shortened.
func taskListing(rows []row, full bool) command.Listing[row] {
	newest := func(a, b row) int { return b.CreatedAt.Compare(a.CreatedAt) }
	return command.Listing[row]{Items: rows, ID: func(r row) string { return r.ID }, Columns: []command.Column[row]{
		{Head: "NAME", Cell: row.title},
		{Head: "STATUS", Cell: row.status},
		{Head: "HEALTH", Cell: func(r row) string { return r.healthWord }},
		{Head: "PORTS", Cell: row.PortList},
		{Head: "IMAGE", Cell: func(r row) string { return command.Images(r.Images, full) }},
		{Head: "AGE", Key: "created", Cell: row.Age, Order: newest},
		{Head: "ID", Cell: func(r row) string { return r.ID }, Wide: true},
		{Head: "RUNNING", Cell: row.Containers, Wide: true, Order: func(a, b row) int { return cmp.Compare(b.Running, a.Running) }},
		{Head: "RESTARTS", Cell: func(r row) string { return strconv.Itoa(r.Restarts) }, Wide: true, Order: func(a, b row) int { return cmp.Compare(b.Restarts, a.Restarts) }, Repeats: func(r row) bool { return r.Restarts == 0 }},
		{Head: "DEFINITION", Cell: row.definition, Wide: true, Repeats: func(r row) bool { return r.Family == r.Name && r.Revision <= 1 },
			Order: func(a, b row) int {
				return cmp.Or(cmp.Compare(a.Family, b.Family), cmp.Compare(a.Revision, b.Revision))
			}},
		{Head: "ADDRESSES", Cell: row.addresses, Wide: true},
		{Head: "STACK", Cell: func(r row) string { return cmp.Or(r.Stack, command.NoValue) }, Wide: true, Repeats: func(r row) bool { return r.named(r.Stack) }},
		{Head: "NO LIMIT", Key: "no-limit", Cell: func(r row) string { return strings.Join(r.unlimited, ", ") }, Wide: true},
		{Head: "SERVICE", Cell: func(r row) string { return r.filterValues["service"] }, Wide: true, Repeats: func(r row) bool { return r.named(r.filterValues["service"]) }},
		{Head: "NAMESPACE", Cell: func(r row) string { return r.Namespace }, Wide: true},
		{Head: "OWNER", Cell: row.Owner, Wide: true, Repeats: func(r row) bool { return r.OwnerPID == 0 }},
	}}
}

// row is a task in the list; templates see its fields and methods.
type row struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Family   string `json:"family"`
	Revision int    `json:"revision"`
	// Status is that of ECS. It ends with "(queued: REASON)" while the task is queued, and with "(no owner)" if it
	// has no owner; then Running comes from Podman.
	Status string `json:"status"`
	// State is what the task does in everyday words: queued (cpu), starting, running, exited (3).
	State string `json:"state"`
	// Queue is the full reason why the task is queued.
	Queue  string `json:"queue,omitempty"`
	Health string `json:"health"`
	// Running counts containers; Total is how many the task has.
	Running int `json:"running"`
	Total   int `json:"total"`
	// Restarts is the number of restarts of all containers.
	Restarts  int       `json:"restarts"`
	CreatedAt time.Time `json:"createdAt"`
	// OwnerPID is 0 if the task has no owner.
	OwnerPID int           `json:"ownerPid"`
	ExitCode *api.ExitCode `json:"exitCode,omitempty"`
	// Ports has the published ports, Images the images of the containers, each once.
	Ports  []api.Port `json:"ports"`
	Images []string   `json:"images"`
	// Addresses lists the URLs and the HOST:PORT of its service from which the task gets requests and connections now.
	Addresses []string `json:"addresses,omitempty"`
	// DownAddresses lists those of its service that are not served or not open, for a reason that `podtask why` has.
	DownAddresses []string `json:"downAddresses,omitempty"`
	// Namespace is the one whose services the task reaches by name; empty for none.
	Namespace string `json:"namespace,omitempty"`
	// Stack is the value of the tag of that name, which podtask stack sets.
	Stack string `json:"stack,omitempty"`

	filterValues map[string]string
	healthWord   string
	unlimited    []string
	now          time.Time
}

// title returns the name of the task; its family and ID if it has none.
func (r row) title() string { return cmp.Or(r.Name, r.Family+" "+r.ID) }

// definition returns FAMILY:REVISION, or the family of a definition that is not registered.
func (r row) definition() string {
	if r.Revision == 0 {
		return r.Family
	}
	return fmt.Sprintf("%s:%d", r.Family, r.Revision)
}

// named reports whether the name of the task is that of what it belongs to, with more behind it.
func (r row) named(whole string) bool { return strings.HasPrefix(r.Name, whole+"-") }

func (r row) status() string {
	if len(r.DownAddresses) > 0 {
		return r.State + " (address down)"
	}
	return r.State
}

func (r row) addresses() string {
	all := slices.DeleteFunc(slices.Clone(r.Addresses), func(a string) bool { return slices.Contains(r.DownAddresses, a) })
	for _, a := range r.DownAddresses {
		all = append(all, a+" (down)")
	}
	return strings.Join(all, ", ")
}

// Containers returns RUNNING/TOTAL.
func (r row) Containers() string { return fmt.Sprintf("%d/%d", r.Running, r.Total) }

// PortList formats the published ports as podman ps does.
func (r row) PortList() string { return console.PortList(r.Ports) }

// Image returns the images of all containers.
func (r row) Image() string { return strings.Join(r.Images, ", ") }

// Age returns how long ago the task was created, in the form of kubectl.
func (r row) Age() string { return console.ShortSpan(r.now.Sub(r.CreatedAt)) }

// Created returns how long ago the task was created, in words.
func (r row) Created() string { return console.Ago(r.now, r.CreatedAt) }

// Owner returns the process that owns the task, or none.
func (r row) Owner() string {
	if r.OwnerPID == 0 {
		return "none"
	}
	return strconv.Itoa(r.OwnerPID)
}

// Exit returns the exit code of a stopped task, for templates.
func (r row) Exit() string { return r.ExitCode.String() }

// rows returns the tasks, the newest first. It reports records that cannot be read on stderr.
func (o psOptions) rows(ctx context.Context, all, fullID bool, now time.Time) []row {
	aside := o.tasks.Aside()
	states, errs := o.tasks.States()
	for _, err := range append(aside, errs...) {
		o.warn("%v", err)
	}
	waiting := o.queue.Waiting()
	rows := []row{}
	states = slices.DeleteFunc(states, func(st lifecycle.State) bool { return !all && st.Status() == lifecycle.StatusStopped })
	slices.Reverse(states)
	addresses := o.addresses()
	var down map[string][]string
	if len(addresses) > 0 {
		down = o.down(ctx)
	}
	namespaces := make(map[string]string, len(states))
	for _, st := range states {
		namespaces[st.ID] = st.Task.Extensions.Namespace
	}
	for _, t := range o.reader.Observe(ctx, states, now) {
		v := waiting[t.ID]
		r := newRow(t, v.Word(), fullID, now)
		r.Addresses, r.Namespace = addresses[t.ID], namespaces[t.ID]
		if t.Status == lifecycle.StatusRunning.String() {
			r.DownAddresses = down[t.Service]
		}
		rows = append(rows, r)
	}
	return rows
}

// addresses returns the addresses of services that lead to tasks, by the IDs of the tasks.
func (o psOptions) addresses() map[string][]string {
	table, err := routefile.Read(o.routes)
	if err != nil {
		o.warn("the addresses of services are not known: %v", err)
		return nil
	}
	all := make(map[string][]string)
	add := func(address string, groups []routefile.Group) {
		for _, g := range groups {
			for _, t := range g.Targets {
				all[t.ID] = append(all[t.ID], address)
			}
		}
	}
	for _, r := range table.Routes {
		add(r.Key(), r.Groups)
	}
	for _, l := range table.Listeners {
		add(l.Address, l.Groups)
	}
	return all
}

// agentPatience limits the time for which the list waits for an agent.
const agentPatience = time.Second

// down returns the addresses that are down, by the names of their services. Without an agent that answers, none are known.
func (o psOptions) down(ctx context.Context) map[string][]string {
	ctx, cancel := context.WithTimeout(ctx, agentPatience)
	defer cancel()
	client := o.owners.DialAgent(ctx)
	if client == nil {
		return nil
	}
	defer client.Close()
	services, err := client.Services(ctx)
	if err != nil {
		return nil
	}
	all := make(map[string][]string)
	for _, s := range services {
		if list := console.DownAddresses(s); len(list) > 0 {
			all[s.ServiceName] = list
		}
	}
	return all
}

// newRow returns the row of a task; queuedFor is a word for what a queued task waits for.
func newRow(t api.Task, queuedFor string, fullID bool, now time.Time) row {
	r := row{
		ID: lifecycle.ShortID(t.ID), Name: t.Name, Family: t.Family, Revision: t.Revision,
		Status: t.Status, Health: t.Health, Total: len(t.Containers), CreatedAt: t.CreatedAt,
		OwnerPID: t.Owner.PID, ExitCode: t.ExitCode, Ports: []api.Port{}, Images: []string{}, Queue: t.Queue, Stack: t.Tags["stack"], filterValues: command.FilterValues(t), now: now,
		State: console.TaskState(t, cmp.Or(queuedFor, "its turn")), healthWord: console.TaskHealth(t), unlimited: t.UnappliedLimits,
	}
	if fullID {
		r.ID = t.ID
	}
	if t.Queue != "" {
		r.Status += " (queued: " + cmp.Or(queuedFor, "its turn") + ")"
	}
	switch paused, running := pausedOf(t); {
	case paused == 0:
	case paused < running:
		r.Status += fmt.Sprintf(" (%d of %d paused)", paused, running)
	default:
		r.Status += " (paused)"
	}
	if len(t.UnappliedLimits) > 0 {
		r.Status += " (no " + strings.Join(t.UnappliedLimits, ", ") + " limits)"
	}
	_, r.Running = pausedOf(t)
	switch {
	case t.Settled || t.Owner.Alive:
	case t.Observed:
		r.Status += fmt.Sprintf(" (no owner; in Podman %d of %d run)", r.Running, r.Total)
	default:
		r.Status += " (no owner)"
	}
	if t.Status != lifecycle.StatusStopped.String() {
		for _, p := range publishedPorts(t) {
			r.Ports = append(r.Ports, p.Port)
		}
	}
	for _, c := range t.Containers {
		r.Restarts += c.RestartCount
		if !slices.Contains(r.Images, c.Image) {
			r.Images = append(r.Images, c.Image)
		}
	}
	return r
}
