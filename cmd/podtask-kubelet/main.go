// Podtask-kubelet makes this host a node of a Kubernetes cluster. `podtask kubelet` executes it. It is
// a separate program because the client of Kubernetes is larger than podtask. See docs/kubernetes.md.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/podtask/podtask/internal/kube/kubelet"
)

// version is set by the linker.
var version string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	os.Exit(kubelet.Main(ctx, os.Args, version))
}
