package taskdef

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode/utf8"
)

// readJSON reads one JSON document.
func readJSON(src []byte) (*node, error) {
	r := jsonReader{src: src, dec: json.NewDecoder(bytes.NewReader(src)), line: 1, col: 1}
	r.dec.UseNumber()
	root, err := r.value(0)
	if err != nil {
		return nil, err
	}
	if _, err := r.token(); !errors.Is(err, io.EOF) {
		return nil, r.syntax("there is more after the end of the document", "keep one object in the file")
	}
	return root, nil
}

// jsonReader turns the tokens of encoding/json into nodes with places. It walks
// the source beside the decoder, so that a place costs nothing to find.
type jsonReader struct {
	src       []byte
	dec       *json.Decoder
	off       int // byte offset of line and col
	line, col int
	budget    budget
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
	return &syntaxError{r.line, r.col, msg, fix}
}

// invalid turns an error of the decoder into one with a place.
func (r *jsonReader) invalid(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return r.syntax("not valid JSON: the document ends too early", "close what is open")
	}
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return r.syntax("not valid JSON: "+err.Error(), "")
	}
	// The token that failed begins where r is, or after a comma that r has passed.
	at := r.off
	before := strings.TrimRight(string(r.src[:at]), " \t\r\n")
	switch rest := r.src[at:]; {
	case bytes.HasPrefix(rest, []byte("//")), bytes.HasPrefix(rest, []byte("/*")), bytes.HasPrefix(rest, []byte("#")):
		return r.syntax(jsonComment, jsonCommentFix)
	case len(rest) > 0 && (rest[0] == '}' || rest[0] == ']') && strings.HasSuffix(before, ","):
		return r.syntax("not valid JSON: there is a comma before the closing "+string(rest[0]), "remove the comma")
	case len(rest) > 0 && rest[0] == '\'':
		return r.syntax("not valid JSON: text is in single quotes", "use double quotes")
	}
	return r.syntax("not valid JSON: "+jsonSays.Replace(syntax.Error()), "")
}

const (
	jsonComment    = "not valid JSON: JSON has no comments"
	jsonCommentFix = "remove the comment, or write the file in YAML, where comments begin with #"
)

// jsonSays puts the messages of encoding/json into the words of JSON.
var jsonSays = strings.NewReplacer("invalid character", "unexpected", "looking for beginning of object key string", "where a key in double quotes must be",
	"looking for beginning of value", "where a value must be", "after object key:value pair", "after a value, where a comma or a closing } must be",
	"after array element", "after a value, where a comma or a closing ] must be", "after object key", "after a key, where a colon must be")

func (r *jsonReader) value(depth int) (*node, error) {
	tok, err := r.token()
	if err != nil {
		return nil, r.invalid(err)
	}
	if err := r.budget.spend(depth, r.line, r.col); err != nil {
		return nil, err
	}
	n := &node{line: r.line, col: r.col}
	switch v := tok.(type) {
	case string:
		n.kind, n.text = text, v
	case json.Number:
		n.kind, n.text = number, v.String()
	case bool:
		n.kind, n.text = boolean, "false"
		if v {
			n.text = "true"
		}
	case json.Delim:
		if v == '[' {
			return n, r.list(n, depth)
		}
		return n, r.object(n, depth)
	}
	return n, nil
}

func (r *jsonReader) list(n *node, depth int) error {
	n.kind = list
	for r.dec.More() {
		item, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		n.items = append(n.items, item)
	}
	return r.end()
}

func (r *jsonReader) object(n *node, depth int) error {
	n.kind = object
	for r.dec.More() {
		tok, err := r.token()
		if err != nil {
			return r.invalid(err)
		}
		key, ok := tok.(string)
		if !ok {
			return r.syntax("not valid JSON: a key must be text", "")
		}
		f := field{key: key, line: r.line, col: r.col}
		if f.value, err = r.value(depth + 1); err != nil {
			return err
		}
		n.fields = append(n.fields, f)
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
