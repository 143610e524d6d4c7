package foreign_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/define/foreign"
	"github.com/podtask/podtask/internal/define/foreign/toolfile"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// files is the directory of internal/testing/teamfiles.
const files = "../../testing/teamfiles/files"

// request reads the file "args" of a case: the file to read, then FLAG VALUE lines.
func request(t *testing.T, dir string) toolfile.Request {
	t.Helper()
	args, err := os.ReadFile(filepath.Join(dir, "args"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(args)), "\n")
	q := toolfile.Request{File: lines[0], Base: lines[0], Params: map[string]string{}}
	env := map[string]string{}
	q.Getenv = func(name string) string { return env[name] }
	for _, line := range lines[1:] {
		flag, value, _ := strings.Cut(line, " ")
		key, v, _ := strings.Cut(value, "=")
		switch flag {
		case "param":
			q.Params[key] = v
		case "env":
			env[key] = v
		case "service":
			q.Service = value
		case "environment":
			q.Environment = value
		case "name":
			q.Name = value
		default:
			t.Fatalf("%s: no flag %q", dir, flag)
		}
	}
	if q.Source, err = os.ReadFile(filepath.Join(dir, lines[0])); err != nil {
		t.Fatal(err)
	}
	q.Open = func(name string) ([]byte, error) {
		src, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, errors.New("there is no such file")
		}
		return src, nil
	}
	return q
}

// text writes what came of a file.
func text(t *testing.T, r toolfile.Result, err error) string {
	t.Helper()
	var b strings.Builder
	if err != nil {
		return err.Error() + "\n"
	}
	fmt.Fprintf(&b, "%s: %s\n", r.Kind, r.Name)
	source := []byte(nil)
	if r.Definition != nil {
		source = r.Definition.JSON()
		var out bytes.Buffer
		if err := json.Indent(&out, source, "", "  "); err != nil {
			t.Fatal(err)
		}
		b.WriteString(out.String() + "\n")
	}
	for i, d := range r.Documents {
		if i > 0 {
			source = append(source, "\n---\n"...)
		}
		source = append(source, d.JSON()...)
		fmt.Fprintf(&b, "document %s %s\n", d.Member("kind").Text, d.Member("metadata").Member("name").Text)
	}
	name := "x.json"
	if r.Documents != nil {
		name = "x.yaml"
	}
	read, err := define.Reader{}.Read(define.Document{Name: name, Dir: "/srv", Source: source}, define.Changes{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range read.Problems {
		fmt.Fprintf(&b, "PROBLEM %s\n", r.Locate(p, source))
	}
	if r.Service != nil {
		fmt.Fprintf(&b, "podtask service create %s FILE %s\n", r.Name, toolfile.Shell(r.Service.Flags...))
		for _, scaling := range r.Service.Scaling {
			fmt.Fprintf(&b, "podtask service scaling %s %s %s\n", scaling.Verb, r.Name, toolfile.Shell(scaling.Words...))
		}
	}
	for _, s := range r.Schedules {
		fmt.Fprintf(&b, "podtask schedule create %s FILE %s\n", s.Name, toolfile.Shell(s.Flags...))
	}
	list := func(what string, problems []taskdef.Problem) {
		for _, p := range problems {
			fmt.Fprintf(&b, "%s: %s\n", what, p)
		}
	}
	list("Lost", r.Lost)
	for _, p := range r.Lasting(read.Warnings) {
		fmt.Fprintf(&b, "Lost: %s\n", r.Locate(p, source))
	}
	for _, p := range read.Needs {
		fmt.Fprintf(&b, "Needs: %s\n", r.Locate(p, source))
	}
	return b.String()
}

// TestFiles reads the files of internal/testing/teamfiles, each case with its arguments and what is expected of it.
func TestFiles(t *testing.T) {
	t.Parallel()
	cases, err := filepath.Glob(filepath.Join(files, "*", "*", "args"))
	if err != nil || len(cases) == 0 {
		t.Fatal(cases, err)
	}
	for _, args := range cases {
		dir := filepath.Dir(args)
		t.Run(strings.TrimPrefix(dir, files+"/"), func(t *testing.T) {
			t.Parallel()
			r, err := foreign.Read(request(t, dir))
			got := text(t, r, err)
			golden := filepath.Join(dir, "want")
			if os.Getenv("UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Error(diff)
			}
			if strings.Contains(got, "PROBLEM") {
				t.Error("the definition is not valid")
			}
		})
	}
}

func TestShellWords(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"8080=web:80": "8080=web:80", "rate(1 hour)": "'rate(1 hour)'", "it's": `'it'\''s'`, "": "''", "a\nb": `$'a\nb'`, "\x1b[31m'": "$'\ufffd[31m\\''", "$(x)": "'$(x)'", "ä": "'ä'",
	} {
		if got := toolfile.Shell(word); got != want {
			t.Errorf("%q is written as %s, want %s", word, got, want)
		}
	}
}

func TestProblemsAreThoseOfTheFile(t *testing.T) {
	t.Parallel()
	src := "Resources:\n  T:\n    Type: AWS::ECS::TaskDefinition\n    Properties:\n      ContainerDefinitions:\n        - Name: a\n          Image: !Sub 'a:1'\n          HealthCheck: {Command: [CMD, x], Interval: 1}\n"
	r, err := foreign.Read(toolfile.Request{File: "t.yaml", Source: []byte(src)})
	if err != nil {
		t.Fatal(err)
	}
	text := r.Definition.JSON()
	read, err := define.Reader{}.Read(define.Document{Name: "t.json", Source: text}, define.Changes{})
	if err != nil || len(read.Problems) != 1 {
		t.Fatal(read.Problems, err)
	}
	if p := r.Locate(read.Problems[0], text); p.File != "t.yaml" || p.Line != 8 {
		t.Errorf("the problem is at %s", p)
	}
}

func TestAMissingServiceIsNamed(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		`{"services": [], "failures": [{"arn": "a", "reason": "MISSING"}]}`: "there is no such service",
		`{"services": []}`: "the answer has no service",
		`{"services": [{"serviceName": "a", "status": "INACTIVE"}]}`: "INACTIVE",
		`{"services": [{"serviceName": "a", "status": "ACTIVE"}]}`:   "has no task definition",
		`<html>`: "",
	} {
		if _, err := foreign.DefinitionOf([]byte(answer)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", answer, err)
		}
	}
	arn, err := foreign.DefinitionOf([]byte(`{"services": [{"status": "ACTIVE", "taskSets": [{"status": "PRIMARY", "taskDefinition": "x:1"}]}]}`))
	if err != nil || arn != "x:1" {
		t.Error(arn, err)
	}
}

