package tasktest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/define/testfile"
	"github.com/podtask/podtask/internal/engine/act/observe"
	"github.com/podtask/podtask/internal/engine/run/owner"
	"github.com/podtask/podtask/internal/host/secretsource"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

const (
	// pollEvery is the time between two looks at what may come.
	pollEvery = 250 * time.Millisecond
	// cleanUpLimit bounds the removal of what a test made.
	cleanUpLimit = 3 * time.Minute
	// stubInterval and stubRetries are those of the health check of a stub.
	stubInterval = 5 * time.Second
	stubRetries  = 3
	// by is who stops tasks, in their stopped reason.
	by = "podtask test"
)

// runner runs one test.
type runner struct {
	testOptions
	job
	keep  bool
	names string // beginning of the names of its tasks
}

func newRunner(o testOptions, j job, keep bool) *runner {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	family := j.task.Family[:min(len(j.task.Family), 40)]
	return &runner{testOptions: o, job: j, keep: keep, names: "test-" + family + "-" + hex.EncodeToString(b[:])}
}

// run runs the test and removes everything. It returns at the latest when the time limit of the test, and the time
// for the removal, are over.
func (r *runner) run(ctx context.Context) Result {
	began := time.Now()
	result := Result{File: r.file, Test: r.Title(), Name: r.Name, Line: r.Line, Column: r.Column, Status: Passed}
	limit := r.Timeout.Or(testfile.DefaultTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the test took longer than its timeout of %v", limit))
	defer cancel()
	r.inSteps(ctx, &result)
	result.Seconds = time.Since(began).Seconds()
	return result
}

// inSteps runs the steps before the task, the task with its checks, and the steps after it.
func (r *runner) inSteps(ctx context.Context, result *Result) {
	for i, step := range r.Before {
		if f := r.step(ctx, step, nil, fmt.Sprintf("before-%d", i+1)); f != nil {
			f.What = "step before the task, " + f.What
			result.fail(f)
			return
		}
	}
	run, err := r.start(ctx)
	if err != nil {
		result.fail(&Failure{What: "start the task", Expected: "the task is started", Got: strings.ReplaceAll(err.Error(), "\n", "; ")})
		return
	}
	r.check(ctx, run, result)
	if result.Status != Passed {
		r.describe(run, result)
	}
	at := addresses(run.seen())
	for i, step := range r.After {
		// After a timeout too: these steps clean up what others made.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpLimit)
		if f := r.step(ctx, step, at, fmt.Sprintf("after-%d", i+1)); f != nil {
			f.What = "step after the test, " + f.What
			result.fail(f)
		}
		cancel()
	}
	if r.keep && result.Status != Passed {
		result.Kept = r.leave(ctx, run)
		return
	}
	if err := r.remove(ctx, run); err != nil {
		result.fail(&Failure{What: "remove the task", Expected: "nothing is left", Got: err.Error()})
	}
}

// check goes through what the test expects, and ends at the first thing that does not hold.
func (r *runner) check(ctx context.Context, run *running, result *Result) {
	for i, c := range r.Expect {
		began := time.Now()
		f := r.expect(ctx, run, c, i)
		what := describe(c)
		if f != nil {
			f.What, f.Line, f.Column = what, c.Line, c.Column
			result.fail(f)
			return
		}
		result.Passed = append(result.Passed, fmt.Sprintf("%s (%.1fs)", what, time.Since(began).Seconds()))
	}
}

// running is a task that this process owns and runs.
type running struct {
	state lifecycle.State // at its creation
	task  *connect.Task
	stop  context.CancelFunc // gives up the task
	ended chan struct{}      // closed when nothing more happens to it here

	mu       sync.Mutex
	last     api.Task
	changed  chan struct{} // closed at the next change
	removing bool
	err      error
}

// start creates the task of the test and runs it.
func (r *runner) start(ctx context.Context) (*running, error) {
	task := r.readSecretFiles(ctx, r.task)
	d := r.defined
	d.Task = task
	task, err := d.Prepare(ctx, r.engine.Secrets)
	if err != nil {
		return nil, err
	}
	return r.drive(ctx, task, r.names, d.Options)
}

// readSecretFiles returns the task with the content of its secret files in the place of the files. In a test other users may
// read them: a clone of a repository keeps no modes. A file that cannot be read stays, for the error of the start.
func (r *runner) readSecretFiles(ctx context.Context, t taskdef.Task) taskdef.Task {
	sources := map[string]string{}
	for _, c := range t.Containers {
		all := make([]string, 0, len(c.Secrets)+len(c.Extensions.SecretFiles))
		for _, s := range c.Secrets {
			all = append(all, s.Source)
		}
		for _, s := range c.Extensions.SecretFiles {
			all = append(all, s.Source)
		}
		for _, source := range all {
			if kind, _, _ := strings.Cut(source, ":"); kind != string(secretsource.File) {
				continue
			}
			if text, err := r.engine.Secrets.ReadFile(ctx, source, source); err == nil {
				name := fmt.Sprintf("PODTASK_TEST_SECRET_%x", sha256.Sum256([]byte(source)))
				r.engine.Secrets.Provide(name, bytes.TrimSuffix(text, []byte("\n")))
				sources[source] = "env:" + name
			}
		}
	}
	return replaceSources(t, sources)
}

// drive creates a task and runs it in the background.
func (r *runner) drive(ctx context.Context, task taskdef.Task, name string, options lifecycle.Options) (*running, error) {
	// A task that is to be kept outlives this process.
	options.Temporary = !r.keep
	o, err := r.engine.Creator.Launch(ctx, owner.Launch{Task: task, Name: name, Options: options})
	if err != nil {
		return nil, err
	}
	// A test that is interrupted still removes its task.
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	st := o.State()
	run := &running{state: st, task: connect.Local(r.owners, o), stop: stop, ended: make(chan struct{}), last: api.FromState(st), changed: make(chan struct{})}
	go func() {
		defer close(run.ended)
		err := run.task.Watch(ctx, run.note)
		run.mu.Lock()
		run.err = err
		run.mu.Unlock()
		run.wake()
	}()
	return run, nil
}

// note keeps the latest state, and reports whether the task is to be run on.
func (r *running) note(t api.Task) bool {
	r.mu.Lock()
	r.last = t
	more := !t.Settled || r.removing
	r.mu.Unlock()
	r.wake()
	return more
}

func (r *running) wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *running) seen() api.Task {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// next returns a channel that is closed at the next change.
func (r *running) next() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

// stopped reports whether the task has stopped.
func stopped(t api.Task) bool { return t.Status == lifecycle.StatusStopped.String() }

// remove removes a task with everything that belongs to it.
func (r *runner) remove(ctx context.Context, run *running) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpLimit)
	defer cancel()
	defer run.stop()
	run.mu.Lock()
	run.removing = true
	run.mu.Unlock()
	select {
	case <-run.ended:
	default:
		if err := run.task.Remove(ctx, by, true); err != nil {
			r.owners.Log.Debug("the task ended by itself", "task", run.state.ID, "error", err)
		}
	}
	select {
	case <-run.ended:
	case <-ctx.Done():
		return fmt.Errorf("task %s is not removed after %v: `podtask rm -f %s` removes it", run.state.DisplayName(), cleanUpLimit, run.state.DisplayName())
	}
	run.task.Close()
	return r.owners.Remove(ctx, run.state.ID, by, true, func(api.Task) {})
}

