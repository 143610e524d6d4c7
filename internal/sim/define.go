package sim

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
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

// describeTask writes a task in the words of a script.
func describeTask(t taskdef.Task, o lifecycle.Options) string {
	var b strings.Builder
	fmt.Fprintf(&b, "pull %s\n", o.Pull)
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
		}
		if c.StartTimeout != 0 {
			fmt.Fprintf(&b, ", start timeout %s", c.StartTimeout)
		}
		fmt.Fprintf(&b, ", stop timeout %s\n", c.StopTimeout)
	}
	return b.String()
}
