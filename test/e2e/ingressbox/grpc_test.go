package ingressbox

import (
	"bytes"
	"context"
	"net"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
)

// grpcServer serves the health service of gRPC with reflection, without TLS.
func grpcServer(t *testing.T) (address string, state *health.Server) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, state := grpc.NewServer(), health.NewServer()
	grpc_health_v1.RegisterHealthServer(s, state)
	reflection.Register(s)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return l.Addr().String(), state
}

// curl calls a method of grpc.test with grpcurl.
type curl struct{ program string }

func (c curl) call(ctx context.Context, args ...string) (out, said string, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.program, append([]string{"-insecure", "-authority", "grpc.test", "-servername", "grpc.test"}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	return stdout.String(), stderr.String(), err
}

// No call of grpcurl fails while a canary gets a part of the calls, while all of them move to the next copy, and while another process
// of the proxy takes over.
func TestGRPCurlThroughChanges(t *testing.T) {
	grpcurl := curl{program(t, ".", "github.com/fullstorydev/grpcurl/cmd/grpcurl")}
	var targets []target
	for _, name := range []string{"one", "two"} {
		address, state := grpcServer(t)
		if name == "two" { // by this the answer tells the copies apart
			state.SetServingStatus("", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
		}
		targets = append(targets, target{name, address})
	}
	shares := func(one, two int) route {
		r := to("https://grpc.test", "", "h2c")
		r.Groups = []group{{"web/1", one, targets[:1]}, {"web/2", two, targets[1:]}}
		return r
	}
	p := start(t, shares(1000, 0))
	ctx, stop := context.WithCancel(t.Context())
	answers := make(chan string, 64)
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for ctx.Err() == nil {
				out, said, err := grpcurl.call(ctx, p.secure, "grpc.health.v1.Health/Check")
				switch {
				case ctx.Err() != nil:
				case err != nil:
					t.Errorf("a call is lost: %v, %s%s", err, out, said)
				case strings.Contains(out, "NOT_SERVING"):
					answers <- "two"
				default:
					answers <- "one"
				}
			}
		})
	}
	t.Cleanup(func() {
		stop()
		go func() {
			for range answers { // callers end
			}
		}()
		callers.Wait()
		close(answers)
	})
	// count takes n answers.
	count := func(n int) map[string]int {
		seen := make(map[string]int)
		for range n {
			select {
			case a := <-answers:
				seen[a]++
			case <-time.After(time.Minute):
				t.Fatalf("only %v answers of %d", seen, n)
			}
		}
		return seen
	}
	if seen := count(40); seen["two"] > 0 {
		t.Errorf("before the canary: %v", seen)
	}
	p.route(t, shares(500, 500))
	count(70) // those that were made before are among them
	if seen := count(100); seen["one"] < 20 || seen["two"] < 20 {
		t.Errorf("with a canary of a half: %v", seen)
	}
	p.route(t, shares(0, 1000))
	count(70)
	if seen := count(40); seen["one"] > 0 {
		t.Errorf("after the switch: %v", seen)
	}
	if err := syscall.Kill(p.pid, syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if pid := p.current(t); pid != p.pid {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	for tries := 0; p.current(t) == p.pid; tries++ {
		if count(20); tries == 30 {
			t.Fatal("no other process has taken over")
		}
	}
	count(70)
}

// grpcurl lists services, makes a call, gets the status of one that fails, and follows a stream through the proxy.
func TestGRPCurl(t *testing.T) {
	grpcurl := program(t, ".", "github.com/fullstorydev/grpcurl/cmd/grpcurl")
	address, state := grpcServer(t)
	p := start(t, to("https://grpc.test", address, "h2c"))
	call := func(args ...string) (out, said string, err error) { return curl{grpcurl}.call(t.Context(), args...) }
	if out, said, err := call(p.secure, "list"); err != nil || !strings.Contains(out, "grpc.health.v1.Health") {
		t.Errorf("list: %v, %s%s", err, out, said)
	}
	if out, said, err := call(p.secure, "grpc.health.v1.Health/Check"); err != nil || !strings.Contains(out, "SERVING") {
		t.Errorf("Check: %v, %s%s", err, out, said)
	}
	if out, said, err := call("-d", `{"service": "gone"}`, p.secure, "grpc.health.v1.Health/Check"); err == nil || !strings.Contains(said, "NotFound") {
		t.Errorf("Check of a service that is not there: %v, %s%s", err, out, said)
	}

	// A stream passes each message when it comes.
	watch := exec.CommandContext(t.Context(), grpcurl, "-insecure", "-authority", "grpc.test", "-servername", "grpc.test", "-d", `{"service": "web"}`, p.secure, "grpc.health.v1.Health/Watch")
	pipe, err := watch.StdoutPipe()
	if err == nil {
		err = watch.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = watch.Process.Kill(); _ = watch.Wait() }()
	seen := func(want string) {
		t.Helper()
		var all []byte
		for part := make([]byte, 4096); !bytes.Contains(all, []byte(want)); {
			n, err := pipe.Read(part)
			if all = append(all, part[:n]...); err != nil {
				t.Fatalf("the stream has %q, %v, want %s", all, err, want)
			}
		}
	}
	seen("SERVICE_UNKNOWN")
	state.SetServingStatus("web", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	seen("NOT_SERVING")
	state.SetServingStatus("web", grpc_health_v1.HealthCheckResponse_SERVING)
	seen("\"SERVING\"")
}
