package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/define/catalog"
	"github.com/podtask/podtask/internal/engine/decide/stack"
	"github.com/podtask/podtask/internal/engine/run/stacks"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/api"
)

// plan names what a change would do.
type plan struct {
	Stack string `json:"stack"`
	// Unfinished describes what is left of a change that has not ended.
	Unfinished string       `json:"unfinished,omitempty"`
	Members    []planMember `json:"members"`
	// Volumes lists those that the stack has; none is ever removed by a change.
	Volumes []string `json:"volumes"`
	Lost    []string `json:"lost"`
	Needs   []string `json:"needs"`
}

// planMember names what becomes of a member.
type planMember struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	// Action is make, change, run, leave or remove.
	Action string `json:"action"`
	// Images name what it runs: by the image as the file has it, with the digest.
	Images map[string]string `json:"images,omitempty"`
	// Changes describes what differs.
	Changes []string `json:"changes,omitempty"`
	After   []string `json:"after,omitempty"`
	Notes   []string `json:"notes,omitempty"`
}

// The actions.
const (
	actMake   = "make"
	actChange = "change"
	actRun    = "run"
	actLeave  = "leave"
	actRemove = "remove"
)

var signs = map[string]string{actMake: "+", actChange: "~", actRun: ">", actLeave: "=", actRemove: "-"}

// planOf compares a stack with its record.
func (k call) planOf(w *wanted, s stack.State) plan {
	p := plan{Stack: w.Name, Members: []planMember{}, Volumes: []string{}, Lost: []string{}, Needs: append([]string{}, w.Needs...)}
	if s.Change != nil {
		p.Unfinished = unfinished(s)
	}
	for _, l := range w.Lost {
		p.Lost = append(p.Lost, l.String())
	}
	for _, v := range w.Volumes {
		p.Volumes = append(p.Volumes, v.Name)
	}
	var members []stack.Member
	by := map[string]*member{}
	for _, m := range w.Members {
		members = append(members, m.Member)
		by[m.Name] = m
	}
	for _, m := range stack.Order(members) {
		row := planMember{Name: m.Name, Kind: string(m.Kind), Action: actLeave, Images: m.Images, Notes: by[m.Name].Notes}
		for _, d := range m.After {
			row.After = append(row.After, d.Name+" "+string(d.Is))
		}
		had, there := s.Have[m.Name]
		switch {
		case !s.Differs(m):
		case m.Kind == stack.Job:
			row.Action, row.Changes = actRun, k.changes(s.Current.Find(m.Name), by[m.Name])
		case !there || had.Kind != m.Kind:
			row.Action = actMake
		default:
			row.Action, row.Changes = actChange, k.changes(s.Current.Find(m.Name), by[m.Name])
		}
		p.Members = append(p.Members, row)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Have)) {
		if by[name] == nil {
			p.Members = append(p.Members, planMember{Name: name, Kind: string(s.Have[name].Kind), Action: actRemove})
		}
	}
	return p
}

// unfinished says in a sentence what is left of a change.
func unfinished(s stack.State) string {
	c := s.Change
	text := fmt.Sprintf("change %d of %s has not ended", c.Number, c.Began.Local().Format(time.DateTime))
	switch {
	case c.Remove:
		text += ": the stack is being removed"
	case c.Way == stack.Back:
		text += fmt.Sprintf(": it is put back, because %s failed (%s)", c.Failed, c.Reason)
	case c.Way == stack.Clearing:
		text += ": what is left over is being removed"
	}
	for _, name := range slices.Sorted(maps.Keys(c.Stuck)) {
		text += fmt.Sprintf("; %s: %s", name, c.Stuck[name])
	}
	return text
}

