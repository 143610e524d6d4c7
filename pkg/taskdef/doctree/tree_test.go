package doctree

import (
	"errors"
	"strings"
	"testing"
)

var limits = Limits{Size: 1 << 10, Values: 100, Depth: 8}

func TestDocuments(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, src string
		want      []string
	}{
		{"nothing", "", nil},
		{"YAML documents", "a: 1\n---\n---\nb: [x, null]\n", []string{`{"a":1}`, `{"b":["x",null]}`}},
		{"JSON", `{"a": {"b": [true, "\u00e9"]}}`, []string{`{"a":{"b":[true,"é"]}}`}},
		{"JSON values in a row", "{\"a\": 1}\n{\"b\": 2}", []string{`{"a":1}`, `{"b":2}`}},
		{"JSON as YAML documents", "{\"a\": 1}\n---\n{\"b\": 2}", []string{`{"a":1}`, `{"b":2}`}},
		{"numbers of YAML", "mode: 0644\nx: 0x10\n", []string{`{"mode":420,"x":16}`}},
		{"anchors and merges", "a: &a {x: 1}\nb:\n  <<: *a\n  y: 2\n", []string{`{"a":{"x":1},"b":{"y":2,"x":1}}`}},
	}
	for _, tt := range tests {
		docs, err := Documents([]byte(tt.src), limits)
		if err != nil || len(docs) != len(tt.want) {
			t.Errorf("%s: %d documents, %v", tt.name, len(docs), err)
			continue
		}
		for i, doc := range docs {
			if got := string(doc.JSON()); got != tt.want[i] {
				t.Errorf("%s: got %s, want %s", tt.name, got, tt.want[i])
			}
		}
	}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	for _, src := range []string{"{\n  \"a\": [\n    1]}", "---\na:\n  - 1\n"} {
		docs, err := Documents([]byte(src), limits)
		if err != nil {
			t.Fatal(err)
		}
		f := docs[0].Fields[0]
		if one := f.Value.Items[0]; f.Line != 2 || one.Line != 3 || one.Col != 5 {
			t.Errorf("%q: key in line %d, value at %d:%d", src, f.Line, one.Line, one.Col)
		}
	}
}

func TestSyntaxErrors(t *testing.T) {
	t.Parallel()
	for name, src := range map[string]string{
		"open brace": `{"a": 1`, "something behind": `{"a": 1} }`, "tab": "a:\n\t- b", "deep": "[[[[[[[[[[[1]]]]]]]]]]]",
		"tag": "a: !x 1", "alias loop": "a: &a [*a, *a]", "key": "? [a]\n: b", "not text": "\xff", "merge": "<<: 1",
	} {
		_, err := Documents([]byte(src), limits)
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || syntax.Line < 1 || syntax.Col < 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTemplatesThatWereNotRenderedAreNamed(t *testing.T) {
	t.Parallel()
	limits := Limits{Size: 1 << 20, Values: 1000, Depth: 50}
	for src, want := range map[string]SyntaxError{
		"[{\"name\":\"x\",\n  \"containerPort\": {{PORT}}}]": {Line: 2, Col: 20},
		"{\"a\": {{ .Values.b }}}":                           {Line: 1, Col: 7},
		"a:\n  b: {{ .Values.b }}\n":                         {Line: 2, Col: 6},
		"{{- if .Values.x }}\na: 1\n{{- end }}\n":            {Line: 1, Col: 1},
		"{\"a\": [\n{% for x in y %}\n1]}":                   {Line: 2, Col: 1},
		"{\"a\": <%= x %>}":                                  {Line: 1, Col: 7},
		"{\"cpu\": ${cpu}, \"image\": \"${image}\"}":         {Line: 1, Col: 9},
		"a:\n{% if x %}\n  b: 1\n{% endif %}\n":              {Line: 2, Col: 1},
	} {
		_, err := Documents([]byte(src), limits)
		var got *SyntaxError
		if !errors.As(err, &got) || got.Line != want.Line || got.Col != want.Col || !strings.Contains(got.Message, "template") {
			t.Errorf("%q: %+v", src, err)
		}
	}
	// What is wrong is something else.
	for _, src := range []string{`{"a": "{{.Name}}",}`, "{\"a\": \"${b}\"", "a: x{{.Name}}\nb: 'c"} {
		if _, err := Documents([]byte(src), limits); err == nil || strings.Contains(err.Error(), "template") {
			t.Errorf("%q: %v", src, err)
		}
	}
	for _, src := range []string{`{"a": "{{.Name}}"}`, "a: '{{.Name}}'"} { // text may have them
		if _, err := Documents([]byte(src), limits); err != nil {
			t.Errorf("%q: %v", src, err)
		}
	}
}

func TestTagsAreFunctions(t *testing.T) {
	t.Parallel()
	tags := map[string]string{"!Ref": "Ref", "!Join": "Fn::Join"}
	for src, want := range map[string]string{
		"a: !Ref b\nc: !Join ['', [x, !Ref y]]\n": `{"a":{"Ref":"b"},"c":{"Fn::Join":["",["x",{"Ref":"y"}]]}}`,
		`[{"Ref": "b"}]`:     `[{"Ref":"b"}]`,
		"[{Ref: b}, !Ref c]": `[{"Ref":"b"},{"Ref":"c"}]`,
	} {
		docs, err := Tagged([]byte(src), limits, tags)
		if err != nil || len(docs) != 1 || string(docs[0].JSON()) != want {
			t.Errorf("%q: %v, %v", src, docs, err)
		}
	}
	if _, err := Tagged([]byte("a: !Other b\n"), limits, tags); err == nil {
		t.Error("an unknown tag is accepted")
	}
	if _, err := Tagged([]byte("a: &a !Ref\n  - *a\n"), limits, tags); err == nil {
		t.Error("a loop of aliases is accepted")
	}
}
