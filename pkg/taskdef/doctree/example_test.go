package doctree_test

import (
	"fmt"

	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// Each value knows its line and column.
func ExampleYAML() {
	documents, err := doctree.YAML([]byte("family: web\ncpu: 256\n"), doctree.Limits{Size: 1 << 20, Values: 1000, Depth: 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	cpu := documents[0].Member("cpu")
	fmt.Printf("%s, %s, in line %d, column %d\n", cpu.Text, cpu.Kind, cpu.Line, cpu.Col)
	// Output: 256, a number, in line 2, column 6
}
