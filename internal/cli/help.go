package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/cli/helptext"
	"github.com/urfave/cli/v2"
)

// flagGroup is a title of the help with the names of its flags.
type flagGroup struct {
	title string
	names []string
}

// flagGroups has the groups of flags in the help of a command with many flags. Flags without a group come
// first.
var flagGroups = []flagGroup{
	{"Replace copies", []string{
		"min-healthy", "max", "no-rollback", "strategy", "bake", "step-percent", "step-bake", "canary-percent", "canary-bake", "test-listen",
		"hook", "alarm", "breaker-threshold", "breaker-cumulative", "early-success", "early-deferred",
	}},
	{"Change the task", []string{"env", "env-file", "publish", "network", "namespace", "name-as", "secret", "memory", "cpus", "pids-limit", "cpu-period", "stop-timeout", "stop-after", "clamp-ulimits", "logs", "limits", "leave-out"}},
	{"Read the definition", []string{"strict", "lenient", "without", "override", "var", "map-volume", "map-secret", "map-env-file", "map-log-config"}},
	{"Images and progress", []string{"pull", "locked", "minimum-age", "progress", "quiet"}},
	{"Services of systemd", []string{"notify", "auto-update", "settle"}},
}

// keyPlaceholders has the placeholders of flags whose usage has none. Most are keys of the configuration.
var keyPlaceholders = map[string]string{
	"format": "FORMAT", "log-format": "FORMAT", "log-level": "LEVEL", "metrics-listen": "ADDRESS", "aws-listen": "ADDRESS", "socket": "PATH",
	"state-dir": "DIR", "stop-tasks": "WHEN", "task-cleanup-wait": "TIME",
}

// manyFlags is the number of flags from which on the help groups them.
const manyFlags = 16

// everyday lists the commands of the first screen of the help.
var everyday = []string{"run", "stop", "restart", "rm", "ps", "top", "logs", "why", "exec", "init", "plan", "service", "unit", "import", "doctor"}

// helpOfAll is the flag by which an arranged line requests the help with all commands.
const helpOfAll = "--help=all"

// printHelp prints the help of a command, or of the program for an empty path: all is whether it has all commands.
func printHelp(p *command.Program, app *cli.App, path []*cli.Command, all bool) error {
	page := programPage(app)
	switch {
	case len(path) > 0:
		page = commandPage(path)
	case !all:
		page = firstPage(page)
	}
	on := console.ColorsFor(p.Stdout, p.Getenv)
	bold := func(s string) string { return on.Paint(console.Bold, s) }
	_, err := fmt.Fprint(p.Stdout, page.Text(console.Columns(p.Stdout, p.Getenv), bold))
	return err
}

// firstPage has the everyday commands of the page of the program.
func firstPage(page helptext.Page) helptext.Page {
	var groups []helptext.Group
	for _, g := range page.Groups {
		g.Items = slices.DeleteFunc(slices.Clone(g.Items), func(i helptext.Item) bool { return !slices.Contains(everyday, i.Name) })
		if len(g.Items) > 0 {
			groups = append(groups, g)
		}
	}
	page.Groups = groups
	page.Footer = "`podtask help --all` shows all commands, `podtask COMMAND --help` the flags and examples of one."
	return page
}

func programPage(app *cli.App) helptext.Page {
	page := helptext.Page{
		Summary: app.Name + ": " + app.Usage, Usage: app.UsageText, Body: app.Description,
		Footer: "`podtask COMMAND --help` shows the flags and examples of a command.",
	}
	commands := visible(app.Commands)
	for len(commands) > 0 {
		title := commands[0].Category
		n := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.Category != title })
		if n < 0 {
			n = len(commands)
		}
		page.Groups = append(page.Groups, commandItems(title, commands[:n]))
		commands = commands[n:]
	}
	page.Groups = append(page.Groups, helptext.Group{Title: "Flags of all commands", Items: flagItems(app.Flags)})
	return page
}

func commandPage(path []*cli.Command) helptext.Page {
	c := path[len(path)-1]
	names := []string{"podtask"}
	for _, p := range path {
		names = append(names, p.Name)
	}
	body, examples, _ := strings.Cut(c.Description, "Examples:\n")
	page := helptext.Page{Summary: strings.Join(names, " ") + ": " + c.Usage, Usage: c.UsageText, Body: strings.TrimRight(body, "\n")}
	if page.Usage == "" {
		page.Usage = strings.TrimRight(strings.Join(names, " ")+" [flags] "+c.ArgsUsage, " ")
	}
	for line := range strings.Lines(examples) {
		page.Examples = append(page.Examples, strings.TrimRight(strings.TrimPrefix(line, "  "), " \n"))
	}
	if aliases := c.Aliases; len(aliases) > 0 {
		page.Footer = "Also called " + strings.Join(aliases, ", ") + "."
	}
	if isGroup(c) {
		page.Groups = append(page.Groups, commandItems("Commands", visible(c.Subcommands)))
	}
	page.Groups = append(page.Groups, groupFlags(c.Flags)...)
	return page
}

