// Podtask-user-generator makes systemd services from .task files. The systemd manager of a user
// executes it; see systemd.generator(7).
//
// It takes the arguments of Podman's Quadlet generator:
//
//	podtask-user-generator [-v] [-no-kmsg-log] [-user] DIR [EARLY-DIR LATE-DIR]
//	podtask-user-generator -dryrun
//	podtask-user-generator -version
package main

import (
	"os"

	"github.com/podtask/podtask/internal/unitfile/generator"
)

// version is set by the linker.
var version = "unknown"

func main() { os.Exit(generator.Main(os.Args, version)) }
