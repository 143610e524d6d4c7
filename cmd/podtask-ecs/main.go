// Podtask-ecs makes this host a container instance of an Amazon ECS cluster. `podtask ecs` executes it.
// It is a separate program so that the agent stays without the client of AWS. See docs/ecs-anywhere.md.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/podtask/podtask/internal/aws/instance/program"
)

// version is set by the linker.
var version string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	os.Exit(program.Main(ctx, os.Args, version))
}
