package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Walk makes one random way through the world of a random task of two to five
// containers, and then brings the task to its goal, stops it and removes it. The
// same seed makes the same way. The error is a *Violation. The return value is
// the number of moves.
func Walk(seed uint64) (moves int, err error) {
	defer catch(&err)
	r := rand.New(rand.NewPCG(seed, 0))
	t, o := randomTask(r), randomOptions(r)
	if seed%2 == 1 {
		t.Extensions.Network = taskdef.NetworkShared
	}
	if seed%10 != 4 {
		t.IPCMode = taskdef.IPCTask // so that there is an infra container
	}
	if seed%3 == 0 {
		likePod(rand.New(rand.NewPCG(seed, 2)), &t)
	}
	if err := t.Check(); err != nil {
		return 0, fmt.Errorf("the random task of seed %d is not valid: %w", seed, err)
	}
	b := randomBudget(r)
	b.Outages = rand.New(rand.NewPCG(seed, 3)).IntN(12)
	w := blank(t, o, b)
	w.driver = newDriver(w.state)
	w.step(lifecycle.Restarted{})
	friendly := 0.4 + r.Float64()/2
	for moves = range 40 + r.IntN(200) {
		m, ok := draw(w, r, friendly)
		if !ok {
			break
		}
		w.make(m)
	}
	w = finish(w, nil)
	for _, k := range []int{0, 2} { // stop, remove
		w.left.Requests = 1
		w.make(move{verb: request, arg: k})
		w = finish(w, nil)
	}
	if w.state.Sandbox.Phase != lifecycle.SandboxRemoved {
		w.broken(ReachesGoal, "removed in the end, but the sandbox is %s", w.state.Sandbox.Phase)
	}
	return moves, nil
}

// draw chooses a move: with probability friendly one that a world without
// faults could make, else any. What ends a task is drawn more rarely.
func draw(w *World, r *rand.Rand, friendly float64) (move, bool) {
	var all, good []move
	for _, m := range w.moves(nil) {
		final := m.verb == request || m.verb == reboot || m.verb == vanishes || m.verb == exits && w.state.Task.Containers[m.slot].Essential
		if final && r.IntN(8) > 0 {
			continue
		}
		all = append(all, m)
		if m.verb == works || m.verb == timer || m.verb == ages || m.verb == queueMoves || m.verb == hint && hintDue(w, m.slot) {
			good = append(good, m)
		}
	}
	if len(good) > 0 && r.Float64() < friendly {
		all = good
	}
	if len(all) == 0 {
		return move{}, false
	}
	return all[r.IntN(len(all))], true
}

func randomBudget(r *rand.Rand) Budget {
	return Budget{
		Faults: r.IntN(25), Splits: 20, Lates: 20, Exits: 6, Vanishes: r.IntN(3), Alarms: 10,
		Requests: r.IntN(4), Crashes: r.IntN(5), Reboots: r.IntN(2), Clocks: r.IntN(2), Meddles: r.IntN(4),
		Queues: r.IntN(6),
	}
}

func randomOptions(r *rand.Rand) lifecycle.Options {
	all := []lifecycle.PullBehavior{
		lifecycle.PullDefault, lifecycle.PullAlways, lifecycle.PullOnce, lifecycle.PullPreferCached, lifecycle.PullNever,
	}
	return lifecycle.Options{Pull: all[r.IntN(len(all))], Logs: taskdef.LogsAuto}
}

func randomTask(r *rand.Rand) taskdef.Task {
	t := taskdef.Task{Family: "random", Network: taskdef.NetworkBridge}
	n := 2 + r.IntN(4)
	if r.IntN(2) == 0 {
		t.CPU = 1
	}
	for i := range n {
		c := taskdef.Container{
			Name:        string(rune('a' + i)),
			Image:       fmt.Sprintf("example.com/%c:1", 'a'+i),
			Essential:   i == n-1 || r.IntN(2) == 0,
			StopTimeout: time.Duration(1+r.IntN(30)) * time.Second,
		}
		if r.IntN(4) == 0 {
			c.Image = fmt.Sprintf("example.com/%c@sha256:%064x", 'a'+i, i)
		}
		if r.IntN(3) == 0 {
			c.HealthCheck = randomCheck(r)
		}
		if r.IntN(3) == 0 {
			c.Restart = randomPolicy(r)
		}
		if r.IntN(3) == 0 {
			c.StartTimeout = time.Duration(2+r.IntN(100)) * time.Second
		}
		for d := range i {
			if r.IntN(3) > 0 {
				c.DependsOn = append(c.DependsOn, taskdef.Dependency{Container: d, Condition: RandomCondition(r, t.Containers[d])})
			}
		}
		t.Containers = append(t.Containers, c)
	}
	t.Extensions = taskdef.TaskExtensions{StopWhenUnhealthy: r.IntN(4) == 0, WatchDependencies: r.IntN(4) == 0}
	return t
}

