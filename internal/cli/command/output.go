package command

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/docker/go-units"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/cli/helptext"
	"github.com/urfave/cli/v2"
)

// PrintTemplate prints each item with the Go template of a user.
func PrintTemplate[T any](w io.Writer, verb, text string, items []T) error {
	err := console.WriteTemplate(w, text, items)
	if errors.As(err, new(*console.TemplateError)) {
		return Usagef(verb, "%v", err)
	}
	return err
}

// PrintItems prints items in the format that --format names: a list in JSON or YAML, a template for
// each, or text.
func PrintItems[T any](w io.Writer, c *cli.Context, items []T, text func(wide bool) error) error {
	return printAs(w, c, append([]T{}, items...), items, text) // no items are an empty list, not null
}

// PrintItem is PrintItems for one item that is not a list.
func PrintItem[T any](w io.Writer, c *cli.Context, item T, text func() error) error {
	return printAs(w, c, item, []T{item}, func(bool) error { return text() })
}

func printAs[T any](w io.Writer, c *cli.Context, whole any, items []T, text func(wide bool) error) error {
	format := c.String("format")
	if err := CheckFormat(c); err != nil {
		return err
	}
	switch format {
	case "", console.FormatTable, console.FormatWide:
		return text(format == console.FormatWide)
	case console.FormatJSON:
		return console.WriteJSON(w, whole)
	case console.FormatYAML:
		return console.WriteYAML(w, whole)
	}
	return PrintTemplate(w, Path(c), format, items)
}

// CheckFormat returns an error for an unknown format. A command that changes something calls it first.
func CheckFormat(c *cli.Context) error {
	if err := console.CheckFormat(c.String("format"), console.FormatTable, console.FormatWide, console.FormatJSON, console.FormatYAML); err != nil {
		return Usagef(Path(c), "%v", err)
	}
	return nil
}

// Listing is a table of items.
type Listing[T any] struct {
	Items []T
	// ID returns what --quiet prints; nil for a command without that flag.
	ID      func(T) string
	Columns []Column[T]
	// None is printed on Hints in place of a table without rows: what to do, or what is left out. So a script reads
	// nothing from stdout. If None is empty, a table without rows has its headers.
	None  string
	Hints io.Writer
}

// OnTerminal returns head and text, wrapped to the width of the terminal w; one line if w is not a
// terminal. A text with line breaks is not wrapped.
func OnTerminal(w io.Writer, head, text string) string {
	width := console.TerminalWidth(w)
	if width == 0 || strings.Contains(text, "\n") {
		return head + text
	}
	return helptext.Indented(head, text, width)
}

// Column is a column of a table. Wide columns are shown with --format wide only, where an item has a value.
type Column[T any] struct {
	Head string
	Cell func(T) string
	Wide bool
	// Key is the column's name for --sort; empty for the header in small letters. Order compares
	// items; nil compares their cells.
	Key   string
	Order func(a, b T) int
}

// Print prints the table in the format and order that the flags ask for.
func (l Listing[T]) Print(w io.Writer, c *cli.Context) error {
	if err := CheckFormat(c); err != nil {
		return err
	}
	if err := l.Sort(c); err != nil {
		return err
	}
	if c.Bool("quiet") {
		for _, v := range l.Items {
			fmt.Fprintln(w, l.ID(v))
		}
		return nil
	}
	return PrintItems(w, c, l.Items, func(wide bool) error {
		if len(l.Items) == 0 && l.None != "" {
			if !c.Bool("noheading") {
				fmt.Fprintln(l.Hints, OnTerminal(l.Hints, "", l.None))
			}
			return nil
		}
		return console.WriteList(w, l.Rows(wide, !c.Bool("noheading")), wide)
	})
}

// Rows returns the cells, with the headers first if heading is set.
func (l Listing[T]) Rows(wide, heading bool) (rows [][]string) {
	columns := slices.DeleteFunc(slices.Clone(l.Columns), func(col Column[T]) bool {
		return col.Wide && (!wide || !slices.ContainsFunc(l.Items, func(v T) bool { cell := col.Cell(v); return cell != "" && cell != NoValue }))
	})
	line := func(cell func(Column[T]) string) {
		var row []string
		for _, col := range columns {
			row = append(row, cell(col))
		}
		rows = append(rows, row)
	}
	if heading {
		line(func(col Column[T]) string { return col.Head })
	}
	for _, v := range l.Items {
		line(func(col Column[T]) string { return col.Cell(v) })
	}
	return rows
}

// Sort sorts the items by the column that --sort names.
func (l Listing[T]) Sort(c *cli.Context) error {
	wanted := c.String("sort")
	if wanted == "" {
		return nil
	}
	var keys []string
	for _, col := range l.Columns {
		key := cmp.Or(col.Key, strings.ReplaceAll(strings.ToLower(col.Head), " ", "-"))
		if key != strings.ToLower(wanted) {
			keys = append(keys, key)
			continue
		}
		order := col.Order
		if order == nil {
			order = func(a, b T) int { return strings.Compare(col.Cell(a), col.Cell(b)) }
		}
		slices.SortStableFunc(l.Items, order)
		return nil
	}
	return Usagef(Path(c), "--sort %s: it is one of %s", wanted, strings.Join(keys, ", "))
}

// Size formats a number of bytes; 0 is NoValue.
func Size(bytes int64) string {
	if bytes == 0 {
		return NoValue
	}
	return units.BytesSize(float64(bytes))
}

// Plural returns "1 task" or "2 tasks".
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// NoValue is printed for an unknown value.
const NoValue = "-"
