package sim

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

// define reads what follows "container" in a script.
func (p *player) define(text string) error {
	clauses := strings.Split(text, ", ")
	c := taskdef.Container{
		Name: clauses[0], Image: "example.com/" + clauses[0] + ":1", Essential: true, StopTimeout: taskdef.DefaultStopTimeout,
	}
	for _, clause := range clauses[1:] {
		if err := p.clause(&c, strings.Fields(clause)); err != nil {
			return fmt.Errorf("%q: %w", clause, err)
		}
	}
	p.task.Containers = append(p.task.Containers, c)
	return nil
}

func (p *player) clause(c *taskdef.Container, words []string) (err error) {
	switch {
	case len(words) == 1 && words[0] == "optional":
		c.Essential = false
	case len(words) == 1 && words[0] == "router":
		c.FireLens = &taskdef.FireLens{Type: "fluentbit"}
	case len(words) == 1 && words[0] == "routed":
		c.Log = &taskdef.LogConfiguration{Driver: logdriver.FireLens}
	case len(words) == 2 && words[0] == "image":
		c.Image = words[1]
	case len(words) == 2 && words[0] == "cpu":
		c.CPU, err = strconv.ParseInt(words[1], 10, 64)
	case len(words) == 3 && words[0] == "after":
		i, ok := p.task.Index(words[1])
		if !ok {
			return fmt.Errorf("there is no such container above")
		}
		c.DependsOn = append(c.DependsOn, taskdef.Dependency{Container: i, Condition: taskdef.Condition(words[2])})
	case len(words) >= 2 && words[0] == "restart":
		c.Restart, err = restartPolicy(words[1:])
	case len(words) >= 2 && words[0] == "ignoring" && c.Restart != nil:
		for _, w := range words[1:] {
			code, err := strconv.Atoi(w)
			if err != nil {
				return err
			}
			c.Restart.IgnoredExitCodes = append(c.Restart.IgnoredExitCodes, code)
		}
	case len(words) == 3 && words[0] == "start" && words[1] == "timeout":
		c.StartTimeout, err = time.ParseDuration(words[2])
	case len(words) == 3 && words[0] == "stop" && words[1] == "timeout":
		c.StopTimeout, err = time.ParseDuration(words[2])
	case len(words) >= 4 && words[0] == "check":
		c.HealthCheck, err = healthCheck(words[1:])
	case len(words) >= 4 && (words[0] == "startup" || words[0] == "readiness" || words[0] == "liveness"):
		err = probe(c, words)
	case len(words) >= 1 && (words[0] == "post-start" || words[0] == "pre-stop"):
		err = hook(c, words)
	case len(words) == 2 && words[0] == "first" && words[1] == "at-once" && c.Restart != nil:
		c.Restart.FirstAtOnce = true
	case len(words) == 2 && words[0] == "unhealthy" && c.HealthCheck != nil:
		c.HealthCheck.Action = taskdef.HealthAction(words[1])
	default:
		return fmt.Errorf("no such clause")
	}
	return err
}

func restartPolicy(words []string) (p *taskdef.RestartPolicy, err error) {
	p = &taskdef.RestartPolicy{}
	p.AttemptPeriod, err = time.ParseDuration(words[0])
	if err == nil && len(words) > 1 {
		p.BackOff, err = time.ParseDuration(words[1])
	}
	if err == nil && len(words) > 2 {
		p.MaxCount, err = strconv.Atoi(words[2])
	}
	return p, err
}

func healthCheck(words []string) (*taskdef.HealthCheck, error) {
	h := &taskdef.HealthCheck{Command: []string{"CMD", "true"}}
	var errs [4]error
	h.Interval, errs[0] = time.ParseDuration(words[0])
	h.Timeout, errs[1] = time.ParseDuration(words[1])
	h.Retries, errs[2] = strconv.Atoi(words[2])
	if len(words) > 3 {
		h.StartPeriod, errs[3] = time.ParseDuration(words[3])
	}
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return h, nil
}

