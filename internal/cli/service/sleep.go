package service

import (
	"fmt"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/urfave/cli/v2"
)

// sleepFlags reads --sleep-after and --hold.
func sleepFlags(c *cli.Context, s *api.ServiceSettings) error {
	if c.IsSet("sleep-after") {
		text := c.String("sleep-after")
		after, err := time.ParseDuration(text)
		if err != nil || after != 0 && after < time.Second || after > taskdef.MaxSleepAfter {
			return command.Usagef(command.Path(c), "--sleep-after is 1s to %s as in 15m, or 0 for never, not %q", taskdef.MaxSleepAfter, text)
		}
		s.SleepAfterSeconds = seconds(after)
	}
	if c.IsSet("hold") {
		hold := c.Duration("hold")
		if hold < time.Second || hold > service.MaxHold {
			return command.Usagef(command.Path(c), "--hold is 1s to %s, not %s", service.MaxHold, hold)
		}
		s.HoldSeconds = seconds(hold)
	}
	return nil
}

func seconds(d time.Duration) *int {
	n := int(d.Round(time.Second).Seconds())
	return &n
}

// noCopies returns the reason for which a list of copies is empty.
func noCopies(s api.Service) string {
	if s.Sleep == api.SleepAsleep {
		return fmt.Sprintf("Service %s is asleep: the next connection starts a copy.", s.ServiceName)
	}
	return fmt.Sprintf("Service %s has no copies.", s.ServiceName)
}
