package taskdef

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/pkg/taskdef/refs"
)

const overridden = `{
  "family": "shop", "cpu": "512", "memory": "1024",
  "containerDefinitions": [
    {"name": "web", "image": "web", "command": ["serve"], "memory": 256, "memoryReservation": 128, "cpu": 10,
     "environment": [{"name": "A", "value": "definition"}, {"name": "B", "value": "definition"}],
     "environmentFiles": [{"type": "s3", "value": "arn:aws:s3:::bucket/web.env"}],
     "secrets": [{"name": "TOKEN", "valueFrom": "/web/token"}]},
    {"name": "side", "image": "side", "environment": [{"name": "A", "value": "definition"}]}
  ]
}`

// apply parses the definition above with an override.
func apply(t *testing.T, s Settings, override string) (Task, Report, error) {
	t.Helper()
	o, _, err := s.ParseOverride("o.json", []byte(override))
	if err != nil {
		t.Fatal(err)
	}
	s.Override = o
	return s.Parse("d.json", []byte(overridden))
}

func TestOverrideChangesOnlyWhatItNames(t *testing.T) {
	t.Parallel()
	task, report, err := apply(t, Settings{}, `{"cpu": "1 vCPU", "memory": 2048, "executionRoleArn": "x", "containerOverrides": [
	  {"name": "web", "command": ["migrate", "up"], "cpu": 20, "memory": 512, "memoryReservation": 64,
	   "environment": [{"name": "B", "value": "override"}, {"name": "C", "value": "override"}],
	   "environmentFiles": [{"type": "s3", "value": "web.env"}]}]}`)
	if err != nil {
		t.Fatal(err)
	}
	if task.CPU != 1 || task.Memory != 2048*mib {
		t.Errorf("the task has %v vCPU and %d bytes", task.CPU, task.Memory)
	}
	web := task.Containers[0]
	if diff := cmp.Diff([]string{"migrate", "up"}, web.Command); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]EnvVar{{"A", "definition"}, {"B", "override"}, {"C", "override"}}, web.Environment); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]EnvironmentFile{{ValueFrom: "web.env", Path: "web.env"}}, web.EnvironmentFiles); diff != "" {
		t.Error(diff)
	}
	if web.CPU != 20 || web.Memory != 512*mib || web.MemoryReservation != 64*mib {
		t.Errorf("the container has %d units, %d and %d bytes", web.CPU, web.Memory, web.MemoryReservation)
	}
	if diff := cmp.Diff([]EnvVar{{"A", "definition"}}, task.Containers[1].Environment); diff != "" {
		t.Error("the other container changed:", diff)
	}
	// The file on S3 is replaced, the secret is not.
	if diff := cmp.Diff([]string{"/containerDefinitions/0/secrets/0/valueFrom"}, pointers(report.Needs)); diff != "" {
		t.Error(diff)
	}
}

func TestPrecedenceOfVariables(t *testing.T) {
	t.Parallel()
	s := Settings{Env: []EnvVar{{"A", "command line"}, {"TOKEN", "command line"}}, Refs: refs.Table{{Match: "arn:aws:s3:::bucket/web.env", Source: "file:/w.env"}}}
	task, report, err := apply(t, s, `{"containerOverrides": [{"name": "web", "environment": [{"name": "A", "value": "override"}, {"name": "B", "value": "override"}]}]}`)
	if err != nil || len(report.Needs) > 0 {
		t.Fatal(report.Needs, err)
	}
	if diff := cmp.Diff([]EnvVar{{"A", "command line"}, {"B", "override"}, {"TOKEN", "command line"}}, task.Containers[0].Environment); diff != "" {
		t.Error(diff)
	}
	if len(task.Containers[0].Secrets) > 0 {
		t.Errorf("the secret does not give way: %v", task.Containers[0].Secrets)
	}
	if err := task.Check(); err != nil {
		t.Error(err)
	}
}

func TestOverrideIsHeldAgainstTheDefinition(t *testing.T) {
	t.Parallel()
	for override, want := range map[string]string{
		`{"containerOverrides": [{"name": "wob", "cpu": 1}]}`: `o.json:1:34: /containerOverrides/0/name: no container named "wob"; did you mean "web"?`,
		`{"memory": "128"}`: `memory (256 MiB) is more than the whole task may use (128 MiB)`,
		`{"containerOverrides": [{"name": "web", "memory": 64}]}`: `memory (64 MiB) must be at least memoryReservation (128 MiB)`,
	} {
		if _, _, err := apply(t, Settings{}, override); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v, want %s", override, err, want)
		}
	}
}

