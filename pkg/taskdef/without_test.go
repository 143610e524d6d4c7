package taskdef

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWithoutLeavesMembersOut(t *testing.T) {
	t.Parallel()
	src := minimal(`"inferenceAccelerators": [{"deviceName": "a", "deviceType": "b"}],`,
		`"credentialSpecs": ["x"], "dockerSecurityOptions": ["no-new-privileges", "apparmor:mine"],
		"resourceRequirements": [{"type": "InferenceAccelerator", "value": "a"}], "linuxParameters": {"swappiness": 3, "maxSwap": 1},`)
	s := Settings{Without: []string{"credentialSpecs", "dockerSecurityOptions.apparmor", "resourceRequirements", "linuxParameters.maxSwap"}}
	for _, name := range s.Without {
		if err := CheckWithout(name); err != nil {
			t.Error(err)
		}
	}
	task, report, err := s.Parse("f", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	if c := task.Containers[0]; !c.Security.NoNewPrivileges || c.Linux.MaxSwap != nil {
		t.Errorf("the container is %+v", c)
	}
	var left []string
	for _, w := range report.Warnings {
		if strings.Contains(w.Message, "is left out, as requested") {
			left = append(left, w.Pointer)
		}
	}
	slices.Sort(left)
	want := []string{"/containerDefinitions/0/credentialSpecs", "/containerDefinitions/0/dockerSecurityOptions/1", "/containerDefinitions/0/linuxParameters/maxSwap", "/containerDefinitions/0/resourceRequirements"}
	if diff := cmp.Diff(want, left); diff != "" {
		t.Errorf("warnings: %s\n%s", diff, lines(report.Warnings))
	}
	if got, text := findings(Settings{}, "f", src); len(got.Problems) < 2 || !strings.Contains(text, "--without") {
		t.Errorf("without the setting: %v\n%s", got, text)
	}
}

func TestWithoutInAnOverride(t *testing.T) {
	t.Parallel()
	s := Settings{Without: []string{"resourceRequirements"}}
	_, report, err := s.ParseOverride("o", []byte(`{"containerOverrides": [{"name": "c", "resourceRequirements": [{"type": "GPU", "value": "1"}]}]}`))
	if err != nil || len(report.Warnings) != 1 {
		t.Errorf("%v, %v", report.Warnings, err)
	}
}

func TestWithoutRefusesNames(t *testing.T) {
	t.Parallel()
	for name, says := range map[string]string{
		"image": "without which there is no task", "family": "without which", "containerDefinitions": "without which", "name": "without which",
		"credentialSpec": `did you mean "credentialSpecs"?`, "zzz": "has no member", "": "has no member", "Parameters.devices": "has no member",
	} {
		if err := CheckWithout(name); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
