package run

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/define/members"
	"github.com/podtask/podtask/internal/define/pod"
	"github.com/podtask/podtask/internal/define/short"
	"github.com/urfave/cli/v2"
)

// explained are the formats with a table of members: those of the core, and more of parts.
func explained(more []members.Format) []members.Format {
	return append([]members.Format{shortFormat(), pod.Format(), pod.AnnotationFormat()}, more...)
}

// shortFormat is the short form of a definition, of which every key is honored.
func shortFormat() members.Format {
	f := members.Format{Name: "short", Title: "Short task definitions", Schema: "podtask's own, podtask schema short"}
	add := func(section string, keys []short.Key) {
		for _, k := range keys {
			note, becomes := k.What, ""
			if word := k.Also(); word != "" {
				note += "; also " + word
			}
			if k.Member != "" {
				becomes = "`" + k.Member + "` of a task definition"
			}
			f.Rows = append(f.Rows, members.Row{Member: section + k.Name, Note: note, Remedy: becomes})
		}
	}
	add("task.", short.TaskKeys)
	add("containers.", short.ContainerKeys)
	add("healthcheck.", short.HealthKeys)
	return f
}

// ExplainCommand is `podtask explain`. Formats returns the formats of parts.
func ExplainCommand(p *command.Program, formats func() []members.Format) *cli.Command {
	return &cli.Command{
		Name:      "explain",
		Usage:     "say what a member of a short definition, a Kubernetes document, a Compose file or another format becomes",
		ArgsUsage: "[FORMAT] [MEMBER]",
		Description: `Each member of a format is honored, has no meaning on one host, needs a flag, is lost with a
warning, or is refused. MEMBER is a name (suspend), a type or section (JobSpec), or both
(JobSpec.suspend). Without MEMBER the lost, needed and refused members are listed; --all lists
all. Without a format the formats are listed with their counts.

Examples:
  podtask explain
  podtask explain short containers.volumes
  podtask explain kubernetes JobSpec.suspend
  podtask explain compose services.pre_start
  podtask explain cloudformation AWS::Scheduler::Schedule
  podtask explain kubernetes --format json --all`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "all", Usage: "list honored members and those without meaning too"},
			command.FormatFlag("json or yaml"),
		},
		Action: explainOptions{p.Stdout, formats}.run,
	}
}

type explainOptions struct {
	out     io.Writer
	formats func() []members.Format // of parts
}

func (o explainOptions) run(c *cli.Context) error {
	format := c.String("format")
	if !slices.Contains([]string{"", console.FormatJSON, console.FormatYAML}, format) {
		return command.Usagef("explain", "no format %q: it is json or yaml", format)
	}
	if c.Args().Len() > 2 {
		return command.Usagef("explain", "explain takes a format and a MEMBER, not %d arguments", c.Args().Len())
	}
	all := explained(o.formats())
	if !c.Args().Present() {
		return o.list(all, format)
	}
	i := slices.IndexFunc(all, func(f members.Format) bool { return f.Name == strings.ToLower(c.Args().First()) })
	if i < 0 {
		return command.Usagef("explain", "no format %q: it is one of %s", c.Args().First(), strings.Join(formatNames(all), ", "))
	}
	rows, err := chosen(all[i], c.Args().Get(1), c.Bool("all"))
	if err != nil {
		return err
	}
	switch format {
	case console.FormatJSON:
		return console.WriteJSON(o.out, rows)
	case console.FormatYAML:
		return console.WriteYAML(o.out, rows)
	}
	return o.print(rows)
}

func formatNames(formats []members.Format) (names []string) {
	for _, f := range formats {
		names = append(names, f.Name)
	}
	return names
}

// ExplainedFormats are the names of the formats, for completion.
func ExplainedFormats(more []members.Format) []string { return formatNames(explained(more)) }

// ExplainedMembers are the members of a format, for completion.
func ExplainedMembers(format string, more []members.Format) (names []string) {
	for _, f := range explained(more) {
		if f.Name == format {
			for _, r := range f.Rows {
				names = append(names, r.Member)
			}
		}
	}
	return names
}

// chosen returns the rows of a member, of a type or section, or of the whole format.
func chosen(f members.Format, member string, all bool) ([]members.Row, error) {
	if member != "" {
		if rows := append(f.Find(member), f.Below(member)...); len(rows) > 0 {
			return rows, nil
		}
		hint := f.Suggest(member)
		if hint == "" {
			hint = "see podtask explain " + f.Name + " --all"
		}
		return nil, command.Usagef("explain", "%s have no member %q: %s", f.Title, member, hint)
	}
	if all {
		return f.Rows, nil
	}
	return slices.DeleteFunc(slices.Clone(f.Rows), func(r members.Row) bool {
		return r.Treatment == members.Honored || r.Treatment == members.NoMeaning
	}), nil
}

func (o explainOptions) print(rows []members.Row) error {
	for _, r := range rows {
		text := r.Member + ": " + r.Treatment.String()
		for _, more := range []string{r.Note, r.Remedy} {
			if more != "" {
				text += "; " + members.Plain(more)
			}
		}
		if _, err := fmt.Fprintln(o.out, text); err != nil {
			return err
		}
	}
	return nil
}

// formatCounts is a format as `podtask explain` lists it.
type formatCounts struct {
	Format  string         `json:"format"`
	Title   string         `json:"title"`
	Schema  string         `json:"schema"`
	Members map[string]int `json:"members"` // by treatment
}

func (o explainOptions) list(all []members.Format, format string) error {
	var list []formatCounts
	for _, f := range all {
		n := formatCounts{Format: f.Name, Title: f.Title, Schema: f.Schema, Members: make(map[string]int)}
		for treatment, count := range f.Counts() {
			n.Members[treatment.String()] = count
		}
		list = append(list, n)
	}
	switch format {
	case console.FormatJSON:
		return console.WriteJSON(o.out, list)
	case console.FormatYAML:
		return console.WriteYAML(o.out, list)
	}
	for _, n := range list {
		var counts []string
		for t := members.Honored; t <= members.Refused; t++ {
			counts = append(counts, fmt.Sprintf("%d %s", n.Members[t.String()], t))
		}
		if _, err := fmt.Fprintf(o.out, "%s: %s (%s): %s\n", n.Format, n.Title, n.Schema, strings.Join(counts, ", ")); err != nil {
			return err
		}
	}
	return nil
}
