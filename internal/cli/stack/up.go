package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/define/catalog"
	"github.com/podtask/podtask/internal/define/foreignfile"
	"github.com/podtask/podtask/internal/engine/act/imagestore"
	"github.com/podtask/podtask/internal/engine/act/observe"
	"github.com/podtask/podtask/internal/engine/decide/stack"
	"github.com/podtask/podtask/internal/engine/run/stacks"
	"github.com/podtask/podtask/internal/serve"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/internal/term"
)

// up is `podtask stack up`.
func (k call) up(ctx context.Context, args []string) error {
	if k.c.Bool("dry-run") {
		return k.plan(ctx, args)
	}
	w, err := k.read(ctx, args)
	if err != nil {
		return err
	}
	lock, err := k.store.Lock(w.Name)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	s, err := k.state(w.Name)
	if err != nil {
		return err
	}
	if err := k.admit(w, s); err != nil {
		return err
	}
	s.Preview = w.Preview
	before := s.Current
	p, known, err := k.planned(ctx, w, &s)
	if err != nil {
		return err
	}
	adopted := !reflect.DeepEqual(before, s.Current)
	if k.c.String("format") == "" {
		if err := p.write(k.errOut); err != nil {
			return err
		}
	}
	if p.idle() && known && k.same(w, s) {
		if w.Preview != nil || adopted { // its end is later now, or automatic updates are written down
			if err := k.store.Put(s); err != nil {
				return err
			}
		}
		return k.report(p, "up to date", nil)
	}
	if err := k.makeReady(ctx, w, &s); err != nil {
		return err
	}
	s = begin(s, w, k.c.Bool("no-rollback"))
	s, err = k.run(ctx, s)
	if err != nil {
		return interrupted(s.Name, err)
	}
	result, err := k.verdict(s)
	return k.report(p, result, err)
}

// makeReady does what a change needs before it begins: images, ports, requests, and the secrets and volumes of the stack.
func (k call) makeReady(ctx context.Context, w *wanted, s *stack.State) error {
	if err := k.pull(ctx, w); err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	if _, err := k.ports(ctx, w); err != nil {
		return err
	}
	if err := k.requests(w); err != nil {
		return err
	}
	if w.Preview != nil {
		if err := k.reserve(ctx, w, s); err != nil {
			return fmt.Errorf("nothing was changed: %w", err)
		}
	}
	err := k.prepare(ctx, w, s.Current)
	if err == nil {
		return nil
	}
	if w.Preview != nil {
		err = errors.Join(err, k.store.Put(*s)) // volumes that are filled
	}
	return stopped(fmt.Errorf("nothing was changed: %w", err))
}

// same reports whether a stack is the present revision, its order and files included.
func (k call) same(w *wanted, s stack.State) bool {
	if s.Current.Number == 0 || len(s.Current.Members) != len(w.Members) {
		return false
	}
	for _, m := range w.Members {
		now := s.Current.Find(m.Name)
		if now == nil || now.Print != m.Print || !reflect.DeepEqual(now.After, m.After) {
			return false
		}
	}
	return true
}

// begin returns the record with the change to what is wanted: the one that has not ended, if it is the same.
func begin(s stack.State, w *wanted, keep bool) stack.State {
	target := stack.Revision{Source: w.Source}
	for _, m := range w.Members {
		target.Members = append(target.Members, m.Member)
	}
	for _, v := range w.Volumes {
		target.Volumes = append(target.Volumes, v.Name)
	}
	if c := s.Change; c != nil && c.Way != stack.Back && !c.Remove && !c.SkipJobs && c.Keep == keep && samePrints(c.Target.Members, target.Members) {
		return stack.Resume(s)
	}
	return stack.Start(s, stack.Change{Target: target, Keep: keep, Began: time.Now().UTC()})
}

func samePrints(a, b []stack.Member) bool {
	return slices.EqualFunc(a, b, func(a, b stack.Member) bool { return a.Name == b.Name && a.Print == b.Print })
}

// interrupted is the error of a change that this process does not end.
func interrupted(name string, err error) error {
	return stopped(fmt.Errorf("the change of stack %s has not ended: %w. `podtask stack up` continues it, `podtask stack rollback %s` puts it back", name, err, name))
}

// stopped gives an error the exit code of an interrupted command if that is why.
func stopped(err error) error {
	if errors.Is(err, errStopped) {
		return &command.ExitError{Code: command.ExitInterrupted, What: err.Error()}
	}
	return err
}

