package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

func container(name string, essential bool, deps ...taskdef.Dependency) taskdef.Container {
	return taskdef.Container{Name: name, Image: "example.com/" + name + ":1", Essential: essential, StopTimeout: time.Second, DependsOn: deps}
}

func checked(c taskdef.Container) taskdef.Container {
	c.HealthCheck = &taskdef.HealthCheck{Command: []string{"CMD", "true"}, Interval: 5 * time.Second, Timeout: 2 * time.Second, Retries: 2}
	return c
}

func timed(c taskdef.Container) taskdef.Container { c.StartTimeout = 7 * time.Second; return c }

func restarting(c taskdef.Container) taskdef.Container {
	c.Restart = &taskdef.RestartPolicy{IgnoredExitCodes: []int{1}, AttemptPeriod: time.Minute}
	return c
}

func on(i int, c taskdef.Condition) taskdef.Dependency {
	return taskdef.Dependency{Container: i, Condition: c}
}

// task has an infra container.
func task(cs ...taskdef.Container) taskdef.Task {
	return taskdef.Task{Family: "model", Network: taskdef.NetworkBridge, IPCMode: taskdef.IPCTask, Containers: cs}
}

// apart has none.
func apart(t taskdef.Task) taskdef.Task {
	t.IPCMode = taskdef.IPCDefault
	return t
}

// modelCase is one exploration. Large ones take seconds and are TestModelLarge, which
// is not compiled with the race detector: the code under test has no goroutine.
type modelCase struct {
	name  string
	large bool
	pull  lifecycle.PullBehavior
	task  taskdef.Task
	Budget
}

// everydayStates bounds a case: one beyond it takes too much of a run.
const everydayStates = 400_000

// healthCases are about containers that are restarted when they are unhealthy.
func healthCases() []modelCase {
	revived := task(checked(restarting(container("a", true))))
	revived.Containers[0].HealthCheck.Action = taskdef.ActionRestart
	revived.Containers[0].HealthCheck.Retries = 1
	revived.Containers[0].Restart = &taskdef.RestartPolicy{IgnoredExitCodes: []int{0, 1, 143}, AttemptPeriod: time.Minute, BackOff: time.Second, MaxCount: 1}
	revived.Extensions.StopWhenUnhealthy = true
	beside := task(revived.Containers[0], container("b", true, on(0, taskdef.Healthy)))
	beside.Containers[0].Essential = false
	beside.Extensions.WatchDependencies = true
	return []modelCase{
		{name: "one that restarts when it is unhealthy", task: revived, Budget: Budget{Faults: 2, Exits: 1, Requests: 1}},
		{name: "one that restarts when it is unhealthy, crashes", task: revived, Budget: Budget{Faults: 1, Crashes: 1, Meddles: 1, Requests: 1}},
		{name: "HEALTHY, watched, that restarts when it is unhealthy", task: beside, Budget: Budget{Faults: 2}},
	}
}

