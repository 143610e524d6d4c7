package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/podtask/podtask/internal/lazy"
)

// The named formats. A format with "{{" is a Go template.
const (
	FormatTable = "table"
	FormatWide  = "wide"
	FormatJSON  = "json"
	FormatYAML  = "yaml"
)

// tablePrefix is the prefix of a template that prints a table with headers, as in Podman.
const tablePrefix = FormatTable + " "

// CheckFormat returns an error for a format that is neither one of the words nor a Go template.
func CheckFormat(format string, words ...string) error {
	if format == "" || strings.Contains(format, "{{") || slices.Contains(words, format) {
		return nil
	}
	return fmt.Errorf("no format %q: it is %s or a Go template such as '{{.Name}}'", format, strings.Join(words, ", "))
}

// WriteYAML prints the JSON form of v as YAML, with the members in the same order.
func WriteYAML(w io.Writer, v any) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(escapeForYAML(text.Bytes()), &doc); err != nil {
		return err
	}
	removeStyle(&doc)
	out := yaml.NewEncoder(w)
	out.SetIndent(2)
	if err := out.Encode(&doc); err != nil {
		return err
	}
	return out.Close()
}

// escapeForYAML escapes characters in JSON that a document in YAML may not have.
func escapeForYAML(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for _, r := range string(text) {
		if r >= 0x7f && r < 0xa0 || r == 0xfeff || r == 0xfffe || r == 0xffff {
			out = fmt.Appendf(out, `\u%04x`, r)
			continue
		}
		out = utf8.AppendRune(out, r)
	}
	return out
}

// removeStyle removes the quotes and brackets of JSON, so that the encoder writes YAML.
func removeStyle(n *yaml.Node) {
	n.Style = 0
	if len(n.Content) == 0 && n.Kind != yaml.ScalarNode {
		n.Style = yaml.FlowStyle // [] and {}
	}
	for _, c := range n.Content {
		removeStyle(c)
	}
}

// WriteTemplate prints each item with a Go template, as podman and docker do:
// \t and \n are replaced, {{json .}} prints JSON, and a template that begins with "table "
// prints columns with headers.
func WriteTemplate[T any](w io.Writer, text string, items []T) error {
	text, isTable := strings.CutPrefix(text, tablePrefix)
	text = strings.NewReplacer(`\t`, "\t", `\n`, "\n").Replace(text)
	tmpl, err := template.New("format").Funcs(template.FuncMap{"json": toJSON, "lower": strings.ToLower, "upper": strings.ToUpper, "join": strings.Join}).Parse(text)
	if err != nil {
		return &TemplateError{"--format is a word or a Go template: " + strings.TrimPrefix(err.Error(), "template: ")}
	}
	var b strings.Builder
	for _, item := range items {
		if err := tmpl.Execute(&b, item); err != nil {
			return &TemplateError{"--format: " + strings.TrimPrefix(err.Error(), "template: ")}
		}
		b.WriteByte('\n')
	}
	if !isTable {
		_, err := io.WriteString(w, b.String())
		return err
	}
	rows := [][]string{strings.Split(headers(text), "\t")}
	for line := range strings.Lines(b.String()) {
		rows = append(rows, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
	}
	return WriteTable(w, rows)
}

var (
	action    = lazy.MustCompile(`\{\{.*?\}\}`)
	lastField = lazy.MustCompile(`\.([A-Za-z][A-Za-z0-9]*)[^.]*$`)
)

// headers returns a template with each action replaced by the header of its field.
func headers(template string) string {
	return action.ReplaceAllStringFunc(template, func(text string) string {
		m := lastField.FindStringSubmatch(text)
		if m == nil {
			return ""
		}
		return headerOf(m[1])
	})
}

// headerOf returns the header of a field: STOPPED REASON for StoppedReason.
func headerOf(field string) string {
	var b strings.Builder
	lower := false
	for _, r := range field {
		if lower && unicode.IsUpper(r) {
			b.WriteByte(' ')
		}
		lower = !unicode.IsUpper(r)
		b.WriteRune(unicode.ToUpper(r))
	}
	return b.String()
}

// TemplateError is a mistake in the template of a user.
type TemplateError struct{ message string }

func (e *TemplateError) Error() string { return e.message }

func toJSON(v any) (string, error) {
	b, err := json.Marshal(v)
	return string(b), err
}
