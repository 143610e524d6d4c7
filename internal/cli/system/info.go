package system

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/engine/act/preflight"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/host/doctor"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
)

// InfoCommand is `podtask info`.
func InfoCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:  "info",
		Usage: "show facts about podtask, Podman and this host",
		Description: `To find what is wrong with the host, use podtask doctor.

Examples:
  podtask info
  podtask info --format '{{.Podman.Version}}'`,
		Flags:  []cli.Flag{command.FormatFlag(command.ItemFormats)},
		Action: command.WithMachine(p, newInfo),
	}
}

// facts is the output of info; templates see its fields.
type facts struct {
	Podtask api.Version `json:"podtask"`
	// Agent is absent if none runs.
	Agent *agentVersion `json:"agent,omitempty"`
	// Podman is absent if it does not answer.
	Podman  *podmanFacts `json:"podman,omitempty"`
	Limits  limitFacts   `json:"limits"`
	Tasks   taskFacts    `json:"tasks"`
	State   string       `json:"stateDir"`
	Runtime string       `json:"runtimeDir"`
	// Health is the worst result of doctor: ok, warn or fail.
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
	// Controllers lists the cgroup controllers that can limit tasks.
	Controllers []string `json:"controllers"`
}

type taskFacts struct {
	Running int `json:"running"`
	Stopped int `json:"stopped"`
}

type infoOptions struct {
	out        io.Writer
	getenv     func(string) string
	version    string
	stateDir   string
	runtimeDir string
	tasks      *record.Tasks
	preflight  *preflight.Checker
	agent      func(context.Context) *agentVersion
}

func newInfo(m *command.Machine) infoOptions {
	return infoOptions{
		out:        m.Program.Stdout,
		getenv:     m.Program.Getenv,
		version:    m.Program.Version,
		stateDir:   m.Connector.StateDir,
		runtimeDir: m.Connector.RuntimeDir,
		tasks:      m.Engine.Tasks,
		preflight:  m.Engine.Preflight,
		agent: func(ctx context.Context) *agentVersion {
			return findAgent(ctx, m.Engine.Tasks, m.Connector.AgentSocket, m.Program.Version)
		},
	}
}

// Run implements command.Runner.
func (o infoOptions) Run(ctx context.Context, c *cli.Context) error {
	if err := command.NoArguments(c); err != nil {
		return err
	}
	f := o.gather(ctx)
	return command.PrintItem(o.out, c, f, func() error { return console.WriteTable(o.out, f.rows()) })
}

func (o infoOptions) gather(ctx context.Context) facts {
	findings, podman := o.preflight.Examine(ctx)
	host := cgroups.Detect(os.DirFS("/"), os.Getuid(), o.getenv)
	f := facts{
		Podtask: api.ThisVersion(o.version), Agent: o.agent(ctx), Health: doctor.Worst(findings),
		Limits: limitFacts{Cgroups: host.Version, Controllers: append([]string{}, host.Controllers...)},
		State:  o.stateDir, Runtime: o.runtimeDir,
	}
	if podman != nil {
		f.Podman = &podmanFacts{
			Version: podman.Version, Socket: podman.Socket, Runtime: podman.Runtime, CgroupManager: podman.CgroupManager,
			RootlessNetwork: podman.RootlessNetwork, EventLogger: podman.EventLogger, LogDriver: podman.LogDriver, GraphRoot: podman.GraphRoot,
		}
	}
	states, _ := o.tasks.States()
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
	if f.Agent != nil {
		rows = append(rows, []string{"agent", f.Agent.String()})
	} else {
		rows = append(rows, []string{"agent", "does not run"})
	}
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
