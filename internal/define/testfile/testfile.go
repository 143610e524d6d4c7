// Package testfile reads files with tests of a task definition, NAME.test.yaml: what is started, what is
// replaced, and what must hold. It is pure; package tasktest of the command line runs the tests.
package testfile

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/define/strictdoc"
	"github.com/podtask/podtask/pkg/images"
)

// Extensions are the ends of the names of test files.
var Extensions = []string{".test.yaml", ".test.yml", ".test.json"}

// IsTestFile reports whether a file is named as one.
func IsTestFile(name string) bool {
	return slices.ContainsFunc(Extensions, func(e string) bool { return strings.HasSuffix(name, e) && filepath.Base(name) != e })
}

// DefaultTimeout bounds a whole test, DefaultWithin how long it waits for one thing.
const (
	DefaultTimeout = 5 * time.Minute
	DefaultWithin  = 30 * time.Second
)

// File is the content of a test file.
type File struct {
	Schema     string `json:"$schema" doc:"address of the schema, for editors"`
	Definition string `json:"definition" need:"true" doc:"the task definition or Pod: a path from this file on, or FAMILY[:REV]"`
	Settings
	Matrix map[string][]string `json:"matrix" doc:"values of placeholders: every combination is a test of its own"`
	Tests  []Test              `json:"tests" need:"true" doc:"the tests; each starts a task of its own"`
}

// Settings are what tests change in the definition. Those of a test come before those of its file.
type Settings struct {
	Timeout     Duration          `json:"timeout" doc:"how long a test may take in all, such as 2m; 5m without it"`
	Vars        map[string]string `json:"vars" doc:"values of placeholders, ${NAME}, in the definition and in this file"`
	Environment map[string]string `json:"environment" doc:"variables of every container"`
	LeaveOut    []string          `json:"leaveOut" doc:"containers that the task does without"`
	Stubs       map[string]Stub   `json:"stubs" doc:"containers that are replaced by a stub"`
	Secrets     map[string]string `json:"secrets" doc:"where a secret of the definition comes from: its reference, and a source such as file:PATH or env:NAME"`
	Volumes     map[string]string `json:"volumes" doc:"a path of this host for a volume of the definition"`
	KeepVolumes []string          `json:"keepVolumes" doc:"shared volumes that are used as they are; all others are created for each test"`
	Before      []Step            `json:"before" doc:"containers that run before the task is started, one after the other"`
	After       []Step            `json:"after" doc:"containers that run at the end, whether or not the test failed; they get the addresses of published ports"`
}

// Stub is the container that takes the place of one of the definition. It keeps its name and ports.
type Stub struct {
	Image       string            `json:"image" need:"true" doc:"its image"`
	EntryPoint  []string          `json:"entryPoint" doc:"replaces that of the image"`
	Command     []string          `json:"command" doc:"replaces that of the image"`
	Environment map[string]string `json:"environment" doc:"its variables"`
	HealthCheck []string          `json:"healthCheck" doc:"command of its health check, beginning with CMD or CMD-SHELL; without one, dependents wait for its start"`
}

// Step is a container that runs to its end, in the network of the host.
type Step struct {
	Name        string            `json:"name" doc:"in reports"`
	Image       string            `json:"image" need:"true" doc:"its image"`
	EntryPoint  []string          `json:"entryPoint" doc:"replaces that of the image"`
	Command     []string          `json:"command" doc:"replaces that of the image"`
	Environment map[string]string `json:"environment" doc:"its variables, besides ADDRESS_CONTAINER_PORT for each published port"`
	Code        int               `json:"code" min:"0" max:"255" doc:"the exit code that it must end with; 0 without it"`
	Output      *Text             `json:"output" doc:"what its output must be"`
}

// Test starts the task once and checks it.
type Test struct {
	Name string `json:"name" need:"true" doc:"in reports"`
	Settings
	Expect []Check `json:"expect" need:"true" doc:"what must hold, in this order"`

	Line, Column int // in the file
}

