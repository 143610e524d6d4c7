package main

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cpuguy83/go-md2man/v2/md2man"
)

var (
	flagLine    = regexp.MustCompile("^\\* `([^`]+)`: (.*)$")
	keyRow      = regexp.MustCompile("^\\| `([^`]+)`( \\+)? \\|(.*)\\|$")
	pageLinks   = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	commandLine = regexp.MustCompile(`^\* \[([^\]]+)\]\(podtask[a-z-]*\.md\): (.*)$`)
	linkToPage  = regexp.MustCompile(`\]\((?:commands/)?(podtask[a-z-]*)\.md[)#]`)
	docsPage    = regexp.MustCompile(`\bdocs/[a-z-]+\.md`)
	manName     = regexp.MustCompile(`\b(?:podman-)?systemd\.[a-z-]+\([0-9]\)`)
)

// page is a page of the manual.
type page struct {
	name    string
	section int
	version string
	date    time.Time
	// docs is the directory with docs/ of the installed documentation, and others are the other pages as they are named in
	// "SEE ALSO": podtask-run(1).
	docs   string
	others []string
}

// manPage turns a page of the documentation into a man page. Lists of flags and tables of
// keys become lists of terms, because a terminal is narrow.
func (p page) manPage(markdown []byte) []byte {
	text, lists := p.prepare(markdown)
	text += fmt.Sprintf("\n# SEE ALSO\n%s\n", strings.Join(p.seeAlso(markdown), ", "))
	out := bytes.Replace(md2man.Render([]byte(text)), []byte("\n"+p.name+" - "), []byte("\n"+p.name+` \- `), 1)
	width := 0
	for _, item := range slices.Concat(lists...) {
		width = max(width, len(item[0]))
	}
	for i, list := range lists {
		out = bytes.Replace(out, fmt.Appendf(nil, "LIST-%d\n", i), tightList(list, min(width+3, 28)), 1)
	}
	return out
}

// prepare turns a page into what md2man expects, with LIST-0, LIST-1, ... in place of lists of commands.
func (p page) prepare(markdown []byte) (text string, lists [][][2]string) {
	var b strings.Builder
	fmt.Fprintf(&b, "%% %s %d \"%s\" \"podtask %s\" \"podtask\"\n\n", strings.ToUpper(p.name), p.section, p.date.Format("2006-01-02"), p.version)
	inTable, inList := false, false
	for line := range strings.Lines(string(markdown)) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "<!--") {
			continue
		}
		command := commandLine.FindStringSubmatch(line)
		if command != nil {
			if !inList {
				fmt.Fprintf(&b, "LIST-%d\n\n", len(lists))
				lists = append(lists, nil)
			}
			lists[len(lists)-1] = append(lists[len(lists)-1], [2]string{command[1], command[2]})
		} else {
			b.WriteString(p.line(line, inTable))
		}
		inTable, inList = strings.HasPrefix(line, "|"), command != nil
	}
	return b.String(), lists
}

// line turns a line of a page into what md2man expects; inTable is whether the line before is of a table.
func (p page) line(line string, inTable bool) string {
	if !strings.HasPrefix(line, "    ") {
		line = pageLinks.ReplaceAllString(line, "$1")
		line = strings.ReplaceAll(line, "&lt;", `\<`)
		line = docsPage.ReplaceAllString(line, p.docs+"/$0")
	}
	term, text := "", ""
	if m := flagLine.FindStringSubmatch(line); m != nil {
		term, text = m[1], m[2]
	} else if m := keyRow.FindStringSubmatch(line); m != nil {
		term, text = m[1], cells(m[3])
	}
	switch {
	case term != "":
		return fmt.Sprintf("**%s**\n: %s\n\n", strings.ReplaceAll(term, "*", `\*`), text)
	case strings.HasPrefix(line, "|") && (inTable || strings.HasPrefix(line, "| key") || strings.HasPrefix(line, "| command")):
		return "" // the head of a table of keys says nothing without its columns
	case strings.HasPrefix(line, "# "):
		title := strings.TrimPrefix(line, "# ")
		if _, summary, ok := strings.Cut(title, ": "); ok {
			title = summary
		}
		head := fmt.Sprintf("# NAME\n%s - %s\n\n", p.name, strings.ToLower(title[:1])+title[1:])
		if p.section == 5 {
			head += "# DESCRIPTION\n"
		}
		return head
	case strings.HasPrefix(line, "## "):
		return "# " + strings.ToUpper(strings.TrimPrefix(line, "## ")) + "\n"
	}
	return line + "\n"
}

// tightList is a list of commands without empty lines between them; the first column is of the given width.
func tightList(list [][2]string, width int) []byte {
	var b bytes.Buffer
	b.WriteString(".PD 0\n")
	for _, item := range list {
		fmt.Fprintf(&b, ".TP %d\n\\fB%s\\fP\n%s\n", width, roff(item[0]), roff(item[1]))
	}
	b.WriteString(".PD\n")
	return b.Bytes()
}

// roff is text as roff takes it.
func roff(text string) string {
	text = strings.NewReplacer("`", "", `\`, `\e`, "-", `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		return `\&` + text
	}
	return text
}

// seeAlso are the pages above and below this one, those that its text links to, and those of files.
func (p page) seeAlso(markdown []byte) []string {
	var names []string
	add := func(name string) {
		if name != fmt.Sprintf("%s(%d)", p.name, p.section) && slices.Contains(p.others, name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if p.section == 5 {
		add("podtask(1)")
	}
	for above := p.name; strings.Contains(above, "-"); {
		above = above[:strings.LastIndex(above, "-")]
		add(above + "(1)")
	}
	if p.name != "podtask" { // which lists them all
		for _, m := range linkToPage.FindAllSubmatch(markdown, -1) {
			add(string(m[1]) + "(1)")
		}
	}
	for _, m := range manName.FindAllString(string(markdown), -1) {
		if !slices.Contains(p.others, m) && !slices.Contains(names, m) { // of others, such as systemd.unit(5)
			names = append(names, m)
		}
	}
	for command, pages := range related {
		if p.name == command || strings.HasPrefix(p.name, command+"-") {
			for _, name := range pages {
				add(name)
			}
		}
	}
	add("podtask.task(5)")
	add("podtask.toml(5)")
	if p.name == "podtask" {
		names = append(names, "podman(1)", "systemctl(1)")
	}
	return names
}

// related are the pages that a reader of another one wants next.
var related = map[string][]string{
	"podtask-run":     {"podtask-init(1)", "podtask-plan(1)", "podtask-ps(1)", "podtask-logs(1)", "podtask-why(1)", "podtask-stop(1)"},
	"podtask-ps":      {"podtask-top(1)", "podtask-inspect(1)", "podtask-why(1)"},
	"podtask-why":     {"podtask-timeline(1)", "podtask-events(1)", "podtask-doctor(1)"},
	"podtask-logs":    {"podtask-events(1)"},
	"podtask-stop":    {"podtask-kill(1)", "podtask-rm(1)", "podtask-wait(1)"},
	"podtask-service": {"podtask-agent(1)", "podtask-ingress(1)"},
	"podtask-unit":    {"podtask-import(1)", "podtask-generate(1)", "podtask-user-generator(1)"},
	"podtask-agent":   {"podtask-service(1)", "podtask-doctor(1)"},
	"podtask-import":  {"podtask-compose(1)", "podtask-validate(1)", "podtask-unit(1)"},
	"podtask-doctor":  {"podtask-info(1)"},
	"podtask-info":    {"podtask-doctor(1)", "podtask-version(1)"},
	"podtask-init":    {"podtask-run(1)", "podtask-validate(1)"},
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
