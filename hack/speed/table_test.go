package main

import (
	"slices"
	"testing"
	"time"
)

func TestTable(t *testing.T) {
	t.Parallel()
	rows := []row{
		{"start", "kube play", 0.5, 100, 200}, {"start", "kube play", 0.5, 150, 200}, {"start", "kube play", 0.5, 180, 200},
		{"ps, ms", "", 40, 20.6, 0}, {"ps, ms", "", 40, 22.4, 0},
	}
	want := `| what | peer | times, podtask / peer | goal | ratio (quartiles) | pairs |
|---|---|---|---|---|---|
| start | kube play | 150 / 200 ms | 0.5 | 0.75 (0.75 to 0.90) | 3 |

| what | | lowest to highest | limit | median | measurements |
|---|---|---|---|---|---|
| ps, ms | | 20.6 to 22.4 | 40 | 22.4 | 2 |
`
	if got := table(rows); got != want {
		t.Errorf("got\n%s", got)
	}
	if got := above(rows); !slices.Equal(got, []string{"start / kube play"}) {
		t.Errorf("above the goal: %q", got)
	}
}

func TestActivities(t *testing.T) {
	t.Parallel()
	journal := `1700000000.250 host podtask[12]: level=DEBUG msg="effect" effect="lifecycle.CreateContainer{Index:2}" took=100ms
1700000000.100 host podtask[12]: level=DEBUG msg="request" method=POST path=/v5.0.0/libpod/containers/0123456789012345678901234567890123456789ab/start took=50ms
1700000000.100 host other[1]: took=1ms
1699999999.000 host podtask[12]: method=GET path=/x took=1ms
`
	want := []activity{
		{50 * time.Millisecond, 50 * time.Millisecond, "  POST /containers/ID/start"},
		{150 * time.Millisecond, 100 * time.Millisecond, "CreateContainer 2"},
	}
	if got := activities(journal, time.Unix(1700000000, 0)); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}
