package foreign

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"unicode"

	"github.com/podtask/podtask/internal/define/short"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// functionTags returns the short forms of CloudFormation's functions.
func functionTags() map[string]string {
	return map[string]string{
		"!Ref": "Ref", "!Condition": "Condition", "!Base64": "Fn::Base64", "!Cidr": "Fn::Cidr", "!FindInMap": "Fn::FindInMap",
		"!GetAtt": "Fn::GetAtt", "!GetAZs": "Fn::GetAZs", "!If": "Fn::If", "!ImportValue": "Fn::ImportValue", "!Join": "Fn::Join",
		"!Select": "Fn::Select", "!Split": "Fn::Split", "!Sub": "Fn::Sub", "!Transform": "Fn::Transform", "!And": "Fn::And", "!Or": "Fn::Or",
		"!Not": "Fn::Not", "!Equals": "Fn::Equals", "!Length": "Fn::Length", "!ToJsonString": "Fn::ToJsonString",
	}
}

// replaceBetween replaces what stands between open and end, with them, by what of returns for it.
func replaceBetween(text, open, end string, of func(name string) string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, open)
		name, after, closed := strings.Cut(rest, end)
		if !found || !closed {
			b.WriteString(text)
			return b.String()
		}
		b.WriteString(before + of(name))
		text = after
	}
}

// detect returns what documents are, and the function that finds their workloads.
func detect(file string, docs []*doctree.Node) (string, func(*reader, []*doctree.Node) []*workload) {
	root := first(docs)
	has := func(members ...string) bool {
		for _, m := range members {
			if root.Member(m) == nil {
				return false
			}
		}
		return true
	}
	switch {
	case has("apiVersion", "kind"):
		return "Kubernetes manifests", (*reader).kubernetes
	case len(docs) > 1:
		return "", nil
	case root.Kind == doctree.List && len(root.Items) > 0 && root.Items[0].Member("image") != nil:
		return "a list of container definitions", (*reader).containerList
	case has("format_version") && (has("planned_values") || has("values")):
		return "a plan or state of Terraform", (*reader).terraform
	case has("terraform_version", "resources", "lineage"):
		return "a state of Terraform", (*reader).terraform
	case has("artifacts", "version"):
		return "a cloud assembly of CDK", (*reader).assembly
	case has("Resources"):
		return "a CloudFormation template", (*reader).cloudformation
	case has("containerDefinitions") || root.Member("taskDefinition").Member("containerDefinitions") != nil:
		return "an ECS task definition", (*reader).taskDefinition
	case has("task_definition") && (has("service") || has("cluster") || has("region")):
		return "a configuration of ecspresso", (*reader).ecspresso
	case has("name", "type") && isCopilotType(root.Member("type").Text):
		return "a manifest of Copilot", (*reader).copilot
	case short.Is(root):
		return "a short task definition", (*reader).shortDefinition
	}
	return "", nil
}

// below returns the path of a file that another one names, which has to stay below the root.
func below(from, name string) (string, error) {
	if name == "" || strings.ContainsRune(name, 0) {
		return "", errors.New("the name of a file is empty, or has a NUL byte")
	}
	if path.IsAbs(name) {
		return "", fmt.Errorf("the file %s is not below the directory of the imported file: write a relative path", doctree.Quote(name))
	}
	p := path.Join(path.Dir(from), name)
	if p == ".." || strings.HasPrefix(p, "../") {
		return "", fmt.Errorf("the file %s is not below the directory of the imported file: import reads no file outside of it", doctree.Quote(name))
	}
	return p, nil
}

// text returns a new text at the place of another value.
func (r *reader) textAt(at *doctree.Node, s string) *doctree.Node {
	return r.put(&doctree.Node{Kind: doctree.Text, Text: s}, at)
}

func (r *reader) number(at *doctree.Node, n int) *doctree.Node {
	return r.put(&doctree.Node{Kind: doctree.Number, Text: strconv.Itoa(n)}, at)
}

