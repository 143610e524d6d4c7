package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// install puts the files below a prefix, or below destdir and the prefix, and says what the
// installation lacks.
func (b build) install(prefix, destdir string, out io.Writer) error {
	if strings.ContainsAny(prefix, " \t\n%$\"'\\;") {
		return fmt.Errorf("PREFIX %q: systemd cannot start a program below it: choose a path of letters, digits and -._/", prefix)
	}
	tree, err := b.tree(layoutOf(prefix))
	if err != nil {
		return err
	}
	for _, f := range tree {
		if err := put(filepath.Join(destdir, f.path), f); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "podtask %s is installed in %s\n", b.version, filepath.Join(destdir, prefix))
	if layoutOf(prefix).generators == "" && destdir == "" {
		lacks(prefix, out)
	}
	return nil
}

// uninstall removes the files that install puts there, and the directories that are then
// empty.
func (b build) uninstall(prefix, destdir string) error {
	tree, err := b.tree(layoutOf(prefix))
	if err != nil {
		return err
	}
	for _, f := range tree {
		to := filepath.Join(destdir, f.path)
		if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for dir := filepath.Dir(to); dir != filepath.Join(destdir, prefix) && os.Remove(dir) == nil; {
			dir = filepath.Dir(dir)
		}
	}
	return nil
}

// layoutOf is the layout of a prefix.
func layoutOf(prefix string) layout {
	if prefix == "/usr" || prefix == "/usr/local" {
		return system(prefix)
	}
	return personal(prefix)
}

// put replaces a file, also a program that runs.
func put(to string, f file) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	next := to + ".new"
	if err := os.RemoveAll(next); err != nil {
		return err
	}
	if f.target != "" {
		if err := os.Symlink(f.target, next); err != nil {
			return err
		}
	} else {
		if err := os.WriteFile(next, f.data, f.mode); err != nil {
			return err
		}
		if err := os.Chmod(next, f.mode); err != nil { // whatever the umask
			return err
		}
	}
	return os.Rename(next, to)
}

// lacks says what is different from an installation by root.
func lacks(prefix string, out io.Writer) {
	fmt.Fprintf(out, "\nWithout root, it lacks this:\n"+
		"* systemd runs no generator from there. After each change of a .task unit, run `podtask generate`;\n"+
		"  or let root run: ln -s %s/bin/podtask-user-generator /etc/systemd/user-generators/\n", prefix)
	if !onPath(prefix + "/bin") {
		fmt.Fprintf(out, "* Your PATH has no %s/bin: add it in ~/.profile.\n", prefix)
	}
	data := os.Getenv("XDG_DATA_HOME")
	if data == "" {
		data = filepath.Join(os.Getenv("HOME"), ".local/share")
	}
	if data != prefix+"/share" {
		fmt.Fprintf(out, "* systemd does not read units from %[1]s/share/systemd/user: run `systemctl --user link %[1]s/share/systemd/user/podtask.*`.\n"+
			"* Shells do not find completions there: `podtask completion --help` says how to add them.\n", prefix)
	}
	fmt.Fprintf(out, "* zsh finds completions there only with: fpath+=(%s/share/zsh/site-functions)\n", prefix)
	fmt.Fprintf(out, "\nNext: %s/bin/podtask doctor\n", prefix)
}

func onPath(dir string) bool {
	for _, d := range filepath.SplitList(os.Getenv("PATH")) {
		if filepath.Clean(d) == dir {
			return true
		}
	}
	return false
}