// leave leaves the task as it is, with an owner if it still runs, and returns how to look at it.
func (r *runner) leave(ctx context.Context, run *running) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpLimit)
	defer cancel()
	run.stop()
	<-run.ended
	name := run.state.DisplayName()
	kept := fmt.Sprintf("`podtask logs %s`, `podtask why %s`; `podtask rm -f %s` removes it", name, name, name)
	if stopped(run.seen()) {
		run.task.Close()
		return kept
	}
	if err := r.launcher.HandOver(ctx, run.task.Owner); err != nil {
		r.owners.Log.Warn("no process continues the task", "task", name, "error", err)
	}
	return kept
}

// step runs a step to its end and removes it. Nil is a step that did what it had to.
func (r *runner) step(ctx context.Context, s testfile.Step, at map[string]string, name string) *Failure {
	f := &Failure{What: "run " + stepName(s), Expected: fmt.Sprintf("exit code %d", s.Code)}
	task, err := stepTask(s, at)
	if err == nil {
		var run *running
		if run, err = r.drive(ctx, task, r.names+"-"+name, r.defined.Options); err == nil {
			ok := r.stepEnds(ctx, run, s, f)
			err = r.remove(ctx, run)
			if ok && err == nil {
				return nil
			}
		}
	}
	if err != nil {
		f.Got = err.Error()
	}
	return f
}

