package foreign

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/podtask/podtask/internal/define/foreign/toolfile"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// Difference is a value in which two definitions or services differ.
type Difference struct {
	// Path names the value, as in containerDefinitions[web].environment[STAGE].
	Path string `json:"path"`
	// Live is the value on ECS, Here that of this host; empty for none.
	Live string `json:"live"`
	Here string `json:"here"`
}

// keyOf are the members that tell the items of a list apart. A list that is not here is compared as a whole.
var keyOf = []struct {
	list string
	keys []string
}{
	{"containerDefinitions", []string{"name"}},
	{"environment", []string{"name"}},
	{"secrets", []string{"name"}},
	{"portMappings", []string{"containerPort", "protocol"}},
	{"mountPoints", []string{"containerPath"}},
	{"volumesFrom", []string{"sourceContainer"}},
	{"volumes", []string{"name"}},
	{"ulimits", []string{"name"}},
	{"dependsOn", []string{"containerName"}},
	{"tags", []string{"key"}},
	{"systemControls", []string{"namespace"}},
	{"extraHosts", []string{"hostname"}},
	{"secretOptions", []string{"name"}},
	{"devices", []string{"hostPath"}},
	{"tmpfs", []string{"containerPath"}},
	{"properties", []string{"name"}},
	{"environmentFiles", []string{"value"}},
}

// sets are lists whose order says nothing.
var sets = []string{"requiresCompatibilities", "add", "drop"}

// defaults are values that ECS has for members that are absent, by their last names. A description may have them or not.
var defaults = [][2]string{
	{"cpu", "0"}, {"essential", "true"}, {"protocol", "tcp"}, {"readOnly", "false"}, {"privileged", "false"}, {"interactive", "false"},
	{"pseudoTerminal", "false"}, {"readonlyRootFilesystem", "false"}, {"disableNetworking", "false"}, {"initProcessEnabled", "false"},
	{"networkMode", "bridge"}, {"rootDirectory", "/"}, {"transitEncryption", "DISABLED"}, {"iam", "DISABLED"}, {"scope", "task"},
	{"autoprovision", "false"}, {"driver", "local"}, {"enableFaultInjection", "false"}, {"versionConsistency", "enabled"}, {"interval", "30"},
	{"timeout", "5"}, {"retries", "3"}, {"startPeriod", "0"}, {"swappiness", ""}, {"sharedMemorySize", "0"}, {"cpuArchitecture", "X86_64"},
	{"operatingSystemFamily", "LINUX"}, {"enabled", "false"}, {"hostPort", "0"},
}

// values are the values of a document by their paths.
type values struct {
	paths []string
	of    map[string]string
}

func (v *values) set(path, value string) {
	if _, ok := v.of[path]; !ok {
		v.paths = append(v.paths, path)
	}
	v.of[path] = value
}

// Differences compares two task definitions, without what is read-only, what asks for a default of ECS, and the
// order of lists that have none. The family is not compared.
func Differences(live, here *doctree.Node) []Difference {
	return compare(valuesOf(live), valuesOf(here))
}

func valuesOf(def *doctree.Node) values {
	v := values{of: map[string]string{}}
	for _, f := range def.Fields {
		if f.Key == "family" || slices.Contains(toolfile.ReadOnly, f.Key) {
			continue
		}
		v.add(f.Key, f.Key, f.Value)
	}
	shared := v.of["networkMode"] == "awsvpc" || v.of["networkMode"] == "host"
	for path, value := range v.of {
		port, isHostPort := strings.CutSuffix(path, ".hostPort")
		if isHostPort && shared && value == v.of[port+".containerPort"] {
			delete(v.of, path) // ECS writes it
		}
	}
	for path, value := range v.of {
		last := [2]string{path[strings.LastIndexByte(path, '.')+1:], value}
		if slices.Contains(defaults, last) && !strings.Contains(path, "x-podtask") {
			delete(v.of, path)
		}
	}
	return v
}

// compare returns the differences, in the order of the first document, then of the second.
func compare(live, here values) []Difference {
	var all []Difference
	for i, path := range slices.Concat(live.paths, here.paths) {
		a, b := live.of[path], here.of[path]
		if i >= len(live.paths) && slices.Contains(live.paths, path) || a == b {
			continue
		}
		all = append(all, Difference{path, a, b})
	}
	return all
}

// add adds a value and what is in it.
func (v *values) add(path, name string, n *doctree.Node) {
	switch n.Kind {
	case doctree.Null:
	case doctree.Object:
		for _, f := range n.Fields {
			v.add(path+"."+f.Key, f.Key, f.Value)
		}
	case doctree.List:
		v.addList(path, name, n)
	default:
		if n.Text != "" {
			v.set(path, canonical(name, n))
		}
	}
}

// present is the value of an item that has members of its own.
const present = "present"

