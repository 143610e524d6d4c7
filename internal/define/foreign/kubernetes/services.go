package kubernetes

import (
	"fmt"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/define/foreign/toolfile"
	"github.com/podtask/podtask/internal/define/pod"
	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// member notes what a manifest is in a stack: its names and addresses by the Services that select it, its volumes, and its order.
func member(r *toolfile.Reader, res *toolfile.Result, docs []*doctree.Node, d *doctree.Node) {
	kind := toolfile.TextOf(d.Member("kind"))
	template := podOf(d)
	spec := template.Member("spec")
	res.Stack.Job = isJob(d) && kind != "CronJob"
	res.Stack.Hook = pod.Hook(d)
	annotations := d.Member("metadata").Member("annotations")
	res.Stack.HookWeight, _ = toolfile.IntOf(annotations.Member("helm.sh/hook-weight"))
	words := toolfile.TextOf(annotations.Member(annotationAfter))
	res.Stack.After = append(res.Stack.After, strings.FieldsFunc(words, func(c rune) bool { return c == ',' || c == ' ' })...)
	for _, v := range toolfile.Items(spec.Member("volumes")) {
		if claim := toolfile.TextOf(v.Member("persistentVolumeClaim").Member("claimName")); claim != "" {
			res.Stack.Claims = append(res.Stack.Claims, claim)
		}
	}
	for _, v := range toolfile.Items(d.Member("spec").Member("volumeClaimTemplates")) {
		if claim := toolfile.TextOf(v.Member("metadata").Member("name")); claim != "" {
			res.Stack.Claims = append(append(res.Stack.Claims, claim), copiesOf(claim, d)...)
		}
	}
	if isJob(d) {
		return
	}
	res.Answered = append(res.Answered, "/spec/type")
	if res.Service == nil {
		res.Service = &toolfile.Service{Flags: []string{"--count", "1"}}
	}
	taken := map[int]bool{}
	for _, s := range docs {
		if toolfile.TextOf(s.Member("kind")) == "Service" && selects(s, d, template) {
			reach(r, res, s, spec, taken)
		}
	}
}

// isJob reports whether a workload runs to its end.
func isJob(d *doctree.Node) bool {
	switch toolfile.TextOf(d.Member("kind")) {
	case "Job", "CronJob":
		return true
	case "Pod":
		restart := toolfile.TextOf(d.Member("spec").Member("restartPolicy"))
		return restart == "Never" || restart == "OnFailure"
	}
	return false
}

// copiesOf names the storage of the Pods of a StatefulSet behind the first one, whose storage has the name of the claim.
func copiesOf(claim string, d *doctree.Node) (names []string) {
	spec := d.Member("spec")
	start, _ := toolfile.IntOf(spec.Member("ordinals").Member("start"))
	copies, _ := toolfile.IntOf(spec.Member("replicas"))
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
	selector := toolfile.Fields(svc.Member("spec").Member("selector"))
	labels := template.Member("metadata").Member("labels")
	space := func(n *doctree.Node) string { return toolfile.TextOf(n.Member("metadata").Member("namespace")) }
	return len(selector) > 0 && space(svc) == space(workload) && !slices.ContainsFunc(selector, func(f doctree.Field) bool {
		have := labels.Member(f.Key)
		return have == nil || toolfile.TextOf(have) != toolfile.TextOf(f.Value)
	})
}

// reach gives a service the names and addresses of a Service. All containers of a Pod share a network, so the first one publishes. Taken are
// the ports of addresses that it has.
func reach(r *toolfile.Reader, res *toolfile.Result, svc, spec *doctree.Node, taken map[int]bool) {
	name := toolfile.TextOf(svc.Member("metadata").Member("name"))
	containers := toolfile.Items(spec.Member("containers"))
	if len(containers) == 0 {
		return
	}
	flag := func(words ...string) { res.Service.Flags = append(res.Service.Flags, words...) }
	for _, p := range toolfile.Items(svc.Member("spec").Member("ports")) {
		port, ok := toolfile.IntOf(p.Member("port"))
		protocol := toolfile.TextOf(p.Member("protocol"))
		to := portOf(p.Member("targetPort"), containers)
		if p.Member("targetPort") == nil {
			to = port
		}
		switch {
		case !ok || to == 0:
			r.Lose(p, fmt.Sprintf("port %s of Service %s: no container has its targetPort %s", toolfile.TextOf(p.Member("port")), doctree.Quote(name), toolfile.TextOf(p.Member("targetPort"))), "write the number of a port")
			continue
		case protocol != "" && protocol != "TCP":
			r.Lose(p, fmt.Sprintf("port %d/%s of Service %s: names and addresses are those of TCP ports", port, protocol, doctree.Quote(name)), "publish it with hostPort")
			continue
		}
		owner, host := toolfile.TextOf(containers[0].Member("name")), false
		for _, c := range containers {
			for _, has := range toolfile.Items(c.Member("ports")) {
				if n, _ := toolfile.IntOf(has.Member("containerPort")); n == to && has.Member("hostPort") != nil {
					owner, host = toolfile.TextOf(c.Member("name")), true
				}
			}
		}
		if word := fmt.Sprintf("127.0.0.1::%d", to); !host && !slices.Contains(res.Service.Flags, word) {
			flag("--publish", word)
		}
		flag("--name-as", fmt.Sprintf("%s:%d=%s:%d", name, port, owner, to))
		at := port
		if node, ok := toolfile.IntOf(p.Member("nodePort")); ok && toolfile.TextOf(svc.Member("spec").Member("type")) == "NodePort" {
			at = node
		} else if toolfile.TextOf(svc.Member("spec").Member("type")) != "LoadBalancer" {
			continue
		}
		if at < 1024 { // which users may not open
			at += 8000
		}
		for taken[at] {
			at++
		}
		taken[at] = true
		flag("--listen", fmt.Sprintf("%d=%s:%d", at, owner, to))
	}
}

// portOf is the number of a port of containers that a Service names; 0 for none.
func portOf(n *doctree.Node, containers []*doctree.Node) int {
	if number, ok := toolfile.IntOf(n); ok {
		return number
	}
	for _, c := range containers {
		for _, p := range toolfile.Items(c.Member("ports")) {
			if number, ok := toolfile.IntOf(p.Member("containerPort")); ok && toolfile.TextOf(p.Member("name")) == toolfile.TextOf(n) {
				return number
			}
		}
	}
	return 0
}
