package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/podtask/podtask/internal/console"
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

// printList prints what --quiet and --format ask for: the id of each, JSON, a template
// or a table.
func printList[T any](w io.Writer, c *cli.Context, all []T, id func(T) string, table func() error) error {
	switch format := c.String("format"); {
	case c.Bool("quiet"):
		for _, v := range all {
			fmt.Fprintln(w, id(v))
		}
		return nil
	case format == "json":
		return console.WriteJSON(w, append([]T{}, all...)) // an empty list is one too
	case format == "" || format == "table":
		return table()
	default:
		return formatted(w, commandPath(c), format, all)
	}
}
