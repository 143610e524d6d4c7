package toolfile

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

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

// ReplaceBetween replaces what stands between open and end, with them, by what of returns for it.
func ReplaceBetween(text, open, end string, of func(name string) string) string {
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

// Below returns the path of a file that another one names, which has to stay below the root.
func Below(from, name string) (string, error) {
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

// TextAt returns a new text at the place of another value.
func (r *Reader) TextAt(at *doctree.Node, s string) *doctree.Node {
	return r.Put(&doctree.Node{Kind: doctree.Text, Text: s}, at)
}

// Number returns a new number at the place of another value.
func (r *Reader) Number(at *doctree.Node, n int) *doctree.Node {
	return r.Put(&doctree.Node{Kind: doctree.Number, Text: strconv.Itoa(n)}, at)
}

// Boolean returns a new boolean at the place of another value.
func (r *Reader) Boolean(at *doctree.Node, v bool) *doctree.Node {
	return r.Put(&doctree.Node{Kind: doctree.Boolean, Text: strconv.FormatBool(v)}, at)
}

// List returns a new list at the place of another value.
func (r *Reader) List(at *doctree.Node, items ...*doctree.Node) *doctree.Node {
	return r.Put(&doctree.Node{Kind: doctree.List, Items: items}, at)
}

// Object returns a new object of names and values in turns; values that are nil are left out.
func (r *Reader) Object(at *doctree.Node, members ...any) *doctree.Node {
	n := r.Put(&doctree.Node{Kind: doctree.Object}, at)
	for i := 0; i+1 < len(members); i += 2 {
		if v, _ := members[i+1].(*doctree.Node); v != nil {
			Set(n, members[i].(string), v)
		}
	}
	return n
}

// Put places a new value where another one is.
func (r *Reader) Put(n, at *doctree.Node) *doctree.Node {
	if at != nil {
		n.Line, n.Col = at.Line, at.Col
		if file, ok := r.Files[at]; ok {
			r.Files[n] = file
		}
	}
	return n
}

// Set gives an object a member, in place of one of that name.
func Set(n *doctree.Node, key string, v *doctree.Node) {
	for i := range n.Fields {
		if n.Fields[i].Key == key {
			n.Fields[i].Value = v
			return
		}
	}
	n.Fields = append(n.Fields, doctree.Field{Key: key, Line: v.Line, Col: v.Col, Value: v})
}

// Remove takes a member out of an object.
func Remove(n *doctree.Node, key string) {
	var kept []doctree.Field
	for _, f := range n.Fields {
		if f.Key != key {
			kept = append(kept, f)
		}
	}
	n.Fields = kept
}

// IsTrue reports whether a value asks for something by true.
func IsTrue(n *doctree.Node) bool {
	return n != nil && (n.Kind == doctree.Boolean || n.Kind == doctree.Text) && strings.EqualFold(n.Text, "true")
}

// Scalar reports whether a value is a text, a number or a boolean.
func Scalar(n *doctree.Node) bool {
	return n != nil && (n.Kind == doctree.Text || n.Kind == doctree.Number || n.Kind == doctree.Boolean)
}

// TextOf returns the text of a scalar; empty for another value.
func TextOf(n *doctree.Node) string {
	if !Scalar(n) {
		return ""
	}
	return n.Text
}

// IntOf returns the whole number of a scalar.
func IntOf(n *doctree.Node) (int, bool) {
	v, err := strconv.Atoi(TextOf(n))
	return v, err == nil
}

// Plain makes a name of the ECS model: letters, digits, dashes and underscores, not longer than a
// service of podtask may be called.
func Plain(name string) string {
	name = strings.Trim(strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' {
			return c
		}
		return '-'
	}, name), "-_")
	return name[:min(len(name), 60)]
}

// ShellWord quotes a word for a shell, where it needs that.
func ShellWord(s string) string {
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
		quoted[i] = ShellWord(w)
	}
	return strings.Join(quoted, " ")
}

// Fields returns the members of an object; none of another value.
func Fields(n *doctree.Node) []doctree.Field {
	if n == nil || n.Kind != doctree.Object {
		return nil
	}
	return n.Fields
}

// OrAt returns n, or at if n is nil: a value for the place of a message.
func OrAt(n, at *doctree.Node) *doctree.Node {
	if n != nil {
		return n
	}
	return at
}

// keys of CloudFormation that are not those of ECS with a small first letter.
var spellings = [][2]string{
	{"EFSVolumeConfiguration", "efsVolumeConfiguration"}, {"FilesystemId", "fileSystemId"}, {"IAM", "iam"}, {"EnableECSManagedTags", "enableECSManagedTags"},
	{"FSxWindowsFileServerVolumeConfiguration", "fsxWindowsFileServerVolumeConfiguration"}, {"ProxyConfigurationProperties", "properties"},
	{"S3FilesVolumeConfiguration", "s3filesVolumeConfiguration"}, {"VPCLatticeConfigurations", "vpcLatticeConfigurations"}, {"PlacementStrategies", "placementStrategy"},
}

// LowerKey spells a name of CloudFormation or Copilot as ECS does.
func LowerKey(key string) string {
	for _, s := range spellings {
		if s[0] == key {
			return s[1]
		}
	}
	if key == "" {
		return key
	}
	return strings.ToLower(key[:1]) + key[1:]
}

// IsMap reports whether the keys in a member are those of the user.
func IsMap(member string) bool {
	return slices.Contains([]string{"Options", "DockerLabels", "DriverOpts", "Labels"}, member)
}

// LowerTree spells the members of a value as ECS does. In is the member that it is.
func (r *Reader) LowerTree(n *doctree.Node, in string) *doctree.Node {
	out := r.Put(&doctree.Node{Kind: n.Kind, Text: n.Text}, n)
	for _, item := range n.Items {
		out.Items = append(out.Items, r.LowerTree(item, in))
	}
	for _, f := range n.Fields {
		key := f.Key
		if !IsMap(in) {
			key = LowerKey(key)
		}
		out.Fields = append(out.Fields, doctree.Field{Key: key, Line: f.Line, Col: f.Col, Value: r.LowerTree(f.Value, f.Key)})
	}
	return out
}

// EmptyAt is an object without members at the place of another one.
func EmptyAt(at *doctree.Node) *doctree.Node {
	return &doctree.Node{Kind: doctree.Object, Line: at.Line, Col: at.Col}
}

// Single returns the only block of a list of blocks, or the value itself.
func Single(n *doctree.Node) *doctree.Node {
	if n != nil && n.Kind == doctree.List {
		if len(n.Items) == 0 {
			return nil
		}
		return n.Items[0]
	}
	return n
}

// LoseOthers notes how many resources of other kinds there are.
func (r *Reader) LoseOthers(at *doctree.Node, counts map[string]int) {
	var all []string
	for kind, n := range counts {
		all = append(all, fmt.Sprintf("%s (%d)", kind, n))
	}
	if len(all) == 0 {
		return
	}
	slices.Sort(all)
	if len(all) > 12 {
		all = append(all[:12:12], "...")
	}
	r.Lose(at, "ignored resources: "+strings.Join(all, ", "), "")
}
