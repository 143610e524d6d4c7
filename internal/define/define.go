package define

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/define/envfile"
	"github.com/podtask/podtask/internal/define/pod"
	"github.com/podtask/podtask/internal/define/short"
	"github.com/podtask/podtask/internal/host/ulimit"
	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/refs"
)

// Document is a task definition and where it comes from.
type Document struct {
	Name   string // in messages
	Dir    string // from which its relative paths count
	Source []byte
	// Registered documents were checked when they were registered: unknown members are warnings.
	Registered bool
	// Lost lists members of the file that the document was made of and does not have. They are warnings of the definition.
	Lost     []taskdef.Problem
	Revision int // 0 for a document that is not registered
}

// Changes are what one request changes in a document, and how strictly it is read. The zero value
// changes nothing.
type Changes struct {
	// Strict treats warnings as problems; Lenient treats unknown members as warnings.
	Strict, Lenient bool
	// Target is a launch type whose rules count too.
	Target taskdef.Target
	// Compatibilities: the rules of the launch types that the document requires count too.
	Compatibilities bool
	Vars            map[string]string // values of placeholders
	Environment     []taskdef.EnvVar  // for every container
	Without         []string          // members to leave out
	References      refs.Table        // for this request only; they come before those of the configuration
	Override        *Document         // an ECS TaskOverride
	Adjustments     taskdef.Adjustments
	// Copy chooses a Pod of a controller that numbers its Pods, from 0. Others have copies that are alike.
	Copy int
	// Options are keys of the configuration's table [tasks], for this task only.
	Options map[string]string
}

// Definition is a document with the changes of a request, as this host reads it.
type Definition struct {
	Document Document
	// Task is complete if the definition is Valid and has no Needs.
	Task taskdef.Task
	// Options are how the task is run; callers add who runs it.
	Options lifecycle.Options
	// Problems make the definition invalid. Needs are what only the host or the request can
	// give. Warnings include what is lost.
	Problems, Warnings, Needs []taskdef.Problem
	// References are what the definition names on AWS, each with its source here.
	References []taskdef.Resolved
	// Manifest has what a Kubernetes manifest contains besides the task.
	Manifest pod.Result
	// Lowered has a line for each ulimit that was lowered to this user's own.
	Lowered []string

	source taskdef.Source
}

// IsManifest reports whether the document is a Kubernetes manifest.
func (d Definition) IsManifest() bool { return d.source.Manifest() }

// Digest returns the digest of what the document says; that of a manifest is of its text.
func (d Definition) Digest() (string, error) {
	if d.IsManifest() {
		return fmt.Sprintf("sha256:%x", sha256.Sum256(d.Document.Source)), nil
	}
	return d.source.Digest()
}

// Valid reports whether the document can be a task somewhere.
func (d Definition) Valid() bool { return len(d.Problems) == 0 }

// Err returns what prevents the task from running here: a *taskdef.InvalidError, a
// *NeedsError, or nil.
func (d Definition) Err() error {
	switch {
	case !d.Valid():
		return &taskdef.InvalidError{Problems: d.Problems}
	case len(d.Needs) > 0:
		return &NeedsError{Needs: d.Needs}
	}
	return nil
}

// NeedsError says that a definition refers to what neither the request nor the configuration gives.
type NeedsError struct{ Needs []taskdef.Problem }

func (e *NeedsError) Error() string {
	var b strings.Builder
	b.WriteString("the definition leaves something open that neither the request nor the configuration gives")
	for _, n := range e.Needs {
		b.WriteString("; " + n.String())
	}
	return b.String()
}

// OptionError is a value in Changes that cannot be used.
type OptionError struct {
	Option string
	Err    error
}

func (e *OptionError) Error() string { return e.Option + ": " + e.Err.Error() }
func (e *OptionError) Unwrap() error { return e.Err }

// Reader reads documents as the configuration of this host says, or with its defaults. It may be
// used concurrently.
type Reader struct{ Settings *config.Settings }

