package logbox

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podtask/podtask/internal/logs/logroute"
	"github.com/podtask/podtask/internal/logs/logsend"
	"github.com/podtask/podtask/internal/logs/logsend/awslogs"
	"github.com/podtask/podtask/internal/logs/logsend/forward"
	"github.com/podtask/podtask/internal/logs/logsend/gelf"
	"github.com/podtask/podtask/internal/logs/logsend/splunk"
	"github.com/podtask/podtask/internal/logs/logsend/syslog"
	"github.com/podtask/podtask/internal/testing/logstest"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

// rounds is how many outputs each driver gets with each set of options.
const rounds = 12

// longest is the most bytes of a line, but for awslogs.
const longest = 50 << 10

// cases are options of a driver, besides its address.
var attributes = []map[string]string{
	{},
	{"tag": "{{.ImageName}}/{{.Name}}/{{.ID}}", "labels": "team,nothing", "env": "STAGE,EMPTY"},
	{"tag": "shop {{.DaemonName | upper}} {{json .ContainerLabels.team}}", "labels-regex": "^(t|_)", "env-regex": "A"},
}

func with(options map[string]string, more ...string) map[string]string {
	all := maps.Clone(options)
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

// parsed fails the test where options have mistakes.
func parsed[T any](t *testing.T, options T, problems []logdriver.OptionProblem) T {
	t.Helper()
	if len(problems) > 0 {
		t.Fatalf("the options have mistakes: %+v", problems)
	}
	return options
}

// same compares what came through Docker and through podtask: the records of each stream, in
// order. The streams of one container are not in any order with Docker, whose copier has a
// goroutine for each.
func same(t *testing.T, byDocker, byPodtask []string, streamOf func(string) bool) {
	t.Helper()
	for _, stream := range []bool{false, true} {
		of := func(all []string) (some []string) {
			for _, text := range all {
				if streamOf(text) == stream {
					some = append(some, text)
				}
			}
			return some
		}
		if diff := cmp.Diff(of(byDocker), of(byPodtask)); diff != "" {
			t.Fatalf("Docker (-) and podtask (+) send other records:\n%.4000s", diff)
		}
	}
}

func TestAWSLogsIsSame(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]map[string]string{
		"plain": {}, "multiline": {"awslogs-multiline-pattern": `^\d{4}-`}, "datetime": {"awslogs-datetime-format": "%Y-%m-%d"},
		"tag": {"tag": "{{.Name}}-{{.ID}}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := logstest.New()
			web := httptest.NewServer(server)
			defer web.Close()
			seeds(t, rounds, func(t *testing.T, r *rand.Rand) {
				o := random(r, 1, 300<<10) // an event does not say which stream it is from
				group := func(who string) map[string]string {
					return with(options, "awslogs-region", "r", "awslogs-group", who+"/"+t.Name(), "awslogs-endpoint", web.URL, "awslogs-create-group", "true")
				}
				mine := group("podtask")
				a, problems := logdriver.ParseAWSLogs(mine)
				stream := parsed(t, a, problems).StreamName("app", "task", origin(mine))
				podtask(t, awslogs.New(awslogs.Config{Options: a, Stream: stream, Endpoint: web.URL, Credentials: func(context.Context) (awslogs.Credentials, error) {
					return awslogs.Credentials{AccessKeyID: "a", SecretAccessKey: "b", Expires: time.Now().Add(time.Hour)}, nil
				}}), o)
				docker(t, "awslogs", group("docker"), o)
				messages := func(who string) []string {
					return server.Messages(who+"/"+t.Name(), stream)
				}
				ended := func() bool {
					all := messages("docker")
					return len(all) > 0 && strings.Contains(all[len(all)-1], last)
				}
				for changed := server.Changed(); !ended(); changed = server.Changed() {
					if ended() {
						break
					}
					<-changed
				}
				same(t, messages("docker"), messages("podtask"), func(string) bool { return false })
			})
		})
	}
}

// partialID is random.
var partialID = regexp.MustCompile(`partial_id="[0-9a-f]{64}"`)

func TestFluentdIsSame(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "router")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", program, "./router").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for i, options := range attributes {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			address, got := forwardServer(t, program)
			// Docker's driver mistakes the acknowledgements of one stream for those of the other.
			options = with(options, "fluentd-address", address, "fluentd-sub-second-precision", "true")
			seeds(t, rounds, func(t *testing.T, r *rand.Rand) {
				o := random(r, 2, longest)
				docker(t, "fluentd", options, o)
				byDocker := got.take(t, 2)
				parsedOptions, problems := logdriver.ParseFluentd(options)
				f := parsed(t, parsedOptions, problems)
				podtask(t, forward.New(forward.Config{
					Dial: logsend.Dialer(f.Address, logdriver.TLS{}), Tag: f.Tag.Of(origin(options)), Members: forward.ContainerMembers(f.Attributes, origin(options)), Ack: f.Ack, SubSecond: f.SubSecond,
				}), o)
				byPodtask := got.take(t, 2)
				same(t, lines(byDocker), lines(byPodtask), func(text string) bool { return strings.Contains(text, `source="stderr"`) })
			})
		})
	}
}

