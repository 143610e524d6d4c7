package taskdef

import (
	"bytes"
	"encoding/json"
	"errors"
	"path"

	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// Source is a document whose text has been read: a task definition, an override, or a Kubernetes
// manifest. What uses a Source does not change it.
type Source struct {
	name string
	docs []*doctree.Node
	err  error // *doctree.SyntaxError
	// written is the document as its author wrote it, and problems are those of its form, if docs were made of it.
	written  *doctree.Node
	problems []Problem
}

// Rewritten returns a source of a task definition that was written in another form. Root is the definition in the form of ECS, with the
// places of the text; nil if none could be made. Problems are those of the form, and are reported with those of the definition.
func (s Source) Rewritten(root *doctree.Node, problems []Problem) Source {
	to := Source{name: s.name, written: s.docs[0], problems: problems, docs: []*doctree.Node{root}}
	if root == nil {
		to.docs = nil
	}
	return to
}

// IsRewritten reports whether Rewritten made the source.
func (s Source) IsRewritten() bool { return s.written != nil }

// limits bound a document. ECS itself takes at most 64 KiB, and a ConfigMap or Secret of
// Kubernetes has at most 1 MiB, so no real document comes near them.
var limits = doctree.Limits{Size: 3 << 19, Values: 50_000, Depth: 40}

// ReadSource reads the text of a document. What is wrong with the text is reported by what uses
// the Source. Name is the document's name in messages; where it ends in .yaml or .yml, text that opens
// with a brace and is not JSON is read as YAML.
func ReadSource(name string, src []byte) Source {
	text := bytes.TrimSpace(bytes.TrimPrefix(src, []byte("\ufeff")))
	if len(text) == 0 && len(src) <= limits.Size {
		return Source{name: name, err: &doctree.SyntaxError{Line: 1, Col: 1, Message: "the document is empty", Fix: "give a task definition"}}
	}
	docs, err := doctree.Documents(src, limits)
	if ext := path.Ext(name); err != nil && bytes.HasPrefix(text, []byte("{")) && (ext == ".yaml" || ext == ".yml") {
		docs, err = doctree.YAML(src, limits)
	}
	if err != nil && quadlet.Get().Match(text) {
		err = &doctree.SyntaxError{Line: 1, Col: 1, Message: "this is a file of Quadlet, and not a task definition", Fix: "convert it: podtask import FILE"}
	}
	return Source{name: name, docs: docs, err: err}
}

// quadlet is the section that only files of Quadlet have.
var quadlet = lazy.MustCompile(`(?m)^\[(Container|Pod|Kube)\]\s*$`)

// Name returns the document's name in messages.
func (s Source) Name() string { return s.name }

// Manifest reports whether the document is a Kubernetes manifest: whether the first one in it has
// apiVersion and kind.
func (s Source) Manifest() bool {
	return s.err == nil && len(s.docs) > 0 && s.docs[0].Member("apiVersion") != nil && s.docs[0].Member("kind") != nil
}

// Documents returns copies of all documents of the source. The error is an *InvalidError.
func (s Source) Documents() ([]*doctree.Node, error) {
	if s.err != nil {
		return nil, s.invalid(s.err)
	}
	docs := make([]*doctree.Node, len(s.docs))
	for i, d := range s.docs {
		docs[i] = d.Clone()
	}
	return docs, nil
}

// root returns the only document. The error is an *InvalidError.
func (s Source) root() (*doctree.Node, error) {
	switch {
	case s.err != nil:
		return nil, s.invalid(s.err)
	case len(s.docs) == 0 && s.IsRewritten():
		return nil, &InvalidError{s.name, s.problems}
	case len(s.docs) == 0:
		return &doctree.Node{Line: 1, Col: 1}, nil
	case len(s.docs) > 1:
		return nil, s.invalid(&doctree.SyntaxError{Line: s.docs[1].Line, Col: s.docs[1].Col, Message: "the file holds more than one document", Fix: "keep one task definition in a file"})
	}
	return s.docs[0], nil
}

// invalid makes an *InvalidError of what is wrong with the text.
func (s Source) invalid(err error) error {
	if syntax, ok := errors.AsType[*doctree.SyntaxError](err); ok {
		return &InvalidError{s.name, []Problem{{s.name, "", syntax.Line, syntax.Col, syntax.Message, syntax.Fix}}}
	}
	return &InvalidError{s.name, []Problem{{s.name, "", 1, 1, err.Error(), ""}}}
}

// JSON returns the document as JSON, in the form of ECS if it was written in another one. The error is an *InvalidError.
func (s Source) JSON() (json.RawMessage, error) {
	root, err := s.root()
	if err != nil {
		return nil, err
	}
	return root.JSON(), nil
}

// locate gives problems the pointers that their values have in the document as it was written.
func (s Source) locate(problems []Problem) {
	for i, p := range problems {
		if s.IsRewritten() && p.File == s.name {
			problems[i].Pointer, _ = s.written.At(p.Line, p.Column)
		}
	}
}