// Check is one thing that must hold. It has one of its kinds.
type Check struct {
	Healthy []string `json:"healthy" doc:"containers that must be healthy, or running if they have no health check; all for every one"`
	Exit    *Exit    `json:"exit" doc:"a container ends"`
	HTTP    *HTTP    `json:"http" doc:"a request over HTTP is answered"`
	GRPC    *GRPC    `json:"grpc" doc:"the health service of gRPC answers"`
	Log     *Log     `json:"log" doc:"a line of the output"`
	File    *FileIn  `json:"file" doc:"a file in a container"`
	Metric  *Metric  `json:"metric" doc:"a metric in the format of Prometheus"`
	Run     *Step    `json:"run" doc:"a container that runs to its end"`
	Within  Duration `json:"within" doc:"how long to wait for it, such as 30s; 30s without it"`

	Line, Column int // in the file
}

// Exit is the end of a container.
type Exit struct {
	Container string `json:"container" need:"true" doc:"the container"`
	Code      int    `json:"code" min:"0" max:"255" doc:"its exit code; 0 without it"`
}

// Endpoint is a port of a container.
type Endpoint struct {
	Container string `json:"container" need:"true" doc:"the container"`
	Port      int    `json:"port" need:"true" min:"1" max:"65535" doc:"its port, whether or not the definition publishes it"`
}

// HTTP is a request and its answer.
type HTTP struct {
	Endpoint
	TLS     bool              `json:"tls" doc:"HTTPS; certificates are not checked"`
	Method  string            `json:"method" enum:"GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS" doc:"GET without it"`
	Path    string            `json:"path" doc:"/ without it"`
	Headers map[string]string `json:"headers" doc:"headers of the request"`
	Send    string            `json:"send" doc:"body of the request"`
	Status  int               `json:"status" min:"100" max:"599" doc:"status of the answer; 200 without it"`
	Answer  map[string]string `json:"answerHeaders" doc:"headers that the answer must have"`
	Body    *Text             `json:"body" doc:"what the body of the answer must be"`
}

// GRPC is a question to the health service of gRPC.
type GRPC struct {
	Endpoint
	Service string `json:"service" doc:"the service to ask for; the whole server without it"`
}

// Log is a line of the output of containers.
type Log struct {
	Container string `json:"container" doc:"the container; any without it"`
	Text
}

// FileIn is a file in a container.
type FileIn struct {
	Container string `json:"container" need:"true" doc:"the container"`
	Path      string `json:"path" need:"true" doc:"path in the container"`
	Absent    bool   `json:"absent" doc:"the file must not be there"`
	Text
}

// Metric is a sample in the format of Prometheus.
type Metric struct {
	Endpoint
	Path   string            `json:"path" doc:"/metrics without it"`
	Name   string            `json:"name" need:"true" doc:"name of the metric"`
	Labels map[string]string `json:"labels" doc:"labels that the sample must have; samples that fit are added up"`
	Min    *float64          `json:"min" doc:"the least value"`
	Max    *float64          `json:"max" doc:"the greatest value"`
	Value  *float64          `json:"value" doc:"the value"`
}

// Text is what a text must be. What is empty does not count.
type Text struct {
	Contains string `json:"contains" doc:"text that it contains"`
	Equals   string `json:"equals" doc:"the text, without white space at its ends"`
	Matches  string `json:"matches" doc:"regular expression (RE2) that matches a part of it"`
}

// Empty reports whether any text will do.
func (t *Text) Empty() bool { return t == nil || *t == (Text{}) }

// String describes the text that is wanted.
func (t *Text) String() string {
	if t.Empty() {
		return "any text"
	}
	var parts []string
	for _, p := range []struct{ verb, text string }{{"contains", t.Contains}, {"equals", t.Equals}, {"matches", t.Matches}} {
		if p.text != "" {
			parts = append(parts, fmt.Sprintf("%s %q", p.verb, p.text))
		}
	}
	return strings.Join(parts, " and ")
}

