package proxy_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/ingress/proxy"
	"github.com/podtask/podtask/internal/ingress/routefile"
	"github.com/podtask/podtask/pkg/taskdef"
)

// openDoor is a proxy with an open address / and /admin, which has a password, of one program.
type openDoor struct {
	handler http.Handler
	got     *http.Request
	close   func()
}

// newOpenDoor is for fuzz targets too: OSS-Fuzz calls one for each input, with fewer methods than testing.TB has, and without Cleanup.
func newOpenDoor(t interface {
	Helper()
	Fatal(args ...any)
	TempDir() string
},
) *openDoor {
	t.Helper()
	d := new(openDoor)
	app := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { d.got = r }))
	d.close = app.Close
	closed := routefile.Route{Service: "a.test/", Ingress: taskdef.Ingress{URL: "http://a.test/admin", Container: "app", Port: 80, Auth: "file:/users"}}
	open := to("http://a.test", app.URL)
	closed.Service = open.Service
	file := t.TempDir() + "/routes.json"
	if err := routefile.Write(file, routefile.Table{Routes: []routefile.Route{open, closed}}); err != nil {
		t.Fatal(err)
	}
	routes, err := routefile.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	p := proxy.New(proxy.Config{})
	p.Load(routes)
	d.handler = p.Handler(false)
	return d
}

// ask returns the status for a target; got is what the program got.
func (d *openDoor) ask(u *url.URL, target string) int {
	d.got = nil
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
	r.Host, r.URL, r.RequestURI = "a.test", u, target
	d.handler.ServeHTTP(w, r)
	return w.Code
}

