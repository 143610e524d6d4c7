package logdriver

import (
	"maps"
	"slices"
	"strings"
)

// Driver is the name of a log driver in a task definition.
type Driver string

// The log drivers.
const (
	JSONFile Driver = "json-file"
	Journald Driver = "journald"
	None     Driver = "none"

	AWSLogs  Driver = "awslogs"
	FireLens Driver = "awsfirelens"
	Fluentd  Driver = "fluentd"
	GELF     Driver = "gelf"
	Splunk   Driver = "splunk"
	Syslog   Driver = "syslog"
)

// properties describe a driver.
type properties struct {
	name Driver
	// local: the lines stay on this host.
	local bool
	// fargate: AWS Fargate has the driver too.
	fargate bool
	// options are the names of its own options.
	options []string
	// secret are the names of options whose value may be a secret; anySecret: all of them.
	secret    []string
	anySecret bool
	// parse reads the options of a driver that sends to a server.
	parse func(options map[string]string) (target, []OptionProblem)
}

// target is a server to which a driver sends lines.
type target interface {
	// Destination describes it for people.
	Destination(container, task string, o Origin) string
}

// drivers is the only list of the log drivers.
var drivers = []properties{
	{name: JSONFile, local: true},
	{name: Journald, local: true},
	{name: None, local: true},
	{name: AWSLogs, fargate: true, options: awslogsOptions, parse: parser(ParseAWSLogs)},
	{name: FireLens, fargate: true, anySecret: true, parse: func(map[string]string) (target, []OptionProblem) { return router{}, nil }},
	{name: Fluentd, options: fluentdOptions, parse: parser(ParseFluentd)},
	{name: GELF, options: gelfOptions, parse: parser(ParseGELF)},
	{name: Splunk, fargate: true, options: splunkOptions, secret: []string{SplunkToken}, parse: parser(ParseSplunk)},
	{name: Syslog, options: syslogOptions, parse: parser(ParseSyslog)},
}

// parser adapts a function that reads the options of one driver.
func parser[T target](parse func(map[string]string) (T, []OptionProblem)) func(map[string]string) (target, []OptionProblem) {
	return func(options map[string]string) (target, []OptionProblem) { return parse(options) }
}

// All returns the log drivers in the order of the documentation.
func All() []Driver {
	all := make([]Driver, len(drivers))
	for i, d := range drivers {
		all[i] = d.name
	}
	return all
}

// Remote returns the log drivers that send to a server.
func Remote() []Driver { return slices.DeleteFunc(All(), Driver.Local) }

// properties returns what is known of a driver; nothing if there is none of that name.
func (d Driver) properties() properties {
	i := slices.IndexFunc(drivers, func(p properties) bool { return p.name == d })
	if i < 0 {
		return properties{}
	}
	return drivers[i]
}

// Known reports whether there is a driver of that name.
func (d Driver) Known() bool { return d.properties().name != "" }

// Local reports whether the lines stay on this host.
func (d Driver) Local() bool { return d.properties().local }

// Fargate reports whether AWS Fargate has the driver.
func (d Driver) Fargate() bool { return d.properties().fargate }

// TakesSecret reports whether the value of an option may be a secret.
func (d Driver) TakesSecret(option string) bool {
	p := d.properties()
	return p.anySecret || slices.Contains(p.secret, option)
}

// everyDriver are options of Docker's that concern a buffer or a cache. Here, lines wait in a file.
var everyDriver = strings.Fields("cache-compress cache-disabled cache-max-file cache-max-size max-buffer-size mode")

// OptionNames returns the names of the options of a driver.
func (d Driver) OptionNames() []string {
	return slices.Sorted(slices.Values(slices.Concat(d.properties().options, everyDriver)))
}

// Check returns the mistakes in the options of a driver. Secret are the names of those whose value
// is a secret.
func (d Driver) Check(options map[string]string, secret []string) []OptionProblem {
	p := d.properties()
	if p.parse == nil {
		return nil
	}
	with := make(map[string]string)
	for _, name := range secret {
		if d.TakesSecret(name) {
			with[name] = "secret"
		}
	}
	maps.Copy(with, options)
	_, problems := p.parse(with)
	return problems
}

// Destination says for people where the lines of a container of a task go.
func (d Driver) Destination(options map[string]string, container, task string, o Origin) string {
	p := d.properties()
	if p.parse == nil {
		return string(d)
	}
	to, _ := p.parse(options)
	return to.Destination(container, task, o)
}
