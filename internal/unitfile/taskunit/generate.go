package taskunit

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/containers/podman/v5/pkg/systemd/parser"
)

// Service is a generated service, or the timer or socket that starts one.
type Service struct {
	// Name is the file's name: "web-task.service", "web-task.timer", "web-task.socket".
	Name string
	// Text is the file's content.
	Text string
	// Links are the symbolic links that [Install] asks for.
	Links []Link
	// Source is the path of the .task file.
	Source string
}

// Link is a symbolic link in the directory of generated units.
type Link struct {
	// Path and Target are relative: "default.target.wants/web-task.service" and
	// "../web-task.service".
	Path, Target string
}

// Options say how services are generated.
type Options struct {
	// Program is podtask: an absolute path, or a name that systemd looks up.
	Program string
	// Generator is named in the first line of each file.
	Generator string
	// Notices: the configuration has [[notify]], so a service that fails starts what tells of it.
	Notices bool
}

// noticeService tells of what has happened, where no agent does.
const noticeService = "podtask-notify.service"

// Generate makes the services of the .task files among the sources. The others,
// Quadlet's, are there for their names only. A unit with a problem that is no
// warning gets no service. Services are in the order of the sources, problems in
// that of their places.
func Generate(sources []Source, o Options) ([]Service, []Problem) {
	g := generator{Options: o, sources: make(map[string]Source, len(sources)), made: map[string]string{}, tasks: map[string]string{}}
	for _, s := range sources {
		g.sources[s.Name] = s
	}
	g.claim(sources)
	var services []Service
	var problems []Problem
	for _, s := range sources {
		if path.Ext(s.Name) != Extension || s.File.Empty() {
			continue
		}
		c := conversion{generator: &g, source: s, out: parser.NewUnitFile()}
		made := slices.Concat([]Service{c.convert()}, c.timer(), c.socket())
		if !slices.ContainsFunc(c.problems, func(p Problem) bool { return !p.Warning }) {
			services = append(services, made...)
		}
		problems = append(problems, c.problems...)
	}
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line))
	})
	return services, slices.Compact(problems)
}

type generator struct {
	Options
	sources map[string]Source
	// made and tasks are the services and the names of tasks that are taken, and
	// by which file.
	made, tasks map[string]string
}

// claim notes which file makes which service: those of Quadlet first, with their
// aliases, as ours give way, and then ours, so that an alias of one never takes the name
// of another.
func (g *generator) claim(sources []Source) {
	take := func(name, path string) {
		if g.made[name] == "" {
			g.made[name] = path
		}
	}
	for _, s := range sources {
		if path.Ext(s.Name) == Extension || s.File.Empty() {
			continue
		}
		take(s.ServiceName(), s.File.Path)
		for _, e := range all(s.entries(installSection), "Alias") {
			for _, name := range strings.Fields(e.value) {
				take(name, s.File.Path)
			}
		}
	}
	for _, s := range sources {
		if path.Ext(s.Name) == Extension && !s.File.Empty() {
			take(s.ServiceName(), s.File.Path)
		}
	}
}

// conversion is the conversion of one unit.
type conversion struct {
	*generator
	source   Source
	out      *parser.UnitFile
	problems []Problem
}

func (c *conversion) wrong(at place, format string, args ...any) {
	c.problems = append(c.problems, Problem{Path: at.path, Line: at.line, Message: fmt.Sprintf(format, args...)})
}

func (c *conversion) warn(at place, format string, args ...any) {
	c.problems = append(c.problems, Problem{Path: at.path, Line: at.line, Message: fmt.Sprintf(format, args...), Warning: true})
}

func (c *conversion) convert() Service {
	for _, f := range c.source.files() {
		c.problems = append(c.problems, f.problems...)
	}
	c.checkSections()
	c.checkKeys()
	name := c.source.service() + ".service"
	c.checkServiceName(name)
	c.comment()
	c.unit()
	c.copySection(taskSection, "X-"+taskSection)
	(&serviceWriter{c}).write()
	c.copySection(installSection, installSection)
	for _, section := range c.source.otherSections() {
		c.copySection(section, section)
	}
	links := c.links(name)
	text, _ := c.out.ToString() // writing to memory does not fail
	return Service{Name: name, Text: text, Links: links, Source: c.source.File.Path}
}

// timer returns the timer of a unit with OnCalendar=. It starts with the user manager, and the service with it.
func (c *conversion) timer() []Service {
	task := c.source.entries(taskSection)
	times := all(task, "OnCalendar")
	persistent, given := last(task, "Persistent")
	switch {
	case given && len(times) == 0:
		c.wrong(persistent.place, "Persistent= makes up for times of OnCalendar=, which is missing")
	case given && persistent.value != "true" && persistent.value != "false":
		c.wrong(persistent.place, "Persistent=%s: it is true or false", persistent.value)
	}
	if len(times) == 0 {
		return nil
	}
	if strings.Contains(c.source.service(), "@") {
		c.wrong(times[0].place, "OnCalendar= is not for a template or an instance: write a timer for it, see systemd.timer(5)")
	}
	name := c.source.service() + ".timer"
	out := conversion{generator: c.generator, source: c.source, out: parser.NewUnitFile()}
	out.comment()
	for _, e := range times {
		out.out.Add("Timer", "OnCalendar", e.value)
	}
	out.out.Add("Timer", "AccuracySec", "1s")
	if persistent.value == "true" {
		out.out.Add("Timer", "Persistent", "true")
	}
	text, _ := out.out.ToString() // writing to memory does not fail
	return []Service{{Name: name, Text: text, Links: []Link{{Path: "timers.target.wants/" + name, Target: "../" + name}}, Source: c.source.File.Path}}
}