// podCases are about what only Pods have.
func podCases() []modelCase {
	probe := func(failures int) *taskdef.Probe {
		return &taskdef.Probe{Action: taskdef.Action{Exec: []string{"true"}}, Period: 5 * time.Second, Timeout: 2 * time.Second, SuccessThreshold: 1, FailureThreshold: failures}
	}
	action := &taskdef.Action{Exec: []string{"true"}}
	gated := task(container("a", true))
	gated.Containers[0].Extensions.Probes = taskdef.Probes{Startup: probe(1), Readiness: probe(1)}
	gated.Containers[0].Restart = &taskdef.RestartPolicy{IgnoredExitCodes: []int{0, 1, 143}, AttemptPeriod: time.Minute, BackOff: time.Second, FirstAtOnce: true, MaxCount: 1}
	live := task(container("a", true))
	live.Containers[0].Extensions.Probes.Liveness = probe(1)
	live.Containers[0].Restart = gated.Containers[0].Restart
	live.Containers[0].Extensions.Hooks.PreStop = action
	beside := task(container("a", false), container("b", true, on(0, taskdef.Start)))
	beside.Containers[0].Extensions.Probes.Startup = probe(1)
	hooked := task(container("a", true))
	hooked.Containers[0].Extensions.Hooks = taskdef.Hooks{PostStart: action, PreStop: action}
	hooked.Containers[0].StopTimeout = 10 * time.Second
	routed := task(container("a", true), container("b", true, on(0, taskdef.Start)))
	routed.Containers[0].FireLens = &taskdef.FireLens{Type: "fluentbit"}
	routed.Containers[0].StopTimeout = 10 * time.Second
	routed.Containers[1].Log = &taskdef.LogConfiguration{Driver: logdriver.FireLens}
	asleep := task(container("a", true))
	asleep.Containers[0].Extensions.Hooks = taskdef.Hooks{PostStart: &taskdef.Action{Sleep: 3 * time.Second}, PreStop: &taskdef.Action{Sleep: 3 * time.Second}}
	both := task(container("a", true), container("b", true))
	both.Extensions.UntilLast = true
	late := task(container("a", true))
	late.Extensions.Deadline = time.Minute
	return []modelCase{
		{name: "startup before readiness", task: gated, Budget: Budget{Faults: 2, Exits: 1, Requests: 1}},
		{name: "liveness and preStop", task: live, Budget: Budget{Faults: 2, Crashes: 1, Requests: 1}},
		{name: "START of one with a startup check", task: beside, Budget: Budget{Faults: 1, Exits: 1}},
		{name: "hooks", task: hooked, Budget: Budget{Faults: 2, Exits: 1, Requests: 2}},
		{name: "hooks, crashes", task: hooked, Budget: Budget{Faults: 1, Crashes: 2, Splits: 1, Requests: 1, Alarms: 1}},
		{name: "hooks, meddled with", task: hooked, Budget: Budget{Meddles: 2, Exits: 1, Requests: 1, Alarms: 1}},
		{name: "hooks that sleep", task: asleep, Budget: Budget{Exits: 1, Crashes: 1, Requests: 2, Alarms: 1}},
		{name: "a log router", task: routed, Budget: Budget{Faults: 1, Exits: 1, Requests: 2}},
		{name: "a log router, crashes", task: routed, Budget: Budget{Crashes: 2, Splits: 1, Requests: 1, Alarms: 1}},
		{name: "until the last", task: both, Budget: Budget{Exits: 2, Crashes: 1, Requests: 1}},
		{name: "until the last, faults", task: both, Budget: Budget{Faults: 1, Exits: 2}},
		{name: "a deadline", task: late, Budget: Budget{Faults: 1, Exits: 1, Crashes: 1, Requests: 1}},
	}
}

// apartCases are about tasks without an infra container.
func apartCases() []modelCase {
	one := apart(task(container("a", true)))
	again := apart(task(restarting(container("a", true))))
	start := apart(task(container("a", true), container("b", true, on(0, taskdef.Start))))
	return []modelCase{
		{name: "one without an infra container", task: one, Budget: Budget{Faults: 2, Crashes: 1, Exits: 1, Requests: 1}},
		{name: "one without an infra container, rebooted, with meddling", task: again, Budget: Budget{Exits: 1, Reboots: 1, Vanishes: 1, Meddles: 2, Clocks: 1}},
		{name: "START, without an infra container", task: start, Budget: Budget{Faults: 1, Exits: 1, Requests: 1}},
		{name: "START, without an infra container, crashes", task: start, Budget: Budget{Crashes: 1, Exits: 1, Alarms: 1, Requests: 1}},
	}
}

