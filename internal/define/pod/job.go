package pod

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// job is what a Job, or the template of a CronJob, says of the runs of its Pod. A Job that asks for more than one
// successful run of one Pod is refused by name: to run less than it asks for would be wrong work.
type job struct {
	// tries is how often the Pod may be tried in all; 0: the Pod is not that of a Job.
	tries int
	// again: a container that fails is started again, within the tries.
	again bool
	// deadline is that of the Job; 0: none.
	deadline time.Duration
	// indexed: the Pod has a completion index, which is 0.
	indexed bool
}

// defaultBackoffLimit is Kubernetes' default of backoffLimit.
const defaultBackoffLimit = 6

// jobSpec is the spec of a Job, or that of the template of a CronJob; absent for other kinds.
func (m *manifest) jobSpec() value {
	switch m.kind.name {
	case "Job":
		return m.owner.at("spec")
	case "CronJob":
		return m.owner.at("spec").at("jobTemplate").at("spec")
	}
	return value{}
}

// readJob reads how the Pod of a Job is run.
func (b *reader) readJob() {
	spec := b.jobSpec()
	if !spec.present() {
		return
	}
	if policy := b.spec.at("restartPolicy"); policy.str() == "" || policy.str() == RestartAlways {
		at := policy
		if !policy.present() {
			at = b.spec
		}
		at.wrong("the Pod of a Job has restartPolicy OnFailure or Never", "write restartPolicy: OnFailure to try a failed container again, else Never")
	}
	const most = 1<<31 - 1
	b.job.indexed = spec.at("completionMode").word("NonIndexed", "NonIndexed", "Indexed") == "Indexed"
	b.jobCounts(spec)
	b.job.deadline = time.Duration(spec.at("activeDeadlineSeconds").integer(1, most, 0)) * time.Second
	limit := spec.at("backoffLimit")
	b.job.tries = 1 + int(limit.integer(0, most-1, defaultBackoffLimit))
	if per := spec.at("backoffLimitPerIndex"); per.present() {
		if !b.job.indexed {
			per.wrong("backoffLimitPerIndex goes with completionMode Indexed", "write backoffLimit")
		}
		if n := 1 + int(per.integer(0, most-1, 0)); !limit.present() || n < b.job.tries {
			b.job.tries = n
		}
	}
	b.job.again = b.job.tries > 1
	if several := len(b.spec.at("containers").items()) > 1; b.job.again && several && b.spec.at("restartPolicy").str() == RestartNever {
		b.job.again = false
		at := limit
		if !limit.present() {
			at = b.spec.at("restartPolicy")
		}
		at.warn(fmt.Sprintf("the Pod is tried once, and not %d times: podtask starts a failed container again, and not all containers of a Pod", b.job.tries), "write restartPolicy: OnFailure, or backoffLimit: 0")
	}
}

// jobCounts refuses counts that ask for several runs of the Pod, or none.
func (b *reader) jobCounts(spec value) {
	const most, absent = 1<<31 - 1, -1
	completions, parallelism := spec.at("completions"), spec.at("parallelism")
	n, p := completions.integer(0, most, absent), parallelism.integer(0, most, 1)
	one := "remove it to run the Pod once; for more, run it as often with podtask run"
	if b.job.indexed {
		one = "remove completions and completionMode, and run the Pod once for each index with --env JOB_COMPLETION_INDEX=INDEX"
	}
	switch {
	case b.job.indexed && n == absent && !completions.present():
		spec.at("completionMode").wrong("completionMode Indexed needs completions", "write completions: 1")
	case n > 1:
		completions.wrong(fmt.Sprintf("the Job asks for %d successful runs of its Pod, and podtask runs it once", n), one)
	case n == 0:
		completions.wrong("the Job asks for no run of its Pod", "remove it to run the Pod once")
	case p == 0:
		parallelism.wrong("the Job asks for no Pods, as if it were suspended", "remove it to run the Pod once")
	case p > 1 && n == absent:
		parallelism.wrong(fmt.Sprintf("the Job asks for %d Pods that share a queue of work, and podtask runs one", p), "remove it if one Pod does all of the work")
	}
}

