package unitdir

import (
	"os"
	"path/filepath"
)

// Program returns how a service starts podtask: PODTASK_PROGRAM if it is set, a
// podtask beside this program, links followed, or a bare name, which systemd looks
// for in /usr/local/bin, /usr/bin and the like. Executable is os.Executable.
func Program(getenv func(string) string, executable func() (string, error)) string {
	const name = "podtask"
	if p := getenv("PODTASK_PROGRAM"); filepath.IsAbs(p) {
		return p
	}
	self, err := executable()
	if err != nil {
		return name
	}
	if resolved, err := filepath.EvalSymlinks(self); err == nil {
		self = resolved
	}
	beside := filepath.Join(filepath.Dir(self), name)
	if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
		return beside
	}
	return name
}

// generatorDirs are the directories of generators of user managers (systemd.generator(7)). None is in a user's home.
var generatorDirs = []string{
	"/run/systemd/user-generators", "/etc/systemd/user-generators",
	"/usr/local/lib/systemd/user-generators", "/usr/lib/systemd/user-generators",
}

// HasGenerator reports whether this host's user managers run podtask's generator. SYSTEMD_GENERATOR_PATH has other
// directories, as for systemd.
func HasGenerator(getenv func(string) string) bool {
	dirs := generatorDirs
	if path := getenv("SYSTEMD_GENERATOR_PATH"); path != "" {
		dirs = filepath.SplitList(path)
	}
	for _, dir := range dirs {
		if info, err := os.Stat(filepath.Join(dir, "podtask-user-generator")); err == nil && info.Mode()&0o111 != 0 {
			return true
		}
	}
	return false
}

// Services returns the directory of a user's own systemd units: $XDG_CONFIG_HOME/systemd/user. It is empty where Home
// is.
func Services(getenv func(string) string) string {
	home := Home(getenv)
	if home == "" {
		return ""
	}
	return filepath.Join(filepath.Dir(filepath.Dir(home)), "systemd", "user")
}
