// Package netnshelper runs the helper that makes sockets in a network namespace: as a small program
// of its own, or, where that is not installed, as another run of the calling program.
//
// In the second case the helper ends before most packages of the program initialize, which takes
// tens of milliseconds of processor time. Go initializes packages in the order of their import
// paths, each after those that it imports; this package imports little, so its turn comes early.
// Nothing depends on that order but the time that a start takes.
package netnshelper

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/podtask/podtask/pkg/netns"
)

// Argument is the first argument of a program that runs as the helper; netns.Help documents the
// second.
const Argument = "netns-listen"

// program is the small program, which is installed beside the calling one.
const program = "podtask-netns"

// Command returns the command line of the helper, as netns.Helper has it, for the program with the
// path self: the small program if it is installed, else self with Argument.
func Command(self string) []string {
	small := filepath.Join(filepath.Dir(self), program)
	if info, err := os.Stat(small); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
		return []string{small}
	}
	return []string{self, Argument}
}

func init() {
	if len(os.Args) == 3 && os.Args[1] == Argument {
		os.Exit(help(os.Args[2]))
	}
}

// help runs the helper and returns its exit code.
func help(arg string) int {
	if err := netns.Help(arg); err != nil {
		fmt.Fprintln(os.Stderr, "Error: "+err.Error())
		return 125
	}
	return 0
}
