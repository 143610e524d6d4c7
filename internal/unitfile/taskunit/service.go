package taskunit

import (
	"path"
	"slices"
	"strings"

	"github.com/containers/podman/v5/pkg/systemd/parser"
)

// serviceWriter writes the [Service] section of a conversion.
type serviceWriter struct{ *conversion }

// write writes [Service]: ours first, so that the author's assignments win.
func (c *serviceWriter) write() {
	theirs := c.source.entries(serviceSection)
	task := c.source.entries(taskSection)
	notify := c.notify(task)
	kind, notify := c.kind(theirs, notify)
	if e, ok := last(task, "AutoUpdate"); ok && notify == "no" {
		c.wrong(e.place, "AutoUpdate=%s: a failed update would not be detected, because the start of the service waits for nothing: remove Notify=no and Type=", e.value)
	}
	if e, ok := last(task, "MinimumAge"); ok && e.value != "0" {
		if l, locked := last(task, "Locked"); locked && l.value != "false" {
			c.wrong(e.place, "MinimumAge=%s: Locked=%s keeps the images as they are, so nothing is updated: remove one of them", e.value, l.value)
		}
	}
	name := c.taskName(task)

	c.out.Add(serviceSection, "Type", kind)
	// For every type: time-outs are extended and the watchdog is fed by messages.
	c.out.Add(serviceSection, "NotifyAccess", "main")
	// The containers are in a slice of their own. What podtask may leave here is
	// Podman's API service, which other tasks use too.
	c.out.Add(serviceSection, "KillMode", "process")
	if kind != oneshot {
		c.out.Add(serviceSection, "WatchdogSec", "2min")
	}
	c.out.Add(serviceSection, "SyslogIdentifier", "%N")
	c.out.Add(serviceSection, "Environment", "PODMAN_SYSTEMD_UNIT=%n")
	global, run := c.flags(task)
	program := literal(noSpecifiers(c.Program))
	start := slices.Concat([]string{program}, global, []string{"run", "--name=" + name, "--replace", "--rm", "--notify=" + notify}, run, []string{c.definition(task)})
	c.out.AddCmdline(serviceSection, "ExecStart", start)
	if _, has := last(theirs, "ExecReload"); !has && kind != oneshot {
		c.out.AddCmdline(serviceSection, "ExecReload", []string{"/bin/kill", "-HUP", "$MAINPID"})
	}
	// When podtask was killed, the containers have survived it.
	c.out.Add(serviceSection, "ExecStopPost", "-"+cmdline(slices.Concat([]string{program}, global, []string{"rm", "--force", "--ignore", name})))
	for _, e := range theirs {
		if c.allowed(e) {
			c.out.Add(serviceSection, e.key, e.value)
		}
	}
}

// cmdline is a command line as AddCmdline writes it.
func cmdline(args []string) string {
	f := parser.NewUnitFile()
	f.AddCmdline("-", "-", args)
	line, _ := f.LookupLast("-", "-")
	return line
}

const oneshot = "oneshot"

func (c *serviceWriter) notify(task []entry) string {
	e, ok := last(task, "Notify")
	if !ok {
		return ""
	}
	v, ok := notifies[e.value]
	if !ok {
		c.wrong(e.place, "Notify=%s: it is healthy, running or no", e.value)
	}
	return v
}

// kind returns the type of the service, and what it is notified of.
func (c *serviceWriter) kind(theirs []entry, notify string) (kind, effective string) {
	e, given := last(theirs, "Type")
	switch {
	case given && e.value == oneshot:
		if notify != "" && notify != "no" {
			c.wrong(e.place, "Type=oneshot waits for the end of the task: leave out Notify=%s", notify)
		}
		return oneshot, "no"
	case given && e.value == "exec" && notify != "healthy" && notify != "running":
		return "exec", "no"
	case given && (e.value != "notify" || notify == "no"):
		c.wrong(e.place, "Type=%s is not supported: remove it, or use oneshot for a task that runs to completion", e.value)
	}
	switch notify {
	case "no":
		return "exec", "no"
	case "":
		return "notify", "healthy"
	}
	return "notify", notify
}

// allowed reports whether an assignment of [Service] may stay.
func (c *serviceWriter) allowed(e entry) bool {
	switch {
	case e.key == "Type": // ours is written
		return false
	case slices.Contains(ownServiceKeys, e.key):
		c.wrong(e.place, "%s is set by podtask: remove it from [Service]", e.key)
	case e.key == "KillMode" && e.value != "process" && e.value != "mixed":
		c.wrong(e.place, "KillMode=%s would send signals to processes other than podtask, which stops the containers in order: remove it", e.value)
	}
	return true
}

