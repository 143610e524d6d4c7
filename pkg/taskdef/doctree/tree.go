package doctree

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/podtask/podtask/pkg/taskdef/unrendered"
)

// Limits bound what a source may hold. A hostile one meets them before it costs much.
type Limits struct {
	Size   int // bytes
	Values int // after YAML aliases are followed
	Depth  int // levels
}

// Kind is the kind of a value.
type Kind uint8

// The kinds of values. Digests of task definitions contain these numbers.
const (
	Null Kind = iota
	Text
	Number
	Boolean
	List
	Object
)

// String returns the kind as a message names it.
func (k Kind) String() string {
	return [...]string{"null", "text", "a number", "true or false", "a list", "an object"}[k]
}

// Node is one value of a document, with its place.
type Node struct {
	Kind      Kind
	Text      string // of a scalar, as written; escapes resolved
	Line, Col int
	Items     []*Node // of a list
	Fields    []Field // of an object, in the order of the document
}

// Field is one member of an object. Line and Col are those of its key.
type Field struct {
	Key       string
	Line, Col int
	Value     *Node
}

// Member returns the value of a key; nil for none. Null counts as absent.
func (n *Node) Member(key string) *Node {
	if n == nil || n.Kind != Object {
		return nil
	}
	for _, f := range n.Fields {
		if f.Key == key && f.Value.Kind != Null {
			return f.Value
		}
	}
	return nil
}

// IsScalar reports whether n is a text, a number, or true or false; a missing value is none.
func (n *Node) IsScalar() bool {
	return n != nil && (n.Kind == Text || n.Kind == Number || n.Kind == Boolean)
}

// At returns the JSON pointer of the innermost value, or of the key, that stands at a place of the tree below n, and whether there is one.
func (n *Node) At(line, col int) (pointer string, found bool) {
	for i, item := range n.Items {
		if below, ok := item.At(line, col); ok {
			return "/" + strconv.Itoa(i) + below, true
		}
	}
	for _, f := range n.Fields {
		if below, ok := f.Value.At(line, col); ok || f.Line == line && f.Col == col {
			return "/" + Escape(f.Key) + below, true
		}
	}
	return "", n.Line == line && n.Col == col
}

// Empty reports whether n says nothing: null, "", [] or {}.
func (n *Node) Empty() bool {
	switch n.Kind {
	case Null:
		return true
	case Text:
		return n.Text == ""
	case List:
		return len(n.Items) == 0
	case Object:
		return len(n.Fields) == 0
	}
	return false
}

// Clone returns a copy that shares nothing with n.
func (n *Node) Clone() *Node {
	c := *n
	c.Items, c.Fields = slices.Clone(n.Items), slices.Clone(n.Fields)
	for i, item := range c.Items {
		c.Items[i] = item.Clone()
	}
	for i, f := range c.Fields {
		c.Fields[i].Value = f.Value.Clone()
	}
	return &c
}

// JSON returns the value as JSON, its members in the order of the document.
func (n *Node) JSON() json.RawMessage {
	var b bytes.Buffer
	n.writeJSON(&b)
	return b.Bytes()
}

func (n *Node) writeJSON(b *bytes.Buffer) {
	switch n.Kind {
	case Null:
		b.WriteString("null")
	case Number:
		if json.Valid([]byte(n.Text)) {
			b.WriteString(n.Text)
		} else if i, err := strconv.ParseInt(n.Text, 0, 64); err == nil {
			b.WriteString(strconv.FormatInt(i, 10)) // YAML's 0644 and 0x10
		} else {
			writeString(b, n.Text)
		}
	case Boolean:
		b.WriteString(n.Text)
	case List:
		b.WriteByte('[')
		for i, item := range n.Items {
			if i > 0 {
				b.WriteByte(',')
			}
			item.writeJSON(b)
		}
		b.WriteByte(']')
	case Object:
		b.WriteByte('{')
		for i, f := range n.Fields {
			if i > 0 {
				b.WriteByte(',')
			}
			writeString(b, f.Key)
			b.WriteByte(':')
			f.Value.writeJSON(b)
		}
		b.WriteByte('}')
	default:
		writeString(b, n.Text)
	}
}

func writeString(b *bytes.Buffer, s string) {
	text, _ := json.Marshal(s) // a string has a JSON form always
	b.Write(text)
}

// SyntaxError is a source that cannot be read at all.
type SyntaxError struct {
	Line, Col    int
	Message, Fix string
}

func (e *SyntaxError) Error() string { return e.Message }

// Documents reads all documents of a source: YAML, or JSON if it starts with a brace and
// contains no line "---". What starts with a brace and is not JSON may still be a manifest
// in YAML, as for kubectl: one that says its apiVersion. Documents without content are left
// out. The error is a *SyntaxError.
func Documents(src []byte, l Limits) ([]*Node, error) {
	if !bytes.HasPrefix(body(src), []byte("{")) || bytes.Contains(src, []byte("\n---")) {
		return YAML(src, l)
	}
	docs, err := JSON(src, l)
	if err != nil {
		if flow, yamlErr := YAML(src, l); yamlErr == nil && len(flow) > 0 && flow[0].Member("apiVersion") != nil {
			return flow, nil
		}
	}
	return docs, err
}

// explain returns the error of a source that cannot be read, or what is more likely wrong: the source is a
// template that was not rendered.
func explain(src []byte, find func([]byte) (unrendered.Place, bool), err error) error {
	var syntax *SyntaxError
	if tag, found := find(src); found && errors.As(err, &syntax) {
		return &SyntaxError{tag.Line, tag.Col, "neither JSON nor YAML: " + Quote(tag.Tag) + " is a tag of a template that was not rendered", unrendered.Fix}
	}
	return err
}

// body returns the source without a byte order mark and leading space.
func body(src []byte) []byte {
	return bytes.TrimLeft(bytes.TrimPrefix(src, []byte("\ufeff")), " \t\r\n")
}

// start checks what JSON and YAML have in common, and returns the text to read.
func start(src []byte, l Limits) ([]byte, *budget, error) {
	text := bytes.TrimPrefix(src, []byte("\ufeff"))
	switch {
	case len(text) > l.Size:
		return nil, nil, &SyntaxError{1, 1, fmt.Sprintf("the document is larger than %g MiB", float64(l.Size)/(1<<20)), "check that this is the right file"}
	case !utf8.Valid(text):
		return nil, nil, &SyntaxError{1, 1, "the document is not UTF-8 text", "give JSON or YAML in UTF-8"}
	}
	if b := body(src); bytes.HasPrefix(b, []byte("//")) || bytes.HasPrefix(b, []byte("/*")) {
		line := 1 + bytes.Count(text[:len(text)-len(b)], []byte("\n"))
		return nil, nil, &SyntaxError{line, 1, jsonComment, jsonCommentFix}
	}
	return text, &budget{limits: l}, nil
}

// budget counts what a source may still use.
type budget struct {
	limits Limits
	values int
}

// spend takes one value at a depth, the root's being 0.
func (b *budget) spend(depth, line, col int) error {
	b.values++
	if b.values > b.limits.Values {
		return &SyntaxError{line, col, fmt.Sprintf("the document holds more than %d values", b.limits.Values), "shorten it, YAML aliases included"}
	}
	if depth > b.limits.Depth {
		return &SyntaxError{line, col, fmt.Sprintf("the document is nested deeper than %d levels", b.limits.Depth), ""}
	}
	return nil
}

// Escape makes a key a reference token of a JSON pointer (RFC 6901, section 3).
func Escape(key string) string { return pointerEscapes.Replace(key) }

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")
