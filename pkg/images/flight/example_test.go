package flight_test

import (
	"context"
	"fmt"

	"github.com/podtask/podtask/pkg/images/flight"
)

// Callers that ask for the same key at the same time share one call.
func ExampleGroup_Do() {
	var pulls flight.Group[string, string]
	digest, err := pulls.Do(context.Background(), "example.com/server:1", func(context.Context) (string, error) {
		return "sha256:0123", nil
	})
	fmt.Println(digest, err)
	// Output: sha256:0123 <nil>
}