// randomPolicy never restarts a container forever if another one waits for it.
func randomPolicy(r *rand.Rand) *taskdef.RestartPolicy {
	p := &taskdef.RestartPolicy{AttemptPeriod: time.Duration(60+r.IntN(600)) * time.Second}
	if r.IntN(2) == 0 {
		p.BackOff, p.MaxCount = time.Duration(1+r.IntN(90))*time.Second, 1+r.IntN(4)
	}
	for code := range 2 {
		if r.IntN(3) == 0 {
			p.IgnoredExitCodes = append(p.IgnoredExitCodes, code)
		}
	}
	return p
}

func randomCheck(r *rand.Rand) *taskdef.HealthCheck {
	h := &taskdef.HealthCheck{
		Command:     []string{"CMD", "true"},
		Interval:    time.Duration(5+r.IntN(60)) * time.Second,
		Timeout:     time.Duration(2+r.IntN(59)) * time.Second,
		Retries:     1 + r.IntN(10),
		StartPeriod: time.Duration(r.IntN(4)*r.IntN(60)) * time.Second,
	}
	if r.IntN(3) == 0 {
		h.Action = taskdef.ActionRestart
	}
	return h
}

// likePod gives a task what only those made from a Pod have.
func likePod(r *rand.Rand, t *taskdef.Task) {
	t.Extensions.UntilLast = r.IntN(2) == 0
	if r.IntN(4) == 0 {
		t.Extensions.Deadline = time.Duration(1+r.IntN(2000)) * time.Second
	}
	for i := range t.Containers {
		c := &t.Containers[i]
		probes := &c.Extensions.Probes
		for _, p := range []**taskdef.Probe{&probes.Startup, &probes.Readiness, &probes.Liveness} {
			if c.HealthCheck == nil && r.IntN(3) == 0 {
				*p = randomProbe(r)
			}
		}
		if probes.Readiness != nil {
			probes.Readiness.SuccessThreshold += r.IntN(3)
		}
		for _, h := range []**taskdef.Action{&c.Extensions.Hooks.PostStart, &c.Extensions.Hooks.PreStop} {
			switch r.IntN(6) {
			case 0:
				*h = &taskdef.Action{Exec: []string{"true"}}
			case 1:
				*h = &taskdef.Action{Sleep: time.Duration(1+r.IntN(60)) * time.Second}
			}
		}
		if c.Restart != nil && c.Restart.BackOff > 0 {
			c.Restart.FirstAtOnce = r.IntN(2) == 0
		}
	}
}

func randomProbe(r *rand.Rand) *taskdef.Probe {
	p := &taskdef.Probe{
		Action:           taskdef.Action{Exec: []string{"true"}},
		InitialDelay:     time.Duration(r.IntN(2)*r.IntN(60)) * time.Second,
		Period:           time.Duration(1+r.IntN(60)) * time.Second,
		Timeout:          time.Duration(1+r.IntN(60)) * time.Second,
		SuccessThreshold: 1,
		FailureThreshold: 1 + r.IntN(4),
	}
	if r.IntN(3) == 0 {
		p.Grace = time.Duration(1+r.IntN(30)) * time.Second
	}
	return p
}

// RandomCondition draws a condition that the ECS model allows on a container.
func RandomCondition(r *rand.Rand, on taskdef.Container) taskdef.Condition {
	all := []taskdef.Condition{taskdef.Start}
	if !on.Essential {
		all = append(all, taskdef.Complete, taskdef.Success)
	}
	if on.HealthCheck != nil {
		all = append(all, taskdef.Healthy)
	}
	return all[r.IntN(len(all))]
}
