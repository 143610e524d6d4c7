package foreign

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/define/foreign/kubernetes"
	"github.com/podtask/podtask/internal/define/foreign/toolfile"
	"github.com/podtask/podtask/internal/define/short"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
	"github.com/podtask/podtask/pkg/taskdef/suggest"
)

// maxWorkloads limits the workloads that are read of one source.
const maxWorkloads = 100

// ReadAll reads all services, schedules and task definitions of a file, and of the manifests beside it, for one stack. The family of each
// begins with its name, which is also the value of a tag of each definition. The error has all problems of all of them.
func ReadAll(req toolfile.Request, stack, tag string) (all []toolfile.Result, err error) {
	req.Whole = true
	r, res, docs := start(req)
	if r.Err() != nil {
		return nil, r.Err()
	}
	workloads := wanted(r, res.read(r, docs))
	if err := r.Err(); err != nil {
		return nil, err
	}
	problems := &toolfile.Error{Kind: r.Kind, File: req.File}
	known, used := map[string]bool{}, map[string]bool{}
	for _, w := range workloads {
		q := req
		q.Service, q.Name = w.Names[0], stack+"-"+memberName(w)
		one, reader, err := read(q)
		maps.Copy(used, reader.Used)
		for _, k := range reader.Known {
			known[k] = true
		}
		if bad, ok := errors.AsType[*toolfile.Error](err); ok {
			problems.Problems = append(problems.Problems, bad.Problems...)
			continue
		}
		one.Stack.Member = memberName(w)
		if one.Definition != nil {
			addTag(reader, one.Definition, tag, stack)
		}
		one.Stack.After = append(one.Stack.After, afterOf(w, workloads)...)
		all = append(all, one)
	}
	for _, name := range slices.Sorted(maps.Keys(req.Params)) {
		if !used[name] && !known[name] && len(problems.Problems) == 0 {
			problems.Problems = append(problems.Problems, taskdef.Problem{File: req.File, Message: "--param " + name + ": nothing that is read asks for it", Fix: suggest.Question(name, slices.Sorted(maps.Keys(known)))})
		}
	}
	if len(problems.Problems) > 0 {
		problems.Problems = toolfile.InOrder(problems.Problems)
		return nil, problems
	}
	kubernetes.HooksAfter(all)
	kubernetes.ServesNobody(all)
	return all, nil
}

// addTag gives a definition a tag.
func addTag(r *toolfile.Reader, def *doctree.Node, name, value string) {
	tags := append(slices.Clone(toolfile.Items(def.Member("tags"))), r.Object(def, "key", r.TextAt(def, name), "value", r.TextAt(def, value)))
	toolfile.Set(def, "tags", r.List(def, tags...))
}

// Inline makes a member of a stack of a container that its file has in the short form. The volumes belong to the stack.
func Inline(req toolfile.Request, container *doctree.Node, stack, member, tag string) (toolfile.Result, error) {
	r := toolfile.NewReader(req)
	r.Kind = "a stack file"
	container.Fields = append(container.Fields, doctree.Field{Key: "name", Line: container.Line, Col: container.Col, Value: r.TextAt(container, stack)})
	def, problems := short.Expand(req.File, req.Dir, container)
	r.Problems = problems
	if err := r.Err(); err != nil {
		return toolfile.Result{}, err
	}
	r.Name = stack + "-" + member
	res := toolfile.Result{Kind: r.Kind, Name: r.Name, Definition: def, File: req.File, Files: r.Files, Stack: toolfile.Stack{File: req.File, Line: container.Line, Member: member}}
	finish(r, &res)
	addTag(r, def, tag, stack)
	res.Lost = toolfile.InOrder(r.Losses)
	return res, r.Err()
}

// memberName is the name of a workload in a stack.
func memberName(w *toolfile.Workload) string {
	return strings.ToLower(cmp.Or(toolfile.Plain(w.Name), toolfile.Plain(w.Names[0])))
}

// wanted leaves out the workloads that are of no use to a stack.
func wanted(r *toolfile.Reader, all []*toolfile.Workload) (kept []*toolfile.Workload) {
	services := slices.ContainsFunc(all, func(w *toolfile.Workload) bool { return !w.Bare && !w.Absent })
	for _, w := range all {
		if !w.Used && !w.Absent && (!w.Bare || !services) {
			kept = append(kept, w)
		}
	}
	switch {
	case len(r.Problems) > 0:
	case len(kept) == 0:
		r.Problems = append(r.Problems, taskdef.Problem{File: r.File, Message: "there is no task definition, service or Pod in it"})
	case len(kept) > maxWorkloads:
		r.Problems = append(r.Problems, taskdef.Problem{File: r.File, Message: fmt.Sprintf("it has %d services, schedules and task definitions: a stack has at most %d", len(kept), maxWorkloads)})
	}
	return kept
}

// afterOf are the members that a workload waits for by what the file says of its resources: DependsOn of CloudFormation waits until a
// service is steady.
func afterOf(w *toolfile.Workload, all []*toolfile.Workload) (after []string) {
	for _, other := range all {
		if other != w && slices.ContainsFunc(other.Names, func(n string) bool { return slices.Contains(w.After, n) }) {
			after = append(after, memberName(other)+"=healthy")
		}
	}
	return after
}
