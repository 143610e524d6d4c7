package pod

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
	"github.com/podtask/podtask/pkg/taskdef/refs"
	"github.com/podtask/podtask/pkg/taskdef/suggest"
)

// Options are what a file leaves to the command line and the host.
type Options struct {
	// Refs says where this host has what the file does not hold: volumes by their name or
	// that of the PersistentVolumeClaim, and Secrets by NAME/KEY.
	Refs refs.Table
	// Facts are values for fieldRef that no file can know, by their path: metadata.uid,
	// spec.nodeName, status.hostIP, status.hostIPs.
	Facts map[string]string
	// CPU (in 1/1000 of a CPU) and Memory (in bytes) are what the host has; 0 means unknown.
	CPU, Memory int64
	// IDs bounds users and groups.
	IDs taskdef.IDs
	// Lenient: unknown fields are warnings.
	Lenient bool
	// Without names fields of the spec that are left out; see taskdef.Settings.
	Without []string
	// Copy chooses a Pod of a controller that numbers its Pods, from 0.
	Copy int
	// Fargate rounds the limits of the task up to a size of Fargate.
	Fargate bool
}

// Result is what a file becomes.
type Result struct {
	Task taskdef.Task
	Pod  Pod
	// Secrets are what Task names as sources env:NAME. The content of ConfigMap files is
	// among them. It is never written to disk by podtask: it becomes Podman secrets.
	Secrets []Secret
	// Sensitive: a Secret document with content is in the file. Strip takes it out.
	Sensitive bool
	// HostPaths are to be checked, or made, before the task runs.
	HostPaths []HostPath
	// CronJob says when the Pod runs; nil if the manifest is not a CronJob.
	CronJob *CronJob
	// Replicas is the number of copies of a service of the controller; nil if the manifest does not say.
	Replicas *int
	// Unpublished are the TCP ports without a hostPort: in a cluster Services lead to them.
	Unpublished []ContainerPort
	// Numbered has the numbers of the copies of a StatefulSet; nil for others.
	Numbered *Numbered
}

// ContainerPort is a port of the container of an index.
type ContainerPort struct {
	Container int
	taskdef.Port
}

// Numbered are the Pods of a StatefulSet.
type Numbered struct {
	First    int  // the number of the first one
	Parallel bool // they start without a wait for each other
}

// HostPath is a path of the host and what Kubernetes wants to find there.
type HostPath struct {
	Path string
	// Type is DirectoryOrCreate, Directory, FileOrCreate, File, Socket, CharDevice,
	// BlockDevice, or empty for no check.
	Type string
}

// Parse reads a manifest, JSON or YAML, of one Pod, or one controller of Pods, and any
// number of ConfigMaps and Secrets. Name is the file's name in messages.
//
// The error is nil or a *taskdef.InvalidError with all problems at once, sorted by place;
// a pointer starts at its document, which its line tells. The report holds the warnings in
// both cases. What the file leaves to the command line is in its Needs: the task then is
// not fit to run.
func Parse(name string, src []byte, o Options) (Result, taskdef.Report, error) {
	return parse(taskdef.ReadSource(name, src), o)
}

// parse is Parse of a manifest whose text has been read.
func parse(src taskdef.Source, o Options) (Result, taskdef.Report, error) {
	rep := &report{file: src.Name(), lenient: o.Lenient, without: o.Without}
	nodes, err := src.Documents()
	if err != nil {
		return Result{}, rep.result(), err
	}
	var docs []value
	for _, n := range nodes {
		docs = append(docs, documents(value{rep, n, "", n.Line, n.Col})...)
	}
	m := newManifest(rep, docs)
	var result Result
	if m.spec.present() {
		result = m.build(o)
		result.Replicas, result.Numbered = m.copies(), m.numbering()
		if m.kind.name == "CronJob" {
			result.CronJob = newCronJob(m.owner)
		}
		for _, doc := range m.secrets {
			for _, c := range secretData(doc) {
				result.Sensitive = result.Sensitive || len(c.bytes) > 0
			}
		}
	}
	out := rep.result()
	if len(rep.problems) > 0 {
		return Result{}, out, &taskdef.InvalidError{Name: src.Name(), Problems: rep.problems}
	}
	return result, out, nil
}

// documents returns a document, or the items of a List.
func documents(v value) []value {
	if _, ok := Items(v.node); ok {
		return v.at("items").items()
	}
	return []value{v}
}

