package logdelivery

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/logfiles"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/logroute"
	"github.com/podtask/podtask/pkg/taskdef"
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
	for driver, options := range map[taskdef.LogDriver]map[string]string{
		taskdef.LogAWSLogs: nil, // those of newHost
		taskdef.LogFluentd: {"fluentd-address": l.Addr().String(), "fluentd-request-ack": "false"},
		taskdef.LogSplunk:  {"splunk-url": web.URL, "splunk-token": "t"},
		taskdef.LogSyslog:  {"syslog-address": "tcp://" + l.Addr().String()},
	} {
		b.Run(string(driver), func(b *testing.B) {
			h := newHost(b, "shop")
			h.url = web.URL
			if options != nil {
				h.state.Task.Containers[0].Log = &taskdef.LogConfiguration{Driver: driver, Options: options}
			}
			line := logroute.Piece{Time: time.Now(), Last: true, Text: []byte(strings.Repeat("x", 100))}.Append(nil)
			text := strings.Repeat(string(line), 15<<20/len(line)) // less than is rotated
			if err := os.WriteFile(h.files.Path(), []byte(text), 0o600); err != nil {
				b.Fatal(err)
			}
			h.state.Containers = []lifecycle.Container{{Ended: true}}
			b.SetBytes(int64(len(text)))
			begin := processorTime(b)
			for b.Loop() {
				if err := h.files.Save(logfiles.Route{}); err != nil {
					b.Fatal(err)
				}
				p := h.process()
				<-p.done
				if at := p.containers[0].route.position().First(); at.Offset != int64(len(text)) {
					b.Fatalf("sent up to %+v", at)
				}
				p.end()
			}
			b.ReportMetric(float64(b.N*len(text))/1e6/(processorTime(b)-begin).Seconds(), "MB/cpu-s")
		})
	}
}

// processorTime is what the process has used, servers and garbage collector included.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
