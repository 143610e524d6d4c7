package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/part"
	"github.com/podtask/podtask/pkg/taskdef/suggest"
	"github.com/urfave/cli/v2"
)

// arrange rewrites a command line so that the library's parser, which stops at
// the first argument, accepts what users of podman, docker and kubectl write:
//
//	flags anywhere, those of the program too, until "--"
//	-abc for -a -b -c, -eX=1 for -e X=1
//	a value that begins with a dash: --tail -1
//	help COMMAND for COMMAND --help
//
// A command that takes another command line, perhaps behind "--", gets that "--" too. Each flag
// comes out as --name=value under its first name (the library refuses two names of one
// flag on a line), behind the commands that lead to it; arguments follow a "--". The error
// is a *command.UsageError.
func arrange(app *cli.App, build part.Build, args []string) ([]string, error) {
	a := arranger{app: app, build: build, rest: args[1:]}
	if err := a.parse(); err != nil {
		return nil, err
	}
	out := append([]string{args[0]}, a.global...)
	if len(a.path) == 0 {
		return out, nil
	}
	help := slices.Contains(a.local, "--help=true")
	if from := a.importedBy(); from != "" && !help {
		return arrange(app, build, slices.Concat(args[:1], a.global, []string{"import"}, a.local, []string{"--", from}))
	}
	switch {
	case help:
		a.arguments = nil // the library would take the first for a topic
	case isGroup(a.command()):
		return nil, command.Usagef(a.verb(), "%s needs a command: %s", a.verb(), alternatives(a.command().Subcommands))
	}
	for _, c := range a.path {
		out = append(out, c.Name)
	}
	out = append(out, a.local...)
	return append(append(out, "--"), a.arguments...), nil
}

// importedBy returns the file of `podtask generate --from FILE`, which is `podtask import FILE`.
func (a *arranger) importedBy() (from string) {
	if a.verb() != "generate" {
		return ""
	}
	a.local = slices.DeleteFunc(a.local, func(flag string) bool {
		value, ok := strings.CutPrefix(flag, "--from=")
		if ok {
			from = value
		}
		return ok
	})
	return from
}

// arranger parses a command line.
type arranger struct {
	app   *cli.App
	build part.Build
	rest  []string // words that are not parsed yet
	// path is the command, with the groups of commands that contain it before it.
	path []*cli.Command
	// early has the flags that come before their command, behind its group.
	early []earlyFlag

	global, local, arguments []string
}

// earlyFlag is a flag as it was written, and its first name.
type earlyFlag struct{ written, name string }

// command returns the innermost command so far; nil for none.
func (a *arranger) command() *cli.Command {
	if len(a.path) == 0 {
		return nil
	}
	return a.path[len(a.path)-1]
}

// expectsCommand reports whether the next word must be the name of a command.
func (a *arranger) expectsCommand() bool { return len(a.path) == 0 || isGroup(a.command()) }

func isGroup(c *cli.Command) bool { return len(c.Subcommands) > 0 }

// passesFlags reports whether the command executes another program, which parses the flags.
func (a *arranger) passesFlags() bool {
	if a.expectsCommand() {
		return false
	}
	r, _ := a.build.Route(a.verb())
	return r.Passes
}

