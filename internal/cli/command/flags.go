package command

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/config"
	"github.com/urfave/cli/v2"
)

// CommandPath is the running command as users write it, without the name of the program.
func CommandPath(c *cli.Context) string { return strings.TrimPrefix(c.Command.HelpName, "podtask ") }

// HelpFlag is the flag of every command that prints its help.
func HelpFlag() cli.Flag {
	return &cli.BoolFlag{Name: "help", Aliases: []string{"h"}, Usage: "show this help"}
}

// OptionalFlag is a flag whose value may be left out: --wait is --wait=BARE.
type OptionalFlag struct {
	*cli.StringFlag
	Bare string
}

// IgnoreFlag is the flag of commands that may be given tasks that do not exist.
func IgnoreFlag() cli.Flag {
	return &cli.BoolFlag{Name: "ignore", Aliases: []string{"i"}, Usage: "no error for a task that does not exist"}
}

// ManyTasksFlags are the flags that Selection reads.
func ManyTasksFlags(verb, all string) []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: all},
		&cli.StringSliceFlag{Name: "filter", Usage: verb + " the tasks that fit `KEY=VALUE`; keys are " + TaskFilterKeys + "; values of one key add up, different keys narrow down"},
		IgnoreFlag(),
	}
}

// QuietFlag is the flag of a list that prints one value of each item.
func QuietFlag(what string) cli.Flag {
	return &cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print " + what + " only"}
}

// NoTruncFlag is the flag of a list that shortens values otherwise.
func NoTruncFlag(what string) cli.Flag {
	return &cli.BoolFlag{Name: "no-trunc", Usage: "do not shorten " + what}
}

// FormatFlag is the flag that PrintItems and Listing read; words names the formats.
func FormatFlag(words string) cli.Flag {
	return &cli.StringFlag{Name: "format", Aliases: []string{"output", "o"}, Usage: "print in `FORMAT` " + words}
}

// Words for FormatFlag: the formats of lists, and of single documents.
const (
	ListFormats = "table, wide, json, yaml, a Go template, or table with a Go template"
	ItemFormats = "json, yaml or a Go template"
)

// SortFlag is the flag that Listing.Sort reads.
func SortFlag() cli.Flag {
	return &cli.StringFlag{Name: "sort", Usage: "sort by `COLUMN`, the header in small letters"}
}

// FilterFlag is the flag of a list whose words ParseFilters reads.
func FilterFlag(keys string) cli.Flag {
	return &cli.StringSliceFlag{Name: "filter", Usage: "show only what fits `KEY=VALUE`; keys are " + keys + "; values of one key add up, different keys narrow down"}
}

// Configure reads the configuration and the flags of this command line.
func (p *Program) Configure(c *cli.Context) (*config.Settings, error) {
	settings, err := config.Load(config.Source{Getenv: p.Getenv})
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
				return nil, Usagef(CommandPath(c), "%v", err)
			}
		}
	}
	return settings, nil
}

// ConfigFlags returns the keys of the configuration that are flags of a command; for an empty verb
// those that are flags of every command.
func ConfigFlags(verb string) []cli.Flag {
	var flags []cli.Flag
	for _, k := range config.Keys() {
		if k.Verb == verb {
			flags = append(flags, &cli.StringFlag{Name: k.Name, Usage: flagHelp(k), DefaultText: k.Default, Hidden: k.Rare})
		}
	}
	return flags
}

// flagHelp is the help of a key with its values.
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

// NoArguments returns an error if the command line has arguments.
func NoArguments(c *cli.Context) error {
	if c.Args().Present() {
		return Usagef(CommandPath(c), "%s takes no arguments, and there is %q", CommandPath(c), c.Args().First())
	}
	return nil
}
