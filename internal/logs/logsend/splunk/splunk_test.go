package splunk

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/logs/logroute"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 500_000_000, time.UTC)

const token = "11111111-2222"

// collector is an HTTP Event Collector.
type collector struct {
	*httptest.Server
	events []map[string]any
	header http.Header
	answer func(events []map[string]any) (int, string)
}

func newCollector(t *testing.T) *collector {
	c := &collector{}
	c.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.header = r.Header
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			var err error
			if body, err = gzip.NewReader(body); err != nil {
				t.Error(err)
			}
		}
		var events []map[string]any
		for d := json.NewDecoder(body); ; {
			var e map[string]any
			if err := d.Decode(&e); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Errorf("the body is not JSON: %v", err)
				break
			}
			events = append(events, e)
		}
		status, answer := http.StatusOK, `{"text":"Success","code":0}`
		switch {
		case r.URL.Path != "/services/collector/event/1.0" || r.Method != http.MethodPost:
			status = http.StatusNotFound
		case r.Header.Get("Authorization") != "Splunk "+token:
			status, answer = http.StatusForbidden, `{"text":"Invalid token","code":4}`
		case c.answer != nil:
			status, answer = c.answer(events)
		}
		if status == http.StatusOK {
			c.events = append(c.events, events...)
		}
		w.WriteHeader(status)
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) sender(t *testing.T, token string, more ...string) *Sender {
	t.Helper()
	o := map[string]string{"splunk-url": c.URL, "splunk-token": token, "splunk-insecureskipverify": "true", "labels": "team", "tag": "{{.Name}}"}
	for i := 0; i < len(more); i += 2 {
		o[more[i]] = more[i+1]
	}
	options, problems := logdriver.ParseSplunk(o)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	s, err := New(Config{Options: options, Origin: logdriver.Origin{ContainerName: "/app", ContainerLabels: map[string]string{"team": "blue"}}, Host: "host", Token: token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func add(s *Sender, texts ...string) {
	for i, text := range texts {
		e := logroute.Entry{Time: noon, Text: text}
		e.Next[0] = logroute.Mark{Segment: 1, Offset: int64(i + 1)}
		s.Add(e)
	}
}

func TestEventsAreThoseOfDocker(t *testing.T) {
	t.Parallel()
	attrs := map[string]any{"team": "blue"}
	for _, tt := range []struct {
		more []string
		text string
		want any
	}{
		{nil, `{"a":1}`, map[string]any{"line": `{"a":1}`, "source": "stdout", "tag": "app", "attrs": attrs}},
		{nil, "", map[string]any{"line": "", "source": "stdout", "tag": "app", "attrs": attrs}},
		{[]string{"splunk-format", "json", "splunk-gzip", "true"}, `{"a":1}`, map[string]any{"line": map[string]any{"a": 1.0}, "source": "stdout", "tag": "app", "attrs": attrs}},
		{[]string{"splunk-format", "json", "tag", ""}, "{no", map[string]any{"line": "{no", "source": "stdout", "attrs": attrs}},
		{[]string{"splunk-format", "raw", "splunk-source", "s", "splunk-sourcetype", "t", "splunk-index", "i", "splunk-index-acknowledgment", "true"}, "hello", "app team=blue hello"},
	} {
		c := newCollector(t)
		s := c.sender(t, token, tt.more...)
		add(s, tt.text)
		if sent, err := s.Send(t.Context()); err != nil || sent.Lines != 1 {
			t.Fatal(sent, err)
		}
		got := c.events[0]
		if !reflect.DeepEqual(got["event"], tt.want) || got["time"] != "1767355200.500000" || got["host"] != "host" {
			t.Errorf("%v: got %v", tt.more, got)
		}
		if raw := len(tt.more) > 8; raw && (got["source"] != "s" || got["sourcetype"] != "t" || got["index"] != "i" || len(c.header.Get("X-Splunk-Request-Channel")) != 36) {
			t.Errorf("got %v, %v", got, c.header)
		}
	}
}

func TestTheAnswerDecides(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	s := c.sender(t, token, "splunk-format", "raw")
	add(s, "one", " ", "poison", "four")
	status := http.StatusServiceUnavailable
	c.answer = func(events []map[string]any) (int, string) {
		for _, e := range events {
			if strings.Contains(fmt.Sprint(e), "poison") {
				return http.StatusBadRequest, `{"text":"Invalid data format","code":6}`
			}
		}
		return status, "busy"
	}
	var failed *logroute.SendError
	if sent, err := s.Send(t.Context()); !errors.As(err, &failed) || sent.Moved || failed.Pause != 0 {
		t.Errorf("%+v, %v", sent, err)
	}
	status = http.StatusOK
	var sum logroute.Sent
	for range 5 {
		sent, err := s.Send(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if sent.Moved {
			sum.Next, sum.Lines, sum.Lost = sent.Next, sum.Lines+sent.Lines, sum.Lost+sent.Lost
		}
	}
	if sum.Lines != 2 || sum.Lost != 1 || sum.Next[0].Offset != 4 || len(c.events) != 2 {
		t.Errorf("%+v, %v", sum, c.events)
	}
}

func TestTheTokenIsInNoError(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	s := c.sender(t, "top-secret")
	add(s, "one")
	var failed *logroute.SendError
	if sent, err := s.Send(t.Context()); !errors.As(err, &failed) || sent.Moved || failed.Pause == 0 || !strings.Contains(err.Error(), "Invalid token") || strings.Contains(err.Error(), "top-secret") {
		t.Errorf("%+v, %v", sent, err)
	}
	c.Close()
	if _, err := s.Send(t.Context()); err == nil || strings.Contains(err.Error(), "top-secret") {
		t.Error(err)
	}
}

func FuzzJudge(f *testing.F) {
	f.Add(400, []byte(`{"text":"No data","code":5}`))
	f.Add(502, []byte(`<html>`))
	f.Fuzz(func(t *testing.T, status int, answer []byte) {
		if err := judge(status, answer); (err == nil) != (status == http.StatusOK) {
			t.Errorf("%d: %v", status, err)
		}
	})
}
