package helptext

import (
	"strings"
	"unicode/utf8"
)

// Page is the help of a program or of one command.
type Page struct {
	// Summary is one line, Usage the syntax of a command line.
	Summary, Usage string
	// Body is text in paragraphs. Lines that begin with a space are not wrapped.
	Body string
	// Groups follow the usage, Examples the groups.
	Groups   []Group
	Examples []string
	// Footer is the last paragraph.
	Footer string
}

// Group is a list under a title.
type Group struct {
	Title string
	Items []Item
}

// Item is a name, such as a flag with its placeholder, and its explanation.
type Item struct{ Name, Text string }

// Widths of the text: lines of more than maxWidth are hard to read, and with less than
// minWidth no word would fit beside a name.
const (
	minWidth = 40
	maxWidth = 110
	// maxName is the widest name that its text follows on the same line.
	maxName = 32
)

// Text returns the page in lines of at most width columns, except single words and lines that are not
// wrapped. Bold formats titles; it may be nil.
func (p Page) Text(width int, bold func(string) string) string {
	width = min(max(width, minWidth), maxWidth)
	if bold == nil {
		bold = func(s string) string { return s }
	}
	var b strings.Builder
	b.WriteString(Indented("", p.Summary, width) + "\n")
	title := func(text string) { b.WriteString("\n" + bold(text+":") + "\n") }
	title("Usage")
	b.WriteString("  " + p.Usage + "\n")
	if p.Body != "" {
		b.WriteString("\n" + Wrap(p.Body, width))
	}
	for _, g := range p.Groups {
		title(g.Title)
		b.WriteString(g.text(width))
	}
	if len(p.Examples) > 0 {
		title("Examples")
		for _, line := range p.Examples {
			b.WriteString("  " + line + "\n")
		}
	}
	if p.Footer != "" {
		b.WriteString("\n" + Wrap(p.Footer, width))
	}
	return b.String()
}

// text returns the names in one column and the explanations in another, or below a long name.
func (g Group) text(width int) string {
	column := 0
	for _, item := range g.Items {
		if n := utf8.RuneCountInString(item.Name); n <= maxName {
			column = max(column, n)
		}
	}
	column = min(column, width/2)
	var b strings.Builder
	for _, item := range g.Items {
		head := "  " + item.Name
		if n := utf8.RuneCountInString(item.Name); n <= column {
			head += strings.Repeat(" ", column-n)
		} else {
			b.WriteString(head + "\n")
			head = strings.Repeat(" ", column+2)
		}
		b.WriteString(strings.TrimRight(Indented(head+"  ", item.Text, width), " ") + "\n")
	}
	return b.String()
}

// Wrap wraps the paragraphs of a text to a width.
func Wrap(text string, width int) string {
	var b strings.Builder
	var words []string
	flush := func() {
		if len(words) > 0 {
			b.WriteString(Indented("", strings.Join(words, " "), width) + "\n")
			words = nil
		}
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \n")
		switch {
		case line == "":
			flush()
			b.WriteString("\n")
		case line[0] == ' ':
			flush()
			b.WriteString(line + "\n")
		default:
			words = append(words, line)
		}
	}
	flush()
	return b.String()
}

// Indented returns text after a head; its other lines are indented by the width of the head.
func Indented(head, text string, width int) string {
	indent := utf8.RuneCountInString(head)
	var b strings.Builder
	b.WriteString(head)
	used := indent
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case used+1+n > width:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			used = indent
		default:
			b.WriteString(" ")
			used++
		}
		b.WriteString(word)
		used += n
	}
	return b.String()
}