// run carries out the change of a stack.
func (k call) run(ctx context.Context, s stack.State) (stack.State, error) {
	begun := time.Now()
	registered, err := k.catalog(k.c)
	if err != nil {
		return s, err
	}
	r := stacks.Runner{
		Agent: k.agent, Schedules: schedules{k}, Store: k.store, Limit: k.c.Duration("timeout"), Now: func() time.Time { return time.Now().UTC() }, Fail: k.engine.FailPoint(),
		Definition: func(name string) ([]byte, error) {
			ref, err := catalog.ParseRef(name)
			if err != nil {
				return nil, err
			}
			_, text, err := registered.Find(ref)
			if err != nil {
				return nil, err
			}
			return foreignfile.JSON(text)
		},
		RemoveVolumes: k.removeVolumes,
		Failing:       k.showLogs,
		Told: func(s stack.State, step stack.Step, o *stack.Outcome) {
			if line := stepLine(s, step, o); line != "" {
				fmt.Fprintf(k.errOut, "%7.1fs  %s\n", time.Since(begun).Seconds(), term.Line(line))
			}
		},
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop) // the next one ends this process
	s, err = r.Run(ctx, s)
	if err != nil && ctx.Err() != nil {
		err = errStopped
	}
	return s, err
}

// errStopped is the error of a change that the user, or the end of the session, stopped at a step.
var errStopped = errors.New("it was stopped at this step, and services run as they are")

// stepLine describes what is done, or what came of it; empty for what nobody wants to know.
func stepLine(s stack.State, step stack.Step, o *stack.Outcome) string {
	name := step.Name
	if o != nil && o.Failed != "" {
		return name + " failed: " + o.Failed
	}
	switch {
	case step.Verb == stack.Apply && o != nil && step.Member.Kind == stack.Job:
		return name + " runs as " + stacks.TaskName(step.Had)
	case step.Verb == stack.Apply && o != nil:
		return name + " is applied"
	case step.Verb == stack.Await && step.Member.Kind == stack.Schedule:
		return ""
	case step.Verb == stack.Await && o == nil:
		return "waiting until " + name + " is " + string(step.Is)
	case step.Verb == stack.Await:
		return name + " is " + string(step.Is)
	case step.Verb == stack.Remove && o != nil:
		return name + " is removed"
	case step.Verb == stack.Volumes && o != nil:
		return "the volumes are removed"
	case step.Verb == stack.Finish && o == nil && s.Change.Way == stack.Forward:
		return "all members are as wanted"
	}
	return ""
}

// showLogs prints the last lines of a task that failed, before it is removed.
func (k call) showLogs(ctx context.Context, step stack.Step, task string) {
	if task == "" {
		return
	}
	st, err := k.engine.Tasks.FindToShow(task)
	if err != nil {
		return
	}
	err = k.engine.Logs.Read(ctx, st, "", observe.LogOptions{Tail: 10}, func(l observe.LogLine) error {
		fmt.Fprintf(k.errOut, "  %s | %s\n", step.Name, term.Line(l.Text))
		return nil
	})
	if err != nil {
		fmt.Fprintf(k.errOut, "  the logs of %s: %v\n", step.Name, err)
	}
}

// removeVolumes removes the volumes and secrets that were made for a stack.
func (k call) removeVolumes(ctx context.Context, name string) error {
	podman, err := k.podman(ctx)
	if err != nil {
		return err
	}
	return podman.RemoveVolumes(ctx, owner(name))
}

// verdict describes how the change of a stack ended, as an error if it did not end as was wanted.
func (k call) verdict(s stack.State) (string, error) {
	if s.Change != nil {
		return "unfinished", fmt.Errorf("stack %s: %s. The next `podtask stack up`, `rollback` or `rm` tries again", s.Name, unfinished(s))
	}
	last := s.History[len(s.History)-1]
	switch last.Result {
	case stack.Done:
		return string(stack.Done), nil
	case stack.PutBack:
		was := fmt.Sprintf("all is as it was in change %d", s.Current.Number)
		if s.Current.Number == 0 {
			was = "nothing of it is left but its volumes"
		}
		if last.Failed == "" {
			return string(last.Result), nil
		}
		return string(last.Result), fmt.Errorf("stack %s: %s failed: %s. The change was put back: %s", s.Name, last.Failed, last.Reason, was)
	}
	return string(last.Result), fmt.Errorf("stack %s: %s failed: %s. Everything is left as it was then", s.Name, last.Failed, last.Reason)
}

// outcome names what `podtask stack up --format json` prints.
type outcome struct {
	plan
	Result string `json:"result"`
	Reason string `json:"reason,omitempty"`
}

// report prints how a change ended.
func (k call) report(p plan, result string, err error) error {
	o := outcome{plan: p, Result: result}
	if err != nil {
		o.Reason = err.Error()
	}
	printed := command.PrintItem(k.out, k.c, o, func() error {
		if err == nil {
			fmt.Fprintf(k.out, "stack %s: %s\n", p.Stack, result)
		}
		return nil
	})
	return errors.Join(err, printed)
}

// locked returns the record of the stack that the arguments name, and its lock.
func (k call) locked(args []string) (stack.State, *state.Lock, error) {
	name, err := k.nameOf(args)
	if err != nil {
		return stack.State{}, nil, err
	}
	lock, err := k.store.Lock(name)
	if err != nil {
		return stack.State{}, nil, err
	}
	s, err := k.store.Get(name)
	if err != nil {
		return s, nil, errors.Join(err, lock.Unlock())
	}
	return s, lock, nil
}

