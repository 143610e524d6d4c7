// Package begin is what a program of podtask does before its other packages initialize.
// Their initialization takes tens of milliseconds of processor time, which a helper that lives for one
// system call should not spend.
//
// Go initializes the packages in the order of their import paths, each after those that it
// imports. So this package imports little, and is initialized before most of the others.
// Nothing depends on that order but the time that a start takes.
package begin

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/podtask/podtask/pkg/netns"
)

// NetnsListen is the first argument of a program as the helper that makes sockets in a
// network namespace and passes them on; see netns.Help.
const NetnsListen = "netns-listen"

// netnsProgram is a program that is that helper and nothing else, beside this one.
const netnsProgram = "podtask-netns"

// NetnsHelper returns the command line of the helper for the program with the path self, as
// netns.Helper has it: the program for that, or self where that is not installed.
func NetnsHelper(self string) []string {
	small := filepath.Join(filepath.Dir(self), netnsProgram)
	if info, err := os.Stat(small); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
		return []string{small}
	}
	return []string{self, NetnsListen}
}

func init() {
	if len(os.Args) == 3 && os.Args[1] == NetnsListen {
		os.Exit(help(os.Args[2]))
	}
	collect(shortPercent)
}

// help is the helper. It returns the exit code.
func help(arg string) int {
	if err := netns.Help(arg); err != nil {
		fmt.Fprintln(os.Stderr, "Error: "+err.Error())
		return 125
	}
	return 0
}
