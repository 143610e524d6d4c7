// Command migrate plays an init job: it works through a few steps and exits,
// so that what depends on its SUCCESS may start.
//
// MIGRATE_STEPS (default 3) is the number of steps, MIGRATE_STEP_TIME (200ms)
// how long each takes, MIGRATE_EXIT_CODE (0) how it ends.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

func main() {
	os.Exit(run())
}

func run() int {
	// As process 1 of a container it would ignore SIGTERM without a handler.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	steps, err := setting("MIGRATE_STEPS", 3, strconv.Atoi)
	if err != nil {
		return fail(err)
	}
	pause, err := setting("MIGRATE_STEP_TIME", 200*time.Millisecond, time.ParseDuration)
	if err != nil {
		return fail(err)
	}
	code, err := setting("MIGRATE_EXIT_CODE", 0, strconv.Atoi)
	if err != nil {
		return fail(err)
	}
	for i := range steps {
		select {
		case <-ctx.Done():
			fmt.Println("interrupted")
			return 143
		case <-time.After(pause):
			fmt.Printf("step %d of %d applied\n", i+1, steps)
		}
	}
	if code != 0 {
		fmt.Fprintf(os.Stderr, "migration failed with code %d, as MIGRATE_EXIT_CODE says\n", code)
		return code
	}
	fmt.Println("schema is up to date")
	return 0
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 2
}

// setting reads an environment variable, or gives its default if it is not set.
func setting[T any](name string, byDefault T, parse func(string) (T, error)) (T, error) {
	text := os.Getenv(name)
	if text == "" {
		return byDefault, nil
	}
	value, err := parse(text)
	if err != nil {
		return value, fmt.Errorf("%s: %w", name, err)
	}
	return value, nil
}