// Items returns the items of a List, or of a list of one kind such as ConfigMapList, as kubectl reads them: an item without a kind or
// an apiVersion has those that the list names. Ok is false for other documents.
func Items(doc *doctree.Node) (items []*doctree.Node, ok bool) {
	name, list := doc.Member("kind"), doc.Member("items")
	if name == nil {
		return nil, false
	}
	kind, ok := strings.CutSuffix(name.Text, "List")
	if !ok || kind != "" && (list == nil || list.Kind != doctree.List) {
		return nil, false
	}
	if list == nil {
		return nil, true
	}
	for _, item := range list.Items {
		if kind == "" || item.Kind != doctree.Object {
			continue
		}
		if item.Member("kind") == nil {
			item.Fields = append(item.Fields, doctree.Field{Key: "kind", Line: item.Line, Col: item.Col, Value: &doctree.Node{Kind: doctree.Text, Text: kind, Line: item.Line, Col: item.Col}})
		}
		if version := doc.Member("apiVersion"); version != nil && item.Member("apiVersion") == nil {
			item.Fields = append(item.Fields, doctree.Field{Key: "apiVersion", Line: item.Line, Col: item.Col, Value: version})
		}
	}
	return list.Items, true
}

// kind is a kind of document that holds a Pod.
type kind struct {
	name, apiVersion string
	template         []string // where the Pod template is; nil for the Pod itself
	loses            string   // what its controller would have done
}

var kinds = []kind{
	{"Pod", "v1", nil, ""},
	{"PodTemplate", "v1", []string{"template"}, ""},
	{"ReplicationController", "v1", []string{"spec", "template"}, "it keeps a number of copies of the Pod"},
	{"ReplicaSet", "apps/v1", []string{"spec", "template"}, "it keeps a number of copies of the Pod"},
	{"Deployment", "apps/v1", []string{"spec", "template"}, "it keeps a number of copies of the Pod and replaces them one by one"},
	{"StatefulSet", "apps/v1", []string{"spec", "template"}, "it keeps several numbered Pods, each with volumes of its own"},
	{"DaemonSet", "apps/v1", []string{"spec", "template"}, "it runs the Pod on every node"},
	{"Job", "batch/v1", []string{"spec", "template"}, ""},
	{"CronJob", "batch/v1", []string{"spec", "jobTemplate", "spec", "template"}, "it runs the Pod at set times"},
}

// IsWorkload reports whether documents of a kind hold a Pod.
func IsWorkload(name string) bool {
	return slices.ContainsFunc(kinds, func(k kind) bool { return k.name == name })
}

// manifest is the documents of a file, sorted by what they are for.
type manifest struct {
	report     *report
	kind       kind
	meta, spec value // of the Pod
	owner      value // the document
	configs    map[string]value
	secrets    map[string]value
	services   []value  // documents
	ingresses  []value  // documents
	claims     []string // names of the volumeClaimTemplates of a StatefulSet
}

func newManifest(rep *report, docs []value) *manifest {
	m := &manifest{report: rep, configs: make(map[string]value), secrets: make(map[string]value)}
	for _, doc := range withoutHooks(docs) {
		m.add(doc)
	}
	if m.kind.name == "" && len(rep.problems) == 0 {
		rep.problems = append(rep.problems, taskdef.Problem{File: rep.file, Line: 1, Column: 1,
			Message: "there is no Pod in the file", Fix: "give a Pod, or a controller with a Pod template"})
	}
	return m
}

// add sorts a document.
func (m *manifest) add(doc value) {
	if doc.node.Kind != doctree.Object {
		doc.wrong("a document is an object with apiVersion and kind, and this is "+doc.node.Kind.String(), "")
		return
	}
	name := doc.at("kind").str()
	if name == "" {
		doc.wrong("kind is missing", `write apiVersion and kind, as in "v1" and "Pod"`)
		return
	}
	for _, k := range kinds {
		if k.name == name {
			m.addWorkload(doc, k)
			return
		}
	}
	switch name {
	case "ConfigMap":
		m.addData(doc, name, m.configs)
	case "Secret":
		m.addData(doc, name, m.secrets)
	case "Service":
		m.services = append(m.services, doc)
	case "Ingress":
		m.ingresses = append(m.ingresses, doc)
	case "PersistentVolumeClaim":
		m.version(doc, "v1")
		checker{m.report, true}.check(doc, name)
	default:
		m.addOther(doc, name)
	}
}

// nameAs says how a service of podtask gets the name and the ports of a Service.
func nameAs(doc value) string {
	name := doc.at("metadata").at("name").str()
	if !dnsName.MatchString(name) {
		return ""
	}
	flags := ""
	for _, p := range doc.at("spec").at("ports").items() {
		port, protocol := p.at("port"), p.at("protocol").str()
		if !port.present() || protocol != "" && protocol != "TCP" {
			continue
		}
		n, err := strconv.ParseUint(port.node.Text, 10, 16)
		if err != nil || n == 0 {
			continue
		}
		flags += fmt.Sprintf(" --name-as %s:%d", name, n)
	}
	if flags == "" {
		return ""
	}
	return "let other tasks reach it by name: podtask service create " + name + " FILE" + flags
}

