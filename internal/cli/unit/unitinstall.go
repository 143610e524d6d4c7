package unit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/atomicfile"
	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/define/catalog"
	"github.com/podtask/podtask/internal/host/doctor"
	"github.com/podtask/podtask/internal/unitfile/taskunit"
	"github.com/podtask/podtask/internal/unitfile/unitdir"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/urfave/cli/v2"
)

type installOptions struct {
	units
	stdin   io.Reader
	catalog func(*cli.Context) (*catalog.Catalog, error)
}

func newInstall(p *command.Program) installOptions {
	return installOptions{units: newUnits(p), stdin: p.Stdin, catalog: p.OpenCatalog}
}

// run checks all of the files before it copies any.
func (o installOptions) run(c *cli.Context, files []string) error {
	replace := c.Bool("replace")
	home := unitdir.Home(o.getenv)
	if home == "" {
		return errors.New("no directory for units: set HOME or XDG_CONFIG_HOME")
	}
	var sources []taskunit.Source
	bad := false
	for _, file := range files {
		s, err := o.readUnit(file)
		if err != nil {
			return err
		}
		if _, err := os.Lstat(filepath.Join(home, s.Name)); err == nil && !replace {
			return fmt.Errorf("%s already exists: overwrite it with --replace", filepath.Join(home, s.Name))
		}
		sources = append(sources, s)
	}
	set, err := o.load(sources...)
	if err != nil {
		return err
	}
	for _, s := range sources {
		bad = o.report(set.of(s)) || bad
		if path := s.Definition(); path != "" {
			definition := command.Definition{Document: path, Stdin: o.stdin, Catalog: func() (*catalog.Catalog, error) { return o.catalog(c) }}
			_, f, err := definition.Read()
			if err != nil {
				return fmt.Errorf("%s: %w", s.File.Path, err)
			}
			f.Print(o.errOut)
			bad = bad || !f.Valid
		}
	}
	if bad {
		fmt.Fprintln(o.errOut, "nothing was installed")
		return command.ExitStatus(command.ExitOwnFailure)
	}
	for _, s := range sources {
		if err := copyUnit(s, home, replace); err != nil {
			return err
		}
	}
	if err := o.reload(c.Context); err != nil {
		return err
	}
	for _, s := range sources {
		fmt.Fprintln(o.out, s.ServiceName())
	}
	o.warnOfLogout(doctor.LingerFile)
	if start := set.startable(sources); len(start) > 0 {
		verb := "start"
		if replace {
			verb = "restart"
		}
		fmt.Fprintln(o.errOut, "Next: systemctl --user "+verb+" "+strings.Join(start, " "))
	}
	return nil
}

// startable returns what systemctl is to start for units: their services, or the timers or sockets that do. A template needs the
// name of an instance.
func (u unitSet) startable(units []taskunit.Source) (names []string) {
	for _, s := range units {
		name := strings.TrimSuffix(s.ServiceName(), ".service")
		if strings.HasSuffix(name, "@") {
			continue
		}
		for _, starter := range []string{name + ".timer", name + ".socket"} {
			if slices.ContainsFunc(u.services, func(g taskunit.Service) bool { return g.Name == starter }) {
				name = starter
			}
		}
		names = append(names, name)
	}
	return names
}

// readUnit reads the unit that is to be installed, with its drop-ins.
func (o installOptions) readUnit(file string) (taskunit.Source, error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return taskunit.Source{}, err
	}
	if filepath.Ext(path) != taskunit.Extension {
		return taskunit.Source{}, command.Usagef("unit install", "%s: the name of a unit ends in %s", file, taskunit.Extension)
	}
	text, err := command.ReadSmall(path)
	if err != nil {
		return taskunit.Source{}, fmt.Errorf("read the unit: %w", err)
	}
	s := taskunit.Source{Name: filepath.Base(path), File: taskunit.Read(path, string(text))}
	dropIns, err := dropInsOf(path)
	if err != nil {
		return s, err
	}
	for _, d := range dropIns {
		text, err := command.ReadSmall(d)
		if err != nil {
			return s, fmt.Errorf("read a drop-in: %w", err)
		}
		s.DropIns = append(s.DropIns, taskunit.Read(d, string(text)))
	}
	for _, c := range s.Companions() {
		switch {
		case c == ".." || strings.HasPrefix(c, "../"):
			return s, fmt.Errorf("%s names %s, which lies outside of its directory and so is not installed with it: give an absolute path", file, c)
		case strings.Contains(c, "%"):
			o.warn("%s names %s, which is not installed with it: only systemd knows what file that is", file, c)
		}
	}
	return s, nil
}

// dropInsOf returns the paths of the drop-ins beside a unit, sorted.
func dropInsOf(unit string) (paths []string, err error) {
	entries, err := os.ReadDir(unit + ".d")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ".conf" {
			paths = append(paths, filepath.Join(unit+".d", e.Name()))
		}
	}
	return paths, err
}

// warnOfLogout warns if the services of units end with the last session. lingers returns the file that exists where they do
// not.
func (o installOptions) warnOfLogout(lingers func(user string) string) {
	user := o.getenv("USER")
	if user == "" {
		return
	}
	if _, err := os.Stat(lingers(user)); err != nil {
		o.warn("units run only while %s is logged in: `loginctl enable-linger %s`, as root, changes that", user, doctor.LingerUser(user, os.Getuid()))
	}
}

// copyUnit copies a unit, its drop-ins and the files that they name. The unit comes last, so that it
// never names a file that does not exist.
func copyUnit(s taskunit.Source, home string, replace bool) error {
	from := filepath.Dir(s.File.Path)
	names := slices.DeleteFunc(s.Companions(), func(name string) bool { return strings.Contains(name, "%") })
	for _, d := range s.DropIns {
		names = append(names, filepath.Join(s.Name+".d", filepath.Base(d.Path)))
	}
	for _, name := range slices.Clone(names) {
		names = append(names, environmentFiles(from, name)...)
	}
	for _, name := range append(names, s.Name) {
		data, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			return fmt.Errorf("install %s: %w", s.Name, err)
		}
		to := filepath.Join(home, name)
		if have, err := os.ReadFile(to); err == nil && !replace && string(have) != string(data) {
			return fmt.Errorf("install %s: %s already exists and differs: overwrite it with --replace", s.Name, to)
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		// Environment files may hold secrets.
		if err := atomicfile.Write(to, data, 0o600); err != nil {
			return fmt.Errorf("install %s: %w", s.Name, err)
		}
	}
	return nil
}

// environmentFiles returns the files of variables that a definition names relative to itself, by their paths from dir.
func environmentFiles(dir, name string) (paths []string) {
	src, err := command.ReadSmall(filepath.Join(dir, name))
	if err != nil {
		return nil // the copy reports it
	}
	task, _, err := taskdef.Parse(name, src)
	if err != nil {
		return nil // it is no definition
	}
	for _, c := range task.Containers {
		for _, f := range c.EnvironmentFiles {
			path := filepath.Join(filepath.Dir(name), f.Path)
			if f.Path != "" && !filepath.IsAbs(f.Path) && filepath.IsLocal(path) && !slices.Contains(paths, path) {
				paths = append(paths, path)
			}
		}
	}
	return paths
}
