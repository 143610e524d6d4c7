package toolfile

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// Request is a file and what is known besides it.
type Request struct {
	// File is the name of the file in messages.
	File   string
	Source []byte
	// Dir is the directory of the file, an absolute path, from which relative paths of the host count; empty leaves them as they are.
	Dir string
	// Base is the path of the file relative to the directory whose files Open opens.
	Base string
	// Open returns the content of a file by its path, which is clean, relative, and has no "..". Nil opens none.
	Open func(path string) ([]byte, error)
	// Params are values by the name of a parameter, or of what else has no value in the file.
	Params map[string]string
	// Getenv returns variables of the environment, for ecspresso, Copilot and the region; nil has none.
	Getenv func(name string) string
	// Service chooses a workload by its name; empty if there is only one.
	Service string
	// Environment is that of a Copilot manifest whose settings replace the others; empty for none.
	Environment string
	// Name is what the task family and the service are called; empty takes the name in the file.
	Name string
	// Now is the time before which a schedule has ended.
	Now time.Time
	// Beside are more manifests, which are read as if they were in the file.
	Beside []File

	Whole bool // all workloads are read, for a stack
}

// Result is what came of a file.
type Result struct {
	// Kind is what the file is, as in "a CloudFormation template".
	Kind string
	// Name is that of the family and of the service.
	Name string
	// Definition is an ECS task definition; nil if Documents are set.
	Definition *doctree.Node
	// Documents are Kubernetes manifests of one workload.
	Documents []*doctree.Node
	// Service is the service that the file describes; nil for none.
	Service *Service
	// Live: it is a service as ECS describes it, and no file.
	Live bool
	// Schedules are the times at which the task is to run.
	Schedules []Schedule
	// Lost is what podtask does not take over, in the order of the places.
	Lost []taskdef.Problem
	// Stack gives the place among other workloads; only ReadAll sets it.
	Stack Stack

	File     string // the first one
	Files    map[*doctree.Node]string
	Answered []string // pointers of members that the command has, and of which the definition warns
}

// Lasting returns the warnings of the definition without those that the command of a service or a schedule answers.
func (r Result) Lasting(warnings []taskdef.Problem) (out []taskdef.Problem) {
	for _, p := range warnings {
		command := r.Service != nil || r.Schedules != nil
		if command && (p.Pointer == "/kind" || slices.Contains(r.Answered, p.Pointer)) {
			continue
		}
		out = append(out, p)
	}
	return out
}

// Service is what a service of the file asks for.
type Service struct {
	// Flags are those of `podtask service create`, without the file.
	Flags []string
	// Scaling are command lines of `podtask service scaling`, for after that.
	Scaling []Scaling
}

// Scaling is a command line of `podtask service scaling`.
type Scaling struct {
	// Verb is set or at; Words are the arguments behind the service.
	Verb  string
	Words []string
}

// Schedule is the time at which a task is due.
type Schedule struct {
	// Name is that of the schedule.
	Name string
	// Flags are those of `podtask schedule create`, without the file.
	Flags []string
}

// Error is a file of which nothing can be made, with all that is wrong with it.
type Error struct {
	// Kind is what the file is; empty if that is not known.
	Kind, File string
	Problems   []taskdef.Problem // never empty
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Kind != "" {
		b.WriteString(", " + e.Kind + ",")
	}
	b.WriteString(" cannot be imported:")
	for _, p := range e.Problems {
		b.WriteString("\n  " + p.String())
	}
	return b.String()
}

// Bounds of what is read.
const (
	maxJSON  = 16 << 20 // bytes: plans of Terraform are large
	MaxYAML  = 8 << 20  // bytes: a chart with its kinds of resources is large
	MaxFiles = 100      // that a file names, in all, each time counted
	MaxSteps = 200_000  // values that functions of templates make
	MaxText  = 4 << 20  // bytes that functions of templates make
)

// Limits bounds one document.
func Limits(src []byte) doctree.Limits {
	l := doctree.Limits{Size: MaxYAML, Values: 400_000, Depth: 60}
	if text := strings.TrimLeft(string(src[:min(len(src), 64)]), "\ufeff \t\r\n"); strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[") {
		l.Size, l.Values = maxJSON, 1_000_000
	}
	return l
}

// Reader reads one file and those that it names.
type Reader struct {
	Request
	Kind      string
	Problems  []taskdef.Problem
	Losses    []taskdef.Problem
	Files     map[*doctree.Node]string // of each value that is not of the first file
	opened    int                      // files that were read
	Used      map[string]bool          // parameters that something asked for
	Known     []string                 // parameters that there are
	Needs     map[string]*Need
	Asked     int // how often a value was asked for
	Pending   []Pending
	Steps     int // that functions have made
	TextBytes int // bytes that functions have made
}

