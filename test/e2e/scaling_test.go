//go:build e2e && (bed_plain || bed_systemd)

//e2e:bed systemd

package e2e

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// The copies of a service go from one to four with its connections, and back to one, and no request is lost.
func TestServiceScales(t *testing.T) {
	b := newBox(t)
	b.agent()
	at := freePort(t)
	b.want(0, "service", "create", b.family, b.define(served("one")), "--wait", "--timeout=4m", fmt.Sprintf("--listen=127.0.0.1:%d=app:8080", at))
	b.want(125, "service", "scaling", "set", b.family, "--cpu=50")                           // without a maximum
	b.want(125, "service", "scaling", "set", b.family, "--max=1", "--min=2", "--memory=200") // nonsense
	b.want(0, "service", "scaling", "set", b.family, "--max=4", "--connections=30", "--cooldown-out=0s")

	var done atomic.Bool
	asked := make(chan int)
	go func() {
		n := 0
		for ; !done.Load(); n++ {
			if text, err := askURL(fresh(), fmt.Sprintf("http://127.0.0.1:%d", at)); err != nil || text != "one" {
				t.Errorf("request %d was lost: %q, %v", n, text, err)
			}
			<-time.After(200 * time.Millisecond) // 300 in a minute
		}
		asked <- n
	}()
	eventually(t, "four copies", func() bool { return b.sleeper().HealthyCount == 4 })

	b.want(0, "exec", b.family, "--", "/testbox", "exists", "/testbox")
	b.want(0, "logs", b.family)
	var shown struct {
		Desired    *int
		Targets    []struct{ Value *float64 }
		Activities []struct {
			From, To int
			Policy   string
		}
	}
	r := b.want(0, "service", "scaling", "show", b.family, "--format=json")
	if err := json.Unmarshal([]byte(r.out), &shown); err != nil || shown.Desired == nil || *shown.Desired != 4 || len(shown.Activities) == 0 || shown.Activities[0].To != 4 || shown.Activities[0].Policy != "connections" {
		t.Errorf("show printed %s (%v)", r.out, err)
	}
	b.want(0, "service", "scaling", "set", b.family, "--max=1")
	eventually(t, "one copy", func() bool { s := b.sleeper(); return s.RunningCount == 1 && s.DesiredCount == 1 })
	done.Store(true)
	t.Logf("%d requests", <-asked)
	b.want(0, "service", "rm", "--force", b.family)
	eventually(t, "the end of the scaling", func() bool { return b.podtask("service", "scaling", "show", b.family).code == 125 })
}
