package doctree

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode/utf8"
)

// readJSON reads JSON values, one behind the other.
func readJSON(src []byte, b *budget) ([]*Node, error) {
	r := jsonReader{src: src, dec: json.NewDecoder(bytes.NewReader(src)), line: 1, col: 1, budget: b}
	r.dec.UseNumber()
	var docs []*Node
	for r.dec.More() {
		root, err := r.value(0)
		if err != nil {
			return nil, err
		}
		docs = append(docs, root)
	}
	if _, err := r.token(); !errors.Is(err, io.EOF) {
		return nil, r.invalid(err)
	}
	return docs, nil
}

// jsonReader turns the tokens of encoding/json into nodes with places. It walks
// the source beside the decoder, so that a place costs nothing to find.
type jsonReader struct {
	src       []byte
	dec       *json.Decoder
	off       int // byte offset of line and col
	line, col int
	budget    *budget
}

// token returns the next token, with r placed at its first character.
func (r *jsonReader) token() (json.Token, error) {
	start := int(r.dec.InputOffset())
	for start < len(r.src) && strings.IndexByte(" \t\r\n,:", r.src[start]) >= 0 {
		start++
	}
	r.moveTo(start)
	return r.dec.Token()
}

func (r *jsonReader) moveTo(off int) {
	for r.off < off {
		c, size := utf8.DecodeRune(r.src[r.off:])
		r.off += size
		r.col++
		if c == '\n' {
			r.line, r.col = r.line+1, 1
		}
	}
}

func (r *jsonReader) syntax(msg, fix string) error {
	return &SyntaxError{r.line, r.col, msg, fix}
}

// invalid turns an error of the decoder into one with a place.
func (r *jsonReader) invalid(err error) error {
	switch {
	case err == nil:
		return r.syntax("not valid JSON: there is more behind the value", "")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return r.syntax("not valid JSON: the document ends too early", "close what is open")
	}
	return r.syntax("not valid JSON: "+err.Error(), "")
}

func (r *jsonReader) value(depth int) (*Node, error) {
	tok, err := r.token()
	if err != nil {
		return nil, r.invalid(err)
	}
	if err := r.budget.spend(depth, r.line, r.col); err != nil {
		return nil, err
	}
	n := &Node{Line: r.line, Col: r.col}
	switch v := tok.(type) {
	case string:
		n.Kind, n.Text = Text, v
	case json.Number:
		n.Kind, n.Text = Number, v.String()
	case bool:
		n.Kind, n.Text = Boolean, "false"
		if v {
			n.Text = "true"
		}
	case json.Delim:
		if v == '[' {
			return n, r.list(n, depth)
		}
		return n, r.object(n, depth)
	}
	return n, nil
}

func (r *jsonReader) list(n *Node, depth int) error {
	n.Kind = List
	for r.dec.More() {
		item, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		n.Items = append(n.Items, item)
	}
	return r.end()
}

func (r *jsonReader) object(n *Node, depth int) error {
	n.Kind = Object
	for r.dec.More() {
		tok, err := r.token()
		if err != nil {
			return r.invalid(err)
		}
		key, ok := tok.(string)
		if !ok {
			return r.syntax("not valid JSON: a key must be text", "")
		}
		f := Field{Key: key, Line: r.line, Col: r.col}
		if f.Value, err = r.value(depth + 1); err != nil {
			return err
		}
		n.Fields = append(n.Fields, f)
	}
	return r.end()
}

// end reads the closing bracket, whose kind the decoder checks.
func (r *jsonReader) end() error {
	if _, err := r.token(); err != nil {
		return r.invalid(err)
	}
	return nil
}
