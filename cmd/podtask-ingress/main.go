// Podtask-ingress is the proxy between the network and the services of a user. `podtask ingress serve`
// executes it. It is a separate program because it has no use for Podman, and because the library for
// certificates would cost each command of podtask a part of its start. See docs/online.md.
package main

import (
	"context"
	"os"

	"github.com/podtask/podtask/internal/ingress/program"
)

// version is set by the linker.
var version string

func main() { os.Exit(program.Main(context.Background(), os.Args, version)) }
