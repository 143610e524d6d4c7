package routes_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/engine/network/routes"
	"github.com/podtask/podtask/internal/ingress"
	"github.com/podtask/podtask/internal/ingress/routefile"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef"
)

// dirs are a state and a runtime directory; the latter is short enough for a socket.
func dirs(t *testing.T) (stateDir, runtimeDir string) {
	t.Helper()
	runtimeDir, err := os.MkdirTemp("", "routes")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(runtimeDir) })
	return t.TempDir(), runtimeDir
}

func route(address string, copies ...string) routefile.Route {
	r := routefile.Route{Ingress: taskdef.Ingress{URL: address, Container: "web", Port: 80}}
	for _, c := range copies {
		r.Groups = append(r.Groups, routefile.Group{Deployment: "web/1", Weight: 1000, Targets: []routefile.Target{{ID: c, Address: "127.0.0.1:4000"}}})
	}
	return r
}

func file(t *testing.T, stateDir string) (urls []string) {
	t.Helper()
	table, err := routefile.Read(routefile.Path(stateDir))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range table.Routes {
		urls = append(urls, r.Service+" "+r.Key())
	}
	return urls
}

func TestRoutesOfServices(t *testing.T) {
	t.Parallel()
	stateDir, runtimeDir := dirs(t)
	log := slog.New(slog.DiscardHandler)
	p := routes.Open(stateDir, runtimeDir, log)
	set := func(name string, all ...routefile.Route) int {
		t.Helper()
		refused, err := p.Set(name, all)
		if err != nil {
			t.Fatal(err)
		}
		return len(refused)
	}
	if set("idle"); len(file(t, stateDir)) != 0 {
		t.Error("a service without addresses has routes")
	}
	if _, err := os.Stat(routefile.Path(stateDir)); err == nil {
		t.Error("a file without routes was made")
	}
	set("web", route("https://b.test", "1"), route("https://a.test/x"))
	if n := set("api", route("https://A.test/x/"), route("https://c.test")); n != 1 {
		t.Errorf("%d addresses were refused, want the one that web has", n)
	}
	want := "web https://a.test/x,web https://b.test,api https://c.test"
	if got := strings.Join(file(t, stateDir), ","); got != want {
		t.Errorf("routes %s, want %s", got, want)
	}
	before, _ := os.Stat(routefile.Path(stateDir))
	set("web", route("https://b.test", "1"), route("https://a.test/x"))
	if after, _ := os.Stat(routefile.Path(stateDir)); !os.SameFile(before, after) {
		t.Error("the same routes were written again")
	}

	// The next agent keeps them until it knows better.
	p = routes.Open(stateDir, runtimeDir, log)
	set("other", route("https://d.test"))
	if got := file(t, stateDir); len(got) != 4 {
		t.Errorf("after a restart there are %v", got)
	}
	if err := p.Keep([]string{"web", "other"}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(file(t, stateDir), ","); strings.Contains(got, "api") {
		t.Errorf("a service that is gone has %s", got)
	}
	// A damaged file is replaced.
	if err := os.WriteFile(routefile.Path(stateDir), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	p = routes.Open(stateDir, runtimeDir, log)
	set("web", route("https://b.test"))
	if got := file(t, stateDir); len(got) != 1 {
		t.Errorf("after damage there are %v", got)
	}
}

// The proxy comes, says something about a certificate, drains, and goes.
func TestFollowsTheProxy(t *testing.T) {
	t.Parallel()
	stateDir, runtimeDir := dirs(t)
	p := routes.Open(stateDir, runtimeDir, slog.New(slog.DiscardHandler))
	addresses := []taskdef.Ingress{{URL: "https://a.test"}, {URL: "http://b.test"}}
	problems := func() (all string) {
		for _, u := range p.Problems(addresses) {
			all += u.Address + " " + u.Problem + "\n"
		}
		return all
	}
	ctx, cancel := context.WithCancel(t.Context())
	changed, ended := make(chan struct{}, 10), make(chan error)
	go func() { ended <- p.Run(ctx, func() { changed <- struct{}{} }, func([]string) {}) }()
	if got := problems(); strings.Count(got, "is not running") != 2 {
		t.Errorf("without a proxy: %s", got)
	}
	if !p.Drain(t.Context(), "1") {
		t.Error("without a proxy a copy is not drained")
	}

	l, err := api.Listen(ingress.SocketPath(runtimeDir))
	if err != nil {
		t.Fatal(err)
	}
	statuses, drain := make(chan ingress.Status), make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/watch", func(w http.ResponseWriter, r *http.Request) {
		for {
			select {
			case s := <-statuses:
				_ = json.NewEncoder(w).Encode(s)
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	})
	mux.HandleFunc("/v1/drain", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-drain:
			w.WriteHeader(http.StatusNoContent)
		case <-r.Context().Done():
		}
	})
	s := &http.Server{Handler: mux}
	go func() { _ = s.Serve(l) }()
	good := ingress.Status{Plain: []string{":80"}, Secure: []string{":443"}, Certificates: []ingress.Certificate{{Name: "a.test"}}}
	statuses <- good
	<-changed
	if got := problems(); got != "" {
		t.Errorf("with a proxy: %s", got)
	}
	good.Connections = 5 // not worth a word
	statuses <- good
	bad := good
	bad.Plain, bad.Certificates = nil, []ingress.Certificate{{Name: "a.test", Problem: "it has expired"}}
	statuses <- bad
	<-changed
	if got := problems(); !strings.Contains(got, "a.test certificate: it has expired") || !strings.Contains(got, "b.test the ingress proxy does not listen") {
		t.Errorf("with a bad certificate: %s", got)
	}
	kept := good
	kept.Certificates = []ingress.Certificate{{Name: "a.test", Problem: "it was not renewed", Usable: true}}
	statuses <- kept
	<-changed
	want := []service.Unheard{{Address: "https://a.test", Problem: "certificate: it was not renewed", Certificate: true, Served: true}}
	if got := p.Problems(addresses); !slices.Equal(got, want) {
		t.Errorf("with a certificate that was not renewed: %+v", got)
	}
	brief, stop := context.WithCancel(t.Context())
	stop()
	if p.Drain(brief, "1") {
		t.Error("a copy with requests is drained")
	}
	close(drain)
	if !p.Drain(t.Context(), "1") {
		t.Error("a copy without requests is not drained")
	}
	s.Close()
	<-changed
	if p.Status() != nil {
		t.Error("a proxy that has ended has a status")
	}
	cancel()
	if err := <-ended; err != context.Canceled {
		t.Error(err)
	}
	if len(changed) != 0 {
		t.Errorf("%d changes more", len(changed))
	}
}

func TestUsers(t *testing.T) {
	t.Parallel()
	users, err := routes.Users([]byte("# who\n\nann:secret:with:colons\r\nbob:x\n"))
	if err != nil || len(users) != 2 || users[0].Name != "ann" || len(users[0].Hash) != 32 {
		t.Errorf("%+v, %v", users, err)
	}
	for text, want := range map[string]string{
		"":                              "no line",
		"ann":                           "line 1 is not",
		"ann:x\nbob:":                   "line 2 is not",
		"ann:x\nann:y":                  "line 2 names a user",
		":x":                            "line 1 is not",
		strings.Repeat("a", 300) + ":x": "line 1 is not",
	} {
		if _, err := routes.Users([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzUsers(f *testing.F) {
	f.Add([]byte("# who\nann:secret\r\nbob:x:y\n"))
	f.Fuzz(func(t *testing.T, secret []byte) {
		if len(secret) > 100 {
			return // each user costs time
		}
		users, err := routes.Users(secret)
		if (err == nil) != (len(users) > 0) {
			t.Errorf("%d users, %v", len(users), err)
		}
		for _, u := range users {
			if u.Name == "" || len(u.Hash) == 0 {
				t.Errorf("a user %+v", u)
			}
		}
	})
}
