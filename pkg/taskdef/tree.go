package taskdef

import "strings"

// Bounds of a document. ECS itself takes at most 64 KiB, so that no real
// definition comes near; a hostile one meets them before it costs much.
const (
	maxSize  = 1 << 20 // bytes
	maxNodes = 50_000  // values, after YAML aliases are followed
	maxDepth = 32
)

// kind is the kind of a node.
type kind uint8

const (
	null kind = iota
	text
	number
	boolean
	list
	object
)

// String returns the kind as a message names it.
func (k kind) String() string {
	return [...]string{"null", "text", "a number", "true or false", "a list", "an object"}[k]
}

// node is one value of a JSON or YAML document, with its place.
type node struct {
	kind      kind
	text      string // of a scalar, as written; escapes resolved
	line, col int
	items     []*node // of a list
	fields    []field // of an object, in the order of the document
}

// field is one member of an object. Line and col are those of its key.
type field struct {
	key       string
	line, col int
	value     *node
}

// member returns the value of a key. Null counts as absent, as in the ECS API.
func (n *node) member(key string) *node {
	if n == nil || n.kind != object {
		return nil
	}
	for _, f := range n.fields {
		if f.key == key && f.value.kind != null {
			return f.value
		}
	}
	return nil
}

// empty reports whether n says nothing: null, "", [] or {}.
func (n *node) empty() bool {
	switch n.kind {
	case null:
		return true
	case text:
		return n.text == ""
	case list:
		return len(n.items) == 0
	case object:
		return len(n.fields) == 0
	}
	return false
}

// syntaxError is a document that cannot be read at all.
type syntaxError struct {
	line, col int
	msg, fix  string
}

func (e *syntaxError) Error() string { return e.msg }

// budget counts what a document may still use. The readers share it.
type budget struct{ nodes int }

// spend takes one value at a depth, the root's being 0.
func (b *budget) spend(depth, line, col int) error {
	b.nodes++
	if b.nodes > maxNodes {
		return &syntaxError{line, col, "the document holds more than 50000 values", "shorten it, YAML aliases included"}
	}
	if depth > maxDepth {
		return &syntaxError{line, col, "the document is nested deeper than 32 levels", "a task definition needs 6"}
	}
	return nil
}

// escape makes a key a reference token of a JSON pointer (RFC 6901, section 3).
func escape(key string) string { return pointerEscapes.Replace(key) }

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")
