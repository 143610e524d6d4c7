package foreign

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/define/foreign/cloudformation"
	"github.com/podtask/podtask/internal/define/foreign/copilot"
	"github.com/podtask/podtask/internal/define/foreign/ecspresso"
	"github.com/podtask/podtask/internal/define/foreign/kubernetes"
	"github.com/podtask/podtask/internal/define/foreign/terraform"
	"github.com/podtask/podtask/internal/define/foreign/toolfile"
	"github.com/podtask/podtask/internal/define/short"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
	"github.com/podtask/podtask/pkg/taskdef/suggest"
)

// detect returns what documents are, and the function that finds their workloads.
func detect(file string, docs []*doctree.Node) (string, func(*toolfile.Reader, []*doctree.Node) []*toolfile.Workload) {
	root := first(docs)
	has := func(members ...string) bool {
		for _, m := range members {
			if root.Member(m) == nil {
				return false
			}
		}
		return true
	}
	switch {
	case has("apiVersion", "kind"):
		return "Kubernetes manifests", kubernetes.Workloads
	case len(docs) > 1:
		return "", nil
	case root.Kind == doctree.List && len(root.Items) > 0 && root.Items[0].Member("image") != nil:
		return "a list of container definitions", containerList
	case has("format_version") && (has("planned_values") || has("values")):
		return "a plan or state of Terraform", terraform.Workloads
	case has("terraform_version", "resources", "lineage"):
		return "a state of Terraform", terraform.Workloads
	case has("artifacts", "version"):
		return "a cloud assembly of CDK", cloudformation.AssemblyWorkloads
	case has("Resources"):
		return "a CloudFormation template", cloudformation.Workloads
	case has("containerDefinitions") || root.Member("taskDefinition").Member("containerDefinitions") != nil:
		return "an ECS task definition", taskDefinition
	case has("task_definition") && (has("service") || has("cluster") || has("region")):
		return "a configuration of ecspresso", ecspresso.Workloads
	case has("name", "type") && copilot.IsType(root.Member("type").Text):
		return "a manifest of Copilot", copilot.Workloads
	case short.Is(root):
		return "a short task definition", shortDefinition
	}
	return "", nil
}

// opened is a file whose workloads are not read yet.
type opened struct {
	toolfile.Result
	read func(*toolfile.Reader, []*doctree.Node) []*toolfile.Workload
}

// start parses a file, and those beside it. What is wrong is in the reader.
func start(req toolfile.Request) (*toolfile.Reader, opened, []*doctree.Node) {
	r := toolfile.NewReader(req)
	res := opened{Result: toolfile.Result{File: req.File, Files: r.Files}}
	src := req.Source
	if ecspresso.Is(src) {
		r.Kind = "a configuration of ecspresso"
		if src = ecspresso.Render(r, req.File, src, false); r.Err() != nil {
			return r, res, nil
		}
	}
	docs, ok := r.Parse(req.File, src)
	if !ok {
		return r, res, nil
	}
	kind, read := detect(req.File, docs)
	if read == nil {
		r.Wrong(first(docs), "import does not know what this file is", "it reads what docs/importing.md lists")
		return r, res, nil
	}
	for _, f := range req.Beside {
		if more, ok := r.Parse(f.Name, f.Source); ok {
			docs = append(docs, more...)
		}
	}
	r.Kind, res.Kind, res.read = kind, kind, read
	return r, res, docs
}

// Read reads a file. The error is an *Error.
func Read(req toolfile.Request) (toolfile.Result, error) {
	res, _, err := read(req)
	return res, err
}

func read(req toolfile.Request) (toolfile.Result, *toolfile.Reader, error) {
	r, file, docs := start(req)
	res := file.Result
	if r.Err() != nil {
		return res, r, r.Err()
	}
	w := choose(r, file.read(r, docs))
	if w == nil {
		return res, r, r.Err()
	}
	res.Name = cmp.Or(req.Name, toolfile.Plain(w.Name), toolfile.Plain(w.Names[0]))
	res.Definition = w.Build(&res)
	unusedParams(r)
	if err := r.Err(); err != nil {
		return res, r, err
	}
	if res.Definition != nil {
		finish(r, &res)
	}
	at := res.Definition
	if len(res.Documents) > 0 {
		at = res.Documents[0]
	}
	res.Stack.File, res.Stack.Line = r.Problem(at, "", "").File, at.Line
	res.Lost = toolfile.InOrder(r.Losses)
	return res, r, r.Err()
}

// Kind returns what a file is, as in "a CloudFormation template"; empty if Read does not know it.
func Kind(file string, src []byte) string {
	r := toolfile.NewReader(toolfile.Request{File: file})
	if ecspresso.Is(src) {
		return "a configuration of ecspresso"
	}
	docs, ok := r.Parse(file, src)
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

// unusedParams reports parameters that nothing asks for.
func unusedParams(r *toolfile.Reader) {
	if len(r.Problems) > 0 || r.Whole {
		return // not everything was read
	}
	for _, name := range slices.Sorted(maps.Keys(r.Params)) {
		if r.Used[name] || slices.Contains(r.Known, name) {
			continue
		}
		fix := suggest.Question(name, r.Known)
		r.Problems = append(r.Problems, taskdef.Problem{File: r.File, Message: "--param " + name + ": nothing that is imported asks for it", Fix: fix})
	}
}

// choose returns the workload that the user wants; nil after a problem.
func choose(r *toolfile.Reader, all []*toolfile.Workload) *toolfile.Workload {
	if len(r.Problems) > 0 {
		return nil
	}
	everything := all
	all = slices.DeleteFunc(slices.Clone(all), func(w *toolfile.Workload) bool { return w.Used })
	if present := slices.DeleteFunc(slices.Clone(all), func(w *toolfile.Workload) bool { return w.Absent }); r.Service == "" && len(present) > 0 {
		all = present
	}
	var names []string
	for _, w := range all {
		names = append(names, w.Names[0])
	}
	list := strings.Join(names[:min(len(names), 40)], ", ")
	switch {
	case len(all) == 0:
		r.Problems = append(r.Problems, taskdef.Problem{File: r.File, Message: "there is no task definition, service or Pod in it"})
		r.Problems = append(r.Problems, r.Losses...) // such as templates that could not be read
		return nil
	case r.Service == "" && len(all) > 1:
		r.Problems = append(r.Problems, taskdef.Problem{File: r.File, Message: fmt.Sprintf("it has %d services, schedules and task definitions that could be meant: %s", len(all), list), Fix: "choose one with --service NAME"})
		return nil
	case r.Service == "":
		return all[0]
	}
	var found []*toolfile.Workload
	for _, w := range everything {
		if slices.Contains(w.Names, r.Service) {
			found = append(found, w)
		}
	}
	for _, prefer := range []func(*toolfile.Workload) bool{
		func(w *toolfile.Workload) bool { return w.Names[0] == r.Service },
		func(w *toolfile.Workload) bool { return !w.Bare },
	} {
		if best := slices.DeleteFunc(slices.Clone(found), func(w *toolfile.Workload) bool { return !prefer(w) }); len(best) == 1 {
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
	r.Problems = append(r.Problems, taskdef.Problem{File: r.File, Message: message, Fix: fix})
	return nil
}
