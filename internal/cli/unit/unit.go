package unit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/unit/taskunit"
	"github.com/podtask/podtask/internal/unit/unitdir"
	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/urfave/cli/v2"
)

func Command(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:  "unit",
		Usage: "install, list, print and remove .task units of systemd",
		Description: `A .task file says how systemd runs a task: see docs/units.md.

Without podtask-user-generator, install and rm write the services to
~/.config/systemd/user themselves, as podtask generate does.

Examples:
  podtask unit install web.task
  podtask unit ls
  podtask unit print web
  podtask unit rm --force web`,
		Subcommands: []*cli.Command{
			{
				Name:      "install",
				Usage:     "check units, copy them to where systemd reads them and reload systemd",
				ArgsUsage: "FILE ...",
				Description: `The definition, the files that the unit names relative to itself and the drop-ins in
FILE.d are checked and copied too.

Examples:
  podtask unit install web.task`,
				Flags:  []cli.Flag{&cli.BoolFlag{Name: "replace", Usage: "replace a unit of the same name"}},
				Action: withNames(func(c *cli.Context, files []string) error { return installUnits(p, c, files) }),
			},
			{
				Name:        "ls",
				Usage:       "list all units with their services",
				Description: "Examples:\n  podtask unit ls",
				Flags:       []cli.Flag{command.FormatFlag(command.ListFormats), command.SortFlag()},
				Action: func(c *cli.Context) error {
					if err := command.NoArguments(c); err != nil {
						return err
					}
					return listUnits(c, p)
				},
			},
			{
				Name:        "print",
				Usage:       "print the services that units make",
				ArgsUsage:   "UNIT ...",
				Description: "Examples:\n  podtask unit print web",
				Action:      withNames(func(_ *cli.Context, names []string) error { return printUnits(p, names) }),
			},
			{
				Name:        "rm",
				Usage:       "remove units; their definitions and drop-ins stay",
				ArgsUsage:   "UNIT ...",
				Description: "Examples:\n  podtask unit rm --force web",
				Flags:       []cli.Flag{&cli.BoolFlag{Name: "force", Aliases: []string{"f"}, Usage: "stop the service first if it runs"}},
				Action: withNames(func(c *cli.Context, names []string) error {
					return removeUnits(c.Context, p, names, c.Bool("force"))
				}),
			},
		},
	}
}

// withNames makes an action of a command that takes one argument or more.
func withNames(action func(*cli.Context, []string) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		if !c.Args().Present() {
			path := command.CommandPath(c)
			return command.Usagef(path, "%s needs a name", path)
		}
		return action(c, c.Args().Slice())
	}
}

// unitSet is all that the unit directories hold.
type unitSet struct {
	sources  []taskunit.Source
	services []taskunit.Service
	problems []taskunit.Problem
}

// loadUnits reads the directories; a source that is given stands for the file of
// its name there.
func loadUnits(p *command.Program, instead ...taskunit.Source) (unitSet, error) {
	dirs, err := unitdir.Search(p.Getenv, os.Getuid())
	if err != nil {
		return unitSet{}, err
	}
	var u unitSet
	u.sources, u.problems = unitdir.Load(dirs)
	for _, s := range instead {
		u.sources = slices.DeleteFunc(u.sources, func(have taskunit.Source) bool { return have.Name == s.Name })
		u.sources = append(u.sources, s)
	}
	services, problems := taskunit.Generate(u.sources, taskunit.Options{Program: unitdir.Program(p.Getenv, p.Executable), Generator: "podtask generate"})
	u.services, u.problems = services, append(u.problems, problems...)
	return u, nil
}

// find returns the unit that a user calls web, web.task or web-task.service.
func (u unitSet) find(name string) (taskunit.Source, error) {
	i := slices.IndexFunc(u.sources, func(s taskunit.Source) bool {
		return filepath.Ext(s.Name) == taskunit.Extension && (s.Name == name || s.Name == name+taskunit.Extension || s.ServiceName() == name)
	})
	if i < 0 {
		return taskunit.Source{}, fmt.Errorf("no unit %s: `podtask unit ls` lists them", name)
	}
	return u.sources[i], nil
}

// of returns the problems of a unit and its drop-ins.
func (u unitSet) of(s taskunit.Source) []taskunit.Problem {
	return slices.DeleteFunc(slices.Clone(u.problems), func(p taskunit.Problem) bool {
		return p.Path != s.File.Path && !slices.ContainsFunc(s.DropIns, func(f taskunit.File) bool { return f.Path == p.Path })
	})
}

// sayProblems prints problems and reports whether there are errors among them.
func sayProblems(p *command.Program, problems []taskunit.Problem) bool {
	for _, x := range problems {
		if x.Warning {
			fmt.Fprintln(p.Stderr, x)
		} else {
			fmt.Fprintln(p.Stderr, "Error: "+x.String())
		}
	}
	return taskunit.Errors(problems) > 0
}