// Need is a value that the file asks for and does not have.
type Need struct {
	at    *doctree.Node // the first place
	lines []string      // the other ones
	what  string
	fix   string
}

// Workload is a service, a scheduled task or a task definition of a file.
type Workload struct {
	Names []string // any of which chooses it; the first one is shown
	Name  string   // of the result; empty for the first of names
	// absent: its condition is false, so it counts only if it is chosen by its name.
	Absent bool
	// bare: it is a task definition alone; a service of the same name comes before it.
	Bare bool
	// used: it is the task definition of a service or schedule. It counts only if it is chosen by its name, and is not shown.
	Used bool
	// target is the ID of a target of a rule, which may have several.
	Target string
	// after are names of others that it waits for.
	After []string
	// build returns the task definition, and adds the rest to the result.
	Build func(res *Result) *doctree.Node
}

// NameTargets gives the workloads of one rule names of their own, if it has several: RULE/TARGET.
func NameTargets(all []*Workload) []*Workload {
	if len(all) < 2 {
		return all
	}
	for i, w := range all {
		if slices.ContainsFunc(all[:i], func(other *Workload) bool { return other.Target == w.Target }) {
			w.Target += "-" + strconv.Itoa(i+1)
		}
		for k := range w.Names {
			w.Names[k] += "/" + w.Target
		}
		w.Name += "-" + w.Target
	}
	return all
}

// NewReader returns a reader of a file.
func NewReader(req Request) *Reader {
	return &Reader{Request: req, Files: map[*doctree.Node]string{}, Used: map[string]bool{}, Needs: map[string]*Need{}}
}

func byPlace(a, b taskdef.Problem) int {
	return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line, a.Column-b.Column, strings.Compare(a.Message, b.Message))
}

// InOrder returns problems in the order of their places, each once.
func InOrder(all []taskdef.Problem) []taskdef.Problem {
	slices.SortStableFunc(all, byPlace)
	return slices.Compact(all)
}

// Err returns an *Error with all problems and needs, or nil.
func (r *Reader) Err() error {
	all := slices.Clone(r.Problems)
	for _, n := range r.Needs {
		what := n.what
		if len(n.lines) > 0 {
			more := slices.Compact(n.lines)
			if len(more) > 5 {
				more = append(more[:5:5], "...")
			}
			what += " (also line " + strings.Join(more, ", ") + ")"
		}
		all = append(all, r.Problem(n.at, what, n.fix))
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, byPlace)
	const most = 100
	if all = slices.Compact(all); len(all) > most {
		all = append(all[:most:most], taskdef.Problem{File: r.File, Message: fmt.Sprintf("and %d more problems", len(all)-most)})
	}
	return &Error{Kind: r.Kind, File: r.File, Problems: all}
}

// Problem returns a problem at the place of a value.
func (r *Reader) Problem(at *doctree.Node, message, fix string) taskdef.Problem {
	p := taskdef.Problem{File: cmp.Or(r.Files[at], r.File), Message: message, Fix: fix}
	if at != nil {
		p.Line, p.Column = at.Line, at.Col
	}
	return p
}

// Wrong notes what makes an import impossible.
func (r *Reader) Wrong(at *doctree.Node, message, fix string) {
	if len(r.Problems) < 1000 {
		r.Problems = append(r.Problems, r.Problem(at, message, fix))
	}
}

// Lose notes what the result does not say.
func (r *Reader) Lose(at *doctree.Node, message, fix string) {
	if len(r.Losses) < 1000 {
		r.Losses = append(r.Losses, r.Problem(at, message, fix))
	}
}

// Ask notes that a value is needed, which --param key=VALUE gives.
func (r *Reader) Ask(at *doctree.Node, key, what string) {
	r.AskFor(at, key, what, "give --param "+ShellWord(key+"=")+"VALUE")
}

// AskFor notes that a value is needed, which key identifies; fix says how it is given.
func (r *Reader) AskFor(at *doctree.Node, key, what, fix string) {
	r.Asked++
	n := r.Needs[key]
	if n == nil {
		r.Needs[key] = &Need{at: at, what: what, fix: fix}
		return
	}
	if line := fmt.Sprint(at.Line); at.Line != n.at.Line && len(n.lines) < 100 {
		n.lines = append(n.lines, line)
	}
}

// Param returns a value that the user has given.
func (r *Reader) Param(keys ...string) (string, bool) {
	for _, key := range keys {
		r.Known = append(r.Known, key)
		if v, ok := r.Params[key]; ok {
			r.Used[key] = true
			return v, true
		}
	}
	return "", false
}

