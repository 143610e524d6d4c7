package system

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/host/doctor"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
)

func InfoCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:  "info",
		Usage: "show facts about podtask, Podman and this host",
		Description: `To find what is wrong with the host, use podtask doctor.

Examples:
  podtask info
  podtask info --format '{{.Podman.Version}}'`,
		Flags:  []cli.Flag{command.FormatFlag(command.ItemFormats)},
		Action: p.WithMachine(info),
	}
}

// facts are what info shows; templates see its fields.
type facts struct {
	Podtask api.Version `json:"podtask"`
	// Podman is absent when it does not answer.
	Podman  *podmanFacts `json:"podman,omitempty"`
	Limits  limitFacts   `json:"limits"`
	Tasks   taskFacts    `json:"tasks"`
	State   string       `json:"stateDir"`
	Runtime string       `json:"runtimeDir"`
	// Health is the worst finding of doctor: ok, warn or fail.
	Health doctor.Level `json:"health"`
}

type podmanFacts struct {
	Version         string `json:"version"`
	Socket          string `json:"socket"`
	Runtime         string `json:"runtime"`
	CgroupManager   string `json:"cgroupManager"`
	RootlessNetwork string `json:"rootlessNetwork,omitempty"`
	EventLogger     string `json:"eventLogger"`
	LogDriver       string `json:"logDriver"`
	GraphRoot       string `json:"graphRoot,omitempty"`
}

type limitFacts struct {
	Cgroups cgroups.Version `json:"cgroups"`
	// Controllers are those that tasks can be limited by.
	Controllers []string `json:"controllers"`
}

type taskFacts struct {
	Running int `json:"running"`
	Stopped int `json:"stopped"`
}

func info(ctx context.Context, s *command.Machine, c *cli.Context) error {
	if err := command.NoArguments(c); err != nil {
		return err
	}
	f := gatherFacts(ctx, s)
	return command.PrintItem(s.Program.Stdout, c, f, func() error { return console.WriteTable(s.Program.Stdout, f.rows()) })
}

func gatherFacts(ctx context.Context, s *command.Machine) facts {
	findings, podman := s.Engine.Preflight.Examine(ctx)
	host := cgroups.Detect(os.DirFS("/"), os.Getuid(), s.Program.Getenv)
	f := facts{
		Podtask: api.ThisVersion(s.Program.Version), Health: doctor.Worst(findings),
		Limits: limitFacts{Cgroups: host.Version, Controllers: append([]string{}, host.Controllers...)},
		State:  s.Connector.StateDir, Runtime: s.Connector.RuntimeDir,
	}
	if podman != nil {
		f.Podman = &podmanFacts{
			Version: podman.Version, Socket: podman.Socket, Runtime: podman.Runtime, CgroupManager: podman.CgroupManager,
			RootlessNetwork: podman.RootlessNetwork, EventLogger: podman.EventLogger, LogDriver: podman.LogDriver, GraphRoot: podman.GraphRoot,
		}
	}
	states, _ := s.Engine.Tasks.States()
	for _, st := range states {
		if st.Status() == lifecycle.StatusStopped {
			f.Tasks.Stopped++
		} else {
			f.Tasks.Running++
		}
	}
	return f
}

func (f facts) rows() [][]string {
	rows := [][]string{{"podtask", f.Podtask.Version + ", " + f.Podtask.OSArch}}
	if p := f.Podman; p != nil {
		rows = append(rows,
			[]string{"Podman", p.Version + " at " + p.Socket},
			[]string{"runtime", p.Runtime + ", cgroup manager " + p.CgroupManager},
			[]string{"network", cmp.Or(p.RootlessNetwork, "slirp4netns")},
			[]string{"events, logs", p.EventLogger + ", " + p.LogDriver},
			[]string{"images", cmp.Or(p.GraphRoot, command.NoValue)})
	} else {
		rows = append(rows, []string{"Podman", "does not answer"})
	}
	return append(rows,
		[]string{"cgroups", string(f.Limits.Cgroups) + ", tasks are limited in: " + cmp.Or(strings.Join(f.Limits.Controllers, ", "), "nothing")},
		[]string{"tasks", fmt.Sprintf("%d not stopped, %d stopped", f.Tasks.Running, f.Tasks.Stopped)},
		[]string{"records", f.State},
		[]string{"sockets", f.Runtime},
		[]string{"doctor says", string(f.Health)})
}