// changes describes what differs between what a member was and what it is to be. Values are left out: they may be secrets.
func (k call) changes(was *stack.Member, m *member) (all []string) {
	if was == nil {
		return nil
	}
	for _, image := range slices.Sorted(maps.Keys(m.Images)) {
		if before := was.Images[image]; before != "" && before != m.Images[image] {
			all = append(all, "image "+image+": "+shortRun(before)+" → "+shortRun(m.Images[image]))
		}
	}
	registered, err := k.catalog(k.c)
	if err == nil {
		if ref, err := catalog.ParseRef(was.Definition); err == nil {
			if _, text, err := registered.Find(ref); err == nil {
				all = append(all, differences(text, m.Text)...)
			}
		}
	}
	all = append(all, differences(was.Request, m.Request)...)
	if len(all) == 0 && was.Print != m.Print {
		all = append(all, "the content of a file with variables")
	}
	if len(all) == 0 {
		all = append(all, "what is there is not what was applied")
	}
	return all
}

// shortRun is an image without its name.
func shortRun(run string) string {
	if id, local := strings.CutPrefix(run, stacks.IDPrefix); local {
		return "ID " + id[:min(12, len(id))]
	}
	_, digest, _ := strings.Cut(run, "@")
	return console.ShortDigest(digest)
}

// differences returns the paths at which two JSON documents differ.
func differences(a, b []byte) (all []string) {
	var one, other any
	if json.Unmarshal(a, &one) != nil || json.Unmarshal(b, &other) != nil {
		return nil
	}
	compare("", one, other, &all)
	return all
}

func compare(path string, a, b any, all *[]string) {
	one, isMap := a.(map[string]any)
	other, isMap2 := b.(map[string]any)
	if list, ok := a.([]any); ok {
		one, isMap = named(list)
	}
	if list, ok := b.([]any); ok {
		other, isMap2 = named(list)
	}
	if !isMap || !isMap2 {
		if text(a) != text(b) {
			*all = append(*all, path)
		}
		return
	}
	keys := maps.Clone(one)
	maps.Copy(keys, other)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		at := strings.TrimPrefix(path+"."+key, ".")
		if _, both := one[key]; !both {
			*all = append(*all, at+" is new")
		} else if _, both := other[key]; !both {
			*all = append(*all, at+" is gone")
		} else {
			compare(at, one[key], other[key], all)
		}
	}
}

func text(v any) string {
	out, _ := json.Marshal(v)
	return string(out)
}

// named returns a list of objects by what names each; ok is false for another list.
func named(list []any) (by map[string]any, ok bool) {
	by = map[string]any{}
	for _, v := range list {
		o, _ := v.(map[string]any)
		key := ""
		for _, member := range []string{"name", "containerPort", "containerPath", "containerName", "hostname", "address"} {
			if value := o[member]; value != nil && key == "" {
				key = fmt.Sprint(value)
			}
		}
		if key == "" || by[key] != nil {
			return nil, false
		}
		by[key] = v
	}
	return by, true
}

// counts says in a line what a plan does.
func (p plan) counts() string {
	n := map[string]int{}
	for _, m := range p.Members {
		n[m.Action]++
	}
	var words []string
	for _, w := range []struct{ action, word string }{{actMake, "to make"}, {actChange, "to change"}, {actRun, "to run"}, {actRemove, "to remove"}, {actLeave, "as they are"}} {
		if n[w.action] > 0 {
			words = append(words, fmt.Sprintf("%d %s", n[w.action], w.word))
		}
	}
	return strings.Join(words, ", ")
}

// idle reports whether a plan does nothing.
func (p plan) idle() bool {
	return p.Unfinished == "" && !slices.ContainsFunc(p.Members, func(m planMember) bool { return m.Action != actLeave })
}

// maxChanges describes how many differences of a member are printed.
const maxChanges = 6

// write prints a plan.
func (p plan) write(w io.Writer) error {
	fmt.Fprintf(w, "stack %s: %s\n", p.Stack, p.counts())
	if p.Unfinished != "" {
		fmt.Fprintf(w, "! %s\n", term.Line(p.Unfinished))
	}
	width := 0
	for _, m := range p.Members {
		width = max(width, len(m.Name))
	}
	for _, m := range p.Members {
		var images []string
		for _, image := range slices.Sorted(maps.Keys(m.Images)) {
			images = append(images, term.Line(image)+" "+shortRun(m.Images[image]))
		}
		line := fmt.Sprintf("%s %-*s  %-7s  %s", signs[m.Action], width, m.Name, m.Kind, strings.Join(images, ", "))
		if len(m.After) > 0 {
			line += " (after " + strings.Join(m.After, ", ") + ")"
		}
		fmt.Fprintln(w, strings.TrimRight(line, " "))
		for i, c := range m.Changes {
			if i == maxChanges {
				fmt.Fprintf(w, "    and %d more\n", len(m.Changes)-i)
				break
			}
			fmt.Fprintln(w, "    "+term.Line(c))
		}
	}
	return nil
}

