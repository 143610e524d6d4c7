//go:build !race

package instance

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A thousand payloads come in any order, each up to three times, some of them again after a restart: each task is
// made once, and each message is acknowledged each time.
func TestAThousandPayloadsInAnyOrder(t *testing.T) {
	withLab(t, func(l *lab) {
		l.config.Cleanup = 1000 * time.Hour
		l.join()
		const payloads = 1000
		random := rand.New(rand.NewPCG(1, 2))
		var order []int
		for n := 1; n <= payloads; n++ {
			for range 1 + random.IntN(3) {
				order = append(order, n)
			}
		}
		random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for i, n := range order {
			if i == len(order)/2 {
				l.restart()
				l.wait("acs", "open", 2)
			}
			if err := l.plane.Payload(fmt.Sprintf("payload-%d", n), n, simple(n)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		acks := make(map[string]int)
		for _, body := range l.plane.Of("acs", "AckRequest") {
			var a struct{ MessageID string }
			_ = json.Unmarshal(body, &a)
			acks[a.MessageID]++
		}
		sent := make(map[string]int)
		for _, n := range order {
			sent[fmt.Sprintf("payload-%d", n)]++
		}
		for id, n := range sent {
			if acks[id] != n {
				t.Errorf("%s came %d times and was acknowledged %d times", id, n, acks[id])
			}
		}
		made := make(map[string]int)
		for _, m := range l.agent.made {
			made[m.Name]++
		}
		if len(made) != payloads || len(l.agent.made) != payloads {
			t.Errorf("%d tasks were made of %d", len(l.agent.made), len(made))
		}
	})
}

func TestAThousandTasks(t *testing.T) {
	withLab(t, func(l *lab) {
		l.join()
		const tasks = 1000
		for n := 1; n <= tasks; n += 10 {
			var list []any
			for k := n; k < n+10; k++ {
				list = append(list, simple(k))
			}
			l.payload(fmt.Sprintf("payload-%d", n), n, list...)
		}
		for n := 1; n <= tasks; n++ {
			l.agent.runs(name(n))
		}
		synctest.Wait()
		l.restart()
		// At rest, nothing is asked of ECS, and nothing is written.
		calls, writes := len(l.plane.Events()), l.disk.count()
		l.pass(30 * time.Second)
		for _, e := range l.plane.Events()[calls:] {
			if e.On == "http" {
				t.Errorf("at rest, ECS is asked for %s", e.Op)
			}
		}
		if n := l.disk.count(); n != writes {
			t.Errorf("at rest, %d records are written", n-writes)
		}
		for n := 1; n <= tasks; n++ {
			l.agent.end(name(n), 0)
		}
		l.pass(time.Minute)
		told := make(map[string][]string)
		for _, body := range l.plane.Of("http", "SubmitTaskStateChange") {
			c := decode(t, body)
			told[c.Task] = append(told[c.Task], c.Status)
		}
		if len(told) != tasks {
			t.Errorf("%d tasks were told", len(told))
		}
		for task, statuses := range told {
			if !slices.Equal(statuses, []string{"RUNNING", "STOPPED"}) {
				t.Errorf("%s: %v", task, statuses)
			}
		}
	})
}
