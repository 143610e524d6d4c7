package command

import (
	"io"
	"os"

	"github.com/podtask/podtask/internal/term"
	xterm "golang.org/x/term"
)

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(r any) bool {
	if w, ok := r.(io.Writer); ok {
		r = term.Unwrap(w)
	}
	f, ok := r.(*os.File)
	return ok && xterm.IsTerminal(int(f.Fd()))
}

// ToTerminal returns a filter in front of a terminal; other writers as they are.
func ToTerminal(w io.Writer) io.Writer {
	if IsTerminal(w) {
		return term.NewScreen(term.Unwrap(w))
	}
	return w
}

// ResetTerminal undoes what was printed to a terminal and stays, such as colors.
func ResetTerminal(w io.Writer) {
	if s, ok := w.(*term.Screen); ok {
		_ = s.Close() // there may be no terminal any more
	}
}

// Shell is the command line of a shell in a container: bash where the image has it.
var Shell = []string{"sh", "-c", "command -v bash >/dev/null && exec bash || exec sh"}
