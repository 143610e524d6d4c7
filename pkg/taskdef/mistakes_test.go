package taskdef

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// found is what a document is found to have: pointers of problems and of warnings.
type found struct{ Problems, Warnings []string }

func findings(s Settings, name, src string) (f found, text string) {
	_, report, err := s.Parse(name, []byte(src))
	var invalid *InvalidError
	if errors.As(err, &invalid) {
		f.Problems = pointers(invalid.Problems)
		text = invalid.Error()
	}
	f.Warnings = pointers(report.Warnings)
	return f, text + lines(report.Warnings)
}

func TestUnknownMembersAreProblemsUnlessLenient(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		src, at, fix string
	}{
		{minimal("", `"enviroment": [],`), "/containerDefinitions/0/enviroment", `did you mean "environment"?`},
		{minimal("", `"portMapping": [],`), "/containerDefinitions/0/portMapping", `did you mean "portMappings"?`},
		{minimal(`"Family": "g",`, ""), "/Family", `did you mean "family"?`},
		{minimal(`"x-podtask": {"stopWhenHealthy": true},`, ""), "/x-podtask/stopWhenHealthy", `did you mean`},
		{minimal(`"zzz": 1,`, ""), "/zzz", "--lenient"},
	} {
		if got, text := findings(Settings{}, "f", tt.src); len(got.Problems) != 1 || got.Problems[0] != tt.at || len(got.Warnings) != 0 || !strings.Contains(text, tt.fix) {
			t.Errorf("%s: %v\n%s", tt.src, got, text)
		}
		if got, text := findings(Settings{Lenient: true}, "f", tt.src); len(got.Warnings) != 1 || got.Warnings[0] != tt.at || len(got.Problems) != 0 {
			t.Errorf("lenient: %s: %v\n%s", tt.src, got, text)
		}
	}
}

// A misspelled member is one mistake, not also a missing one.
func TestAMisspelledMemberIsReportedOnce(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		`{"family": "f", "containerDefinitons": [{"name": "c", "image": "i"}]}`: "/containerDefinitons",
		`{"famly": "f", "containerDefinitions": [{"name": "c", "image": "i"}]}`: "/famly",
		`{"family": "f", "containerDefinitions": [{"name": "c", "imag": "i"}]}`: "/containerDefinitions/0/imag",
	} {
		if got, text := findings(Settings{}, "f", src); !cmp.Equal(got.Problems, []string{want}) {
			t.Errorf("%s: %v\n%s", src, got, text)
		}
	}
}

func TestTheSchemaOfADocumentIsAccepted(t *testing.T) {
	t.Parallel()
	const schema = `"$schema": "https://example.com/task-definition.schema.json",`
	for _, src := range []string{minimal(schema, ""), `{` + schema + `"taskDefinition": ` + minimal("", "") + `}`} {
		if got, text := findings(Settings{}, "f", src); len(got.Problems)+len(got.Warnings) != 0 {
			t.Errorf("%s: %s", src, text)
		}
	}
	if err := compiled(t, Schema(true)).Validate(instance(t, "f", []byte(minimal(schema, "")))); err != nil {
		t.Error(err)
	}
}

func TestHealthCheckCommands(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		command, want string // the command that runs; empty for no check
		found
	}{
		{`["CMD", "/healthcheck"]`, "[CMD /healthcheck]", found{}},
		{`["CMD-SHELL", "curl -f http://localhost/ || exit 1"]`, "[CMD-SHELL curl -f http://localhost/ || exit 1]", found{}},
		{`["/healthcheck"]`, "[CMD /healthcheck]", found{Warnings: []string{"/containerDefinitions/0/healthCheck/command"}}},
		{`["curl", "-f", "http://localhost/"]`, "[CMD curl -f http://localhost/]", found{Warnings: []string{"/containerDefinitions/0/healthCheck/command"}}},
		{`["NONE"]`, "", found{}},
		{`["curl -f http://localhost/ || exit 1"]`, "", found{Problems: []string{"/containerDefinitions/0/healthCheck/command"}}},
		{`["cmd", "true"]`, "", found{Problems: []string{"/containerDefinitions/0/healthCheck/command"}}},
		{`["CMD-SHELL", "wget localhost:$0", "8080"]`, "[CMD /bin/sh -c wget localhost:$0 8080]", found{Warnings: []string{"/containerDefinitions/0/healthCheck/command"}}},
		{`["CMD-SHELL", "", "8080"]`, "", found{Problems: []string{"/containerDefinitions/0/healthCheck/command"}}},
		{`["CMD-SHELL, curl -f http://localhost/"]`, "", found{Problems: []string{"/containerDefinitions/0/healthCheck/command"}}},
		{`["[\"CMD-SHELL\",\"true\"]"]`, "", found{Problems: []string{"/containerDefinitions/0/healthCheck/command"}}},
		{`["CMD-SHELL [\"CMD\",\"x\"]"]`, "", found{Problems: []string{"/containerDefinitions/0/healthCheck/command"}}},
		{`["CMD curl -f http://localhost/"]`, "", found{Problems: []string{"/containerDefinitions/0/healthCheck/command"}}},
		{`["CMD", "[\"curl\", \"-f\"]"]`, "", found{Problems: []string{"/containerDefinitions/0/healthCheck/command"}}},
		{`["CMD-SHELL", "[\"curl\", \"-f\"]"]`, "", found{Problems: []string{"/containerDefinitions/0/healthCheck/command"}}},
		{`["CMD-SHELL", "[ \"$(cat /x)\" = ok ]"]`, `[CMD-SHELL [ "$(cat /x)" = ok ]]`, found{}},
		{`["[\"CMD\"", "\"true\"]"]`, "", found{Problems: []string{"/containerDefinitions/0/healthCheck/command"}}},
		{`["[", "-f", "/ready", "]"]`, "[CMD [ -f /ready ]]", found{Warnings: []string{"/containerDefinitions/0/healthCheck/command"}}},
		{`["NONE", "true"]`, "", found{Problems: []string{"/containerDefinitions/0/healthCheck/command"}}},
	} {
		src := minimal("", `"healthCheck": {"command": `+tt.command+`}, "x-podtask": {"imageHealthCheck": true},`)
		got, text := findings(Settings{}, "f", src)
		if !cmp.Equal(got, tt.found) {
			t.Errorf("%s: %v\n%s", tt.command, got, text)
			continue
		}
		if len(got.Problems) > 0 {
			continue
		}
		task, _, _ := Parse("f", []byte(src))
		c := task.Containers[0]
		if (c.HealthCheck != nil) != (tt.want != "") || c.HealthCheck != nil && fmt.Sprint(c.HealthCheck.Command) != tt.want || c.Extensions.ImageHealthCheck != (tt.want != "") {
			t.Errorf("%s: %+v, image's own: %v", tt.command, c.HealthCheck, c.Extensions.ImageHealthCheck)
		}
	}
}

