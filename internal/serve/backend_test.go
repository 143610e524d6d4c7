package serve

import (
	"context"
	"slices"
	"testing"

	"github.com/podtask/podtask/internal/serve/ownerapi"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// lateOwner has saved a state that it does not show yet.
type lateOwner struct {
	ownerapi.Owner
	before, saved lifecycle.State
}

func (o lateOwner) Watch(_ context.Context, fn func(lifecycle.State) bool) error {
	_ = fn(o.before) && fn(o.saved)
	return nil
}

// A task that gets an owner while its record is watched is shown with the state that the owner has
// saved last, after which nothing may change for long.
func TestWatchShowsTheLatestStateOfANewOwner(t *testing.T) {
	t.Parallel()
	created, running := lifecycle.State{Name: "created"}, lifecycle.State{Name: "running"}
	var now ownerapi.Owner
	record := func(see func(lifecycle.State) bool) error {
		if see(created) {
			now = lateOwner{before: created, saved: running}
			see(running)
		}
		return nil
	}
	var shown []string
	err := follow(t.Context(), func() ownerapi.Owner { return now }, record, func(_ ownerapi.Owner, s lifecycle.State) bool {
		shown = append(shown, s.Name)
		return s.Name != "running"
	})
	if want := []string{"created", "created", "running"}; err != nil || !slices.Equal(shown, want) {
		t.Errorf("it showed %q, %v; want %q", shown, err, want)
	}
}
