package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/define/convert"
	"github.com/podtask/podtask/internal/define/convert/compose"
)

func TestRun(t *testing.T) {
	t.Parallel()
	request := func(source string) string {
		b, err := json.Marshal(compose.Request{
			File: "compose.yaml", Task: "shop", Source: []byte(source), Variables: map[string]string{"TAG": "1.27"},
		})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, tt := range []struct {
		name, in string
		args     []string
		exit     int
		problem  string // empty: there is a result
	}{
		{"a file with a variable", request("services: {web: {image: 'docker.io/library/nginx:${TAG}'}}"), nil, 0, ""},
		{"a field of the wrong type", request("services: {web: {image: [1]}}"), nil, 1, "image"},
		{"no service", request("services: {}"), nil, 1, "service"},
		{"not a request", "services:", nil, 1, "what is to be converted"},
		{"no input", "", nil, 1, "what is to be converted"},
		{"a file as argument", "", []string{"compose.yaml"}, 1, "podtask import"},
	} {
		var out, problems bytes.Buffer
		exit := run(tt.args, strings.NewReader(tt.in), &out, &problems)
		if exit != tt.exit || !strings.Contains(problems.String(), tt.problem) || (out.Len() > 0) != (tt.problem == "") {
			t.Errorf("%s: exit code %d, %q, %q", tt.name, exit, out.String(), problems.String())
			continue
		}
		if tt.exit != 0 {
			continue
		}
		var r convert.Result
		if err := json.Unmarshal(out.Bytes(), &r); err != nil || !strings.Contains(string(r.Definition), "nginx:1.27") || !strings.Contains(r.Unit, "Definition=./shop.json") {
			t.Errorf("%s: %v, %s %s", tt.name, err, r.Definition, r.Unit)
		}
	}
}
