package preflight_test

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/testing/enginehost"
	"github.com/podtask/podtask/pkg/taskdef"
)

func TestPreflightNamesWhoHasAPort(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	e := host.Open()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	task := host.Box(0, 0, "exit", "0")
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	task.Containers[0].Ports = []taskdef.Port{{ContainerPort: 80, HostPort: port, Protocol: "tcp", HostIP: "127.0.0.1"}}
	err = e.Preflight.Check(t.Context(), task, enginehost.Unlimited)
	for _, want := range []int{int(port), os.Getpid()} {
		if err == nil || !strings.Contains(err.Error(), strconv.Itoa(want)) {
			t.Errorf("%v does not name %d", err, want)
		}
	}
}

func TestPodmanThatShowsSecretsIsWarnedOf(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]int{"4.3.1": 1, "5.2.9": 1, "5.3.0": 0, "5.10.0": 0, "6.0.0-dev": 0, "?": 0} {
		host := enginehost.New(t)
		e := host.Open()
		host.Podman.Version = version
		task := host.Task(nil, enginehost.Fields{"name": "app", "command": "exit 0", "secrets": []any{enginehost.Fields{"name": "A", "valueFrom": "env:A"}}})
		if got := e.Preflight.Warnings(t.Context(), task); len(got) != want {
			t.Errorf("Podman %s: %q", version, got)
		}
		if got := e.Preflight.Warnings(t.Context(), host.Task(nil, enginehost.Fields{"name": "app", "command": "exit 0"})); len(got) > 0 {
			t.Errorf("without secrets: %q", got)
		}
	}
}
