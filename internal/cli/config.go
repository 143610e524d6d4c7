package cli

import (
	"path/filepath"
	"slices"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/config"
	"github.com/urfave/cli/v2"
)

func configCommand(p *program) *cli.Command {
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
		Flags:  []cli.Flag{formatFlag(listFormats)},
		Action: func(c *cli.Context) error { return showConfig(p, c) },
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

func showConfig(p *program, c *cli.Context) error {
	if err := noArguments(c); err != nil {
		return err
	}
	settings, err := p.configure(c)
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
	return printItems(p.stdout, c, lines, func(bool) error { return console.WriteTable(p.stdout, table) })
}

// configure reads the configuration and the flags of this command line.
func (p *program) configure(c *cli.Context) (*config.Settings, error) {
	settings, err := config.Load(config.Source{Getenv: p.getenv})
	if err != nil {
		return nil, err
	}
	given := c.FlagNames() // IsSet looks at each flag of the program, for each key
	for _, k := range config.Keys() {
		if slices.Contains(given, k.Name) {
			value := c.String(k.Name)
			if k.Path && value != "" {
				if value, err = filepath.Abs(value); err != nil {
					return nil, err
				}
			}
			if err := settings.SetFlag(k.Name, value); err != nil {
				return nil, usagef(commandPath(c), "%v", err)
			}
		}
	}
	return settings, nil
}

// configFlags are the flags of a verb that are keys of the configuration; those of
// every command for an empty one.
func configFlags(verb string) []cli.Flag {
	var flags []cli.Flag
	for _, k := range config.Keys() {
		if k.Verb == verb {
			flags = append(flags, &cli.StringFlag{Name: k.Name, Usage: flagHelp(k), DefaultText: k.Default, Hidden: k.Rare})
		}
	}
	return flags
}

// flagHelp has the values behind the help.
func flagHelp(k config.Key) string {
	help := k.Help
	for i, v := range k.Values {
		separator := ", "
		if i == 0 {
			separator = ": "
		}
		help += separator + v
	}
	return help + " (" + k.Env() + ")"
}
