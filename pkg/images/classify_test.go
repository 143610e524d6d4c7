package images

import (
	"fmt"
	"net"
	"testing"

	"github.com/podtask/podtask/pkg/transient"
)

// Only "no such host" is an answer of the name service. The other failures
// cannot be had without a name server, so they are made here.
func TestLookupFailuresThatAreNoAnswerAreTemporary(t *testing.T) {
	t.Parallel()
	resolver := New(Options{})
	for _, failure := range []net.DNSError{
		{Err: "server misbehaving", IsTemporary: true},
		{Err: "i/o timeout", IsTimeout: true, IsTemporary: true},
		{Err: "dial udp: network is unreachable"},
	} {
		err := resolver.newError(Ref{registry: "h", path: "p"}, Login{}, fmt.Errorf("pinging: %w", &failure))
		if err.Class != DNS || !transient.Is(err) {
			t.Errorf("%v: class %v, temporary %v; want dns, true", &failure, err.Class, transient.Is(err))
		}
	}
}
