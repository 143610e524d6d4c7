package proxy_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/ingress/proxy"
	"github.com/podtask/podtask/internal/ingress/routefile"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Whatever host and path a client sends: what a protected address would get after another program has read the path
// does not reach the open one.
func FuzzRequest(f *testing.F) {
	for _, seed := range [][2]string{{"a.test", "/x/../admin"}, {"A.TEST.:80", "/%2e%2e/admin"}, {"a.test:x", "//admin"}, {"[::1]", "/"}, {"a.test", "/x%5c..%5cadmin"}, {"a.test", "/%252e%252e/admin"}} {
		f.Add(seed[0], seed[1])
	}
	var got *http.Request
	app := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r }))
	f.Cleanup(app.Close)
	open := to("http://a.test", app.URL)
	closed := routefile.Route{Service: "admin", Ingress: taskdef.Ingress{URL: "http://a.test/admin", Container: "app", Port: 80, Auth: "file:/users"}}
	routes := routefile.Table{Routes: []routefile.Route{open, closed}}
	file := f.TempDir() + "/routes.json"
	if err := routefile.Write(file, routes); err != nil {
		f.Fatal(err)
	}
	routes, err := routefile.Read(file)
	if err != nil {
		f.Fatal(err)
	}
	p := proxy.New(proxy.Config{})
	p.Load(routes)
	h := p.Handler(false)
	f.Fuzz(func(t *testing.T, host, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return
		}
		got = nil
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host, r.URL, r.RequestURI = host, u, target
		h.ServeHTTP(httptest.NewRecorder(), r)
		if got == nil {
			return
		}
		if name, _, _ := strings.Cut(strings.ToLower(host), ":"); strings.TrimSuffix(name, ".") != "a.test" {
			t.Errorf("the host %q reached a.test", host)
		}
		read := got.URL.Path
		if twice, err := url.PathUnescape(read); err == nil {
			read = twice
		}
		if clean := path.Clean("/" + strings.ReplaceAll(read, `\`, "/")); clean == "/admin" || strings.HasPrefix(clean, "/admin/") {
			t.Errorf("%q reached the open address, and is %s to others", target, clean)
		}
	})
}
