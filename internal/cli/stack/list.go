package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/define/convert/compose"
	"github.com/podtask/podtask/internal/engine/act/observe"
	"github.com/podtask/podtask/internal/engine/decide/stack"
	"github.com/podtask/podtask/internal/engine/run/stacks"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

func secretPrefix(name string) string { return compose.SecretPrefix(name) }

// row is a stack in the list.
type row struct {
	Name string `json:"name"`
	// Status is complete, changing, unfinished or none: none of its changes was completed.
	Status  string    `json:"status"`
	Change  int       `json:"change"`
	Members []string  `json:"members"`
	Source  []string  `json:"source"`
	Changed time.Time `json:"changed,omitzero"`
	// Ends is the end of a preview.
	Ends time.Time `json:"ends,omitzero"`
}

func (k call) list(context.Context, []string) error {
	all, err := k.store.All()
	if err != nil {
		k.warn("%v", err)
	}
	rows := []row{}
	for _, s := range all {
		r := row{Name: s.Name, Status: k.store.Status(s), Change: s.Current.Number, Members: slices.Sorted(maps.Keys(s.Have)), Source: append([]string{}, s.Current.Source...)}
		if s.Preview != nil {
			r.Ends = s.Preview.Until
		}
		if n := len(s.History); n > 0 {
			r.Changed = s.History[n-1].Ended
		}
		rows = append(rows, r)
	}
	return command.Listing[row]{Items: rows, ID: func(r row) string { return r.Name }, Hints: k.errOut, None: "There are no stacks. Make one with `podtask stack up FILE`.", Columns: []command.Column[row]{
		{Head: "NAME", Cell: func(r row) string { return r.Name }},
		{Head: "STATUS", Cell: func(r row) string { return r.Status }},
		{Head: "CHANGE", Cell: func(r row) string { return strconv.Itoa(r.Change) }, Order: func(a, b row) int { return a.Change - b.Change }},
		{Head: "MEMBERS", Cell: func(r row) string { return strconv.Itoa(len(r.Members)) }, Order: func(a, b row) int { return len(a.Members) - len(b.Members) }},
		{Head: "CHANGED", Cell: func(r row) string { return console.Ago(time.Now(), r.Changed) }, Order: func(a, b row) int { return b.Changed.Compare(a.Changed) }},
		{Head: "ENDS", Cell: func(r row) string {
			if r.Ends.IsZero() {
				return command.NoValue
			}
			return r.Ends.Local().Format(time.DateTime)
		}},
		{Head: "SOURCE", Cell: func(r row) string { return strings.Join(r.Source, ", ") }},
	}}.Print(k.out, k.c)
}

// newBeside returns a function that lists the stacks of this host for a view of it.
func newBeside(m *command.Machine) func(ctx context.Context) (console.Beside, error) {
	store, err := stacks.Open(m.Connector.StateDir, state.OS{})
	return func(context.Context) (b console.Beside, _ error) {
		if err != nil {
			return b, err
		}
		all, err := store.All()
		for _, s := range all {
			one := console.Stack{Name: s.Name, Status: store.Status(s), Change: s.Current.Number, Services: []string{}, Tasks: []string{}}
			if s.Preview != nil {
				one.Ends = s.Preview.Until
			}
			for _, name := range inOrder(s) {
				switch h := s.Have[name]; h.Kind {
				case stack.Job:
					one.Tasks = append(one.Tasks, stacks.TaskRef(h))
				case stack.Service:
					one.Services = append(one.Services, h.Object)
				case stack.Schedule: // the schedules list it
				}
			}
			b.Stacks = append(b.Stacks, one)
		}
		return b, err
	}
}

// memberRow is a member of a stack in the list.
type memberRow struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	// Object is the name of the service, or of the task of a job's last run.
	Object string `json:"object"`
	// Status is the state of the rollout of a service, or of the task of a job.
	Status    string   `json:"status"`
	Desired   int      `json:"desired"`
	Healthy   int      `json:"healthy"`
	Addresses []string `json:"addresses"`
	Images    []string `json:"images"`
	Reason    string   `json:"reason,omitempty"`
}

// open returns the record of the stack that the arguments name.
func (k call) open(args []string) (stack.State, error) {
	name, err := k.nameOf(args[:min(1, len(args))])
	if err != nil {
		return stack.State{}, err
	}
	return k.store.Get(name)
}

