package netns

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

const tcpTable = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0000000000000000 100 0 0 10 0
   1: 0100007F:2328 0100007F:1F90 01 00000000:00000000 00:00000000 00000000    33        0 4712 1 0000000000000000 20 4 30 10 -1
   2: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000    33        0 4713 1 0000000000000000 100 0 0 10 0
`

func proc() fstest.MapFS {
	return fstest.MapFS{
		"net/tcp":  {Data: []byte(tcpTable)},
		"net/tcp6": {Data: []byte(strings.ReplaceAll(tcpTable, ":1F90 00000000", ":1F91 00000000"))},
		"42/fd/3":  {Data: []byte("socket:[4711]"), Mode: fs.ModeSymlink},
		"42/fd/4":  {Data: []byte("/dev/null"), Mode: fs.ModeSymlink},
		"42/comm":  {Data: []byte("nginx\n")},
		"7/fd/3":   {Data: []byte("/dev/null"), Mode: fs.ModeSymlink},
		"7/comm":   {Data: []byte("sh\n")},
	}
}

func TestFindHolder(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		port uint16
		want string
	}{
		{"own process", 8080, "process 42 (nginx)"},
		{"IPv6 only", 8081, "process 42 (nginx)"},
		{"a process of another user", 80, "user 33"},
		{"a client's end is no holder", 9000, ""},
		{"a free port", 4, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h, found := findHolder(proc(), "tcp", tt.port)
			if found != (tt.want != "") || found && h.String() != tt.want {
				t.Errorf("holder %v, %v; want %q", h, found, tt.want)
			}
		})
	}
	if _, found := findHolder(fstest.MapFS{}, "tcp", 80); found {
		t.Error("found a holder without /proc")
	}
}

// FuzzParseSockets: no text makes it fail, and what it finds was in the text.
func FuzzParseSockets(f *testing.F) {
	f.Add([]byte(tcpTable))
	f.Add([]byte("0: :: 0A"))
	f.Fuzz(func(t *testing.T, text []byte) {
		found := parseSockets(text)
		if lines := strings.Count(string(text), "\n") + 1; len(found) > lines {
			t.Fatalf("%d sockets in %d lines", len(found), lines)
		}
		for _, s := range found {
			if s.uid < 0 {
				t.Fatalf("negative uid in %+v", s)
			}
		}
	})
}
