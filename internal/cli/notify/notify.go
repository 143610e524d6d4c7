package notify

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/notice"
	"github.com/podtask/podtask/internal/notice/settings"
	"github.com/podtask/podtask/internal/notice/watch"
	"github.com/podtask/podtask/internal/state"
	"github.com/urfave/cli/v2"
	"go.yaml.in/yaml/v3"
)

// Command is `podtask notify`.
func Command(p *command.Program) *cli.Command {
	group := &cli.Command{
		Name:  "notify",
		Usage: "send notices when something fails: webhooks, mail, programs",
		Description: `Each table [[notify]] of the configuration selects conditions, such as a failed task, an
unhealthy container, a rollback or a missed run of a schedule, and names a receiver. The
agent sends the notices; on a host without one, the unit whose service has failed does. See
docs/notices.md.

Examples:
  podtask notify ls
  podtask notify test night
  podtask notify log
  podtask notify rules > podtask.rules.yml`,
	}
	output, sorted := command.FormatFlag(command.ListFormats), command.SortFlag()
	group.Subcommands = []*cli.Command{
		{
			Name: "ls", Usage: "list the tables [[notify]], and what waits to be delivered", ArgsUsage: " ", Flags: []cli.Flag{command.QuietFlag("names"), output, sorted},
			Description: "Examples:\n  podtask notify ls", Action: command.WithMachine(p, newOptions(options.list)),
		},
		{
			Name: "test", Usage: "send a notice of a test now, and say whether it has arrived", ArgsUsage: "NAME ...",
			Description: "The exit code is 1 if one has not arrived.\n\nExamples:\n  podtask notify test night", Action: command.WithMachine(p, newOptions(options.test)),
		},
		{
			Name: "log", Usage: "list notices that wait, and the latest hundred that were delivered or given up", ArgsUsage: " ", Flags: []cli.Flag{output, sorted},
			Description: "Examples:\n  podtask notify log", Action: command.WithMachine(p, newOptions(options.log)),
		},
		{
			Name: "send", Usage: "send the notices that are due, on a host without an agent", ArgsUsage: " ",
			Description: `Units call it when their service has failed (OnFailure=podtask-notify.service). It does
nothing while an agent runs. It fails while a notice waits to be delivered or is held back;
systemd then calls it again.

Examples:
  podtask notify send`, Action: command.WithMachine(p, newOptions(options.send)),
		},
		{
			Name: "rules", Usage: "print alert rules of Prometheus for the same conditions", ArgsUsage: " ",
			Description: "Examples:\n  podtask notify rules > podtask.rules.yml",
			Action: func(c *cli.Context) error {
				if err := command.NoArguments(c); err != nil {
					return err
				}
				return printRules(p.Stdout)
			},
		},
	}
	return group
}

// options are the dependencies of `podtask notify`.
type options struct {
	do          func(options, context.Context, *cli.Context) error
	out, errOut io.Writer
	getenv      func(string) string
	stateDir    string
	engine      *engine.Engine
	logger      *slog.Logger
	tasks       *record.Tasks
}

func newOptions(do func(options, context.Context, *cli.Context) error) func(*command.Machine) options {
	return func(m *command.Machine) options {
		p := m.Program
		return options{do: do, out: p.Stdout, errOut: p.Stderr, getenv: p.Getenv, stateDir: m.Connector.StateDir, engine: m.Engine, logger: m.Log, tasks: m.Engine.Tasks}
	}
}

// Run implements command.Runner.
func (o options) Run(ctx context.Context, c *cli.Context) error { return o.do(o, ctx, c) }

// open returns the rules and the store.
func (o options) open() ([]settings.Rule, *watch.Store, error) {
	rules, err := settings.Load(config.Source{Getenv: o.getenv})
	if err != nil {
		return nil, nil, err
	}
	store, err := watch.Open(o.stateDir, state.OS{})
	return rules, store, err
}

