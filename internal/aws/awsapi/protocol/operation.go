package protocol

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// Operation is one operation of the JSON protocol.
type Operation struct {
	Name    string // as AWS has it
	Members []Member
	// Document: the members are those of a task definition, which pkg/taskdef checks.
	Document bool
	// Invalid is the exception of a request that is wrong; empty for InvalidParameterException.
	Invalid string
	Serve   func(ctx context.Context, body []byte, kept Fields) (any, error)
}

// Fields are members as a client sent them.
type Fields map[string]json.RawMessage

// Answer says what becomes of a member of a request.
type Answer string

// The answers.
const (
	Honored Answer = "honored" // it has its effect
	Kept    Answer = "kept"    // it comes back in answers, and has no effect
	Refused Answer = "refused"
)

// Member is a member of a request. Path has dots and [] for those inside.
type Member struct {
	Path     string
	Answer   Answer
	Required bool
	// Why says more.
	Why string

	shape reflect.Type // of a member that comes back
	words string       // the words that it can be, with | between them; empty for any text
}

// Honor makes members of their paths; "!" at the end: it is required. "PATH=A|B" is a member that can only be A or B, or a list of
// them.
func Honor(paths ...string) (all []Member) {
	for _, p := range paths {
		p, words, _ := strings.Cut(p, "=")
		name, required := strings.CutSuffix(p, "!")
		all = append(all, Member{Path: name, Answer: Honored, Required: required, words: words})
	}
	return all
}

// Require makes members required.
func Require(all []Member) []Member {
	for i := range all {
		all[i].Required = true
	}
	return all
}

// Refuse makes members that a client must not set; why says so to it.
func Refuse(why string, paths ...string) (all []Member) {
	for _, p := range paths {
		all = append(all, Member{Path: p, Answer: Refused, Why: why})
	}
	return all
}

// Members joins lists of members.
func Members(lists ...[]Member) []Member { return slices.Concat(lists...) }

// Define makes an operation whose honored members are those of In.
func Define[In any](name string, all []Member, serve func(context.Context, In, Fields) (any, error)) Operation {
	return Operation{Name: name, Members: all, Serve: func(ctx context.Context, body []byte, kept Fields) (any, error) {
		var in In
		if err := json.Unmarshal(body, &in); err != nil {
			if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
				return nil, Failf(CodeSyntax, "%s cannot be a %s", named(wrong.Field, all), wrong.Value)
			}
			return nil, Failf(CodeSyntax, "the request cannot be read: %v", err)
		}
		return serve(ctx, in, kept)
	}}
}

// named returns the path of a member without the names of embedded types of Go, which no row of the table has.
func named(field string, table []Member) (path string) {
	for segment := range strings.SplitSeq(field, ".") {
		longer := strings.TrimPrefix(path+"."+segment, ".")
		known := func(m Member) bool { return strings.ReplaceAll(m.Path, "[]", "") == longer }
		if slices.ContainsFunc(table, known) || path != "" && !hasRows(table, path+".") {
			path = longer
		}
	}
	return cmp.Or(path, field)
}

// MaxBody is the largest body that is read, in bytes.
const MaxBody = 2 << 20

// limits bound a request.
var limits = doctree.Limits{Size: MaxBody, Values: 200_000, Depth: 32}

// Answer checks a request against the table of its operation and answers it.
func (o Operation) Answer(ctx context.Context, body []byte) (any, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		body = []byte("{}")
	}
	docs, err := doctree.JSON(body, limits)
	if err != nil {
		return nil, Failf(CodeSyntax, "the request is not JSON: %v", err)
	}
	if len(docs) != 1 || docs[0].Kind != doctree.Object {
		return nil, Failf(CodeSyntax, "the request is not one JSON object")
	}
	if o.Document {
		return o.Serve(ctx, body, nil)
	}
	kept := make(Fields)
	if err := checkMembers(docs[0], "", o.Members, kept); err != nil {
		return nil, o.wrong(err)
	}
	answer, err := o.Serve(ctx, body, kept)
	return answer, o.wrong(err)
}

// wrong gives a failure of the request the name that it has in the service of the operation.
func (o Operation) wrong(err error) error {
	if f := (*Failure)(nil); o.Invalid != "" && errors.As(err, &f) && f.Code == codeInvalid {
		return &Failure{Code: o.Invalid, Message: f.Message}
	}
	return err
}

// checkMembers checks the members of an object whose own path is prefix, which is empty or
// ends in a dot.
func checkMembers(n *doctree.Node, prefix string, table []Member, kept Fields) error {
	for _, f := range n.Fields {
		if f.Value.Kind == doctree.Null {
			continue
		}
		path := prefix + f.Key
		i := slices.IndexFunc(table, func(m Member) bool { return m.Path == path })
		if i < 0 {
			return Invalidf("%s: podtask does not know this member", Shortened(path))
		}
		m := table[i]
		if m.shape != nil {
			if err := checkShape(f.Value, m.shape, path); err != nil {
				return err
			}
			kept[path] = f.Value.JSON()
		}
		if err := checkWords(f.Value, m.words, path); err != nil {
			return err
		}
		switch m.Answer {
		case Refused:
			if !f.Value.Empty() {
				return Invalidf("%s: %s", path, m.Why)
			}
		case Kept:
		case Honored:
			if err := checkInside(f.Value, path, table, kept); err != nil {
				return err
			}
		}
	}
	for _, m := range table {
		name, here := strings.CutPrefix(m.Path, prefix)
		if m.Required && here && !strings.Contains(name, ".") && missing(n.Member(name)) {
			return Invalidf("%s is required", m.Path)
		}
	}
	return nil
}

func missing(n *doctree.Node) bool { return n == nil || n.Kind == doctree.Null }

// checkInside checks what is inside of an honored member, if the table has rows for it.
func checkInside(n *doctree.Node, path string, table []Member, kept Fields) error {
	if hasRows(table, path+".") && n.Kind == doctree.Object {
		return checkMembers(n, path+".", table, kept)
	}
	if !hasRows(table, path+"[].") || n.Kind != doctree.List {
		return nil
	}
	for _, item := range n.Items {
		if item.Kind != doctree.Object {
			return Failf(CodeSyntax, "%s is a list of objects", path)
		}
		if err := checkMembers(item, path+"[].", table, kept); err != nil {
			return err
		}
	}
	return nil
}

func hasRows(table []Member, prefix string) bool {
	return slices.ContainsFunc(table, func(m Member) bool { return strings.HasPrefix(m.Path, prefix) })
}

// OneOf checks a word.
func OneOf(path, value string, words ...string) error {
	if value == "" || slices.Contains(words, value) {
		return nil
	}
	return Invalidf("%s: %q is none of %s", path, Shortened(value), strings.Join(words, ", "))
}

// Within checks a number; nil stands for what is not given.
func Within(path string, n *int, least, most int) error {
	if n == nil || *n >= least && *n <= most {
		return nil
	}
	return Invalidf("%s: %d is not %s", path, *n, fmt.Sprintf("%d to %d", least, most))
}

// SomeNamed checks the number of things that a request names, which ECS's sentence for none calls what.
func SomeNamed(path, what string, n, most int) error {
	switch {
	case n == 0:
		return Invalidf("%s cannot be empty.", what)
	case n > most:
		return Invalidf("%s: %d is more than %d", path, n, most)
	}
	return nil
}
