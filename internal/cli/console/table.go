package console

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/podtask/podtask/internal/term"
	xterm "golang.org/x/term"
)

// WriteJSON prints v as indented JSON, without escaping <, > and &.
func WriteJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "    ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// WriteList prints a table with one item per row. On a terminal, rows that are too wide are cut unless whole
// is set.
func WriteList(w io.Writer, rows [][]string, whole bool) error {
	if !whole {
		w = CutLines(TerminalWidth(w), w)
	}
	return WriteTable(w, rows)
}

// TerminalWriter is a writer whose lines are written to To in the end, so that the width of To applies.
type TerminalWriter struct {
	io.Writer
	To io.Writer
}

// TerminalWidth returns the width of the terminal w; 0 if w is not a terminal.
func TerminalWidth(w io.Writer) int {
	width, _ := terminalSize(w)
	return width
}

// terminalSize returns the columns and rows of a terminal; 0 for what is none.
func terminalSize(w io.Writer) (columns, rows int) {
	if v, ok := w.(TerminalWriter); ok {
		return terminalSize(v.To)
	}
	if f, ok := w.(*os.File); ok {
		if columns, rows, err := xterm.GetSize(int(f.Fd())); err == nil {
			return columns, rows
		}
	}
	return 0, 0
}

// CutLines returns a writer to w that cuts lines at a width; 0 means no limit.
func CutLines(width int, w io.Writer) io.Writer {
	if width == 0 {
		return w
	}
	return &lineCutter{to: w, width: width}
}

// WriteTable prints rows in columns; the first row has the headers.
func WriteTable(w io.Writer, rows [][]string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, row := range rows {
		for i := range row {
			row[i] = term.Line(row[i])
		}
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	return tw.Flush()
}

// lineCutter cuts lines that are too wide and ends them with an ellipsis.
type lineCutter struct {
	to    io.Writer
	width int
	used  int
	last  rune // the one at the edge, until it is known whether another one follows
}

func (c *lineCutter) Write(b []byte) (int, error) {
	kept := make([]byte, 0, len(b))
	for _, r := range string(b) {
		switch c.used++; {
		case r == '\n':
			if c.used > c.width {
				kept = utf8.AppendRune(kept, c.last)
			}
			kept, c.used = append(kept, '\n'), 0
		case c.used < c.width:
			kept = utf8.AppendRune(kept, r)
		case c.used == c.width:
			c.last = r
		case r != ' ':
			c.last = '…'
		}
	}
	if _, err := c.to.Write(kept); err != nil {
		return 0, err
	}
	return len(b), nil
}
