package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Dirs returns the directory for state ($XDG_STATE_HOME/podtask, else
// $HOME/.local/state/podtask) and the one for sockets
// ($XDG_RUNTIME_DIR/podtask), as the XDG Base Directory Specification 0.8 has
// them: a relative path in a variable counts as unset. It makes neither.
//
// What can be told is returned beside an error: without XDG_RUNTIME_DIR,
// stateDir is still good.
func Dirs(getenv func(string) string) (stateDir, runtimeDir string, err error) {
	stateDir, stateErr := stateHome(getenv)
	runtimeDir, runtimeErr := runtimeHome(getenv)
	return stateDir, runtimeDir, errors.Join(stateErr, runtimeErr)
}

// AgentSocket returns the path of the socket of this user's agent.
func AgentSocket(getenv func(string) string) (string, error) {
	stateDir, runtimeDir, err := Dirs(getenv)
	switch {
	case runtimeDir != "":
		return filepath.Join(runtimeDir, "podtask.sock"), nil
	case stateDir != "":
		return filepath.Join(stateDir, "run", "podtask.sock"), nil
	}
	return "", err
}

func stateHome(getenv func(string) string) (string, error) {
	if base := getenv("XDG_STATE_HOME"); filepath.IsAbs(base) {
		return filepath.Join(base, "podtask"), nil
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "podtask"), nil
	}
	return "", errors.New("no place for state: set HOME or XDG_STATE_HOME to an absolute path")
}

func runtimeHome(getenv func(string) string) (string, error) {
	if base := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(base) {
		return filepath.Join(base, "podtask"), nil
	}
	return "", fmt.Errorf("no place for sockets: XDG_RUNTIME_DIR is not set to an absolute path; "+
		"log in with ssh or 'machinectl shell USER@' rather than su or sudo, or, where 'loginctl enable-linger' is on, "+
		"export XDG_RUNTIME_DIR=/run/user/%d", os.Getuid())
}
