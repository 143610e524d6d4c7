package logdriver

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/lazy"
)

// AWSLogsOptions are the options of the log driver awslogs, as Docker and ECS have them.
type AWSLogsOptions struct {
	Region, Group string
	// Stream is the stream's name; empty: StreamPrefix/CONTAINER/TASK, and without that
	// prefix what Tag says, by default the container's ID.
	Stream, StreamPrefix string
	// Tag names the stream where neither does.
	Tag Tag
	// Endpoint is a URL; empty: the region's.
	Endpoint string
	// CreateGroup and CreateStream make what does not exist.
	CreateGroup, CreateStream bool
	// Begin matches the first line of an event of several lines; nil: each line is one.
	Begin *regexp.Regexp
	// Flush is the longest time that lines wait for others before they are sent.
	Flush time.Duration
	// Format is json/emf or empty.
	Format string
}

var awslogsOptions = strings.Fields(`awslogs-create-group awslogs-create-stream awslogs-datetime-format awslogs-endpoint
	awslogs-force-flush-interval-seconds awslogs-format awslogs-group awslogs-max-buffered-events awslogs-multiline-pattern
	awslogs-region awslogs-stream awslogs-stream-prefix tag`)

var (
	groupName  = form{lazy.MustCompile(`^[\.\-_/#A-Za-z0-9]+$`), 512}
	streamName = form{lazy.MustCompile(`^[^:*\n]+$`), 512}
	regionName = form{lazy.MustCompile(`^[a-z0-9-]+$`), 64}
	endpoint   = form{lazy.MustCompile(`^https?://[^/\s?#@]+/?$`), 0}
)

// ParseAWSLogs reads the options of awslogs and returns all mistakes.
func ParseAWSLogs(options map[string]string) (AWSLogsOptions, []OptionProblem) {
	p := newOptionParser(AWSLogs, awslogsOptions, options)
	if len(p.problems) > 0 {
		return AWSLogsOptions{}, p.problems
	}
	a := AWSLogsOptions{
		Region:       p.matches("awslogs-region", regionName, "write a region such as eu-west-1"),
		Group:        p.matches("awslogs-group", groupName, "use letters, digits and . - _ / #"),
		Stream:       p.matches("awslogs-stream", streamName, "leave out : and *"),
		StreamPrefix: p.matches("awslogs-stream-prefix", streamName, "leave out : and *"),
		Endpoint:     strings.TrimSuffix(p.matches("awslogs-endpoint", endpoint, "write a URL without a path, such as https://logs.eu-west-1.amazonaws.com"), "/"),
		CreateGroup:  p.boolean("awslogs-create-group", false),
		CreateStream: p.boolean("awslogs-create-stream", true),
		Flush:        time.Duration(p.number("awslogs-force-flush-interval-seconds", 5)) * time.Second,
	}
	p.number("awslogs-max-buffered-events", 1) // lines wait in the file
	p.need("awslogs-region", "awslogs-group")
	a.Tag = p.tag("{{.FullID}}")
	a.Begin = p.begin()
	if a.Format = options["awslogs-format"]; a.Format != "" && a.Format != "json/emf" {
		p.add("awslogs-format", "use json/emf, or leave it out", "there is no format %s", strconv.Quote(a.Format))
	}
	if a.Format != "" && a.Begin != nil {
		p.add("awslogs-format", "leave one of them out", "awslogs-format excludes events of several lines")
	}
	return a, p.problems
}

// begin returns what the first line of an event matches.
func (p *optionParser) begin() *regexp.Regexp {
	pattern, format := p.options["awslogs-multiline-pattern"], p.options["awslogs-datetime-format"]
	name := "awslogs-multiline-pattern"
	switch {
	case pattern != "" && format != "":
		p.add(name, "leave one of them out", "awslogs-multiline-pattern and awslogs-datetime-format exclude each other")
		return nil
	case format != "":
		name, pattern = "awslogs-datetime-format", datetimePattern(format)
	case pattern == "":
		return nil
	}
	re, err := regexp.Compile(pattern)
	switch {
	case err != nil:
		p.add(name, "write a regular expression of Go", "the pattern is not valid: %v", err)
		return nil
	case re.MatchString(""):
		p.add(name, "write one that only the first line of an event matches", "the pattern matches every line")
		return nil
	}
	return re
}

// datetimeVerbs are the parts of a strftime format, as regular expressions. The rest of a
// format is a regular expression as well (Docker, awslogs-datetime-format).
var datetimeVerbs = strings.NewReplacer(
	"%A", `(?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)`, "%a", `(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)`,
	"%B", `(?:January|February|March|April|May|June|July|August|September|October|November|December)`,
	"%b", `(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)`,
	"%d", `(?:0[1-9]|[12][0-9]|3[01])`, "%f", `\d{6}`, "%H", `(?:[01][0-9]|2[0-3])`, "%I", `(?:0[0-9]|1[0-2])`,
	"%j", `(?:[0-2]\d\d|3[0-6]\d)`, "%L", `\.\d{3}`, "%M", `[0-5]\d`, "%m", `(?:0[1-9]|1[0-2])`, "%p", `[AP]M`,
	"%S", `[0-5]\d`, "%w", `[0-6]`, "%Y", `\d{4}`, "%y", `\d{2}`, "%Z", `[A-Z]{1,4}T`, "%z", `[+-]\d{4}`, "%%", "%",
)

func datetimePattern(format string) string { return datetimeVerbs.Replace(format) }

// StreamName is the stream of a container of a task.
func (a AWSLogsOptions) StreamName(container, task string, o Origin) string {
	switch {
	case a.Stream != "":
		return a.Stream
	case a.StreamPrefix != "":
		return a.StreamPrefix + "/" + container + "/" + task
	case a.Tag == Tag{}:
		return o.ContainerID
	}
	return a.Tag.Of(o)
}

// Destination says for people where the lines of a container go.
func (a AWSLogsOptions) Destination(container, task string, o Origin) string {
	return "CloudWatch Logs " + a.Region + " " + a.Group + ", stream " + a.StreamName(container, task, o)
}