// Read parses a document and applies the changes. What is wrong with the document is in the
// Definition; the error is about the configuration or the changes.
func (r Reader) Read(doc Document, c Changes) (Definition, error) {
	d := Definition{Document: doc}
	if r.Settings == nil {
		r.Settings = config.Default()
	}
	chosen, err := r.Settings.Override(c.Options)
	if err != nil {
		return d, &OptionError{"options", err}
	}
	d.Options = lifecycle.Options{Pull: chosen.Pull, Limits: chosen.Limits, Quota: chosen.Quota}
	settings, err := r.settings(doc, c)
	if err != nil {
		return d, err
	}
	if c.Override != nil {
		if err := d.override(&settings, *c.Override); err != nil {
			return d, err
		}
	}
	d.source = readSource(doc)
	loaded, report, err := pod.Load(d.source, settings, PodOptions())
	if err := d.addProblems(err); err != nil {
		return d, err
	}
	d.Manifest, d.Task = loaded, loaded.Task
	d.Task.Revision = doc.Revision
	d.Warnings, d.Needs, d.References = slices.Concat(d.Warnings, doc.Lost, report.Warnings), append(d.Needs, report.Needs...), report.References
	unneeded := slices.AppendSeq(slices.Clone(c.Adjustments.LeaveOut), maps.Keys(c.Adjustments.Replace))
	d.Needs = slices.DeleteFunc(d.Needs, func(n taskdef.Problem) bool { return d.isOf(n, unneeded) })
	if len(d.Problems) == 0 {
		if err := d.addProblems(d.Task.CheckLeaveOut(c.Adjustments.LeaveOut)); err != nil {
			return d, err
		}
	}
	if c.Strict {
		d.Problems, d.Warnings = append(d.Problems, d.Warnings...), nil
	}
	if d.Err() != nil {
		return d, nil
	}
	if _, given := c.Options[minimumAge]; given || r.Settings.Origin(minimumAge) == "--"+minimumAge {
		c.Adjustments.MinimumAge = wholeAge(chosen.MinimumAge)
	}
	if d.Task, err = d.Task.Adjust(c.Adjustments); err != nil {
		return d, d.addProblems(d.placeMinimumAge(err))
	}
	if chosen.ClampUlimits {
		d.Task, d.Lowered = ulimit.Clamp(d.Task)
	}
	return d, nil
}

// readSource reads the text of a document, in whatever form it is.
func readSource(doc Document) taskdef.Source {
	src := taskdef.ReadSource(doc.Name, doc.Source)
	if docs, err := src.Documents(); err == nil && len(docs) == 1 && short.Is(docs[0]) {
		return src.Rewritten(short.Expand(doc.Name, doc.Dir, docs[0]))
	}
	return src
}

// Text returns the document as it is kept and sent: a short definition in the form of ECS, any other as it was written.
func (d Definition) Text() []byte {
	if text, err := d.source.JSON(); err == nil && d.source.IsRewritten() {
		return text
	}
	return d.Document.Source
}

// definitionContainer finds the index of a container in a pointer into a task definition.
var definitionContainer = lazy.MustCompile(`^(?:/taskDefinition)?/containerDefinitions/(\d+)/`)

// isOf reports whether a need is that of one of these containers.
func (d *Definition) isOf(need taskdef.Problem, names []string) bool {
	found := definitionContainer.FindStringSubmatch(need.Pointer)
	if found == nil {
		return false
	}
	i, err := strconv.Atoi(found[1])
	return err == nil && i < len(d.Task.Containers) && slices.Contains(names, d.Task.Containers[i].Name)
}

// settings returns the settings of the parser for a document.
func (r Reader) settings(doc Document, c Changes) (taskdef.Settings, error) {
	known, err := r.Settings.Rules()
	if err != nil {
		return taskdef.Settings{}, &OptionError{"references", err}
	}
	for _, name := range c.Without {
		if err := taskdef.CheckWithout(name); err != nil {
			return taskdef.Settings{}, &OptionError{"without", err}
		}
	}
	return taskdef.Settings{
		IDs: hostIDs(), Dir: doc.Dir, Vars: c.Vars, Env: c.Environment, Target: c.Target, Compatibilities: c.Compatibilities,
		Lenient: c.Lenient || r.Settings.Tasks.Lenient || doc.Registered,
		Without: slices.Concat(c.Without, r.Settings.Tasks.Without),
		Refs:    slices.Concat(c.References, known),
		Logs:    LogSettings(r.Settings),
		Copy:    c.Copy,
	}, nil
}