// Parse reads the documents of a file.
func (r *Reader) Parse(file string, src []byte) ([]*doctree.Node, bool) {
	docs, err := doctree.Tagged(src, Limits(src), functionTags())
	var syntax *doctree.SyntaxError
	switch {
	case errors.As(err, &syntax):
		r.Problems = append(r.Problems, taskdef.Problem{File: file, Line: syntax.Line, Column: syntax.Col, Message: syntax.Message, Fix: syntax.Fix})
		return nil, false
	case err != nil:
		r.Problems = append(r.Problems, taskdef.Problem{File: file, Message: err.Error()})
		return nil, false
	case len(docs) == 0:
		r.Problems = append(r.Problems, taskdef.Problem{File: file, Line: 1, Column: 1, Message: "the file is empty"})
		return nil, false
	}
	for _, d := range docs {
		if file != r.File {
			r.register(d, file)
		}
	}
	return docs, true
}

// Shown returns a path below the root as messages name it.
func (r *Reader) Shown(p string) string { return path.Join(path.Dir(r.File), p) }

// register notes of which file all values of a tree are.
func (r *Reader) register(n *doctree.Node, file string) {
	r.Files[n] = file
	for _, item := range n.Items {
		r.register(item, file)
	}
	for _, f := range n.Fields {
		r.register(f.Value, file)
	}
}

// OpenFile reads a file that a value names. From is the path of the file with the value.
func (r *Reader) OpenFile(at *doctree.Node, from, name string) (file string, src []byte, ok bool) {
	file, err := Below(from, name)
	switch {
	case err != nil:
		r.Wrong(at, err.Error(), "")
		return "", nil, false
	case r.Open == nil:
		r.Wrong(at, "the file "+doctree.Quote(name)+" cannot be read, because its directory is not known", "give the file by its name, and not on standard input")
		return "", nil, false
	case r.opened >= MaxFiles:
		if r.opened == MaxFiles { // once
			r.Wrong(at, fmt.Sprintf("more than %d files are named", MaxFiles), "")
		}
		r.opened = MaxFiles + 1
		return "", nil, false
	}
	r.opened++
	src, err = r.Open(file)
	if err != nil {
		r.Wrong(at, "read "+doctree.Quote(name)+": "+err.Error(), "")
		return "", nil, false
	}
	return file, src, true
}

// Locate places a problem of the produced text where its value stands in the file.
func (r Result) Locate(p taskdef.Problem, text []byte) taskdef.Problem {
	n := r.Definition
	if n == nil {
		lines := strings.Split(string(text), "\n")
		doc := 0
		for _, line := range lines[:min(max(p.Line-1, 0), len(lines))] {
			if line == "---" {
				doc++
			}
		}
		if doc >= len(r.Documents) {
			return p
		}
		n = r.Documents[doc]
	}
	place := n
	for token := range strings.SplitSeq(strings.TrimPrefix(p.Pointer, "/"), "/") {
		key := strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		var next *doctree.Node
		if n.Kind == doctree.List {
			for i, item := range n.Items {
				if fmt.Sprint(i) == key {
					next = item
				}
			}
		} else {
			next = n.Member(key)
		}
		if next == nil {
			break
		}
		n = next
		if n.Line > 0 {
			place = n
		}
	}
	if place.Line > 0 {
		p.File, p.Line, p.Column = cmp.Or(r.Files[place], r.File), place.Line, place.Col
	}
	return p
}

// Pending is a value that a template does not have. It is asked for only if what it stands in is used: files of
// ecspresso have many values of other tools in what podtask has no use for.
type Pending struct{ Key, What, Fix string }

// Variable returns a variable: a parameter, or one of the environment that is not empty.
func (r *Reader) Variable(name string) (string, bool) {
	if v, ok := r.Param(name); ok {
		return v, true
	}
	if r.Getenv == nil {
		return "", false
	}
	v := r.Getenv(name)
	return v, v != ""
}

// File is a file of manifests that is read together with another one.
type File struct {
	// Name is the one in messages.
	Name   string
	Source []byte
}

// Stack names what a workload is among the others of its files.
type Stack struct {
	// Member is its name, which is not that of the task family.
	Member string
	// Line and File are where it is; 0 is not known.
	File string
	Line int
	// Job: it runs to its end.
	Job bool
	// After lists members that it waits for, each as NAME=started, healthy or completed.
	After []string
	// Claims are the volumes that it wants from a cluster.
	Claims []string

	Hook       string // of Helm
	HookWeight int    // hooks with lower ones come first
}
