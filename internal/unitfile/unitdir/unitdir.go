package unitdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/podtask/podtask/internal/unitfile/taskunit"
)

// sharedDirs hold units for users: those of the administrator, and those of packages,
// which Quadlet reads from Podman 6 on.
var sharedDirs = []string{"/etc/containers/systemd/users", "/usr/share/containers/systemd/users"}

// Search returns the directories with the units of a user, the first counting
// most, with all directories below them: those of PODTASK_UNIT_DIRS (absolute,
// between colons) if it is set, else those of Quadlet for a user:
//
//	$XDG_RUNTIME_DIR/containers/systemd
//	$XDG_CONFIG_HOME/containers/systemd
//	/etc/containers/systemd/users and /usr/share/containers/systemd/users, and of the
//	numbered directories in these only that of the user
//
// Directories that do not exist are left out. Getenv reads the environment.
func Search(getenv func(string) string, uid int) ([]string, error) {
	if list := getenv("PODTASK_UNIT_DIRS"); list != "" {
		var w walk
		for _, dir := range strings.Split(list, ":") {
			if !filepath.IsAbs(dir) {
				return nil, fmt.Errorf("PODTASK_UNIT_DIRS: %q is not an absolute path", dir)
			}
			w.add(dir)
		}
		return w.dirs, nil
	}
	return searchBelow(Home(getenv), getenv("XDG_RUNTIME_DIR"), sharedDirs, uid), nil
}

// Home returns the directory of a user's own units: $XDG_CONFIG_HOME/containers/systemd. It is empty where the
// environment has neither that nor HOME.
func Home(getenv func(string) string) string {
	if dir := getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "containers/systemd")
	}
	if dir := getenv("HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, ".config/containers/systemd")
	}
	return ""
}

func searchBelow(home, runtime string, shared []string, uid int) []string {
	var w walk
	if filepath.IsAbs(runtime) {
		w.add(filepath.Join(runtime, "containers/systemd"))
	}
	if home != "" {
		w.add(home)
	}
	own := strconv.Itoa(uid)
	w.skip = func(dir string) bool {
		name := filepath.Base(dir)
		_, err := strconv.ParseUint(name, 10, 64)
		return err == nil && slices.Contains(shared, filepath.Dir(dir)) && name != own
	}
	for _, dir := range shared {
		w.add(dir)
	}
	return w.dirs
}

// walk gathers directories, each once, and at most maxDirs.
type walk struct {
	dirs []string
	seen map[string]bool // resolved
	skip func(dir string) bool
}

// add takes a directory and those below it, but no drop-ins.
func (w *walk) add(dir string) {
	if strings.HasSuffix(dir, ".d") || len(w.dirs) == maxDirs || w.skip != nil && w.skip(dir) {
		return
	}
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil || w.seen[resolved] {
		return
	}
	entries, err := os.ReadDir(resolved)
	if err != nil {
		return // not a directory, or not ours to read
	}
	if w.seen == nil {
		w.seen = map[string]bool{}
	}
	w.seen[resolved] = true
	w.dirs = append(w.dirs, dir)
	for _, e := range entries {
		if e.IsDir() || e.Type()&fs.ModeSymlink != 0 {
			w.add(filepath.Join(dir, e.Name()))
		}
	}
}

// The bounds of a unit file, which has some hundred bytes, of all of them, and of their
// directories: a generator holds up the manager that called it.
const (
	maxSize  = 1 << 20
	maxTotal = 16 << 20
	maxDirs  = 1000
)

// Load reads all .task units with their drop-ins, and Quadlet's units, in the
// directories. The first file of a name counts. A file that cannot be read is a
// problem and is left out.
func Load(dirs []string) ([]taskunit.Source, []taskunit.Problem) {
	l := loader{dropInDirs: map[string][]string{}}
	if len(dirs) >= maxDirs {
		l.problems = append(l.problems, taskunit.Problem{Path: dirs[0], Message: fmt.Sprintf("there are %d directories with units or more: the rest is not read", maxDirs)})
	}
	var units [][2]string // name and path
	seen := make(map[string]bool)
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			l.failed(dir, err)
		}
		for _, e := range entries {
			name := e.Name()
			switch {
			case strings.HasSuffix(name, ".d"):
				l.dropInDirs[name] = append(l.dropInDirs[name], filepath.Join(dir, name))
			case !e.IsDir() && taskunit.IsUnit(name) && !seen[name]:
				seen[name] = true
				units = append(units, [2]string{name, filepath.Join(dir, name)})
			}
		}
	}
	for _, u := range units {
		l.load(u[0], u[1])
	}
	return l.sources, l.problems
}

