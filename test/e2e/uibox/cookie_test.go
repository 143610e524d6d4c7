package uibox

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
)

// A browser sends a cookie to all ports of a name. The page has a name of its own, which the browser finds on
// this host: what listens on other ports of 127.0.0.1 gets nothing, and a second page does not take the
// session of the first one.
func TestCookieIsOfOnePage(t *testing.T) {
	t.Parallel()
	var visits, cookies atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			visits.Add(1)
			cookies.Add(int32(len(r.Cookies())))
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!doctype html><link rel=icon href=data:,><h1>Other</h1>")) // the browser has gone
	}))
	t.Cleanup(other.Close)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(other.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	b := start(t, 800, 600)
	first, second := serve(t, newHost(), false), serve(t, newHost(), true)
	b.open(first)
	if name := value[string](b, "location.hostname"); !strings.HasSuffix(name, ".localhost") || !strings.Contains(first, "//"+name+":") {
		t.Errorf("the page is on %s", name)
	}
	for _, name := range []string{"127.0.0.1", "localhost", "other.localhost"} {
		do(b, chromedp.Navigate("http://"+net.JoinHostPort(name, port)+"/"))
		b.await(`document.querySelector("h1")?.textContent === "Other"`)
	}
	if visits.Load() < 3 || cookies.Load() != 0 {
		t.Errorf("%d visits had %d cookies", visits.Load(), cookies.Load())
	}
	b.open(second)
	page, _, _ := strings.Cut(first, "/open/")
	do(b, chromedp.Navigate(page+"/"))
	b.await(`document.querySelector("h1")?.textContent === "Overview"`)
}
