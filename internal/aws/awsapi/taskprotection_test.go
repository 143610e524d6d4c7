package awsapi_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
)

func TestTasksAreProtected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.register("web")
	run := must[*ecs.RunTaskOutput](t)(w.client.RunTask(t.Context(), &ecs.RunTaskInput{TaskDefinition: aws.String("web"), Count: aws.Int32(2)}))
	one, two := *run.Tasks[0].TaskArn, *run.Tasks[1].TaskArn
	w.change(two[strings.LastIndexByte(two, '/')+1:], end)

	update := func(in ecs.UpdateTaskProtectionInput) *ecs.UpdateTaskProtectionOutput {
		t.Helper()
		in.Cluster, in.Tasks = aws.String("default"), []string{one, two, strings.Repeat("0", 32)}
		out := must[*ecs.UpdateTaskProtectionOutput](t)(w.client.UpdateTaskProtection(t.Context(), &in))
		if len(out.Failures) != 2 || *out.Failures[0].Reason != "TASK_NOT_VALID" || *out.Failures[1].Reason != "MISSING" || len(out.ProtectedTasks) != 1 {
			t.Errorf("failures %+v", out.Failures)
		}
		return out
	}
	for minutes, in := range map[int]ecs.UpdateTaskProtectionInput{
		120: {ProtectionEnabled: true}, 7: {ProtectionEnabled: true, ExpiresInMinutes: aws.Int32(7)},
	} {
		got := update(in).ProtectedTasks[0]
		if want := w.now.Add(time.Duration(minutes) * time.Minute).Truncate(time.Second); !got.ProtectionEnabled || got.ExpirationDate == nil || !got.ExpirationDate.Equal(want) {
			t.Errorf("%+v, want it until %s", got, want)
		}
	}
	seen := must[*ecs.GetTaskProtectionOutput](t)(w.client.GetTaskProtection(t.Context(), &ecs.GetTaskProtectionInput{Cluster: aws.String("default")}))
	if len(seen.ProtectedTasks) != 1 || !seen.ProtectedTasks[0].ProtectionEnabled || *seen.ProtectedTasks[0].TaskArn != one {
		t.Errorf("%+v", seen.ProtectedTasks)
	}
	if got := update(ecs.UpdateTaskProtectionInput{}).ProtectedTasks[0]; got.ProtectionEnabled || got.ExpirationDate != nil {
		t.Errorf("without protection: %+v", got)
	}
	for _, bad := range []string{`{"tasks": ["x"], "protectionEnabled": true}`, `{"cluster": "default", "tasks": [], "protectionEnabled": true}`, `{"cluster": "default", "tasks": ["x"]}`,
		`{"cluster": "default", "tasks": ["x"], "protectionEnabled": true, "expiresInMinutes": 2881}`} {
		if status, answer := w.post("UpdateTaskProtection", bad); status != 400 || !strings.Contains(answer, "InvalidParameterException") {
			t.Errorf("%s: %d %s", bad, status, answer)
		}
	}
}
