package taskdef

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// cursor is a place in the document while it is decoded. A nil node means
// absent.
type cursor struct {
	p    *parser
	node *doctree.Node
	ptr  string
}

// at returns the member with a key.
func (c cursor) at(key string) cursor {
	return cursor{c.p, c.node.Member(key), c.ptr + "/" + doctree.Escape(key)}
}

// step follows one reference token: a key, or the index of an item.
func (c cursor) step(token string) cursor {
	if c.node == nil || c.node.Kind != doctree.List {
		return c.at(token)
	}
	next := cursor{c.p, nil, c.ptr + "/" + token}
	if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(c.node.Items) {
		next.node = c.node.Items[i]
	}
	return next
}

// wrong reports that the value cannot be decoded.
func (c cursor) wrong(message, fix string) {
	c.p.broken[c.ptr] = true
	c.p.problems = append(c.p.problems, c.p.problem(c.ptr, c.node.Line, c.node.Col, message, fix))
}

// want reports whether the value is there and of the kind; a wrong kind is a
// problem.
func (c cursor) want(k doctree.Kind, fix string) bool {
	if c.node == nil {
		return false
	}
	if c.node.Kind != k {
		c.wrong(fmt.Sprintf("this must be %s, not %s", k, c.node.Kind), fix)
		return false
	}
	return true
}

// list returns the items, also null ones, so that indices stay those of the
// document.
func (c cursor) list(fix string) []cursor {
	if !c.want(doctree.List, fix) {
		return nil
	}
	items := make([]cursor, len(c.node.Items))
	for i := range items {
		items[i] = c.step(strconv.Itoa(i))
	}
	return items
}

// present reports whether the member is there.
func (c cursor) present() bool { return c.node != nil }

// filled reports whether the member is there and says something.
func (c cursor) filled() bool { return c.node != nil && !c.node.Empty() }

// failed reports whether the value could not be decoded, or is not given yet.
func (c cursor) failed() bool { return c.p.broken[c.ptr] }

// held reports a value that holds a placeholder: it must be given first.
func (c cursor) held() bool {
	if c.node == nil || c.node.Kind != doctree.Text {
		return false
	}
	const most = 8 // of one value, so that nonsense is not answered at length
	names := placeholder.FindAllStringSubmatch(c.node.Text, most)
	if names == nil {
		return false
	}
	c.p.broken[c.ptr] = true
	for _, m := range names {
		c.p.needs = append(c.p.needs, c.p.problem(c.ptr, c.node.Line, c.node.Col,
			"the placeholder "+m[0]+" has no value", "give --var "+m[1]+m[2]+"=VALUE"))
	}
	return true
}

// str returns a text; bare numbers and booleans count as they are written. A
// placeholder in it must be given first.
func (c cursor) str() string {
	if c.held() {
		return ""
	}
	return c.free()
}

// free returns a text in which what looks like a placeholder may be meant for another
// program, such as a shell.
func (c cursor) free() string {
	if c.node == nil {
		return ""
	}
	switch c.node.Kind {
	case doctree.Text, doctree.Number, doctree.Boolean:
		if strings.ContainsRune(c.node.Text, 0) {
			c.wrong("this text holds a NUL character, which no program can be given", "remove it")
			return ""
		}
		return c.node.Text
	}
	c.want(doctree.Text, "")
	return ""
}

// strs returns a list of texts; nil for an absent or empty one.
func (c cursor) strs() []string {
	var out []string
	for _, item := range c.list("write it as a list, one item for each word") {
		out = append(out, item.str())
	}
	return out
}

// decodeWords returns a list of free texts; nil for an absent or empty one.
func decodeWords(c cursor) []string {
	var out []string
	for _, item := range c.list("write it as a list, one item for each word") {
		out = append(out, item.free())
	}
	return out
}

// texts returns free texts by name; nil for an absent or empty object.
func (c cursor) texts() map[string]string {
	if !c.want(doctree.Object, `write {"name": "value"}`) || len(c.node.Fields) == 0 {
		return nil
	}
	out := make(map[string]string, len(c.node.Fields))
	for _, f := range c.node.Fields {
		if strings.ContainsRune(f.Key, 0) {
			c.wrong("a name holds a NUL character", "remove it")
			continue
		}
		out[f.Key] = c.at(f.Key).free()
	}
	return out
}

// flag returns a boolean, and unset for an absent one.
func (c cursor) flag(unset bool) bool {
	if c.node == nil || c.held() {
		return unset
	}
	switch k := c.node.Kind; {
	case (k == doctree.Boolean || k == doctree.Text) && c.node.Text == "true":
		return true
	case (k == doctree.Boolean || k == doctree.Text) && c.node.Text == "false":
		return false
	}
	c.wrong("this must be true or false", "")
	return unset
}

// integer returns a whole number of at least least that fits in 31 bits, and
// unset for an absent one.
func (c cursor) integer(least, unset int64) int64 {
	if c.node == nil || c.node.Kind == doctree.Text && c.node.Text == "" || c.held() {
		return unset
	}
	const most = 1<<31 - 1
	s := strings.TrimSpace(c.node.Text)
	i, err := strconv.ParseInt(s, 10, 64)
	switch {
	case c.node.Kind != doctree.Number && c.node.Kind != doctree.Text:
		c.wrong(fmt.Sprintf("this must be a whole number, not %s", c.node.Kind), "")
	case errors.Is(err, strconv.ErrRange):
		c.wrong(quote(s)+" is out of range", "")
	case err != nil:
		c.wrong(quote(s)+" is not a whole number", "")
	case i < least:
		c.wrong(fmt.Sprintf("%d is out of range: it must be at least %d", i, least), "")
	case i > most:
		c.wrong(fmt.Sprintf("%d is out of range", i), "")
	default:
		return i
	}
	return unset
}
