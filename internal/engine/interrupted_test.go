package engine_test

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"github.com/podtask/podtask/internal/engine/taskspec"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/testing/enginetest"
)

// Podman's service is killed while it initializes a container. Its next attempt ends the process
// of the first one, and may take that for the end of a later one, or it crashes at each start.
func TestAContainerWhoseInitializationWasInterruptedIsMadeAgain(t *testing.T) {
	t.Parallel()
	for calls := range 3 { // what is left depends on how many there were
		s := newSite(t)
		for range calls {
			if _, err := s.podman.Host(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		s.checkInterrupted()
	}
}

func (s *site) checkInterrupted() {
	s.t.Helper()
	h := s.process()
	h.Metadata.Namespaces = emptyNamespaces{}
	s.podman.Fail(enginetest.Script("initialize container", enginetest.Fault{Moment: enginetest.During, Class: libpod.Temporary}))
	options := boxOptions
	options.MetadataKey = "key"
	st, err := h.Creator.Create(s.t.Context(), s.box(0, 0, "sleep", "forever"), "", options)
	if err != nil {
		s.t.Fatal(err)
	}
	r := s.own(h, st.ID)
	r.untilRunning()
	created := 0
	for _, c := range s.podman.Calls() {
		if c.Op == "create container" && c.Acted {
			created++
		}
	}
	if created != 2 {
		s.t.Errorf("%d containers were created", created)
	}
	if o := s.podman.See(taskspec.ContainerName(r.owner.State(), 0)); o.Status != libpod.Running {
		s.t.Errorf("it is %s, exit code %d", o.Status, o.ExitCode)
	}
	r.stop()
}

// emptyNamespaces are network namespaces that can be entered and contain nothing.
type emptyNamespaces struct{}

func (emptyNamespaces) CanEnter() error { return nil }

func (emptyNamespaces) Listen(context.Context, int, netip.AddrPort) (net.Listener, []netip.Addr, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	return l, nil, err
}

func (emptyNamespaces) AddAddresses(context.Context, int, []netip.Prefix) error { return nil }
