package webui

import (
	"bytes"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/cli/top"
	"github.com/podtask/podtask/pkg/api"
)

// TestSeveralHosts: the page says which host has a task, and why a host is down.
func TestSeveralHosts(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	err := pages().ExecuteTemplate(&out, "list.html", struct {
		view
		Tasks    []top.Task
		Services []api.Service
		All      bool
		Hosts    []top.HostState
		Several  bool
	}{
		Tasks: []top.Task{{Task: api.Task{ID: strings.Repeat("a", 32), Name: "web"}, Host: "box"}},
		Hosts: []top.HostState{{Name: "box"}, {Name: "<b>", Why: "ssh cannot <i>connect\x1b[2J"}}, Several: true,
	})
	text := out.String()
	if err != nil || !strings.Contains(text, "<td>box</td>") || !strings.Contains(text, `role="alert">&lt;b&gt;: ssh cannot &lt;i&gt;connect`) || strings.Contains(text, "\x1b") {
		t.Errorf("%v: %s", err, text)
	}
}
