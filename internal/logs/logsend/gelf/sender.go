package gelf

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strconv"

	"github.com/podtask/podtask/internal/logs/logroute"
	"github.com/podtask/podtask/internal/logs/logsend"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

// Config configures a sender.
type Config struct {
	Options logdriver.GELFOptions
	Origin  logdriver.Origin
	// Host is the name of this host.
	Host string
}

// Sender sends to one server. One goroutine at a time may use it. Close it.
type Sender struct {
	logsend.Queue[[]byte]
	config Config
	head   []byte // a message up to its line, as JSON
	extra  []byte // its last members
	link   logsend.Link
}

// New returns a sender. It connects with the first line.
func New(c Config) *Sender {
	o := c.Origin
	extra := map[string]any{
		"_container_id": o.ContainerID, "_container_name": o.Name(), "_image_id": o.ContainerImageID, "_image_name": o.ContainerImageName,
		"_command": o.Command(), "_tag": c.Options.Tag.Of(o), "_created": o.ContainerCreated,
	}
	for name, value := range c.Options.Of(o) {
		if name == "" || name[0] != '_' {
			name = "_" + name
		}
		extra[name] = value
	}
	members, _ := json.Marshal(extra) // strings and a time
	host, _ := json.Marshal(c.Host)
	return &Sender{
		config: c, head: fmt.Appendf(nil, `{"version":"1.1","host":%s,"short_message":`, host), extra: bytes.TrimPrefix(members, []byte("{")),
		link: logsend.Link{Dial: logsend.Dialer(c.Options.Address, logdriver.TLS{}), Silent: true},
	}
}

// The levels that Docker uses.
const (
	levelError = 3
	levelInfo  = 6
)

// Add takes in a line. An empty one is not sent.
func (s *Sender) Add(e logroute.Entry) {
	if e.Text == "" {
		s.Skip(e)
		return
	}
	level := int64(levelInfo)
	if e.Stream == logroute.Stderr {
		level = levelError
	}
	text, _ := json.Marshal(e.Text)
	message := append(make([]byte, 0, len(s.head)+len(text)+len(s.extra)+64), s.head...)
	message = append(append(message, text...), `,"timestamp":`...)
	message = strconv.AppendFloat(message, float64(e.Time.UnixMilli())/1000, 'f', -1, 64)
	message = append(strconv.AppendInt(append(message, `,"level":`...), level, 10), ',')
	s.Queue.Add(e, append(message, s.extra...))
}

// Limits returns what the sender wants of lines.
func (s *Sender) Limits() logroute.Limits { return logroute.Limits{LineBytes: logsend.LineBytes} }

// Close closes the connection.
func (s *Sender) Close() error { return s.link.Close() }

// Send sends a batch. After an error, a *logroute.SendError, what was not sent is still there.
// A message that is too big for UDP is lost.
func (s *Sender) Send(ctx context.Context) (logroute.Sent, error) {
	messages := s.Records()
	if len(messages) == 0 {
		return s.Done(0, 0, ""), nil
	}
	if s.config.Options.Address.Network == "tcp" {
		err := s.link.Use(ctx, func(conn net.Conn) error {
			_, err := conn.Write(append(bytes.Join(messages, []byte{0}), 0))
			return err
		})
		if err != nil {
			return logroute.Sent{}, err
		}
		return s.Done(len(messages), 0, ""), nil
	}
	n, lost := 0, 0
	err := s.link.Use(ctx, func(conn net.Conn) error {
		for _, m := range messages {
			packets, err := s.packets(m)
			if err != nil {
				lost++
			}
			for _, p := range packets {
				if _, err := conn.Write(p); err != nil {
					return err
				}
			}
			n++
		}
		return nil
	})
	if n > 0 {
		return s.Done(n, lost, "too big for GELF over UDP"), nil
	}
	return logroute.Sent{}, err
}

// The sizes of GELF over UDP: a packet that fits into one of Ethernet, with 12 bytes before a
// chunk.
const (
	packetBytes = 1420
	headBytes   = 12
	maxChunks   = 128
)

// packets compresses a message and cuts it into chunks.
func (s *Sender) packets(message []byte) ([][]byte, error) {
	data := s.compress(message)
	if len(data) <= packetBytes {
		return [][]byte{data}, nil
	}
	const room = packetBytes - headBytes
	count := (len(data) + room - 1) / room
	if count > maxChunks {
		return nil, fmt.Errorf("the message has %d chunks", count)
	}
	var id [8]byte
	_, _ = rand.Read(id[:])
	var all [][]byte
	for i := range count {
		p := append([]byte{0x1e, 0x0f}, id[:]...)
		p = append(p, byte(i), byte(count))
		all = append(all, append(p, data[i*room:min(len(data), (i+1)*room)]...))
	}
	return all, nil
}

func (s *Sender) compress(message []byte) []byte {
	var out bytes.Buffer
	var w io.WriteCloser
	switch s.config.Options.Compression {
	case "gzip":
		w, _ = gzip.NewWriterLevel(&out, s.config.Options.Level)
	case "zlib":
		w, _ = zlib.NewWriterLevel(&out, s.config.Options.Level)
	default:
		return message
	}
	_, _ = w.Write(message)
	_ = w.Close()
	return out.Bytes()
}
