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
