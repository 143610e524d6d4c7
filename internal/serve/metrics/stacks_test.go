package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/engine/decide/stack"
	"github.com/podtask/podtask/internal/serve/metrics/stackmetrics"
	"github.com/podtask/podtask/pkg/lifecycle"
)

func TestStacksAreMeasured(t *testing.T) {
	t.Parallel()
	m := New("1", func() []lifecycle.State { return nil }, func() int { return 0 })
	m.Add(stackmetrics.New(func() []stack.State {
		return []stack.State{
			{Name: "shop", Have: map[string]stack.Had{"web": {}, "db": {}}, Change: &stack.Change{}, History: []stack.Past{{Result: stack.Done}, {Result: stack.PutBack}, {Result: stack.Done}}},
			{Name: "shop-pr-1", Preview: &stack.Preview{Until: time.Unix(500, 0)}},
		}
	}, func() int { return 3 }))
	got := scrape(t, m)
	for _, want := range []string{
		`podtask_stack_members{stack="shop"} 2`, `podtask_stack_unfinished{stack="shop"} 1`, `podtask_stack_unfinished{stack="shop-pr-1"} 0`,
		`podtask_stack_changes{result="done",stack="shop"} 2`, `podtask_stack_changes{result="put back",stack="shop"} 1`, `podtask_stack_changes{result="failed",stack="shop"} 0`,
		`podtask_stack_boot_waiting 3`, `podtask_stack_preview_end_timestamp_seconds{stack="shop-pr-1"} 500`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing", want)
		}
	}
}
