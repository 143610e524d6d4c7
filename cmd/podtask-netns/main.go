// podtask-netns makes sockets in a network namespace and passes them on, for podtask, which
// executes it there with nsenter. It is small because most starts wait for it: to execute podtask
// itself takes five times as much processor time.
//
//	podtask-netns ARG
//
// ARG and what it does are documented at netns.Help. The exit code of a failure is 125.
package main

import (
	"fmt"
	"os"

	"github.com/podtask/podtask/pkg/netns"
)

func main() {
	if len(os.Args) != 2 {
		fail("podtask executes this program; it is of no use by itself")
	}
	if err := netns.Help(os.Args[1]); err != nil {
		fail(err.Error())
	}
}

func fail(why string) {
	fmt.Fprintln(os.Stderr, "Error: "+why)
	os.Exit(125)
}
