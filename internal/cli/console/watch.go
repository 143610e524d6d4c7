package console

import (
	"bytes"
	"context"
	"io"
	"time"
)

// Home moves the cursor of a terminal to its first line and clears what follows.
const Home = "\x1b[H\x1b[J"

// Watch calls show at an interval and prints its output to w, until ctx ends. On a terminal each output
// replaces the one before.
func Watch(ctx context.Context, w io.Writer, getenv func(string) string, pace time.Duration, show func(io.Writer) error) error {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	live := CanMoveCursor(w, getenv)
	for {
		var page bytes.Buffer
		if live {
			page.WriteString(Home)
		}
		if err := show(CutLines(TerminalWidth(w), &page)); err != nil {
			return err
		}
		if _, err := w.Write(page.Bytes()); err != nil { // in one write, so that nothing flickers
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// CanMoveCursor reports whether w is a terminal on which the cursor can be moved. NO_COLOR does not matter.
func CanMoveCursor(w io.Writer, getenv func(string) string) bool {
	return bool(ColorsFor(w, func(name string) string {
		if name == "NO_COLOR" {
			return ""
		}
		return getenv(name)
	}))
}
