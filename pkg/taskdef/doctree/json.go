package doctree

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/podtask/podtask/pkg/taskdef/unrendered"
)

// JSON reads the JSON values of a source. The error is a *SyntaxError.
func JSON(src []byte, l Limits) ([]*Node, error) {
	docs, err := readJSON(src, l)
	if err != nil {
		return nil, explain(src, unrendered.JSON, err)
	}
	return docs, nil
}

func readJSON(src []byte, l Limits) ([]*Node, error) {
	src, b, err := start(src, l)
	if err != nil {
		return nil, err
	}
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
		return nil, r.syntax("not valid JSON: there is more after the end of the document", "")
	}
	return docs, nil
}

// jsonReader turns the tokens of encoding/json into nodes with positions. It
// follows the decoder through the source, so each position is found in one pass.
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

// invalid turns an error of the decoder into one with a position.
func (r *jsonReader) invalid(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return r.syntax("not valid JSON: the document ends too early", "close what is open")
	}
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return r.syntax("not valid JSON: "+err.Error(), "")
	}
	// The token that failed starts at r.off, perhaps after a comma.
	before := strings.TrimRight(string(r.src[:r.off]), " \t\r\n")
	switch rest := r.src[r.off:]; {
	case bytes.HasPrefix(rest, []byte("//")), bytes.HasPrefix(rest, []byte("/*")), bytes.HasPrefix(rest, []byte("#")):
		return r.syntax(jsonComment, jsonCommentFix)
	case len(rest) > 0 && (rest[0] == '}' || rest[0] == ']') && strings.HasSuffix(before, ","):
		return r.syntax("not valid JSON: there is a comma before the closing "+string(rest[0]), "remove the comma")
	case len(rest) > 0 && rest[0] == '\'':
		return r.syntax("not valid JSON: text is in single quotes", "use double quotes")
	}
	return r.syntax("not valid JSON: "+jsonMessages.Replace(syntax.Error()), "")
}

const (
	jsonComment    = "not valid JSON: JSON has no comments"
	jsonCommentFix = "remove the comment, or write the file in YAML, where comments begin with #"
)

// jsonMessages replaces the messages of encoding/json by ones in the terms of JSON.
var jsonMessages = strings.NewReplacer("invalid character", "unexpected", "looking for beginning of object key string", "where a key in double quotes must be",
	"looking for beginning of value", "where a value must be", "after object key:value pair", "after a value, where a comma or a closing } must be",
	"after array element", "after a value, where a comma or a closing ] must be", "after object key", "after a key, where a colon must be")

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