func (v *values) addList(path, name string, n *doctree.Node) {
	if len(n.Items) == 0 {
		return
	}
	var keys []string
	for _, k := range keyOf {
		if k.list == name {
			keys = k.keys
		}
	}
	if keys == nil {
		if slices.Contains(sets, name) {
			n = n.Clone()
			slices.SortFunc(n.Items, func(a, b *doctree.Node) int { return strings.Compare(a.Text, b.Text) })
		}
		v.set(path, string(n.JSON()))
		return
	}
	for i, item := range n.Items {
		id := ""
		for _, key := range keys {
			part := canonical(key, toolfile.OrAt(item.Member(key), &doctree.Node{}))
			if key == "protocol" {
				if part == "" || part == "tcp" {
					continue
				}
				part = "/" + part
			}
			id += part
		}
		if id == "" {
			id = strconv.Itoa(i)
		}
		at := path + "[" + id + "]"
		if name == "environment" { // an empty value is one
			v.set(at, strconv.Quote(toolfile.TextOf(item.Member("value"))))
			continue
		}
		v.set(at, present)
		if value := item.Member("value"); value != nil && len(item.Fields) == 2 {
			v.set(at, toolfile.TextOf(value))
			continue
		}
		if from := item.Member("valueFrom"); from != nil && len(item.Fields) == 2 {
			v.set(at, toolfile.TextOf(from))
			continue
		}
		for _, f := range item.Fields {
			if !slices.Contains(keys, f.Key) || f.Key == "containerPort" {
				v.add(at+"."+f.Key, f.Key, f.Value)
			}
		}
	}
}

// canonical returns a scalar in one of its spellings.
func canonical(name string, n *doctree.Node) string {
	text := toolfile.TextOf(n)
	if n.Kind == doctree.Boolean {
		return strings.ToLower(text)
	}
	if unit := map[string]string{"cpu": "vcpu", "memory": "gb"}[name]; unit != "" {
		amount, ok := strings.CutSuffix(strings.ToLower(text), unit)
		if f, err := strconv.ParseFloat(strings.TrimSpace(amount), 64); ok && err == nil && f < 1e6 {
			return strconv.Itoa(int(math.Round(f * 1024)))
		}
	}
	if n.Kind == doctree.Number {
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			return strconv.FormatFloat(f, 'f', -1, 64)
		}
	}
	return text
}

// ServiceSettings are what a service here asks for besides its definition.
type ServiceSettings struct {
	DesiredCount int
	// MinHealthy and Max are percentages; nil replaces copies one by one.
	MinHealthy, Max *int
	// Strategy is ROLLING, BLUE_GREEN, LINEAR or CANARY; empty is ROLLING.
	Strategy           string
	HealthGraceSeconds int
}

// ServiceDifferences compares the service that DescribeServices answers with one of this host. Without percentages
// here, ECS's defaults make no difference. The error is an *Error.
func ServiceDifferences(answer []byte, here ServiceSettings) ([]Difference, error) {
	r := newLive()
	service := liveService(r, answer)
	if err := r.Err(); err != nil {
		return nil, err
	}
	a, b := values{of: map[string]string{}}, values{of: map[string]string{}}
	both := func(path string, live *doctree.Node, byDefault, here string) {
		text := byDefault
		if live != nil {
			text = canonical(path, live)
		}
		a.set("service."+path, text)
		b.set("service."+path, here)
	}
	deployment := service.Member("deploymentConfiguration")
	if toolfile.TextOf(service.Member("schedulingStrategy")) != "DAEMON" {
		both("desiredCount", service.Member("desiredCount"), "1", fmt.Sprint(here.DesiredCount))
	}
	both("healthCheckGracePeriodSeconds", service.Member("healthCheckGracePeriodSeconds"), "0", fmt.Sprint(here.HealthGraceSeconds))
	strategy := here.Strategy
	if strategy == "" {
		strategy = "ROLLING"
	}
	both("deploymentConfiguration.strategy", deployment.Member("strategy"), "ROLLING", strategy)
	for _, p := range []struct {
		member, byDefault string
		here              *int
	}{{"minimumHealthyPercent", "100", here.MinHealthy}, {"maximumPercent", "200", here.Max}} {
		live, text := deployment.Member(p.member), p.byDefault
		if p.here != nil {
			text = strconv.Itoa(*p.here)
		}
		both("deploymentConfiguration."+p.member, live, p.byDefault, text)
	}
	return compare(a, b), nil
}

// ReadDefinition reads a task definition to compare. Name is its name in messages. The error is an *Error.
func ReadDefinition(name string, src []byte) (*doctree.Node, error) {
	r := toolfile.NewReader(toolfile.Request{File: name})
	docs, ok := r.Parse(name, src)
	if !ok {
		return nil, r.Err()
	}
	def := r.UnwrapDefinition(docs[0])
	if def.Member("containerDefinitions") == nil {
		r.Wrong(def, "this is not an ECS task definition", "")
	}
	return def, r.Err()
}