// plan is `podtask stack plan`.
func (k call) plan(ctx context.Context, args []string) error {
	w, err := k.read(ctx, args)
	if err != nil {
		return err
	}
	s, err := k.state(w.Name)
	if err != nil {
		return err
	}
	p, _, err := k.planned(ctx, w, &s)
	if err != nil && len(p.Members) == 0 {
		return err
	}
	printed := command.PrintItem(k.out, k.c, p, func() error { return p.write(k.out) })
	return errors.Join(err, printed)
}

// state returns the record of a stack, a new one if there is none.
func (k call) state(name string) (stack.State, error) {
	s, err := k.store.Get(name)
	if errors.As(err, new(*stacks.NotFoundError)) {
		return stack.State{Name: name}, nil
	}
	return s, err
}

// planned looks up the images, completes the members, and compares them with the record, in which what is not there any more, or was
// changed by others, is marked. Known is false if a port of an image is not known yet. With an error for images that cannot be looked
// up, the plan has all members.
func (k call) planned(ctx context.Context, w *wanted, s *stack.State) (p plan, known bool, err error) {
	var updated map[string][]string
	if k.agent != nil {
		if updated, err = k.adopt(ctx, s); err != nil {
			return p, false, err
		}
	}
	missing := k.resolve(ctx, w, s.Current)
	w.follow(s.Current, updated)
	if known, err = k.ports(ctx, w); err != nil && known {
		return p, false, err
	}
	if err := k.requests(w); err != nil {
		return p, false, err
	}
	if k.agent != nil {
		if err := k.observe(ctx, w, s); err != nil {
			return p, false, err
		}
	}
	if k.c.String("format") == "" {
		w.tell(k)
	}
	return k.planOf(w, *s), known, missing
}

// observe compares the record with what is there.
func (k call) observe(ctx context.Context, w *wanted, s *stack.State) error {
	s.Have = maps.Clone(s.Have)
	for _, name := range slices.Sorted(maps.Keys(s.Have)) {
		h := s.Have[name]
		if h.Kind == stack.Schedule {
			if now, found, err := k.schedules.Find(h.Object); err != nil {
				return err
			} else if !found || now.ID != stacks.ScheduleID(s.Name, h.Object) {
				delete(s.Have, name)
			}
		}
		if h.Kind != stack.Service {
			continue
		}
		now, err := k.agent.Service(ctx, h.Object)
		m := s.Current.Find(name)
		switch {
		case api.Is(err, api.NotFound):
			delete(s.Have, name)
		case err != nil:
			return err
		case !stacks.Owns(h, now):
			delete(s.Have, name) // somebody has made another one of the name
		case s.Change == nil && m != nil && h.Print == m.Print && (now.TaskDefinition != m.Definition || now.DesiredCount != count(*m)):
			h.Print = "" // somebody has changed it
			s.Have[name] = h
		}
	}
	var errs []error
	for _, m := range w.Members {
		_, ours := s.Have[m.Name]
		if !ours && m.Kind == stack.Schedule {
			errs = append(errs, k.free(m, s.Name))
		}
		if ours || m.Kind != stack.Service {
			continue
		}
		if _, err := k.agent.Service(ctx, m.Object); err == nil {
			errs = append(errs, fmt.Errorf("%s: there is a service %s already, which is not of this stack: remove it with `podtask service rm --force %s`, or give the stack another name with --name", m.Place, m.Object, m.Object))
		} else if !api.Is(err, api.NotFound) {
			return err
		}
	}
	return errors.Join(errs...)
}

// count is the number of copies that a member wants.
func count(m stack.Member) int {
	n, err := requestOf(m)
	if err != nil {
		return -1
	}
	return n.DesiredCount
}
