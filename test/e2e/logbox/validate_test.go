package logbox

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/daemon/logger"

	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

// needed are the options that a driver does not work without.
var needed = map[string]map[string]string{
	"awslogs": {"awslogs-group": "g", "awslogs-region": "eu-west-1"},
	"fluentd": {},
	"gelf":    {"gelf-address": "udp://host:12201"},
	"splunk":  {"splunk-url": "https://host:8088", "splunk-token": "t"},
	"syslog":  {},
}

// values are what any option is tried with.
var values = []string{
	"", "x", "true", "false", "TRUE", "yes", "0", "1", "-1", "5", "9", "10", "1.5", "99999999999", "5s", "-5s", "50ms", "1m", "10m", "1g", "10 MB", "blocking", "non-blocking",
	"tcp://host:1", "udp://host:1", "udp://host", "tcp+tls://host:1", "tls://host:1", "http://host:1", "https://host:1/path", "host:1", "host", ":1", "unix:///run/x", "unix://", "tcp://host:1/path", "tcp://host:99999", "tcp://[::1]:1", "://",
	"gzip", "zlib", "none", "raw", "json", "inline", "json/emf", "rfc3164", "rfc5424", "rfc5424micro", "local0", "daemon", "23", "24",
	"^a", "(", ".*", "%Y-%m-%d", "{{.Name}}", "{{.ID", "{{.Nope}}", "a,b", "a:b", "a*b", "a b",
}

// TestOptionsAreJudgedAsByDocker holds each option with many values against Docker's
// ValidateLogOpts. testdata/differences.txt lists where the two disagree; UPDATE_GOLDEN=1 writes it.
func TestOptionsAreJudgedAsByDocker(t *testing.T) {
	t.Parallel()
	var differ strings.Builder
	agreed := 0
	for _, driver := range slices.Sorted(maps.Keys(needed)) {
		for _, name := range append(logdriver.Driver(driver).OptionNames(), "unknown") {
			var refusedHere, refusedThere []string
			for _, value := range values {
				options := with(needed[driver], name, value)
				here, there := len(logdriver.Driver(driver).Check(options, nil)) == 0, logger.ValidateLogOpts(driver, options) == nil
				switch {
				case here == there:
					agreed++
				case here:
					refusedThere = append(refusedThere, value)
				default:
					refusedHere = append(refusedHere, value)
				}
			}
			for who, all := range map[string][]string{"refused here only": refusedHere, "refused by Docker only": refusedThere} {
				if len(all) > 0 {
					fmt.Fprintf(&differ, "%s %s, %s: %s\n", driver, name, who, some(all))
				}
			}
		}
	}
	lines := strings.SplitAfter(differ.String(), "\n")
	slices.Sort(lines)
	got, golden := strings.Join(lines, ""), filepath.Join("testdata", "differences.txt")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is not up to date (UPDATE_GOLDEN=1 writes it):\n%s", golden, got)
	}
	if agreed < 1000 {
		t.Errorf("only %d values are judged in the same way", agreed)
	}
}

// some lists values, or those that are missing if they are fewer.
func some(all []string) string {
	text := ""
	if len(all) > len(values)/2 {
		left := slices.DeleteFunc(slices.Clone(values), func(v string) bool { return slices.Contains(all, v) })
		if len(left) == 0 {
			return "any"
		}
		text, all = "any but ", left
	}
	return text + fmt.Sprintf("%q", all)
}
