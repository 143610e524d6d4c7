package taskdef

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// Override changes a definition for one run: an ECS TaskOverride. ParseOverride is its maker.
type Override struct {
	cpu    *float64 // vCPU; nil leaves the task's
	memory *int64   // bytes; nil leaves the task's
	// storage is in GiB; 0 leaves the task's.
	storage int64
	// taskRole and executionRole are ARNs; empty leaves the task's.
	taskRole, executionRole string
	containers              []containerOverride
	report                  Report
}

// containerOverride changes one container. Nil members leave its own.
type containerOverride struct {
	name        string
	place       Problem // of the name
	command     []string
	environment []EnvVar
	files       []EnvironmentFile
	cpu         *int64 // cpu units
	memory      *int64 // bytes
	reservation *int64 // bytes
	gpus        int    // -1 leaves the container's
}

// overrideMembers answers every member of the input's overrides of RunTask, as
// members does for a definition.
var overrideMembers = []member{
	{"cpu", honoured, "as in a definition", nil},
	{"memory", honoured, "as in a definition", nil},
	{"ephemeralStorage", warned, "no storage is set aside; containers use what the host has", nil},
	{"executionRoleArn", honoured, "as in a definition", nil},
	{"inferenceAcceleratorOverrides", warned, "containers get no accelerator", nil},
	{"taskRoleArn", honoured, "as in a definition", nil},
	{"containerOverrides", honoured, "one for each container", nil},
	{"containerOverrides[].name", honoured, "a container of the definition", nil},
	{"containerOverrides[].command", honoured, "replaces the command", nil},
	{"containerOverrides[].cpu", honoured, "", nil},
	{"containerOverrides[].environment", honoured, "sets these variables and keeps the others; replaces a secret with the same name", nil},
	{"containerOverrides[].environment[].name", honoured, "", nil},
	{"containerOverrides[].environment[].value", honoured, "", nil},
	{"containerOverrides[].environmentFiles", honoured, "replaces the list", nil},
	{"containerOverrides[].environmentFiles[].type", honoured, "`s3`, also for local paths", nil},
	{"containerOverrides[].environmentFiles[].value", honoured, "as in a definition", nil},
	{"containerOverrides[].memory", honoured, "", nil},
	{"containerOverrides[].memoryReservation", honoured, "", nil},
	{"containerOverrides[].resourceRequirements", honoured, "replaces the number of GPUs", nil},
	{"containerOverrides[].resourceRequirements[].type", honoured, "as in a definition", nil},
	{"containerOverrides[].resourceRequirements[].sharingStrategy", refused, "as in a definition", nil},
	{"containerOverrides[].resourceRequirements[].value", honoured, "as in a definition", nil},
}

// ParseOverride reads an ECS TaskOverride, JSON or YAML, as the overrides of
// RunTask are written. Vars, Refs and Dir of the settings count for it. The
// error is nil or an *InvalidError with all problems at once; Parse with the
// override hands on what the Report holds.
func (s Settings) ParseOverride(name string, src []byte) (*Override, Report, error) {
	root, err := ReadSource(name, src).root()
	if err != nil {
		return nil, Report{}, err
	}
	p := newParser(name, s, overrideTable)
	top := cursor{p: p, node: root}
	var o Override
	if root.Kind != doctree.Object {
		top.wrong(fmt.Sprintf("an override is an object, and this is %s", root.Kind), "")
	} else if root.Member("containerDefinitions") != nil || root.Member("family") != nil || root.Member("taskDefinition") != nil {
		top.wrong("this is a task definition, not an override", `an override changes a definition: {"containerOverrides": [{"name": ..., ...}]}`)
	} else {
		p.findDuplicates(root, "")
		p.leaveOut(top, "")
		p.answerObject(top, "")
		s.substitute(root)
		o = decodeOverride(top)
	}
	if o.report, err = p.result(); err != nil {
		return nil, o.report, err
	}
	return &o, o.report, nil
}

