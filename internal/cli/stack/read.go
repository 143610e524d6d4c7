package stack

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/define/convert"
	"github.com/podtask/podtask/internal/define/convert/compose"
	"github.com/podtask/podtask/internal/define/lockfile"
	"github.com/podtask/podtask/internal/engine/decide/stack"
	"github.com/podtask/podtask/internal/engine/run/schedule"
	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/taskdef"
)

// wanted is a stack as its files say. Its exported members are what another host is sent of it.
type wanted struct {
	Name    string
	Preview *stack.Preview
	Source  []string
	Members []*member
	Volumes []compose.StackVolume
	Files   []convert.File
	Secrets []convert.File
	Lost    []taskdef.Problem
	Needs   []string
	// Lock is the lockfile of a stack whose files are on another machine, LockDigest the digest of the stack there.
	Lock       *lockfile.File
	LockDigest string
	sent       bool // from another machine
}

// member is a member of a stack, with what becomes of it before it can be applied.
type member struct {
	stack.Member
	// Place is FILE:LINE.
	Place string
	// Notes say what podtask decided about it.
	Notes []string
	// Text is its task definition, Dir where relative paths count from.
	Text []byte
	Dir  string
	// What the request is made of.
	Copies    int
	Listen    []string
	Names     []compose.StackName
	StopFirst bool
	PIDs      int64
	// Of a file that is no Compose project: what flags of podtask service create say, where its volumes are, and the pointers of
	// warnings that the flags answer.
	Settings   *api.ServiceSettings
	References []api.Reference
	Answered   []string
	// AfterAt has the places of dependencies, as FILE:LINE.
	AfterAt map[string]string
	// Times are those of a schedule.
	Times schedule.Times

	// task and digest are of Text as it is now.
	task   taskdef.Task
	digest string
	finds  command.Finding
	// words are flags of podtask service create, and locate finds problems of Text in the file, of one that is no Compose project.
	words   []string
	locate  func(taskdef.Problem) taskdef.Problem
	preview *preview
}

// nameOf returns the name of the stack that an argument means: a name, or the file of a stack.
func (k call) nameOf(args []string) (string, error) {
	if len(args) > 0 {
		if _, err := os.Stat(args[0]); err != nil || stack.CheckName(args[0]) == nil && k.isStack(args[0]) {
			return args[0], stack.CheckName(args[0])
		}
	}
	files, err := sources(args)
	if err != nil {
		return "", err
	}
	return k.projectName(files)
}

func (k call) isStack(name string) bool {
	_, err := k.store.Get(name)
	return err == nil
}

var notInName = lazy.MustCompile(`[^a-z0-9_-]`)

// read reads the files of a stack. All problems are reported at once.
func (k call) read(ctx context.Context, args []string) (*wanted, error) {
	w, err := k.written(ctx, args)
	if err != nil {
		return nil, err
	}
	if err := k.check(ctx, w); err != nil || w.Preview == nil {
		return w, err
	}
	return w, k.asPreview(w)
}

// written reads a stack as its files say, or as another machine has read them.
func (k call) written(ctx context.Context, args []string) (*wanted, error) {
	if k.sent && slices.Equal(args, []string{"-"}) {
		return k.received()
	}
	files, err := sources(args)
	if err != nil {
		return nil, err
	}
	w := &wanted{}
	if w.Name, err = k.projectName(files); err != nil {
		return nil, err
	}
	if w.Preview, err = k.previewOf(w.Name); err != nil {
		return nil, err
	}
	if w.Preview != nil {
		w.Name = w.Preview.Stack()
	}
	return w, k.readAll(ctx, files, w)
}

// readCompose reads a Compose project.
func (k call) readCompose(ctx context.Context, from string, w *wanted) error {
	path, err := filepath.Abs(from)
	if err != nil {
		return err
	}
	text, err := command.ReadSmall(path)
	if err != nil {
		return fmt.Errorf("read the stack: %w", err)
	}
	vars, shell, err := k.compose.Variables(filepath.Dir(path))
	if err != nil {
		return err
	}
	r := compose.Request{File: path, Task: w.Name, Source: text, Variables: vars, Shell: shell, Profiles: k.c.StringSlice("profile"), Output: k.filesOf(w.Name), Stack: true}
	if vars["COMPOSE_FILE"] == "" {
		r.Override = compose.Override(path)
	}
	var got compose.StackResult
	if err := k.compose.Convert(ctx, r, &got); err != nil {
		return err
	}
	w.Volumes, w.Files, w.Secrets, w.Needs = got.Volumes, got.Files, got.Secrets, got.Needs
	for _, l := range got.Lost {
		w.lose(taskdef.Problem{Message: l})
	}
	for _, m := range got.Members {
		w.Members = append(w.Members, fromCompose(w.Name, filepath.Dir(path), m))
	}
	return nil
}

// conditions lists those of Compose.
var conditions = map[string]stack.Condition{"service_started": stack.Started, "service_healthy": stack.Healthy, "service_completed_successfully": stack.Completed}

// fromCompose makes a member of a service of a Compose project.
func fromCompose(name, dir string, from compose.StackMember) *member {
	m := &member{
		Member: stack.Member{Name: from.Name, Object: from.Object, Kind: stack.Service}, Place: from.Place,
		Text: from.Definition, Dir: dir, Copies: from.Copies, Listen: from.Listen, Names: from.Names, StopFirst: from.StopFirst, PIDs: from.PIDs,
	}
	if from.Job {
		m.Kind = stack.Job
		m.Notes = append(m.Notes, "it runs to its end: "+from.Why)
	} else if from.StopFirst {
		m.Notes = append(m.Notes, "it stops before its next copy starts: "+from.WhyStop)
	}
	for _, d := range from.After {
		is := conditions[d.Condition]
		m.waitFor(d.Name, is, d.Place)
	}
	return m
}

