package foreign

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/define/pod"
	"github.com/podtask/podtask/internal/define/short"
	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
	"github.com/podtask/podtask/pkg/taskdef/suggest"
)

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

	hook string // of Helm
}

// maxWorkloads limits the workloads that are read of one source.
const maxWorkloads = 100

// ReadAll reads all services, schedules and task definitions of a file, and of the manifests beside it, for one stack. The family of each
// begins with its name, which is also the value of a tag of each definition. The error has all problems of all of them.
func ReadAll(req Request, stack, tag string) (all []Result, err error) {
	req.whole = true
	r, res, docs := newReader(req)
	if r.err() != nil {
		return nil, r.err()
	}
	workloads := r.wanted(res.read(r, docs))
	if err := r.err(); err != nil {
		return nil, err
	}
	problems := &Error{Kind: r.kind, File: req.File}
	known, used := map[string]bool{}, map[string]bool{}
	for _, w := range workloads {
		q := req
		q.Service, q.Name = w.names[0], stack+"-"+memberName(w)
		one, reader, err := read(q)
		maps.Copy(used, reader.used)
		for _, k := range reader.known {
			known[k] = true
		}
		var bad *Error
		if errors.As(err, &bad) {
			problems.Problems = append(problems.Problems, bad.Problems...)
			continue
		}
		one.Stack.Member = memberName(w)
		if one.Definition != nil {
			reader.tag(one.Definition, tag, stack)
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
		problems.Problems = inOrder(problems.Problems)
		return nil, problems
	}
	hooksAfter(all)
	servesNobody(all)
	return all, nil
}

// tag gives a definition a tag.
func (r *reader) tag(def *doctree.Node, name, value string) {
	tags := append(slices.Clone(items(def.Member("tags"))), r.object(def, "key", r.textAt(def, name), "value", r.textAt(def, value)))
	set(def, "tags", r.list(def, tags...))
}

// Inline makes a member of a stack of a container that its file has in the short form. The volumes belong to the stack.
func Inline(req Request, container *doctree.Node, stack, member, tag string) (Result, error) {
	r := &reader{Request: req, kind: "a stack file", files: map[*doctree.Node]string{}}
	container.Fields = append(container.Fields, doctree.Field{Key: "name", Line: container.Line, Col: container.Col, Value: r.textAt(container, stack)})
	def, problems := short.Expand(req.File, req.Dir, container)
	r.problems = problems
	if err := r.err(); err != nil {
		return Result{}, err
	}
	r.Name = stack + "-" + member
	res := Result{Kind: r.kind, Name: r.Name, Definition: def, file: req.File, files: r.files, Stack: Stack{File: req.File, Line: container.Line, Member: member}}
	r.finish(&res)
	r.tag(def, tag, stack)
	res.Lost = inOrder(r.lost)
	return res, r.err()
}

// leadsNowhere ends the loss of an Ingress that leads to none of the workloads.
const leadsNowhere = ": no path of it leads to a Pod by a Service of the files"

// servesNobody takes out the losses of Ingresses that lead to another workload.
func servesNobody(all []Result) {
	count := map[string]int{}
	for _, r := range all {
		for _, l := range r.Lost {
			count[l.Message]++
		}
	}
	for i := range all {
		all[i].Lost = slices.DeleteFunc(all[i].Lost, func(l taskdef.Problem) bool {
			return strings.HasSuffix(l.Message, leadsNowhere) && count[l.Message] < len(all)
		})
	}
}

// memberName is the name of a workload in a stack.
func memberName(w *workload) string {
	return strings.ToLower(cmp.Or(plain(w.name), plain(w.names[0])))
}

// wanted leaves out the workloads that are of no use to a stack.
func (r *reader) wanted(all []*workload) (kept []*workload) {
	services := slices.ContainsFunc(all, func(w *workload) bool { return !w.bare && !w.absent })
	for _, w := range all {
		if !w.used && !w.absent && (!w.bare || !services) {
			kept = append(kept, w)
		}
	}
	switch {
	case len(r.problems) > 0:
	case len(kept) == 0:
		r.problems = append(r.problems, taskdef.Problem{File: r.File, Message: "there is no task definition, service or Pod in it"})
	case len(kept) > maxWorkloads:
		r.problems = append(r.problems, taskdef.Problem{File: r.File, Message: fmt.Sprintf("it has %d services, schedules and task definitions: a stack has at most %d", len(kept), maxWorkloads)})
	}
	return kept
}

// afterOf are the members that a workload waits for by what the file says of its resources: DependsOn of CloudFormation waits until a
// service is steady.
func afterOf(w *workload, all []*workload) (after []string) {
	for _, other := range all {
		if other != w && slices.ContainsFunc(other.names, func(n string) bool { return slices.Contains(w.after, n) }) {
			after = append(after, memberName(other)+"=healthy")
		}
	}
	return after
}

// dependsOn reads DependsOn of a resource.
func dependsOn(n *doctree.Node) (names []string) {
	if text := textOf(n); text != "" {
		return []string{text}
	}
	for _, item := range items(n) {
		names = append(names, textOf(item))
	}
	return names
}

// annotationAfter lists the members of a stack that a workload waits for.
const annotationAfter = "podtask/after"

// member notes what a manifest is in a stack: its names and addresses by the Services that select it, its volumes, and its order.
func (r *reader) member(res *Result, docs []*doctree.Node, d *doctree.Node) {
	kind := textOf(d.Member("kind"))
	template := podOf(d)
	spec := template.Member("spec")
	restart := textOf(spec.Member("restartPolicy"))
	res.Stack.Job = kind == "Job" || kind == "Pod" && (restart == "Never" || restart == "OnFailure")
	res.Stack.hook = pod.Hook(d)
	words := textOf(d.Member("metadata").Member("annotations").Member(annotationAfter))
	res.Stack.After = append(res.Stack.After, strings.FieldsFunc(words, func(c rune) bool { return c == ',' || c == ' ' })...)
	for _, v := range items(spec.Member("volumes")) {
		if claim := textOf(v.Member("persistentVolumeClaim").Member("claimName")); claim != "" {
			res.Stack.Claims = append(res.Stack.Claims, claim)
		}
	}
	for _, v := range items(d.Member("spec").Member("volumeClaimTemplates")) {
		if claim := textOf(v.Member("metadata").Member("name")); claim != "" {
			res.Stack.Claims = append(append(res.Stack.Claims, claim), copiesOf(claim, d)...)
		}
	}
	if res.Stack.Job || kind == "CronJob" {
		return
	}
	res.answered = append(res.answered, "/spec/type")
	if res.Service == nil {
		res.Service = &Service{Flags: []string{"--count", "1"}}
	}
	for _, s := range docs {
		if textOf(s.Member("kind")) == "Service" && selects(s, d, template) {
			r.reach(res, s, spec)
		}
	}
}

// copiesOf names the storage of the Pods of a StatefulSet behind the first one, whose storage has the name of the claim.
func copiesOf(claim string, d *doctree.Node) (names []string) {
	spec := d.Member("spec")
	start, _ := intOf(spec.Member("ordinals").Member("start"))
	copies, _ := intOf(spec.Member("replicas"))
	for i := 1; i < min(copies, service.MaxNumbered); i++ {
		names = append(names, fmt.Sprintf("%s-%s-%d", claim, documentName(d), start+i))
	}
	return names
}

// podOf returns the Pod, or the template of one, of a workload.
func podOf(d *doctree.Node) *doctree.Node {
	spec := d.Member("spec")
	if job := spec.Member("jobTemplate"); job != nil {
		spec = job.Member("spec")
	}
	if t := spec.Member("template"); t != nil {
		return t
	}
	return d
}

// selects reports whether a Service leads to the Pods of a workload.
func selects(svc, workload, template *doctree.Node) bool {
	selector := fields(svc.Member("spec").Member("selector"))
	labels := template.Member("metadata").Member("labels")
	space := func(n *doctree.Node) string { return textOf(n.Member("metadata").Member("namespace")) }
	return len(selector) > 0 && space(svc) == space(workload) && !slices.ContainsFunc(selector, func(f doctree.Field) bool {
		have := labels.Member(f.Key)
		return have == nil || textOf(have) != textOf(f.Value)
	})
}

// reach gives a service the names and addresses of a Service. All containers of a Pod share a network, so the first one publishes.
func (r *reader) reach(res *Result, svc, spec *doctree.Node) {
	name := textOf(svc.Member("metadata").Member("name"))
	containers := items(spec.Member("containers"))
	if len(containers) == 0 {
		return
	}
	flag := func(words ...string) { res.Service.Flags = append(res.Service.Flags, words...) }
	for _, p := range items(svc.Member("spec").Member("ports")) {
		port, ok := intOf(p.Member("port"))
		protocol := textOf(p.Member("protocol"))
		to := portOf(p.Member("targetPort"), containers)
		if p.Member("targetPort") == nil {
			to = port
		}
		switch {
		case !ok || to == 0:
			r.lose(p, fmt.Sprintf("port %s of Service %s: no container has its targetPort %s", textOf(p.Member("port")), doctree.Quote(name), textOf(p.Member("targetPort"))), "write the number of a port")
			continue
		case protocol != "" && protocol != "TCP":
			r.lose(p, fmt.Sprintf("port %d/%s of Service %s: names and addresses are those of TCP ports", port, protocol, doctree.Quote(name)), "publish it with hostPort")
			continue
		}
		owner, host := textOf(containers[0].Member("name")), false
		for _, c := range containers {
			for _, has := range items(c.Member("ports")) {
				if n, _ := intOf(has.Member("containerPort")); n == to && has.Member("hostPort") != nil {
					owner, host = textOf(c.Member("name")), true
				}
			}
		}
		if word := fmt.Sprintf("127.0.0.1::%d", to); !host && !slices.Contains(res.Service.Flags, word) {
			flag("--publish", word)
		}
		flag("--name-as", fmt.Sprintf("%s:%d=%s:%d", name, port, owner, to))
		at := port
		if node, ok := intOf(p.Member("nodePort")); ok && textOf(svc.Member("spec").Member("type")) == "NodePort" {
			at = node
		} else if textOf(svc.Member("spec").Member("type")) != "LoadBalancer" {
			continue
		}
		if at < 1024 { // which users may not open
			at += 8000
		}
		flag("--listen", fmt.Sprintf("%d=%s:%d", at, owner, to))
	}
}

// portOf is the number of a port of containers that a Service names; 0 for none.
func portOf(n *doctree.Node, containers []*doctree.Node) int {
	if number, ok := intOf(n); ok {
		return number
	}
	for _, c := range containers {
		for _, p := range items(c.Member("ports")) {
			if number, ok := intOf(p.Member("containerPort")); ok && textOf(p.Member("name")) == textOf(n) {
				return number
			}
		}
	}
	return 0
}

// hooksAfter puts the hooks of Helm in their order: all members wait for the jobs before an installation or upgrade, and those after it
// wait for all members.
func hooksAfter(all []Result) {
	before, rest := map[string]bool{}, map[string]string{}
	for _, r := range all {
		switch {
		case strings.Contains(r.Stack.hook, "pre-"):
			before[r.Stack.Member] = true
		case r.Stack.hook == "" && r.Schedules == nil:
			rest[r.Stack.Member] = "healthy"
			if r.Stack.Job {
				rest[r.Stack.Member] = "completed"
			}
		}
	}
	for i := range all {
		s := &all[i].Stack
		switch {
		case s.hook == "":
			for _, name := range slices.Sorted(maps.Keys(before)) {
				s.After = append(s.After, name+"=completed")
			}
		case !before[s.Member]:
			for _, name := range slices.Sorted(maps.Keys(rest)) {
				s.After = append(s.After, name+"="+rest[name])
			}
		}
	}
}
