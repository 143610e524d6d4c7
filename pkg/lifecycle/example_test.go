package lifecycle_test

import (
	"fmt"
	"time"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// The caller saves the state of each step before it executes the effects, and reports the result of
// each effect as an event.
func ExampleStep() {
	task, _, err := taskdef.Parse("web.json", []byte(
		`{"family": "web", "containerDefinitions": [{"name": "server", "image": "example.com/server:1"}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	state := lifecycle.New("0123456789abcdef0123456789abcdef", "", task, lifecycle.Options{}, at)

	state, effects := lifecycle.Step(state, at, lifecycle.Restarted{})
	fmt.Printf("%T\n", effects[0])
	digest := "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	_, effects = lifecycle.Step(state, at, lifecycle.OpFinished{ID: effects[0].Op(), Result: lifecycle.Result{Digest: digest}})
	for _, e := range effects {
		fmt.Printf("%T\n", e)
	}
	// Output:
	// lifecycle.ResolveImage
	// lifecycle.PullImage
	// lifecycle.CreateSandbox
}