// outageCases are about a Podman that is away or is cut off.
func outageCases() []modelCase {
	one := task(container("a", true))
	start := task(container("a", true), container("b", true, on(0, taskdef.Start)))
	again := task(restarting(container("a", true)))
	hooked := task(container("a", true))
	hook := &taskdef.Action{Exec: []string{"true"}}
	hooked.Containers[0].Extensions.Hooks = taskdef.Hooks{PostStart: hook, PreStop: hook}
	hooked.Containers[0].StopTimeout = 10 * time.Second
	return []modelCase{
		{name: "one, outages", task: one, Budget: Budget{Outages: 12, Requests: 1}},
		{name: "one without an infra container, outages", task: apart(one), Budget: Budget{Outages: 12, Requests: 2}},
		{name: "one, outages and faults", task: one, Budget: Budget{Outages: 2, Faults: 1, Crashes: 1, Requests: 1}},
		{name: "one that restarts, outages", task: again, Budget: Budget{Outages: 4, Exits: 1, Requests: 1}},
		{name: "hooks, outages", task: hooked, Budget: Budget{Outages: 5, Requests: 1}},
		{name: "START, outages", task: start, Budget: Budget{Outages: 2, Requests: 1}},
	}
}

func modelCases() []modelCase {
	one := task(container("a", true))
	check := task(checked(container("a", true)))
	start := task(container("a", true), container("b", true, on(0, taskdef.Start)))
	success := task(container("a", false), container("b", true, on(0, taskdef.Success)))
	complete := task(container("a", false), container("b", true, on(0, taskdef.Complete)))
	healthy := task(checked(timed(container("a", true))), container("b", true, on(0, taskdef.Healthy)))
	free := task(container("a", true), container("b", false))
	hungry := one
	hungry.CPU = 1
	again := task(restarting(container("a", true)))
	pause := again
	pause.Containers = []taskdef.Container{checked(pause.Containers[0])}
	job := task(restarting(container("a", false)), container("b", true, on(0, taskdef.Success)))
	job.Containers[0].Restart = &taskdef.RestartPolicy{IgnoredExitCodes: []int{0}, BackOff: time.Second, AttemptPeriod: time.Minute, MaxCount: 2}
	watched := task(checked(container("a", true)), container("b", true, on(0, taskdef.Healthy)))
	watched.Extensions = taskdef.TaskExtensions{StopWhenUnhealthy: true, WatchDependencies: true}
	two := Budget{Faults: 1, Crashes: 1, Exits: 1, Lates: 1, Requests: 1}
	joined := start
	joined.Extensions.Network = taskdef.NetworkShared
	return []modelCase{
		{name: "one", large: true, task: one, Budget: Budget{Faults: 2, Crashes: 1, Exits: 1, Lates: 1, Splits: 1, Requests: 1}},
		{name: "one, few faults", task: one, Budget: Budget{Faults: 1, Crashes: 1, Exits: 1, Lates: 1, Requests: 1}},
		{name: "one, strict pull", pull: lifecycle.PullAlways, task: one, Budget: Budget{Faults: 2, Exits: 1, Splits: 1, Requests: 1}},
		{name: "one, users who insist", task: one, Budget: Budget{Faults: 1, Requests: 3, Splits: 1, Exits: 1}},
		{name: "one, crashes and vanishing", task: one, Budget: Budget{Faults: 1, Crashes: 2, Exits: 1, Requests: 1, Vanishes: 1}},
		{name: "one, reboots and false alarms", task: one, Budget: Budget{Faults: 1, Reboots: 2, Exits: 1, Requests: 1, Alarms: 2}},
		{name: "one, answers that come twice", task: one, Budget: Budget{Faults: 1, Splits: 1, Exits: 1, Requests: 1, Lates: 3}},
		{name: "one, given up", task: one, Budget: Budget{Faults: 9, Exits: 1}},
		{name: "one with a health check", large: true, task: check, Budget: Budget{Faults: 2, Crashes: 1, Exits: 1, Splits: 1, Requests: 1}},
		{name: "one with a health check, few faults", task: check, Budget: Budget{Faults: 1, Crashes: 1, Exits: 1, Requests: 1}},
		{name: "START", large: true, task: start, Budget: two},
		{name: "START, few faults", task: start, Budget: Budget{Faults: 1, Exits: 1, Requests: 1}},
		{name: "START, killed on the way down", task: start, Budget: Budget{Requests: 2, Splits: 1}},
		{name: "START, rebooted", task: start, Budget: Budget{Reboots: 1, Exits: 1, Alarms: 1}},
		{name: "COMPLETE", large: true, task: complete, Budget: two},
		{name: "COMPLETE, few faults", task: complete, Budget: Budget{Crashes: 1, Exits: 1}},
		{name: "SUCCESS, strict pull", large: true, pull: lifecycle.PullAlways, task: success, Budget: two},
		{name: "SUCCESS, few faults", task: success, Budget: Budget{Crashes: 1, Exits: 1, Requests: 1}},
		{name: "SUCCESS with startTimeout", task: task(timed(success.Containers[0]), success.Containers[1]), Budget: Budget{Faults: 1, Exits: 1, Splits: 1, Requests: 1}},
		{name: "HEALTHY", large: true, task: healthy, Budget: Budget{Faults: 1, Crashes: 1, Exits: 1}},
		{name: "HEALTHY, stopped", task: healthy, Budget: Budget{Exits: 1, Requests: 2}},
		{name: "one that may have to wait for its share", task: hungry, Budget: Budget{Queues: 3, Requests: 1, Exits: 1}},
		{name: "one in the queue, faults and crashes", task: hungry, Budget: Budget{Queues: 2, Faults: 1, Crashes: 1, Requests: 1, Splits: 1}},
		{name: "one in the queue, rebooted", task: hungry, Budget: Budget{Queues: 1, Reboots: 1, Crashes: 1, Exits: 1, Requests: 1}},
		{name: "one that restarts", task: again, Budget: Budget{Faults: 1, Crashes: 1, Exits: 2, Requests: 1}},
		{name: "one that restarts, late answers", large: true, task: again, Budget: Budget{Faults: 1, Exits: 2, Splits: 1, Lates: 1, Requests: 1}},
		{name: "one that restarts, rebooted, with meddling", task: again, Budget: Budget{Exits: 1, Reboots: 1, Vanishes: 1, Meddles: 2, Clocks: 1}},
		{name: "one that is paused", task: pause, Budget: Budget{Faults: 1, Exits: 1, Meddles: 1, Requests: 1}},
		{name: "SUCCESS of one that restarts", large: true, task: job, Budget: Budget{Faults: 1, Exits: 3, Crashes: 1}},
		{name: "SUCCESS of one that restarts, few faults", task: job, Budget: Budget{Exits: 3, Requests: 1}},
		{name: "HEALTHY, watched", task: watched, Budget: Budget{Faults: 2, Exits: 1}},
		{name: "START, with a network that is cut off", task: joined, Budget: Budget{Meddles: 1, Exits: 1, Splits: 1}},
		{name: "one with a network that is cut off", task: one, Budget: Budget{Meddles: 2, Faults: 1, Crashes: 1, Splits: 1, Alarms: 1}},
		{name: "two that vanish", task: free, Budget: Budget{Crashes: 1, Exits: 1, Vanishes: 1, Requests: 1}},
	}
}

func TestModel(t *testing.T) {
	exploreAll(t, slices.Concat(modelCases(), outageCases(), apartCases(), healthCases(), podCases()), everydayStates, func(c modelCase) bool { return !c.large })
}

// exploreAll explores the chosen cases, at the same time.
func exploreAll(t *testing.T, cases []modelCase, states int, chosen func(modelCase) bool) {
	t.Helper()
	for _, c := range cases {
		if !chosen(c) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, err := New(c.task, lifecycle.Options{Pull: c.pull, Logs: taskdef.LogsAuto}, c.Budget)
			if err != nil {
				t.Fatal(err)
			}
			r, err := w.Explore(states)
			if err != nil {
				t.Fatal(err)
			}
			if r.States < 100 {
				t.Errorf("only %d states: the model explores too little", r.States)
			}
			t.Logf("%d states, %d moves", r.States, r.Moves)
		})
	}
}