// ruleRow is a rule in `notify ls`.
type ruleRow struct {
	Name string             `json:"name"`
	On   []notice.Condition `json:"on"`
	// To is the kind of the target, with the host of a server; never the whole URL, which may be a secret.
	To      string `json:"to"`
	From    string `json:"from"`
	Waiting int    `json:"waiting"`
	// Error is the reason why the oldest one was not delivered yet; Next is the time of the next attempt.
	Error string     `json:"error,omitempty"`
	Next  *time.Time `json:"next,omitempty"`
}

func targetOf(r settings.Rule) string {
	t := r.Target
	switch t.Kind() {
	case "mail":
		return "mail by " + t.Mail.Server
	case "command":
		return t.Command[0]
	}
	host := "a secret URL"
	if u, err := url.Parse(t.URL); err == nil && t.URL != "" {
		host = u.Host
	}
	return t.Format + " to " + host
}

func (o options) list(_ context.Context, c *cli.Context) error {
	if err := command.NoArguments(c); err != nil {
		return err
	}
	rules, store, err := o.open()
	if err != nil {
		return err
	}
	s, _, err := store.Get()
	if err != nil {
		return err
	}
	rows := []ruleRow{}
	for _, r := range rules {
		row := ruleRow{Name: r.Name, On: r.On, To: targetOf(r), From: r.Place, Error: s.Rules[r.Name].Error, Waiting: s.Rules[r.Name].Held}
		if next := s.Rules[r.Name].Next; !next.IsZero() {
			row.Next = &next
		}
		for _, m := range s.Outbox {
			if m.Rule == r.Name {
				row.Waiting += m.Count
			}
		}
		rows = append(rows, row)
	}
	return command.Listing[ruleRow]{
		Items: rows, ID: func(r ruleRow) string { return r.Name }, Hints: o.errOut,
		None: "The configuration has no [[notify]], so nobody is told of anything: docs/notices.md shows one.",
		Columns: []command.Column[ruleRow]{
			{Head: "NAME", Cell: func(r ruleRow) string { return r.Name }},
			{Head: "ON", Cell: func(r ruleRow) string { return strings.Trim(fmt.Sprint(r.On), "[]") }},
			{Head: "TO", Cell: func(r ruleRow) string { return r.To }},
			{Head: "WAITING", Cell: func(r ruleRow) string { return fmt.Sprint(r.Waiting) }, Order: func(a, b ruleRow) int { return a.Waiting - b.Waiting }},
			{Head: "ERROR", Cell: func(r ruleRow) string { return r.Error }},
			{Head: "FROM", Cell: func(r ruleRow) string { return r.From }, Wide: true},
		},
	}.Print(o.out, c)
}

// logRow is a notice in `notify log`.
type logRow struct {
	ID        string           `json:"id"`
	Rule      string           `json:"rule"`
	Condition notice.Condition `json:"condition"`
	At        time.Time        `json:"at"`
	Title     string           `json:"title"`
	Count     int              `json:"count"`
	// Status is waiting, delivered or given-up; Done is when.
	Status string     `json:"status"`
	Done   *time.Time `json:"done"`
	Error  string     `json:"error,omitempty"`
}

