package gelf

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/logs/logroute"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 123456789, time.UTC)

func newSender(t *testing.T, network, host, compression string) *Sender {
	t.Helper()
	options, problems := logdriver.ParseGELF(map[string]string{"gelf-address": network + "://" + host, "tag": "{{.Name}}", "labels": "team", "env-regex": "^_S"})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	options.Compression = compression
	s := New(Config{Options: options, Host: "host", Origin: logdriver.Origin{
		ContainerID: "id", ContainerName: "/app", ContainerImageID: "sha256:1", ContainerImageName: "image", ContainerEntrypoint: "/app", ContainerArgs: []string{"-v"},
		ContainerCreated: noon, ContainerLabels: map[string]string{"team": "blue", "tier": "web"}, ContainerEnv: []string{"_STAGE=test", "PATH=/bin"},
	}})
	t.Cleanup(func() { s.Close() })
	return s
}

func add(s *Sender, n int64, text string) {
	e := logroute.Entry{Time: noon, Text: text, Stream: logroute.Stream(n % 2)}
	e.Next[0] = logroute.Mark{Segment: 1, Offset: n}
	s.Add(e)
}

func want(t *testing.T, message []byte, text string, level float64) {
	t.Helper()
	var got map[string]any
	if err := json.Unmarshal(message, &got); err != nil {
		t.Fatalf("%v: %.100s", err, message)
	}
	for name, value := range map[string]any{
		"version": "1.1", "host": "host", "short_message": text, "timestamp": 1767355200.123, "level": level, "_container_id": "id", "_container_name": "app", "_image_id": "sha256:1",
		"_image_name": "image", "_command": "/app -v", "_tag": "app", "_created": "2026-01-02T12:00:00.123456789Z", "_team": "blue", "_STAGE": "test",
	} {
		if got[name] != value {
			t.Errorf("%s is %v, want %v", name, got[name], value)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("besides there is %v", got)
	}
}

func TestOverTCPEachMessageEndsWithNUL(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := newSender(t, "tcp", l.Addr().String(), "gzip")
	add(s, 1, "bad")
	add(s, 2, "")
	add(s, 4, "good \u2603 \"q\"")
	if sent, err := s.Send(t.Context()); err != nil || sent.Lines != 2 || sent.Next[0].Offset != 4 {
		t.Fatal(sent, err)
	}
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r := bufio.NewReader(conn)
	for i, text := range []string{"bad", "good \u2603 \"q\""} {
		m, err := r.ReadBytes(0)
		if err != nil {
			t.Fatal(err)
		}
		want(t, m[:len(m)-1], text, []float64{3, 6}[i])
	}
}

func TestOverUDPLongMessagesComeInChunks(t *testing.T) {
	t.Parallel()
	noise := make([]byte, 12_000) // which no compression makes small
	for i := range noise {
		noise[i] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/"[rand.N(64)]
	}
	for _, compression := range []string{"gzip", "zlib", "none"} {
		t.Run(compression, func(t *testing.T) {
			t.Parallel()
			conn, err := net.ListenPacket("udp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			s := newSender(t, "udp", conn.LocalAddr().String(), compression)
			for i, text := range []string{"short", string(noise)} {
				add(s, 2, text)
				if sent, err := s.Send(t.Context()); err != nil || sent.Lines != 1 {
					t.Fatal(sent, err)
				}
				data, chunks := receive(t, conn)
				if chunks > 1 != (i == 1) {
					t.Errorf("%d chunks", chunks)
				}
				want(t, plain(t, data, compression), text, 6)
			}
		})
	}
}

// receive puts the chunks of a message together.
func receive(t *testing.T, conn net.PacketConn) (data []byte, chunks int) {
	t.Helper()
	for b := make([]byte, 1<<16); ; {
		n, _, err := conn.ReadFrom(b)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(b, []byte{0x1e, 0x0f}) {
			return bytes.Clone(b[:n]), 1
		}
		if int(b[10]) != chunks || n > packetBytes {
			t.Fatalf("chunk %d has number %d and %d bytes", chunks, b[10], n)
		}
		data, chunks = append(data, b[headBytes:n]...), chunks+1
		if chunks == int(b[11]) {
			return data, chunks
		}
	}
}

func plain(t *testing.T, data []byte, compression string) []byte {
	t.Helper()
	var r io.Reader = bytes.NewReader(data)
	var err error
	switch compression {
	case "gzip":
		r, err = gzip.NewReader(r)
	case "zlib":
		r, err = zlib.NewReader(r)
	}
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestAMessageWithTooManyChunksIsLost(t *testing.T) {
	t.Parallel()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	s := newSender(t, "udp", conn.LocalAddr().String(), "none")
	add(s, 2, fmt.Sprintf("%0200000d", 1))
	add(s, 4, "next")
	if sent, err := s.Send(t.Context()); err != nil || sent.Lines != 1 || sent.Lost != 1 || sent.Next[0].Offset != 4 {
		t.Fatal(sent, err)
	}
	data, _ := receive(t, conn)
	want(t, data, "next", 6)
}
