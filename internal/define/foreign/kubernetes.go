package foreign

import (
	"slices"
	"strconv"
	"strings"

	"github.com/podtask/podtask/internal/define/pod"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// OnePod reports whether a file is a Kubernetes manifest with one Pod and no controller, which podtask runs as it is. A Pod
// to which an Ingress leads becomes a service.
func OnePod(file string, src []byte) bool {
	r := &reader{files: map[*doctree.Node]string{}}
	docs, ok := r.parse(file, src)
	if !ok || docs[0].Member("apiVersion") == nil || docs[0].Member("kind") == nil {
		return false
	}
	n := 0
	docs, _ = splitHooks(flatten(docs))
	for _, d := range docs {
		if kind := textOf(d.Member("kind")); pod.IsWorkload(kind) {
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
		case !pod.IsWorkload(textOf(d.Member("kind"))):
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
	if name := textOf(meta.Member("name")); name != "" {
		return name
	}
	return strings.TrimRight(textOf(meta.Member("generateName")), "-.")
}

// kubernetes finds the workloads of manifests, as helm template and kustomize build print them.
func (r *reader) kubernetes(docs []*doctree.Node) []*workload {
	docs = flatten(docs)
	var hooks []*doctree.Node
	if !r.whole {
		docs, hooks = splitHooks(docs)
	}
	var all []*workload
	for _, d := range docs {
		kind, name := textOf(d.Member("kind")), documentName(d)
		if !pod.IsWorkload(kind) {
			continue
		}
		if r.whole && strings.Contains(pod.Hook(d), "test") || r.whole && strings.Contains(pod.Hook(d), "delete") {
			continue
		}
		w := &workload{names: []string{strings.ToLower(kind) + "/" + name, name}, name: name, build: func(res *Result) *doctree.Node {
			r.manifests(res, docs, d)
			for _, h := range hooks {
				r.lose(h, textOf(h.Member("kind"))+" "+doctree.Quote(documentName(h))+" is a hook of Helm ("+pod.Hook(h)+"), which runs beside the release", "import it as a file of its own; helm template --no-hooks leaves hooks out")
			}
			return nil
		}}
		if name == "" {
			r.wrong(d, "the "+kind+" has no metadata.name", "")
		}
		all = append(all, w)
	}
	for _, w := range all { // names alone, where they tell
		alone := !slices.ContainsFunc(all, func(o *workload) bool { return o != w && o.name == w.name })
		if alone {
			w.names = []string{w.names[1], w.names[0]}
		} else {
			w.names = w.names[:1]
		}
	}
	return all
}

// manifests chooses the documents of a workload, and says what becomes of the others.
func (r *reader) manifests(res *Result, docs []*doctree.Node, chosen *doctree.Node) {
	wanted := map[string]bool{}
	uses(chosen, "", wanted)
	res.Documents = []*doctree.Node{chosen}
	leading := pod.Leading(chosen, docs)
	for _, d := range docs {
		kind, name := textOf(d.Member("kind")), documentName(d)
		title := kind + " " + doctree.Quote(name)
		switch {
		case d == chosen:
		case leading[d]:
			res.Documents = append(res.Documents, d)
		case kind == "ConfigMap" || kind == "Secret":
			if wanted[kind+"/"+name] {
				res.Documents = append(res.Documents, d)
			}
		case r.whole && slices.Contains([]string{"Service", "PersistentVolumeClaim"}, kind) || r.whole && pod.IsWorkload(kind):
		case pod.IsWorkload(kind):
			r.lose(d, title+" is another workload", "import it with --service "+shellWord(name))
		case kind == "Service":
			r.lose(d, title+": there is no cluster network", "publish ports of the Pod with hostPort")
		case kind == "Ingress" && r.whole:
			r.lose(d, title+leadsNowhere, "give an address with `ingress` of the stack file")
		case kind == "Ingress":
			r.lose(d, title+": no path of it leads to "+textOf(chosen.Member("kind"))+" "+doctree.Quote(documentName(chosen))+" by a Service of the file", "give an address with --ingress of podtask service create")
		case kind == "HorizontalPodAutoscaler" && !r.whole && scales(d, chosen):
		case kind == "HorizontalPodAutoscaler":
			r.lose(d, title+": "+fixedCopies, followLoad)
		case kind == "PersistentVolumeClaim":
			r.lose(d, title+": its storage is given on the command line", "give --map-volume NAME=PATH")
		case kind == "":
			r.wrong(d, "a document has no kind", "")
		default:
			r.lose(d, "the "+kind+" has no effect here", "")
		}
	}
	r.controller(res, chosen)
	if textOf(chosen.Member("kind")) == "Pod" && len(leading) > 0 {
		res.Service = &Service{Flags: []string{"--count", "1"}}
	}
	if r.whole {
		r.member(res, docs, chosen)
	} else if res.Service != nil {
		r.autoscaler(res, docs, chosen)
	}
}

// scales reports whether a HorizontalPodAutoscaler is about a workload.
func scales(d, workload *doctree.Node) bool {
	of := d.Member("spec").Member("scaleTargetRef")
	return textOf(of.Member("kind")) == textOf(workload.Member("kind")) && textOf(of.Member("name")) == documentName(workload)
}

// autoscaler takes over the HorizontalPodAutoscaler of a workload that becomes a service.
func (r *reader) autoscaler(res *Result, docs []*doctree.Node, chosen *doctree.Node) {
	for _, d := range docs {
		if textOf(d.Member("kind")) == "HorizontalPodAutoscaler" && scales(d, chosen) {
			s := scaler{reader: r}
			s.horizontal("HorizontalPodAutoscaler "+doctree.Quote(documentName(d)), d.Member("spec"))
			s.service(res.Service)
			return
		}
	}
}

// uses collects the ConfigMaps and Secrets that a Pod template names.
func uses(n *doctree.Node, in string, wanted map[string]bool) {
	for _, f := range n.Fields {
		name := textOf(f.Value.Member("name"))
		switch f.Key {
		case "configMapRef", "configMapKeyRef", "configMap":
			wanted["ConfigMap/"+name] = true
		case "secretRef", "secretKeyRef":
			wanted["Secret/"+name] = true
		case "secret":
			wanted["Secret/"+name], wanted["Secret/"+textOf(f.Value.Member("secretName"))] = true, true
		case "imagePullSecrets":
			for _, item := range items(f.Value) {
				wanted["Secret/"+textOf(item.Member("name"))] = true
			}
		}
		uses(f.Value, f.Key, wanted)
	}
	for _, item := range n.Items {
		uses(item, in, wanted)
	}
}

// controller makes the command of a service or a schedule of what a controller asks for.
func (r *reader) controller(res *Result, d *doctree.Node) {
	spec := d.Member("spec")
	switch kind := textOf(d.Member("kind")); kind {
	case "Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet":
		count := 1
		if n := spec.Member("replicas"); n != nil && kind != "DaemonSet" {
			v, ok := intOf(n)
			if !ok || v < 0 {
				r.wrong(n, "replicas is a whole number", "")
			}
			count = v
		}
		if kind == "DaemonSet" {
			r.lose(d.Member("kind"), "DaemonSet: one copy runs on this host, and on no other", "")
		}
		res.answered = append(res.answered, "/spec/replicas")
		res.Service = &Service{Flags: []string{"--count", strconv.Itoa(count)}}
		r.rollout(res, spec.Member("strategy"), count)
	case "CronJob":
		res.Schedules = []Schedule{{Name: res.Name}}
	}
}

// rollout makes flags of how a Deployment replaces its Pods, which is in Pods or in percents of them; a service rounds the percents of
// the flags back to these Pods.
func (r *reader) rollout(res *Result, strategy *doctree.Node, copies int) {
	flag := func(name string, percent int, member string) {
		res.Service.Flags = append(res.Service.Flags, name, strconv.Itoa(percent))
		res.answered = append(res.answered, "/spec/strategy/"+member)
	}
	if textOf(strategy.Member("type")) == "Recreate" {
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
	text, percent := strings.CutSuffix(textOf(strategy.Member("rollingUpdate").Member(member)), "%")
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 100_000 {
		return -1, false
	}
	if percent {
		n = (n*copies + round) / 100
	}
	return n, true
}
