package enginesim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/testing/sim"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// randomTask is a valid task of one to five containers; pinned are references
// with digests.
func randomTask(r *rand.Rand, family string, pinned []string) taskdef.Task {
	t := taskdef.Task{Family: family, Network: taskdef.NetworkBridge}
	t.CPU = float64(r.IntN(3)) / 2
	n := 1 + r.IntN(5)
	for i := range n {
		c := taskdef.Container{
			Name:        string(rune('a' + i)),
			Image:       imageName(r.IntN(imageMissing)),
			Essential:   i == n-1 || r.IntN(2) == 0,
			StopTimeout: time.Duration(1+r.IntN(30)) * time.Second,
			Environment: []taskdef.EnvVar{{Name: "N", Value: fmt.Sprint(i)}},
		}
		switch r.IntN(40) {
		case 0:
			c.Image = imageName(imageMissing)
		case 1, 2, 3, 4, 5, 6:
			c.Image = pinned[r.IntN(len(pinned))]
		}
		if r.IntN(3) == 0 {
			c.HealthCheck = randomCheck(r)
		}
		if r.IntN(3) == 0 {
			c.StartTimeout = time.Duration(2+r.IntN(100)) * time.Second
		}
		if r.IntN(4) == 0 {
			c.Restart = randomPolicy(r)
		}
		c.Command = randomProgram(r, c)
		if r.IntN(40) == 0 {
			c.EntryPoint = []string{"/no/such/command"}
		}
		if r.IntN(10) == 0 {
			c.Ports = []taskdef.Port{{ContainerPort: uint16(80 + i), HostPort: uint16(r.IntN(2) * (firstPort + i)), Protocol: "tcp"}}
		}
		if r.IntN(12) == 0 {
			c.Linux.GPUs = 1
		}
		if i > 0 && r.IntN(8) == 0 {
			c.VolumesFrom = []taskdef.VolumesFrom{{Container: r.IntN(i)}}
		}
		for d := range i {
			if r.IntN(3) > 0 {
				c.DependsOn = append(c.DependsOn, taskdef.Dependency{Container: d, Condition: sim.RandomCondition(r, t.Containers[d])})
			}
		}
		t.Containers = append(t.Containers, c)
	}
	return t
}

// firstPort is the first of the host ports that tasks ask for.
const firstPort = 61000

// gpus are the devices that tasks share.
var gpus = []string{"example.com/gpu=0", "example.com/gpu=1"}

// healthy is the file that health checks look for.
const healthy = "/healthy"

func randomCheck(r *rand.Rand) *taskdef.HealthCheck {
	h := &taskdef.HealthCheck{
		Command:     []string{"CMD", "/testbox", "exists", healthy},
		Interval:    time.Duration(5+r.IntN(60)) * time.Second,
		Timeout:     time.Duration(2+r.IntN(10)) * time.Second,
		Retries:     1 + r.IntN(4),
		StartPeriod: time.Duration(r.IntN(2)*r.IntN(60)) * time.Second,
	}
	if r.IntN(5) == 0 {
		h.Command = []string{"CMD", "/testbox", "sleep", fmt.Sprintf("%ds", r.IntN(15)), "--", "exists", healthy}
	}
	if r.IntN(4) == 0 {
		h.Action = taskdef.ActionRestart
	}
	return h
}

// likePod gives a task what only those made from a Pod have.
func likePod(r *rand.Rand, t *taskdef.Task) {
	t.Extensions.UntilLast = r.IntN(2) == 0
	if r.IntN(4) == 0 {
		t.Extensions.Deadline = time.Duration(20+r.IntN(400)) * time.Second
	}
	for i := range t.Containers {
		c := &t.Containers[i]
		probes := &c.Extensions.Probes
		if c.HealthCheck != nil { // the others have what they wait for
			probes.Readiness = randomProbe(r, c.HealthCheck.Command[1:])
			probes.Readiness.SuccessThreshold += r.IntN(2)
			if r.IntN(2) == 0 {
				probes.Startup = randomProbe(r, []string{"/testbox", "exists", healthy})
				probes.Startup.FailureThreshold += 10
			}
			c.HealthCheck = nil
		}
		if r.IntN(3) == 0 {
			probes.Liveness = randomProbe(r, []string{"/testbox", "sleep", fmt.Sprintf("%ds", r.IntN(8)), "--", "exit", fmt.Sprint(r.IntN(6) / 5)})
		}
		if r.IntN(3) == 0 {
			failed := 0
			if c.Restart == nil || c.Restart.MaxCount > 0 {
				failed = r.IntN(6) / 5
			}
			c.Extensions.Hooks.PostStart = &taskdef.Action{Exec: []string{"/testbox", "sleep", fmt.Sprintf("%ds", r.IntN(8)), "--", "exit", fmt.Sprint(failed)}}
		}
		if r.IntN(3) == 0 {
			c.Extensions.Hooks.PreStop = &taskdef.Action{Exec: []string{"/testbox", "sleep", fmt.Sprintf("%ds", r.IntN(30))}}
		}
		if c.Restart != nil && c.Restart.BackOff > 0 {
			c.Restart.FirstAtOnce = r.IntN(2) == 0
		}
	}
}

func randomProbe(r *rand.Rand, command []string) *taskdef.Probe {
	return &taskdef.Probe{
		Action:           taskdef.Action{Exec: command},
		InitialDelay:     time.Duration(r.IntN(2)*r.IntN(20)) * time.Second,
		Period:           time.Duration(1+r.IntN(20)) * time.Second,
		Timeout:          time.Duration(1+r.IntN(10)) * time.Second,
		SuccessThreshold: 1,
		FailureThreshold: 1 + r.IntN(4),
	}
}

// randomPolicy restarts no container for ever that another waits for.
func randomPolicy(r *rand.Rand) *taskdef.RestartPolicy {
	p := &taskdef.RestartPolicy{AttemptPeriod: time.Minute}
	if r.IntN(2) == 0 {
		p.BackOff, p.MaxCount = time.Duration(1+r.IntN(20))*time.Second, 1+r.IntN(3)
	} else {
		p.IgnoredExitCodes = []int{0}
	}
	return p
}

// randomProgram is what a container does: jobs end, services mostly do not.
func randomProgram(r *rand.Rand, c taskdef.Container) []string {
	var steps []string
	switch r.IntN(4) {
	case 0:
		steps = append(steps, "term ignore")
	case 1:
		steps = append(steps, fmt.Sprintf("term %d", r.IntN(3)))
	}
	if c.HealthCheck != nil {
		steps = append(steps, fmt.Sprintf("sleep %ds", r.IntN(20)), "write "+healthy)
	}
	switch {
	case c.Essential && r.IntN(3) > 0, c.HealthCheck != nil && r.IntN(2) == 0:
		steps = append(steps, "sleep forever")
	case r.IntN(3) == 0:
		steps = append(steps, fmt.Sprintf("sleep %ds", r.IntN(100)), fmt.Sprintf("exit %d", 1+r.IntN(120)))
	default:
		steps = append(steps, fmt.Sprintf("sleep %ds", r.IntN(60)), "exit 0")
	}
	return strings.Fields(strings.Join(steps, " -- "))
}

func randomOptions(r *rand.Rand) lifecycle.Options {
	all := []lifecycle.PullBehavior{
		lifecycle.PullDefault, lifecycle.PullDefault, lifecycle.PullDefault, lifecycle.PullAlways, lifecycle.PullOnce, lifecycle.PullPreferCached,
		lifecycle.PullNever,
	}
	return lifecycle.Options{Pull: all[r.IntN(len(all))], Remove: r.IntN(10) == 0}
}