// Fits reports whether a text is what is wanted.
func (t *Text) Fits(text string) bool {
	if t.Empty() {
		return true
	}
	if t.Matches != "" {
		re, err := regexp.Compile(t.Matches) // checked when the file was read; a placeholder may have changed it
		if err != nil || !re.MatchString(text) {
			return false
		}
	}
	return strings.Contains(text, t.Contains) && (t.Equals == "" || strings.TrimSpace(text) == strings.TrimSpace(t.Equals))
}

func (t *Text) check(at strictdoc.Place) {
	if t == nil {
		return
	}
	if _, err := regexp.Compile(t.Matches); err != nil {
		at.At("matches").Problem("", "%v", err)
	}
}

// Duration is a time such as 30s or 2m.
type Duration time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil || v <= 0 || v > 24*time.Hour {
		return fmt.Errorf("%q is not a time: write one such as 30s or 2m, up to 24h", text)
	}
	*d = Duration(v)
	return nil
}

// Schema implements strictdoc.Describer.
func (*Duration) Schema() map[string]any {
	return map[string]any{"type": "string", "pattern": `^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`}
}

// Or returns the time, or another if it is not given.
func (d Duration) Or(otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return time.Duration(d)
}

// Check implements strictdoc.Checker.
func (t *Text) Check(at strictdoc.Place) { t.check(at) }

// Check implements strictdoc.Checker.
func (l *Log) Check(at strictdoc.Place) {
	if l.check(at); l.Text.Empty() {
		at.Problem("give contains, equals or matches", "no line is described")
	}
}

// Check implements strictdoc.Checker.
func (f *FileIn) Check(at strictdoc.Place) {
	f.check(at)
	if !strings.HasPrefix(f.Path, "/") {
		at.At("path").Problem("begin it with /", "the path of a file in a container is absolute")
	}
	if f.Absent && !f.Text.Empty() {
		at.Problem("leave out one of them", "a file that is absent has no text")
	}
}

// Check implements strictdoc.Checker.
func (m *Metric) Check(at strictdoc.Place) {
	if m.Value != nil && (m.Min != nil || m.Max != nil) {
		at.Problem("leave out value, or min and max", "value stands beside min or max")
	}
}

// Check implements strictdoc.Checker.
func (s *Stub) Check(at strictdoc.Place) {
	checkImage(at, s.Image)
	if len(s.HealthCheck) > 0 && !slices.Contains([]string{"CMD", "CMD-SHELL"}, s.HealthCheck[0]) {
		at.At("healthCheck").Problem(`write it as in ["CMD-SHELL", "curl -f http://localhost/"]`, "the command of a health check begins with CMD or CMD-SHELL")
	}
}

// Check implements strictdoc.Checker.
func (s *Step) Check(at strictdoc.Place) { checkImage(at, s.Image) }

func checkImage(at strictdoc.Place, image string) {
	if strings.Contains(image, "${") {
		return
	}
	if _, err := images.ParseRef(image); err != nil {
		at.At("image").Problem("", "%v", err)
	}
}