func (c *serviceWriter) definition(task []entry) string {
	e, ok := last(task, "Definition")
	if text, inline := last(task, "DefinitionText"); inline {
		switch {
		case ok:
			c.wrong(text.place, "[Task] has Definition= and DefinitionText=: remove one of them")
		case text.path != c.source.File.Path:
			c.wrong(text.place, "DefinitionText= is read from the unit itself only: move it from the drop-in to %s", c.source.Name)
		}
		return literal(noSpecifiers(text.path))
	}
	if !ok && !c.source.has(taskSection) {
		return "" // that is reported
	}
	if !ok {
		at := e.place
		if e.key == "" {
			at = c.source.top()
		}
		c.wrong(at, "[Task] has no Definition=: name the task definition's file, or write the definition in DefinitionText=")
		return ""
	}
	if registered(e.value) {
		return literal(e.value)
	}
	return literal(forSystemd(e.path, e.value))
}

// registered reports whether the value of Definition= is FAMILY[:REVISION] and no
// path: a path has a dot, a slash or a specifier.
func registered(value string) bool { return !strings.ContainsAny(value, "./%") }

// taskName is the task's name: TaskName, else the unit's, with a dash and the
// instance of a template behind it.
func (c *serviceWriter) taskName(task []entry) string {
	e, given := last(task, "TaskName")
	name, at := e.value, e.place
	if !given {
		base, instance, template := strings.Cut(strings.TrimSuffix(c.source.Name, path.Ext(c.source.Name)), "@")
		name, at = base, c.source.top()
		switch {
		case template && instance == "":
			name += "-%i"
		case template:
			name += "-" + instance
		}
	}
	plain := strings.NewReplacer("%i", "", "%I", "", "%n", "", "%N", "", "%p", "", "%P", "", "%j", "", "%J", "", "%u", "", "%U", "", "%H", "", "%l", "").Replace(name)
	if !validTaskName(name, plain) {
		c.wrong(at, "%q cannot be the name of a task: set TaskName= to letters, digits, dots, dashes and underscores that begin with a letter or a digit", name)
	}
	if other, taken := c.tasks[name]; taken && !strings.Contains(name, "%") {
		c.wrong(at, "the task's name %s is taken by %s: set TaskName= in one of them", name, other)
	}
	c.tasks[name] = c.source.File.Path
	return literal(name)
}

// validTaskName checks a name; plain is what it is without specifiers.
func validTaskName(name, plain string) bool {
	for i, r := range plain {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !letter && (i == 0 && name == plain || !strings.ContainsRune("_.-", r)) {
			return false
		}
	}
	return name != "" && len(name) <= 255
}

// flags returns the flags of podtask, and those of its verb run.
func (c *serviceWriter) flags(task []entry) (global, run []string) {
	for _, k := range keys {
		entries := all(task, k.name)
		if !k.many && len(entries) > 0 {
			entries = entries[len(entries)-1:]
		}
		for _, e := range entries {
			switch {
			case k.name == "GlobalArgs":
				global = append(global, c.args(e)...)
			case k.flag != "":
				values, err := k.read(c.joined(e))
				if err != nil {
					c.wrong(e.place, "%v", err)
				}
				for _, v := range values {
					run = append(run, "--"+k.flag+"="+literal(v))
				}
			}
		}
	}
	for _, e := range all(task, "PodtaskArgs") {
		run = append(run, c.args(e)...)
	}
	return global, run
}

// joined replaces the file of a network, as the value of Network, by the name that the
// network has in Podman, and makes the task depend on the service that makes it.
func (c *serviceWriter) joined(e entry) entry {
	if e.key != "Network" || path.Ext(e.value) != ".network" {
		return e
	}
	s, ok := c.sources[e.value]
	if !ok {
		c.wrong(e.place, "%s=%s: there is no such file in the unit directories", e.key, e.value)
		return e
	}
	c.out.Add(unitSection, "Requires", s.ServiceName())
	c.out.Add(unitSection, "After", s.ServiceName())
	e.value = "systemd-" + strings.TrimSuffix(e.value, ".network")
	if name, given := last(s.entries("Network"), "NetworkName"); given {
		e.value = name.value
	}
	return e
}

func (c *serviceWriter) args(e entry) []string {
	list, ok := words(e.value)
	if !ok {
		c.wrong(e.place, "%s cannot be split into words: check quotes and backslashes", e.key)
	}
	return list
}

// literal keeps systemd from taking a $ for a variable. Specifiers stay.
func literal(s string) string { return strings.ReplaceAll(s, "$", "$$") }
