package taskdef

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// cursor is a place in the document while it is decoded. A nil node means
// absent.
type cursor struct {
	p    *parser
	node *node
	ptr  string
}

// at returns the member with a key.
func (c cursor) at(key string) cursor {
	return cursor{c.p, c.node.member(key), c.ptr + "/" + escape(key)}
}

// step follows one reference token: a key, or the index of an item.
func (c cursor) step(token string) cursor {
	if c.node == nil || c.node.kind != list {
		return c.at(token)
	}
	next := cursor{c.p, nil, c.ptr + "/" + token}
	if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(c.node.items) {
		next.node = c.node.items[i]
	}
	return next
}

// wrong reports that the value cannot be decoded.
func (c cursor) wrong(message, fix string) {
	c.p.broken[c.ptr] = true
	c.p.problems = append(c.p.problems, c.p.problem(c.ptr, c.node.line, c.node.col, message, fix))
}

// want reports whether the value is there and of the kind; a wrong kind is a
// problem.
func (c cursor) want(k kind, fix string) bool {
	if c.node == nil {
		return false
	}
	if c.node.kind != k {
		c.wrong(fmt.Sprintf("this must be %s, not %s", k, c.node.kind), fix)
		return false
	}
	return true
}

// list returns the items, also null ones, so that indices stay those of the
// document.
func (c cursor) list(fix string) []cursor {
	if !c.want(list, fix) {
		return nil
	}
	items := make([]cursor, len(c.node.items))
	for i := range items {
		items[i] = c.step(strconv.Itoa(i))
	}
	return items
}

// present reports whether the member is there.
func (c cursor) present() bool { return c.node != nil }

// filled reports whether the member is there and says something.
func (c cursor) filled() bool { return c.node != nil && !c.node.empty() }

// failed reports whether the value could not be decoded, or is not given yet.
func (c cursor) failed() bool { return c.p.broken[c.ptr] }

// held reports a value that holds a placeholder: it must be given first.
func (c cursor) held() bool {
	if c.node == nil || c.node.kind != text {
		return false
	}
	const most = 8 // of one value, so that nonsense is not answered at length
	names := placeholder.FindAllStringSubmatch(c.node.text, most)
	if names == nil {
		return false
	}
	c.p.broken[c.ptr] = true
	for _, m := range names {
		c.p.needs = append(c.p.needs, c.p.problem(c.ptr, c.node.line, c.node.col,
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

// free returns a text in which what looks like a placeholder may be meant for
// somebody else, such as a shell.
func (c cursor) free() string {
	if c.node == nil {
		return ""
	}
	switch c.node.kind {
	case text, number, boolean:
		if strings.ContainsRune(c.node.text, 0) {
			c.wrong("this text holds a NUL character, which no program can be given", "remove it")
			return ""
		}
		return c.node.text
	}
	c.want(text, "")
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
	if !c.want(object, `write {"name": "value"}`) || len(c.node.fields) == 0 {
		return nil
	}
	out := make(map[string]string, len(c.node.fields))
	for _, f := range c.node.fields {
		if strings.ContainsRune(f.key, 0) {
			c.wrong("a name holds a NUL character", "remove it")
			continue
		}
		out[f.key] = c.at(f.key).free()
	}
	return out
}

// flag returns a boolean, and unset for an absent one.
func (c cursor) flag(unset bool) bool {
	if c.node == nil || c.held() {
		return unset
	}
	switch k := c.node.kind; {
	case (k == boolean || k == text) && c.node.text == "true":
		return true
	case (k == boolean || k == text) && c.node.text == "false":
		return false
	}
	c.wrong("this must be true or false", "")
	return unset
}

// integer returns a whole number of at least least that fits in 31 bits, and
// unset for an absent one.
func (c cursor) integer(least, unset int64) int64 {
	if c.node == nil || c.node.kind == text && c.node.text == "" || c.held() {
		return unset
	}
	const most = 1<<31 - 1
	s := strings.TrimSpace(c.node.text)
	i, err := strconv.ParseInt(s, 10, 64)
	switch {
	case c.node.kind != number && c.node.kind != text:
		c.wrong(fmt.Sprintf("this must be a whole number, not %s", c.node.kind), "")
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