func (r *reader) boolean(at *doctree.Node, v bool) *doctree.Node {
	return r.put(&doctree.Node{Kind: doctree.Boolean, Text: strconv.FormatBool(v)}, at)
}

func (r *reader) list(at *doctree.Node, items ...*doctree.Node) *doctree.Node {
	return r.put(&doctree.Node{Kind: doctree.List, Items: items}, at)
}

// object returns a new object of names and values in turns; values that are nil are left out.
func (r *reader) object(at *doctree.Node, members ...any) *doctree.Node {
	n := r.put(&doctree.Node{Kind: doctree.Object}, at)
	for i := 0; i+1 < len(members); i += 2 {
		if v, _ := members[i+1].(*doctree.Node); v != nil {
			set(n, members[i].(string), v)
		}
	}
	return n
}

// put places a new value where another one is.
func (r *reader) put(n, at *doctree.Node) *doctree.Node {
	if at != nil {
		n.Line, n.Col = at.Line, at.Col
		if file, ok := r.files[at]; ok {
			r.files[n] = file
		}
	}
	return n
}

// set gives an object a member, in place of one of that name.
func set(n *doctree.Node, key string, v *doctree.Node) {
	for i := range n.Fields {
		if n.Fields[i].Key == key {
			n.Fields[i].Value = v
			return
		}
	}
	n.Fields = append(n.Fields, doctree.Field{Key: key, Line: v.Line, Col: v.Col, Value: v})
}

// remove takes a member out of an object.
func remove(n *doctree.Node, key string) {
	var kept []doctree.Field
	for _, f := range n.Fields {
		if f.Key != key {
			kept = append(kept, f)
		}
	}
	n.Fields = kept
}

// isTrue reports whether a value asks for something by true.
func isTrue(n *doctree.Node) bool {
	return n != nil && (n.Kind == doctree.Boolean || n.Kind == doctree.Text) && strings.EqualFold(n.Text, "true")
}

// scalar reports whether a value is a text, a number or a boolean.
func scalar(n *doctree.Node) bool {
	return n != nil && (n.Kind == doctree.Text || n.Kind == doctree.Number || n.Kind == doctree.Boolean)
}

// textOf returns the text of a scalar; empty for another value.
func textOf(n *doctree.Node) string {
	if !scalar(n) {
		return ""
	}
	return n.Text
}

// intOf returns the whole number of a scalar.
func intOf(n *doctree.Node) (int, bool) {
	v, err := strconv.Atoi(textOf(n))
	return v, err == nil
}

// plain makes a name of the ECS model: letters, digits, dashes and underscores, not longer than a
// service of podtask may be called.
func plain(name string) string {
	name = strings.Trim(strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' {
			return c
		}
		return '-'
	}, name), "-_")
	return name[:min(len(name), 60)]
}

// shellWord quotes a word for a shell, where it needs that.
func shellWord(s string) string {
	safe := func(c rune) bool {
		return c < 128 && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("/._-+@:,=%", c))
	}
	if s != "" && strings.IndexFunc(s, func(c rune) bool { return !safe(c) }) < 0 {
		return s
	}
	if strings.ContainsFunc(s, unicode.IsControl) { // which a terminal would act on
		controls := strings.NewReplacer(`\`, `\\`, "'", `\'`, "\n", `\n`, "\t", `\t`, "\r", `\r`) // as $'...' has them
		return "$'" + controls.Replace(strings.Map(func(c rune) rune {
			if unicode.IsControl(c) && !strings.ContainsRune("\n\t\r", c) {
				return unicode.ReplacementChar
			}
			return c
		}, s)) + "'"
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Shell returns words as a line for a shell.
func Shell(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = shellWord(w)
	}
	return strings.Join(quoted, " ")
}

// fields returns the members of an object; none of another value.
func fields(n *doctree.Node) []doctree.Field {
	if n == nil || n.Kind != doctree.Object {
		return nil
	}
	return n.Fields
}
