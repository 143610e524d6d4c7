package command

import (
	"strings"
	"testing"

	"github.com/creack/pty"
)

func TestTextIsAsWideAsTheTerminal(t *testing.T) {
	t.Parallel()
	screen, line, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { screen.Close(); line.Close() })
	if err := pty.Setsize(screen, &pty.Winsize{Rows: 24, Cols: 20}); err != nil {
		t.Fatal(err)
	}
	const text = "one two three four five six"
	if got, want := OnTerminal(line, "ok   ", text), "ok   one two three\n     four five six"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	var piped strings.Builder
	if got := OnTerminal(&piped, "ok   ", text); got != "ok   "+text {
		t.Errorf("through a pipe: %q", got)
	}
}
