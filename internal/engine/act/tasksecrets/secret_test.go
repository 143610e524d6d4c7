package tasksecrets

import (
	"strings"
	"testing"
)

func TestSecretInJSON(t *testing.T) {
	t.Parallel()
	const hidden = "hunter2"
	for _, c := range []struct{ secret, key, want, failure string }{
		{`{"a":"hunter2"}`, "a", "hunter2", ""},
		{`{"a":5}`, "a", "5", ""},
		{`{"a":{"b":1}}`, "a", `{"b":1}`, ""},
		{`{"b":"hunter2"}`, "a", "", `no JSON key "a"`},
		{`hunter2`, "a", "", "not a JSON object"},
		{`["hunter2"]`, "a", "", "not a JSON object"},
		{`null`, "a", "", "not a JSON object"},
	} {
		got, err := memberOf([]byte(c.secret), c.key)
		if string(got) != c.want || (err == nil) != (c.failure == "") {
			t.Errorf("%s of %s: %q, %v", c.key, c.secret, got, err)
		}
		if err != nil && (!strings.Contains(err.Error(), c.failure) || strings.Contains(err.Error(), hidden)) {
			t.Errorf("%s: %v", c.secret, err)
		}
	}
}