// unended says that a line has no end, which podtask does not.
const unended = `log="the end" partial_id partial_last="false" partial_message="true" partial_ordinal="1" `

// lines are records without what is random.
func lines(records []string) (all []string) {
	for _, text := range records {
		text = partialID.ReplaceAllString(text, "partial_id")
		all = append(all, strings.Replace(text, unended, `log="the end" `, 1))
	}
	return all
}

func TestGELFIsSame(t *testing.T) {
	t.Parallel()
	tcp, gotTCP := stream(t, 0, func(message []byte) string {
		var m map[string]any
		if err := json.Unmarshal(message, &m); err != nil {
			return err.Error()
		}
		delete(m, "timestamp")
		return object(m)
	})
	for _, network := range []string{"tcp", "gzip", "zlib", "none"} {
		t.Run(network, func(t *testing.T) {
			address, got, size, isErr := tcp, gotTCP, longest, `level="3"`
			options := attributes[1]
			if network != "tcp" {
				address, got = graylog(t)
				size, isErr = 4<<10, "level=3 " // or the kernel drops packets
				options = with(attributes[2], "gelf-compression-type", network, "gelf-compression-level", "2")
			}
			options = with(options, "gelf-address", address)
			seeds(t, rounds, func(t *testing.T, r *rand.Rand) {
				o := random(r, 2, size)
				docker(t, "gelf", options, o)
				byDocker := got.take(t, 2)
				parsedOptions, problems := logdriver.ParseGELF(options)
				podtask(t, gelf.New(gelf.Config{Options: parsed(t, parsedOptions, problems), Origin: origin(options), Host: hostname(t)}), o)
				same(t, byDocker, got.take(t, 2), func(text string) bool { return strings.Contains(text, isErr) })
			})
		})
	}
}

func hostname(t *testing.T) string {
	t.Helper()
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// syslogTime is the time in a message of any format.
var syslogTime = regexp.MustCompile(`^(<\d+>)(1 \d{4}-\S+|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\S+)`)

func TestSyslogIsSame(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"", "rfc3164", "rfc5424", "rfc5424micro"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			address, got := stream(t, '\n', func(message []byte) string { return syslogTime.ReplaceAllString(string(message), "${1}TIME") })
			options := with(attributes[len(format)%2], "syslog-address", address, "syslog-format", format, "syslog-facility", "local3")
			seeds(t, rounds, func(t *testing.T, r *rand.Rand) {
				o := random(r, 2, longest)
				docker(t, "syslog", options, o)
				byDocker := got.take(t, 2)
				parsedOptions, problems := logdriver.ParseSyslog(options)
				podtask(t, syslog.New(syslog.Config{Options: parsed(t, parsedOptions, problems), Origin: origin(options), Host: hostname(t), PID: os.Getpid()}), o)
				byPodtask := got.take(t, 2)
				if !strings.Contains(byPodtask[0], "TIME") {
					t.Fatalf("a message without a time: %q", byPodtask[0])
				}
				same(t, byDocker, byPodtask, func(text string) bool { return strings.HasPrefix(text, "<155>") })
			})
		})
	}
}

func TestSplunkIsSame(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"inline", "json", "raw"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			url, got := collector(t)
			options := with(attributes[len(format)%2+1], "splunk-url", url, "splunk-token", "token", "splunk-format", format, "splunk-verify-connection", "false",
				"splunk-source", "s", "splunk-sourcetype", "t", "splunk-index", "i", "splunk-gzip", fmt.Sprint(format == "json"))
			if format == "raw" { // the attributes of a raw event are in no order with Docker
				options = with(options, "labels", "team", "env", "")
				delete(options, "labels-regex")
				delete(options, "env-regex")
			}
			seeds(t, rounds, func(t *testing.T, r *rand.Rand) {
				o := random(r, 2, longest)
				if format == "raw" {
					o = random(r, 1, longest) // nor do they say which stream they are from
				}
				streams := 1
				if len(o.of(logroute.Stderr)) > 0 {
					streams = 2
				}
				docker(t, "splunk", options, o)
				byDocker := got.take(t, streams)
				parsedOptions, problems := logdriver.ParseSplunk(options)
				s, err := splunk.New(splunk.Config{Options: parsed(t, parsedOptions, problems), Origin: origin(options), Host: hostname(t), Token: "token"})
				if err != nil {
					t.Fatal(err)
				}
				podtask(t, s, o)
				same(t, byDocker, got.take(t, streams), func(text string) bool { return strings.Contains(text, "stderr") })
			})
		})
	}
}
