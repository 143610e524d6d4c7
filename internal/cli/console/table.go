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
	enc := json.NewEncoder(term.JSON(w))
	enc.SetIndent("", "    ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// WriteList prints a table with one item per row. On a terminal, unless whole is set, the cells of the widest columns
// are shortened until rows fit, and rows that still are too wide are cut.
func WriteList(w io.Writer, rows [][]string, whole bool) error {
	if width := TerminalWidth(w); !whole && width > 0 {
		rows = fitRows(rows, width)
		w = CutLines(width, w)
	}
	return WriteTable(w, rows)
}

// gap is the number of blanks between columns.
const gap = 3

// leastColumn is the smallest width of a column that is shortened, in characters.
const leastColumn = 12

// fitRows shortens cells of the widest columns, so that rows fit into a width if that is possible.
func fitRows(rows [][]string, width int) [][]string {
	var columns []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(columns) {
				columns = append(columns, 0)
			}
			columns[i] = max(columns[i], utf8.RuneCountInString(term.Line(cell)))
		}
	}
	excess := -width - gap
	for _, n := range columns {
		excess += n + gap
	}
	for ; excess > 0; excess-- {
		widest := 0
		for i, n := range columns {
			if n >= columns[widest] { // of equal ones the last, which tells less
				widest = i
			}
		}
		if columns[widest] <= leastColumn {
			break
		}
		columns[widest]--
	}
	fitted := make([][]string, len(rows))
	for k, row := range rows {
		for i, cell := range row {
			if text := []rune(term.Line(cell)); len(text) > columns[i] {
				cell = string(text[:columns[i]-1]) + "…"
			}
			fitted[k] = append(fitted[k], cell)
		}
	}
	return fitted
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
	if f, ok := term.Unwrap(w).(*os.File); ok {
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
	tw := tabwriter.NewWriter(w, 0, 0, gap, ' ', 0)
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
