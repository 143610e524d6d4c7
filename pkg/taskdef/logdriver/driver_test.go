package logdriver

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestPropertiesOfDrivers(t *testing.T) {
	t.Parallel()
	for d, want := range map[Driver]struct {
		known, local, fargate bool
		secrets               string // of some options
	}{
		JSONFile: {known: true, local: true}, Journald: {known: true, local: true}, None: {known: true, local: true},
		AWSLogs: {known: true, fargate: true}, FireLens: {known: true, fargate: true, secrets: "key splunk-token"},
		Fluentd: {known: true}, GELF: {known: true}, Splunk: {known: true, fargate: true, secrets: "splunk-token"}, Syslog: {known: true},
		"logentries": {}, "": {},
	} {
		var secrets []string
		for _, option := range []string{"key", "splunk-token"} {
			if d.TakesSecret(option) {
				secrets = append(secrets, option)
			}
		}
		if d.Known() != want.known || d.Local() != want.local || d.Fargate() != want.fargate || strings.Join(secrets, " ") != want.secrets {
			t.Errorf("%q: known %v, local %v, on Fargate %v, secrets %v; want %+v", d, d.Known(), d.Local(), d.Fargate(), secrets, want)
		}
		if remote := slices.Contains(Remote(), d); remote != (want.known && !want.local) {
			t.Errorf("%q is remote: %v", d, remote)
		}
		if to := d.Destination(nil, "app", "task", Origin{}); want.known && !want.local && to == string(d) {
			t.Errorf("%s does not say where it sends lines", d)
		}
	}
}

// A secret option counts as given, but only where the driver takes one.
func TestOptionsAreCheckedWithTheirSecrets(t *testing.T) {
	t.Parallel()
	if p := GELF.Check(nil, []string{"gelf-address"}); len(p) != 1 || !strings.Contains(p[0].Message, "needs the option gelf-address") {
		t.Errorf("an address that is a secret: %+v", p)
	}
	if p := FireLens.Check(map[string]string{"Name": "http"}, []string{"key"}); len(p) > 0 {
		t.Errorf("options of a router: %+v", p)
	}
}

var quoted = regexp.MustCompile("`([a-z*-]+)`")

// The documentation has a row for each driver and names each option. An option may stand
// without the name of its driver, as -facility does, or with others of the same beginning, as cache-*.
func TestDocumentationNamesDriversAndOptions(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "logs.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(b), "| driver | here |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var listed []Driver
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		for _, m := range quoted.FindAllStringSubmatch(cells[1], -1) {
			listed = append(listed, Driver(m[1]))
		}
	}
	slices.Sort(listed)
	if want := slices.Sorted(slices.Values(All())); !slices.Equal(listed, want) {
		t.Errorf("docs/logs.md has rows for %v, want %v", listed, want)
	}

	var words []string
	for _, m := range quoted.FindAllStringSubmatch(string(b), -1) {
		words = append(words, m[1])
	}
	for _, d := range Remote() {
		for _, option := range d.OptionNames() {
			if !slices.ContainsFunc(words, func(word string) bool { return names(word, d, option) }) {
				t.Errorf("docs/logs.md does not name the option %s of %s", option, d)
			}
		}
	}
}

// names reports whether a word of the documentation stands for an option of a driver.
func names(word string, d Driver, option string) bool {
	if strings.HasPrefix(word, "-") {
		word = string(d) + word
	}
	prefix, many := strings.CutSuffix(word, "*")
	return option == word || many && prefix != "" && strings.HasPrefix(option, prefix)
}
