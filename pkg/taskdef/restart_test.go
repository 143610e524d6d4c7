package taskdef

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestRestartPolicies(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		policy string
		want   *RestartPolicy
		wrong  string // what the problem says
	}{
		{`{"enabled": false, "restartAttemptPeriod": 60}`, nil, ""},
		{`{"enabled": true}`, &RestartPolicy{AttemptPeriod: 300 * time.Second}, ""},
		{`{"enabled": true, "restartAttemptPeriod": 60, "ignoredExitCodes": [0, 3]}`, &RestartPolicy{AttemptPeriod: time.Minute, IgnoredExitCodes: []int{0, 3}}, ""},
		{`{"enabled": true, "x-podtask": {"backOff": 2, "maxCount": 5}}`, &RestartPolicy{AttemptPeriod: 300 * time.Second, BackOff: 2 * time.Second, MaxCount: 5}, ""},
		{`{"enabled": true, "x-podtask": {"backOff": 301}}`, nil, "backOff is out of range"},
		{`{"enabled": true, "x-podtask": {"maxCount": -1}}`, nil, "maxCount"},
		{`{"enabled": true, "restartAttemptPeriod": 59}`, nil, "restartAttemptPeriod is out of range"},
		{`{"enabled": true, "ignoredExitCodes": [256]}`, nil, "256 is not an exit code"},
	} {
		src := fmt.Sprintf(`{"family": "f", "containerDefinitions": [{"name": "a", "image": "a", "memory": 64, "restartPolicy": %s}]}`, tt.policy)
		task, problems, err := Parse("f.json", []byte(src))
		switch {
		case tt.wrong != "":
			if text := fmt.Sprint(problems, err); !strings.Contains(text, tt.wrong) {
				t.Errorf("%s: %s; want %q", tt.policy, text, tt.wrong)
			}
		case err != nil:
			t.Errorf("%s: %v", tt.policy, err)
		case !reflect.DeepEqual(task.Containers[0].Restart, tt.want):
			t.Errorf("%s: %+v, want %+v", tt.policy, task.Containers[0].Restart, tt.want)
		}
	}
}

func TestHealthAction(t *testing.T) {
	t.Parallel()
	const check = `"healthCheck": {"command": ["CMD", "true"], "x-podtask": {"action": "%s"}}, %s`
	tests := []struct {
		action, more     string
		problem, warning bool
	}{
		{"restart", `"restartPolicy": {"enabled": true},`, false, false},
		{"restart", "", false, true},
		{"", "", false, false},
		{"reboot", "", true, false},
	}
	for _, tt := range tests {
		task, report, err := Parse("f", []byte(minimal("", fmt.Sprintf(check, tt.action, tt.more))))
		if (err != nil) != tt.problem || (len(report.Warnings) > 0) != tt.warning {
			t.Errorf("%q: %v %v", tt.action, err, report.Warnings)
		}
		if err == nil && string(task.Containers[0].HealthCheck.Action) != tt.action {
			t.Errorf("%q became %q", tt.action, task.Containers[0].HealthCheck.Action)
		}
	}
}
