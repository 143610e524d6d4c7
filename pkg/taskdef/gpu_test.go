package taskdef

import (
	"strings"
	"testing"
)

func TestGPUs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		requirements, override string
		gpus, warnings         int
		problem                string
	}{
		{`[{"type": "GPU", "value": "2"}]`, "", 2, 0, ""},
		{`[{"type": "GPU", "value": 1}]`, "", 1, 0, ""},
		{`[]`, "", 0, 0, ""},
		{`[{"type": "InferenceAccelerator", "value": "device1"}]`, "", 0, 1, ""},
		{`[{"type": "GPU", "value": "1"}, {"type": "GPU", "value": "1"}]`, "", 0, 0, "two entries of type GPU"},
		{`[{"type": "GPU"}]`, "", 0, 0, "value is missing"},
		{`[{"value": "1"}]`, "", 0, 0, "type is missing"},
		{`[{"type": "GPU", "value": "0"}]`, "", 0, 0, "it must be at least 1"},
		{`[{"type": "GPU", "value": "-1"}]`, "", 0, 0, "it must be at least 1"},
		{`[{"type": "GPU", "value": "9999999"}]`, "", 0, 0, "more than any host has"},
		{`[{"type": "GPU", "value": "all"}]`, "", 0, 0, "whole number"},
		{`[{"type": "gpu", "value": "1"}]`, "", 0, 0, "GPU"},
		{`{"type": "GPU"}`, "", 0, 0, "list"},
		{`[{"type": "GPU", "value": "2"}]`, `[{"type": "GPU", "value": "1"}]`, 1, 0, ""},
		{`[{"type": "GPU", "value": "2"}]`, `[]`, 2, 0, ""},
		{`[]`, `[{"type": "GPU", "value": "3"}]`, 3, 0, ""},
	} {
		s := Settings{}
		if c.override != "" {
			o, _, err := s.ParseOverride("o", []byte(`{"containerOverrides": [{"name": "c", "resourceRequirements": `+c.override+`}]}`))
			if err != nil {
				t.Fatal(err)
			}
			s.Override = o
		}
		task, report, err := s.Parse("f", []byte(minimal("", `"resourceRequirements": `+c.requirements+`,`)))
		switch {
		case c.problem == "" && (err != nil || task.Containers[0].Linux.GPUs != c.gpus || len(report.Warnings) != c.warnings):
			t.Errorf("%s: %v, %v, %v", c.requirements, task.Containers, report.Warnings, err)
		case c.problem != "" && (err == nil || !strings.Contains(err.Error(), c.problem)):
			t.Errorf("%s: error is %v, want %q", c.requirements, err, c.problem)
		}
	}
}