func (m *manifest) addOther(doc value, name string) {
	known := []string{"ConfigMap", "Secret", "Service", "Ingress", "PersistentVolumeClaim"}
	for _, k := range kinds {
		known = append(known, k.name)
	}
	if fix := suggest.Question(name, known); fix != "" && m.knows(doc.at("apiVersion").str()) && !slices.Contains(otherKinds, name) {
		doc.at("kind").wrong("unknown kind "+doctree.Quote(name), fix)
		return
	}
	doc.at("kind").warn("the "+printable(name)+" has no effect: podtask runs the Pod of the file only", "")
}

// otherKinds are kinds of Kubernetes in the groups of those that are read here, and are no misspelled ones.
var otherKinds = strings.Fields("Binding ComponentStatus ControllerRevision Endpoints Event IPAddress IngressClass LimitRange Namespace NetworkPolicy Node PersistentVolume ResourceQuota ServiceAccount ServiceCIDR")

// knows reports whether an apiVersion is that of kinds that are read here; others have kinds of their own, such as APIService.
func (m *manifest) knows(apiVersion string) bool {
	return slices.Contains([]string{"", "v1", "networking.k8s.io/v1"}, apiVersion) || slices.ContainsFunc(kinds, func(k kind) bool { return k.apiVersion == apiVersion })
}

// printable is a name of the document as part of a sentence.
func printable(s string) string {
	if dnsName.MatchString(strings.ToLower(s)) {
		return s
	}
	return doctree.Quote(s)
}

func (m *manifest) addWorkload(doc value, k kind) {
	if m.kind.name != "" {
		doc.at("kind").wrong("the file holds another Pod, after that of line "+fmt.Sprint(m.owner.line),
			"keep one Pod in a file, or run all of them with `podtask stack up`, or take one out with `podtask import --service NAME`")
		return
	}
	m.version(doc, k.apiVersion)
	m.kind, m.owner, m.meta, m.spec = k, doc, doc.at("metadata"), doc.at("spec")
	template := doc
	for _, step := range k.template {
		template = template.at(step)
	}
	m.report.leaveOut(template.at("spec"), "")
	if k.template == nil {
		checker{m.report, true}.check(doc, k.name)
		m.require(doc, m.spec, "spec")
		return
	}
	checker{m.report, true}.check(doc, k.name)
	m.replicas()
	if !template.present() {
		doc.wrong("the "+k.name+" has no Pod template", "")
		m.spec = template
		return
	}
	m.meta, m.spec = template.at("metadata"), template.at("spec")
	m.require(template, m.spec, "spec")
	if k.loses != "" {
		doc.at("kind").warn("one Pod of the "+k.name+" runs: a cluster would do more, because "+k.loses, "")
	}
	for _, claim := range doc.at("spec").at("volumeClaimTemplates").items() {
		m.claims = append(m.claims, claim.at("metadata").at("name").str())
	}
}

// version reports an apiVersion that is not that of the kind.
func (m *manifest) version(doc value, want string) {
	v := doc.at("apiVersion")
	switch have := v.str(); {
	case !v.present():
		doc.wrong("apiVersion is missing", "write "+want)
	case have != want:
		v.wrong("apiVersion of a "+doc.at("kind").str()+" cannot be "+doctree.Quote(have), "write "+want)
	}
}

func (m *manifest) require(in, v value, name string) {
	if !v.present() {
		in.wrong(name+" is missing", "")
	}
}

// addData adds a ConfigMap or Secret.
func (m *manifest) addData(doc value, kind string, to map[string]value) {
	m.version(doc, "v1")
	checker{m.report, true}.check(doc, kind)
	name := doc.at("metadata").at("name")
	switch _, twice := to[name.str()]; {
	case name.str() == "":
		doc.wrong("the "+kind+" has no name", "write metadata.name")
	case twice:
		name.wrong("another "+kind+" has the name "+doctree.Quote(name.str()), "rename one of them")
	default:
		to[name.str()] = doc
	}
	for _, member := range []string{"data", "stringData", "binaryData"} {
		for _, f := range doc.at(member).entries() {
			if !dataKey.MatchString(f.Key) || f.Key == "." || f.Key == ".." || len(f.Key) > 253 {
				doc.at(member).field(f).atKey(f).wrong("this is not a key", "use letters, digits, '-', '_' and '.'")
			}
		}
	}
}

// namespaceOf returns the namespace of an object.
func namespaceOf(meta value) string { return cmp.Or(meta.at("namespace").str(), "default") }

// source returns the document of the Pod as given, as JSON, without what a server adds.
func (m *manifest) source() json.RawMessage {
	clean := *m.owner.node
	clean.Fields = slices.DeleteFunc(slices.Clone(clean.Fields), func(f doctree.Field) bool { return f.Key == "status" })
	return clean.JSON()
}
