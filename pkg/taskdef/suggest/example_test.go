package suggest_test

import (
	"fmt"

	"github.com/podtask/podtask/pkg/taskdef/suggest"
)

func ExampleClosest() {
	members := []string{"image", "environment", "essential"}
	fmt.Println(suggest.Closest("enviroment", members))
	fmt.Printf("%q\n", suggest.Closest("ports", members))
	// Output:
	// environment
	// ""
}
