package awsapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// operation is one operation of the JSON protocol.
type operation struct {
	name    string
	members []Member
	// document: the members are those of a task definition, which pkg/taskdef checks.
	document bool
	// invalid is the exception of a request that is wrong; empty for InvalidParameterException.
	invalid string
	serve   func(ctx context.Context, body []byte, kept fields) (any, error)
}

// fields are members as a client sent them.
type fields map[string]json.RawMessage

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

	kind byte // of a member that comes back: s, n, b, l or o
}

// honor makes members of their paths; "!" at the end: it is required.
func honor(paths ...string) (all []Member) {
	for _, p := range paths {
		name, required := strings.CutSuffix(p, "!")
		all = append(all, Member{Path: name, Answer: Honored, Required: required})
	}
	return all
}

// keep makes members of "PATH:KIND"; the kind is s, n, b, l or o.
func keep(why string, paths ...string) (all []Member) {
	for _, p := range paths {
		name, kind, _ := strings.Cut(p, ":")
		all = append(all, Member{Path: name, Answer: Kept, Why: why, kind: kind[0]})
	}
	return all
}

// honorAndKeep makes members of "PATH:KIND" that have an effect and come back in answers as they were sent.
func honorAndKeep(paths ...string) (all []Member) {
	for _, m := range keep("", paths...) {
		m.Answer = Honored
		all = append(all, m)
	}
	return all
}

// require makes members required.
func require(all []Member) []Member {
	for i := range all {
		all[i].Required = true
	}
	return all
}

func refuse(why string, paths ...string) (all []Member) {
	for _, p := range paths {
		all = append(all, Member{Path: p, Answer: Refused, Why: why})
	}
	return all
}

func members(lists ...[]Member) []Member { return slices.Concat(lists...) }

// define makes an operation whose honored members are those of In.
func define[In any](name string, all []Member, serve func(context.Context, In, fields) (any, error)) operation {
	return operation{name: name, members: all, serve: func(ctx context.Context, body []byte, kept fields) (any, error) {
		var in In
		if err := json.Unmarshal(body, &in); err != nil {
			var wrong *json.UnmarshalTypeError
			if errors.As(err, &wrong) {
				return nil, failf(codeSyntax, "%s cannot be a %s", wrong.Field, wrong.Value)
			}
			return nil, failf(codeSyntax, "the request cannot be read: %v", err)
		}
		return serve(ctx, in, kept)
	}}
}

// limits bound a request.
var limits = doctree.Limits{Size: maxBody, Values: 200_000, Depth: 32}

// answer checks a request against the table of its operation and answers it.
func (o operation) answer(ctx context.Context, body []byte) (any, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		body = []byte("{}")
	}
	docs, err := doctree.JSON(body, limits)
	if err != nil {
		return nil, failf(codeSyntax, "the request is not JSON: %v", err)
	}
	if len(docs) != 1 || docs[0].Kind != doctree.Object {
		return nil, failf(codeSyntax, "the request is not one JSON object")
	}
	if o.document {
		return o.serve(ctx, body, nil)
	}
	kept := make(fields)
	if err := checkMembers(docs[0], "", o.members, kept); err != nil {
		return nil, o.wrong(err)
	}
	answer, err := o.serve(ctx, body, kept)
	return answer, o.wrong(err)
}

// wrong gives a failure of the request the name that it has in the service of the operation.
func (o operation) wrong(err error) error {
	if f := (*Failure)(nil); o.invalid != "" && errors.As(err, &f) && f.Code == codeInvalid {
		return &Failure{Code: o.invalid, Message: f.Message}
	}
	return err
}

// checkMembers checks the members of an object whose own path is prefix, which is empty or
// ends in a dot.
func checkMembers(n *doctree.Node, prefix string, table []Member, kept fields) error {
	for _, f := range n.Fields {
		if f.Value.Kind == doctree.Null {
			continue
		}
		path := prefix + f.Key
		i := slices.IndexFunc(table, func(m Member) bool { return m.Path == path })
		if i < 0 {
			return invalidf("%s: podtask does not know this member", shortened(path))
		}
		m := table[i]
		if m.kind != 0 {
			if kind := kinds[f.Value.Kind]; kind != m.kind {
				return failf(codeSyntax, "%s cannot be %s", path, f.Value.Kind)
			}
			kept[path] = f.Value.JSON()
		}
		switch m.Answer {
		case Refused:
			if !f.Value.Empty() {
				return invalidf("%s: %s", path, m.Why)
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
			return invalidf("%s is required", m.Path)
		}
	}
	return nil
}

func missing(n *doctree.Node) bool { return n == nil || n.Kind == doctree.Null }

// checkInside checks what is inside of an honored member, if the table has rows for it.
func checkInside(n *doctree.Node, path string, table []Member, kept fields) error {
	if hasRows(table, path+".") && n.Kind == doctree.Object {
		return checkMembers(n, path+".", table, kept)
	}
	if !hasRows(table, path+"[].") || n.Kind != doctree.List {
		return nil
	}
	for _, item := range n.Items {
		if item.Kind != doctree.Object {
			return failf(codeSyntax, "%s is a list of objects", path)
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

var kinds = map[doctree.Kind]byte{doctree.Text: 's', doctree.Number: 'n', doctree.Boolean: 'b', doctree.List: 'l', doctree.Object: 'o'}

// Operations lists what is answered, for the documentation: the name of each operation, after
// its service if that is not ECS, and the members of its request.
func Operations() map[string][]Member {
	all := make(map[string][]Member)
	for target, o := range New(Config{}).operations {
		all[servicePrefix(target)+o.name] = o.members
	}
	return all
}

// servicePrefix returns the service of a target, such as "logs ", as docs/aws.md writes it before an operation; empty for ECS.
func servicePrefix(target string) string {
	switch {
	case strings.HasPrefix(target, targetLogs):
		return "logs "
	case strings.HasPrefix(target, targetSSM):
		return "ssm "
	case strings.HasPrefix(target, targetScaling):
		return "application-autoscaling "
	}
	return ""
}

// oneOf checks a word.
func oneOf(path, value string, words ...string) error {
	if value == "" || slices.Contains(words, value) {
		return nil
	}
	return invalidf("%s: %q is none of %s", path, shortened(value), strings.Join(words, ", "))
}

// within checks a number; nil stands for what is not given.
func within(path string, n *int, least, most int) error {
	if n == nil || *n >= least && *n <= most {
		return nil
	}
	return invalidf("%s: %d is not %s", path, *n, fmt.Sprintf("%d to %d", least, most))
}

// someNamed checks the number of things that a request names, which ECS's sentence for none calls what.
func someNamed(path, what string, n, most int) error {
	switch {
	case n == 0:
		return invalidf("%s cannot be empty.", what)
	case n > most:
		return invalidf("%s: %d is more than %d", path, n, most)
	}
	return nil
}