// kinds returns the names of the kinds that a check has.
func (c *Check) kinds() (names []string) {
	for name, has := range map[string]bool{
		"healthy": len(c.Healthy) > 0, "exit": c.Exit != nil, "http": c.HTTP != nil, "grpc": c.GRPC != nil,
		"log": c.Log != nil, "file": c.File != nil, "metric": c.Metric != nil, "run": c.Run != nil,
	} {
		if has {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

const allKinds = "healthy, exit, http, grpc, log, file, metric or run"

// Check implements strictdoc.Checker.
func (c *Check) Check(at strictdoc.Place) {
	c.Line, c.Column = at.Position()
	switch kinds := c.kinds(); len(kinds) {
	case 0:
		at.Problem("give one of "+allKinds, "nothing is checked here")
	case 1:
	default:
		at.Problem("begin a new item, with a dash, for each", "%s stand in one check", strings.Join(kinds, " and "))
	}
}

// Check implements strictdoc.Checker.
func (t *Test) Check(at strictdoc.Place) {
	t.Line, t.Column = at.Position()
	if len(t.Expect) == 0 {
		at.At("expect").Problem("give at least one of "+allKinds, "the test expects nothing")
	}
}

// Check implements strictdoc.Checker.
func (f *File) Check(at strictdoc.Place) {
	seen := make(map[string]bool)
	for i, t := range f.Tests {
		if seen[t.Name] {
			at.At("tests").Item(i).At("name").Problem("give each a name of its own", "two tests are called %q", t.Name)
		}
		seen[t.Name] = true
	}
	if len(f.Tests) == 0 {
		at.At("tests").Problem("", "there is no test")
	}
	combinations := 1
	for name, values := range f.Matrix {
		if len(values) == 0 {
			at.At("matrix").At(name).Problem("", "%s has no value", name)
		}
		combinations *= max(1, len(values))
		if combinations > maxCases {
			at.At("matrix").Problem("leave out some values", "the matrix has more than %d combinations", maxCases)
			return
		}
	}
}

const maxCases = 256

// Parse reads a test file. Name is the file in messages. The error is a *strictdoc.InvalidError.
func Parse(name string, src []byte) (File, error) {
	var f File
	if problems := strictdoc.Decode(name, src, &f); len(problems) > 0 {
		return File{}, &strictdoc.InvalidError{Kind: "test file", File: name, Problems: problems, Fix: "`podtask schema test` prints what it may have"}
	}
	return f, nil
}

// SchemaID is the address of the schema of test files.
const SchemaID = "https://raw.githubusercontent.com/podtask/podtask/main/docs/test-file.schema.json"

// Schema returns the JSON Schema of test files.
func Schema() map[string]any {
	return strictdoc.Schema(SchemaID, "Tests of a task definition, for podtask test", "A file NAME.test.yaml beside the definition.", File{})
}

// Case is one test with one combination of the matrix, ready to be run.
type Case struct {
	Test
	Combination map[string]string
}

// Title is the name of the test, with the values of its combination.
func (c Case) Title() string {
	if len(c.Combination) == 0 {
		return c.Name
	}
	var words []string
	for _, name := range slices.Sorted(maps.Keys(c.Combination)) {
		words = append(words, name+"="+c.Combination[name])
	}
	return c.Name + " [" + strings.Join(words, " ") + "]"
}

// Cases returns all tests with all combinations, in their order. Placeholders in them have their values.
func (f File) Cases() (all []Case) {
	for _, combination := range f.combinations() {
		for _, t := range f.Tests {
			t.Settings = t.Over(f.Settings)
			vars := make(map[string]string)
			maps.Copy(vars, t.Vars)
			maps.Copy(vars, combination)
			t.Vars = vars
			all = append(all, Case{Test: expand(t, vars), Combination: combination})
		}
	}
	return all
}

// combinations returns those of the matrix; one that is empty without a matrix.
func (f File) combinations() []map[string]string {
	all := []map[string]string{nil}
	for _, name := range slices.Sorted(maps.Keys(f.Matrix)) {
		var next []map[string]string
		for _, c := range all {
			for _, value := range f.Matrix[name] {
				more := map[string]string{name: value}
				maps.Copy(more, c)
				next = append(next, more)
			}
		}
		all = next
	}
	return all
}

// Over returns the settings of a test with those of its file below. Lists add up, those of the file first for
// before and last for after.
func (s Settings) Over(file Settings) Settings {
	if s.Timeout == 0 {
		s.Timeout = file.Timeout
	}
	s.Vars, s.Environment = merge(file.Vars, s.Vars), merge(file.Environment, s.Environment)
	s.Secrets, s.Volumes = merge(file.Secrets, s.Secrets), merge(file.Volumes, s.Volumes)
	s.Stubs = merge(file.Stubs, s.Stubs)
	s.LeaveOut, s.KeepVolumes = slices.Concat(file.LeaveOut, s.LeaveOut), slices.Concat(file.KeepVolumes, s.KeepVolumes)
	s.Before, s.After = slices.Concat(file.Before, s.Before), slices.Concat(s.After, file.After)
	return s
}

func merge[V any](below, above map[string]V) map[string]V {
	if len(below)+len(above) == 0 {
		return nil
	}
	all := maps.Clone(below)
	if all == nil {
		all = make(map[string]V)
	}
	maps.Copy(all, above)
	return all
}