// override parses an override into the settings of the parser.
func (d *Definition) override(settings *taskdef.Settings, doc Document) error {
	s := *settings
	s.Dir = doc.Dir
	var err error
	settings.Override, _, err = s.ParseOverride(doc.Name, doc.Source)
	return d.addProblems(err)
}

// addProblems adds what an *taskdef.InvalidError contains, and returns another error.
func (d *Definition) addProblems(err error) error {
	if invalid, ok := errors.AsType[*taskdef.InvalidError](err); ok {
		d.Problems = append(d.Problems, invalid.Problems...)
		return nil
	}
	return err
}

// LogSettings are what the configuration says about log drivers.
func LogSettings(s *config.Settings) taskdef.LogSettings {
	return taskdef.LogSettings{Mode: s.Tasks.Logs, AWSLogs: s.Delivery.AWSLogs()}
}

// Values are the values of a task that no record may have.
type Values interface {
	// Provide keeps a value under a name until the task is created.
	Provide(name string, value []byte)
	envfile.Sources
}

// Prepare does what is left before a valid definition's task can be created: it hands over the content of
// a manifest's Secrets, checks or makes paths of the host, and reads environment files. It returns the task to create.
func (d Definition) Prepare(ctx context.Context, values Values) (taskdef.Task, error) {
	for _, s := range d.Manifest.Secrets {
		values.Provide(s.Name, s.Value())
	}
	if err := d.checkHostPaths(); err != nil {
		return d.Task, err
	}
	return envfile.Read(ctx, values, d.Task)
}

// PrepareCopies is Prepare for a service, whose copies are created later: files are the contents of
// a manifest's files. The content of a Secret cannot be one of them, because the record of the service has them.
func (d Definition) PrepareCopies(ctx context.Context, values envfile.Sources) (task taskdef.Task, files map[string][]byte, err error) {
	for _, s := range d.Manifest.Secrets {
		if s.Sensitive() {
			return d.Task, nil, errors.New("the manifest contains Secret data, which podtask does not store; `podtask taskdef register` moves it into Podman secrets")
		}
		if files == nil {
			files = make(map[string][]byte)
		}
		files[s.Name] = s.Value()
	}
	if err := d.checkHostPaths(); err != nil {
		return d.Task, nil, err
	}
	task, err = envfile.Read(ctx, values, d.Task)
	return task, files, err
}

// PublishAll returns a task with the ports of its Pod to which names and addresses of a service may lead: they are published
// at this host alone.
func (d Definition) PublishAll(t taskdef.Task) taskdef.Task {
	t.Containers = slices.Clone(t.Containers)
	for _, p := range d.Manifest.Unpublished {
		if p.Container >= len(t.Containers) || t.Network == taskdef.NetworkHost || t.Network == taskdef.NetworkNone {
			continue
		}
		if c := &t.Containers[p.Container]; !c.Publishes(p.ContainerPort) {
			p.Port.HostIP = "127.0.0.1"
			c.Ports = append(slices.Clone(c.Ports), p.Port)
		}
	}
	return t
}

func (d Definition) checkHostPaths() error {
	var errs []error
	for _, p := range d.Manifest.HostPaths {
		errs = append(errs, checkHostPath(p))
	}
	return errors.Join(errs...)
}

// NewReference returns a rule for one request: what a definition names as match is source here.
// Origin is where the user wrote it.
func NewReference(match, source, origin string) (refs.Rule, error) {
	rule, err := config.NewRule(match, source, origin)
	if err != nil {
		return rule, fmt.Errorf("%s: %w", origin, err)
	}
	rule.OneOff = true
	return rule, nil
}