func TestDifferences(t *testing.T) {
	t.Parallel()
	live := `{"taskDefinition": {"family": "a", "revision": 3, "networkMode": "awsvpc", "cpu": "1024", "memory": "2048", "requiresCompatibilities": ["FARGATE", "EC2"],
		"containerDefinitions": [{"name": "b", "image": "b:1", "cpu": 0, "essential": true, "portMappings": [{"containerPort": 80, "hostPort": 80, "protocol": "tcp"}],
		"environment": [{"name": "X", "value": "1"}, {"name": "E", "value": ""}], "mountPoints": [], "healthCheck": {"command": ["CMD", "x"], "interval": 30, "timeout": 5, "retries": 3}}],
		"volumes": [{"name": "v", "host": {}}], "placementConstraints": []}, "tags": []}`
	same := `{"family": "other", "networkMode": "awsvpc", "cpu": "1 vCPU", "memory": "2 GB", "requiresCompatibilities": ["EC2", "FARGATE"], "volumes": [{"name": "v"}],
		"containerDefinitions": [{"name": "b", "image": "b:1", "portMappings": [{"containerPort": 80}], "environment": [{"name": "E"}, {"name": "X", "value": "1"}], "healthCheck": {"command": ["CMD", "x"]}}]}`
	other := strings.NewReplacer(`"value": "1"`, `"value": "2"`, "b:1", "b:2", `{"name": "E"}, `, "").Replace(same)
	read := func(text string) *doctree.Node {
		n, err := foreign.ReadDefinition("x.json", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if d := foreign.Differences(read(live), read(same)); len(d) > 0 {
		t.Errorf("they differ: %v", d)
	}
	want := []foreign.Difference{
		{Path: "containerDefinitions[b].image", Live: "b:1", Here: "b:2"}, {Path: "containerDefinitions[b].environment[X]", Live: `"1"`, Here: `"2"`},
		{Path: "containerDefinitions[b].environment[E]", Live: `""`},
	}
	if diff := cmp.Diff(want, foreign.Differences(read(live), read(other))); diff != "" {
		t.Error(diff)
	}
}

func TestServiceDifferences(t *testing.T) {
	t.Parallel()
	answer := []byte(`{"services": [{"serviceName": "a", "status": "ACTIVE", "desiredCount": 2, "deploymentConfiguration": {"minimumHealthyPercent": 100, "maximumPercent": 200, "strategy": "ROLLING"}}]}`)
	half := 50
	for _, tt := range []struct {
		here foreign.ServiceSettings
		want []foreign.Difference
	}{
		{foreign.ServiceSettings{DesiredCount: 2}, nil},
		{foreign.ServiceSettings{DesiredCount: 1, MinHealthy: &half, Strategy: "CANARY", HealthGraceSeconds: 5}, []foreign.Difference{
			{Path: "service.desiredCount", Live: "2", Here: "1"}, {Path: "service.healthCheckGracePeriodSeconds", Live: "0", Here: "5"},
			{Path: "service.deploymentConfiguration.strategy", Live: "ROLLING", Here: "CANARY"}, {Path: "service.deploymentConfiguration.minimumHealthyPercent", Live: "100", Here: "50"},
		}},
	} {
		got, err := foreign.ServiceDifferences(answer, tt.here)
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Error(err, diff)
		}
	}
}

// What Live makes of a service is the same again when it is registered and described.
func TestLiveIsAFixpoint(t *testing.T) {
	t.Parallel()
	service := []byte(`{"services": [{"serviceName": "a", "status": "ACTIVE", "taskDefinition": "a:1"}]}`)
	cases, err := filepath.Glob(filepath.Join(files, "*", "*", "args"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, args := range cases {
		r, err := foreign.Read(request(t, filepath.Dir(args)))
		if err != nil || r.Definition == nil || r.Definition.Member("networkMode") == nil {
			continue
		}
		n++
		first, err := foreign.Live(foreign.LiveRequest{Service: service, Definition: []byte(`{"taskDefinition": ` + string(r.Definition.JSON()) + `}`)})
		if err != nil {
			t.Fatal(args, err)
		}
		described := `{"taskDefinition": {"revision": 7, "status": "ACTIVE", "taskDefinitionArn": "x", ` + string(first.Definition.JSON())[1:] + `}`
		again, err := foreign.Live(foreign.LiveRequest{Service: service, Definition: []byte(described)})
		if err != nil {
			t.Fatal(args, err)
		}
		if diff := cmp.Diff(string(first.Definition.JSON()), string(again.Definition.JSON())); diff != "" {
			t.Errorf("%s: %s", args, diff)
		}
	}
	if n < 10 {
		t.Errorf("%d definitions", n)
	}
}
