package cgroups_test

import (
	"fmt"
	"maps"
	"slices"

	"github.com/podtask/podtask/pkg/cgroups"
)

// The name of a task's slice is derived from the task's ID.
func ExampleSliceName() {
	slice, err := cgroups.SliceName("0123456789abcdef0123456789abcdef")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(slice)
	// Output:
	// podtask0123456789abcdef0123456789abcdef.slice
}

// Wanted returns the content of the kernel's files once systemd has applied the limits.
func ExampleWanted() {
	files := cgroups.Wanted(cgroups.Limits{CPU: 0.5, Memory: 256 << 20, TasksMax: 100})
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Println(name, files[name])
	}
	// Output:
	// cpu.max 50000 100000
	// memory.max 268435456
	// pids.max 100
}
