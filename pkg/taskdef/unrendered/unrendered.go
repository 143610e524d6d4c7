// Package unrendered finds tags of templates in files that were to be rendered first, so that the error says so
// instead of what a parser made of the tag.
package unrendered

import (
	"strings"
	"unicode/utf8"
)

// Fix is the advice about a template.
const Fix = "render the template first, and give its output"

// Place is a tag in a source. Line and Col count from 1, Col in characters.
type Place struct {
	Line, Col int
	Tag       string
}

// kinds are the beginnings and ends of tags: {{PORT}}, {{ .Values.image }}, {% if x %}, <%= image %>.
var kinds = [][2]string{{"{{", "}}"}, {"{%", "%}"}, {"<%", "%>"}}

// jsonKinds are also ${PORT}, which JSON has in quotes only.
var jsonKinds = append([][2]string{{"${", "}"}}, kinds...)

// Tag returns the first tag of a template in a text, or "".
func Tag(text string) string {
	_, tag := first(text, kinds)
	return tag
}

// JSON returns the first tag of a source of JSON that is not in quotes. A tag in quotes is text.
func JSON(src []byte) (Place, bool) {
	return find(src, jsonKinds, func(string) bool { return true })
}

// Find returns the first tag of another source at the beginning of a value or of a line, where it keeps the
// source from being read.
func Find(src []byte) (Place, bool) {
	return find(src, kinds, func(before string) bool {
		before = strings.TrimRight(before, " \t\r")
		return strings.Trim(before, " \t-") == "" || strings.ContainsRune(":,[{=", rune(before[len(before)-1]))
	})
}

func find(src []byte, kinds [][2]string, counts func(before string) bool) (Place, bool) {
	n := 0
	for line := range strings.Lines(string(src)) {
		n++
		for at := 0; ; {
			i, tag := first(line[at:], kinds)
			if tag == "" {
				break
			}
			before := line[:at+i]
			if strings.Count(before, `"`)%2 == 0 && counts(before) {
				return Place{n, 1 + utf8.RuneCountInString(before), tag}, true
			}
			at += i + len(tag)
		}
	}
	return Place{}, false
}

// first returns the first tag in a text and where it begins.
func first(text string, kinds [][2]string) (at int, tag string) {
	for _, kind := range kinds {
		i := strings.Index(text, kind[0])
		if i < 0 {
			continue
		}
		inner, _, closed := strings.Cut(text[i+len(kind[0]):], kind[1])
		if whole := kind[0] + inner + kind[1]; closed && !strings.ContainsAny(inner, "{}\n") && (tag == "" || i < at) {
			at, tag = i, whole
		}
	}
	return at, tag
}
