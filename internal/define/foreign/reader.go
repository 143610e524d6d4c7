package foreign

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
	"github.com/podtask/podtask/pkg/taskdef/suggest"
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

	whole bool // all workloads are read, for a stack
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

	file     string // the first one
	files    map[*doctree.Node]string
	answered []string // pointers of members that the command has, and of which the definition warns
}

// Lasting returns the warnings of the definition without those that the command of a service or a schedule answers.
func (r Result) Lasting(warnings []taskdef.Problem) (out []taskdef.Problem) {
	for _, p := range warnings {
		command := r.Service != nil || r.Schedules != nil
		if command && (p.Pointer == "/kind" || slices.Contains(r.answered, p.Pointer)) {
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

// Schedule is when a task is due.
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
	maxYAML  = 8 << 20  // bytes: a chart with its kinds of resources is large
	maxFiles = 100      // that a file names, in all, each time counted
	maxSteps = 200_000  // values that functions of templates make
	maxText  = 4 << 20  // bytes that functions of templates make
)

// limits bounds one document.
func limits(src []byte) doctree.Limits {
	l := doctree.Limits{Size: maxYAML, Values: 400_000, Depth: 60}
	if text := strings.TrimLeft(string(src[:min(len(src), 64)]), "\ufeff \t\r\n"); strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[") {
		l.Size, l.Values = maxJSON, 1_000_000
	}
	return l
}

// reader reads one file and those that it names.
type reader struct {
	Request
	kind     string
	problems []taskdef.Problem
	lost     []taskdef.Problem
	files    map[*doctree.Node]string // of each value that is not of the first file
	opened   int                      // files that were read
	used     map[string]bool          // parameters that something asked for
	known    []string                 // parameters that there are
	needs    map[string]*need
	pending  []pending
	steps    int // that functions have made
	text     int // bytes that functions have made
}

// need is a value that the file asks for and does not have.
type need struct {
	at    *doctree.Node // the first place
	lines []string      // the other ones
	what  string
	fix   string
}

// workload is a service, a scheduled task or a task definition of a file.
type workload struct {
	names []string // any of which chooses it; the first one is shown
	name  string   // of the result; empty for the first of names
	// absent: its condition is false, so it counts only if it is chosen by its name.
	absent bool
	// bare: it is a task definition alone; a service of the same name comes before it.
	bare bool
	// used: it is the task definition of a service or schedule. It counts only if it is chosen by its name, and is not shown.
	used bool
	// target is the ID of a target of a rule, which may have several.
	target string
	// after are names of others that it waits for.
	after []string
	// build returns the task definition, and adds the rest to the result.
	build func(res *Result) *doctree.Node
}

// nameTargets gives the workloads of one rule names of their own, if it has several: RULE/TARGET.
func nameTargets(all []*workload) []*workload {
	if len(all) < 2 {
		return all
	}
	for i, w := range all {
		if slices.ContainsFunc(all[:i], func(other *workload) bool { return other.target == w.target }) {
			w.target += "-" + strconv.Itoa(i+1)
		}
		for k := range w.names {
			w.names[k] += "/" + w.target
		}
		w.name += "-" + w.target
	}
	return all
}

// opened is a file whose workloads are not read yet.
type opened struct {
	Result
	read func(*reader, []*doctree.Node) []*workload
}

// newReader parses a file, and those beside it. What is wrong is in the reader.
func newReader(req Request) (*reader, opened, []*doctree.Node) {
	r := &reader{Request: req, files: map[*doctree.Node]string{}, used: map[string]bool{}, needs: map[string]*need{}}
	res := opened{Result: Result{file: req.File, files: r.files}}
	src := req.Source
	if isEcspresso(src) {
		r.kind = "a configuration of ecspresso"
		if src = r.render(req.File, src, false); r.err() != nil {
			return r, res, nil
		}
	}
	docs, ok := r.parse(req.File, src)
	if !ok {
		return r, res, nil
	}
	kind, read := detect(req.File, docs)
	if read == nil {
		r.wrong(first(docs), "import does not know what this file is", "it reads what docs/importing.md lists")
		return r, res, nil
	}
	for _, f := range req.Beside {
		if more, ok := r.parse(f.Name, f.Source); ok {
			docs = append(docs, more...)
		}
	}
	r.kind, res.Kind, res.read = kind, kind, read
	return r, res, docs
}

// Read reads a file. The error is an *Error.
func Read(req Request) (Result, error) {
	res, _, err := read(req)
	return res, err
}

func read(req Request) (Result, *reader, error) {
	r, file, docs := newReader(req)
	res := file.Result
	if r.err() != nil {
		return res, r, r.err()
	}
	w := r.choose(file.read(r, docs))
	if w == nil {
		return res, r, r.err()
	}
	res.Name = cmp.Or(req.Name, plain(w.name), plain(w.names[0]))
	res.Definition = w.build(&res)
	r.unusedParams()
	if err := r.err(); err != nil {
		return res, r, err
	}
	if res.Definition != nil {
		r.finish(&res)
	}
	at := res.Definition
	if len(res.Documents) > 0 {
		at = res.Documents[0]
	}
	res.Stack.File, res.Stack.Line = r.problem(at, "", "").File, at.Line
	res.Lost = inOrder(r.lost)
	return res, r, r.err()
}

// Kind returns what a file is, as in "a CloudFormation template"; empty if Read does not know it.
func Kind(file string, src []byte) string {
	r := &reader{files: map[*doctree.Node]string{}}
	if isEcspresso(src) {
		return "a configuration of ecspresso"
	}
	docs, ok := r.parse(file, src)
	if !ok {
		return ""
	}
	kind, _ := detect(file, docs)
	return kind
}

func first(docs []*doctree.Node) *doctree.Node {
	if len(docs) > 0 {
		return docs[0]
	}
	return &doctree.Node{Line: 1, Col: 1}
}

func byPlace(a, b taskdef.Problem) int {
	return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line, a.Column-b.Column, strings.Compare(a.Message, b.Message))
}

// inOrder returns problems in the order of their places, each once.
func inOrder(all []taskdef.Problem) []taskdef.Problem {
	slices.SortStableFunc(all, byPlace)
	return slices.Compact(all)
}

// err returns an *Error with all problems and needs, or nil.
func (r *reader) err() error {
	all := slices.Clone(r.problems)
	for _, n := range r.needs {
		what := n.what
		if len(n.lines) > 0 {
			more := slices.Compact(n.lines)
			if len(more) > 5 {
				more = append(more[:5:5], "...")
			}
			what += " (also line " + strings.Join(more, ", ") + ")"
		}
		all = append(all, r.problem(n.at, what, n.fix))
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, byPlace)
	const most = 100
	if all = slices.Compact(all); len(all) > most {
		all = append(all[:most:most], taskdef.Problem{File: r.File, Message: fmt.Sprintf("and %d more problems", len(all)-most)})
	}
	return &Error{Kind: r.kind, File: r.File, Problems: all}
}

func (r *reader) problem(at *doctree.Node, message, fix string) taskdef.Problem {
	p := taskdef.Problem{File: cmp.Or(r.files[at], r.File), Message: message, Fix: fix}
	if at != nil {
		p.Line, p.Column = at.Line, at.Col
	}
	return p
}

// wrong notes what makes an import impossible.
func (r *reader) wrong(at *doctree.Node, message, fix string) {
	if len(r.problems) < 1000 {
		r.problems = append(r.problems, r.problem(at, message, fix))
	}
}

// lose notes what the result does not say.
func (r *reader) lose(at *doctree.Node, message, fix string) {
	if len(r.lost) < 1000 {
		r.lost = append(r.lost, r.problem(at, message, fix))
	}
}

// ask notes that a value is needed, which --param key=VALUE gives.
func (r *reader) ask(at *doctree.Node, key, what string) {
	r.askFor(at, key, what, "give --param "+shellWord(key+"=")+"VALUE")
}

func (r *reader) askFor(at *doctree.Node, key, what, fix string) {
	n := r.needs[key]
	if n == nil {
		r.needs[key] = &need{at: at, what: what, fix: fix}
		return
	}
	if line := fmt.Sprint(at.Line); at.Line != n.at.Line && len(n.lines) < 100 {
		n.lines = append(n.lines, line)
	}
}

// param returns a value that the user has given.
func (r *reader) param(keys ...string) (string, bool) {
	for _, key := range keys {
		r.known = append(r.known, key)
		if v, ok := r.Params[key]; ok {
			r.used[key] = true
			return v, true
		}
	}
	return "", false
}

// unusedParams reports parameters that nothing asks for.
func (r *reader) unusedParams() {
	if len(r.problems) > 0 || r.whole {
		return // not everything was read
	}
	for _, name := range slices.Sorted(maps.Keys(r.Params)) {
		if r.used[name] || slices.Contains(r.known, name) {
			continue
		}
		fix := suggest.Question(name, r.known)
		r.problems = append(r.problems, taskdef.Problem{File: r.File, Message: "--param " + name + ": nothing that is imported asks for it", Fix: fix})
	}
}

// choose returns the workload that the user wants; nil after a problem.
func (r *reader) choose(all []*workload) *workload {
	if len(r.problems) > 0 {
		return nil
	}
	everything := all
	all = slices.DeleteFunc(slices.Clone(all), func(w *workload) bool { return w.used })
	if present := slices.DeleteFunc(slices.Clone(all), func(w *workload) bool { return w.absent }); r.Service == "" && len(present) > 0 {
		all = present
	}
	var names []string
	for _, w := range all {
		names = append(names, w.names[0])
	}
	list := strings.Join(names[:min(len(names), 40)], ", ")
	switch {
	case len(all) == 0:
		r.problems = append(r.problems, taskdef.Problem{File: r.File, Message: "there is no task definition, service or Pod in it"})
		r.problems = append(r.problems, r.lost...) // such as templates that could not be read
		return nil
	case r.Service == "" && len(all) > 1:
		r.problems = append(r.problems, taskdef.Problem{File: r.File, Message: fmt.Sprintf("it has %d services, schedules and task definitions that could be meant: %s", len(all), list), Fix: "choose one with --service NAME"})
		return nil
	case r.Service == "":
		return all[0]
	}
	var found []*workload
	for _, w := range everything {
		if slices.Contains(w.names, r.Service) {
			found = append(found, w)
		}
	}
	for _, prefer := range []func(*workload) bool{
		func(w *workload) bool { return w.names[0] == r.Service },
		func(w *workload) bool { return !w.bare },
	} {
		if best := slices.DeleteFunc(slices.Clone(found), func(w *workload) bool { return !prefer(w) }); len(best) == 1 {
			return best[0]
		}
	}
	if len(found) == 1 {
		return found[0]
	}
	message, fix := "there is no service "+doctree.Quote(r.Service)+" in it", "choose one of "+list
	if len(found) > 1 {
		message = fmt.Sprintf("%d of its workloads are called %s", len(found), doctree.Quote(r.Service))
	}
	r.problems = append(r.problems, taskdef.Problem{File: r.File, Message: message, Fix: fix})
	return nil
}

// parse reads the documents of a file.
func (r *reader) parse(file string, src []byte) ([]*doctree.Node, bool) {
	docs, err := doctree.Tagged(src, limits(src), functionTags())
	var syntax *doctree.SyntaxError
	switch {
	case errors.As(err, &syntax):
		r.problems = append(r.problems, taskdef.Problem{File: file, Line: syntax.Line, Column: syntax.Col, Message: syntax.Message, Fix: syntax.Fix})
		return nil, false
	case err != nil:
		r.problems = append(r.problems, taskdef.Problem{File: file, Message: err.Error()})
		return nil, false
	case len(docs) == 0:
		r.problems = append(r.problems, taskdef.Problem{File: file, Line: 1, Column: 1, Message: "the file is empty"})
		return nil, false
	}
	for _, d := range docs {
		if file != r.File {
			r.register(d, file)
		}
	}
	return docs, true
}

// shown returns a path below the root as messages name it.
func (r *reader) shown(p string) string { return path.Join(path.Dir(r.File), p) }

// register notes of which file all values of a tree are.
func (r *reader) register(n *doctree.Node, file string) {
	r.files[n] = file
	for _, item := range n.Items {
		r.register(item, file)
	}
	for _, f := range n.Fields {
		r.register(f.Value, file)
	}
}

// open reads a file that a value names. From is the path of the file with the value.
func (r *reader) open(at *doctree.Node, from, name string) (file string, src []byte, ok bool) {
	file, err := below(from, name)
	switch {
	case err != nil:
		r.wrong(at, err.Error(), "")
		return "", nil, false
	case r.Open == nil:
		r.wrong(at, "the file "+doctree.Quote(name)+" cannot be read, because its directory is not known", "give the file by its name, and not on standard input")
		return "", nil, false
	case r.opened >= maxFiles:
		if r.opened == maxFiles { // once
			r.wrong(at, fmt.Sprintf("more than %d files are named", maxFiles), "")
		}
		r.opened = maxFiles + 1
		return "", nil, false
	}
	r.opened++
	src, err = r.Open(file)
	if err != nil {
		r.wrong(at, "read "+doctree.Quote(name)+": "+err.Error(), "")
		return "", nil, false
	}
	return file, src, true
}