func (a *arranger) parse() error {
	for len(a.rest) > 0 {
		word := a.rest[0]
		a.rest = a.rest[1:]
		var err error
		switch {
		case a.passesFlags():
			a.arguments = append([]string{word}, a.rest...)
			return nil
		case word == "--":
			if a.expectsCommand() {
				continue
			}
			if takesCommand(a.command()) && len(a.arguments) > 0 {
				a.arguments = append(a.arguments, word)
			}
			a.arguments = append(a.arguments, a.rest...)
			return nil
		case strings.HasPrefix(word, "--"):
			err = a.parseLong(word[2:])
		case strings.HasPrefix(word, "-") && word != "-":
			err = a.parseShort(word[1:])
		case word == "help" && a.expectsCommand():
			return a.help()
		case a.expectsCommand():
			err = a.addCommand(word)
		case a.beginsCommand():
			a.arguments = append(append(a.arguments, word), a.rest...)
			return nil
		default:
			a.arguments = append(a.arguments, word)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// help adds --help to the command that the remaining words name.
func (a *arranger) help() error {
	if slices.Equal(a.rest, []string{"--all"}) {
		a.global = append(a.global, helpOfAll)
		return nil
	}
	for _, word := range a.rest {
		if !a.expectsCommand() {
			break
		}
		if err := a.addCommand(word); err != nil {
			return err
		}
	}
	if len(a.path) == 0 {
		a.global = append(a.global, "--help=true")
	} else {
		a.local = append(a.local, "--help=true")
	}
	return nil
}

// addCommand adds a command to the path.
func (a *arranger) addCommand(word string) error {
	commands := a.app.Commands
	if len(a.path) > 0 {
		commands = a.command().Subcommands
	}
	i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(word) })
	if i < 0 {
		return a.unknownCommand(word, commands)
	}
	a.path = append(a.path, commands[i])
	if isGroup(commands[i]) {
		return nil
	}
	for _, f := range a.early {
		if !slices.ContainsFunc(commands[i].Flags, func(have cli.Flag) bool { return have.Names()[0] == f.name }) {
			return a.unknownFlag(f.written, f.name)
		}
	}
	return nil
}

// parseLong parses --name or --name=value.
func (a *arranger) parseLong(word string) error {
	name, value, has := strings.Cut(word, "=")
	f, global := a.find(name, false)
	if f == nil && word == "all" && a.helped() { // as in `help --all`; the help of a command has everything
		if len(a.path) == 0 {
			a.global = append([]string{helpOfAll}, a.global...)
		}
		return nil
	}
	if f == nil {
		return a.unknownFlag("--"+name, name)
	}
	return a.addFlag(f, global, "--"+name, value, has)
}

// helped reports whether --help is on the line.
func (a *arranger) helped() bool {
	given := slices.Concat(a.global, a.local)
	return slices.Contains(given, "--help=true") || slices.Contains(a.rest, "--help") || slices.Contains(a.rest, "-h")
}

// parseShort parses -a, -abc, -a=value or -avalue.
func (a *arranger) parseShort(letters string) error {
	for i, r := range letters {
		f, global := a.find(string(r), true)
		if f == nil {
			return a.unknownFlag("-"+letters, letters)
		}
		rest := letters[i+len(string(r)):]
		value, equals := strings.CutPrefix(rest, "=")
		if equals || rest != "" && takesValue(f) {
			return a.addFlag(f, global, "-"+string(r), value, true)
		}
		if err := a.addFlag(f, global, "-"+string(r), "", false); err != nil {
			return err
		}
	}
	return nil
}

// addFlag adds a flag, with the next word as its value if it needs one and has none.
func (a *arranger) addFlag(f cli.Flag, global bool, written, value string, has bool) error {
	switch o, optional := f.(*command.OptionalFlag); {
	case has:
	case optional:
		value = o.Bare
	case !takesValue(f):
		value = "true"
	case len(a.rest) == 0:
		return command.Usagef(a.verb(), "flag %s needs a value", written)
	default:
		value, a.rest = a.rest[0], a.rest[1:]
	}
	if _, err := strconv.ParseBool(value); err != nil && !takesValue(f) {
		return command.Usagef(a.verb(), "flag %s is true or false, not %q", written, value)
	}
	to := &a.local
	if global {
		to = &a.global
	}
	if !global && isGroup(a.command()) && f.Names()[0] != "help" {
		a.early = append(a.early, earlyFlag{written, f.Names()[0]})
	}
	*to = append(*to, "--"+f.Names()[0]+"="+value)
	return nil
}

// find looks up a flag of the command, else of the program, else of any command of the group if the
// command is not known yet.
func (a *arranger) find(name string, short bool) (f cli.Flag, global bool) {
	fits := func(f cli.Flag) bool { return slices.Contains(f.Names(), name) && (len(name) == 1) == short }
	if c := a.command(); c != nil {
		if i := slices.IndexFunc(c.Flags, fits); i >= 0 {
			return c.Flags[i], false
		}
	}
	if i := slices.IndexFunc(a.app.Flags, fits); i >= 0 {
		return a.app.Flags[i], true
	}
	if c := a.command(); c != nil {
		for _, sub := range c.Subcommands {
			if i := slices.IndexFunc(sub.Flags, fits); i >= 0 {
				return sub.Flags[i], false
			}
		}
	}
	return nil, false
}

// flagHints maps flags of `podman run` to what does the same in podtask.
var flagHints = func() map[string]string {
	const (
		volume   = "--map-volume NAME=PATH says where a volume of the definition is"
		terminal = "a task has no terminal; `podtask exec TASK sh` opens a shell in it"
	)
	return map[string]string{
		"v": volume, "volume": volume, "i": terminal, "t": terminal, "it": terminal, "ti": terminal, "tty": terminal, "interactive": terminal,
		"restart": "the definition says it, with restartPolicy",
	}
}()

func (a *arranger) unknownFlag(written, name string) error {
	c := a.command()
	flags := a.app.Flags
	if c != nil {
		flags = append(slices.Clone(c.Flags), flags...)
		if takesCommand(c) && len(a.arguments) > 0 {
			return command.Usagef(a.verb(), "unknown flag %s: the flags of the command to run follow it, or --", written)
		}
	}
	if c != nil && c.Name == "run" {
		if hint := flagHints[strings.TrimLeft(written, "-")]; hint != "" {
			return command.Usagef(a.verb(), "unknown flag %s: %s", written, hint)
		}
	}
	if c != nil && strings.HasPrefix(a.verb(), "service ") && strings.TrimLeft(written, "-") == "replicas" {
		return command.Usagef(a.verb(), "unknown flag %s: --count N says how many copies run", written)
	}
	if like := closestFlag(flags, name); like != "" {
		return command.Usagef(a.verb(), "unknown flag %s: %s", written, suggest.Ask("--"+like))
	}
	return command.Usagef(a.verb(), "unknown flag %s", written)
}

// unknownCommand returns the error for an unknown command, with a hint or a suggestion.
func (a *arranger) unknownCommand(word string, commands []*cli.Command) error {
	path := strings.TrimSpace(a.verb() + " " + word)
	if missing := a.build.MissingCommand(path); missing != "" {
		return fmt.Errorf("podtask %s: %s", path, missing)
	}
	if len(a.path) == 0 {
		if hint := commandHints[word]; hint != "" {
			return command.Usagef("", "unknown command %q: %s", word, hint)
		}
		if like := closestCommand(commands, word); like != "" {
			return command.Usagef("", "unknown command %q: %s", word, suggest.Ask(like))
		}
		return command.Usagef("", "unknown command %q", word)
	}
	hint := "it has " + alternatives(commands)
	if like := closestCommand(commands, word); like != "" {
		hint = suggest.Ask(like)
	}
	if slices.Contains(takeNamesOf[a.verb()], word) {
		hint = "`podtask " + word + " NAME` takes the name of a " + a.verb() + " too"
	}
	return command.Usagef(a.verb(), "%s has no command %q: %s", a.verb(), word, hint)
}

// beginsCommand reports whether the word just read and all behind it are the command line to run, as in
// `exec -it web sh -c x`: there is no "--" before it, and none after it and its flags.
func (a *arranger) beginsCommand() bool {
	if !takesCommand(a.command()) || len(a.arguments) == 0 {
		return false
	}
	end := slices.IndexFunc(a.rest, func(w string) bool { return w == "--" || !strings.HasPrefix(w, "-") })
	return end < 0 || a.rest[end] != "--"
}

// verb returns the command as users write it, without the name of the program.
func (a *arranger) verb() string {
	names := make([]string, len(a.path))
	for i, c := range a.path {
		names[i] = c.Name
	}
	return strings.Join(names, " ")
}

// takesCommand reports whether a command line to run follows a "--".
func takesCommand(c *cli.Command) bool { return strings.Contains(c.ArgsUsage, " [--] ") }

func takesValue(f cli.Flag) bool {
	d, ok := f.(cli.DocGenerationFlag)
	return ok && d.TakesValue()
}
