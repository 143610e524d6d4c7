package transient_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/podtask/podtask/pkg/transient"
)

func TestMark(t *testing.T) {
	t.Parallel()
	cause := errors.New("disk full")
	err := fmt.Errorf("save: %w", transient.Mark(cause))
	if !transient.Is(err) || !errors.Is(err, cause) || err.Error() != "save: disk full" {
		t.Errorf("%v: transient %v", err, transient.Is(err))
	}
	if transient.Is(cause) || transient.Is(nil) || transient.Mark(nil) != nil {
		t.Error("an error is transient without a mark")
	}
	if !transient.Is(errors.Join(cause, transient.Mark(cause))) {
		t.Error("a joined error is not transient")
	}
}

func ExampleIs() {
	save := func() error { return transient.Mark(errors.New("no space left on device")) }
	if err := save(); transient.Is(err) {
		fmt.Println("try again later:", err)
	}
	// Output: try again later: no space left on device
}
