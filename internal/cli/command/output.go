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

// Formatted prints items with a Go template of the user's.
func Formatted[T any](w io.Writer, verb, text string, items []T) error {
	err := console.WriteTemplate(w, text, items)
	if errors.As(err, new(*console.TemplateError)) {
		return Usagef(verb, "%v", err)
	}
	return err
}

// PrintItems prints items in the format that the line asks for: JSON or YAML as a list, a
// template for each, or as text.
func PrintItems[T any](w io.Writer, c *cli.Context, items []T, text func(wide bool) error) error {
	return printAs(w, c, append([]T{}, items...), items, text) // an empty list is one too
}

// PrintItem does the same for one item, which is no list.
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
	return Formatted(w, CommandPath(c), format, items)
}

// CheckFormat refuses an unknown format. A verb that does something calls it first.
func CheckFormat(c *cli.Context) error {
	if err := console.CheckFormat(c.String("format"), console.FormatTable, console.FormatWide, console.FormatJSON, console.FormatYAML); err != nil {
		return Usagef(CommandPath(c), "%v", err)
	}
	return nil
}

// Listing is a list of items that have columns.
type Listing[T any] struct {
	Items []T
	// Id is what --quiet prints; nil for a verb without that flag.
	Id      func(T) string
	Columns []Column[T]
}

// OnTerminal returns a text behind a head, with lines as long as the terminal w is wide; one
// line if w is none. A text that has lines already keeps them.
func OnTerminal(w io.Writer, head, text string) string {
	width := console.TerminalWidth(w)
	if width == 0 || strings.Contains(text, "\n") {
		return head + text
	}
	return helptext.Indented(head, text, width)
}

// Column is a column of a list. What is wide is shown with --format wide only.
type Column[T any] struct {
	Head string
	Cell func(T) string
	Wide bool
	// Key is what --sort calls the column, if not by its header; order compares items
	// where the text of the cell would not do.
	Key   string
	Order func(a, b T) int
}

func (l Listing[T]) Print(w io.Writer, c *cli.Context) error {
	if err := CheckFormat(c); err != nil {
		return err
	}
	if err := l.Sort(c); err != nil {
		return err
	}
	if c.Bool("quiet") {
		for _, v := range l.Items {
			fmt.Fprintln(w, l.Id(v))
		}
		return nil
	}
	return PrintItems(w, c, l.Items, func(wide bool) error {
		return console.WriteList(w, l.Rows(wide, !c.Bool("noheading")), wide)
	})
}

func (l Listing[T]) Rows(wide, heading bool) (rows [][]string) {
	line := func(cell func(Column[T]) string) {
		var row []string
		for _, col := range l.Columns {
			if wide || !col.Wide {
				row = append(row, cell(col))
			}
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

// Sort puts the items into the order that --sort asks for.
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
	return Usagef(CommandPath(c), "--sort %s: it is one of %s", wanted, strings.Join(keys, ", "))
}

func Size(bytes int64) string {
	if bytes == 0 {
		return "-"
	}
	return units.BytesSize(float64(bytes))
}

func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// NoValue stands for what is not known.
const NoValue = "-"
