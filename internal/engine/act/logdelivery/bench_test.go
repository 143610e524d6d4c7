package logdelivery

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/logs/logfiles"
	"github.com/podtask/podtask/internal/logs/logroute"
	"github.com/podtask/podtask/internal/logs/logsend/awslogs"
	"github.com/podtask/podtask/internal/logs/logsend/forward"
	"github.com/podtask/podtask/internal/logs/logsend/gelf"
	"github.com/podtask/podtask/internal/logs/logsend/splunk"
	"github.com/podtask/podtask/internal/logs/logsend/syslog"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

// BenchmarkRoute delivers a log file of lines of 100 bytes, from the file to servers in this process
// that throw away what they get: how much output of a container one route takes.
func BenchmarkRoute(b *testing.B) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "{}")
	}))
	defer web.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			go func() { _, _ = io.Copy(io.Discard, conn) }()
		}
	}()
	for driver, options := range map[logdriver.Driver]map[string]string{
		logdriver.AWSLogs: nil, // those of newHost
		logdriver.Fluentd: {"fluentd-address": l.Addr().String(), "fluentd-request-ack": "false"},
		logdriver.Splunk:  {"splunk-url": web.URL, "splunk-token": "t"},
		logdriver.Syslog:  {"syslog-address": "tcp://" + l.Addr().String()},
	} {
		b.Run(string(driver), func(b *testing.B) {
			h := newHost(b, "shop")
			h.url = web.URL
			if options != nil {
				h.state.Task.Containers[0].Log = &taskdef.LogConfiguration{Driver: driver, Options: options}
			}
			text := written(b, h.files)
			h.state.Containers = []lifecycle.Container{{Ended: true}}
			b.SetBytes(text)
			begin := processorTime(b)
			for b.Loop() {
				if err := h.files.Save(logfiles.Route{}); err != nil {
					b.Fatal(err)
				}
				p := h.process()
				<-p.done
				if at := p.containers[0].route.position().First(); at.Offset != text {
					b.Fatalf("sent up to %+v", at)
				}
				p.end()
			}
			reportRate(b, text, begin)
		})
	}
}

// written fills a log file with lines of 100 bytes and returns its size, less than is rotated.
func written(b *testing.B, files logfiles.Files) int64 {
	b.Helper()
	line := logroute.Piece{Time: time.Now(), Last: true, Text: []byte(strings.Repeat("x", 100))}.Append(nil)
	text := bytes.Repeat(line, 15<<20/len(line))
	if err := os.WriteFile(files.Path(), text, 0o600); err != nil {
		b.Fatal(err)
	}
	return int64(len(text))
}

func reportRate(b *testing.B, bytes int64, begin time.Duration) {
	b.Helper()
	b.ReportMetric(float64(int64(b.N)*bytes)/1e6/(processorTime(b)-begin).Seconds(), "MB/cpu-s")
}

// BenchmarkBatch joins the same lines and makes records and batches of them, and sends nothing: the
// queue of each sender is emptied, and requests of awslogs are written, signed, and answered at once.
func BenchmarkBatch(b *testing.B) {
	h := newHost(b)
	text := written(b, h.files)
	tag, err := logdriver.ParseTag("{{.ID}}")
	if err != nil {
		b.Fatal(err)
	}
	attributes := logdriver.Attributes{Tag: tag}
	collector, err := splunk.New(splunk.Config{Host: "host", Options: logdriver.SplunkOptions{Attributes: attributes}})
	if err != nil {
		b.Fatal(err)
	}
	for name, sender := range map[string]Sender{
		"awslogs": awslogs.New(awslogs.Config{HTTP: &http.Client{Transport: accepting{}}, Options: logdriver.AWSLogsOptions{Region: "r", Group: "g"}, Stream: "s", Credentials: credentialsOf(nil, "")}),
		"fluentd": forward.New(forward.Config{Tag: "tag", Members: forward.ContainerMembers(attributes, logdriver.Origin{})}),
		"gelf":    gelf.New(gelf.Config{Host: "host", Options: logdriver.GELFOptions{Attributes: attributes}}),
		"splunk":  collector,
		"syslog":  syslog.New(syslog.Config{Host: "host", Options: logdriver.SyslogOptions{Attributes: attributes}}),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(text)
			begin := processorTime(b)
			for b.Loop() {
				if at := batched(b, h.files, sender); at.Offset != text {
					b.Fatalf("batched up to %+v", at)
				}
			}
			reportRate(b, text, begin)
		})
	}
}

// batched passes the lines of files through a sender and returns where the last ends.
func batched(b *testing.B, files logfiles.Files, s Sender) logroute.Mark {
	b.Helper()
	r := files.Reader(logroute.Position{}, s.Limits().LineBytes)
	defer r.Close()
	var at logroute.Position
	take := func() {
		if q, ok := s.(interface {
			Records() [][]byte
			Done(n, lost int, why string) logroute.Sent
		}); ok {
			at = q.Done(len(q.Records()), 0, "").Next
			return
		}
		for moved := true; moved; {
			sent, err := s.Send(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			if moved = sent.Moved; moved {
				at = sent.Next
			}
		}
	}
	for e, err := r.Next(); err != io.EOF; e, err = r.Next() {
		if err != nil {
			b.Fatal(err)
		}
		if s.Add(e); s.Full() {
			take()
		}
	}
	take()
	return at.First()
}

// accepting answers requests without reading them.
type accepting struct{}

// RoundTrip implements http.RoundTripper.
func (accepting) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Request: r, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}"))}, nil
}

// processorTime is what the process has used, servers and garbage collector included.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