// servers read the path of a request line in the ways of known servers. They are written for this test, apart from what
// the proxy does.
var servers = map[string]func(raw string) string{
	"decodes once, merges slashes": func(raw string) string { return path.Clean("/" + percent(raw)) },
	"decodes twice":                func(raw string) string { return path.Clean("/" + percent(percent(raw))) },
	"decodes three times":          func(raw string) string { return path.Clean("/" + percent(percent(percent(raw)))) },
	"cuts parameters, then decodes": func(raw string) string {
		return path.Clean("/" + percent(parameters.ReplaceAllString(raw, "")))
	},
	"decodes, then cuts parameters": func(raw string) string {
		return path.Clean("/" + parameters.ReplaceAllString(percent(raw), ""))
	},
	"cuts from the first semicolon": func(raw string) string {
		before, _, _ := strings.Cut(percent(raw), ";")
		return path.Clean("/" + before)
	},
	"resolves dots before parameters are cut": func(raw string) string {
		return parameters.ReplaceAllString(path.Clean("/"+percent(raw)), "")
	},
	"Windows": func(raw string) string {
		segments := strings.Split(strings.ReplaceAll(percent(raw), `\`, "/"), "/")
		for i, s := range segments {
			if s = strings.TrimRight(s, " "); strings.Trim(s, ".") != "" {
				s = strings.TrimRight(s, ". ")
			}
			segments[i], _, _ = strings.Cut(s, "::$")
		}
		return strings.ToLower(path.Clean("/" + strings.Join(segments, "/")))
	},
	"ends at NUL":              func(raw string) string { p, _, _ := strings.Cut(percent(raw), "\x00"); return path.Clean("/" + p) },
	"ends at an escaped query": func(raw string) string { p, _, _ := strings.Cut(percent(raw), "?"); return path.Clean("/" + p) },
	"ignores case":             func(raw string) string { return strings.ToLower(path.Clean("/" + percent(raw))) },
	"takes formats":            func(raw string) string { return format.ReplaceAllString(path.Clean("/"+percent(raw)), "") },
	"trims": func(raw string) string {
		p := path.Clean("/" + percent(raw))
		for p != "" && strings.IndexByte(" \t\r\n\x85\xa0", p[len(p)-1]) >= 0 {
			p = p[:len(p)-1]
		}
		return p
	},
	"overlong": func(raw string) string {
		return path.Clean("/" + strings.NewReplacer("\xc0\xaf", "/", "\xc0\xae", ".", "\xe0\x80\xaf", "/", "／", "/", "．", ".").Replace(percent(raw)))
	},
}

var (
	parameters = regexp.MustCompile(`;[^/]*`)
	format     = regexp.MustCompile(`\.[a-z]+$`)
	escape     = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)
)

func percent(s string) string {
	return escape.ReplaceAllStringFunc(s, func(e string) string {
		var c byte
		_, _ = fmt.Sscanf(e, "%%%02x", &c)
		return string([]byte{c})
	})
}

// tricks get past the access rules of proxies, with ADMIN for the word.
var tricks = []string{
	"/admin;x=1", "/admin;/x", "/admin;", "/;/admin", "/.;/admin", "/..;/admin", "/x/..;/admin", "/x;/../admin", "/x/..;x=y/admin", "/;x/admin", "//;//admin", "/admin%3b", "/%3b/admin", "/..%3b/admin",
	"/x/..%3bx/admin", "/admin%3bx/y", "/y/..;/admin;%2f..%2fx", "/admin;%2f..%2fx", "/admin;%2f%2e%2e", "/admin%253bx", "/admin;a=b;c=d/x", "/.;x/.;y/admin", "/x/.;/..;/admin", "/admin;.css", "/admin;.png/x",
	"//admin", "///admin//", "/./admin", "/.//admin", "/x/../admin", "/x/..//admin", "//./admin", "/%2e/admin", "/%2e%2e/admin", "/x/%2e%2e/admin", "/x/.%2e/admin", "/%2f/admin", "/%2fadmin", "/x%2f..%2fadmin",
	"/%252e/admin", "/%252f%252fadmin", "/%2561dmin", "/%252561dmin", "/%25252561dmin", "/x%252f..%252fadmin", "/x%25252f..%25252fadmin", "/%25%36%31dmin",
	`/\admin`, `/x\..\admin`, "/%5cadmin", "/x%5c..%5cadmin", "/x%255c..%255cadmin", "/%5c%5cadmin", `/.\admin`,
	"/admin%00", "/admin%00.html", "/admin%2500", "/%00/admin", "/admin%20", "/admin%09", "/admin%0a", "/admin%0d%0a", "/admin%a0", "/admin%85", "/admin%2520", "/%20/admin", "/admin./", "/admin.", "/admin..", "/admin%2e",
	"/admin%20./x", "/admin::$DATA", "/admin::$INDEX_ALLOCATION/x", "/ADMIN", "/Admin/x", "/aDmIn;x", "/%41dmin", "/ADMIN%20", "/admin.json", "/admin.css", "/admin.html", "/ADMIN.json", "/admin.json/", "/admin;x.json",
	"/admin%3f", "/admin%3fx=1", "/admin%23", "/admin%253f", "/admin/%2e%2e/x", "/admin/../x", "/admin/..;/x", "/admin%2f", "/admin%2fx", "/admin%2f..%2fx",
	"/%u0061dmin", "/%u002fadmin", "/x%u002f..%u002fadmin", "/x/%c0%ae%c0%ae/admin", "/x%c0%af..%c0%afadmin", "/%c0%afadmin", "/x%e0%80%af..%e0%80%afadmin", "/x/%ef%bc%8e%ef%bc%8e/admin", "/%ef%bc%8fadmin", "/%ef%bd%81dmin",
	"/x/../../admin", "/x/y/../../admin", "/x//../admin", "/x//..//admin", "/x/%2e%2e%2fadmin", "/x/..%00/admin", "/x/..%0d/admin", "/ad%09min", "/ad%0amin", "/a%64min%3b", "/x/..%20/admin", "/%2e%2e%3b/admin", "/x/%2e%2e;/admin",
}

func TestNoTrickPassesAPassword(t *testing.T) {
	t.Parallel()
	d := newOpenDoor(t)
	defer d.close()
	for _, trick := range tricks {
		u, err := url.ParseRequestURI(trick)
		if err != nil {
			continue // net/http answers with 400
		}
		if status := d.ask(u, trick); d.got != nil || status != http.StatusBadRequest && status != http.StatusUnauthorized {
			t.Errorf("%s: %d", trick, status)
		}
	}
}

func TestHonestPathsAreForwarded(t *testing.T) {
	t.Parallel()
	d := newOpenDoor(t)
	defer d.close()
	for _, target := range []string{
		"/", "/x", "/x;v=1", "/shop;jsessionid=AB12.node/cart", "/matrix;a=1;b=2/x;c=3", "/;x", "/administrator", "/administrator.json", "/my-admin", "/x/admin", "/x.json", "/a%20b", "/a%2fb", "/a%252fb", "/100%25", "/a%3fb", "/a+b=c,d",
		"/größe", "/gr%c3%b6%c3%9fe", "/%e6%9d%b1%e4%ba%ac", "/x/../y", "/a//b", "/http://x.test/y", "/v1.2/x", "/.well-known/acme", "/~ann", "/x/.", "/@scope%2fname", "/$metadata", "/Products('a;b')", "/a:b", "/x%23y", "/%F0%9F%98%80", "/a%", "/a|b",
		"/" + strings.Repeat("x", 4096), "/" + strings.Repeat("x%20", 1024),
	} {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			continue
		}
		if status := d.ask(u, target); status != http.StatusOK || d.got.RequestURI != u.EscapedPath() {
			t.Errorf("%.80s: %d", target, status)
		}
	}
}

// A path with very many readings is refused, and not computed for long.
func TestReadingsAreBounded(t *testing.T) {
	t.Parallel()
	d := newOpenDoor(t)
	defer d.close()
	for _, target := range []string{"/%" + strings.Repeat("25", 30000), "/" + strings.Repeat(";/", 20000) + "%" + strings.Repeat("25", 500)} {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			t.Fatal(err)
		}
		if status := d.ask(u, target); status != http.StatusBadRequest {
			t.Errorf("%.40s...: %d", target, status)
		}
	}
}

// Whatever a client sends: no known server reads what reaches the open address as the one with the password.
func FuzzReadings(f *testing.F) {
	for _, trick := range tricks {
		f.Add(trick)
	}
	d := newOpenDoor(f)
	defer d.close()
	f.Fuzz(func(t *testing.T, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return
		}
		if d.ask(u, target); d.got == nil {
			return
		}
		raw, _, _ := strings.Cut(d.got.RequestURI, "?")
		for name, read := range servers {
			if p := read(raw); p == "/admin" || strings.HasPrefix(p, "/admin/") {
				t.Errorf("%q reached the open address, and is %q to a server that %s", target, p, name)
			}
		}
	})
}
