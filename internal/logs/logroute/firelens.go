package logroute

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// FireLens describes the router of a task: a fluentd or fluent-bit that other containers log to.
type FireLens struct {
	// Fluentd: it is a fluentd, else a fluent-bit.
	Fluentd bool
	// Bind is where it listens for the forward protocol; empty: on its socket only.
	Bind string
	// Memory in MiB bounds the buffer of a fluent-bit; 0: not known.
	Memory int64
	// Metadata are added to each record.
	Metadata map[string]string
	// Include is a file of more configuration, in the router; empty: none.
	Include string
	// Outputs are those of the containers, in the order of the definition.
	Outputs []RouterOutput
}

// RouterOutput is where the router sends the lines of a container.
type RouterOutput struct {
	Container string
	// Options are those of the log driver, with references in place of secrets.
	Options map[string]string
}

// What the router of a task listens on.
const (
	RouterSocket = "/var/run/fluent.sock"
	RouterPort   = "24224"
)

// Options of the log driver awsfirelens that are not the output's.
const (
	routerInclude = "include-pattern"
	routerExclude = "exclude-pattern"
	routerBuffer  = "log-driver-buffer-limit"
)

// RouterOutputName is the option that names the plug-in of an output.
func RouterOutputName(fluentd bool) string {
	if fluentd {
		return "@type"
	}
	return "Name"
}

// RouterTag is the tag of the lines of a container.
func RouterTag(container, task string) string { return container + "-firelens-" + task }

// SecretVariable is the variable of the router with the secret option of container i, and what
// stands for it in the configuration.
func SecretVariable(fluentd bool, option string, i int) (name, reference string) {
	name = fmt.Sprintf("%s_%d", option, i)
	if fluentd {
		return name, fmt.Sprintf(`"#{ENV['%s']}"`, name)
	}
	return name, "${" + name + "}"
}

// NeedsOutputName reports whether the options of a container set up an output without naming it.
func NeedsOutputName(fluentd bool, options map[string]string) bool {
	if options[RouterOutputName(fluentd)] != "" {
		return false
	}
	for name := range options {
		if name != routerInclude && name != routerExclude && name != routerBuffer {
			return true
		}
	}
	return false
}

// Config is the router's configuration, byte for byte as the ECS agent writes it
// (firelensconfig_unix.go of amazon-ecs-agent, with awslabs' config generator).
func (f FireLens) Config() []byte {
	w := &routerText{fluentd: f.Fluentd}
	w.inputs(f)
	for _, o := range f.Outputs {
		w.filter(o, routerInclude)
	}
	for _, o := range f.Outputs {
		w.filter(o, routerExclude)
	}
	if len(f.Metadata) > 0 {
		w.metadata(f.Metadata)
	}
	if f.Include != "" {
		w.line("\n%s %s", map[bool]string{true: "@include", false: "@INCLUDE"}[f.Fluentd], f.Include)
	}
	if !f.Fluentd && f.Bind != "" {
		w.section("OUTPUT", "null", healthTag, nil)
	}
	for _, o := range f.Outputs {
		name := o.Options[RouterOutputName(f.Fluentd)]
		if name == "" {
			continue // the router's own configuration has it
		}
		options := maps.Clone(o.Options)
		for _, other := range []string{RouterOutputName(f.Fluentd), routerInclude, routerExclude, routerBuffer} {
			delete(options, other)
		}
		w.section("OUTPUT", name, w.match(o.Container), options)
	}
	return []byte(w.String())
}

const (
	healthTag  = "firelens-healthcheck"
	healthPort = "8877"
	// memoryLimit in MiB is the buffer of a router whose memory is not known.
	memoryLimit = 25
)

// routerText is a configuration in one of the two languages.
type routerText struct {
	strings.Builder
	fluentd bool
}

func (w *routerText) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

// match is the pattern of the tags of a container.
func (w *routerText) match(container string) string {
	if w.fluentd {
		return container + "-firelens**"
	}
	return container + "-firelens*"
}

func (w *routerText) inputs(f FireLens) {
	if f.Fluentd {
		w.section("INPUT", "unix", "", map[string]string{"path": RouterSocket})
		if f.Bind != "" {
			w.section("INPUT", "forward", "", map[string]string{"bind": f.Bind, "port": RouterPort})
		}
		return
	}
	limit := f.Memory / 2
	if limit <= 0 {
		limit = memoryLimit
	}
	w.section("INPUT", "forward", "", map[string]string{"unix_path": RouterSocket, "Mem_Buf_Limit": fmt.Sprintf("%dMB", limit)})
	if f.Bind != "" {
		w.section("INPUT", "forward", "", map[string]string{"Listen": f.Bind, "Port": RouterPort})
		w.section("INPUT", "tcp", healthTag, map[string]string{"Listen": "127.0.0.1", "Port": healthPort})
	}
}

// section writes an input or an output.
func (w *routerText) section(kind, name, tag string, options map[string]string) {
	end := ""
	switch {
	case !w.fluentd:
		w.line("\n[%s]\n    Name %s", kind, name)
		if tag != "" {
			w.line("    %s %s", map[string]string{"INPUT": "Tag", "OUTPUT": "Match"}[kind], tag)
		}
	case kind == "INPUT":
		w.line("\n<source>\n    @type %s", name)
		end = "</source>"
	default:
		w.line("\n<match %s>\n    @type %s", tag, name)
		end = "</match>"
	}
	for _, option := range slices.Sorted(maps.Keys(options)) {
		w.line("    %s %s", option, options[option])
	}
	if end != "" {
		w.line("%s", end)
	}
}

// filter writes the filter of a container's lines by a pattern.
func (w *routerText) filter(o RouterOutput, option string) {
	pattern, given := o.Options[option]
	if !given {
		return
	}
	if w.fluentd {
		kind := map[string]string{routerInclude: "regexp", routerExclude: "exclude"}[option]
		w.line("\n<filter %s>\n    @type  grep\n    <%s>\n        key log\n        pattern %s\n    </%s>\n</filter>", w.match(o.Container), kind, pattern, kind)
		return
	}
	kind := map[string]string{routerInclude: "Regex ", routerExclude: "Exclude"}[option]
	w.line("\n[FILTER]\n    Name   grep\n    Match %s\n    %s log %s", w.match(o.Container), kind, pattern)
}

func (w *routerText) metadata(members map[string]string) {
	if w.fluentd {
		w.line("\n<filter **>\n    @type record_transformer\n    <record>")
		for _, name := range slices.Sorted(maps.Keys(members)) {
			w.line("        %s %s", name, members[name])
		}
		w.line("    </record>\n</filter>")
		return
	}
	w.line("\n[FILTER]\n    Name record_modifier\n    Match *")
	for _, name := range slices.Sorted(maps.Keys(members)) {
		w.line("    Record %s %s", name, members[name])
	}
}