// rollback is `podtask stack rollback`.
func (k call) rollback(ctx context.Context, args []string) error {
	s, lock, err := k.locked(args[:min(1, len(args))])
	if err != nil {
		return err
	}
	defer lock.Unlock()
	name := s.Name
	if _, err := k.adopt(ctx, &s); err != nil {
		return err
	}
	if s, err = k.back(s, args); err != nil {
		return err
	}
	if s, err = k.run(ctx, s); err != nil {
		return interrupted(name, err)
	}
	result, err := k.verdict(s)
	if err == nil {
		fmt.Fprintf(k.out, "stack %s: %s\n", name, result)
	}
	return err
}

// back returns the record with the change that a rollback asks for.
func (k call) back(s stack.State, args []string) (stack.State, error) {
	if len(args) < 2 && s.Change != nil && s.Change.Way != stack.Clearing && !s.Change.Remove {
		s = stack.Resume(s)
		if s.Change.Way == stack.Forward {
			s = stack.GiveUp(s, "a user asked for it")
		}
		return s, nil
	}
	if len(s.Before) == 0 {
		return s, fmt.Errorf("stack %s has no revision before the present one", s.Name)
	}
	to := s.Before[len(s.Before)-1]
	if len(args) == 2 {
		n, err := strconv.Atoi(args[1])
		i := slices.IndexFunc(s.Before, func(r stack.Revision) bool { return r.Number == n })
		if err != nil || i < 0 {
			var numbers []string
			for _, r := range s.Before {
				numbers = append(numbers, strconv.Itoa(r.Number))
			}
			return s, command.Usagef("stack rollback", "%q is no revision of stack %s that is kept: there are %v", args[1], s.Name, numbers)
		}
		to = s.Before[i]
	}
	to.Source = append(slices.Clone(to.Source), fmt.Sprintf("rollback to %d", to.Number))
	return stack.Start(s, stack.Change{Target: to, SkipJobs: true, Began: time.Now().UTC()}), nil
}

// remove is `podtask stack rm`.
func (k call) remove(ctx context.Context, args []string) error {
	name, err := k.nameOf(args)
	if err != nil {
		return err
	}
	lock, err := k.store.Lock(name)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	s, err := k.store.Get(name)
	if errors.As(err, new(*stacks.NotFoundError)) && k.c.Bool("volumes") { // of a stack that was removed without them
		return k.removeVolumes(ctx, name)
	}
	if err != nil {
		return err
	}
	if err := k.removeNow(ctx, s, k.c.Bool("volumes")); err != nil {
		return err
	}
	fmt.Fprintln(k.out, name)
	return nil
}

// removeNow removes a stack. The caller holds its lock.
func (k call) removeNow(ctx context.Context, s stack.State, volumes bool) error {
	if c := s.Change; c != nil && c.Remove && c.Volumes == volumes {
		s = stack.Resume(s)
	} else {
		s = stack.Start(s, stack.Change{Remove: true, Volumes: volumes, Began: time.Now().UTC()})
	}
	name := s.Name
	s, err := k.run(ctx, s)
	if err != nil {
		return stopped(fmt.Errorf("stack %s is not removed: %w. The next `podtask stack rm %s` continues", name, err, name))
	}
	if _, err := k.verdict(s); err != nil {
		return err
	}
	if err := errors.Join(k.engine.Images.Forget(ctx, imagestore.StackTaker+name), k.uninstall(ctx, name)); err != nil {
		k.warn("%v", err)
	}
	return k.forget(ctx, s)
}

// forget removes what is left of a stack that has no members: its secrets, volumes that are filled by half, and its record.
func (k call) forget(ctx context.Context, s stack.State) error {
	podman, err := k.podman(ctx)
	if err != nil {
		return err
	}
	if err := podman.RemoveSecrets(ctx, secretPrefix(s.Name), owner(s.Name)); err != nil {
		return err
	}
	if s.Preview != nil {
		for _, name := range s.Preview.Filling {
			if err := podman.RemoveVolume(ctx, name, owner(s.Name)); err != nil {
				return err
			}
		}
	}
	if err := k.release(ctx, s); err != nil {
		k.warn("Secrets of manifests of stack %s stay in Podman: %v", s.Name, err)
	}
	s.Current, s.Preview = stack.Revision{}, nil
	return k.store.Put(s)
}

// release deregisters the manifests of a stack whose Secrets Podman keeps, and removes those that nobody else uses.
func (k call) release(ctx context.Context, s stack.State) error {
	registered, err := k.catalog(k.c)
	if err != nil {
		return err
	}
	kept := false
	for _, r := range append(slices.Clone(s.Before), s.Current) {
		for _, m := range r.Members {
			ref, err := catalog.ParseRef(m.Definition)
			if err != nil {
				continue // it was never registered
			}
			if found, _, err := registered.Find(ref); err != nil || found.Kept == "" {
				continue
			}
			if _, err := registered.Deregister(ctx, ref, time.Now()); err != nil {
				return err
			}
			kept = true
		}
	}
	if !kept {
		return nil
	}
	return serve.SecretManifests{Catalog: registered, Engine: k.engine}.Release(ctx)
}
