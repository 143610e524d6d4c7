package ingressbox

import (
	"bytes"
	"context"
	"net"
	"os/exec"
	"strings"
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

// grpcurl lists services, makes a call, gets the status of one that fails, and follows a stream through the proxy.
func TestGRPCurl(t *testing.T) {
	grpcurl := program(t, ".", "github.com/fullstorydev/grpcurl/cmd/grpcurl")
	address, state := grpcServer(t)
	p := start(t, to("https://grpc.test", address, "h2c"))
	call := func(args ...string) (out, said string, err error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c := exec.CommandContext(ctx, grpcurl, append([]string{"-insecure", "-authority", "grpc.test", "-servername", "grpc.test"}, args...)...)
		var stdout, stderr bytes.Buffer
		c.Stdout, c.Stderr = &stdout, &stderr
		err = c.Run()
		return stdout.String(), stderr.String(), err
	}
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
