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

// Column is a column of a table. Wide columns are shown with --format wide only, where they tell something of an item.
type Column[T any] struct {
	Head string
	Cell func(T) string
	Wide bool
	// Key is the column's name for --sort; empty for the header in small letters. Order compares
	// items; nil compares their cells.
	Key   string
	Order func(a, b T) int
	// Repeats reports that the rest of the row says what the cell of a wide column says; nil for a cell that never repeats anything.
	Repeats func(T) bool
}

// tells reports whether the cell of an item says something that the rest of its row does not say.
func (col Column[T]) tells(v T) bool {
	cell := col.Cell(v)
	return cell != "" && cell != NoValue && (col.Repeats == nil || !col.Repeats(v))
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
		left, err := console.WriteList(w, l.Rows(wide, !c.Bool("noheading")), listWidth(w, c, wide), l.least(wide))
		if err == nil && len(left) > 0 && l.Hints != nil && !c.Bool("noheading") {
			fmt.Fprintln(l.Hints, OnTerminal(l.Hints, "", "Left out: "+strings.Join(left, ", ")+". --no-trunc shows all."))
		}
		return err
	})
}

// listWidth returns the number of columns that a list may have: those of the terminal. A wide list has at least
// console.WideWidth, also without a terminal, if the command has a flag to see it whole. 0 means no limit.
func listWidth(w io.Writer, c *cli.Context, wide bool) int {
	hasFlag := slices.ContainsFunc(c.Command.Flags, func(f cli.Flag) bool { return f.Names()[0] == noTrunc })
	switch {
	case !wide:
		return console.TerminalWidth(w)
	case !hasFlag || c.Bool(noTrunc):
		return 0
	}
	return max(console.WideWidth, console.TerminalWidth(w))
}

// Rows returns the cells, with the headers first if heading is set.
func (l Listing[T]) Rows(wide, heading bool) (rows [][]string) {
	columns := l.shown(wide)
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

// shown returns the columns that the table has.
func (l Listing[T]) shown(wide bool) []Column[T] {
	return slices.DeleteFunc(slices.Clone(l.Columns), func(col Column[T]) bool {
		return col.Wide && (!wide || !slices.ContainsFunc(l.Items, col.tells))
	})
}

// least returns how many columns stay where there is little room: all that are not wide, and those before them.
func (l Listing[T]) least(wide bool) (n int) {
	for i, col := range l.shown(wide) {
		if !col.Wide {
			n = i + 1
		}
	}
	return n
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

// Images returns images in a cell: unless whole is set, the first one without its registry and digest, and how many more there are.
func Images(images []string, whole bool) string {
	if whole || len(images) == 0 {
		return strings.Join(images, ", ")
	}
	first, _, _ := strings.Cut(images[0], "@")
	first = first[strings.LastIndex(first, "/")+1:]
	if len(images) == 1 {
		return first
	}
	return fmt.Sprintf("%s +%d", first, len(images)-1)
}

// NoValue is printed for an unknown value.
const NoValue = "-"
