package system

import (
	"io"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/config"
	"github.com/urfave/cli/v2"
)

// ConfigCommand is `podtask config`.
func ConfigCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:  "config",
		Usage: "show each value of the configuration and where it comes from",
		Description: `The command line overrides PODTASK_ variables. These override
$XDG_CONFIG_HOME/podtask/podtask.toml, which overrides /etc/podtask/podtask.toml; the files
in podtask.toml.d beside each file are read too. Each key is also a flag, of every command
or of the command that it belongs to.

Examples:
  podtask config
  podtask config --format '{{.Key}}={{.Value}}'`,
		Flags:  []cli.Flag{command.FormatFlag(command.ListFormats)},
		Action: func(c *cli.Context) error { return configOptions{out: p.Stdout, configure: p.Configure}.run(c) },
	}
}

// configLine is a key in the list; templates see its fields.
type configLine struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	// From is default, FILE:LINE, the name of a variable, or --flag.
	From        string `json:"from"`
	Environment string `json:"environment"`
	Help        string `json:"help"`
}

type configOptions struct {
	out       io.Writer
	configure func(*cli.Context) (*config.Settings, error)
}

func (o configOptions) run(c *cli.Context) error {
	if err := command.NoArguments(c); err != nil {
		return err
	}
	settings, err := o.configure(c)
	if err != nil {
		return err
	}
	lines := []configLine{}
	table := [][]string{{"KEY", "VALUE", "FROM"}}
	for _, k := range config.Keys() {
		l := configLine{Key: k.Name, Value: settings.Text(k.Name), From: settings.Origin(k.Name), Environment: k.Env(), Help: k.Help}
		lines = append(lines, l)
		table = append(table, []string{l.Key, l.Value, l.From})
	}
	return command.PrintItems(o.out, c, lines, func(bool) error { return console.WriteTable(o.out, table) })
}
