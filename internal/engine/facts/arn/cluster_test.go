package arn

import "testing"

func TestTasksOfECS(t *testing.T) {
	t.Parallel()
	const whole = "arn:aws:ecs:us-east-1:111122223333:task/lab/0123456789abcdef0123456789abcdef"
	if task, cluster, ok := OfECS(map[string]string{TagTask: whole}); !ok || task != whole || cluster != "lab" {
		t.Errorf("%s, %s, %t", task, cluster, ok)
	}
	for _, other := range []string{"", "mine", "arn:aws:ecs:us-east-1:111122223333:service/lab/a", whole + "/x", "arn:aws:ecs:us-east-1:111122223333:task/a b/1"} {
		if task, _, ok := OfECS(map[string]string{TagTask: other}); ok {
			t.Errorf("%q is %s", other, task)
		}
	}
}
