package taskdef

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/podtask/podtask/internal/doctree"
)

// LogConfiguration is where a container's output goes.
type LogConfiguration struct {
	Driver LogDriver `json:"driver"`
	// Options are the driver's, as in the document. Those of a driver that is not
	// Local have no effect.
	Options map[string]string `json:"options,omitempty"`
	// SecretOptions are options whose values are secrets. No local driver has any.
	SecretOptions []Secret `json:"secretOptions,omitempty"`
}

// LogDriver is a log driver of the ECS model, or "none".
type LogDriver string

// The log drivers that this host has. Of all others the output is kept as
// LogJSONFile keeps it.
const (
	LogJSONFile LogDriver = "json-file"
	LogJournald LogDriver = "journald"
	LogNone     LogDriver = "none"
)

// Local reports whether the driver works on this host.
func (d LogDriver) Local() bool { return d == LogJSONFile || d == LogJournald || d == LogNone }

// Remote reports whether the driver sends the output to a server. It is false for nil.
func (l *LogConfiguration) Remote() bool { return l != nil && !l.Driver.Local() }

// MaxSize returns the bytes after which a new log file is started (max-size);
// 0 means never.
func (l LogConfiguration) MaxSize() int64 {
	size, _ := parseSize(l.Options["max-size"])
	return size
}

var logDrivers = strings.Fields("json-file journald none awslogs awsfirelens fluentd gelf splunk syslog")

func decodeLogConfiguration(c cursor) *LogConfiguration {
	if !c.filled() {
		return nil
	}
	c.want(doctree.Object, "")
	l := &LogConfiguration{Driver: LogDriver(c.at("logDriver").str()), Options: c.at("options").texts()}
	for _, item := range c.at("secretOptions").list(`write a list of {"name": ..., "valueFrom": ...}`) {
		item.want(doctree.Object, `write {"name": ..., "valueFrom": ...}`)
		// The value is not wanted here, so that it need not be mapped.
		l.SecretOptions = append(l.SecretOptions, Secret{item.at("name").str(), SecretValue{ValueFrom: item.at("valueFrom").str()}})
	}
	return l
}

func checkLogging(r rules, l *LogConfiguration) {
	if l == nil {
		return
	}
	in := r.in("logConfiguration")
	in.word("logDriver", string(l.Driver), logDrivers...)
	if !l.Driver.Local() {
		if slices.Contains(logDrivers, string(l.Driver)) {
			in.in("logDriver").warn("", "this host has no log driver %s: the logs stay here, where `podtask logs` reads them", quote(string(l.Driver)))
		}
		return
	}
	for _, key := range slices.Sorted(maps.Keys(l.Options)) {
		at := in.in("options").in(key)
		if key != "max-size" || l.Driver != LogJSONFile {
			at.warn("", "the log option %s has no effect here", quote(key))
			continue
		}
		_, ok := parseSize(l.Options[key])
		at.require(ok, "write a number and k, m or g, as in 10m", "max-size is not a size")
	}
	if len(l.SecretOptions) > 0 {
		in.in("secretOptions").warn("", "the log driver %s has no secret options", quote(string(l.Driver)))
	}
}

// parseSize reads a size as Docker's log options have it: a number and k, m or g
// for powers of 1024. "-1" and "" are no limit.
func parseSize(s string) (bytes int64, ok bool) {
	if s == "" || s == "-1" {
		return 0, true
	}
	digits := strings.TrimRight(strings.ToLower(s), "kmgb")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n <= 0 || n > 1<<40 {
		return 0, false
	}
	shift, known := map[string]uint{"": 0, "b": 0, "k": 10, "kb": 10, "m": 20, "mb": 20, "g": 30, "gb": 30}[strings.ToLower(s[len(digits):])]
	if !known || n > 1<<62>>shift {
		return 0, false
	}
	return n << shift, true
}
