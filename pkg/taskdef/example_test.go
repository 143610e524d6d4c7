package taskdef_test

import (
	"errors"
	"fmt"

	"github.com/podtask/podtask/pkg/taskdef"
)

// A valid definition becomes a Task. Members that only ECS uses are reported as warnings.
func ExampleParse() {
	task, report, err := taskdef.Parse("web.json", []byte(`{
		"family": "web",
		"containerDefinitions": [
			{"name": "migrate", "image": "example.com/migrate:1", "essential": false},
			{"name": "server", "image": "example.com/server:1",
			 "dependsOn": [{"containerName": "migrate", "condition": "SUCCESS"}]}
		]
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range task.Containers {
		fmt.Println(c.Name, c.Image)
	}
	fmt.Println(len(report.Warnings), "warnings")
	// Output:
	// migrate example.com/migrate:1
	// server example.com/server:1
	// 0 warnings
}

// All problems of a document are reported at once, each with its place.
func ExampleParse_problems() {
	_, _, err := taskdef.Parse("web.json", []byte(`{
	"family": "web",
	"containerDefinitions": [{"name": "server", "memory": -1}]
}`))
	var invalid *taskdef.InvalidError
	if errors.As(err, &invalid) {
		for _, p := range invalid.Problems {
			fmt.Println(p.Line, p.Pointer)
		}
	}
	// Output:
	// 3 /containerDefinitions/0
	// 3 /containerDefinitions/0/memory
}
