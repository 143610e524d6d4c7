// Speed measures podtask beside Podman's own commands. hack/bench runs it on the bed systemd.
//
//	speed page SHARE ROUNDS TASKS [PART...]
//	speed trace SHARE N
//	speed bare SOCKET once|start N IMAGE ARGUMENT...
//
// SHARE is the directory with podtask, podtask-netns, testbox and this program. "page" prints docs/speed.md: ROUNDS
// pairs of measurements for each row, and figures of a host with TASKS tasks at rest. With PARTs (starts, removals,
// commands, compose, first, once, services, healthy, nerdctl, door, deployments, many, hundreds, resting, asleep) it prints only their rows. With BENCH_STRICT=1 it fails if a
// row is more than 15 percent above its goal. "trace" prints when each effect and each request of a start of N
// containers began, and how long it took. "bare" is what podtask is compared with: requests without podtask.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "speed:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "bare" {
		return bare(args[1:])
	}
	var numbers []int
	for i := 2; i < min(len(args), 4); i++ {
		n, err := strconv.Atoi(args[i])
		if err != nil {
			return err
		}
		numbers = append(numbers, n)
	}
	switch {
	case len(numbers) == 2 && args[0] == "page":
		return page(ctx, args[1], numbers[0], numbers[1], args[4:])
	case len(numbers) == 1 && args[0] == "trace":
		return trace(ctx, args[1], numbers[0])
	}
	return fmt.Errorf("unknown arguments %q; see the documentation of hack/speed", args)
}