func TestInvalidOverridesGiveAllTheirMessages(t *testing.T) {
	t.Parallel()
	for src, want := range map[string][]string{
		`[]`: {""},
		`{"containerOverrides": [{"cpu": 1}, {"name": "a", "memory": 5, "environment": [{"name": "A=B"}]}, {"name": "a"}]}`: {
			"/containerOverrides/0", "/containerOverrides/1/memory", "/containerOverrides/1/environment/0/name", "/containerOverrides/2/name",
		},
		`{"containerOverrides": [{"name": "a", "resourceRequirements": [{"type": "GPU", "value": "0"}]}]}`: {"/containerOverrides/0/resourceRequirements/0/value"},
		`{"cpu": "1 GB", "cpu": "1"}`:                                            {"/cpu", "/cpu"},
		`{"containerOverride": []}`:                                              {"/containerOverride"},
		`{"ephemeralStorage": {"sizeInGiB": 20}}`:                                {"/ephemeralStorage/sizeInGiB"},
		`{"family": "f", "containerDefinitions": [{"name": "c", "image": "i"}]}`: {""},
		`{"taskDefinition": {}, "tags": []}`:                                     {""},
	} {
		_, _, err := Settings{}.ParseOverride("o", []byte(src))
		var invalid *InvalidError
		if !errors.As(err, &invalid) {
			t.Errorf("%s: error is %v", src, err)
			continue
		}
		if diff := cmp.Diff(want, pointers(invalid.Problems)); diff != "" {
			t.Errorf("%s: %s", src, diff)
		}
	}
	_, report, err := Settings{Lenient: true}.ParseOverride("o", []byte(`{"ephemeralStorage": {"sizeInGiB": 21}, "containerOverride": []}`))
	if err != nil || len(report.Warnings) != 2 || report.Warnings[1].Fix != `did you mean "containerOverrides"?` {
		t.Errorf("%v %v", report.Warnings, err)
	}
}

func TestOverrideOfStorage(t *testing.T) {
	t.Parallel()
	for override, want := range map[string]int64{`{}`: 0, `{"ephemeralStorage": {"sizeInGiB": 21}}`: 21} {
		if task, _, err := apply(t, Settings{}, override); err != nil || task.EphemeralStorage != want {
			t.Errorf("%s: %d GiB, want %d: %v", override, task.EphemeralStorage, want, err)
		}
	}
}

func TestOverrideOfRoles(t *testing.T) {
	t.Parallel()
	task, _, err := apply(t, Settings{}, `{"taskRoleArn": "arn:task", "executionRoleArn": "arn:execution"}`)
	if who := task.Identity; err != nil || who.TaskRoleARN != "arn:task" || who.ExecutionRoleARN != "arn:execution" {
		t.Errorf("%+v, %v", who, err)
	}
}

func TestOverrideTakesValuesOfPlaceholders(t *testing.T) {
	t.Parallel()
	s := Settings{Vars: map[string]string{"UNITS": "30"}}
	task, _, err := apply(t, s, `{"containerOverrides": [{"name": "side", "cpu": "${UNITS}"}]}`)
	if err != nil || task.Containers[1].CPU != 30 || task.Containers[0].CPU != 10 {
		t.Errorf("%v %v", task.Containers, err)
	}
}

// An override gives a container the command that its definition empties.
func TestOverrideOfAnEmptyCommand(t *testing.T) {
	t.Parallel()
	s := Settings{}
	o, _, err := s.ParseOverride("o.json", []byte(`{"containerOverrides": [{"name": "a", "command": ["x"]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	s.Override = o
	task, _, err := s.Parse("f", []byte(`{"family": "f", "containerDefinitions": [{"name": "a", "image": "i", "x-podtask": {"emptyCommand": true}}]}`))
	if err != nil || len(task.Containers[0].Command) != 1 || task.Containers[0].Extensions.EmptyCommand {
		t.Errorf("%+v, %v", task.Containers, err)
	}
}
