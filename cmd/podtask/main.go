//go:build remote && containers_image_openpgp

// Podtask runs ECS-style tasks on rootless Podman.
package main

import (
	"context"
	"os"

	"github.com/podtask/podtask/internal/cli"
	"github.com/podtask/podtask/internal/parts"
)

// version is set by the linker.
var version string

func main() { os.Exit(cli.Main(context.Background(), os.Args, version, parts.Build())) }
