package unit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/unitfile/taskunit"
	"github.com/podtask/podtask/internal/unitfile/unitdir"
	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/urfave/cli/v2"
)

// Command is `podtask unit`.
func Command(p *command.Program) *cli.Command {
	u := newUnits(p)
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
				Action: withNames(newInstall(p).run),
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
					return u.list(c)
				},
			},
			{
				Name:        "print",
				Usage:       "print the services that units make",
				ArgsUsage:   "UNIT ...",
				Description: "Examples:\n  podtask unit print web",
				Action:      withNames(func(_ *cli.Context, names []string) error { return u.print(names) }),
			},
			u.removeCommand(),
		},
	}
}

// removeCommand is `podtask unit rm`.
func (u units) removeCommand() *cli.Command {
	return &cli.Command{
		Name:        "rm",
		Usage:       "remove units; their definitions and drop-ins stay without --purge",
		ArgsUsage:   "UNIT ...",
		Description: "Examples:\n  podtask unit rm --force web\n  podtask unit rm --purge web",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "force", Aliases: []string{"f"}, Usage: "stop the service first if it runs"},
			&cli.BoolFlag{Name: "purge", Usage: "remove the definition, the files of variables and the drop-ins beside the unit too, unless another unit names them"},
		},
		Action: withNames(func(c *cli.Context, names []string) error {
			return u.remove(c.Context, names, c.Bool("force"), c.Bool("purge"))
		}),
	}
}

// withNames makes an action of a command that takes one argument or more.
func withNames(action func(*cli.Context, []string) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		if !c.Args().Present() {
			path := command.Path(c)
			return command.Usagef(path, "%s needs a name", path)
		}
		return action(c, c.Args().Slice())
	}
}

// units are the unit directories of this user.
type units struct {
	out, errOut io.Writer
	warn        func(format string, args ...any)
	getenv      func(string) string
	executable  func() (string, error)
}

func newUnits(p *command.Program) units {
	return units{out: p.Stdout, errOut: p.Stderr, warn: p.Warn, getenv: p.Getenv, executable: p.Executable}
}

// unitSet is the content of the unit directories.
type unitSet struct {
	sources  []taskunit.Source
	services []taskunit.Service
	problems []taskunit.Problem
}

// load reads the directories. The sources instead replace the files of the same names.
func (u units) load(instead ...taskunit.Source) (unitSet, error) {
	dirs, err := unitdir.Search(u.getenv, os.Getuid())
	if err != nil {
		return unitSet{}, err
	}
	var set unitSet
	set.sources, set.problems = unitdir.Load(dirs)
	for _, s := range instead {
		set.sources = slices.DeleteFunc(set.sources, func(have taskunit.Source) bool { return have.Name == s.Name })
		set.sources = append(set.sources, s)
	}
	services, problems := taskunit.Generate(set.sources, taskunit.Options{Program: unitdir.Program(u.getenv, u.executable), Generator: "podtask generate", Notices: unitdir.Notices(u.getenv)})
	set.services, set.problems = services, append(set.problems, problems...)
	return set, nil
}

// find returns the unit web for the names web, web.task and web-task.service.
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

// report prints problems and returns whether there are errors among them.
func (u units) report(problems []taskunit.Problem) bool {
	for _, x := range problems {
		if x.Warning {
			fmt.Fprintln(u.errOut, x)
		} else {
			fmt.Fprintln(u.errOut, "Error: "+x.String())
		}
	}
	return taskunit.Errors(problems) > 0
}

// reload makes systemd read its units again. Without a generator it writes the services first.
func (u units) reload(ctx context.Context) error {
	if !unitdir.HasGenerator(u.getenv) {
		dir := unitdir.Services(u.getenv)
		if dir == "" {
			return errors.New("no directory for services: set HOME or XDG_CONFIG_HOME")
		}
		set, err := u.load()
		if err != nil {
			return err
		}
		if err := unitdir.Sync(dir, set.services); err != nil {
			return err
		}
	}
	manager, err := cgroups.Dial(ctx, u.getenv)
	if err != nil {
		u.warn("cannot reload systemd: %v", err)
		return nil
	}
	defer manager.Close()
	return manager.Reload(ctx)
}

// unitRow is a unit in `unit ls`.
type unitRow struct {
	Unit    string `json:"unit"`
	Service string `json:"service"`
	// State is systemd's ActiveState; empty for a template and if systemd does not answer; asleep for one that its socket starts.
	State string `json:"state"`
	Path  string `json:"path"`
	// Errors are the reasons why there is no service of the unit.
	Errors []string `json:"errors"`
}

