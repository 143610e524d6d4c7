package scaling

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/scaling"
)

// row is a service in `service scaling ls`, and with its policies, actions and activities in `show`.
type row struct {
	Service string `json:"service"`
	Min     int    `json:"min"`
	Max     int    `json:"max"`
	// Desired and Running are null if no agent answers.
	Desired   *int              `json:"desired"`
	Running   *int              `json:"running"`
	Suspended scaling.Suspended `json:"suspended"`
	Targets   []target          `json:"targets"`
	Actions   []scaling.Action  `json:"actions"`
	// Held is the reason for which a change that a target asks for is not made; null for none.
	Held *scaling.Held `json:"held"`
	// Activities are the latest hundred changes, the newest first.
	Activities []scaling.Activity `json:"activities,omitempty"`
}

// target is a policy with what is measured.
type target struct {
	Name   string         `json:"name"`
	Metric scaling.Metric `json:"metric"`
	Target float64        `json:"target"`
	// Steps are there in place of a target, which is 0 then.
	Steps         []scaling.Step `json:"steps,omitempty"`
	MinAdjustment int            `json:"minAdjustment,omitempty"`
	// Value is the latest value; null if it is not known, and then Problem is the reason, if there is one.
	Value              *float64 `json:"value"`
	Problem            string   `json:"problem,omitempty"`
	CooldownOutSeconds int      `json:"cooldownOutSeconds"`
	CooldownInSeconds  int      `json:"cooldownInSeconds"`
	OnlyOut            bool     `json:"onlyOut"`
}

// measured asks the agent for what it has measured; nothing is known without one.
func measured(ctx context.Context, socket string) (values map[string]scaling.Rows) {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return api.DialSocket(ctx, socket)
		},
	}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://podtask"+valuesPath, nil)
	if err != nil {
		return nil
	}
	answer, err := client.Do(r)
	if err != nil {
		return nil
	}
	defer answer.Body.Close()
	const most = 16 << 20
	if answer.StatusCode != http.StatusOK || json.NewDecoder(io.LimitReader(answer.Body, most)).Decode(&values) != nil {
		return nil
	}
	return values
}

// rows makes a row of each record, with the state of the service if an agent answers.
func (o call) rows(ctx context.Context, records []scaling.State) []row {
	values, found := measured(ctx, o.connector.AgentSocket), map[string]api.Service{}
	if client := o.connector.DialAgent(ctx); client != nil {
		defer client.Close()
		services, _ := client.Services(ctx) // what is not known is left out
		for _, s := range services {
			found[s.ServiceName] = s
		}
	}
	rows := []row{}
	for _, s := range records {
		r := newRow(s, values[s.Service])
		if known, is := found[s.Service]; is {
			desired, running := known.DesiredCount, known.RunningCount
			r.Desired, r.Running = &desired, &running
		}
		rows = append(rows, r)
	}
	return rows
}

// newRow makes the row of a record with what is measured. Nothing is said about its copies.
func newRow(s scaling.State, values scaling.Rows) row {
	r := row{Service: s.Service, Min: s.Config.Min, Max: s.Config.Max, Suspended: s.Config.Suspended, Targets: []target{}, Actions: append([]scaling.Action{}, s.Config.Actions...)}
	if s.Held.Reason != "" {
		r.Held = &s.Held
	}
	for _, p := range s.Config.Policies {
		t := target{Name: p.Name, Metric: p.Metric, Target: p.Target, Steps: p.Steps, MinAdjustment: p.MinAdjustment, CooldownOutSeconds: int(p.OutCooldown.Seconds()), CooldownInSeconds: int(p.InCooldown.Seconds()), OnlyOut: p.OnlyOut}
		v := values[p.Name]
		if t.Problem = v.Problem; v.Known {
			t.Value = &v.Value
		}
		r.Targets = append(r.Targets, t)
	}
	return r
}

func (o call) list(ctx context.Context, _ []string) error {
	if err := command.CheckFormat(o.c); err != nil {
		return err
	}
	records, err := o.store.All()
	rows := o.rows(ctx, records)
	return errors.Join(command.Listing[row]{
		Items: rows, ID: func(r row) string { return r.Service }, Hints: o.errOut,
		None: "No service scales by itself. Have one scale with `podtask service scaling set SERVICE --max NUMBER --cpu PERCENT`.",
		Columns: []command.Column[row]{
			{Head: "SERVICE", Cell: func(r row) string { return r.Service }},
			{Head: "DESIRED", Cell: func(r row) string { return count(r.Desired) }},
			{Head: "RUNNING", Cell: func(r row) string { return count(r.Running) }},
			{Head: "MIN", Cell: func(r row) string { return fmt.Sprint(r.Min) }, Order: func(a, b row) int { return a.Min - b.Min }},
			{Head: "MAX", Cell: func(r row) string { return fmt.Sprint(r.Max) }, Order: func(a, b row) int { return a.Max - b.Max }},
			{Head: "TARGETS", Cell: row.targets},
			{Head: "NOTE", Cell: row.note},
		},
	}.Print(o.out, o.c), err)
}

