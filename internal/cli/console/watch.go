package console

import (
	"bytes"
	"context"
	"io"
	"time"
)

// Home moves the cursor of a terminal to its first line and clears what follows.
const Home = "\x1b[H\x1b[J"

// Watch shows something on w each time that pace has passed, until ctx ends. On a terminal
// it replaces what it has shown; elsewhere it adds to it.
func Watch(ctx context.Context, w io.Writer, getenv func(string) string, pace time.Duration, show func(io.Writer) error) error {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	live := Moves(w, getenv)
	for {
		var page bytes.Buffer
		if live {
			page.WriteString(Home)
		}
		if err := show(UpTo(TerminalWidth(w), &page)); err != nil {
			return err
		}
		if _, err := w.Write(page.Bytes()); err != nil { // at once, so that nothing flickers
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Moves reports whether w is a terminal on which the cursor can be moved; NO_COLOR does not
// forbid that.
func Moves(w io.Writer, getenv func(string) string) bool {
	return bool(ColorsFor(w, func(name string) string {
		if name == "NO_COLOR" {
			return ""
		}
		return getenv(name)
	}))
}
