package admission_test

import (
	"fmt"
	"time"

	"github.com/podtask/podtask/pkg/admission"
)

// Two tasks need more memory than there is, so the second waits until the first has ended.
func ExampleQueue_Ask() {
	budget := admission.Budget{CPU: admission.Unlimited, Memory: 4 << 30, MemoryFrom: "the host's memory"}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	present := func(task string) bool { return true }
	web := admission.Entry{Task: "1", Name: "web", Need: admission.Need{Memory: 3 << 30}}
	batch := admission.Entry{Task: "2", Name: "batch", Need: admission.Need{Memory: 2 << 30}}

	var queue admission.Queue
	queue, verdict := queue.Ask(budget, web, at, present)
	fmt.Println("web:", verdict.Admitted)
	queue, verdict = queue.Ask(budget, batch, at, present)
	fmt.Println("batch:", verdict.Admitted)

	queue = queue.Release("1")
	_, verdict = queue.Ask(budget, batch, at, present)
	fmt.Println("batch, after web:", verdict.Admitted)
	// Output:
	// web: true
	// batch: false
	// batch, after web: true
}
