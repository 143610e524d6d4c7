package logstest

import (
	"net"
	"slices"
	"sync"

	"github.com/podtask/podtask/internal/logs/logsend/forward"
)

// Record is a record that came in with the forward protocol.
type Record struct {
	Tag     string
	Members map[string]string
}

// Forward is a server of the forward protocol, which acknowledges unless it is Silent.
type Forward struct {
	Silent bool
	// Took is called with each record; nil: nothing is.
	Took func(Record)

	mu      sync.Mutex
	records []Record
}

// Records returns what came in.
func (f *Forward) Records() []Record {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.records)
}

// Serve serves until the listener is closed.
func (f *Forward) Serve(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go f.serve(conn)
	}
}

func (f *Forward) serve(conn net.Conn) {
	defer conn.Close()
	var b []byte
	part := make([]byte, 1<<20) // a message is decoded again with each part of it
	for {
		v, rest, err := forward.Decode(b)
		if err == nil {
			b = rest
			if !f.take(conn, v) {
				return
			}
			continue
		}
		if !forward.Short(err) {
			return
		}
		n, err := conn.Read(part)
		if b = append(b, part[:n]...); err != nil {
			return
		}
	}
}

// take takes in a message [TAG, [[TIME, RECORD]...], OPTIONS].
func (f *Forward) take(conn net.Conn, v any) bool {
	m, _ := v.([]any)
	if len(m) != 3 {
		return false
	}
	tag, _ := m[0].(string)
	entries, _ := m[1].([]any)
	f.mu.Lock()
	for _, e := range entries {
		pair, _ := e.([]any)
		if len(pair) != 2 {
			continue
		}
		r := Record{Tag: tag, Members: map[string]string{}}
		members, _ := pair[1].(map[string]any)
		for name, value := range members {
			r.Members[name], _ = value.(string)
		}
		f.records = append(f.records, r)
		if f.Took != nil {
			f.Took(r)
		}
	}
	f.mu.Unlock()
	options, _ := m[2].(map[string]any)
	chunk, given := options["chunk"].(string)
	if !given || f.Silent {
		return true
	}
	_, err := conn.Write(forward.Acknowledgement(chunk))
	return err == nil
}
