package api_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/podtask/podtask/pkg/api"
)

// host is a Backend with one task. The embedded interface stands for the methods that the example
// does not call.
type host struct{ api.Backend }

func (host) Tasks(context.Context) ([]api.Task, error) {
	return []api.Task{{ID: "0123456789abcdef0123456789abcdef", Family: "web", Status: "RUNNING"}}, nil
}

// A client lists the tasks of a server on a Unix socket.
func Example() {
	dir, err := os.MkdirTemp("", "api")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "run", "podtask.sock")
	l, err := api.Listen(socket)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	served := make(chan error, 1)
	go func() { served <- api.NewServer(host{}, api.Version{}).Serve(ctx, l) }()

	client, err := api.Dial(ctx, socket)
	if err != nil {
		fmt.Println(err)
		return
	}
	tasks, err := client.Tasks(ctx)
	for _, t := range tasks {
		fmt.Println(t.Family, t.Status)
	}
	client.Close()
	stop()
	fmt.Println(errors.Join(err, <-served))
	// Output:
	// web RUNNING
	// <nil>
}
