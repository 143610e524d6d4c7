package webui

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/cli/top"
	"github.com/podtask/podtask/pkg/api"
)

// hosts is a source of other hosts.
type hosts struct {
	*fake
	states []top.HostState
}

func (h hosts) Hosts() []top.HostState { return h.states }

// TestOtherHosts: the page says which host has a task, and why a host is down, also if it is the only one.
func TestOtherHosts(t *testing.T) {
	t.Parallel()
	down := top.HostState{Name: "<b>", Why: "ssh cannot <i>connect\x1b[2J"}
	for _, states := range [][]top.HostState{{down}, {{Name: "box"}, down}} {
		f := &fake{tasks: []top.Task{{Task: api.Task{ID: strings.Repeat("a", 32), Name: "web"}, Host: "box"}}}
		s := New(8800, hosts{f, states}, nil, func() time.Time { return noon })
		w := httptest.NewRecorder()
		s.list(w, httptest.NewRequestWithContext(t.Context(), "GET", "/", nil))
		text := w.Body.String()
		if !strings.Contains(text, "on box<") || !strings.Contains(text, `role="alert"><p>&lt;b&gt;: ssh cannot &lt;i&gt;connect`) || strings.Contains(text, "\x1b") {
			t.Errorf("%d hosts: %s", len(states), text)
		}
	}
}
