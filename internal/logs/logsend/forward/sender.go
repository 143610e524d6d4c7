package forward

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/podtask/podtask/internal/logs/logroute"
	"github.com/podtask/podtask/internal/logs/logsend"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

// Config configures a sender.
type Config struct {
	// Dial connects to the server.
	Dial func(context.Context) (net.Conn, error)
	Tag  string
	// Members are in each record, besides the line.
	Members map[string]string
	// Ack: the server acknowledges each batch.
	Ack bool
	// SubSecond sends the nanoseconds of a time.
	SubSecond bool
	// Timeout bounds a call of the server; 0: 30 seconds.
	Timeout time.Duration
}

// ContainerMembers are the members of a record that say which container it is from.
func ContainerMembers(a logdriver.Attributes, o logdriver.Origin) map[string]string {
	m := a.Of(o)
	for name, value := range map[string]string{"container_id": o.ContainerID, "container_name": o.ContainerName} {
		if _, taken := m[name]; !taken {
			m[name] = value
		}
	}
	return m
}

// Sender sends to one server. One goroutine at a time may use it. Close it.
type Sender struct {
	logsend.Queue[[]byte]
	config  Config
	members []byte // those of each record, as MessagePack
	link    logsend.Link
	partial [2]partial // by stream
	buffer  []byte     // of what the server has said
}

// partial is a line that comes in several entries.
type partial struct {
	id      string
	ordinal int
}

// New returns a sender. It connects with the first line.
func New(c Config) *Sender {
	s := &Sender{config: c, link: logsend.Link{Dial: c.Dial, Silent: !c.Ack, Limit: c.Timeout}}
	for name, value := range c.Members {
		s.members = appendString(appendString(s.members, name), value)
	}
	return s
}

// member is one of a record that differs from line to line.
type member struct{ name, value string }

// Add takes in a line.
func (s *Sender) Add(e logroute.Entry) {
	own := append(make([]member, 0, 6), member{"source", e.Stream.String()}, member{"log", e.Text})
	if p := &s.partial[e.Stream]; e.More || p.ordinal > 0 {
		if p.ordinal == 0 {
			p.id = random()
		}
		p.ordinal++
		own = append(own, member{"partial_message", "true"}, member{"partial_id", p.id}, member{"partial_ordinal", strconv.Itoa(p.ordinal)}, member{"partial_last", strconv.FormatBool(!e.More)})
		if !e.More {
			*p = partial{}
		}
	}
	own = slices.DeleteFunc(own, func(m member) bool {
		_, taken := s.config.Members[m.name]
		return taken // a label or variable wins, as in Docker
	})
	b := appendArray(make([]byte, 0, len(s.members)+len(e.Text)+64), 2)
	b = appendTime(b, e.Time, s.config.SubSecond)
	b = appendMap(b, len(s.config.Members)+len(own))
	b = append(b, s.members...)
	for _, m := range own {
		b = appendString(appendString(b, m.name), m.value)
	}
	s.Queue.Add(e, b)
}

func random() string {
	var b [32]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// Limits returns what the sender wants of lines.
func (s *Sender) Limits() logroute.Limits { return logroute.Limits{LineBytes: logsend.LineBytes} }

// Close closes the connection.
func (s *Sender) Close() error { return s.link.Close() }

// Send sends a batch and returns when the server has acknowledged it. After an error, a
// *logroute.SendError, the lines are still there.
func (s *Sender) Send(ctx context.Context) (logroute.Sent, error) {
	records := s.Records()
	if len(records) == 0 {
		return s.Done(0, 0, ""), nil
	}
	message, chunk := s.message(records)
	err := s.link.Use(ctx, func(conn net.Conn) error {
		if _, err := conn.Write(message); err != nil {
			return err
		}
		if !s.config.Ack {
			return nil
		}
		return s.await(conn, chunk)
	})
	if err != nil {
		s.buffer = nil
		return logroute.Sent{}, err
	}
	return s.Done(len(records), 0, ""), nil
}

// message is [TAG, [[TIME, RECORD]...], OPTIONS] (forward protocol v1, Forward Mode).
func (s *Sender) message(records [][]byte) (b []byte, chunk string) {
	b = appendArray(nil, 3)
	b = appendString(b, s.config.Tag)
	b = appendArray(b, len(records))
	for _, r := range records {
		b = append(b, r...)
	}
	if !s.config.Ack {
		return appendMap(b, 0), ""
	}
	var id [16]byte
	_, _ = rand.Read(id[:])
	chunk = base64.StdEncoding.EncodeToString(id[:])
	b = appendMap(b, 1)
	return appendString(appendString(b, "chunk"), chunk), chunk
}

// longestAnswer is the most bytes of an answer.
const longestAnswer = 4 << 10

// await reads the acknowledgement of a chunk. Others are of batches that were sent before.
func (s *Sender) await(conn net.Conn, chunk string) error {
	for {
		answer, rest, err := Decode(s.buffer)
		switch {
		case err == nil:
			s.buffer = rest
			if m, ok := answer.(map[string]any); ok && m["ack"] == chunk {
				return nil
			}
			continue
		case !Short(err) || len(s.buffer) > longestAnswer:
			return fmt.Errorf("the server's answer is not an acknowledgement: %w", err)
		}
		var b [512]byte
		n, err := conn.Read(b[:])
		s.buffer = append(s.buffer, b[:n]...)
		if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() {
			return errors.New("the server does not acknowledge what it was sent (see fluentd-request-ack)")
		}
		if err != nil {
			return fmt.Errorf("no acknowledgement: %w", err)
		}
	}
}
