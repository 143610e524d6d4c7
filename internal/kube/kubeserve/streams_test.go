package kubeserve_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/kube/kubeserve"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	utilexec "k8s.io/client-go/util/exec"
)

// transports are the ways in which streams travel.
var transports = map[string]func(*rest.Config, *url.URL) (remotecommand.Executor, error){
	"SPDY": func(cfg *rest.Config, u *url.URL) (remotecommand.Executor, error) {
		return remotecommand.NewSPDYExecutor(cfg, http.MethodPost, u)
	},
	"websocket": func(cfg *rest.Config, u *url.URL) (remotecommand.Executor, error) {
		return remotecommand.NewWebSocketExecutorForProtocols(cfg, http.MethodGet, u.String(), "v4.channel.k8s.io")
	},
}

func (c *cluster) execute(ctx context.Context, t *testing.T, transport, path string, o remotecommand.StreamOptions) error {
	t.Helper()
	u, err := url.Parse("https://" + c.addr + path)
	if err != nil {
		t.Fatal(err)
	}
	x, err := transports[transport](c.server(), u)
	if err != nil {
		t.Fatal(err)
	}
	return x.StreamWithContext(ctx, o)
}

func TestExec(t *testing.T) {
	t.Parallel()
	for transport := range transports {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			c.pods.exec = func(_ context.Context, command []string, s kubeserve.Streams) (int, error) {
				in := make([]byte, 5)
				if _, err := io.ReadFull(s.Stdin, in); err != nil {
					return 0, err
				}
				fmt.Fprintf(s.Stdout, "%s %q", in, command)
				fmt.Fprint(s.Stderr, "problem")
				return 7, nil
			}
			// The input does not end, as that of a terminal: the end of the command ends the call.
			in, never := io.Pipe()
			defer never.Close()
			go func() { _, _ = never.Write([]byte("hello")) }()
			var out, problem bytes.Buffer
			err := c.execute(t.Context(), t, transport, "/exec/default/web/main?command=cat&command=-&input=1&output=1&error=1", remotecommand.StreamOptions{Stdin: in, Stdout: &out, Stderr: &problem})
			var exit utilexec.CodeExitError
			if !errors.As(err, &exit) || exit.Code != 7 {
				t.Errorf("error %v, want exit code 7", err)
			}
			if got, want := out.String(), `hello ["cat" "-"]`; got != want {
				t.Errorf("output %q, want %q", got, want)
			}
			if problem.String() != "problem" {
				t.Errorf("errors %q", &problem)
			}
			if got, want := strings.Join(c.pods.calls, ", "), "exec {default web main}"; got != want {
				t.Errorf("calls %q, want %q", got, want)
			}
		})
	}
}

// sizes are the sizes of a terminal, each when the one before has arrived.
type sizes chan remotecommand.TerminalSize

func (s sizes) Next() *remotecommand.TerminalSize {
	size, ok := <-s
	if !ok {
		return nil
	}
	return &size
}

func TestSizeOfTheTerminalIsPassedOn(t *testing.T) {
	t.Parallel()
	for transport := range transports {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			queue := make(sizes, 2)
			queue <- remotecommand.TerminalSize{Width: 80, Height: 24}
			c.pods.exec = func(_ context.Context, _ []string, s kubeserve.Streams) (int, error) {
				fmt.Fprintf(s.Stdout, "%t %v", s.Terminal, <-s.Resize)
				queue <- remotecommand.TerminalSize{Width: 132, Height: 50}
				fmt.Fprintf(s.Stdout, " %v", <-s.Resize)
				close(queue)
				return 0, nil
			}
			var out bytes.Buffer
			err := c.execute(t.Context(), t, transport, "/attach/default/web/main?tty=1&input=1&output=1", remotecommand.StreamOptions{
				Stdin: strings.NewReader(""), Stdout: &out, Tty: true, TerminalSizeQueue: queue,
			})
			if got, want := out.String(), "true {80 24} {132 50}"; err != nil || got != want {
				t.Errorf("output %q (%v), want %q", got, err, want)
			}
		})
	}
}

func TestCommandLearnsThatItsCallerHasGone(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	begun, ended := make(chan bool), make(chan bool)
	c.pods.exec = func(ctx context.Context, _ []string, _ kubeserve.Streams) (int, error) {
		close(begun)
		<-ctx.Done()
		close(ended)
		return 0, ctx.Err()
	}
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		_ = c.execute(ctx, t, "SPDY", "/exec/default/web/main?command=sh&output=1", remotecommand.StreamOptions{Stdout: io.Discard})
	}()
	<-begun
	leave()
	<-ended
}

func TestPortForward(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	transport, upgrader, err := spdy.RoundTripperFor(c.server())
	if err != nil {
		t.Fatal(err)
	}
	u := &url.URL{Scheme: "https", Host: c.addr, Path: "/portForward/default/web"}
	stop, ready := make(chan struct{}), make(chan struct{})
	f, err := portforward.New(spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, u), []string{"0:8080"}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- f.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	ports, err := f.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", ports[0].Local))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "hello")
	got := make([]byte, 5)
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "hello" {
		t.Errorf("echo %q: %v", got, err)
	}
	conn.Close()
	close(stop)
	<-ended
	if got, want := strings.Join(c.pods.calls, ", "), "forward {default web } 8080"; got != want {
		t.Errorf("calls %q, want %q", got, want)
	}
}
