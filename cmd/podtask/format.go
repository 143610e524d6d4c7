package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"text/template"
	"time"
	"unicode/utf8"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"
)

// writeJSON prints v for people and programs: indented, <, > and & as they are.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "    ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// writeTemplate prints each item with a Go template, as podman and docker do:
// \t and \n may be written in the shell, {{json .}} gives JSON.
func writeTemplate[T any](w io.Writer, verb, text string, items []T) error {
	text = strings.NewReplacer(`\t`, "\t", `\n`, "\n").Replace(text)
	tmpl, err := template.New("format").Funcs(template.FuncMap{"json": toJSON, "lower": strings.ToLower, "upper": strings.ToUpper, "join": strings.Join}).Parse(text)
	if err != nil {
		return usagef(verb, "--format is json, table or a Go template: %s", strings.TrimPrefix(err.Error(), "template: "))
	}
	for _, item := range items {
		if err := tmpl.Execute(w, item); err != nil {
			return usagef(verb, "--format: %s", strings.TrimPrefix(err.Error(), "template: "))
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	return nil
}

func toJSON(v any) (string, error) {
	b, err := json.Marshal(v)
	return string(b), err
}

// writeList prints a table of which each row is one thing. On a terminal lines end at
// its edge, so that rows stay rows.
func writeList(w io.Writer, rows [][]string) error {
	return writeTable(upTo(edge(w), w), rows)
}

// edge is how wide the terminal is that w is; 0 for none.
func edge(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			return width
		}
	}
	return 0
}

// upTo is a writer to w whose lines end at a width; 0 lets them be.
func upTo(width int, w io.Writer) io.Writer {
	if width == 0 {
		return w
	}
	return &lineCutter{to: w, width: width}
}

// printList prints what --quiet and --format ask for: the id of each, JSON, a template,
// whose fields verb names in its errors, or a table.
func printList[T any](w io.Writer, c *cli.Context, verb string, all []T, id func(T) string, table func() error) error {
	switch format := c.String("format"); {
	case c.Bool("quiet"):
		for _, v := range all {
			fmt.Fprintln(w, id(v))
		}
		return nil
	case format == "json":
		return writeJSON(w, append([]T{}, all...)) // an empty list is one too
	case format == "" || format == "table":
		return table()
	default:
		return writeTemplate(w, verb, format, all)
	}
}

// writeTable prints rows in columns, the headers being the first.
func writeTable(w io.Writer, rows [][]string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, row := range rows {
		for i := range row {
			row[i] = oneLine(row[i])
		}
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	return tw.Flush()
}

// lineCutter cuts lines of text that are wider than a terminal.
type lineCutter struct {
	to    io.Writer
	width int
	used  int
}

func (c *lineCutter) Write(b []byte) (int, error) {
	kept := make([]byte, 0, len(b))
	for _, r := range string(b) {
		switch c.used++; {
		case r == '\n':
			kept, c.used = append(kept, '\n'), 0
		case c.used <= c.width:
			kept = utf8.AppendRune(kept, r)
		}
	}
	if _, err := c.to.Write(kept); err != nil {
		return 0, err
	}
	return len(b), nil
}

// ago says how long ago something was, in words.
func ago(now, at time.Time) string {
	d := now.Sub(at)
	for _, unit := range []struct {
		name string
		of   time.Duration
	}{{"day", 24 * time.Hour}, {"hour", time.Hour}, {"minute", time.Minute}, {"second", time.Second}} {
		switch n := int(d / unit.of); {
		case n == 1:
			return "1 " + unit.name + " ago"
		case n > 1:
			return fmt.Sprintf("%d %ss ago", n, unit.name)
		}
	}
	return "just now"
}
