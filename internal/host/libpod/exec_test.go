package libpod_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/host/libpod"
)

// frame is a piece of output as Podman sends it without a terminal.
func frame(channel byte, text string) string {
	header := make([]byte, 8)
	header[0] = channel
	binary.BigEndian.PutUint32(header[4:], uint32(len(text)))
	return string(header) + text
}

// execServer answers the start of a session with what Podman would write, and its
// inspection with state.
func execServer(t *testing.T, state, output string) *libpod.Client {
	return recorded(t, "5.4.2", func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/json") {
			reply(w, http.StatusOK, state)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		// In one packet with the header, as a quick program's output may come.
		_, _ = rw.WriteString("HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n" + output)
		_ = rw.Flush()
		_, _ = rw.WriteTo(io.Discard) // until the client ends its input
	})
}

func TestExecOutput(t *testing.T) {
	t.Parallel()
	const ran, failed = `{"Pid": 7, "ExitCode": 1}`, `{"Pid": 0, "ExitCode": 127}`
	for _, tt := range []struct {
		name, state, sent string
		terminal          bool
		out, err          string
		class             libpod.Class
	}{
		{name: "two channels", state: ran, sent: frame(1, "a\n") + frame(2, "b\n") + frame(1, "c"), out: "a\nc", err: "b\n"},
		{name: "a terminal", state: ran, sent: "\x01a\x02\r\n", terminal: true, out: "\x01a\x02\r\n"},
		{name: "a program's own error", state: ran, sent: frame(2, "Error: mine\n"), err: "Error: mine\n"},
		{name: "a missing command", state: failed, sent: frame(2, "Error: runc: exec: \"x\": executable file not found in $PATH\n"), class: libpod.CommandNotFound},
		{name: "a missing command on a terminal", state: failed, sent: "Error: executable file not found in $PATH\r\n", terminal: true, class: libpod.CommandNotFound},
		{name: "a missing directory", state: failed, sent: frame(2, "Error: chdir to cwd (\"/x\"): OCI runtime attempted to invoke a command that was not found"), class: libpod.InvalidSpec},
		{name: "the service fails", state: ran, sent: frame(1, "a") + frame(3, "no more"), out: "a", class: libpod.Other},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			stream, err := execServer(t, tt.state, tt.sent).StartExec(t.Context(), "0123456789abcdef", tt.terminal, libpod.Size{Rows: 24, Columns: 80})
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Close()
			if err := stream.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			var out, errs strings.Builder
			err = stream.CopyOutput(&out, &errs)
			if out.String() != tt.out || errs.String() != tt.err {
				t.Errorf("out %q, err %q", out.String(), errs.String())
			}
			if fails := tt.class != 0 || tt.name == "the service fails"; fails != (err != nil) || fails && !errors.Is(err, tt.class) {
				t.Errorf("error %v, want class %v", err, tt.class)
			}
		})
	}
}

// The last of several sizes of a terminal is sent again, because conmon may have lost it.
func TestLastSizeIsSentAgain(t *testing.T) {
	t.Parallel()
	sizes := make(chan string, 10)
	c := recorded(t, "5.4.2", func(w http.ResponseWriter, r *http.Request) {
		sizes <- r.URL.Query().Get("h") + "x" + r.URL.Query().Get("w")
	})
	for _, size := range []libpod.Size{{Rows: 25, Columns: 81}, {Rows: 24, Columns: 80}} {
		if err := c.ResizeContainer(t.Context(), "x", size); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{"25x81", "24x80", "24x80"} {
		if got := <-sizes; got != want {
			t.Errorf("size %d is %s, want %s", i, got, want)
		}
	}
}
