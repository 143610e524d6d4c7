//go:build remote && containers_image_openpgp

// Podtask runs ECS-style tasks on rootless Podman.
//
// Each verb has a file of its own. The program holds no logic of tasks: it parses
// the command line, finds who owns a task or becomes the owner, sends events and
// shows states.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"time"
)

// version is set by the linker.
var version string

func main() {
	p := &program{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		getenv: os.Getenv, environ: os.Environ, executable: os.Executable,
		notify: signal.Notify, version: buildVersion(),
		patience: 3 * time.Second,
	}
	os.Exit(p.main(context.Background(), os.Args))
}

// buildVersion is the linker's word, else that of the module system.
func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