func commandItems(title string, commands []*cli.Command) helptext.Group {
	g := helptext.Group{Title: title}
	for _, c := range commands {
		g.Items = append(g.Items, helptext.Item{Name: c.Name, Text: c.Usage})
	}
	return g
}

// groupFlags returns the flags in groups if there are many, else in one.
func groupFlags(flags []cli.Flag) []helptext.Group {
	if len(flags) < manyFlags {
		return []helptext.Group{{Title: "Flags", Items: flagItems(flags)}}
	}
	groups := []helptext.Group{{Title: "Flags"}}
	for _, g := range flagGroups {
		member := func(f cli.Flag) bool { return slices.Contains(g.names, f.Names()[0]) }
		var members []cli.Flag
		for _, f := range flags {
			if member(f) {
				members = append(members, f)
			}
		}
		flags = slices.DeleteFunc(slices.Clone(flags), member)
		if len(members) > 0 {
			groups = append(groups, helptext.Group{Title: g.title, Items: flagItems(members)})
		}
	}
	groups[0].Items = flagItems(flags)
	return groups
}

func flagItems(flags []cli.Flag) (items []helptext.Item) {
	short := slices.ContainsFunc(flags, func(f cli.Flag) bool { return shortNames(f) != "" })
	for _, f := range flags {
		if v, ok := f.(cli.VisibleFlag); ok && !v.IsVisible() {
			continue
		}
		items = append(items, flagItem(f, short))
	}
	return items
}

// flagItem returns the entry of a flag: "-e, --env NAME=VALUE ..." and its usage. With short, names without
// a letter are indented, so that the long names are aligned.
func flagItem(f cli.Flag, short bool) helptext.Item {
	name := shortNames(f)
	if name == "" && short {
		name = "    "
	}
	name += longName(f)
	doc, ok := f.(cli.DocGenerationFlag)
	if !ok {
		return helptext.Item{Name: name}
	}
	placeholder, text := splitPlaceholder(doc.GetUsage())
	if placeholder == "" {
		placeholder = cmp.Or(keyPlaceholders[f.Names()[0]], "VALUE")
	}
	switch optional, isOptional := f.(*command.OptionalFlag); {
	case isOptional:
		name += "[=" + placeholder + "]"
		text += " (" + optional.Bare + " if it has no value)"
	case doc.TakesValue():
		name += " " + placeholder
	}
	if _, ok := f.(*cli.StringSliceFlag); ok {
		name += " ..."
	}
	if text != "" && defaultOf(doc) != "" {
		text += " (default: " + defaultOf(doc) + ")"
	}
	return helptext.Item{Name: name, Text: text}
}

func defaultOf(doc cli.DocGenerationFlag) string {
	text := strings.Trim(doc.GetDefaultText(), `"`)
	if text == "false" && !doc.TakesValue() {
		return ""
	}
	return text
}

func shortNames(f cli.Flag) string {
	for _, n := range f.Names() {
		if len(n) == 1 {
			return "-" + n + ", "
		}
	}
	return ""
}

// longName returns the first long name. The others are those of other programs.
func longName(f cli.Flag) string {
	for _, n := range f.Names() {
		if len(n) > 1 {
			return "--" + n
		}
	}
	return ""
}

// splitPlaceholder returns the placeholder, which is in back quotes, and the usage without the quotes.
func splitPlaceholder(usage string) (placeholder, text string) {
	before, rest, ok := strings.Cut(usage, "`")
	if !ok {
		return "", usage
	}
	placeholder, after, _ := strings.Cut(rest, "`")
	return placeholder, before + placeholder + after
}

// requestedHelp returns the command whose help an arranged line requests; all is whether the help has all commands.
func requestedHelp(app *cli.App, arranged []string) (path []*cli.Command, all, asked bool) {
	commands := app.Commands
	for _, word := range arranged[1:] {
		switch {
		case word == "--":
			return path, false, false
		case word == "--help=true" || word == helpOfAll:
			return path, word == helpOfAll, true
		case strings.HasPrefix(word, "-"):
		default:
			i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.Name == word })
			if i < 0 {
				return path, false, false
			}
			path, commands = append(path, commands[i]), commands[i].Subcommands
		}
	}
	return path, false, false
}
