package kubernetes

import (
	"slices"
	"strconv"
	"strings"

	"github.com/podtask/podtask/internal/define/foreign/toolfile"
	"github.com/podtask/podtask/internal/define/pod"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// OnePod reports whether a file is a Kubernetes manifest with one Pod and no controller, which podtask runs as it is. A Pod
// to which an Ingress leads becomes a service.
func OnePod(file string, src []byte) bool {
	r := toolfile.NewReader(toolfile.Request{File: file})
	docs, ok := r.Parse(file, src)
	if !ok || docs[0].Member("apiVersion") == nil || docs[0].Member("kind") == nil {
		return false
	}
	n := 0
	docs, _ = splitHooks(flatten(docs))
	for _, d := range docs {
		if kind := toolfile.TextOf(d.Member("kind")); pod.IsWorkload(kind) {
			n++
			if kind != "Pod" || n == 1 && len(pod.Leading(d, docs)) > 0 {
				return false
			}
		}
	}
	return n < 2
}

// flatten returns documents with the items of Lists in place of the Lists.
func flatten(docs []*doctree.Node) (all []*doctree.Node) {
	for _, d := range docs {
		if items, ok := pod.Items(d); ok {
			all = append(all, items...)
		} else {
			all = append(all, d)
		}
	}
	return all
}

// splitHooks takes the workloads that are hooks of Helm out of documents, unless there are no others.
func splitHooks(docs []*doctree.Node) (rest, hooks []*doctree.Node) {
	others := false
	for _, d := range docs {
		switch {
		case !pod.IsWorkload(toolfile.TextOf(d.Member("kind"))):
			rest = append(rest, d)
		case pod.Hook(d) != "":
			hooks = append(hooks, d)
		default:
			rest, others = append(rest, d), true
		}
	}
	if !others {
		return docs, nil
	}
	return rest, hooks
}

// documentName is the name of a document, or what a cluster would begin it with.
func documentName(d *doctree.Node) string {
	meta := d.Member("metadata")
	if name := toolfile.TextOf(meta.Member("name")); name != "" {
		return name
	}
	return strings.TrimRight(toolfile.TextOf(meta.Member("generateName")), "-.")
}

// Workloads finds the workloads of manifests, as helm template and kustomize build print them.
func Workloads(r *toolfile.Reader, docs []*doctree.Node) []*toolfile.Workload {
	docs = flatten(docs)
	var hooks []*doctree.Node
	if !r.Whole {
		docs, hooks = splitHooks(docs)
	}
	var all []*toolfile.Workload
	for _, d := range docs {
		kind, name := toolfile.TextOf(d.Member("kind")), documentName(d)
		if !pod.IsWorkload(kind) {
			continue
		}
		if hook := pod.Hook(d); r.Whole && hook != "" && !runsAt(hook, "pre-install", "pre-upgrade", "post-install", "post-upgrade") {
			continue
		}
		w := &toolfile.Workload{Names: []string{strings.ToLower(kind) + "/" + name, name}, Name: name, Build: func(res *toolfile.Result) *doctree.Node {
			manifests(r, res, docs, d)
			for _, h := range hooks {
				r.Lose(h, toolfile.TextOf(h.Member("kind"))+" "+doctree.Quote(documentName(h))+" is a hook of Helm ("+pod.Hook(h)+"), which runs beside the release", "import it as a file of its own; helm template --no-hooks leaves hooks out")
			}
			return nil
		}}
		if name == "" {
			r.Wrong(d, "the "+kind+" has no metadata.name", "")
		}
		all = append(all, w)
	}
	for _, w := range all { // names alone, where they tell
		alone := !slices.ContainsFunc(all, func(o *toolfile.Workload) bool { return o != w && o.Name == w.Name })
		if alone {
			w.Names = []string{w.Names[1], w.Names[0]}
		} else {
			w.Names = w.Names[:1]
		}
	}
	return all
}

// manifests chooses the documents of a workload, and says what becomes of the others.
func manifests(r *toolfile.Reader, res *toolfile.Result, docs []*doctree.Node, chosen *doctree.Node) {
	wanted := map[string]bool{}
	uses(chosen, "", wanted)
	res.Documents = []*doctree.Node{chosen}
	leading := pod.Leading(chosen, docs)
	for _, d := range docs {
		kind, name := toolfile.TextOf(d.Member("kind")), documentName(d)
		title := kind + " " + doctree.Quote(name)
		switch {
		case d == chosen:
		case leading[d]:
			res.Documents = append(res.Documents, d)
		case kind == "ConfigMap" || kind == "Secret":
			if wanted[kind+"/"+name] {
				res.Documents = append(res.Documents, d)
			}
		case r.Whole && kind == "Service":
			if isJob(chosen) || !selects(d, chosen, podOf(chosen)) {
				r.Lose(d, title+selectsNobody, "")
			}
		case r.Whole && (kind == "PersistentVolumeClaim" || pod.IsWorkload(kind)):
		case pod.IsWorkload(kind):
			r.Lose(d, title+" is another workload", "import it with --service "+toolfile.ShellWord(name))
		case kind == "Service":
			r.Lose(d, title+": there is no cluster network", "publish ports of the Pod with hostPort")
		case kind == "Ingress" && r.Whole:
			r.Lose(d, title+leadsNowhere, "give an address with `ingress` of the stack file")
		case kind == "Ingress":
			r.Lose(d, title+": no path of it leads to "+toolfile.TextOf(chosen.Member("kind"))+" "+doctree.Quote(documentName(chosen))+" by a Service of the file", "give an address with --ingress of podtask service create")
		case kind == "HorizontalPodAutoscaler" && !r.Whole && scales(d, chosen):
		case kind == "HorizontalPodAutoscaler":
			r.Lose(d, title+": "+toolfile.FixedCopies, toolfile.FollowLoad)
		case kind == "PersistentVolumeClaim":
			r.Lose(d, title+": its storage is given on the command line", "give --map-volume NAME=PATH")
		case kind == "":
			r.Wrong(d, "a document has no kind", "")
		default:
			r.Lose(d, "the "+kind+" has no effect here", "")
		}
	}
	controller(r, res, chosen)
	if toolfile.TextOf(chosen.Member("kind")) == "Pod" && len(leading) > 0 {
		res.Service = &toolfile.Service{Flags: []string{"--count", "1"}}
	}
	if r.Whole {
		member(r, res, docs, chosen)
	} else if res.Service != nil {
		autoscaler(r, res, docs, chosen)
	}
}

// scales reports whether a HorizontalPodAutoscaler is about a workload.
func scales(d, workload *doctree.Node) bool {
	of := d.Member("spec").Member("scaleTargetRef")
	return toolfile.TextOf(of.Member("kind")) == toolfile.TextOf(workload.Member("kind")) && toolfile.TextOf(of.Member("name")) == documentName(workload)
}

// autoscaler takes over the HorizontalPodAutoscaler of a workload that becomes a service.
func autoscaler(r *toolfile.Reader, res *toolfile.Result, docs []*doctree.Node, chosen *doctree.Node) {
	for _, d := range docs {
		if toolfile.TextOf(d.Member("kind")) == "HorizontalPodAutoscaler" && scales(d, chosen) {
			s := toolfile.Scaler{Reader: r}
			s.Horizontal("HorizontalPodAutoscaler "+doctree.Quote(documentName(d)), d.Member("spec"))
			s.AddTo(res.Service)
			return
		}
	}
}

// uses collects the ConfigMaps and Secrets that a Pod template names.
func uses(n *doctree.Node, in string, wanted map[string]bool) {
	for _, f := range n.Fields {
		name := toolfile.TextOf(f.Value.Member("name"))
		switch f.Key {
		case "configMapRef", "configMapKeyRef", "configMap":
			wanted["ConfigMap/"+name] = true
		case "secretRef", "secretKeyRef":
			wanted["Secret/"+name] = true
		case "secret":
			wanted["Secret/"+name], wanted["Secret/"+toolfile.TextOf(f.Value.Member("secretName"))] = true, true
		case "imagePullSecrets":
			for _, item := range toolfile.Items(f.Value) {
				wanted["Secret/"+toolfile.TextOf(item.Member("name"))] = true
			}
		}
		uses(f.Value, f.Key, wanted)
	}
	for _, item := range n.Items {
		uses(item, in, wanted)
	}
}

// controller makes the command of a service or a schedule of what a controller asks for.
func controller(r *toolfile.Reader, res *toolfile.Result, d *doctree.Node) {
	spec := d.Member("spec")
	switch kind := toolfile.TextOf(d.Member("kind")); kind {
	case "Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet":
		count := 1
		if n := spec.Member("replicas"); n != nil && kind != "DaemonSet" {
			v, ok := toolfile.IntOf(n)
			if !ok || v < 0 {
				r.Wrong(n, "replicas is a whole number", "")
			}
			count = v
		}
		if kind == "DaemonSet" {
			r.Lose(d.Member("kind"), "DaemonSet: one copy runs on this host, and on no other", "")
		}
		res.Answered = append(res.Answered, "/spec/replicas")
		res.Service = &toolfile.Service{Flags: []string{"--count", strconv.Itoa(count)}}
		rollout(r, res, spec.Member("strategy"), count)
	case "CronJob":
		res.Schedules = []toolfile.Schedule{{Name: res.Name}}
	}
}

// rollout makes flags of how a Deployment replaces its Pods, which is in Pods or in percents of them; a service rounds the percents of
// the flags back to these Pods.
func rollout(r *toolfile.Reader, res *toolfile.Result, strategy *doctree.Node, copies int) {
	flag := func(name string, percent int, member string) {
		res.Service.Flags = append(res.Service.Flags, name, strconv.Itoa(percent))
		res.Answered = append(res.Answered, "/spec/strategy/"+member)
	}
	if toolfile.TextOf(strategy.Member("type")) == "Recreate" {
		flag("--min-healthy", 0, "type")
		res.Service.Flags = append(res.Service.Flags, "--max", "100")
		return
	}
	if copies == 0 {
		return
	}
	away, less := podsOf(strategy, "maxUnavailable", copies, 0)
	surge, more := podsOf(strategy, "maxSurge", copies, 99)
	if surge == 0 && away < 1 { // a cluster could replace none otherwise
		away, less = 1, true
	}
	if less {
		flag("--min-healthy", max(copies-away, 0)*100/copies, "rollingUpdate/maxUnavailable")
	}
	if more {
		flag("--max", 100+(surge*100+copies-1)/copies, "rollingUpdate/maxSurge")
	}
}

// podsOf is a number of Pods, or the percentage of copies that it is, rounded after round hundredths are added; ok is false if it is
// not given.
func podsOf(strategy *doctree.Node, member string, copies, round int) (n int, ok bool) {
	text, percent := strings.CutSuffix(toolfile.TextOf(strategy.Member("rollingUpdate").Member(member)), "%")
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 100_000 {
		return -1, false
	}
	if percent {
		n = (n*copies + round) / 100
	}
	return n, true
}

// leadsNowhere and selectsNobody end the losses of an Ingress and of a Service that lead to none of the workloads.
const (
	leadsNowhere  = ": no path of it leads to a Pod by a Service of the files"
	selectsNobody = ": it selects no Pod of the files that runs for long, so its name leads nowhere"
)

// annotationAfter lists the members of a stack that a workload waits for.
const annotationAfter = "podtask/after"