// inOrder are the names of the members that a stack has, in the order in which they start.
func inOrder(s stack.State) []string {
	members := slices.Clone(s.Current.Members)
	if s.Change != nil {
		for _, m := range s.Change.Target.Members {
			if s.Current.Find(m.Name) == nil {
				members = append(members, m)
			}
		}
	}
	var names []string
	for _, m := range stack.Order(members) {
		if _, there := s.Have[m.Name]; there {
			names = append(names, m.Name)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(s.Have)) {
		if !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return names
}

func (k call) ps(ctx context.Context, args []string) error {
	s, err := k.open(args)
	if err != nil {
		return err
	}
	if s.Change != nil && !k.store.Locked(s.Name) {
		k.warn("%s: `podtask stack up` continues it, `podtask stack rollback %s` puts it back", unfinished(s), s.Name)
	}
	rows := []memberRow{}
	for _, name := range inOrder(s) {
		r, err := k.memberRow(ctx, name, s)
		if err != nil {
			return err
		}
		rows = append(rows, r)
	}
	return command.Listing[memberRow]{Items: rows, ID: func(r memberRow) string { return r.Object }, Hints: k.errOut, Columns: []command.Column[memberRow]{
		{Head: "NAME", Cell: func(r memberRow) string { return r.Name }},
		{Head: "KIND", Cell: func(r memberRow) string { return r.Kind }},
		{Head: "STATUS", Cell: func(r memberRow) string { return r.Status }},
		{Head: "HEALTHY", Cell: func(r memberRow) string {
			if r.Kind != string(stack.Service) {
				return command.NoValue
			}
			return fmt.Sprintf("%d/%d", r.Healthy, r.Desired)
		}},
		{Head: "ADDRESSES", Cell: func(r memberRow) string { return strings.Join(r.Addresses, ", ") }},
		{Head: "OBJECT", Wide: true, Cell: func(r memberRow) string { return r.Object }, Repeats: func(r memberRow) bool { return r.Object == r.Name }},
		{Head: "IMAGES", Wide: true, Cell: func(r memberRow) string { return command.Images(r.Images, k.c.Bool("no-trunc")) }},
		{Head: "REASON", Cell: func(r memberRow) string { return r.Reason }},
	}}.Print(k.out, k.c)
}

// memberRow asks the agent about a member.
func (k call) memberRow(ctx context.Context, name string, s stack.State) (memberRow, error) {
	h := s.Have[name]
	r := memberRow{Name: name, Kind: string(h.Kind), Object: h.Object, Addresses: []string{}, Images: []string{}}
	if m := s.Current.Find(name); m != nil {
		for _, image := range slices.Sorted(maps.Keys(m.Images)) {
			r.Images = append(r.Images, image+" "+shortRun(m.Images[image]))
		}
	}
	if h.Kind == stack.Job {
		r.Object = stacks.TaskName(h)
		t, err := k.agent.Task(ctx, r.Object)
		switch {
		case api.Is(err, api.NotFound):
			r.Status = "gone"
			return r, nil
		case err != nil:
			return r, err
		}
		r.Status, r.Reason = console.TaskState(t, ""), t.StoppedReason
		return r, nil
	}
	if h.Kind == stack.Schedule {
		return k.scheduleRow(s, h, r)
	}
	now, err := k.agent.Service(ctx, h.Object)
	switch {
	case api.Is(err, api.NotFound):
		r.Status = "gone"
		return r, nil
	case err != nil:
		return r, err
	}
	for i, image := range r.Images {
		if tag, _, _ := strings.Cut(image, " "); now.Digests[tag] != "" { // it is updated automatically
			r.Images[i] = tag + " " + console.ShortDigest(now.Digests[tag])
		}
	}
	d := now.Deployments[0]
	r.Status, r.Desired, r.Healthy = strings.ReplaceAll(strings.ToLower(d.RolloutState), "_", " "), now.DesiredCount, now.HealthyCount
	if !now.Steady && d.RolloutState == "COMPLETED" {
		r.Status = "not steady"
	}
	if !now.Steady && len(now.Why) > 0 {
		r.Reason = now.Why[0].Text
	}
	for _, l := range now.Listeners {
		r.Addresses = append(r.Addresses, l.Address)
		r.Reason = cmp.Or(r.Reason, l.Problem)
	}
	for _, i := range now.Ingress {
		r.Addresses = append(r.Addresses, i.URL)
		r.Reason = cmp.Or(r.Reason, i.Problem)
	}
	for _, n := range now.Names {
		r.Addresses = append(r.Addresses, fmt.Sprintf("%s:%d (name)", n.Name, n.Port))
	}
	return r, nil
}

// explanation names what `podtask stack why --format json` prints.
type explanation struct {
	Name    string          `json:"name"`
	Status  string          `json:"status"`
	Members []memberReasons `json:"members"`
}

type memberReasons struct {
	Name string       `json:"name"`
	Why  []api.Reason `json:"why"`
}

func (k call) why(ctx context.Context, args []string) error {
	s, err := k.open(args)
	if err != nil {
		return err
	}
	e := explanation{Name: s.Name, Status: fmt.Sprintf("change %d is complete", s.Current.Number), Members: []memberReasons{}}
	if s.Current.Number == 0 {
		e.Status = "no change was completed"
	}
	if s.Change != nil {
		e.Status = unfinished(s)
		if k.store.Locked(s.Name) {
			e.Status += "; a process works on it"
		}
	}
	for _, name := range inOrder(s) {
		h := s.Have[name]
		row := memberReasons{Name: name, Why: []api.Reason{}}
		switch h.Kind {
		case stack.Schedule:
			row.Why, err = k.whySchedule(ctx, s, h)
		case stack.Job:
			var t api.Task
			t, err = k.agent.Task(ctx, stacks.TaskRef(h))
			row.Why = append(row.Why, t.Why...)
		default:
			var now api.Service
			now, err = k.agent.Service(ctx, h.Object)
			row.Why = append(whyWaits(ctx, k.agent, s, name, now), now.Why...)
		}
		if err != nil && !api.Is(err, api.NotFound) {
			return err
		}
		e.Members = append(e.Members, row)
	}
	return command.PrintItem(k.out, k.c, e, func() error {
		fmt.Fprintf(k.out, "stack %s: %s.\n", e.Name, term.Line(e.Status))
		for _, m := range e.Members {
			text := "it is not there"
			if len(m.Why) > 0 {
				text = console.Reason(m.Why[0], time.Now())
			}
			fmt.Fprintf(k.out, "%s: %s.\n", m.Name, term.Line(text))
		}
		return nil
	})
}

func (k call) history(_ context.Context, args []string) error {
	s, err := k.open(args)
	if err != nil {
		return err
	}
	return command.Listing[stack.Past]{Items: append([]stack.Past{}, s.History...), Hints: k.errOut, Columns: []command.Column[stack.Past]{
		{Head: "NUMBER", Cell: func(p stack.Past) string { return strconv.Itoa(p.Number) }, Order: func(a, b stack.Past) int { return a.Number - b.Number }},
		{Head: "RESULT", Cell: func(p stack.Past) string { return string(p.Result) }},
		{Head: "STARTED", Cell: func(p stack.Past) string { return console.Ago(time.Now(), p.Began) }, Order: func(a, b stack.Past) int { return b.Began.Compare(a.Began) }},
		{Head: "TOOK", Cell: func(p stack.Past) string { return console.Span(p.Ended.Sub(p.Began)) }},
		{Head: "SOURCE", Cell: func(p stack.Past) string { return strings.Join(p.Source, ", ") }},
		{Head: "REASON", Cell: func(p stack.Past) string {
			if p.Failed != "" {
				return p.Failed + ": " + p.Reason
			}
			return p.Reason
		}},
	}}.Print(k.out, k.c)
}

// logs prints the logs of the tasks of a stack, each line with the name of its task and container.
func (k call) logs(ctx context.Context, args []string) error {
	s, err := k.open(args)
	if err != nil {
		return err
	}
	o := observe.LogOptions{Follow: k.c.Bool("follow"), Timestamps: k.c.Bool("timestamps"), Tail: -1}
	if tail := k.c.String("tail"); tail != "" && tail != "all" {
		if o.Tail, err = strconv.Atoi(tail); err != nil {
			return command.Usagef("stack logs", "--tail is a number of lines or all, not %q", tail)
		}
	}
	var only []string
	if len(args) > 1 {
		only = args[1:]
	}
	states, err := k.tasks(s, only)
	if err != nil {
		return err
	}
	printers := console.NewLogPrinters(k.out, k.errOut, states, k.getenv)
	read := func(ctx context.Context, i int) error {
		printers[i].Prefix, printers[i].Stamps = true, o.Timestamps
		err := k.engine.Logs.Read(ctx, states[i], "", o, func(l observe.LogLine) error { return printers[i].Line(l) })
		if errors.As(err, new(*observe.IncompleteError)) {
			k.warn("%v", err)
			return nil
		}
		return err
	}
	all, ctx := errgroup.WithContext(ctx)
	if !o.Follow {
		all.SetLimit(1)
	}
	for i := range states {
		all.Go(func() error { return read(ctx, i) })
	}
	return all.Wait()
}

// tasks returns the tasks of the members of a stack, in the order of the stack.
func (k call) tasks(s stack.State, only []string) (found []lifecycle.State, err error) {
	for _, name := range only {
		if _, there := s.Have[name]; !there {
			return nil, fmt.Errorf("stack %s has no %s: it has %s", s.Name, name, strings.Join(inOrder(s), ", "))
		}
	}
	all, errs := k.engine.Tasks.States()
	for _, err := range errs {
		k.warn("%v", err)
	}
	for _, name := range inOrder(s) {
		if len(only) > 0 && !slices.Contains(only, name) {
			continue
		}
		h := s.Have[name]
		runs, err := k.runs(s, h)
		if err != nil {
			return nil, err
		}
		for _, t := range all {
			if slices.Contains(runs, t.ID) || h.Kind == stack.Job && (t.ID == stacks.TaskRef(h) || t.Name == stacks.TaskRef(h)) || h.Kind == stack.Service && t.Options.Service == h.Object {
				found = append(found, t)
			}
		}
	}
	return found, nil
}
