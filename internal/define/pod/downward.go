package pod

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
	"github.com/podtask/podtask/pkg/taskdef/suggest"
)

// hostFacts are the paths of fieldRef that only the host can answer.
var hostFacts = []string{"metadata.uid", "spec.nodeName", "status.hostIP", "status.hostIPs"}

var fieldPaths = append([]string{"metadata.name", "metadata.namespace", "metadata.labels", "metadata.annotations", "spec.serviceAccountName", "status.podIP", "status.podIPs"}, hostFacts...)

var subscript = lazy.MustCompile(`^(metadata\.(?:labels|annotations))\['([^']+)'\]$`)

// fieldRef returns what a fieldRef names.
func (b *reader) fieldRef(ref value) (string, bool) {
	v := ref.at("fieldPath")
	path := v.str()
	if m := subscript.FindStringSubmatch(path); m != nil {
		return b.texts(m[1])[m[2]], true
	}
	switch path {
	case "metadata.name":
		return b.result.Pod.Name, true
	case "metadata.namespace":
		return b.result.Pod.Namespace, true
	case "metadata.labels", "metadata.annotations":
		return b.lines(path), true
	case "spec.serviceAccountName":
		if name := b.spec.at("serviceAccountName").str(); name != "" {
			return name, true
		}
		return "default", true
	}
	if path == "metadata.uid" && b.result.Pod.UID != "" {
		return b.result.Pod.UID, true
	}
	switch path {
	case "status.podIP":
		return taskdef.PodIP, true
	case "status.podIPs":
		return taskdef.PodIPs, true
	}
	if !slices.Contains(hostFacts, path) {
		ref.wrong(doctree.Quote(path)+" is not a field that a container can be given", suggest.Question(path, fieldPaths))
		return "", false
	}
	if node := b.spec.at("nodeName"); path == "spec.nodeName" && node.filled() {
		return node.str(), true
	}
	fact, known := b.options.Facts[path]
	if !known {
		v.need(path+" is not known on this host", "write the value itself")
	}
	return fact, known
}

// texts returns the labels or annotations of the Pod.
func (b *reader) texts(path string) map[string]string {
	out := make(map[string]string)
	for _, f := range b.meta.at(strings.TrimPrefix(path, "metadata.")).entries() {
		out[f.Key] = f.Value.Text
	}
	return out
}

// lines are labels or annotations as a file shows them: key="value", sorted.
func (b *reader) lines(path string) string {
	all := b.texts(path)
	var out []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		out = append(out, fmt.Sprintf("%s=%q", key, all[key]))
	}
	return strings.Join(out, "\n")
}

// resourceFieldRef returns a limit or request of a container, i unless it names another.
func (b *reader) resourceFieldRef(ref value, i int) (string, bool) {
	if name := ref.at("containerName"); name.filled() {
		j, known := b.result.Task.Index(name.str())
		if !known {
			name.wrong("no container named "+doctree.Quote(name.str()), "")
			return "", false
		}
		i = j
	}
	res := ref.at("resource")
	list, resource, _ := strings.Cut(res.str(), ".")
	if list != "limits" && list != "requests" || resource != "cpu" && resource != "memory" {
		all := []string{"limits.cpu", "limits.memory", "requests.cpu", "requests.memory"}
		res.wrong(doctree.Quote(res.str())+" is not a resource that a container can be given", suggest.Question(res.str(), all))
		return "", false
	}
	divisor, _ := parseQuantity("1")
	if d := ref.at("divisor"); d.present() && d.node.Text != "0" {
		divisor, _ = parseQuantity(d.node.Text)
	}
	amount := quantityOf(b.containers[i].at("resources").at(list).at(resource))
	if amount.zero() && list == "requests" {
		amount = quantityOf(b.containers[i].at("resources").at("limits").at(resource))
	}
	if amount.zero() && list == "limits" {
		amount = b.capacity(resource)
		if amount.zero() {
			ref.need("the container has no limit, and what the host has is not known", "write the limit")
			return "", false
		}
	}
	return strconv.FormatInt(amount.over(divisor), 10), true
}

// capacity is what the host has of a resource.
func (b *reader) capacity(resource string) quantity {
	text := strconv.FormatInt(b.options.Memory, 10)
	if resource == "cpu" {
		text = strconv.FormatInt(b.options.CPU, 10) + "m"
	}
	q, _ := parseQuantity(text)
	return q
}

// quantityOf returns a quantity; zero for an absent one.
func quantityOf(v value) quantity {
	if v.node == nil {
		return quantity{}
	}
	q, _ := parseQuantity(v.node.Text)
	return q
}
