package firelens

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

// Router describes the log router of a task: a fluentd or fluent-bit that other containers log to.
type Router struct {
	// Fluentd: it is a fluentd, else a fluent-bit.
	Fluentd bool
	// Bind is the address for the forward protocol; empty: on its socket only.
	Bind string
	// Memory in MiB bounds the buffer of a fluent-bit; 0: not known.
	Memory int64
	// Metadata are added to each record.
	Metadata map[string]string
	// Include is a file of more configuration, in the router; empty: none.
	Include string
	// Outputs lists the outputs of the containers, in the order of the definition.
	Outputs []Output
}

// Output is the destination of a container's lines.
type Output struct {
	Container string
	// Options are options of the log driver, with references in place of secrets.
	Options map[string]string
}

// What the router of a task listens on.
const (
	Socket = "/var/run/fluent.sock"
	Port   = "24224"
)

// SecretVariable is the variable of the router with the secret option of container i, and what
// stands for it in the configuration.
func SecretVariable(fluentd bool, option string, i int) (name, reference string) {
	name = fmt.Sprintf("%s_%d", option, i)
	if fluentd {
		return name, fmt.Sprintf(`"#{ENV['%s']}"`, name)
	}
	return name, "${" + name + "}"
}

// Config is the router's configuration, byte for byte as the ECS agent writes it
// (firelensconfig_unix.go of amazon-ecs-agent, with awslabs' config generator).
func (r Router) Config() []byte {
	w := &routerText{fluentd: r.Fluentd}
	w.inputs(r)
	for _, o := range r.Outputs {
		w.filter(o, logdriver.FireLensInclude)
	}
	for _, o := range r.Outputs {
		w.filter(o, logdriver.FireLensExclude)
	}
	if len(r.Metadata) > 0 {
		w.metadata(r.Metadata)
	}
	if r.Include != "" {
		w.line("\n%s %s", map[bool]string{true: "@include", false: "@INCLUDE"}[r.Fluentd], r.Include)
	}
	if !r.Fluentd && r.Bind != "" {
		w.section("OUTPUT", "null", healthTag, nil)
	}
	for _, o := range r.Outputs {
		name := o.Options[logdriver.FireLensPlugin(r.Fluentd)]
		if name == "" {
			continue // the router's own configuration has it
		}
		options := maps.Clone(o.Options)
		for _, other := range []string{logdriver.FireLensPlugin(r.Fluentd), logdriver.FireLensInclude, logdriver.FireLensExclude, logdriver.FireLensBuffer} {
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

func (w *routerText) inputs(r Router) {
	if r.Fluentd {
		w.section("INPUT", "unix", "", map[string]string{"path": Socket})
		if r.Bind != "" {
			w.section("INPUT", "forward", "", map[string]string{"bind": r.Bind, "port": Port})
		}
		return
	}
	limit := r.Memory / 2
	if limit <= 0 {
		limit = memoryLimit
	}
	w.section("INPUT", "forward", "", map[string]string{"unix_path": Socket, "Mem_Buf_Limit": fmt.Sprintf("%dMB", limit)})
	if r.Bind != "" {
		w.section("INPUT", "forward", "", map[string]string{"Listen": r.Bind, "Port": Port})
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
func (w *routerText) filter(o Output, option string) {
	pattern, given := o.Options[option]
	if !given {
		return
	}
	if w.fluentd {
		kind := map[string]string{logdriver.FireLensInclude: "regexp", logdriver.FireLensExclude: "exclude"}[option]
		w.line("\n<filter %s>\n    @type  grep\n    <%s>\n        key log\n        pattern %s\n    </%s>\n</filter>", w.match(o.Container), kind, pattern, kind)
		return
	}
	kind := map[string]string{logdriver.FireLensInclude: "Regex ", logdriver.FireLensExclude: "Exclude"}[option]
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
