package syslog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/logs/logroute"
	"github.com/podtask/podtask/internal/logs/logsend"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

// Config configures a sender.
type Config struct {
	Options logdriver.SyslogOptions
	Origin  logdriver.Origin
	// Host is the name of this host, PID the process that messages come from.
	Host string
	PID  int
}

// Sender sends to one server. One goroutine at a time may use it. Close it.
type Sender struct {
	logsend.Queue[[]byte]
	config Config
	before string // what comes before the time of a message: the version of its format
	layout string // of the time
	head   string // what comes between the time and the line
	link   logsend.Link
}

// New returns a sender. It connects with the first line.
func New(c Config) *Sender {
	dial := logsend.Dialer(c.Options.Address, c.Options.TLS)
	if c.Options.Address.Network == "" {
		dial = local
	}
	s := &Sender{config: c, link: logsend.Link{Dial: dial, Silent: true}}
	switch tag := c.Options.Tag.Of(c.Origin); c.Options.Format {
	case "rfc3164":
		s.layout, s.head = time.Stamp, fmt.Sprintf(" %s %s[%d]: ", c.Host, tag, c.PID)
	case "rfc5424":
		s.before, s.layout, s.head = "1 ", time.RFC3339, fmt.Sprintf(" %s %s %d %s - ", c.Host, tag, c.PID, tag)
	case "rfc5424micro":
		s.before, s.layout, s.head = "1 ", "2006-01-02T15:04:05.000000Z07:00", fmt.Sprintf(" %s %s %d %s - ", c.Host, tag, c.PID, tag)
	default:
		s.layout, s.head = time.Stamp, fmt.Sprintf(" %s[%d]: ", tag, c.PID)
	}
	return s
}

// local connects to the syslog of this host.
func local(ctx context.Context) (net.Conn, error) {
	var errs []error
	for _, path := range []string{"/dev/log", "/var/run/syslog", "/var/run/log"} {
		for _, network := range []string{"unixgram", "unix"} {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, path)
			if err == nil {
				return conn, nil
			}
			errs = append(errs, err)
		}
	}
	return nil, fmt.Errorf("this host has no syslog: %w", errors.Join(errs...))
}

// Add takes in a line. An empty one is not sent.
func (s *Sender) Add(e logroute.Entry) {
	if e.Text == "" {
		s.Skip(e)
		return
	}
	s.Queue.Add(e, s.message(e))
}

// Limits returns what the sender wants of lines.
func (s *Sender) Limits() logroute.Limits { return logroute.Limits{LineBytes: logsend.LineBytes} }

// Close closes the connection.
func (s *Sender) Close() error { return s.link.Close() }

// Send sends a batch. After an error, a *logroute.SendError, what was not sent is still there.
func (s *Sender) Send(ctx context.Context) (logroute.Sent, error) {
	messages := s.Records()
	if len(messages) == 0 {
		return s.Done(0, 0, ""), nil
	}
	n := 0
	err := s.link.Use(ctx, func(conn net.Conn) error {
		if !datagrams(conn) {
			var all net.Buffers = messages
			_, err := all.WriteTo(conn)
			if err == nil {
				n = len(messages)
			}
			return err
		}
		for _, m := range messages {
			if _, err := conn.Write(m); err != nil {
				return err
			}
			n++
		}
		return nil
	})
	if n > 0 {
		return s.Done(n, 0, ""), nil
	}
	return logroute.Sent{}, err
}

// datagrams reports whether each write is a message.
func datagrams(conn net.Conn) bool {
	network := conn.RemoteAddr().Network()
	return network == "udp" || network == "unixgram"
}

// The severities that Docker uses.
const (
	severityError = 3
	severityInfo  = 6
)

// message is a line as Docker formats it. Nothing marks the end of a message but its newline;
// over TLS, the formats of RFC 5424 have their length in front.
func (s *Sender) message(e logroute.Entry) []byte {
	priority := s.config.Options.Facility<<3 | severityInfo
	if e.Stream == logroute.Stderr {
		priority = s.config.Options.Facility<<3 | severityError
	}
	m := append(make([]byte, 0, len(s.head)+len(e.Text)+64), '<')
	m = append(strconv.AppendInt(m, int64(priority), 10), '>')
	m = e.Time.Local().AppendFormat(append(m, s.before...), s.layout)
	m = append(append(m, s.head...), e.Text...)
	if !strings.HasSuffix(e.Text, "\n") {
		m = append(m, '\n')
	}
	if s.config.Options.Address.Network == "tls" && strings.HasPrefix(s.config.Options.Format, "rfc5424") {
		m = slices.Concat(strconv.AppendInt(nil, int64(len(m)), 10), []byte(" "), m)
	}
	return m
}
