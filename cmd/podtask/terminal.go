package main

import (
	"io"
	"os"

	"golang.org/x/term"
)

// An ink is an SGR sequence of a terminal; empty for none.
type ink string

const (
	plain ink = ""
	red   ink = "\x1b[31m"
	green ink = "\x1b[32m"
	faint ink = "\x1b[2m"
	bold  ink = "\x1b[1m"
	reset     = "\x1b[0m"
)

// inks tell containers apart. Red and green are left out: they mean something.
var inks = [...]ink{"\x1b[36m", "\x1b[33m", "\x1b[35m", "\x1b[34m", "\x1b[96m", "\x1b[93m", "\x1b[95m", "\x1b[94m"}

// colours says whether to write with colours.
type colours bool

// coloursFor follows https://no-color.org: colours on a terminal, unless NO_COLOR
// is set to anything.
func coloursFor(w io.Writer, getenv func(string) string) colours {
	f, ok := w.(*os.File)
	return colours(ok && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd())))
}

func (on colours) paint(i ink, text string) string {
	if !on || i == plain || text == "" {
		return text
	}
	return string(i) + text + reset
}

// ofContainer is the ink of the container with an index in its task.
func ofContainer(i int) ink {
	if i < 0 {
		return plain
	}
	return inks[i%len(inks)]
}