// check checks the members together and each definition, and reports all problems.
func (k call) check(ctx context.Context, w *wanted) error {
	var all []stack.Member
	for _, m := range w.Members {
		all = append(all, m.Member)
		all[len(all)-1].Print = "unknown"
	}
	var errs []error
	for _, p := range stack.Problems(all) {
		errs = append(errs, fmt.Errorf("%s: %s", w.place(p), p.Text))
	}
	found := command.Finding{Valid: true, File: "the stack"}
	for _, m := range w.Members {
		if err := k.define(m); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.Place, err))
			continue
		}
		errs = append(errs, placed(m.Place, m.Name, k.checkTimes(ctx, m))...)
		errs = append(errs, placed(m.Place, m.Name, k.checkFollowing(m))...)
		if w.sent {
			errs = append(errs, k.stays(m)...)
		}
		found.Valid = found.Valid && m.finds.Valid
		found.Warnings = append(found.Warnings, m.finds.Warnings...)
		found.Needs = append(found.Needs, m.finds.Needs...)
		found.Problems = append(found.Problems, m.finds.Problems...)
	}
	if !found.Runnable(k.errOut) {
		errs = append(errs, command.ExitStatus(command.ExitOwnFailure))
	}
	return errors.Join(errs...)
}

// placed returns the errors of a member, each with its place, FILE:LINE.
func placed(place, name string, err error) (all []error) {
	joined, several := err.(interface{ Unwrap() []error })
	switch {
	case err == nil:
	case several:
		for _, one := range joined.Unwrap() {
			all = append(all, placed(place, name, one)...)
		}
	default:
		all = append(all, fmt.Errorf("%s: %s: %w", place, name, err))
	}
	return all
}

// place returns the line of a problem, FILE:LINE.
func (w *wanted) place(p stack.Problem) string {
	if i := slices.IndexFunc(w.Members, func(m *member) bool { return m.Name == p.Member }); i >= 0 {
		return cmp.Or(w.Members[i].AfterAt[p.After], w.Members[i].Place)
	}
	return strings.Join(w.Source, ", ")
}

// define reads the definition of a member.
func (k call) define(m *member) error {
	d, err := k.definition(k.c, "")
	if err != nil {
		return err
	}
	d = d.Unlocked()
	given := slices.Clone(m.References)
	if m.Settings != nil {
		given = append(given, m.Settings.References...)
	}
	flags := len(d.Changes.References) // the command line has the last word: what it maps, no file maps to something else
	for _, r := range given {
		rule, err := define.NewReference(r.Match, r.Source, "the stack")
		if err != nil {
			return err
		}
		d.Changes.References = slices.Insert(d.Changes.References, flags, rule)
	}
	if m.task, m.finds, err = d.Check(define.Document{Name: m.Place + ": " + m.Name, Dir: m.Dir, Source: m.Text}); err != nil {
		return err
	}
	if f := &m.finds; m.locate != nil {
		f.Warnings = slices.DeleteFunc(f.Warnings, func(p taskdef.Problem) bool { return slices.Contains(m.Answered, p.Pointer) })
		for _, all := range [][]taskdef.Problem{f.Problems, f.Warnings, f.Needs} {
			for i := range all {
				all[i] = m.locate(all[i])
			}
		}
		m.stopsFirst()
	}
	m.digest, err = m.finds.Definition.Digest()
	return err
}

// stopsFirst notes whether the only copy has to stop before the next one starts: two must not write to the same volume, or have the same
// port of the host.
func (m *member) stopsFirst() {
	if m.Copies > 1 || m.StopFirst || m.Kind != stack.Service {
		return
	}
	shared := map[string]bool{}
	for _, v := range m.task.Volumes {
		shared[v.Name] = v.Kind != taskdef.VolumeTask
	}
	for _, c := range m.task.Containers {
		for _, mount := range c.Mounts {
			if shared[mount.Volume] && !mount.ReadOnly && !m.StopFirst {
				m.StopFirst = true
				m.Notes = append(m.Notes, "it stops before its next copy starts: it writes to the volume "+mount.Volume)
			}
		}
		for _, p := range c.Ports {
			if p.HostPort != 0 && !m.StopFirst {
				m.StopFirst = true
				m.Notes = append(m.Notes, fmt.Sprintf("it stops before its next copy starts: it has port %d of the host", p.HostPort))
			}
		}
	}
}

// print names what tells two members apart: all that is applied, and the content of files of variables. Files in the directory of those
// that podtask has written have a digest in their names.
func (m *member) print(written string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, m.Kind, m.digest)
	h.Write(m.Request)
	if !m.follows() {
		images, err := json.Marshal(m.Images)
		if err != nil {
			return "", err
		}
		h.Write(images)
	}
	for _, c := range m.task.Containers {
		for _, f := range c.EnvironmentFiles {
			text, err := command.ReadSmall(f.Path)
			if err != nil || filepath.Dir(f.Path) == written {
				continue // the start of the task says why
			}
			fmt.Fprintf(h, "%s %x\n", f.Path, sha256.Sum256(text))
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil))[:32], nil
}

// tell prints what is lost and needed.
func (w *wanted) tell(k call) {
	for _, l := range taskdef.Fold(w.Lost) {
		fmt.Fprintln(k.errOut, "Lost: "+term.Line(l.String()))
	}
	for _, n := range w.Needs {
		fmt.Fprintln(k.errOut, "Needs: "+term.Line(n))
	}
	for _, m := range w.Members {
		for _, n := range m.Notes {
			fmt.Fprintf(k.errOut, "Note: %s: %s\n", m.Name, term.Line(n))
		}
	}
}