func (c *conversion) comment() {
	path, err := Escape(c.source.File.Path)
	if err != nil {
		c.wrong(c.source.top(), "the path of the unit cannot be written to a service: %v", err)
	}
	c.out.Add(unitSection, "SourcePath", path)
	by := c.Generator
	if CheckValue(by) != nil {
		by = strconv.Quote(by)
	}
	c.out.AddComment(unitSection, generated+by)
}

// generated begins the first line of a generated file.
const generated = "Automatically generated for podtask by "

// Generated reports whether the text of a file is that of a Service.
func Generated(text string) bool { return strings.HasPrefix(text, "# "+generated) }

// checkSections reports sections that are missing or that cannot be meant.
func (c *conversion) checkSections() {
	found := c.source.has(taskSection)
	for _, f := range c.source.files() {
		for _, at := range f.sections {
			switch {
			case slices.Contains([]string{taskSection, unitSection, serviceSection, installSection, quadletSection}, at.section):
			case strings.HasPrefix(at.section, "X-"):
			case groupOfQuadlet(at.section):
				found = true // one mistake is reported once
				c.wrong(at, "[%s] is not allowed in a .task file: the containers of a task are in its Definition, which [Task] names", at.section)
			default:
				c.warn(at, "section [%s] is unknown to podtask and systemd%s", at.section,
					didYouMean(at.section, []string{unitSection, taskSection, serviceSection, installSection}))
			}
		}
	}
	if !found {
		c.wrong(c.source.top(), "section [Task], which contains the Definition, is missing")
	}
}

// has reports whether the unit or a drop-in has a section.
func (s Source) has(section string) bool {
	for _, f := range s.files() {
		for _, at := range f.sections {
			if at.section == section {
				return true
			}
		}
	}
	return false
}

func groupOfQuadlet(section string) bool {
	for ext, g := range groups {
		if g == section && ext != Extension {
			return true
		}
	}
	return false
}

// otherSections returns the sections that go through as they are.
func (s Source) otherSections() []string {
	var out []string
	for _, f := range s.files() {
		for _, at := range f.sections {
			own := slices.Contains([]string{unitSection, taskSection, serviceSection, installSection, quadletSection}, at.section)
			if !own && !slices.Contains(out, at.section) {
				out = append(out, at.section)
			}
		}
	}
	return out
}

// checkKeys reports keys that do not exist.
func (c *conversion) checkKeys() {
	for section, known := range map[string][]string{taskSection: Keys(), installSection: installKeys, quadletSection: quadletKeys} {
		for _, e := range c.source.entries(section) {
			if !slices.Contains(known, e.key) && !strings.HasPrefix(e.key, "X-") {
				c.wrong(e.place, "there is no key %s in [%s]%s", e.key, section, didYouMean(e.key, known))
			}
		}
	}
}

// checkServiceName reports a name that systemd refuses or that is taken.
func (c *conversion) checkServiceName(name string) {
	if i := strings.IndexFunc(name, func(r rune) bool { return !validInName(r) }); i >= 0 {
		c.wrong(c.source.top(), "%q cannot be the name of a unit: use letters, digits and any of : - _ . \\ @", name)
	}
	if e, ok := last(c.source.entries(taskSection), "ServiceName"); ok && strings.HasSuffix(e.value, ".service") {
		c.wrong(e.place, "ServiceName=%s: leave out .service", e.value)
	}
	if other := c.made[name]; other != c.source.File.Path {
		c.wrong(c.source.top(), "%s makes %s already: set ServiceName= in one of them", other, name)
	}
}

// validInName: see VALID_CHARS in systemd.unit(5).
func validInName(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(`:-_.\@`, r)
}

// unit writes [Unit]: ours first, then what the author has.
func (c *conversion) unit() {
	if c.defaultDependencies() {
		// The first waits for the network; it is there from Podman 5.3 on.
		c.out.Add(unitSection, "Wants", "podman-user-wait-network-online.service podman.socket")
		// Not after podman.service, which ends when idle: its start would wait until this unit has
		// stopped, for which the service is needed.
		c.out.Add(unitSection, "After", "podman-user-wait-network-online.service podman.socket")
	}
	c.out.Add(unitSection, "RequiresMountsFor", "%t/containers")
	if c.Notices {
		c.out.Add(unitSection, "OnFailure", noticeService)
	}
	if c.source.listens() {
		c.out.Add(unitSection, "StopWhenUnneeded", "yes")
	}
	for _, e := range c.source.entries(unitSection) {
		value := e.value
		if slices.Contains(dependencyKeys, e.key) {
			value = c.translate(e)
		}
		c.out.Add(unitSection, e.key, value)
	}
}