func count(n *int) string {
	if n == nil {
		return command.NoValue
	}
	return fmt.Sprint(*n)
}

func (r row) targets() string {
	var all []string
	for _, t := range r.Targets {
		what := string(t.Metric)
		if t.Metric.IsOwn() {
			what = t.Name
		}
		all = append(all, fmt.Sprintf("%s %s/%s", what, t.value(), t.aim()))
	}
	if len(all) == 0 {
		return command.NoValue
	}
	return strings.Join(all, ", ")
}

// aim is the target, or the steps.
func (t target) aim() string {
	if len(t.Steps) > 0 {
		return scaling.StepsText(t.Steps)
	}
	return number(t.Target)
}

func (t target) value() string {
	if t.Value == nil {
		return "?"
	}
	return number(*t.Value)
}

func number(v float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") }

// note is the reason for which nothing happens, if there is one.
func (r row) note() string {
	if r.Suspended != (scaling.Suspended{}) {
		return "suspended"
	}
	if r.Held != nil {
		return held(*r.Held, r)
	}
	if unknown := r.unmeasured(); unknown != "" {
		return unknown + " is not measured, so it changes nothing"
	}
	return command.NoValue
}

// unmeasured names the targets of which the agent has no value although copies run, as on a host that does not count memory.
func (r row) unmeasured() string {
	var names []string
	for _, t := range r.Targets {
		if t.Value == nil && r.Running != nil && *r.Running > 0 {
			if names = append(names, t.Name); t.Problem != "" {
				names[len(names)-1] += " (" + t.Problem + ")"
			}
		}
	}
	return strings.Join(names, " and ")
}

// held is a sentence without a full stop.
func held(h scaling.Held, r row) string {
	switch h.Reason {
	case scaling.AtMax:
		return fmt.Sprintf("%s asks for more copies than the maximum %d", h.Policy, r.Max)
	case scaling.AtMin:
		return fmt.Sprintf("%s asks for fewer copies than the minimum %d", h.Policy, r.Min)
	case scaling.NoRoom:
		return h.Policy + " asks for more copies, and the host has no room for those there are"
	case scaling.Deploying:
		return h.Policy + " asks for fewer copies after the deployment"
	case scaling.Cooling:
		return fmt.Sprintf("%s asks for fewer copies, from %s on", h.Policy, h.Until.Local().Format(time.TimeOnly))
	}
	return "suspended"
}

// show prints the scaling of a service.
func (o call) show(ctx context.Context, args []string) error {
	if err := command.CheckFormat(o.c); err != nil {
		return err
	}
	s, err := o.store.Get(args[0])
	if err != nil {
		return err
	}
	r := o.rows(ctx, []scaling.State{s})[0]
	r.Activities = append([]scaling.Activity{}, s.Activities...)
	slices.Reverse(r.Activities)
	return command.PrintItem(o.out, o.c, r, func() error { return print(o.out, r) })
}

func print(out io.Writer, r row) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "Service:\t%s\n", r.Service)
	fmt.Fprintf(w, "Copies:\t%s desired, %s running, %d to %d allowed\n", count(r.Desired), count(r.Running), r.Min, r.Max)
	for i, t := range r.Targets {
		head := "Targets:"
		if i > 0 {
			head = ""
		}
		note := fmt.Sprintf("cool-down %s out, %s in", span(time.Duration(t.CooldownOutSeconds)*time.Second), span(time.Duration(t.CooldownInSeconds)*time.Second))
		if t.OnlyOut {
			note += ", adds copies only"
		}
		kind := "target"
		if len(t.Steps) > 0 {
			kind = "steps"
		}
		fmt.Fprintf(w, "%s\t%s: %s now, %s %s (%s)\n", head, t.Name, t.value(), kind, t.aim(), note)
	}
	for i, a := range r.Actions {
		head := "Changes:"
		if i > 0 {
			head = ""
		}
		fmt.Fprintf(w, "%s\t%s at %s: %s\n", head, a.Name, a.Source, bounds(a))
	}
	if n := r.note(); n != command.NoValue {
		fmt.Fprintf(w, "Note:\t%s\n", n)
	}
	for i, a := range r.Activities {
		head := "Latest:"
		if i > 0 {
			head = ""
		}
		if i == 10 {
			fmt.Fprintf(w, "\t%d earlier ones: --format json\n", len(r.Activities)-i)
			break
		}
		line := fmt.Sprintf("%d to %d, because %s", a.From, a.To, a.Cause)
		if a.Error != "" {
			line += "; it failed: " + a.Error
		}
		fmt.Fprintf(w, "%s\t%s  %s\n", head, a.At.Local().Format(time.DateTime), line)
	}
	return w.Flush()
}

func bounds(a scaling.Action) string {
	var all []string
	if a.Min != nil {
		all = append(all, fmt.Sprintf("minimum %d", *a.Min))
	}
	if a.Max != nil {
		all = append(all, fmt.Sprintf("maximum %d", *a.Max))
	}
	return strings.Join(all, ", ")
}
