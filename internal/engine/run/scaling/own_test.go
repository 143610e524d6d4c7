package scaling

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/scaling"
)

func ownPolicy(metric string, target float64) scaling.Policy {
	return scaling.Policy{Name: metric, Metric: scaling.Metric("app:9090/metrics?all=1 " + metric), Target: target, OutCooldown: time.Minute, InCooldown: time.Minute}
}

// served has all copies answer by a handler.
func (w *world) served(h http.HandlerFunc) {
	s := httptest.NewServer(h)
	w.t.Cleanup(s.Close)
	w.endpoint = s.Listener.Addr().String()
}

// Copies follow a metric of their own: a value as it is, a counter by its increase in a minute.
func TestCopiesFollowTheirOwnMetric(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	waiting, done := 30.0, 0.0
	w.served(func(out http.ResponseWriter, in *http.Request) {
		if in.URL.RequestURI() != "/metrics?all=1" {
			http.NotFound(out, in)
			return
		}
		fmt.Fprintf(out, "# TYPE jobs gauge\njobs{queue=\"mail\"} %v\njobs{queue=\"other\"} 999\n# TYPE done counter\ndone %v\n", waiting/float64(w.service.DesiredCount), done)
	})
	w.configure(scaling.Config{Min: 1, Max: 8, Policies: []scaling.Policy{ownPolicy(`jobs{queue="mail"}`, 10), ownPolicy("done", 60)}})
	r := w.runner()
	w.run(r, 5*scaling.Interval)
	if w.service.DesiredCount != 3 {
		t.Fatalf("%d copies for 30 jobs", w.service.DesiredCount)
	}
	for range 6 {
		done += 50 // 150 in a minute for each copy
		w.run(r, scaling.Interval)
	}
	if w.service.DesiredCount != 8 {
		t.Errorf("%d copies for a counter that grows by 150 in a minute", w.service.DesiredCount)
	}
	waiting = 0
	w.run(r, 40*time.Minute)
	if w.service.DesiredCount != 1 {
		t.Errorf("%d copies at rest", w.service.DesiredCount)
	}
}

// What cannot be read changes nothing, and the reason is told without the content of the page.
func TestAnEndpointThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"status":   {func(out http.ResponseWriter, _ *http.Request) { out.WriteHeader(http.StatusFound) }, "app:9090/metrics?all=1: the answer has status 302"},
		"nothing":  {func(http.ResponseWriter, *http.Request) {}, "has no jobs"},
		"no text":  {func(out http.ResponseWriter, _ *http.Request) { fmt.Fprintln(out, "jobs secret") }, "not in the text format"},
		"no value": {func(out http.ResponseWriter, _ *http.Request) { fmt.Fprintln(out, "jobs NaN") }, "is no number"},
		"endless": {func(out http.ResponseWriter, _ *http.Request) {
			for range 2 * maxPage / 1000 {
				fmt.Fprintln(out, strings.Repeat("x", 999))
			}
		}, "larger than"},
		"location": {func(out http.ResponseWriter, _ *http.Request) {
			out.Header().Set("Location", "http://secret%zz/")
			out.WriteHeader(http.StatusFound)
		}, "the answer has status 302"},
		"no HTTP": {func(out http.ResponseWriter, _ *http.Request) {
			conn, _, err := out.(http.Hijacker).Hijack()
			if err == nil {
				fmt.Fprint(conn, "secret\r\n\r\n")
				conn.Close()
			}
		}, "there is no answer in HTTP"},
		"broken": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.served(c.answer)
			w.configure(scaling.Config{Min: 1, Max: 8, Policies: []scaling.Policy{ownPolicy("jobs", 10)}})
			r := w.runner()
			w.run(r, 30*time.Minute)
			v := r.Rows("web")["jobs"]
			if v.Known || !strings.Contains(v.Problem, c.want) || strings.Contains(v.Problem, "secret") || w.service.DesiredCount != 1 {
				t.Errorf("%d copies, %+v", w.service.DesiredCount, v)
			}
		})
	}
}

func TestParseOwn(t *testing.T) {
	t.Parallel()
	o, err := ParseOwn(`app:9090 jobs{b="2", a="x y=}"}`)
	if err != nil || o.Metric() != `app:9090/metrics jobs{a="x y=}",b="2"}` {
		t.Errorf("%q, %v", o.Metric(), err)
	}
	for _, bad := range []string{"app jobs", "app:9090 jobs{b}", `app:9090 jobs{b="2"} 5`, `app:9090 jobs{b="2"}{c="3"}`} {
		if o, err := ParseOwn(bad); err == nil {
			t.Errorf("%s is %+v", bad, o)
		}
	}
}

// The reason for which a copy cannot be reached is told as it is.
func TestACopyThatCannotBeReached(t *testing.T) {
	t.Parallel()
	for metric, want := range map[scaling.Metric]string{
		"web:80/metrics jobs":   "the task has no container web",
		"app:9091/metrics jobs": "a connection to 127.0.0.1:9091 of container 1",
	} {
		w := newWorld(t)
		p := ownPolicy("jobs", 10)
		p.Metric = metric
		w.configure(scaling.Config{Min: 1, Max: 8, Policies: []scaling.Policy{p}})
		r := w.runner()
		w.run(r, scaling.Interval)
		if v := r.Rows("web")["jobs"]; !strings.Contains(v.Problem, want) {
			t.Errorf("%+v", v)
		}
	}
}