// probe reads KIND PERIOD TIMEOUT FAILURES [DELAY [SUCCESSES]].
func probe(c *taskdef.Container, words []string) error {
	p := &taskdef.Probe{Action: taskdef.Action{Exec: []string{"true"}}, SuccessThreshold: 1}
	var errs [5]error
	p.Period, errs[0] = time.ParseDuration(words[1])
	p.Timeout, errs[1] = time.ParseDuration(words[2])
	p.FailureThreshold, errs[2] = strconv.Atoi(words[3])
	if len(words) > 4 {
		p.InitialDelay, errs[3] = time.ParseDuration(words[4])
	}
	if len(words) > 5 {
		p.SuccessThreshold, errs[4] = strconv.Atoi(words[5])
	}
	*probeOf(c, words[0]) = p
	return errors.Join(errs[:]...)
}

func probeOf(c *taskdef.Container, kind string) **taskdef.Probe {
	switch kind {
	case "startup":
		return &c.Extensions.Probes.Startup
	case "readiness":
		return &c.Extensions.Probes.Readiness
	default:
		return &c.Extensions.Probes.Liveness
	}
}

// hook reads KIND [sleep D].
func hook(c *taskdef.Container, words []string) (err error) {
	a := &taskdef.Action{Exec: []string{"true"}}
	if len(words) == 3 && words[1] == "sleep" {
		a.Exec = nil
		a.Sleep, err = time.ParseDuration(words[2])
	}
	if words[0] == "pre-stop" {
		c.Extensions.Hooks.PreStop = a
	} else {
		c.Extensions.Hooks.PostStart = a
	}
	return err
}

// describeExtensions writes probes and hooks.
func describeExtensions(b *strings.Builder, c taskdef.Container) {
	for _, kind := range []string{"startup", "readiness", "liveness"} {
		if p := *probeOf(&c, kind); p != nil {
			fmt.Fprintf(b, ", %s %s %s %d %s %d", kind, p.Period, p.Timeout, p.FailureThreshold, p.InitialDelay, p.SuccessThreshold)
		}
	}
	describeHook(b, "post-start", c.Extensions.Hooks.PostStart)
	describeHook(b, "pre-stop", c.Extensions.Hooks.PreStop)
	if c.FireLens != nil {
		b.WriteString(", router")
	}
	if c.Log != nil {
		b.WriteString(", routed")
	}
}

func describeHook(b *strings.Builder, kind string, a *taskdef.Action) {
	switch {
	case a == nil:
	case a.Sleep > 0:
		fmt.Fprintf(b, ", %s sleep %s", kind, a.Sleep)
	default:
		b.WriteString(", " + kind)
	}
}

// describeTask writes a task in the words of a script.
func describeTask(t taskdef.Task, o lifecycle.Options) string {
	var b strings.Builder
	fmt.Fprintf(&b, "pull %s\n", o.Pull)
	if t.Extensions.UntilLast {
		b.WriteString("until last\n")
	}
	if t.Extensions.Deadline > 0 {
		fmt.Fprintf(&b, "deadline %s\n", t.Extensions.Deadline)
	}
	for _, c := range t.Containers {
		fmt.Fprintf(&b, "container %s", c.Name)
		if !c.Essential {
			b.WriteString(", optional")
		}
		if c.CPU > 0 {
			fmt.Fprintf(&b, ", cpu %d", c.CPU)
		}
		if strings.Contains(c.Image, "@") {
			b.WriteString(", image " + c.Image)
		}
		for _, d := range c.DependsOn {
			fmt.Fprintf(&b, ", after %s %s", t.Containers[d.Container].Name, d.Condition)
		}
		if h := c.HealthCheck; h != nil {
			fmt.Fprintf(&b, ", check %s %s %d %s", h.Interval, h.Timeout, h.Retries, h.StartPeriod)
			if h.Action != "" {
				fmt.Fprintf(&b, ", unhealthy %s", h.Action)
			}
		}
		if p := c.Restart; p != nil {
			fmt.Fprintf(&b, ", restart %s %s %d", p.AttemptPeriod, p.BackOff, p.MaxCount)
			if len(p.IgnoredExitCodes) > 0 {
				fmt.Fprintf(&b, ", ignoring %s", strings.Trim(fmt.Sprint(p.IgnoredExitCodes), "[]"))
			}
			if p.FirstAtOnce {
				b.WriteString(", first at-once")
			}
		}
		describeExtensions(&b, c)
		if c.StartTimeout != 0 {
			fmt.Fprintf(&b, ", start timeout %s", c.StartTimeout)
		}
		fmt.Fprintf(&b, ", stop timeout %s\n", c.StopTimeout)
	}
	return b.String()
}