func decodeOverride(c cursor) Override {
	var o Override
	if cpu := c.at("cpu"); cpu.filled() {
		v := decodeVcpu(cpu)
		o.cpu = &v
	}
	if memory := c.at("memory"); memory.filled() {
		v := decodeMemory(memory)
		o.memory = &v
	}
	o.storage = decodeStorage(c.at("ephemeralStorage"))
	o.taskRole, o.executionRole = c.at("taskRoleArn").str(), c.at("executionRoleArn").str()
	const fix = `write a list of {"name": ...}`
	all := c.at("containerOverrides")
	items := all.list(fix)
	if len(items) > hostileContainers {
		all.wrong(fmt.Sprintf("there are %d overrides, and a task has at most %d containers", len(items), maxContainers), "")
		return o
	}
	for _, item := range items {
		if item.want(doctree.Object, fix) {
			o.containers = append(o.containers, decodeContainerOverride(item, o.containers))
		}
	}
	return o
}

func decodeContainerOverride(c cursor, before []containerOverride) containerOverride {
	name := c.at("name")
	o := containerOverride{
		name:        name.str(),
		command:     decodeWords(c.at("command")),
		environment: decodeEnvironment(c.at("environment")),
		files:       decodeEnvironmentFiles(c.at("environmentFiles")),
		cpu:         decodeNumber(c.at("cpu"), 0, 1),
		memory:      decodeMemoryOverride(c.at("memory")),
		reservation: decodeMemoryOverride(c.at("memoryReservation")),
		gpus:        decodeGPUs(c.at("resourceRequirements"), -1),
	}
	switch {
	case name.failed():
	case o.name == "":
		c.wrong("name is missing", "name the container to change")
	case slices.ContainsFunc(before, func(b containerOverride) bool { return b.name == o.name }):
		name.wrong("there are two overrides for "+quote(o.name), "write one")
	default:
		o.place = c.p.problem(name.ptr, name.node.Line, name.node.Col, "", "")
	}
	return o
}

// decodeNumber decodes a whole number of at least least, times unit; nil for an absent
// one.
func decodeNumber(c cursor, least, unit int64) *int64 {
	if !c.filled() {
		return nil
	}
	v := c.integer(least, 0) * unit
	return &v
}

// decodeMemoryOverride decodes an amount of memory; nil for an absent one, or 0.
func decodeMemoryOverride(c cursor) *int64 {
	v := decodeMebibytes(c)
	if v == 0 {
		return nil
	}
	return &v
}

// override applies the override of the settings to t.
func (p *parser) override(t *Task) {
	o := p.settings.Override
	if o == nil {
		return
	}
	p.warnings = append(p.warnings, o.report.Warnings...)
	p.needs = append(p.needs, o.report.Needs...)
	p.resolved = append(p.resolved, o.report.References...)
	for _, r := range o.report.References {
		p.used[r.rule] = true
	}
	t.CPU = orElse(o.cpu, t.CPU)
	t.Memory = orElse(o.memory, t.Memory)
	t.EphemeralStorage = cmp.Or(o.storage, t.EphemeralStorage)
	t.Identity.TaskRoleARN = cmp.Or(o.taskRole, t.Identity.TaskRoleARN)
	t.Identity.ExecutionRoleARN = cmp.Or(o.executionRole, t.Identity.ExecutionRoleARN)
	for _, co := range o.containers {
		i, ok := t.Index(co.name)
		if !ok {
			wrong := co.place
			wrong.Message, wrong.Fix = "no container named "+quote(co.name), whichContainer(*t, co.name)
			p.problems = append(p.problems, wrong)
			continue
		}
		t.Containers[i] = co.apply(t.Containers[i])
	}
}

func (o containerOverride) apply(c Container) Container {
	if o.command != nil {
		c.Command, c.Extensions.EmptyCommand = o.command, false
	}
	if o.files != nil {
		c.EnvironmentFiles = o.files
	}
	c.CPU = orElse(o.cpu, c.CPU)
	c.Memory = orElse(o.memory, c.Memory)
	c.MemoryReservation = orElse(o.reservation, c.MemoryReservation)
	if o.gpus >= 0 {
		c.Linux.GPUs = o.gpus
	}
	return c.withEnv(o.environment)
}

func orElse[T any](v *T, otherwise T) T {
	if v != nil {
		return *v
	}
	return otherwise
}
