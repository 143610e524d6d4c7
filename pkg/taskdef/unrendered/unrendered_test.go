package unrendered

import "testing"

func TestTag(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a{{PORT}}b": "{{PORT}}", "{% if x %}": "{% if x %}", "<%= x %> {{y}}": "<%= x %>", "{{ .A | default \"b\" }}": "{{ .A | default \"b\" }}",
		"${X}": "", "{{": "", "{{a\n}}": "", "{a}": "", "": "", "%} {%": "",
	} {
		if got := Tag(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		src  string
		json bool
		want Place
	}{
		{"{\"ä\": {{x}}}", true, Place{1, 7, "{{x}}"}},
		{"{\"a\": \"{{x}}\",\n\"b\": 8${y}}", true, Place{2, 7, "${y}"}},
		{"{\"a\": \"{{x}}\", \"b\": \"${y}\"}", true, Place{}},
		{"a: ${y}\nb: c{{x}}\n- {{z}}", false, Place{3, 3, "{{z}}"}},
		{"a: \"{{x}}\"", false, Place{}},
		{"a\n\n  {% if %}", false, Place{3, 3, "{% if %}"}},
	} {
		find := Find
		if tt.json {
			find = JSON
		}
		if got, ok := find([]byte(tt.src)); got != tt.want || ok != (tt.want != Place{}) {
			t.Errorf("%q: %+v, want %+v", tt.src, got, tt.want)
		}
	}
}
