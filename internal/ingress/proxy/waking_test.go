package proxy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/forward"
	"github.com/podtask/podtask/internal/ingress/proxy"
	"github.com/podtask/podtask/internal/ingress/routefile"
)

// sleepy is a front whose service sleeps, and what is told of its use.
func sleepy(t *testing.T, hold time.Duration, change func(*routefile.Route)) (*front, *forward.Use, chan struct{}, routefile.Route) {
	t.Helper()
	told := make(chan struct{}, 1)
	use := forward.NewUse(func() {
		select {
		case told <- struct{}{}:
		default:
		}
	})
	f := &front{}
	f.Proxy = proxy.New(proxy.Config{Patience: time.Millisecond, Use: func(string) *forward.Use { return use }})
	r := weighted("http://a.test")
	r.Sleep = routefile.Sleep{After: time.Minute, Hold: hold}
	change(&r)
	f.Load(table(t, r))
	s := httptest.NewServer(f.Handler(false))
	t.Cleanup(s.Close)
	f.url = s.URL
	return f, use, told, r
}

func same(*routefile.Route) {}

func TestRequestsAreHeldUntilTheServiceIsAwake(t *testing.T) {
	t.Parallel()
	f, use, told, r := sleepy(t, time.Minute, same)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			q, err := http.NewRequest(http.MethodPost, f.url+"/", strings.NewReader("body"))
			if err != nil {
				t.Error(err)
				return
			}
			q.Host = "a.test"
			a, err := http.DefaultClient.Do(q)
			if err != nil {
				t.Error(err)
				return
			}
			defer a.Body.Close()
			if text, err := io.ReadAll(a.Body); err != nil || a.StatusCode != http.StatusOK || string(text) != "body" {
				t.Errorf("%s %q, %v", a.Status, text, err)
			}
		})
	}
	for !use.Usage().Waiting {
		<-told
	}
	r.Groups = []routefile.Group{group("web/1", 1000, server(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))}
	f.Load(table(t, r))
	all.Wait()
	if now := use.Usage(); now.Waiting {
		t.Errorf("%+v", now)
	}
}

func TestAClientThatWaitsTooLongIsToldToComeBack(t *testing.T) {
	t.Parallel()
	f, use, _, _ := sleepy(t, time.Millisecond, same)
	code, body, header := f.get(t, "a.test", "/", func(r *http.Request) { r.Header.Set("Accept", "text/html,*/*") })
	if code != http.StatusServiceUnavailable || header.Get("Retry-After") == "" || !strings.Contains(body, "is starting now") || header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("%d %v %q", code, header, body)
	}
	if strings.Contains(body, "web") {
		t.Errorf("the page names the service: %q", body)
	}
	code, body, header = f.get(t, "a.test", "/")
	if code != http.StatusServiceUnavailable || header.Get("Retry-After") == "" || !strings.HasPrefix(header.Get("Content-Type"), "text/plain") {
		t.Errorf("%d %v %q", code, header, body)
	}
	if now := use.Usage(); now.Busy {
		t.Errorf("%+v", now)
	}
}

// Who has no password, asks for another address, or sends nonsense, wakes nobody.
func TestStrangersDoNotWake(t *testing.T) {
	t.Parallel()
	f, use, _, _ := sleepy(t, time.Millisecond, func(r *routefile.Route) { r.Auth = "file:/users" })
	since := use.Usage().IdleSince
	for host, want := range map[string]int{"a.test": http.StatusUnauthorized, "b.test": http.StatusNotFound, "a_b!": http.StatusBadRequest} {
		if code, body, _ := f.get(t, host, "/"); code != want {
			t.Errorf("%s: %d %q", host, code, body)
		}
	}
	if now := use.Usage(); now.Busy || now.Waiting || !now.IdleSince.Equal(since) {
		t.Errorf("%+v", now)
	}
}
