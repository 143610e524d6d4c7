package taskdef

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef/doctree"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
	"github.com/podtask/podtask/pkg/taskdef/suggest"
)

// LogConfiguration selects the destination of a container's output.
type LogConfiguration struct {
	Driver logdriver.Driver `json:"driver"`
	// Options are the driver's, as in the document.
	Options map[string]string `json:"options,omitempty"`
	// SecretOptions are options whose values are secrets. No local driver has any.
	SecretOptions []Secret `json:"secretOptions,omitempty"`
}

// Remote reports whether the driver sends the output to a server. It is false for nil.
func (l *LogConfiguration) Remote() bool { return l != nil && !l.Driver.Local() }

// MaxSize returns the bytes after which a new log file is started (max-size);
// 0 means never.
func (l LogConfiguration) MaxSize() int64 {
	size, _ := parseSize(l.Options["max-size"])
	return size
}

// logDriverNames are the names of the log drivers, in the order of the documentation.
func logDriverNames() (names []string) {
	for _, d := range logdriver.All() {
		names = append(names, string(d))
	}
	return names
}

// describeLogDrivers lists the log drivers for the documentation.
func describeLogDrivers() string {
	var quoted []string
	for _, name := range logDriverNames() {
		if name != string(logdriver.AWSLogs) {
			quoted = append(quoted, "`"+name+"`")
		}
	}
	return strings.Join(quoted, ", ") + ", or `awslogs` where this host is set up for it (docs/logs.md)"
}

func decodeLogConfiguration(c cursor) *LogConfiguration {
	if !c.filled() {
		return nil
	}
	c.want(doctree.Object, "")
	l := &LogConfiguration{Driver: logdriver.Driver(c.at("logDriver").str()), Options: c.at("options").texts()}
	for _, item := range c.at("secretOptions").list(`write a list of {"name": ..., "valueFrom": ...}`) {
		item.want(doctree.Object, `write {"name": ..., "valueFrom": ...}`)
		value := item.at("valueFrom")
		if l.Sent(c.p.settings.Logs) {
			l.SecretOptions = append(l.SecretOptions, Secret{Name: item.at("name").str(), SecretValue: decodeSecretValue(value)})
			continue
		}
		// The value is not wanted here, so that it need not be mapped.
		l.SecretOptions = append(l.SecretOptions, Secret{Name: item.at("name").str(), SecretValue: SecretValue{ValueFrom: value.str()}})
	}
	return l
}

// LogSettings configure log drivers that send lines to a server. With the zero value, none does.
type LogSettings struct {
	// Mode is LogsLocal, LogsAuto or LogsRemote.
	Mode string
	// AWSLogs: there are credentials for CloudWatch Logs, or another endpoint than Amazon's.
	AWSLogs bool
}

// The modes of sending lines to servers.
const (
	LogsLocal  = "local"  // no line leaves this host
	LogsAuto   = "auto"   // awslogs only if the host is set up for it, others always
	LogsRemote = "remote" // a task whose lines cannot be sent is refused
)

// Sent reports whether the lines of a container are sent to a server.
func (l *LogConfiguration) Sent(s LogSettings) bool {
	switch {
	case !l.Remote() || s.Mode != LogsAuto && s.Mode != LogsRemote:
		return false
	case l.Driver == logdriver.AWSLogs:
		return s.AWSLogs || l.Options["awslogs-endpoint"] != ""
	}
	return l.Driver.Known()
}

// Problems are the mistakes in the options of a driver that sends.
func (l *LogConfiguration) Problems() []logdriver.OptionProblem {
	return l.Driver.Check(l.Options, l.secretNames())
}

// Shown are the options without the one that is a password if it is not written as a secret.
func (l *LogConfiguration) Shown() map[string]string {
	shown := maps.Clone(l.Options)
	delete(shown, logdriver.SplunkToken)
	return shown
}

func (l *LogConfiguration) secretNames() (names []string) {
	for _, s := range l.SecretOptions {
		names = append(names, s.Name)
	}
	return names
}

func checkLogging(r rules, l *LogConfiguration, host LogSettings) {
	if l == nil {
		return
	}
	in := r.in("logConfiguration")
	in.word("logDriver", string(l.Driver), logDriverNames()...)
	if l.Remote() {
		if l.Driver.Known() {
			checkRemote(in, l, host)
		}
		return
	}
	for _, key := range slices.Sorted(maps.Keys(l.Options)) {
		at := in.in("options").in(key)
		if key != "max-size" || l.Driver != logdriver.JSONFile {
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

// checkRemote holds a driver that sends lines to a server against its rules.
func checkRemote(in rules, l *LogConfiguration, host LogSettings) {
	sent, at := l.Sent(host), in.in("logDriver")
	tell := at.warn
	if host.Mode == LogsRemote {
		tell = func(fix, format string, args ...any) { at.require(false, fix, format, args...) }
	}
	switch {
	case sent:
	case l.Driver == logdriver.AWSLogs && host.Mode != LogsLocal:
		tell("set log-credentials-helper or awslogs-endpoint to send them", "the logs are not sent to CloudWatch: read them with `podtask logs`")
	default:
		tell("set logs to auto or remote to send them", "the logs are not sent by the driver %s: read them with `podtask logs`", l.Driver)
	}
	checkLogOptions(in, l, sent)
	for i, s := range l.SecretOptions {
		at := in.in("secretOptions").item(i)
		complaint := fmt.Sprintf("the log driver %s has no secret option %s", l.Driver, quote(s.Name))
		switch {
		case !sent && !l.Driver.TakesSecret(s.Name):
			at.in("name").warn("", "%s", complaint)
		case sent:
			at.in("name").require(l.Driver.TakesSecret(s.Name), "write it as an option, if it is none", "%s", complaint)
			checkSecretValue(at.in("valueFrom"), s.SecretValue)
		}
	}
}

// checkLogOptions holds options against the rules of their driver. Mistakes in those of one that
// does not send here are warnings.
func checkLogOptions(in rules, l *LogConfiguration, sent bool) {
	names := l.Driver.OptionNames()
	for _, p := range l.Problems() {
		at := in.in("options")
		if p.Option != "" {
			at = at.in(p.Option)
		}
		fix := p.Hint
		if like := suggest.Question(p.Option, names); like != "" && p.Option != "" && !slices.Contains(names, p.Option) {
			fix = like
		}
		switch {
		case sent:
			at.require(false, fix, "%s", p.Message)
		case p.Option != "":
			at.warn(fix, "%s", p.Message)
		}
	}
}

// Destination says for people where the lines of a container are sent; empty: they stay here.
func (l *LogConfiguration) Destination(container string, s LogSettings) string {
	if !l.Sent(s) {
		return ""
	}
	return l.Server(container, "TASKID", logdriver.Origin{ContainerID: "CONTAINERID", ContainerName: "/" + container, ContainerImageID: "IMAGEID"})
}

// Server says for people where the lines of a container of a task go, if they are sent.
func (l *LogConfiguration) Server(container, task string, o logdriver.Origin) string {
	return l.Driver.Destination(l.Options, container, task, o)
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
