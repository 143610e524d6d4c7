package console

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/internal/engine/act/imagestore"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/api"
)

// narrow is a terminal of 40 columns: what is written to line comes out of screen.
func narrow(t *testing.T) (screen, line *os.File) {
	t.Helper()
	screen, line, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { screen.Close(); line.Close() })
	if err := pty.Setsize(screen, &pty.Winsize{Rows: 20, Cols: 40}); err != nil {
		t.Fatal(err)
	}
	return screen, line
}

// read returns what was written; the marker ends it.
func read(t *testing.T, screen, line *os.File) string {
	t.Helper()
	if _, err := line.WriteString("END"); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	buf := make([]byte, 4096)
	for !strings.HasSuffix(all.String(), "END") {
		n, err := screen.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(buf[:n])
	}
	return strings.TrimSuffix(all.String(), "END")
}

// Details of a progress line are broken between words, below where they begin; on a narrow terminal
// below the line.
func TestProgressIsBrokenBetweenWords(t *testing.T) {
	t.Parallel()
	const reason = "registry 127.0.0.1:5000 has no tag 3, check it"
	task := api.Task{Containers: []api.Container{{Name: "app", Retry: &api.Retry{Attempts: 1, Error: reason}}}}
	for columns, want := range map[uint16][]string{
		40: {
			"          app     retry",
			"          registry 127.0.0.1:5000 has no",
			"          tag 3, check it",
		},
		72: {
			"          app     retry                  registry 127.0.0.1:5000 has no",
			"                                         tag 3, check it",
		},
		100: {"          app     retry                  " + reason},
	} {
		screen, line := narrow(t)
		if err := pty.Setsize(screen, &pty.Winsize{Rows: 20, Cols: columns}); err != nil {
			t.Fatal(err)
		}
		NewProgress(TerminalWriter{To: line, Writer: line}, true, time.Now(), 0).Show(task)
		got := read(t, screen, line)
		for _, ink := range append(Inks[:], Faint, Reset) {
			got = strings.ReplaceAll(got, string(ink), "")
		}
		var lines []string
		for text := range strings.Lines(got) {
			lines = append(lines, strings.TrimRight(text, " \r\n"))
		}
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Errorf("on %d columns: %s", columns, diff)
		}
	}
}

func TestListsEndAtTheEdgeOfATerminal(t *testing.T) {
	t.Parallel()
	rows := [][]string{{"ID", "NAME", "STATUS"}, {"0123456789ab", "größer-" + strings.Repeat("x", 20), "RUNNING (no owner)"}}
	screen, line := narrow(t)
	if _, err := WriteList(line, rows, TerminalWidth(line), 3); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(read(t, screen, line), "\r\n"), "\r\n")
	if len(lines) != 2 || utf8.RuneCountInString(lines[1]) != 40 || !strings.HasPrefix(lines[1], "0123456789ab   größer…xxxxx   RUNN") {
		t.Errorf("%q", lines)
	}
	if !strings.HasSuffix(lines[1], "(…") {
		t.Errorf("%q does not show that it was cut", lines[1])
	}
	tasks := [][]string{{"NAME", "IMAGE", "AGE"}, {"shop", "migrate:1, server:1, client:1", "12s"}}
	if _, err := WriteList(line, tasks, TerminalWidth(line), 3); err != nil {
		t.Fatal(err)
	}
	if got := read(t, screen, line); got != "NAME   IMAGE                         AGE\r\nshop   migrate:1, server:1, clien…   12s\r\n" {
		t.Errorf("what comes after the widest column: %q", got)
	}
	exact := [][]string{{strings.Repeat("a", 40)}, {strings.Repeat("b", 41)}, {"c"}}
	if _, err := WriteList(line, exact, TerminalWidth(line), 1); err != nil {
		t.Fatal(err)
	}
	if got := read(t, screen, line); got != strings.Repeat("a", 40)+"\r\n"+strings.Repeat("b", 20)+"…"+strings.Repeat("b", 19)+"\r\nc\r\n" {
		t.Errorf("%q", got)
	}
	if _, err := WriteList(line, exact, 0, 1); err != nil {
		t.Fatal(err)
	}
	if got := read(t, screen, line); !strings.Contains(got, strings.Repeat("b", 41)) {
		t.Errorf("a whole list is cut: %q", got)
	}
	var piped strings.Builder
	if _, err := WriteList(&piped, rows, TerminalWidth(&piped), 3); err != nil || !strings.Contains(piped.String(), "RUNNING (no owner)\n") {
		t.Errorf("%v: piped it is %q", err, piped.String())
	}
}

func TestPullBarKeepsToItsLine(t *testing.T) {
	t.Parallel()
	screen, line := narrow(t)
	v := NewPullView("auto", line, func(string) string { return "" })
	synctest.Test(t, func(*testing.T) {
		for _, done := range []int64{1, 5 << 20, 20 << 20, 30 << 20} { // more than was announced, too
			v.Observe(wirePull(imagestore.Progress{Image: "a", Phase: imagestore.Pulling, Step: libpod.Progress{Layer: "x", Current: done, Total: 10 << 20}}))
			<-time.After(time.Second)
		}
		if n, err := v.Above(line).Write([]byte("stopping\n")); n != 9 || err != nil {
			t.Error(n, err)
		}
		v.Observe(wirePull(imagestore.Progress{Image: "a", Phase: imagestore.Done}))
	})
	got := read(t, screen, line)
	if !strings.Contains(got, "\rstopping\r\n") {
		t.Errorf("a line above the bar does not begin at the edge: %q", got)
	}
	for part := range strings.SplitSeq(strings.Replace(got, "\rstopping\r\n", "", 1), "\r\n\x1b[1A\x1b[J") {
		if len(part) > 40 {
			t.Errorf("%d columns: %q", len(part), part)
		}
	}
	if !strings.Contains(got, "a  [##") || !strings.Contains(got, "21 MB of 21 MB  100%") || !strings.HasSuffix(got, "\x1b[J") {
		t.Errorf("%q", got)
	}
	for _, dumb := range []string{"dumb"} {
		if v := NewPullView("auto", line, func(string) string { return dumb }); v.Mode != "plain" {
			t.Errorf("with TERM=%s the mode is %s", dumb, v.Mode)
		}
	}
}

func TestColorsFollowTheTerminalAndItsUser(t *testing.T) {
	t.Parallel()
	_, line := narrow(t)
	for _, tt := range []struct {
		env  map[string]string
		want Colors
	}{
		{map[string]string{"TERM": "xterm"}, true},
		{map[string]string{"TERM": "xterm", "NO_COLOR": "0"}, false},
		{map[string]string{"TERM": "dumb"}, false},
	} {
		if got := ColorsFor(line, func(name string) string { return tt.env[name] }); got != tt.want {
			t.Errorf("%v: %v", tt.env, got)
		}
	}
	if ColorsFor(&strings.Builder{}, func(string) string { return "" }) {
		t.Error("a pipe has colors")
	}
}
