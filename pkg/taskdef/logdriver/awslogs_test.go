package logdriver

import (
	"maps"
	"strings"
	"testing"
	"time"
)

// with are sound options with changes; an empty value leaves one out.
func with(changes ...string) map[string]string {
	options := map[string]string{"awslogs-group": "/shop", "awslogs-region": "eu-west-1"}
	for i := 0; i < len(changes); i += 2 {
		options[changes[i]] = changes[i+1]
	}
	maps.DeleteFunc(options, func(_, v string) bool { return v == "" })
	return options
}

func TestMistakesInOptionsAreNamed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		options map[string]string
		option  string
		want    string
	}{
		{with("awslogs-group", ""), "", "awslogs needs the option awslogs-group"},
		{with("awslogs-region", ""), "", "awslogs needs the option awslogs-region"},
		{with("awslogs-group", "a b"), "awslogs-group", `"a b" is not a value`},
		{with("awslogs-group", strings.Repeat("x", 513)), "awslogs-group", `is not a value`},
		{with("awslogs-region", "eu west"), "awslogs-region", "is not a value"},
		{with("awslogs-stream", "a:b"), "awslogs-stream", "is not a value"},
		{with("awslogs-stream-prefix", "a*"), "awslogs-stream-prefix", "is not a value"},
		{with("awslogs-grop", "x"), "awslogs-grop", `no option "awslogs-grop"`},
		{with("awslogs-create-group", "maybe"), "awslogs-create-group", "not true or false"},
		{with("awslogs-force-flush-interval-seconds", "0"), "awslogs-force-flush-interval-seconds", "at least 1"},
		{with("awslogs-max-buffered-events", "-4"), "awslogs-max-buffered-events", "at least 1"},
		{with("awslogs-multiline-pattern", "("), "awslogs-multiline-pattern", "not valid"},
		{with("awslogs-multiline-pattern", "x*"), "awslogs-multiline-pattern", "matches every line"},
		{with("awslogs-multiline-pattern", "^a", "awslogs-datetime-format", "%Y"), "awslogs-multiline-pattern", "exclude each other"},
		{with("awslogs-format", "json/emf", "awslogs-multiline-pattern", "^a"), "awslogs-format", "excludes"},
		{with("awslogs-format", "xml"), "awslogs-format", "no format"},
		{with("awslogs-endpoint", "http://x/path"), "awslogs-endpoint", "is not a value"},
		{with("mode", "fast"), "mode", "no mode"},
		{with("mode", "blocking", "max-buffer-size", "1m"), "max-buffer-size", "non-blocking"},
		{with("max-buffer-size", "lots"), "max-buffer-size", "not a size"},
		{with("awslogs-group", strings.Repeat("x", 10<<20)), "awslogs-group", "more than 4096 bytes"},
		{with("awslogs-stream", "a\nb"), "awslogs-stream", "line break"},
	} {
		_, problems := ParseAWSLogs(tt.options)
		if len(problems) != 1 || problems[0].Option != tt.option || !strings.Contains(problems[0].Message, tt.want) {
			t.Errorf("%.80v: %.200v, want %s: %s", tt.options, problems, tt.option, tt.want)
		}
	}
}

func TestOptionsAreRead(t *testing.T) {
	t.Parallel()
	a, problems := ParseAWSLogs(with(
		"awslogs-stream-prefix", "web", "awslogs-create-group", "true", "awslogs-create-stream", "false", "awslogs-force-flush-interval-seconds", "7",
		"awslogs-datetime-format", `\[%b %d, %Y %H:%M:%S\]`, "awslogs-endpoint", "http://127.0.0.1:1/", "mode", "non-blocking", "max-buffer-size", "25m", "awslogs-max-buffered-events", "9",
	))
	if len(problems) > 0 || a.Region != "eu-west-1" || a.Group != "/shop" || !a.CreateGroup || a.CreateStream || a.Flush != 7*time.Second || a.Endpoint != "http://127.0.0.1:1" {
		t.Errorf("%+v, %v", a, problems)
	}
	if !a.Begin.MatchString("x [May 01, 2017 19:00:01] y") || a.Begin.MatchString("[May 1, 2017 19:00:01]") {
		t.Errorf("the pattern is %s", a.Begin)
	}
	for want, a := range map[string]AWSLogsOptions{"s": {Stream: "s", StreamPrefix: "p"}, "p/app/task": {StreamPrefix: "p"}, "id": {}} {
		if got := a.StreamName("app", "task", Origin{ContainerID: "id"}); got != want {
			t.Errorf("the stream is %s, want %s", got, want)
		}
	}
}
