package run

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/unit/taskunit"
	"github.com/urfave/cli/v2"
)

// starter is the definition that init writes; NAME stands for the name of the task.
//
//go:embed starter.yaml
var starter string

// InitCommand is `podtask init`.
func InitCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "init",
		Usage:     "write a commented task definition to start from",
		ArgsUsage: "[NAME]",
		Description: `Writes NAME.yaml, or with --unit NAME.task, a unit of systemd that holds the definition. NAME
is "web" if it is not given. The file works as it is, with a public image.

Examples:
  podtask init
  podtask init shop && podtask run shop.yaml
  podtask init --unit shop && podtask unit install shop.task`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "unit", Usage: "write a .task unit with the definition in it"},
			&cli.BoolFlag{Name: "replace", Usage: "replace a file that is there"},
		},
		Action: func(c *cli.Context) error { return writeStarter(p.Stdout, p.Stderr, c) },
	}
}

func writeStarter(out, errOut io.Writer, c *cli.Context) error {
	if c.Args().Len() > 1 {
		return command.Usagef("init", "init takes one NAME, not %d arguments", c.Args().Len())
	}
	name := c.Args().First()
	if name == "" {
		name = "web"
	}
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" || name[0] == '-' || len(name) > 255 {
		return command.Usagef("init", "%q: a name has letters, digits, - and _", name)
	}
	file, text, next := name+".yaml", strings.ReplaceAll(starter, "NAME", name), "podtask run "+name+".yaml"
	if c.Bool("unit") {
		file, text, next = name+taskunit.Extension, starterUnit(text), "podtask unit install "+name+taskunit.Extension
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if c.Bool("replace") {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(file, flags, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already: --replace replaces it", file)
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	if _, err := fmt.Fprintln(out, file); err != nil {
		return err
	}
	fmt.Fprintln(errOut, "next: "+next)
	return nil
}

// starterUnit returns a unit that contains a definition. Comments stay; each other line except the last ends
// with a backslash.
func starterUnit(definition string) string {
	lines := strings.Split(strings.TrimRight(definition, "\n"), "\n")
	var out strings.Builder
	out.WriteString("# A task as a service of systemd, see podtask.task(5).\n[Task]\nDefinitionText=\\\n")
	last := len(lines) - 1
	for strings.HasPrefix(strings.TrimSpace(lines[last]), "#") {
		last--
	}
	for i, line := range lines[:last+1] {
		switch {
		case strings.TrimSpace(line) == "":
			out.WriteString("#\n")
		case strings.HasPrefix(strings.TrimSpace(line), "#") || i == last:
			out.WriteString(line + "\n")
		default:
			out.WriteString(line + " \\\n")
		}
	}
	return out.String() + "\n[Service]\nRestart=on-failure\n\n[Install]\nWantedBy=default.target\n"
}
