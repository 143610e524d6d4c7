package prober

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/podtask/podtask/pkg/taskdef"
)

// serveGRPC answers as the health service of a gRPC server does.
func serveGRPC(t *testing.T, answer func(service string) (body, status string)) (target, uint16) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/grpc.health.v1.Health/Check" || r.Header.Get("Content-Type") != "application/grpc" || r.ProtoMajor != 2 {
			t.Errorf("%s %v %v", r.URL, r.Header, err)
		}
		service := strings.TrimPrefix(string(request[5:]), "\n")
		if service != "" {
			service = service[1:]
		}
		body, status := answer(service)
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		_, _ = io.WriteString(w, body)
		w.Header().Set("Grpc-Status", status)
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return here(t, s.Listener)
}

func TestGRPCFollowsTheHealthService(t *testing.T) {
	t.Parallel()
	to, port := serveGRPC(t, func(service string) (string, string) {
		switch service {
		case "", "good":
			return "\x00\x00\x00\x00\x02\x08\x01", "0"
		case "bad":
			return "\x00\x00\x00\x00\x02\x08\x02", "0"
		}
		return "", "5"
	})
	for service, want := range map[string]string{"": "", "good": "", "bad": "the service answers NOT_SERVING", "other": "gRPC status 5"} {
		got, err := to.do(t.Context(), taskdef.Action{GRPC: &taskdef.GRPCAction{Port: port, Service: service}})
		if err != nil || got.Healthy != (want == "") || got.Output != want {
			t.Errorf("%q: %+v, %v", service, got, err)
		}
	}
}

func TestGRPCOfAnotherServer(t *testing.T) {
	t.Parallel()
	to, port := web(t, func(http.ResponseWriter, *http.Request) {})
	if got, err := to.do(t.Context(), taskdef.Action{GRPC: &taskdef.GRPCAction{Port: port}}); err != nil || got.Healthy || got.Output == "" {
		t.Errorf("%+v, %v", got, err)
	}
}