// ECS accepts 0 for both timeouts: no bound on the start, and the default for the stop.
func TestTimeoutsOfZero(t *testing.T) {
	t.Parallel()
	task, _, err := Parse("f", []byte(minimal("", `"startTimeout": 0, "stopTimeout": 0,`)))
	if err != nil {
		t.Fatal(err)
	}
	if c := task.Containers[0]; c.StartTimeout != 0 || c.StopTimeout != DefaultStopTimeout {
		t.Errorf("startTimeout %s, stopTimeout %s", c.StartTimeout, c.StopTimeout)
	}
}

func TestProxyAndAcceleratorsAreWarnedOf(t *testing.T) {
	t.Parallel()
	src := minimal(`"proxyConfiguration": {"containerName": "envoy"}, "inferenceAccelerators": [{"deviceName": "d", "deviceType": "t"}],`, "")
	if got, text := findings(Settings{}, "f", src); !cmp.Equal(got, found{Warnings: []string{"/proxyConfiguration", "/inferenceAccelerators"}}) {
		t.Errorf("%v\n%s", got, text)
	}
}

// TestMistakesOfFormSayWhatToDo holds messages, because they are the point: the place,
// what is wrong and how to fix it, in the words of the document.
func TestMistakesOfFormSayWhatToDo(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, file, src, place, says string }{
		{"a trailing comma in an object", "f.json", "{\n  \"family\": \"f\",\n}", ":3:1:", "a comma before the closing }; remove the comma"},
		{"a trailing comma in a list", "f.json", `{"containerDefinitions": [1, ]}`, ":1:30:", "a comma before the closing ]; remove the comma"},
		{"a comment at the end of a line", "f.json", "{\"family\": \"f\", // the name\n}", ":1:", "JSON has no comments"},
		{"a comment in a list", "f.json", `{"containerDefinitions": [/* none */]}`, ":1:", "JSON has no comments"},
		{"a comment before the document", "f.json", "// mine\n{\"family\": \"f\"}", ":1:1:", "JSON has no comments"},
		{"single quotes", "f.json", `{'family': 'f'}`, ":1:2:", "use double quotes"},
		{"a missing comma", "f.json", `{"family": "f" "cpu": 1}`, ":1:", "a comma"},
		{"a tab in YAML", "f.yaml", "family: f\ncontainerDefinitions:\n\t- name: c\n", "", "indented with a tab; indent with spaces"},
		{"memory with a unit", "f.json", minimal("", `"memory": "1g",`), "/memory:", `"1g" is not a whole number of MiB; write 1024`},
		{"memory with another unit", "f.json", minimal("", `"memoryReservation": "512 MB",`), "/memoryReservation:", "write 512"},
		{"seconds with a unit", "f.json", minimal("", `"healthCheck": {"command": ["CMD", "a"], "interval": "30s"},`), "/interval:", `"30s" is not a whole number of seconds; write 30`},
		{"minutes", "f.json", minimal("", `"stopTimeout": "2m",`), "/stopTimeout:", "write 120"},
		{"a service of ECS", "f.json", `{"serviceName": "web", "taskDefinition": "web:3", "desiredCount": 2}`, "", "this is an ECS service"},
		{"what DescribeServices prints", "f.json", `{"services": [{"serviceName": "web"}], "failures": []}`, "", "DescribeServices"},
		{"too large", "f.json", strings.Repeat(" ", 2600000), ":1:1:", "larger than 1.5 MiB"},
	} {
		got, text := findings(Settings{}, tt.file, tt.src)
		if len(got.Problems) != 1 || !strings.Contains(text, tt.place) || !strings.Contains(text, tt.says) {
			t.Errorf("%s: %v %s\nwant one, at %s, with %q", tt.name, got, text, tt.place, tt.says)
		}
	}
}

// A definition may show the processes of the host in place; anything else over /proc would hide files that programs need.
func TestTheHostsProcAtProc(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		source, target string
		ok             bool
	}{{"/proc", "/proc", true}, {"/proc/", "/proc/", true}, {"/srv", "/proc", false}, {"/proc", "/proc/sys", false}, {"/proc/sys", "/proc/sys", false}} {
		_, _, err := Parse("f", []byte(`{"family": "f", "volumes": [{"name": "v", "host": {"sourcePath": "`+tt.source+`"}}],
			"containerDefinitions": [{"name": "c", "image": "x", "memory": 64, "mountPoints": [{"sourceVolume": "v", "containerPath": "`+tt.target+`"}]}]}`))
		if (err == nil) != tt.ok {
			t.Errorf("%s at %s: %v", tt.source, tt.target, err)
		}
	}
}
