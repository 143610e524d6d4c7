package taskdef

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/pkg/taskdef/doctree"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

// Target is a launch type of ECS whose own rules are applied besides. They are
// about where else the definition is to run, never about this host.
type Target string

// The launch types that have rules of their own.
const (
	TargetNone    Target = ""
	TargetEC2     Target = "ec2"
	TargetFargate Target = "fargate"
	// TargetExternal is ECS Anywhere, TargetManaged ECS Managed Instances.
	TargetExternal Target = "external"
	TargetManaged  Target = "managed-instances"
)

// Targets are the launch types that have rules of their own.
var Targets = []Target{TargetEC2, TargetFargate, TargetExternal, TargetManaged}

// TargetOf returns the launch type that a word of requiresCompatibilities names.
func TargetOf(compatibility string) (Target, bool) {
	t := Target(strings.ReplaceAll(strings.ToLower(compatibility), "_", "-"))
	return t, slices.Contains(Targets, t)
}

// externalForbids are the members that a task on an external instance cannot have (the developer
// guide's page on ECS Anywhere).
var externalForbids = []string{
	"ephemeralStorage", "proxyConfiguration", "inferenceAccelerators",
	"volumes[].efsVolumeConfiguration", "volumes[].fsxWindowsFileServerVolumeConfiguration",
}

// managedForbids are the members that a task on a managed instance cannot have (the developer
// guide's page on task definitions for ECS Managed Instances).
var managedForbids = []string{
	"inferenceAccelerators", "volumes[].fsxWindowsFileServerVolumeConfiguration", inContainer + "links",
}

// fargateForbids are the members that a task on Fargate cannot have (the ECS
// model's documentation of each, and the developer guide's page on Fargate).
var fargateForbids = []string{
	"ipcMode", "placementConstraints", "inferenceAccelerators",
	"volumes[].dockerVolumeConfiguration", "volumes[].host.sourcePath", "volumes[].fsxWindowsFileServerVolumeConfiguration",
	inContainer + "credentialSpecs", inContainer + "dnsSearchDomains", inContainer + "dnsServers", inContainer + "dockerSecurityOptions",
	inContainer + "extraHosts", inContainer + "hostname", inContainer + "links", inContainer + "resourceRequirements",
	inContainer + "linuxParameters.devices", inContainer + "linuxParameters.maxSwap",
	inContainer + "linuxParameters.sharedMemorySize", inContainer + "linuxParameters.swappiness",
}

// ec2Forbids are the members that only a task on Fargate can have.
var ec2Forbids = []string{"ephemeralStorage"}

// fargateSizes are the amounts of memory for each amount of cpu: from least to
// most GiB in steps. The smallest has half a GiB besides.
var fargateSizes = []struct{ units, least, most, step int64 }{
	{256, 1, 2, 1}, {512, 1, 4, 1}, {1024, 2, 8, 1}, {2048, 4, 16, 1}, {4096, 8, 30, 1}, {8192, 16, 60, 4}, {16384, 32, 120, 8},
}

// answerTargets applies the rules of the launch types that the settings name.
func (p *parser) answerTargets(def cursor, t Task) {
	targets := []Target{p.settings.Target}
	if list := def.node.Member("requiresCompatibilities"); p.settings.Compatibilities && list != nil {
		for _, item := range list.Items {
			if target, known := TargetOf(item.Text); known && !slices.Contains(targets, target) {
				targets = append(targets, target)
			}
		}
	}
	for _, target := range targets {
		p.answerTarget(def, t, target)
	}
	if len(targets) > 1 { // some rules are those of several
		p.problems = withoutRepeats(p.problems)
	}
}

// answerTarget applies the rules of a launch type.
func (p *parser) answerTarget(def cursor, t Task, target Target) {
	forbids := map[Target][]string{
		TargetEC2: ec2Forbids, TargetFargate: fargateForbids, TargetExternal: externalForbids, TargetManaged: managedForbids,
	}[target]
	for _, path := range forbids {
		forEach(def, strings.Split(path, "."), func(c cursor) {
			if !c.node.Empty() {
				c.wrong(path[strings.LastIndexByte(path, '.')+1:]+" is not supported on "+target.words(), "remove it, or aim at another launch type")
			}
		})
	}
	var found []finding
	r := rules{found: &found}
	switch target {
	case TargetEC2, TargetExternal:
		checkEc2(r, t)
		if target == TargetExternal {
			r.in("networkMode").require(t.Network != NetworkAWSVPC, "write bridge, host or none", "networkMode awsvpc is not supported on external instances")
		}
	case TargetManaged:
		checkReservations(r, t)
		r.in("networkMode").require(t.Network != NetworkBridge, "write awsvpc, host or none", "networkMode bridge is not supported on managed instances")
	case TargetFargate:
		checkFargate(r, t)
	}
	for _, f := range found {
		p.addFinding(def, f)
	}
}

// withoutRepeats returns the problems, each once.
func withoutRepeats(all []Problem) (kept []Problem) {
	for _, problem := range all {
		if !slices.Contains(kept, problem) {
			kept = append(kept, problem)
		}
	}
	return kept
}

func (t Target) words() string {
	return map[Target]string{TargetEC2: "EC2", TargetFargate: "Fargate", TargetExternal: "external instances", TargetManaged: "managed instances"}[t]
}

