package command

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/engine/facts/arn"
	"github.com/urfave/cli/v2"
)

// Path returns the running command as users write it, without the name of the program.
func Path(c *cli.Context) string { return strings.TrimPrefix(c.Command.HelpName, "podtask ") }

// HelpFlag returns --help, which every command has.
func HelpFlag() cli.Flag {
	return &cli.BoolFlag{Name: "help", Aliases: []string{"h"}, Usage: "show this help"}
}

// OptionalFlag is a flag whose value may be left out: --wait is --wait=BARE.
type OptionalFlag struct {
	*cli.StringFlag
	Bare string
}

// IgnoreFlag returns --ignore: a task that does not exist is not an error.
func IgnoreFlag() cli.Flag {
	return &cli.BoolFlag{Name: "ignore", Aliases: []string{"i"}, Usage: "no error for a task that does not exist"}
}

// SelectionFlags returns --all, --filter and --ignore, which Selection reads. Verb and all are for their help.
func SelectionFlags(verb, all string) []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: all},
		&cli.StringSliceFlag{Name: "filter", Usage: verb + " the tasks that fit `KEY=VALUE`; keys are " + TaskFilterKeys + "; values of one key add up, different keys narrow down"},
		IgnoreFlag(),
	}
}

// QuietFlag returns --quiet, with which a list prints one value per item.
func QuietFlag(what string) cli.Flag {
	return &cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print " + what + " only"}
}

// NoTruncFlag returns --no-trunc, with which a list does not shorten values.
func NoTruncFlag(what string) cli.Flag {
	return &cli.BoolFlag{Name: noTrunc, Usage: "do not shorten " + what}
}

const noTrunc = "no-trunc"

// FormatFlag returns --format, which PrintItems and Listing read. Words lists the formats for the help.
func FormatFlag(words string) cli.Flag {
	return &cli.StringFlag{Name: "format", Aliases: []string{"output", "o"}, Usage: "print in `FORMAT` " + words}
}

// The formats of lists and of single documents, for FormatFlag.
const (
	ListFormats = "table, wide, json, yaml, a Go template, or table with a Go template"
	ItemFormats = "json, yaml or a Go template"
)

// SortFlag returns --sort, which Listing.Sort reads.
func SortFlag() cli.Flag {
	return &cli.StringFlag{Name: "sort", Usage: "sort by `COLUMN`, the header in small letters"}
}

// FilterFlag returns --filter of a list; ParseFilters parses its values.
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
				return nil, Usagef(Path(c), "%v", err)
			}
		}
	}
	arn.Use(arn.Identity{Account: settings.AWS.Account, Region: settings.AWS.Region})
	return settings, nil
}

// ConfigFlags returns the flags of a command that set keys of the configuration; for an empty verb those that
// every command has.
func ConfigFlags(verb string) []cli.Flag {
	var flags []cli.Flag
	for _, k := range config.Keys() {
		if k.Verb == verb {
			flags = append(flags, &cli.StringFlag{Name: k.Name, Usage: flagHelp(k), DefaultText: k.Default, Hidden: k.Rare})
		}
	}
	return flags
}

// flagHelp returns the help of a key, with its values and its variable.
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
		return Usagef(Path(c), "%s takes no arguments, and there is %q", Path(c), c.Args().First())
	}
	return nil
}
