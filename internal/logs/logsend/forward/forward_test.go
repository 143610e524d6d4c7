package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podtask/podtask/internal/logs/logroute"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 123456789, time.UTC)

// server takes connections and gives each message to fn, which answers.
func server(t *testing.T, fn func(conn net.Conn, n int, message []any) bool) func(context.Context) (net.Conn, error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		for n := 0; ; {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			var b []byte
			for open := true; open; {
				v, rest, err := Decode(b)
				if err == nil {
					b = rest
					n++
					open = fn(conn, n, v.([]any))
					continue
				}
				part := make([]byte, 7) // messages come in pieces
				k, err := conn.Read(part)
				b = append(b, part[:k]...)
				open = err == nil
			}
			conn.Close()
		}
	}()
	return func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String())
	}
}

func ack(conn net.Conn, chunk any) {
	_, _ = conn.Write(Acknowledgement(chunk.(string)))
}

func entry(n int64, text string) logroute.Entry {
	e := logroute.Entry{Time: noon, Text: text}
	e.Next[0], e.Next[1] = logroute.Mark{Segment: 1, Offset: n}, logroute.Mark{Segment: 1, Offset: n}
	return e
}

func TestOnlyWhatIsAcknowledgedIsDelivered(t *testing.T) {
	t.Parallel()
	var got []string
	all := make(chan []string, 1)
	dial := server(t, func(conn net.Conn, n int, m []any) bool {
		records, chunk := m[1].([]any), m[2].(map[string]any)["chunk"]
		switch n {
		case 1:
			return false // cut before the answer
		case 2:
			ack(conn, "another") // an old one
			ack(conn, chunk)
		default:
			ack(conn, chunk)
		}
		for _, r := range records {
			got = append(got, r.([]any)[1].(map[string]any)["log"].(string))
		}
		if n == 3 {
			all <- got
		}
		return true
	})
	s := New(Config{Dial: dial, Tag: "t", Ack: true})
	defer s.Close()
	s.Add(entry(1, "one"))
	s.Add(entry(2, ""))
	var failed *logroute.SendError
	if sent, err := s.Send(t.Context()); !errors.As(err, &failed) || sent.Moved {
		t.Fatalf("cut: %+v, %v", sent, err)
	}
	sent, err := s.Send(t.Context())
	if err != nil || !sent.Moved || sent.Lines != 2 || sent.Next[0].Offset != 2 || !sent.Until.Equal(noon) {
		t.Fatalf("%+v, %v", sent, err)
	}
	s.Add(entry(3, "three"))
	if sent, err = s.Send(t.Context()); err != nil || sent.Next[0].Offset != 3 {
		t.Fatalf("%+v, %v", sent, err)
	}
	if sent, err := s.Send(t.Context()); err != nil || sent.Moved {
		t.Errorf("nothing: %+v, %v", sent, err)
	}
	if text := strings.Join(<-all, ","); text != "one,,three" {
		t.Errorf("the server has %s", text)
	}
}

func TestTheAcknowledgementOfAnotherBatchIsNone(t *testing.T) {
	t.Parallel()
	s := New(Config{Ack: true, Dial: server(t, func(conn net.Conn, _ int, _ []any) bool {
		ack(conn, "another")
		return false
	})})
	defer s.Close()
	s.Add(entry(1, "one"))
	var failed *logroute.SendError
	if sent, err := s.Send(t.Context()); !errors.As(err, &failed) || sent.Moved {
		t.Errorf("%+v, %v", sent, err)
	}
}

func TestAServerThatNeverAcknowledgesIsNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		there, here := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, there) }()
		begun := time.Now()
		s := New(Config{Dial: func(context.Context) (net.Conn, error) { return here, nil }, Ack: true, Timeout: time.Minute})
		s.Add(entry(1, "one"))
		if sent, err := s.Send(t.Context()); err == nil || sent.Moved || !strings.Contains(err.Error(), "fluentd-request-ack") || time.Since(begun) != time.Minute {
			t.Errorf("%+v, %v, after %s", sent, err, time.Since(begun))
		}
	})
}

func TestRecordsAreThoseOfDocker(t *testing.T) {
	t.Parallel()
	got := make(chan []any, 1)
	s := New(Config{
		Tag: "shop", SubSecond: true, Members: ContainerMembers(logdriver.Attributes{}, logdriver.Origin{ContainerID: "id", ContainerName: "/app"}),
		Dial: server(t, func(_ net.Conn, _ int, m []any) bool { got <- m; return true }),
	})
	defer s.Close()
	long := entry(2, strings.Repeat("x", 40))
	long.More, long.Stream = true, logroute.Stderr
	end := entry(3, "y")
	end.Stream = logroute.Stderr
	for _, e := range []logroute.Entry{entry(1, "a\xffb"), long, end} {
		s.Add(e)
	}
	if sent, err := s.Send(t.Context()); err != nil || sent.Lines != 3 {
		t.Fatal(sent, err)
	}
	m := <-got
	records := m[1].([]any)
	first := records[0].([]any)
	want := map[string]any{"container_id": "id", "container_name": "/app", "source": "stdout", "log": "a\xffb"}
	if m[0] != "shop" || !first[0].(time.Time).Equal(noon) || !reflect.DeepEqual(first[1], want) || len(m[2].(map[string]any)) != 0 {
		t.Errorf("got %v", m)
	}
	second, third := records[1].([]any)[1].(map[string]any), records[2].([]any)[1].(map[string]any)
	for i, r := range []map[string]any{second, third} {
		if r["partial_message"] != "true" || r["partial_ordinal"] != fmt.Sprint(i+1) || r["partial_last"] != fmt.Sprint(i == 1) || r["partial_id"] != second["partial_id"] || r["source"] != "stderr" {
			t.Errorf("part %d is %v", i+1, r)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(appendString(appendString(appendMap(nil, 1), "ack"), "chunk"))
	f.Add(appendTime(appendArray(nil, 3), noon, true))
	f.Add([]byte{0xdd, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte(strings.Repeat("\x91", 100)))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, rest, err := Decode(b)
		if err != nil {
			return
		}
		again, left, err := Decode(b[:len(b)-len(rest)])
		if err != nil || len(left) > 0 || !reflect.DeepEqual(v, again) {
			t.Errorf("%v is %v, %v", v, again, err)
		}
		for n := range len(b) - len(rest) {
			if _, _, err := Decode(b[:n]); !Short(err) {
				t.Errorf("the first %d bytes: %v", n, err)
			}
		}
	})
}

// BenchmarkMessage makes the messages of a router: what a core does for each byte of lines.
func BenchmarkMessage(b *testing.B) {
	s := New(Config{Tag: "app", Members: map[string]string{"container_id": strings.Repeat("0", 64), "container_name": "/app"}, Ack: true, SubSecond: true})
	text := strings.Repeat("x", 100)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for n := int64(0); b.Loop(); n++ {
		s.Add(entry(n, text))
		if s.Full() {
			records := s.Records()
			s.message(records)
			s.Done(len(records), 0, "")
		}
	}
}
