package syslog

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/logs/logroute"
	"github.com/podtask/podtask/internal/testing/freeport"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

var noon = time.Date(2026, 11, 9, 12, 0, 0, 123456789, time.Local) // no part of it is that of a layout of Go

func newSender(t *testing.T, network, host, format string) *Sender {
	t.Helper()
	tag, err := logdriver.ParseTag("{{.Name}}")
	if err != nil {
		t.Fatal(err)
	}
	s := New(Config{
		Options: logdriver.SyslogOptions{Address: logdriver.Address{Network: network, Host: host}, Facility: 3, Format: format, Attributes: logdriver.Attributes{Tag: tag}, TLS: logdriver.TLS{Insecure: true}},
		Origin:  logdriver.Origin{ContainerName: "/app"}, Host: "host", PID: 7,
	})
	t.Cleanup(func() { s.Close() })
	return s
}

func add(s *Sender, texts ...string) {
	for i, text := range texts {
		e := logroute.Entry{Time: noon, Text: text, Stream: logroute.Stream(i % 2)}
		e.Next[0] = logroute.Mark{Segment: 1, Offset: int64(i + 1)}
		s.Add(e)
	}
}

func TestMessagesAreThoseOfDocker(t *testing.T) {
	t.Parallel()
	zone := noon.Format("Z07:00")
	for _, tt := range []struct{ network, format, want string }{
		{"udp", "", "<30>Nov  9 12:00:00 app[7]: hello\n"},
		{"udp", "rfc3164", "<30>Nov  9 12:00:00 host app[7]: hello\n"},
		{"tcp", "rfc5424", "<30>1 2026-11-09T12:00:00" + zone + " host app 7 app - hello\n"},
		{"tcp", "rfc5424micro", "<30>1 2026-11-09T12:00:00.123456" + zone + " host app 7 app - hello\n"},
	} {
		s := newSender(t, tt.network, "", tt.format)
		if got := string(s.message(logroute.Entry{Time: noon, Text: "hello"})); got != tt.want {
			t.Errorf("%s is %q, want %q", tt.format, got, tt.want)
		}
	}
	s := newSender(t, "tls", "", "rfc5424")
	got := string(s.message(logroute.Entry{Time: noon, Text: "hello", Stream: logroute.Stderr}))
	if length, rest, _ := strings.Cut(got, " "); !strings.HasPrefix(rest, "<27>1 2026-") || length != strconv.Itoa(len(rest)) {
		t.Errorf("over TLS it is %q", got)
	}
}

func TestEachNetworkDelivers(t *testing.T) {
	t.Parallel()
	web := httptest.NewUnstartedServer(nil)
	web.StartTLS()
	cert := web.TLS.Certificates[0]
	web.Close()
	for _, network := range []string{"udp", "tcp", "tls", "unix", "unixgram"} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			host, read := listen(t, network, cert)
			s := newSender(t, network, host, "")
			add(s, "one", "", "three")
			sent, err := s.Send(t.Context())
			if err != nil || sent.Lines != 2 || sent.Next[0].Offset != 3 {
				t.Fatalf("%+v, %v", sent, err)
			}
			if a, b := read(), read(); !strings.HasSuffix(a, "app[7]: one\n") || !strings.HasSuffix(b, "app[7]: three\n") {
				t.Errorf("got %q, %q", a, b)
			}
			if sent, err := s.Send(t.Context()); err != nil || sent.Moved {
				t.Errorf("nothing: %+v, %v", sent, err)
			}
		})
	}
}

// listen returns an address and a function that reads a message.
func listen(t *testing.T, network string, cert tls.Certificate) (string, func() string) {
	t.Helper()
	place := "127.0.0.1:0"
	if strings.HasPrefix(network, "unix") {
		place = filepath.Join(t.TempDir(), "s")
	}
	if network == "udp" || network == "unixgram" {
		conn, err := net.ListenPacket(network, place)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn.LocalAddr().String(), func() string {
			b := make([]byte, 1<<16)
			n, _, err := conn.ReadFrom(b)
			if err != nil {
				t.Error(err)
			}
			return string(b[:n])
		}
	}
	listenOn := network
	if network == "tls" {
		listenOn = "tcp"
	}
	l, err := net.Listen(listenOn, place)
	if err != nil {
		t.Fatal(err)
	}
	if network == "tls" {
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}})
	}
	t.Cleanup(func() { l.Close() })
	lines := make(chan string, 10)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		for r := bufio.NewReader(conn); err == nil; {
			var line string
			if line, err = r.ReadString('\n'); err == nil {
				lines <- line
			}
		}
	}()
	return l.Addr().String(), func() string { return <-lines }
}

// A server that went away is noticed before the next line is given to the kernel, which would
// take it.
func TestAClosedConnectionIsNoticed(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(int(freeport.For(t))))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := newSender(t, "tcp", l.Addr().String(), "")
	add(s, "one")
	for _, want := range []string{"one", "two"} {
		if sent, err := s.Send(t.Context()); err != nil || sent.Lines != 1 {
			t.Fatal(sent, err)
		}
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.HasSuffix(line, want+"\n") {
			t.Errorf("got %q, %v", line, err)
		}
		conn.Close()
		s.link.AwaitEnd()
		add(s, "two")
	}
	l.Close()
	var failed *logroute.SendError
	if sent, err := s.Send(t.Context()); !errors.As(err, &failed) || sent.Moved {
		t.Errorf("%+v, %v", sent, err)
	}
	if err := s.Close(); err != nil && !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}
