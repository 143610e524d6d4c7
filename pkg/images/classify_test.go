package images

import (
	"fmt"
	"net"
	"strings"
	"syscall"
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

// A proxy that does not answer is named, not the registry behind it.
func TestAProxyThatDoesNotAnswerIsNamed(t *testing.T) {
	t.Parallel()
	refused := &net.OpError{Op: "proxyconnect", Net: "tcp", Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}
	err := New(Options{}).newError(Ref{registry: "h", path: "p"}, Login{}, fmt.Errorf("pinging: %w", refused))
	if text := err.Error(); err.Class != Unreachable || !strings.Contains(text, "the proxy on the way to registry h") || !strings.Contains(text, "HTTPS_PROXY") {
		t.Errorf("%v: %s", err.Class, text)
	}
}