// stepEnds waits for the end of a step and reports whether it did what it had to.
func (r *runner) stepEnds(ctx context.Context, run *running, s testfile.Step, f *Failure) bool {
	select {
	case <-run.ended:
	case <-ctx.Done():
		f.Got = "it has not ended: " + context.Cause(ctx).Error()
		f.Evidence = r.tail(ctx, run.state, stepContainer)
		return false
	}
	t := run.seen()
	output := strings.Join(r.lines(ctx, run.state, stepContainer, -1), "\n")
	switch code := t.ExitCode; {
	case code == nil:
		f.Got = cmp.Or(t.StoppedReason, "it never ran")
	case int(*code) != s.Code:
		f.Got = fmt.Sprintf("exit code %d", *code)
	case !s.Output.Fits(output):
		f.Expected, f.Got = "the output "+s.Output.String(), "the output "+quoted(output)
	default:
		return true
	}
	f.Evidence = r.tail(ctx, run.state, stepContainer)
	return false
}

// tailLines is the number of lines of a log in a report.
const tailLines = 20

func (r *runner) tail(ctx context.Context, st lifecycle.State, container string) []string {
	return r.lines(ctx, st, container, tailLines)
}

// lines returns the last lines of a container; all of them for a negative number. A log that cannot be read has none.
func (r *runner) lines(ctx context.Context, st lifecycle.State, container string, last int) (lines []string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readLimit)
	defer cancel()
	err := r.engine.Logs.Read(ctx, st, container, observe.LogOptions{Tail: last}, func(l observe.LogLine) error {
		if lines = append(lines, l.Text); len(lines) > maxLines {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		r.owners.Log.Debug("cannot read a log", "task", st.ID, "container", container, "error", err)
	}
	return lines
}

// readLimit bounds the time for one look at a log or a file, maxLines the lines that are looked at.
const (
	readLimit = 20 * time.Second
	maxLines  = 100_000
)

var errEnough = errors.New("enough")

// describe adds to a result of what the task is like, and the logs of its containers.
func (r *runner) describe(run *running, result *Result) {
	t := run.seen()
	if len(t.Why) > 0 {
		result.Why = t.Why[0].Text
	}
	for _, c := range t.Containers {
		word := c.Name + " is " + c.Status
		if c.Health != nil && c.Health.Status != lifecycle.HealthUnknown.String() {
			word += " and " + c.Health.Status
		}
		if c.ExitCode != nil {
			word += fmt.Sprintf(" with exit code %d", *c.ExitCode)
		}
		if c.Reason != "" {
			word += ": " + c.Reason
		}
		result.Containers = append(result.Containers, word)
		if lines := r.tail(context.Background(), run.state, c.Name); len(lines) > 0 {
			result.Logs = append(result.Logs, ContainerLog{Container: c.Name, Lines: lines})
		}
	}
}