// forEach calls f for every value at a path of the table.
func forEach(c cursor, path []string, f func(cursor)) {
	if len(path) == 0 {
		f(c)
		return
	}
	name, inList := strings.CutSuffix(path[0], "[]")
	next := c.at(name)
	switch {
	case !next.present():
	case !inList:
		forEach(next, path[1:], f)
	case next.node.Kind == doctree.List:
		for i := range next.node.Items {
			forEach(next.step(strconv.Itoa(i)), path[1:], f)
		}
	}
}

func checkEc2(r rules, t Task) {
	for i, c := range t.Containers {
		r.in("containerDefinitions").item(i).in("memory").require(t.Memory > 0 || c.Memory > 0 || c.MemoryReservation > 0,
			"give memory or memoryReservation, or the task memory", "on EC2 a container needs memory or memoryReservation where the task has no memory")
	}
	checkReservations(r, t)
}

// checkReservations compares the requests of the containers with the limits of the task.
func checkReservations(r rules, t Task) {
	var units, bytes int64
	for _, c := range t.Containers {
		units += c.CPU
		if c.MemoryReservation > 0 {
			bytes += c.MemoryReservation
		} else {
			bytes += c.Memory
		}
	}
	r.in("cpu").require(t.CPU == 0 || float64(units) <= t.CPU*unitsPerVCPU, "raise it, or lower that of the containers",
		"the containers ask for %d cpu units, more than the %v of the task", units, t.CPU*unitsPerVCPU)
	r.in("memory").require(t.Memory == 0 || bytes <= t.Memory, "raise it, or lower that of the containers",
		"the containers reserve %d MiB, more than the %d MiB of the task", bytes/mib, t.Memory/mib)
}

func checkFargate(r rules, t Task) {
	r.in("networkMode").require(t.Network == NetworkAWSVPC, `write "networkMode": "awsvpc"`, "Fargate has networkMode \"awsvpc\" only, not %q", t.Network)
	r.in("pidMode").require(t.PIDMode != PIDHost, `use "task"`, "Fargate has no pidMode \"host\"")
	checkFargateSize(r, t)
	checkReservations(r, t)
	for i, c := range t.Containers {
		checkFargateContainer(r.in("containerDefinitions").item(i), c)
	}
}

func checkFargateContainer(r rules, c Container) {
	r.in("privileged").require(!c.Privileged, "remove it, or aim at another launch type", "privileged is not supported on Fargate")
	r.in("disableNetworking").require(!c.Net.Disabled, "remove it, or aim at another launch type", "disableNetworking is not supported on Fargate")
	for i, name := range c.Linux.CapAdd {
		r.in("linuxParameters").in("capabilities").in("add").item(i).require(name == "SYS_PTRACE", "", "Fargate adds SYS_PTRACE only, not %s", quote(name))
	}
	for i, l := range c.Linux.Ulimits {
		r.in("ulimits").item(i).in("name").require(l.Name == "nofile", "", "Fargate sets nofile only, not %s", quote(l.Name))
	}
	drivers := slices.DeleteFunc(logDriverNames(), func(name string) bool { return !logdriver.Driver(name).Fargate() })
	r.in("logConfiguration").in("logDriver").require(c.Log == nil || c.Log.Driver.Fargate(), "use "+strings.Join(drivers, ", "), "Fargate has no such log driver")
	if c.Log != nil && c.Log.Driver == logdriver.AWSLogs {
		for _, option := range []string{"awslogs-group", "awslogs-region", "awslogs-stream-prefix"} {
			r.in("logConfiguration").in("options").require(c.Log.Options[option] != "", "give it", "on Fargate the log driver awslogs needs the option %s", option)
		}
	}
	for _, limit := range []struct {
		member string
		value  time.Duration
	}{{"startTimeout", c.StartTimeout}, {"stopTimeout", c.StopTimeout}} {
		if limit.value != 0 {
			r.in(limit.member).within(seconds(limit.value), 2, 120, " seconds on Fargate")
		}
	}
}

func checkFargateSize(r rules, t Task) {
	r.in("cpu").require(t.CPU > 0, "", "Fargate needs the cpu of the task")
	r.in("memory").require(t.Memory > 0, "", "Fargate needs the memory of the task")
	if t.CPU == 0 || t.Memory == 0 {
		return
	}
	var all []string
	for _, s := range fargateSizes {
		all = append(all, strconv.FormatInt(s.units, 10))
		if float64(s.units) != t.CPU*unitsPerVCPU {
			continue
		}
		const gib = 1 << 30
		whole := t.Memory%(s.step*gib) == 0 && s.least*gib <= t.Memory && t.Memory <= s.most*gib
		words := fmt.Sprintf("%d to %d GB in steps of %d", s.least, s.most, s.step)
		if s.units == 256 {
			words = "0.5, 1 or 2 GB"
			whole = whole || t.Memory == gib/2
		}
		r.in("memory").require(whole, "use "+words, "with %d cpu units Fargate has no %d MiB of memory", s.units, t.Memory/mib)
		return
	}
	r.in("cpu").require(false, "use "+strings.Join(all, ", "), "Fargate has no size of %v cpu units", t.CPU*unitsPerVCPU)
}