// restart applies the tries of a Job to the policy of one of its containers; nil where it is not started again.
func (j job) restart(p *taskdef.RestartPolicy, policy string) *taskdef.RestartPolicy {
	if j.tries == 0 {
		return p
	}
	if policy == RestartNever && p == nil && j.again {
		// A new Pod: after a pause from the first one on.
		p = &taskdef.RestartPolicy{AttemptPeriod: steadyAfter, BackOff: firstPause, IgnoredExitCodes: []int{0}}
	}
	if p == nil || !j.again {
		return nil
	}
	p.MaxCount = j.tries - 1
	return p
}

// numbered is the name of the Pod of a StatefulSet, or of a Job with indexes, which is also its host name; empty for others.
func (b *reader) numbered(name string) string {
	switch {
	case b.kind.name == "StatefulSet":
		return name + "-" + strconv.Itoa(b.numbering().First+b.options.Copy)
	case b.job.indexed:
		return name + "-0"
	}
	return ""
}

// Labels and annotations that controllers give the Pods they number.
const (
	labelPodIndex = "apps.kubernetes.io/pod-index"
	labelPodName  = "statefulset.kubernetes.io/pod-name"
	labelJobIndex = "batch.kubernetes.io/job-completion-index"
	envJobIndex   = "JOB_COMPLETION_INDEX"
)

// number gives the Pod what its controller would give it with its number.
func (b *reader) number() {
	if b.ordinal == "" {
		return
	}
	index := b.ordinal[strings.LastIndexByte(b.ordinal, '-')+1:]
	if b.job.indexed {
		b.meta.node = with(b.meta.node, "labels", labelJobIndex, index)
		b.meta.node = with(b.meta.node, "annotations", labelJobIndex, index)
		return
	}
	b.meta.node = with(b.meta.node, "labels", labelPodIndex, index)
	b.meta.node = with(b.meta.node, "labels", labelPodName, b.ordinal)
}

// with returns a copy of an object, or a new one for nil, whose member has a text under a key.
func with(object *doctree.Node, member, key, text string) *doctree.Node {
	inner := replaced(object.Member(member), key, &doctree.Node{Kind: doctree.Text, Text: text})
	return replaced(object, member, inner)
}

// replaced returns a copy of an object, or a new one for what is none, with another value of a key.
func replaced(object *doctree.Node, key string, v *doctree.Node) *doctree.Node {
	out := &doctree.Node{Kind: doctree.Object}
	if object != nil && object.Kind == doctree.Object {
		out.Line, out.Col = object.Line, object.Col
		for _, f := range object.Fields {
			if f.Key != key {
				out.Fields = append(out.Fields, f)
			}
		}
	}
	if v.Line == 0 {
		v.Line, v.Col = out.Line, out.Col
	}
	out.Fields = append(out.Fields, doctree.Field{Key: key, Value: v, Line: out.Line, Col: out.Col})
	return out
}

// index gives a container the variable of its completion index, unless it has one.
func (b *reader) index(container value) value {
	env := container.at("env")
	for _, item := range env.items() {
		if item.at("name").str() == envJobIndex {
			return container
		}
	}
	line, col := container.line, container.col
	text := func(s string) *doctree.Node { return &doctree.Node{Kind: doctree.Text, Text: s, Line: line, Col: col} }
	entry := &doctree.Node{Kind: doctree.Object, Line: line, Col: col, Fields: []doctree.Field{
		{Key: "name", Value: text(envJobIndex), Line: line, Col: col}, {Key: "value", Value: text("0"), Line: line, Col: col}}}
	list := &doctree.Node{Kind: doctree.List, Line: line, Col: col, Items: []*doctree.Node{entry}}
	if env.node != nil {
		list.Items = append(list.Items, env.node.Items...)
	}
	container.node = replaced(container.node, "env", list)
	return container
}
