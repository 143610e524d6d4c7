package lifecycle

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

// The record of a task that restarts without end stays small, and so do the disk, the
// memory and the time that each of its steps takes.
func TestRestartsWithoutEndKeepTheRecordSmall(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a", checked, restarting(taskdef.RestartPolicy{BackOff: time.Second, AttemptPeriod: 30 * time.Minute})))
	d.upTo(Stop)
	size := func() int {
		text, err := json.Marshal(d.s)
		if err != nil {
			t.Fatal(err)
		}
		return len(text)
	}
	run := func(times int) {
		for range times {
			d.at = d.at.Add(time.Minute)
			d.end(0, 1)
			d.wake()
			d.see(Start, 0, Running)
		}
	}
	run(300)
	before := size()
	run(300)
	if after := size(); after > before+1000 || after > 256<<10 {
		t.Errorf("the record has %d bytes after 600 restarts, %d after 300", after, before)
	}
}