func (u units) list(c *cli.Context) error {
	ctx := c.Context
	set, err := u.load()
	if err != nil {
		return err
	}
	manager, err := cgroups.Dial(ctx, u.getenv)
	if err == nil {
		defer manager.Close()
	}
	rows := []unitRow{}
	for _, s := range set.sources {
		if filepath.Ext(s.Name) != taskunit.Extension {
			continue
		}
		r := unitRow{Unit: s.Name, Service: s.ServiceName(), Path: s.File.Path, Errors: []string{}}
		for _, x := range set.of(s) {
			if !x.Warning {
				r.Errors = append(r.Errors, x.String())
			}
		}
		if manager != nil && !strings.Contains(r.Service, "@.") {
			r.State, _ = manager.ActiveState(ctx, r.Service)
			if socket, _ := manager.ActiveState(ctx, taskunit.SocketOf(r.Service)); r.State == "inactive" && socket == "active" {
				r.State = "asleep" // the next connection starts it
			}
		}
		rows = append(rows, r)
	}
	format := c.String("format")
	table := !c.Bool("quiet") && (format == "" || format == console.FormatTable)
	if table {
		defer func() { u.explain(rows) }()
	}
	return command.Listing[unitRow]{Items: rows, Hints: u.errOut, None: "There are no units. `podtask init --unit` writes one, `podtask unit install FILE` installs it.", Columns: []command.Column[unitRow]{
		{Head: "UNIT", Cell: func(r unitRow) string { return r.Unit }},
		{Head: "SERVICE", Cell: func(r unitRow) string { return r.Service }},
		{Head: "STATE", Cell: unitRow.stateText},
		{Head: "FILE", Cell: func(r unitRow) string { return r.Path }},
	}}.Print(u.out, c)
}

// explain explains why units do not start, and what shows more.
func (u units) explain(rows []unitRow) {
	for _, r := range rows {
		for _, text := range r.Errors {
			fmt.Fprintln(u.errOut, text)
		}
		if r.State == "failed" {
			fmt.Fprintf(u.errOut, "%s failed: `journalctl --user -u %s` says why\n", r.Unit, r.Service)
		}
	}
}

func (r unitRow) stateText() string {
	if n := len(r.Errors); n > 0 {
		return fmt.Sprintf("errors: %d", n)
	}
	return cmp.Or(r.State, "-")
}

// print prints the services of units.
func (u units) print(names []string) error {
	set, err := u.load()
	if err != nil {
		return err
	}
	bad := false
	for _, name := range names {
		s, err := set.find(name)
		if err != nil {
			return err
		}
		bad = u.report(set.of(s)) || bad
		for _, service := range set.services {
			if service.Source == s.File.Path {
				fmt.Fprintf(u.out, "# %s\n%s", service.Name, service.Text)
			}
		}
	}
	if bad {
		return command.ExitStatus(command.ExitOwnFailure)
	}
	return nil
}

// remove removes units from the directory of the user, and with purge the files that only they have.
func (u units) remove(ctx context.Context, names []string, force, purge bool) error {
	set, err := u.load()
	if err != nil {
		return err
	}
	home := unitdir.Home(u.getenv)
	var sources []taskunit.Source
	for _, name := range names {
		s, err := set.find(name)
		if err != nil {
			return err
		}
		if home == "" || !strings.HasPrefix(s.File.Path, home+"/") {
			return fmt.Errorf("%s is not in %s: podtask removes only units from there", s.File.Path, home)
		}
		sources = append(sources, s)
	}
	manager, err := cgroups.Dial(ctx, u.getenv)
	if err == nil {
		defer manager.Close()
		for _, s := range sources {
			if err := stopService(ctx, manager, s, force); err != nil {
				return err
			}
		}
	}
	for _, s := range sources {
		if err := os.Remove(s.File.Path); err != nil {
			return err
		}
		fmt.Fprintln(u.out, s.Name)
	}
	for _, file := range set.companions(sources, home) {
		if !purge {
			fmt.Fprintf(u.errOut, "%s stays; --purge removes it too\n", file)
			continue
		}
		if err := os.Remove(file); err != nil {
			return err
		}
		if dir := filepath.Dir(file); strings.HasSuffix(dir, taskunit.Extension+".d") {
			_ = os.Remove(dir) // it has other files
		}
	}
	return u.reload(ctx)
}

// companions returns the files in the directory home that units name or that are their drop-ins, and no other unit names.
func (u unitSet) companions(units []taskunit.Source, home string) (files []string) {
	of := func(s taskunit.Source) (all []string) {
		for _, name := range s.Companions() {
			all = append(all, filepath.Join(filepath.Dir(s.File.Path), name))
		}
		for _, d := range s.DropIns {
			if filepath.Dir(d.Path) == s.File.Path+".d" {
				all = append(all, d.Path)
			}
		}
		return all
	}
	named := map[string]bool{} // by units that stay, or already found
	for _, s := range u.sources {
		if !slices.ContainsFunc(units, func(gone taskunit.Source) bool { return gone.File.Path == s.File.Path }) {
			for _, file := range of(s) {
				named[file] = true
			}
		}
	}
	for _, s := range units {
		for _, file := range of(s) {
			if _, err := os.Lstat(file); err == nil && !named[file] && strings.HasPrefix(file, home+"/") {
				files = append(files, file)
			}
			named[file] = true
		}
	}
	return files
}

// stopService stops the service of a unit that is removed. Without force it is an error if it runs.
func stopService(ctx context.Context, manager *cgroups.User, s taskunit.Source, force bool) error {
	service := s.ServiceName()
	if strings.Contains(service, "@.") { // a template does not run
		return nil
	}
	state, err := manager.ActiveState(ctx, service)
	if err != nil {
		return err
	}
	if !force && state != "inactive" && state != "failed" {
		return fmt.Errorf("%s is %s: stop it with `systemctl --user stop %s`, or give --force", service, state, service)
	}
	// Those of OnCalendar= and ListenStream= first, which would start it again.
	for _, unit := range []string{strings.TrimSuffix(service, ".service") + ".timer", taskunit.SocketOf(service)} {
		if err := manager.StopService(ctx, unit); err != nil {
			return err
		}
	}
	return manager.StopService(ctx, service)
}
