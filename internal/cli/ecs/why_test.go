package ecs

import (
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/cli/reason"
	"github.com/podtask/podtask/internal/ecsstatus"
	"github.com/podtask/podtask/internal/engine/facts/arn"
	"github.com/podtask/podtask/pkg/api"
)

func TestWhyATaskOfECSWaits(t *testing.T) {
	t.Parallel()
	now := time.Now()
	const task = "arn:aws:ecs:us-east-1:111122223333:task/lab/0123"
	waits := []ecsstatus.Wait{
		{Kind: ecsstatus.WaitRegistration, Text: "ECS", Since: now},
		{Kind: ecsstatus.WaitCredentials, Task: task, Text: "the credentials of its execution role, which ECS has not sent", Since: now.Add(-time.Minute)},
	}
	for _, ref := range []string{task, "0123", "ecs-0123"} {
		a, found := explainECS(waits, ref, now)
		if !found || a.Sentence != "ecs-0123 is not created yet: podtask-ecs waits for the credentials of its execution role, which ECS has not sent (1m so far)." {
			t.Errorf("%s: %t %q", ref, found, a.Sentence)
		}
	}
	for _, ref := range []string{"", "other", "ecs-"} {
		if a, found := explainECS(waits, ref, now); found {
			t.Errorf("%q: %+v", ref, a)
		}
	}
	one := api.Task{ID: strings.Repeat("a", 32), Name: "ecs-0123", Status: "RUNNING", Tags: map[string]string{arn.TagTask: task}, Why: []api.Reason{{Code: "running", Text: "it waits for nothing"}}}
	one.Owner.Alive = true
	one.Why = append(one.Why, ecsReasons(waits, one)...)
	if a := reason.Task(one, now); !strings.Contains(a.Sentence, "nothing. podtask-ecs waits for the credentials") {
		t.Errorf("%q", a.Sentence)
	}
	if r := ecsReasons(waits, api.Task{}); len(r) > 0 {
		t.Errorf("a task that is not of ECS has %+v", r)
	}
}
