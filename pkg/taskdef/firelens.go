package taskdef

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
	"github.com/podtask/podtask/pkg/taskdef/refs"
)

// FireLens configures a container that is a log router.
type FireLens struct {
	// Type is fluentd or fluentbit.
	Type    string            `json:"type"`
	Options map[string]string `json:"options,omitempty"`
	// Path is the file of this host that stands in for a configuration on S3.
	Path string `json:"path,omitempty"`
}

// The options of a router.
const (
	routerMetadata  = "enable-ecs-log-metadata"
	routerFileType  = "config-file-type"
	routerFileValue = "config-file-value"
)

// Fluentd reports whether it is a fluentd, else it is a fluent-bit.
func (f *FireLens) Fluentd() bool { return f.Type == "fluentd" }

// Metadata reports whether records say which task they come from (ECS: on unless there is a value
// that is not true).
func (f *FireLens) Metadata() bool {
	text, given := f.Options[routerMetadata]
	yes, err := strconv.ParseBool(text)
	return !given || err == nil && yes
}

// Include is a file of configuration in the router; empty: none.
func (f *FireLens) Include() string {
	switch {
	case f.Options[routerFileType] == "":
		return ""
	case !f.onS3():
		return f.Options[routerFileValue]
	case f.Fluentd():
		return "/fluentd/etc/external.conf" // ECS agent, S3ConfigPathFluentd
	}
	return "/fluent-bit/etc/external.conf"
}

func (f *FireLens) onS3() bool { return f.Options[routerFileType] == "s3" }

func decodeFireLens(c cursor) *FireLens {
	if !c.filled() {
		return nil
	}
	c.want(doctree.Object, "")
	f := &FireLens{Type: c.at("type").str(), Options: c.at("options").texts()}
	mode := c.p.settings.Logs.Mode
	if value := f.Options[routerFileValue]; f.onS3() && s3ARN.MatchString(value) && (mode == LogsAuto || mode == LogsRemote) {
		at := c.at("options").at(routerFileValue)
		found, ok := lookUp(at, refs.File, refs.OfObject(value))
		path, is := strings.CutPrefix(found.Source, "file:")
		if ok && !is {
			at.wrong("the source "+quote(found.Source)+" is no file", "write file:PATH")
		}
		if is {
			f.Path = path
		}
	}
	return f
}

// RouterOf returns the container that is the log router of the task; -1 for none. With lines that
// stay on this host (LogsLocal) there is none.
func RouterOf(t Task, mode string) int {
	if mode != LogsAuto && mode != LogsRemote {
		return -1
	}
	return slices.IndexFunc(t.Containers, func(c Container) bool { return c.FireLens != nil })
}

// RoutedBy reports whether the lines of container i go to a router.
func RoutedBy(t Task, router, i int) bool {
	l := t.Containers[i].Log
	return router >= 0 && i != router && l != nil && l.Driver == logdriver.FireLens
}

// withRouter adds the START conditions that FireLens stands for: a router that waits for nothing
// starts first (ECS agent, addFirelensContainerDependency).
func withRouter(t Task, mode string) {
	router := RouterOf(t, mode)
	if router < 0 || len(t.Containers[router].DependsOn) > 0 {
		return
	}
	for i := range t.Containers {
		c := &t.Containers[i]
		waits := slices.ContainsFunc(c.DependsOn, func(d Dependency) bool { return d.Container == router })
		if RoutedBy(t, router, i) && !waits {
			c.DependsOn = append(c.DependsOn, Dependency{router, Start})
		}
	}
}

