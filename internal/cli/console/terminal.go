package console

import (
	"io"
	"os"

	"github.com/podtask/podtask/internal/term"
	xterm "golang.org/x/term"
)

// Ink is a color or style: an SGR sequence of a terminal; empty for none.
type Ink string

// The inks, as escape sequences of a terminal. Reset ends each.
const (
	plain Ink = ""
	Red   Ink = "\x1b[31m"
	Green Ink = "\x1b[32m"
	Faint Ink = "\x1b[2m"
	Bold  Ink = "\x1b[1m"
	Reset     = "\x1b[0m"
)

// Inks distinguish containers. Red and green are not used because they have a meaning.
var Inks = [...]Ink{"\x1b[36m", "\x1b[33m", "\x1b[35m", "\x1b[34m", "\x1b[96m", "\x1b[93m", "\x1b[95m", "\x1b[94m"}

// ActivityInk returns the color of a kind of activity in a timeline. Kinds also differ by their glyphs.
func ActivityInk(kind string) Ink {
	switch kind {
	case "resolve", "wait":
		return Faint
	case "run", "healthy":
		return Green
	case "unhealthy", "restart", "fault", "failed":
		return Red
	}
	return plain
}

// Colors reports whether to print with colors.
type Colors bool

// ColorsFor returns true for a terminal, unless NO_COLOR is set; see https://no-color.org.
func ColorsFor(w io.Writer, getenv func(string) string) Colors {
	f, ok := term.Unwrap(w).(*os.File)
	return Colors(ok && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb" && xterm.IsTerminal(int(f.Fd())))
}

// Paint returns text in an ink, or as it is where there are no colors.
func (on Colors) Paint(i Ink, text string) string {
	if !on || i == plain || text == "" {
		return text
	}
	return string(i) + text + Reset
}

// containerInk returns the color of the container with an index in its task.
func containerInk(i int) Ink {
	if i < 0 {
		return plain
	}
	return Inks[i%len(Inks)]
}
