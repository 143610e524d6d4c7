package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"
)

// arrange rewrites a command line so that the library's parser, which stops at
// the first argument, takes it as users of podman, docker and kubectl mean it:
//
//	flags anywhere, those of the program too, until "--"
//	-abc for -a -b -c, -eX=1 for -e X=1
//	a value that begins with a dash: --tail -1
//	help COMMAND for COMMAND --help
//
// A command that takes another command line behind "--" gets that "--" too. Each flag comes out as --name=value under its first name (the library refuses
// two names of one flag on a line), arguments behind a "--". The error is a
// *usageError.
func arrange(app *cli.App, args []string) ([]string, error) {
	a := arranger{app: app, rest: args[1:]}
	if err := a.parse(); err != nil {
		return nil, err
	}
	out := append([]string{args[0]}, a.global...)
	if a.command == nil {
		return out, nil
	}
	if slices.Contains(a.local, "--help=true") {
		a.arguments = nil // the library would take the first for a topic
	}
	out = append(append(out, a.command.Name), a.local...)
	return append(append(out, "--"), a.arguments...), nil
}

type arranger struct {
	app     *cli.App
	rest    []string
	command *cli.Command

	global, local, arguments []string
}

func (a *arranger) parse() error {
	for len(a.rest) > 0 {
		word := a.rest[0]
		a.rest = a.rest[1:]
		var err error
		switch {
		case word == "--":
			if a.command == nil {
				continue
			}
			if takesCommand(a.command) {
				a.arguments = append(a.arguments, word)
			}
			a.arguments = append(a.arguments, a.rest...)
			return nil
		case strings.HasPrefix(word, "--"):
			err = a.long(word[2:])
		case strings.HasPrefix(word, "-") && word != "-":
			err = a.short(word[1:])
		case a.command == nil:
			err = a.choose(word)
		default:
			a.arguments = append(a.arguments, word)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// choose sets the command.
func (a *arranger) choose(word string) error {
	if word == "help" {
		if len(a.rest) == 0 {
			a.global = append(a.global, "--help=true")
			return nil
		}
		a.local = append(a.local, "--help=true")
		word, a.rest = a.rest[0], nil
	}
	if a.command = a.app.Command(word); a.command != nil {
		return nil
	}
	return usagef("", "unknown command %q. %s", word, cli.SuggestCommand(visible(a.app.Commands), word))
}

func visible(commands []*cli.Command) []*cli.Command {
	return slices.DeleteFunc(slices.Clone(commands), func(c *cli.Command) bool { return c.Hidden })
}

// long takes --name or --name=value.
func (a *arranger) long(word string) error {
	name, value, has := strings.Cut(word, "=")
	f, global := a.find(name, false)
	if f == nil {
		return a.unknown("--"+name, name)
	}
	return a.take(f, global, "--"+name, value, has)
}

// short takes -a, -abc, -a=value or -avalue.
func (a *arranger) short(letters string) error {
	for i, r := range letters {
		f, global := a.find(string(r), true)
		if f == nil {
			return a.unknown("-"+letters, letters)
		}
		rest := letters[i+len(string(r)):]
		value, equals := strings.CutPrefix(rest, "=")
		if equals || rest != "" && takesValue(f) {
			return a.take(f, global, "-"+string(r), value, true)
		}
		if err := a.take(f, global, "-"+string(r), "", false); err != nil {
			return err
		}
	}
	return nil
}

// take adds a flag, with the next word as its value where it needs one.
func (a *arranger) take(f cli.Flag, global bool, spelt, value string, has bool) error {
	switch o, optional := f.(*optionalFlag); {
	case has:
	case optional:
		value = o.bare
	case !takesValue(f):
		value = "true"
	case len(a.rest) == 0:
		return usagef(a.verb(), "flag %s needs a value", spelt)
	default:
		value, a.rest = a.rest[0], a.rest[1:]
	}
	if _, err := strconv.ParseBool(value); err != nil && !takesValue(f) {
		return usagef(a.verb(), "flag %s is true or false, not %q", spelt, value)
	}
	to := &a.local
	if global {
		to = &a.global
	}
	*to = append(*to, "--"+f.Names()[0]+"="+value)
	return nil
}

// find looks a flag up: first among those of the command, then among the
// program's.
func (a *arranger) find(name string, short bool) (f cli.Flag, global bool) {
	fits := func(f cli.Flag) bool { return slices.Contains(f.Names(), name) && (len(name) == 1) == short }
	if a.command != nil {
		if i := slices.IndexFunc(a.command.Flags, fits); i >= 0 {
			return a.command.Flags[i], false
		}
	}
	if i := slices.IndexFunc(a.app.Flags, fits); i >= 0 {
		return a.app.Flags[i], true
	}
	return nil, false
}

func (a *arranger) unknown(spelt, name string) error {
	flags := a.app.Flags
	if a.command != nil {
		flags = append(slices.Clone(a.command.Flags), flags...)
	}
	if a.command != nil && takesCommand(a.command) && len(a.arguments) > 0 {
		return usagef(a.verb(), "unknown flag %s: the flags of the command to run stand behind --", spelt)
	}
	if like := cli.SuggestFlag(flags, name, true); like != "" {
		return usagef(a.verb(), "unknown flag %s: did you mean %s?", spelt, like)
	}
	return usagef(a.verb(), "unknown flag %s", spelt)
}

func (a *arranger) verb() string {
	if a.command == nil {
		return ""
	}
	return a.command.Name
}

// takesCommand reports whether a command line of somebody else follows behind "--".
func takesCommand(c *cli.Command) bool { return strings.Contains(c.ArgsUsage, " -- ") }

func takesValue(f cli.Flag) bool {
	d, ok := f.(cli.DocGenerationFlag)
	return ok && d.TakesValue()
}