func (c *conversion) defaultDependencies() bool {
	e, ok := last(c.source.entries(quadletSection), "DefaultDependencies")
	if !ok {
		return true
	}
	switch strings.ToLower(e.value) {
	case "1", "yes", "true", "on":
		return true
	case "0", "no", "false", "off":
		return false
	}
	c.wrong(e.place, "DefaultDependencies=%s: it is true or false", e.value)
	return true
}

// translate replaces the names of unit files in a list by those of their services.
func (c *conversion) translate(e entry) string {
	list := strings.Fields(e.value)
	for i, name := range list {
		ext := path.Ext(name)
		if _, ok := suffixes[ext]; !ok {
			continue
		}
		s, ok := c.sources[name]
		if before, _, instance := strings.Cut(name, "@"); !ok && instance {
			s, ok = c.sources[before+"@"+ext]
		}
		if !ok {
			c.warn(e.place, "%s=%s: there is no such file in the unit directories", e.key, name)
		}
		s.Name = name
		list[i] = s.service() + ".service"
	}
	return strings.Join(list, " ")
}

// copySection copies a section as it stands.
func (c *conversion) copySection(from, to string) {
	for _, e := range c.source.entries(from) {
		c.out.Add(to, e.key, e.value)
	}
}

// links returns the links that `systemctl enable` would make; it cannot, because the service is generated. A template
// without DefaultInstance has only its aliases.
func (c *conversion) links(service string) []Link {
	entries := c.source.entries(installSection)
	var out []Link
	add := func(e entry, name, target string) {
		if strings.Contains(name, "/") || strings.Contains(name, "%") || name == "." || name == ".." {
			c.wrong(e.place, "%s=%s: give the name of a unit, without directories and specifiers", e.key, name)
			return
		}
		out = append(out, Link{Path: target, Target: service})
	}
	for _, e := range all(entries, "Alias") {
		for _, name := range strings.Fields(e.value) {
			if path.Ext(name) != ".service" {
				c.wrong(e.place, "Alias=%s: an alias of a service ends in .service", name)
				continue
			}
			if name == service {
				continue // systemd has it without a link
			}
			if other := c.made[name]; other != "" {
				c.wrong(e.place, "Alias=%s: %s makes a service of this name already", name, other)
				continue
			}
			c.made[name] = c.source.File.Path
			add(e, name, name)
		}
	}
	started := c.started(entries, service)
	c.warnOfTargets(entries)
	for _, kind := range []struct{ key, dir string }{{"WantedBy", ".wants"}, {"RequiredBy", ".requires"}, {"UpheldBy", ".upholds"}} {
		for _, e := range all(entries, kind.key) {
			for _, name := range strings.Fields(c.translate(e)) {
				if started != "" {
					add(e, name, path.Join(name+kind.dir, started))
				}
			}
		}
	}
	for i, l := range out {
		if strings.Contains(l.Path, "/") {
			out[i].Target = "../" + l.Target
		}
	}
	return out
}

// systemTargets are targets that only the systemd of the system has (systemd.special(7)).
var systemTargets = strings.Fields("multi-user graphical network network-online network-pre rescue emergency sysinit local-fs remote-fs getty boot-complete nss-lookup time-sync initrd runlevel2 runlevel3 runlevel5")

// OfSystemOnly reports whether a unit is a target that the systemd of a user does not have.
func OfSystemOnly(name string) bool {
	target, ok := strings.CutSuffix(name, ".target")
	return ok && slices.Contains(systemTargets, target)
}

// warnOfTargets warns of a unit whose targets are all those of the system, because nothing starts it.
func (c *conversion) warnOfTargets(entries []entry) {
	for _, key := range []string{"WantedBy", "RequiredBy", "UpheldBy"} {
		for _, e := range all(entries, key) {
			if slices.ContainsFunc(strings.Fields(e.value), func(name string) bool { return !OfSystemOnly(name) }) {
				return
			}
		}
	}
	for _, key := range []string{"WantedBy", "RequiredBy", "UpheldBy"} {
		for _, e := range all(entries, key) {
			c.warn(e.place, "%s=%s: the systemd of a user has no such target, so nothing starts the unit: write %s=default.target", key, e.value, key)
		}
	}
}

// started is the service that the targets of [Install] start: for a template
// its DefaultInstance, and empty without.
func (c *conversion) started(entries []entry, service string) string {
	name, instance, template := strings.Cut(strings.TrimSuffix(service, ".service"), "@")
	if !template || instance != "" {
		return service
	}
	e, ok := last(entries, "DefaultInstance")
	if !ok {
		return ""
	}
	if strings.ContainsAny(e.value, "/%@ ") {
		c.wrong(e.place, "DefaultInstance=%s: give the plain name of an instance", e.value)
	}
	return name + "@" + e.value + ".service"
}