type loader struct {
	dropInDirs map[string][]string // paths by name, the first counting most
	size       int                 // bytes read
	sources    []taskunit.Source
	problems   []taskunit.Problem
}

// read reads a file as long as all of them together are not too large.
func (l *loader) read(path string) (string, error) {
	if l.size > maxTotal {
		return "", errors.New("all units together are larger than 16 MiB")
	}
	text, err := read(path)
	l.size += len(text)
	return text, err
}

func (l *loader) failed(path string, err error) {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	l.problems = append(l.problems, taskunit.Problem{Path: path, Message: "cannot be read: " + err.Error()})
}

func (l *loader) load(name, path string) {
	text, err := l.read(path)
	if err != nil {
		l.failed(path, err)
		return
	}
	s := taskunit.Source{Name: name, File: taskunit.Read(path, text)}
	if filepath.Ext(name) == taskunit.Extension {
		s.DropIns = l.dropIns(name)
	}
	l.sources = append(l.sources, s)
}

// dropIns reads those of a unit. A more specific directory hides a file of the
// same name in a less specific one.
func (l *loader) dropIns(name string) []taskunit.File {
	paths := make(map[string]string)
	for _, sub := range taskunit.DropInDirs(name) {
		for _, dir := range l.dropInDirs[sub] {
			entries, err := os.ReadDir(dir)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				l.failed(dir, err)
			}
			for _, e := range entries {
				if _, hidden := paths[e.Name()]; filepath.Ext(e.Name()) == ".conf" && !hidden {
					paths[e.Name()] = filepath.Join(dir, e.Name())
				}
			}
		}
	}
	names := make([]string, 0, len(paths))
	for n := range paths {
		names = append(names, n)
	}
	slices.Sort(names)
	var files []taskunit.File
	for _, n := range names {
		text, err := l.read(paths[n])
		if err != nil {
			l.failed(paths[n], err)
			continue
		}
		files = append(files, taskunit.Read(paths[n], text))
	}
	return files
}

// read reads a file; /dev/null is an empty one, which masks a unit. It never
// waits, as reading a pipe would.
func read(path string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", err
	case info.Mode()&fs.ModeCharDevice != 0:
		return "", nil
	case !info.Mode().IsRegular():
		return "", errors.New("it is not a regular file")
	case info.Size() > maxSize:
		return "", errors.New("it is larger than 1 MiB")
	}
	text, err := os.ReadFile(path)
	return string(text), err
}

// Write writes services and their links into a directory, which is made if need
// be. A file that exists already is an error and is not changed. The
// error holds everything that went wrong; the rest is written.
func Write(dir string, services []taskunit.Service) error {
	return writeAll(dir, services, writeNew)
}

// Sync makes a directory hold these services and no others that were generated:
// it replaces generated files, and removes those of units that are gone with their
// links. Files of others are left alone; where one is in the way, that is an error.
func Sync(dir string, services []taskunit.Service) error {
	wanted := make(map[string]bool, len(services))
	for _, s := range services {
		wanted[s.Name] = true
	}
	err := writeAll(dir, services, writeOver)
	for _, path := range globs(dir, "*.service", "*.timer", "*.socket") {
		if !wanted[filepath.Base(path)] && ours(path) {
			err = errors.Join(err, os.Remove(path))
		}
	}
	for _, path := range globs(dir, "*.*/*-task*.service", "timers.target.wants/*-task*.timer", "sockets.target.wants/*-task*.socket") {
		if _, gone := os.Stat(path); errors.Is(gone, fs.ErrNotExist) && !wanted[filepath.Base(path)] {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
}

// globs returns the files in a directory that match one of the patterns.
func globs(dir string, patterns ...string) (paths []string) {
	for _, p := range patterns {
		found, _ := filepath.Glob(filepath.Join(dir, p)) // the patterns are valid unless the directory is odd
		paths = append(paths, found...)
	}
	return paths
}

// ours reports whether a file was generated for podtask.
func ours(path string) bool {
	text, err := read(path)
	return err == nil && taskunit.Generated(text)
}

func writeAll(dir string, services []taskunit.Service, write func(path, text string) error) error {
	var errs []error
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, s := range services {
		if err := write(filepath.Join(dir, s.Name), s.Text); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.Source, err))
			continue
		}
		for _, l := range s.Links {
			if err := link(filepath.Join(dir, l.Path), l.Target); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", s.Source, err))
			}
		}
	}
	return errors.Join(errs...)
}

// writeOver writes a file in place of one that was generated.
func writeOver(path, text string) error {
	if ours(path) {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return writeNew(path, text)
}

func writeNew(path, text string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// link makes a symbolic link in place of one that is there.
func link(path, target string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return os.Symlink(target, path)
}
