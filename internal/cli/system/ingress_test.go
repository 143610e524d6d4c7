package system

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/host/doctor"
	"github.com/podtask/podtask/internal/ingress"
	"github.com/podtask/podtask/internal/ingress/routefile"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/netns"
	"github.com/podtask/podtask/pkg/taskdef"
)

func TestIngressFinding(t *testing.T) {
	t.Parallel()
	stateDir := t.TempDir()
	runtimeDir, err := os.MkdirTemp("", "doctor") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(runtimeDir) })
	want := func(level doctor.Level, text string) {
		t.Helper()
		if f := ingressFinding(t.Context(), stateDir, runtimeDir); f.Level != level || !strings.Contains(f.String(), text) || f.Check != "ingress" {
			t.Errorf("%s %s, want %s and %q", f.Level, f, level, text)
		}
	}
	want(doctor.OK, "no service has a public address")
	path := routefile.Path(stateDir)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	route := routefile.Route{Service: "web", Ingress: taskdef.Ingress{URL: "https://a.test", Container: "web", Port: 80}}
	if err := routefile.Write(path, routefile.Table{Routes: []routefile.Route{route}}); err != nil {
		t.Fatal(err)
	}
	want(doctor.Warn, "the ingress proxy is not running")

	status := ingress.Status{
		Routes:       []ingress.Route{{URL: "https://a.test", Service: "web", Deployments: []ingress.Deployment{{ID: "web/1", Copies: []ingress.Copy{{Task: "1"}}}}}},
		Certificates: []ingress.Certificate{{Name: "a.test", NotAfter: time.Date(2026, 12, 24, 12, 0, 0, 0, time.UTC)}},
	}
	l, err := api.Listen(ingress.SocketPath(runtimeDir))
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(status) })}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { s.Close() })
	want(doctor.OK, "1 public address is served; its certificate ends on 2026-12-24")
	status.Plain, status.Secure = []string{"[::]:80"}, []string{"[::]:443"}
	want(doctor.OK, "is served at [::]:80 and [::]:443;")
	status.Plain, status.Secure = nil, []string{"[::]:8443"}
	want(doctor.OK, "at [::]:8443, to which something has to lead from the ports 80 and 443")
	status.Problem, status.Denied = "listen on :80: permission denied"+ingress.AskDoctor, true
	want(doctor.Warn, "listen on :80: permission denied; ")
	if fix := deniedFix(80); fix != "systemctl --user restart podtask-ingress.service, because this user may open the ports now" {
		t.Errorf("once the port is free: %s", fix)
	}
	if f := ingressFinding(t.Context(), stateDir, runtimeDir); f.Fix != deniedFix(netns.UnprivilegedStart()) {
		t.Errorf("the remedy is %s", f.Fix)
	}
	status.Problem, status.Denied = "", false
	status.Certificates[0].Problem = "it expires soon"
	status.Routes[0].Deployments = nil
	want(doctor.Warn, "the certificate of a.test: it expires soon; https://a.test: service web has no healthy copy")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	want(doctor.Warn, "routes.json")
}
