package ecs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
)

// step is one of the tasks of a trial: what it does, and what ECS and this host are expected to answer.
type step struct {
	name, expected string
	// script is the shell script of the task; without one, do does all.
	script string
	fields map[string]any // of its container
	// do is called when the task was placed. It returns the answer; an error has the answer that came instead.
	do func(ctx context.Context, t *trial, arn string) (answer string, err error)
}

// result is the outcome of a step.
type result struct {
	name, expected, answer string
	took                   time.Duration
	ok                     bool
}

// ecsTask is a task in the answer to DescribeTasks.
type ecsTask struct {
	LastStatus    string `json:"lastStatus"`
	HealthStatus  string `json:"healthStatus"`
	StoppedReason string `json:"stoppedReason"`
	Containers    []struct {
		ExitCode    *int   `json:"exitCode"`
		Reason      string `json:"reason"`
		ImageDigest string `json:"imageDigest"`
	} `json:"containers"`
}

// String is the answer in a report.
func (k ecsTask) String() string {
	words := []string{k.LastStatus}
	for _, c := range k.Containers {
		if c.ExitCode != nil {
			words = append(words, "exit "+strconv.Itoa(*c.ExitCode))
		}
		words = append(words, c.Reason)
	}
	if k.HealthStatus != "" && k.HealthStatus != "UNKNOWN" {
		words = append(words, k.HealthStatus)
	}
	return strings.Join(strings.Fields(strings.Join(append(words, k.StoppedReason), " ")), " ")
}

// exits reports whether the task has stopped and its container has ended with a code.
func (k ecsTask) exits(code int) bool {
	return k.LastStatus == "STOPPED" && len(k.Containers) == 1 && k.Containers[0].ExitCode != nil && *k.Containers[0].ExitCode == code
}

// says reports whether the task has stopped for a reason that has a word.
func (k ecsTask) says(word string) bool {
	return k.LastStatus == "STOPPED" && strings.Contains(k.String(), word)
}

// awaits is a step that ends when the task is as a function says. A task that has stopped stays as it is.
func awaits(is func(ecsTask) bool) func(context.Context, *trial, string) (string, error) {
	return func(ctx context.Context, t *trial, arn string) (string, error) {
		return t.until(ctx, func(ctx context.Context) (bool, string, error) {
			k, err := t.describe(ctx, arn)
			switch {
			case err != nil:
				return false, "", err
			case is(k):
				return true, k.String(), nil
			case k.LastStatus == "STOPPED":
				return false, "", errors.New(k.String())
			}
			return false, k.String(), nil
		})
	}
}

func steps(t *trial) []step {
	secret := func(name string) map[string]any {
		return map[string]any{"secrets": []any{map[string]string{"name": "TOKEN", "valueFrom": name}}}
	}
	running := awaits(func(k ecsTask) bool { return k.LastStatus == "RUNNING" })
	return []step{
		{name: "exit", expected: "STOPPED, exit 0, with the digest of the image", script: "exit 0",
			do: awaits(func(k ecsTask) bool { return k.exits(0) && strings.HasPrefix(k.Containers[0].ImageDigest, "sha256:") })},
		{name: "exit-code", expected: "STOPPED, exit 7", script: "exit 7", do: awaits(func(k ecsTask) bool { return k.exits(7) })},
		{name: "secret", expected: "STOPPED, exit 0: the value of Parameter Store is in the container", fields: secret(t.name),
			script: fmt.Sprintf(`[ "${#TOKEN}" -eq %d ]`, len(t.secret)), do: awaits(func(k ecsTask) bool { return k.exits(0) })},
		{name: "no-secret", expected: "STOPPED, ResourceInitializationError: the parameter does not exist", fields: secret(t.name + "-none"),
			script: "exit 0", do: awaits(func(k ecsTask) bool { return k.says("ResourceInitializationError") })},
		{name: "logs", expected: "the line of the container in CloudWatch Logs", script: "echo hello from podtask", do: func(ctx context.Context, t *trial, arn string) (string, error) { return t.readLog(ctx, arn) },
			fields: map[string]any{"logConfiguration": map[string]any{"logDriver": "awslogs", "options": map[string]string{"awslogs-group": t.name, "awslogs-region": t.region, "awslogs-stream-prefix": "trial"}}}},
		{name: "health", expected: "RUNNING, HEALTHY", script: "sleep 600",
			fields: map[string]any{"healthCheck": map[string]any{"command": []string{"CMD-SHELL", "exit 0"}, "interval": 5, "timeout": 5, "retries": 1}},
			do: func(ctx context.Context, t *trial, arn string) (string, error) {
				answer, err := awaits(func(k ecsTask) bool { return k.HealthStatus == "HEALTHY" })(ctx, t, arn)
				return answer, errors.Join(err, t.stopTask(ctx, arn))
			}},
		{name: "stop", expected: "STOPPED, exit 5, by the SIGTERM of StopTask", script: "trap 'exit 5' TERM; sleep 600 & wait",
			do: func(ctx context.Context, t *trial, arn string) (string, error) {
				if answer, err := running(ctx, t, arn); err != nil {
					return answer, err
				}
				if err := t.stopTask(ctx, arn); err != nil {
					return "", err
				}
				return awaits(func(k ecsTask) bool { return k.exits(5) })(ctx, t, arn)
			}},
		{name: "image", expected: "STOPPED, CannotPull: the tag does not exist", script: "exit 0", fields: map[string]any{"image": withoutTag(t.image) + ":" + t.name},
			do: awaits(func(k ecsTask) bool { return k.says("CannotPull") })},
		{name: "rollout", expected: "both deployments COMPLETED, one task of revision 2", do: rollout},
		{name: "drain", expected: "no task of the service on an instance that is DRAINING", do: drained},
	}
}

