package testfile_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/internal/define/strictdoc"
	"github.com/podtask/podtask/internal/define/testfile"
	"github.com/podtask/podtask/internal/testing/schemafile"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

const sample = `
definition: web.yaml
timeout: 2m
vars: {TAG: "1", COLOR: red}
leaveOut: [agent]
stubs:
  db: {image: "registry.example.com/stub:${TAG}", command: [serve], healthCheck: [CMD, "true"]}
before: [{image: seed, command: [load]}]
after: [{image: clean}]
matrix: {TAG: ["2", "3"], SIZE: [s, m]}
tests:
- name: answers
  vars: {COLOR: blue}
  before: [{name: more, image: seed}]
  after: [{image: ask}]
  expect:
  - healthy: all
    within: 45s
  - http: {container: web, port: 80, path: "/${COLOR}", body: {contains: "v${TAG} ${UNKNOWN}"}}
  - exit: {container: job, code: 3}
  - metric: {container: web, port: 9000, name: requests_total, labels: {code: "200"}, min: 1}
- name: logs
  timeout: 10s
  expect:
  - log: {contains: ready}
  - file: {container: web, path: /a, absent: true}
  - grpc: {container: web, port: 50051}
  - run: {image: curl, command: [curl], code: 7, output: {matches: "^ok$"}}
`

func TestCasesHaveTheirSettings(t *testing.T) {
	t.Parallel()
	f, err := testfile.Parse("web.test.yaml", []byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	cases := f.Cases()
	var titles []string
	for _, c := range cases {
		titles = append(titles, c.Title())
	}
	want := []string{
		"answers [SIZE=s TAG=2]", "logs [SIZE=s TAG=2]", "answers [SIZE=s TAG=3]", "logs [SIZE=s TAG=3]",
		"answers [SIZE=m TAG=2]", "logs [SIZE=m TAG=2]", "answers [SIZE=m TAG=3]", "logs [SIZE=m TAG=3]",
	}
	if diff := cmp.Diff(want, titles); diff != "" {
		t.Fatal(diff)
	}
	c := cases[2]
	if c.Stubs["db"].Image != "registry.example.com/stub:3" || c.Expect[1].HTTP.Path != "/blue" || c.Expect[1].HTTP.Body.Contains != "v3 ${UNKNOWN}" {
		t.Errorf("placeholders: %+v %+v", c.Stubs, c.Expect[1].HTTP)
	}
	if len(c.Before) != 2 || c.Before[1].Name != "more" || len(c.After) != 2 || c.After[0].Image != "ask" || c.Timeout.Or(0) != 2*time.Minute || cases[1].Timeout.Or(0) != 10*time.Second {
		t.Errorf("settings: %+v", c.Settings)
	}
	if c.Line != 12 || c.Expect[1].Line != 19 || c.Expect[0].Within.Or(0) != 45*time.Second {
		t.Errorf("places: %d, %d", c.Line, c.Expect[1].Line)
	}
	if cases[0].Expect[1].HTTP.Body.Contains != "v2 ${UNKNOWN}" {
		t.Error("the cases share their checks")
	}
}

func TestAllProblemsOfATestFile(t *testing.T) {
	t.Parallel()
	_, err := testfile.Parse("f", []byte(`definition: web.yaml
matrix: {A: []}
stubs: {db: {image: "A B", healthCheck: [curl]}}
tests:
- name: a
  expect:
  - healthy: all
    http: {container: web, port: 80}
  - within: 10
  - log: {container: web}
  - file: {container: web, path: a}
  - metric: {container: web, port: 0, name: x, value: 1, min: 0}
  - http: {container: web, port: 80, body: {matches: "("}}
- name: a
  expect: []
`))
	var invalid *strictdoc.InvalidError
	if !errors.As(err, &invalid) {
		t.Fatal(err)
	}
	for _, want := range []string{
		"f:3:21: /stubs/db/image: image A B: invalid reference format", `f:3:41: /stubs/db/healthCheck: the command of a health check begins with CMD or CMD-SHELL`,
		"f:7:5: /tests/0/expect/0: healthy and http stand in one check", `f:9:13: /tests/0/expect/1/within: within: "10" is not a time: write one such as 30s or 2m`,
		"f:10:10: /tests/0/expect/2/log: no line is described", "f:11:34: /tests/0/expect/3/file/path: the path of a file in a container is absolute",
		"f:12:36: /tests/0/expect/4/metric/port: port: the number is 1 to 65535, not 0", "/tests/0/expect/5/http/body/matches: error parsing regexp",
		"f:15:11: /tests/1/expect: the test expects nothing",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
}

// schema returns the schema of test files, ready to validate.
func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	src, err := json.Marshal(testfile.Schema())
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(src))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("test.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("test.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTheSchemaIsThatOfTheParser(t *testing.T) {
	t.Parallel()
	s := schema(t)
	for text, want := range map[string]bool{
		sample: true,
		"definition: a\ntests: [{name: a, expect: [{healthy: web}]}]": true,
		"definition: a\ntests: [{name: a, expct: []}]":                false,
		"tests: []": false,
		"definition: a\ntests: [{name: a, expect: [{http: {container: web, port: 80, method: get}}]}]": false,
	} {
		var doc any
		if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatal(err)
		}
		src, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(src))
		if err != nil {
			t.Fatal(err)
		}
		_, parsed := testfile.Parse("f", []byte(text))
		if err := s.Validate(instance); (err == nil) != want || (parsed == nil) != want {
			t.Errorf("the schema says %v, Parse says %v of\n%s", err, parsed, text)
		}
	}
}

// The schema is a file of the documentation, which editors fetch.
func TestTheDocumentationHasTheSchema(t *testing.T) {
	t.Parallel()
	schemafile.Check(t, filepath.Join("..", "..", "..", "docs"), testfile.SchemaID, testfile.Schema())
}

func TestText(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		want testfile.Text
		text string
		fits bool
	}{
		{testfile.Text{}, "x", true},
		{testfile.Text{Contains: "b"}, "abc", true},
		{testfile.Text{Equals: "abc"}, " abc\n", true},
		{testfile.Text{Equals: "abc"}, "abcd", false},
		{testfile.Text{Matches: "^a.c$"}, "abc", true},
		{testfile.Text{Contains: "a", Matches: "^b"}, "abc", false},
		{testfile.Text{Matches: "("}, "(", false},
	} {
		if got := tt.want.Fits(tt.text); got != tt.fits {
			t.Errorf("%s: %q fits: %v", tt.want.String(), tt.text, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte("definition: a\nmatrix: {A: [1, 2]}\ntests: [{name: ${A}, expect: [{healthy: [a]}]}]"))
	f.Fuzz(func(t *testing.T, src []byte) {
		got, err := testfile.Parse("f", src)
		if err == nil && len(got.Cases()) < len(got.Tests) {
			t.Error("tests are lost")
		}
	})
}
