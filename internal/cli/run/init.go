package run

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/unitfile/taskunit"
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
		Description: `Writes NAME.yaml, and with --unit also NAME.task, a unit of systemd for it. NAME
is "web" if it is not given. The files work as they are, with a public image.

Examples:
  podtask init
  podtask init shop && podtask run shop.yaml
  podtask init --unit shop && podtask unit install shop.task`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "unit", Usage: "write a .task unit for the definition, too"},
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
	files, next := []starterFile{{name + ".yaml", strings.ReplaceAll(starter, "NAME", name)}}, "podtask run "+name+".yaml"
	if c.Bool("unit") {
		files = append(files, starterFile{name + taskunit.Extension, fmt.Sprintf(starterUnit, name)})
		next = "podtask unit install " + name + taskunit.Extension
	}
	if err := writeAll(files, c.Bool("replace")); err != nil {
		return err
	}
	for _, f := range files {
		if _, err := fmt.Fprintln(out, f.name); err != nil {
			return err
		}
	}
	fmt.Fprintln(errOut, "Next: "+next)
	return nil
}

// starterFile is a file that init writes.
type starterFile struct{ name, text string }

// starterUnit is the unit; %s stands for the name of the task.
const starterUnit = `# A task as a service of systemd, see podtask.task(5).
[Task]
Definition=./%s.yaml

[Service]
Restart=on-failure

[Install]
WantedBy=default.target
`

// writeAll writes files. Without replace it writes none if one of them exists.
func writeAll(files []starterFile, replace bool) error {
	for _, f := range files {
		if _, err := os.Lstat(f.name); err == nil && !replace {
			return fmt.Errorf("%s already exists: overwrite it with --replace", f.name)
		}
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if replace {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	for _, f := range files {
		file, err := os.OpenFile(f.name, flags, 0o644)
		if err != nil {
			return err
		}
		_, err = file.WriteString(f.text)
		if err = errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("write %s: %w", f.name, err)
		}
	}
	return nil
}
