package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/cli/helptext"
	"github.com/urfave/cli/v2"
)

// formatted prints items with a Go template of the user's.
func formatted[T any](w io.Writer, verb, text string, items []T) error {
	err := console.WriteTemplate(w, text, items)
	if errors.As(err, new(*console.TemplateError)) {
		return usagef(verb, "%v", err)
	}
	return err
}

// printItems prints items in the format that the line asks for: JSON or YAML as a list, a
// template for each, or as text.
func printItems[T any](w io.Writer, c *cli.Context, items []T, text func(wide bool) error) error {
	return printAs(w, c, append([]T{}, items...), items, text) // an empty list is one too
}

// printItem does the same for one item, which is no list.
func printItem[T any](w io.Writer, c *cli.Context, item T, text func() error) error {
	return printAs(w, c, item, []T{item}, func(bool) error { return text() })
}

func printAs[T any](w io.Writer, c *cli.Context, whole any, items []T, text func(wide bool) error) error {
	format := c.String("format")
	if err := checkFormat(c); err != nil {
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
	return formatted(w, commandPath(c), format, items)
}

// checkFormat refuses an unknown format. A verb that does something calls it first.
func checkFormat(c *cli.Context) error {
	if err := console.CheckFormat(c.String("format"), console.FormatTable, console.FormatWide, console.FormatJSON, console.FormatYAML); err != nil {
		return usagef(commandPath(c), "%v", err)
	}
	return nil
}

// listing is a list of items that have columns.
type listing[T any] struct {
	items []T
	// id is what --quiet prints; nil for a verb without that flag.
	id      func(T) string
	columns []column[T]
}

// onTerminal returns a text behind a head, with lines as long as the terminal w is wide; one
// line if w is none. A text that has lines already keeps them.
func onTerminal(w io.Writer, head, text string) string {
	width := console.TerminalWidth(w)
	if width == 0 || strings.Contains(text, "\n") {
		return head + text
	}
	return helptext.Indented(head, text, width)
}

// column is a column of a list. What is wide is shown with --format wide only.
type column[T any] struct {
	head string
	cell func(T) string
	wide bool
	// key is what --sort calls the column, if not by its header; order compares items
	// where the text of the cell would not do.
	key   string
	order func(a, b T) int
}

func (l listing[T]) print(w io.Writer, c *cli.Context) error {
	if err := checkFormat(c); err != nil {
		return err
	}
	if err := l.sort(c); err != nil {
		return err
	}
	if c.Bool("quiet") {
		for _, v := range l.items {
			fmt.Fprintln(w, l.id(v))
		}
		return nil
	}
	return printItems(w, c, l.items, func(wide bool) error {
		return console.WriteList(w, l.rows(wide, !c.Bool("noheading")), wide)
	})
}

func (l listing[T]) rows(wide, heading bool) (rows [][]string) {
	line := func(cell func(column[T]) string) {
		var row []string
		for _, col := range l.columns {
			if wide || !col.wide {
				row = append(row, cell(col))
			}
		}
		rows = append(rows, row)
	}
	if heading {
		line(func(col column[T]) string { return col.head })
	}
	for _, v := range l.items {
		line(func(col column[T]) string { return col.cell(v) })
	}
	return rows
}

// sort puts the items into the order that --sort asks for.
func (l listing[T]) sort(c *cli.Context) error {
	wanted := c.String("sort")
	if wanted == "" {
		return nil
	}
	var keys []string
	for _, col := range l.columns {
		key := cmp.Or(col.key, strings.ReplaceAll(strings.ToLower(col.head), " ", "-"))
		if key != strings.ToLower(wanted) {
			keys = append(keys, key)
			continue
		}
		order := col.order
		if order == nil {
			order = func(a, b T) int { return strings.Compare(col.cell(a), col.cell(b)) }
		}
		slices.SortStableFunc(l.items, order)
		return nil
	}
	return usagef(commandPath(c), "--sort %s: it is one of %s", wanted, strings.Join(keys, ", "))
}