func (o options) log(_ context.Context, c *cli.Context) error {
	if err := command.NoArguments(c); err != nil {
		return err
	}
	store, err := watch.Open(o.stateDir, state.OS{})
	if err != nil {
		return err
	}
	s, _, err := store.Get()
	if err != nil {
		return err
	}
	rows := []logRow{}
	rowOf := func(m notice.Message, status, failure string) logRow {
		return logRow{ID: m.ID, Rule: m.Rule, Condition: m.Condition, At: m.At, Title: m.Title(), Count: m.Count, Status: status, Error: failure}
	}
	for _, l := range s.Log {
		status := "delivered"
		if l.Error != "" {
			status = "given-up"
		}
		r := rowOf(l.Message, status, l.Error)
		r.Done = &l.Done
		rows = append(rows, r)
	}
	for _, m := range s.Outbox {
		rows = append(rows, rowOf(m, "waiting", s.Rules[m.Rule].Error))
	}
	return command.Listing[logRow]{
		Items: rows, Hints: o.errOut, None: "Nobody was told of anything yet.",
		Columns: []command.Column[logRow]{
			{Head: "AT", Cell: func(r logRow) string { return r.At.Local().Format(time.DateTime) }, Order: func(a, b logRow) int { return a.At.Compare(b.At) }},
			{Head: "RULE", Cell: func(r logRow) string { return r.Rule }},
			{Head: "STATUS", Cell: func(r logRow) string { return r.Status }},
			{Head: "NOTICE", Cell: func(r logRow) string { return r.Title }},
			{Head: "ERROR", Cell: func(r logRow) string { return r.Error }},
			{Head: "ID", Cell: func(r logRow) string { return r.ID }, Wide: true},
		},
	}.Print(o.out, c)
}

func (o options) test(ctx context.Context, c *cli.Context) error {
	if c.NArg() == 0 {
		return command.Usagef(command.Path(c), "%s needs the name of a [[notify]]", command.Path(c))
	}
	rules, _, err := o.open()
	if err != nil {
		return err
	}
	byName := map[string]settings.Rule{}
	for _, r := range rules {
		byName[r.Name] = r
	}
	sender, failed := newSender(o.engine, o.getenv), false
	for _, name := range c.Args().Slice() {
		r, found := byName[name]
		if !found {
			return fmt.Errorf("the configuration has no [[notify]] with the name %q: `podtask notify ls` lists them", name)
		}
		now := time.Now().UTC()
		m := notice.Message{
			ID: record.NewID(), Rule: name, Created: now, At: now, Count: 1, Condition: r.On[0], Test: true,
			Subject: "test", About: notice.About{Kind: notice.Host, Name: sender.Host}, Reason: "`podtask notify test " + name + "` was called",
		}
		if err := sender.Send(ctx, r.Target, m); err != nil {
			fmt.Fprintf(o.errOut, "%s: not delivered to %s: %v\n", name, targetOf(r), err)
			failed = true
			continue
		}
		fmt.Fprintf(o.out, "%s: delivered to %s\n", name, targetOf(r))
	}
	if failed {
		return command.ExitStatus(command.ExitInvalid)
	}
	return nil
}

func (o options) send(ctx context.Context, c *cli.Context) error {
	if err := command.NoArguments(c); err != nil {
		return err
	}
	rules, store, err := o.open()
	if err != nil || len(rules) == 0 {
		return err
	}
	w := newWatcher(o.engine, o.stateDir, o.getenv, store, rules)
	w.Log = o.logger
	return w.Drain(ctx)
}

// alertRule is an alert rule of Prometheus.
type alertRule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for,omitempty"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// printRules prints the alert rules of all conditions.
func printRules(out io.Writer) error {
	var rules []alertRule
	for _, f := range notice.Facts {
		a := f.Alert
		rules = append(rules, alertRule{
			Alert: a.Name, Expr: a.Expr, For: a.For, Labels: map[string]string{"severity": a.Severity, "condition": string(f.Condition)},
			Annotations: map[string]string{"summary": a.Summary, "description": a.Description},
		})
	}
	type group struct {
		Name  string      `yaml:"name"`
		Rules []alertRule `yaml:"rules"`
	}
	if _, err := io.WriteString(out, "# Alert rules for the conditions of [[notify]], by the metrics of `podtask agent`. List this file under rule_files in\n# prometheus.yml.\n"); err != nil {
		return err
	}
	e := yaml.NewEncoder(out)
	e.SetIndent(2)
	return e.Encode(map[string][]group{"groups": {{Name: "podtask-notices", Rules: rules}}})
}