// withoutTag is an image without its tag.
func withoutTag(image string) string {
	if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') {
		return image[:i]
	}
	return image
}

// runSteps runs the steps, one after the other. It ends early only if ctx does.
func (t *trial) runSteps(ctx context.Context) error {
	for _, s := range steps(t) {
		began := time.Now()
		answer, err := t.step(ctx, s)
		if err != nil {
			answer = strings.TrimPrefix(answer+"; ", "; ") + err.Error()
		}
		r := result{name: s.name, expected: s.expected, answer: answer, took: time.Since(began), ok: err == nil}
		t.results = append(t.results, r)
		fmt.Fprintf(t.out, "%-7s %s: %s\n", r.verdict(), r.name, answer)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

func (r result) verdict() string {
	if r.ok {
		return "ok"
	}
	return "DIFFERS"
}

func (t *trial) step(ctx context.Context, s step) (answer string, err error) {
	if s.script == "" {
		return s.do(ctx, t, "")
	}
	definition, err := t.register(ctx, t.name+"-"+s.name, s.script, s.fields)
	if err != nil {
		return "", err
	}
	var out struct {
		Tasks []struct {
			TaskARN string `json:"taskArn"`
		} `json:"tasks"`
		Failures []struct{ Reason string } `json:"failures"`
	}
	if err := t.aws.call(ctx, &out, "ecs", "run-task", "--cluster", t.name, "--launch-type", "EXTERNAL", "--task-definition", definition); err != nil {
		return "", err
	}
	if len(out.Tasks) != 1 {
		return "", fmt.Errorf("RunTask has placed nothing: %v", out.Failures)
	}
	return s.do(ctx, t, out.Tasks[0].TaskARN)
}

// register registers a revision whose container runs a script.
func (t *trial) register(ctx context.Context, family, script string, fields map[string]any) (arn string, err error) {
	container := map[string]any{"name": "app", "image": t.image, "memory": 32, "essential": true, "stopTimeout": 5, "entryPoint": []string{"/bin/sh", "-c"}, "command": []string{script}}
	maps.Copy(container, fields)
	text, err := json.Marshal([]any{container})
	if err != nil {
		return "", err
	}
	var out struct {
		TaskDefinition struct {
			ARN string `json:"taskDefinitionArn"`
		} `json:"taskDefinition"`
	}
	err = t.aws.call(ctx, &out, "ecs", "register-task-definition", "--family", family, "--network-mode", "bridge", "--requires-compatibilities", "EXTERNAL",
		"--execution-role-arn", t.known["$EXECUTION_ROLE_ARN"], "--container-definitions", string(text))
	if out.TaskDefinition.ARN != "" {
		t.definitions = append(t.definitions, out.TaskDefinition.ARN)
		err = errors.Join(err, t.keep())
	}
	return out.TaskDefinition.ARN, err
}

func (t *trial) describe(ctx context.Context, arn string) (k ecsTask, err error) {
	var out struct {
		Tasks []ecsTask `json:"tasks"`
	}
	if err := t.aws.call(ctx, &out, "ecs", "describe-tasks", "--cluster", t.name, "--tasks", arn); err != nil {
		return k, err
	}
	if len(out.Tasks) != 1 {
		return k, errors.New("ECS does not know the task any more")
	}
	return out.Tasks[0], nil
}

func (t *trial) stopTask(ctx context.Context, arn string) error {
	return t.aws.call(ctx, nil, "ecs", "stop-task", "--cluster", t.name, "--task", arn, "--reason", "the trial stops it")
}

// readLog waits for the line of a task in CloudWatch Logs.
func (t *trial) readLog(ctx context.Context, arn string) (string, error) {
	if answer, err := awaits(func(k ecsTask) bool { return k.exits(0) })(ctx, t, arn); err != nil {
		return answer, err
	}
	stream := "trial/app/" + arn[strings.LastIndexByte(arn, '/')+1:]
	return t.until(ctx, func(ctx context.Context) (bool, string, error) {
		var out struct {
			Events []struct{ Message string } `json:"events"`
		}
		err := t.aws.call(ctx, &out, "logs", "get-log-events", "--log-group-name", t.name, "--log-stream-name", stream)
		if err != nil && isMissing(err) {
			return false, "no stream", nil
		}
		text := fmt.Sprint(out.Events)
		return strings.Contains(text, "hello from podtask"), text, err
	})
}

// rollout makes a service of one task, and rolls it to another revision.
func rollout(ctx context.Context, t *trial, _ string) (answer string, err error) {
	var answers []string
	for revision, script := range []string{"sleep 600", "sleep 601"} {
		definition, err := t.register(ctx, t.name+"-rollout", "trap 'exit 0' TERM; "+script+" & wait", nil)
		if err != nil {
			return "", err
		}
		args := []string{"ecs", "update-service", "--service", t.name}
		if revision == 0 {
			args = []string{"ecs", "create-service", "--service-name", t.name, "--desired-count", "1", "--launch-type", "EXTERNAL",
				"--deployment-configuration", "minimumHealthyPercent=0,maximumPercent=200"}
		}
		if err := t.aws.call(ctx, nil, append(args, "--cluster", t.name, "--task-definition", definition)...); err != nil {
			return "", err
		}
		answer, err := t.awaitService(ctx, func(s ecsService) bool {
			return len(s.Deployments) == 1 && s.Deployments[0].TaskDefinition == definition && s.Deployments[0].RolloutState == "COMPLETED" && s.RunningCount == 1
		})
		if err != nil {
			return answer, err
		}
		answers = append(answers, answer)
	}
	return strings.Join(answers, ", then "), nil
}

// drained drains the instance, and waits until the task of the service has gone.
func drained(ctx context.Context, t *trial, _ string) (string, error) {
	if _, err := t.instance.do(ctx, "", "drain", "--region", t.region); err != nil {
		return "", err
	}
	return t.awaitService(ctx, func(s ecsService) bool { return s.RunningCount == 0 })
}

// ecsService is a service in the answer to DescribeServices.
type ecsService struct {
	RunningCount int `json:"runningCount"`
	Deployments  []struct {
		TaskDefinition string `json:"taskDefinition"`
		RolloutState   string `json:"rolloutState"`
	} `json:"deployments"`
}

func (t *trial) awaitService(ctx context.Context, is func(ecsService) bool) (string, error) {
	return t.until(ctx, func(ctx context.Context) (bool, string, error) {
		var out struct {
			Services []ecsService `json:"services"`
		}
		if err := t.aws.call(ctx, &out, "ecs", "describe-services", "--cluster", t.name, "--services", t.name); err != nil || len(out.Services) != 1 {
			return false, "no service", err
		}
		s := out.Services[0]
		words := []string{fmt.Sprintf("%d running", s.RunningCount)}
		for _, d := range s.Deployments {
			words = append(words, d.TaskDefinition[strings.LastIndexByte(d.TaskDefinition, ':')+1:]+" "+d.RolloutState)
		}
		return is(s), strings.Join(words, " "), nil
	})
}
