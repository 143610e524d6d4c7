package ecspresso

import (
	"errors"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/define/foreign/toolfile"
)

// reader has the variables TAG and QUOTE, and the parameters that are given, NAME=VALUE.
func reader(given ...string) *toolfile.Reader {
	env := map[string]string{"TAG": "1.2", "QUOTE": `a"b`, "EMPTY": ""}
	r := toolfile.NewReader(toolfile.Request{File: "ecspresso.yml", Params: map[string]string{}, Getenv: func(name string) string { return env[name] }})
	for _, g := range given {
		key, v, _ := strings.Cut(g, "=")
		r.Params[key] = v
	}
	return r
}

func TestTemplatesAreFilledIn(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ rule, text, want, given string }{
		{"must_env is the value of a variable", "{{ must_env `TAG` }}", "1.2", ""},
		{"a parameter comes before a variable", "{{ must_env `TAG` }}", "3", "TAG=3"},
		{"env is its first variable that is set", "{{ env `NONE` `TAG` `x` }}", "1.2", ""},
		{"env has a default, which is its last word", "{{ env `NONE` `x y` }}", "x y", ""},
		{"an empty variable is as none", "{{ env `EMPTY` `x` }}", "x", ""},
		{"env without a default is empty", "<{{ env `NONE` }}>", "<>", ""},
		{"texts may have double quotes with escapes", `{{ env "NONE" "a\tb" }}`, "a\tb", ""},
		{"braces within a text do not close a template", "{{ env `NONE` `}}` }}", "}}", ""},
		{"json_escape escapes what stands in parentheses", "{{ json_escape (must_env `QUOTE`) }}", `a\"b`, ""},
		{"json_escape escapes what a pipe brings", "{{ must_env `QUOTE` | json_escape }}", `a\"b`, ""},
		{"a pipe within a text is none", "{{ env `NONE` `a|\"` | json_escape }}", `a|\"`, ""},
		{"functions of plugins have parameters of their name and words", "{{ tfstate `aws_lb.web.arn` }}", "arn", "tfstate aws_lb.web.arn=arn"},
		{"a comment is nothing", "a{{/* it's a \" {{ no }} */}}b{{- /* }} */ -}} c", "abc", ""},
		{"dashes take away spaces on their side", "a \n{{- env `NONE` `x` -}}\n b", "axb", ""},
		{"if takes its text where a variable is set", "{{ if env `TAG` `` }}a{{ else }}b{{ end }}", "a", ""},
		{"else takes its text where none is", "{{ if (env `NONE`) }}a{{ else }}b{{ end }}", "b", ""},
		{"an if within a text that does not count does not count", "{{ if env `NONE` }}{{ if must_env `NONE` }}a{{ else }}b{{ end }}{{ else }}c{{ end }}", "c", ""},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			t.Parallel()
			r := reader(tc.given)
			if got := string(Render(r, "x.json", []byte(tc.text), false)); got != tc.want || r.Err() != nil {
				t.Errorf("%q, want %q; %v", got, tc.want, r.Err())
			}
		})
	}
}

func TestTemplatesThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ rule, text, want string }{
		{"a loop", "a\n{{ range env `TAG` }}", "x.json:2:1: the template {{ range env `TAG` }} is a statement, which import does not run"},
		{"else if after a text that counts", "{{ if env `TAG` }}a{{ else if env `EMPTY` }}b{{ end }}", "the template {{ else if env `EMPTY` }} is a statement"},
		{"else if after a text that does not count", "{{ if env `NONE` }}a{{ else if env `TAG` }}b{{ end }}", "the template {{ else if env `TAG` }} is a statement"},
		{"if without end", "{{ if env `TAG` }}a", "a template {{ if }} has no {{ end }}"},
		{"end without if", "{{ end }}", "the template {{ end }} is a statement"},
		{"a template that is not closed", "a\n b {{ must_env `TAG`", "x.json:2:4: a template {{ is not closed"},
		{"a comment that is not closed", "{{/* a }}", "a template {{ is not closed"},
		{"a text that is not closed", "{{ must_env `TAG }}`}}{{ \"x }}", "a template {{ is not closed"},
		{"if of a variable that is not known", "{{ if must_env `NONE` }}a{{ end }}", "the template needs the variable NONE; set it, or give --param NONE=VALUE"},
	} {
		r := reader()
		Render(r, "x.json", []byte(tc.text), false)
		if err := r.Err(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", tc.rule, err)
		}
	}
}

// A value that a template lacks is asked for if what it stands in is used, at the place of that.
func TestMissingValuesAreAskedForWhereTheyAreUsed(t *testing.T) {
	t.Parallel()
	const task = `{"family": "web", "containerDefinitions": [{"name": "a", "image": %}]}`
	for _, tc := range []struct{ rule, image, service, want string }{
		{"a variable within a text", "\"i:{{ must_env `NONE` }}\"", "{}", "task.json:1:67: the template needs the variable NONE; set it, or give --param NONE=VALUE"},
		{"a value of its own", "{{ must_env `NONE` }}", "{}", "the template needs the variable NONE"},
		{"a function of a plugin", "\"{{ ssm `/a` }}\"", "{}", "the template function ssm reads something from elsewhere; give --param 'ssm /a='VALUE"},
		{"a function behind a pipe", "\"{{ env `NONE` `x` | lower }}\"", "{}", "give --param 'env NONE x | lower='VALUE"},
		{"the number of copies", `"i"`, "{\"desiredCount\": {{ must_env `COUNT` }}}", "the template needs the variable COUNT"},
		{"what a service has no use for", `"i"`, "{\"loadBalancers\": [{\"targetGroupArn\": \"{{ tfstate `arn` }}\", \"containerName\": \"a\", \"containerPort\": 8080}]}", ""},
		{"a service that is a list", `"i"`, "[]", "an object is expected here, not a list"},
	} {
		files := map[string]string{"task.json": strings.Replace(task, "%", tc.image, 1), "service.json": tc.service}
		r := reader()
		r.Open = func(name string) ([]byte, error) {
			if text, ok := files[name]; ok {
				return []byte(text), nil
			}
			return nil, errors.New("there is no such file")
		}
		docs, ok := r.Parse("ecspresso.yml", []byte("region: x\nservice: web\nservice_definition: service.json\ntask_definition: task.json\n"))
		if !ok {
			t.Fatal(r.Err())
		}
		Workloads(r, docs)[0].Build(&toolfile.Result{})
		if err := r.Err(); tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v", tc.rule, err)
		}
	}
}

func TestFilesThatCannotBeRendered(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{"task.jsonnet": "ecspresso.yml:2:18: task.jsonnet is Jsonnet, which import does not run", "[]": "the name of a file is expected here", "../task.json": "import reads no file outside of it"} {
		r := reader()
		docs, ok := r.Parse("ecspresso.yml", []byte("region: x\ntask_definition: "+file+"\n"))
		if !ok {
			t.Fatal(r.Err())
		}
		Workloads(r, docs)[0].Build(&toolfile.Result{})
		if err := r.Err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestATextIsAConfiguration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"region: x\ntask_definition: t.json\n": true, "\"service\": x\n\"task_definition\": t.json\n": true, "{{ if x }}\ncluster: c\ntask_definition: t.json\n{{ end }}": true,
		"task_definition: t.json\n": false, "region: x\ncluster: c\n": false, "a:\n  region: x\n  task_definition: t.json\n": false,
	} {
		if Is([]byte(text)) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}
