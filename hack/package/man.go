package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/cpuguy83/go-md2man/v2/md2man"
)

var (
	flagLine  = regexp.MustCompile("^\\* `([^`]+)`: (.*)$")
	keyRow    = regexp.MustCompile("^\\| `([^`]+)`( \\+)? \\|(.*)\\|$")
	pageLinks = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// manPage turns a page of the documentation into a man page. Lists of flags and tables of
// keys become lists of terms, because a terminal is narrow.
func manPage(name string, section int, version string, date time.Time, markdown []byte) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%% %s %d \"%s\" \"podtask %s\" \"podtask\"\n\n", strings.ToUpper(name), section, date.Format("2006-01-02"), version)
	table := false
	for line := range strings.Lines(string(markdown)) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "<!--") {
			continue
		}
		if !strings.HasPrefix(line, "    ") {
			line = pageLinks.ReplaceAllString(line, "$1")
			line = strings.ReplaceAll(line, "&lt;", `\<`)
		}
		term, text := "", ""
		if m := flagLine.FindStringSubmatch(line); m != nil {
			term, text = m[1], m[2]
		} else if m := keyRow.FindStringSubmatch(line); m != nil {
			term, text = m[1], cells(m[3])
		}
		isRow := strings.HasPrefix(line, "|")
		switch {
		case term != "":
			fmt.Fprintf(&b, "**%s**\n: %s\n\n", strings.ReplaceAll(term, "*", `\*`), text)
		case isRow && (table || strings.HasPrefix(line, "| key") || strings.HasPrefix(line, "| command")):
			// The head of a table of keys says nothing without its columns.
		case strings.HasPrefix(line, "# "):
			title := strings.TrimPrefix(line, "# ")
			if _, summary, ok := strings.Cut(title, ": "); ok {
				title = summary
			}
			fmt.Fprintf(&b, "# NAME\n%s - %s\n\n", name, strings.ToLower(title[:1])+title[1:])
			if section == 5 {
				b.WriteString("# DESCRIPTION\n")
			}
		case strings.HasPrefix(line, "## "):
			b.WriteString("# " + strings.ToUpper(strings.TrimPrefix(line, "## ")) + "\n")
		default:
			b.WriteString(line + "\n")
		}
		table = isRow
	}
	return bytes.Replace(md2man.Render([]byte(b.String())), []byte("\n"+name+" - "), []byte("\n"+name+` \- `), 1)
}

// cells joins the cells of a row that are not empty; the last is the meaning.
func cells(row string) string {
	var parts []string
	for cell := range strings.SplitSeq(strings.ReplaceAll(row, `\|`, "\x00"), "|") {
		if cell = strings.TrimSpace(strings.ReplaceAll(cell, "\x00", "|")); cell != "" {
			parts = append(parts, cell)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	last := parts[len(parts)-1]
	if rest := parts[:len(parts)-1]; len(rest) > 0 {
		return last + " (" + strings.Join(rest, "; ") + ")"
	}
	return last
}
