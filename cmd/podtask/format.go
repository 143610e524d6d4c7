package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"text/template"
	"time"
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
