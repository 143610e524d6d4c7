package system

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/pkg/api"
	"github.com/urfave/cli/v2"
)

// VersionCommand is `podtask version`.
func VersionCommand(p *command.Program) *cli.Command {
	o := newVersion(p)
	return &cli.Command{
		Name:  "version",
		Usage: "print the version, and that of the agent",
		Description: `An agent that was not restarted after an upgrade is still the program of before: this command
says so. It starts no agent.

Examples:
  podtask version
  podtask version --format json
  podtask version --format '{{.Version}}'`,
		Flags:  []cli.Flag{command.FormatFlag(command.ItemFormats)},
		Action: o.run,
	}
}

type versionOptions struct {
	out       io.Writer
	version   string
	getenv    func(string) string
	configure func(*cli.Context) (*config.Settings, error)
	open      func(*cli.Context) (*engine.Engine, error)
}

func newVersion(p *command.Program) *versionOptions {
	return &versionOptions{out: p.Stdout, version: p.Version, getenv: p.Getenv, configure: p.Configure, open: p.OpenEngine}
}

func (o *versionOptions) run(c *cli.Context) error {
	if err := command.NoArguments(c); err != nil {
		return err
	}
	this := api.ThisVersion(o.version)
	v := versions{Version: this.Version, APIVersion: this.APIVersion, GoVersion: this.GoVersion, OSArch: this.OSArch, Agent: o.agent(c)}
	return command.PrintItem(o.out, c, v, func() error {
		_, err := fmt.Fprintf(o.out, "Version:     %s\nAPI version: %s\nGo version:  %s\nOS/Arch:     %s\n", v.Version, v.APIVersion, v.GoVersion, v.OSArch)
		if err == nil && v.Agent != nil {
			_, err = fmt.Fprintf(o.out, "Agent:       %s\n", v.Agent)
		}
		return err
	})
}

// versions is the output of version; templates see its fields.
type versions struct {
	Version    string `json:"version"`
	APIVersion string `json:"apiVersion"`
	GoVersion  string `json:"goVersion"`
	OSArch     string `json:"osArch"`
	// Agent is absent if none runs.
	Agent *agentVersion `json:"agent,omitempty"`
}

// agentVersion is which program a running agent is.
type agentVersion struct {
	// Version is empty if the agent does not answer.
	Version string `json:"version,omitempty"`
	PID     int    `json:"pid"`
	// Differs reports that the agent is of another version than this program.
	Differs bool `json:"differs"`
}

// String says what the agent is, and how to replace it if it is another program.
func (a *agentVersion) String() string {
	switch {
	case a.Version == "":
		return fmt.Sprintf("process %d does not answer", a.PID)
	case a.Differs:
		return fmt.Sprintf("%s, process %d: not this version; tasks continue while you restart it: systemctl --user restart podtask", a.Version, a.PID)
	}
	return fmt.Sprintf("%s, process %d", a.Version, a.PID)
}

// agent returns the version of a running agent; nil if there is none, or nothing of podtask on this host. It
// makes no directory, and whatever prevents an answer is no error: the command is about the version.
func (o *versionOptions) agent(c *cli.Context) *agentVersion {
	settings, err := o.configure(c)
	if err != nil {
		return nil
	}
	stateDir, runtimeDir, err := command.Dirs(o.getenv, settings.Paths.StateDir)
	if err != nil {
		return nil
	}
	if _, err := os.Stat(stateDir); err != nil {
		return nil
	}
	e, err := o.open(c)
	if err != nil {
		return nil
	}
	defer e.Close()
	return findAgent(c.Context, e.Tasks, cmp.Or(settings.Paths.Socket, filepath.Join(runtimeDir, "podtask.sock")), o.version)
}

// findAgent asks the agent, if one runs, for its version, which is compared with that of this program. A socket of
// systemd without an agent is left alone: a connection would start one.
func findAgent(ctx context.Context, tasks *record.Tasks, socket, version string) *agentVersion {
	holder, alive := tasks.Agent()
	if !alive {
		return nil
	}
	a := &agentVersion{PID: holder.PID}
	client, err := api.Dial(ctx, socket)
	if err != nil {
		return a
	}
	defer client.Close()
	if v, err := client.Version(ctx); err == nil {
		a.Version, a.PID, a.Differs = v.Version, v.PID, v.Version != version
	}
	return a
}
