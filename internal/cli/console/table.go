package console

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
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

// WideWidth is the number of columns that a wide list fits into, unless a user wants it whole.
const WideWidth = 160

// WriteList prints a table with one item per row, in at most width columns; 0 means no limit. Where rows are wider, cells of the
// widest columns are shortened as long as they can be read, then the last columns but keep are left out, and then cells are
// shortened further. The first column has the names: it is shortened last. It returns the headers of what is left out.
func WriteList(w io.Writer, rows [][]string, width, keep int) (left []string, err error) {
	if width > 0 {
		rows, left = fitRows(rows, width, keep)
		w = CutLines(width, w)
	}
	return left, WriteTable(w, rows)
}

// gap is the number of blanks between columns.
const gap = 3

// Smallest widths of a column that is shortened, in characters.
const (
	readableColumn = 25 // while other columns can be left out instead
	leastColumn    = 12
)

// fitRows shortens cells of the widest columns and leaves out columns after the first keep, so that rows fit into a width if that is possible.
func fitRows(rows [][]string, width, keep int) (fitted [][]string, left []string) {
	columns := fitColumns(widths(rows), width, keep)
	for _, row := range rows {
		var cells []string
		for i, cell := range row[:min(len(row), len(columns))] {
			cells = append(cells, shortened(term.Line(cell), columns[i]))
		}
		fitted = append(fitted, cells)
	}
	if len(rows) > 0 {
		left = rows[0][len(fitted[0]):]
	}
	return fitted, left
}

// fitColumns returns the widths of the columns that are shown.
func fitColumns(all []int, width, keep int) (columns []int) {
	for n := len(all); ; n-- {
		columns = slices.Clone(all[:n])
		excess := -width - gap
		for _, w := range columns {
			excess += w + gap
		}
		excess = shrink(columns, 1, excess, readableColumn)
		if excess <= 0 || n <= max(1, keep) {
			excess = shrink(columns, 1, excess, leastColumn)
			shrink(columns, 0, excess, leastColumn)
			return columns
		}
	}
}

// widths returns the numbers of characters of columns.
func widths(rows [][]string) (columns []int) {
	for _, row := range rows {
		for i, cell := range row {
			if i == len(columns) {
				columns = append(columns, 0)
			}
			columns[i] = max(columns[i], utf8.RuneCountInString(term.Line(cell)))
		}
	}
	return columns
}

// shrink takes characters from the widest columns, from the one with an index on and down to a width, and returns how many are still
// too many.
func shrink(columns []int, first, excess, least int) int {
	for ; excess > 0; excess-- {
		widest := -1
		for i := first; i < len(columns); i++ {
			if columns[i] > least && (widest < 0 || columns[i] >= columns[widest]) { // of equal ones the last, which tells less
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		columns[widest]--
	}
	return excess
}

// shortened returns a text of at most n characters. A name, an image or an address keeps its end, which tells copies,
// tags and ports apart; a text of several words does not.
func shortened(text string, n int) string {
	all := []rune(text)
	if len(all) <= n {
		return text
	}
	tail := 0
	if !strings.Contains(text, " ") {
		tail = (n - 1) / 2
	}
	return string(all[:n-1-tail]) + "…" + string(all[len(all)-tail:])
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