// checkFireLens holds routers, and containers that log to one, against the rules of ECS and of
// the language of their configuration.
func checkFireLens(r rules, t Task, host LogSettings) {
	router := RouterOf(t, host.Mode)
	first := ""
	for i, c := range t.Containers {
		in := r.in("containerDefinitions").item(i)
		if c.FireLens != nil {
			at := in.in("firelensConfiguration")
			at.require(first == "", "keep one of them", "container %s is a log router too", quote(first))
			first = c.Name
			checkRouter(in, c, router >= 0)
			if router < 0 {
				at.warn("set logs to auto or remote", "the container runs, but no logs are sent to it")
			}
			continue
		}
		if c.Log != nil && c.Log.Driver == logdriver.FireLens && c.Log.Sent(host) {
			in.in("logConfiguration").in("logDriver").require(router >= 0, "add firelensConfiguration to the container that is the router", "no container of the task is a log router")
			if router >= 0 {
				checkRouted(in.in("logConfiguration"), c.Log, t.Containers[router].FireLens)
			}
		}
	}
}

// checkRouter holds the configuration of a router against its rules.
func checkRouter(in rules, c Container, sends bool) {
	f, at := c.FireLens, in.in("firelensConfiguration")
	at.word("type", f.Type, "fluentd", "fluentbit")
	for _, name := range slices.Sorted(maps.Keys(f.Options)) {
		option := at.in("options").in(name)
		if !slices.Contains([]string{routerMetadata, routerFileType, routerFileValue}, name) {
			option.warn("", "a log router has no option %s", quote(name))
		}
		option.require(!strings.ContainsAny(f.Options[name], "\n\r\x00"), "write it on one line", "the option has a line break")
	}
	switch kind, given := f.Options[routerFileType]; {
	case f.onS3():
		value, at := f.Options[routerFileValue], at.in("options").in(routerFileValue)
		switch remote := s3ARN.MatchString(value); {
		case !remote:
			at.require(false, "write arn:aws:s3:::BUCKET/KEY", "config-file-value is not the ARN of an object of S3")
		case f.Path == "" && sends:
			needRule(at, "--map-log-config "+shellWord(value)+"=PATH", refs.File, value, fmt.Sprintf("the log configuration %s is on S3", quote(value)))
		}
	case given:
		at.in("options").word(routerFileType, kind, "file", "s3")
		if f.Include() == "" {
			at.in("options").require(false, "add the path of the file in the router", "config-file-type needs config-file-value")
			break
		}
		checkAbsolutePath(at.in("options").in(routerFileValue), routerFileValue, f.Include())
	}
	if len(c.DependsOn) > 0 {
		at.warn("", "the router waits for other containers, so it does not start first; lines wait until it runs")
	}
	if c.Log != nil && c.Log.Driver == logdriver.FireLens {
		in.in("logConfiguration").in("logDriver").warn("", "the router logs to itself; its own lines stay here")
	}
}

// optionName is the name of an option in the configuration of a router. Control characters would be
// more configuration; ECS accepts all others, and AWS has examples with a space.
var optionName = bounded{lazy.MustCompile(`^[^\x00-\x20\x7f]([^\x00-\x1f\x7f]*[^\x00-\x20\x7f])?$`), 128}

// secretOptionName is the name of an option that is a variable of the router, too.
var secretOptionName = bounded{lazy.MustCompile(`^[A-Za-z0-9@_.-]+$`), 128}

// longestOption is the most bytes of an option of an output.
const longestOption = 64 << 10

// checkRouted holds the options of a container that logs to a router against its language.
func checkRouted(in rules, l *LogConfiguration, f *FireLens) {
	all := make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(l.Options)) {
		at, value := in.in("options").in(name), l.Options[name]
		all[name] = value
		at.require(optionName.MatchString(name), "", "%s cannot be the name of an option", quote(name))
		at.require(!strings.ContainsAny(value, "\n\r\x00"), "write it on one line", "the option has a line break, which would be more configuration of the router")
		at.require(len(value) <= longestOption, "", "the option has more than %d bytes", longestOption)
	}
	for i, s := range l.SecretOptions {
		in.in("secretOptions").item(i).in("name").require(secretOptionName.MatchString(s.Name), "", "%s cannot be the name of an option", quote(s.Name))
		all[s.Name] = ""
	}
	name := logdriver.FireLensPlugin(f.Fluentd())
	in.in("options").require(!logdriver.FireLensLacksPlugin(f.Fluentd(), all), "add "+strconv.Quote(name), "options of an output need %s, the name of its plug-in", name)
}
