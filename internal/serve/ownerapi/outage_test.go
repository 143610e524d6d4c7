package ownerapi

import (
	"context"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/engine/facts/conn"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// hung is a Podman that does not answer.
type hung struct {
	conn.Podman
	outage conn.Outage
}

func (h hung) Outage() (conn.Outage, bool) { return h.outage, true }

func TestOnlyATaskThatWaitsForPodmanIsToldOfItsOutage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		code     string
		replaced bool
		want     string // empty: no reason is added
	}{
		{lifecycle.WhyOperation, false, "systemctl --user kill -s KILL podman.service"},
		{lifecycle.WhyInspect, true, "starts another one"},
		{lifecycle.WhyRunning, true, ""},
	} {
		podman := &conn.Lazy{Dial: func(context.Context) (conn.Podman, error) {
			return hung{outage: conn.Outage{Socket: "/run/p.sock", Replaced: tt.replaced}}, nil
		}}
		task := api.Task{Why: []api.Reason{{Code: tt.code}}}
		if got := WithOutage(task, podman); len(got.Why) != 1 {
			t.Errorf("%s: before a connection there is %+v", tt.code, got.Why)
		}
		if _, err := podman.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := WithOutage(task, podman).Why
		if told := got[0].Code == api.WhyPodmanNotResponding; told != (tt.want != "") || !strings.Contains(got[0].Text, tt.want) || got[len(got)-1].Code != tt.code {
			t.Errorf("%s: %+v", tt.code, got)
		}
	}
}
