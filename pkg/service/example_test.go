package service_test

import (
	"fmt"
	"time"

	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef"
)

// A new service starts its tasks. The caller saves the state before it executes the effects.
func ExampleStep() {
	task, _, err := taskdef.Parse("web.json", []byte(
		`{"family": "web", "containerDefinitions": [{"name": "server", "image": "example.com/server:1"}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	spec := service.Spec{TaskDefinition: "web:1", Task: task}
	state := service.New("0123456789abcdef0123456789abcdef", "web", spec, 2, service.Config{}, at)

	state, effects := service.Step(state, at, service.TimerFired{})
	for _, e := range effects {
		fmt.Printf("%T\n", e)
	}
	for _, t := range state.Tasks {
		fmt.Println(state.TaskName(t))
	}
	// Output:
	// service.StartTask
	// service.StartTask
	// web-1
	// web-2
}
