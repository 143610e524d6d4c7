package command

import (
	"fmt"
	"strings"

	"github.com/podtask/podtask/internal/define/adjust"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/urfave/cli/v2"
)

// AdjustFlags returns the flags that change values of a definition. They are named as in podman run.
func AdjustFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "publish", Aliases: []string{"p"}, Usage: "publish a port, `[[IP:]HOST:]CONTAINER[/PROTOCOL]`, in place of the definition's for the same container port"},
		&cli.StringFlag{Name: "network", Usage: "use the network `MODE` bridge, host or none; or let the containers share one network namespace, connected by pasta, by slirp4netns, or (shared) as usual; or join a Podman network by its name"},
		&cli.StringSliceFlag{Name: "secret", Usage: "give every container a Podman secret, `NAME[,type=env|mount][,target=...]`"},
		&cli.StringSliceFlag{Name: "leave-out", Usage: "run the task without `CONTAINER`, such as a sidecar that makes no sense here"},
		&cli.StringFlag{Name: "memory", Aliases: []string{"m"}, Usage: "limit the task to `SIZE` bytes, or 512m, 2g; 0 for no limit"},
		&cli.StringFlag{Name: "cpus", Usage: "limit the task to `NUMBER` CPUs; 0 for no limit"},
		&cli.StringFlag{Name: "stop-timeout", Usage: "give each container `SECONDS` between SIGTERM and SIGKILL"},
		&cli.StringFlag{Name: "stop-after", Usage: "stop the task after `TIME`, such as 10m, from when it got its share of the host"},
	}
}

// AdjustValues returns the values of AdjustFlags.
func AdjustValues(c *cli.Context) adjust.FlagValues {
	return adjust.FlagValues{
		LeaveOut: c.StringSlice("leave-out"), Publish: c.StringSlice("publish"), Secrets: c.StringSlice("secret"), Network: c.String("network"),
		Memory: c.String("memory"), CPUs: c.String("cpus"), StopTimeout: c.String("stop-timeout"), StopAfter: c.String("stop-after"), Namespace: c.String("namespace"),
	}
}

// ParseAdjustments parses the values of AdjustFlags. The error names all that are not valid.
func ParseAdjustments(c *cli.Context) (taskdef.Adjustments, error) {
	a, wrong := AdjustValues(c).Parse()
	var lines []string
	for _, w := range wrong {
		lines = append(lines, fmt.Sprintf("--%s: %v", w.Flag, w.Err))
	}
	if len(lines) > 0 {
		return a, Usagef(Path(c), "%s", strings.Join(lines, "\n  "))
	}
	return a, nil
}
