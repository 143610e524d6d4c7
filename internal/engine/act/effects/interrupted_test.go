package effects_test

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"github.com/podtask/podtask/internal/engine/act/limits"
	"github.com/podtask/podtask/internal/engine/facts/taskspec"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/testing/enginehost"
	"github.com/podtask/podtask/internal/testing/enginetest"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Podman's service is killed while it initializes a container. Its next attempt ends the process
// of the first one, and may take that for the end of a later one, or it crashes at each start.
func TestAContainerWhoseInitializationWasInterruptedIsMadeAgain(t *testing.T) {
	t.Parallel()
	for calls := range 3 { // what is left depends on how many there were
		host := enginehost.New(t)
		for range calls {
			if _, err := host.Podman.Host(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		checkInterrupted(t, host)
	}
}

func checkInterrupted(t *testing.T, host *enginehost.Host) {
	t.Helper()
	e := host.Open()
	e.Metadata.Namespaces = emptyNamespaces{}
	host.Podman.Fail(enginetest.Script("initialize container", enginetest.Fault{Moment: enginetest.During, Class: libpod.Temporary}))
	options := enginehost.Admitted
	options.MetadataKey = "key"
	st, err := enginehost.Record(t.Context(), e.Creator, host.Box(0, 0, "sleep", "forever"), "", options)
	if err != nil {
		t.Fatal(err)
	}
	r := host.Own(e, st.ID)
	r.UntilRunning()
	created := 0
	for _, c := range host.Podman.Calls() {
		if c.Op == "create container" && c.Acted {
			created++
		}
	}
	if created != 2 {
		t.Errorf("%d containers were created", created)
	}
	if o := host.Podman.See(taskspec.ContainerName(r.Owner.State(), 0)); o.Status != libpod.Running {
		t.Errorf("it is %s, exit code %d", o.Status, o.ExitCode)
	}
	r.Stop()
}

// emptyNamespaces are network namespaces that can be entered and contain nothing.
type emptyNamespaces struct{}

func (emptyNamespaces) CanEnter() error { return nil }

func (emptyNamespaces) Listen(context.Context, int, netip.AddrPort) (net.Listener, []netip.Addr, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	return l, nil, err
}

func (emptyNamespaces) AddAddresses(context.Context, int, []netip.Prefix) error { return nil }

// Podman's service is killed again and again while it pulls: that says nothing about the registry,
// which has five attempts.
func TestAPullWhoseServiceIsKilledIsNotGivenUp(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	e := host.Open()
	var kills []enginetest.Fault
	for range 8 {
		kills = append(kills, enginetest.Fault{Moment: enginetest.During, Class: libpod.Temporary})
	}
	host.Podman.Fail(enginetest.Script("pull", kills...))
	task := host.Box(0, 0, "sleep", "forever")
	task.Containers[0].Image = enginehost.RegistryImage
	r := host.Own(e, host.Create(e, task, "", lifecycle.Options{Limits: limits.BestEffort}).ID)
	r.UntilRunning()
	r.Stop()
}