// reloadUnits has systemd read its units again, after generating the services
// where no generator does it.
func reloadUnits(ctx context.Context, p *command.Program) error {
	if !unitdir.HasGenerator() {
		dir := unitdir.Services(p.Getenv)
		if dir == "" {
			return errors.New("no directory for services: set HOME or XDG_CONFIG_HOME")
		}
		u, err := loadUnits(p)
		if err != nil {
			return err
		}
		if err := unitdir.Sync(dir, u.services); err != nil {
			return err
		}
	}
	manager, err := cgroups.Dial(ctx, p.Getenv)
	if err != nil {
		p.Warn("cannot reload systemd: %v", err)
		return nil
	}
	defer manager.Close()
	return manager.Reload(ctx)
}

// unitRow is a unit in `unit ls`.
type unitRow struct {
	Unit    string `json:"unit"`
	Service string `json:"service"`
	// State is systemd's ActiveState; empty where systemd cannot be asked, and for
	// a template.
	State string `json:"state"`
	Path  string `json:"path"`
	// Errors are those for which the unit makes no service.
	Errors []string `json:"errors"`
}

func listUnits(c *cli.Context, p *command.Program) error {
	ctx := c.Context
	u, err := loadUnits(p)
	if err != nil {
		return err
	}
	manager, err := cgroups.Dial(ctx, p.Getenv)
	if err == nil {
		defer manager.Close()
	}
	rows := []unitRow{}
	for _, s := range u.sources {
		if filepath.Ext(s.Name) != taskunit.Extension {
			continue
		}
		r := unitRow{Unit: s.Name, Service: s.ServiceName(), Path: s.File.Path, Errors: []string{}}
		for _, x := range u.of(s) {
			if !x.Warning {
				r.Errors = append(r.Errors, x.String())
			}
		}
		if manager != nil && !strings.Contains(r.Service, "@.") {
			r.State, _ = manager.ActiveState(ctx, r.Service)
		}
		rows = append(rows, r)
	}
	return command.Listing[unitRow]{Items: rows, Columns: []command.Column[unitRow]{
		{Head: "UNIT", Cell: func(r unitRow) string { return r.Unit }},
		{Head: "SERVICE", Cell: func(r unitRow) string { return r.Service }},
		{Head: "STATE", Cell: unitRow.stateText},
		{Head: "FILE", Cell: func(r unitRow) string { return r.Path }},
	}}.Print(p.Stdout, c)
}

func (r unitRow) stateText() string {
	if n := len(r.Errors); n > 0 {
		return fmt.Sprintf("errors: %d", n)
	}
	return cmp.Or(r.State, "-")
}

func printUnits(p *command.Program, names []string) error {
	u, err := loadUnits(p)
	if err != nil {
		return err
	}
	bad := false
	for _, name := range names {
		s, err := u.find(name)
		if err != nil {
			return err
		}
		bad = sayProblems(p, u.of(s)) || bad
		for _, service := range u.services {
			if service.Source == s.File.Path {
				fmt.Fprintf(p.Stdout, "# %s\n%s", service.Name, service.Text)
			}
		}
	}
	if bad {
		return command.ExitStatus(command.ExitOwnFailure)
	}
	return nil
}

// removeUnits removes units of the user's own directory.
func removeUnits(ctx context.Context, p *command.Program, names []string, force bool) error {
	u, err := loadUnits(p)
	if err != nil {
		return err
	}
	home := unitdir.Home(p.Getenv)
	var sources []taskunit.Source
	for _, name := range names {
		s, err := u.find(name)
		if err != nil {
			return err
		}
		if home == "" || !strings.HasPrefix(s.File.Path, home+"/") {
			return fmt.Errorf("%s is not in %s: podtask removes only units from there", s.File.Path, home)
		}
		sources = append(sources, s)
	}
	manager, err := cgroups.Dial(ctx, p.Getenv)
	if err == nil {
		defer manager.Close()
		for _, s := range sources {
			if err := stopBeforeRemoval(ctx, p, manager, s, force); err != nil {
				return err
			}
		}
	}
	for _, s := range sources {
		if err := os.Remove(s.File.Path); err != nil {
			return err
		}
		fmt.Fprintln(p.Stdout, s.Name)
	}
	return reloadUnits(ctx, p)
}

func stopBeforeRemoval(ctx context.Context, p *command.Program, manager *cgroups.User, s taskunit.Source, force bool) error {
	service := s.ServiceName()
	if strings.Contains(service, "@.") { // a template does not run
		return nil
	}
	state, err := manager.ActiveState(ctx, service)
	if err != nil || state == "inactive" || state == "failed" {
		return err
	}
	if !force {
		return fmt.Errorf("%s is %s: stop it with `systemctl --user stop %s`, or give --force", service, state, service)
	}
	return manager.StopService(ctx, service)
}
