package taskdef

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// aliasBomb doubles a list in each line: n lines stand for 2^n values.
func aliasBomb(n int) string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x]\n")
	for i := 1; i < n; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [*a%d, *a%d]\n", i, i, i-1, i-1)
	}
	return b.String()
}

func TestHostileDocumentsMeetABound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ src, want string }{
		"too long":          {strings.Repeat("nonsense ", 10<<20/9), "larger than 1.5 MiB"},
		"deep JSON":         {`{"family": ` + strings.Repeat("[", 200_000), "deeper than 40"},
		"deep YAML flow":    {"family: " + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000), "deeper than 40"},
		"deeper YAML flow":  {"family: " + strings.Repeat("[", 200_000), "exceeded max depth"},
		"deep YAML block":   {strings.Repeat("- ", 5_000) + "x", "deeper than 40"},
		"alias bomb":        {aliasBomb(30), "more than 50000 values"},
		"loop of aliases":   {"a: &a [*a]", "deeper than 40"},
		"loop of merges":    {"a: &a {<<: *a}", "deeper than 40"},
		"unknown alias":     {"a: *a", "unknown anchor"},
		"many values JSON":  {`{"family": [` + strings.Repeat("1,", 60_000) + "1]}", "more than 50000 values"},
		"many values YAML":  {"family: [" + strings.Repeat("1,", 60_000) + "1]", "more than 50000 values"},
		"many keys":         {"{" + strings.Repeat(`"familyy": 1,`, 40_000) + `"a": 1}`, "written twice"},
		"many containers":   {`{"family": "f", "containerDefinitions": [` + strings.Repeat(`{},`, 40_000) + `{}]}`, "at most 10 containers"},
		"many dependencies": {`{"family": "f", "containerDefinitions": [` + `{"dependsOn": [` + strings.Repeat(`{"containerName": "b"},`, 24_000) + `{}]}]}`, "no container named"},
		"many variables":    {`{"family": "f", "containerDefinitions": [{"environment": [` + strings.Repeat(`{"name": "a"},`, 20_000) + `{}]}]}`, "no name"},
		"many volumes": {`{"family": "f", "volumes": [` + strings.Repeat(`{"name": "v"},`, 10_000) + `{}], "containerDefinitions": [{"mountPoints": [` +
			strings.Repeat(`{"sourceVolume": "w"},`, 10_000) + `{}]}]}`, "no volume named"},
		"many ranges":       {`{"family": "f", "containerDefinitions": [{"portMappings": [` + strings.Repeat(`{"containerPortRange": "1-65535"},`, 20_000) + `{}]}]}`, "more than 100"},
		"many links":        {`{"family": "f", "containerDefinitions": [{"name": "a", "links": [` + strings.Repeat(`"a:b",`, 40_000) + `"a"]}]}`, "linked to itself"},
		"many placeholders": {`{"family": "` + strings.Repeat("${a}", 200_000) + `"}`, "containerDefinitions is missing"},
		"many of all": {`{"family": "f", "containerDefinitions": [` + strings.Repeat(`{"name": "a", "volumesFrom": [`+strings.Repeat(`{"sourceContainer": "a"},`, 200)+`{}]},`, 99) +
			`{}]}`, "at most 10 containers"},
		"NUL bytes":   {"\x00\x00{\x00", "not valid YAML"},
		"NUL in JSON": {"{\"family\": \"a\x00\"}", "not valid JSON"},
		"escaped NUL": {`{"family": "a\u0000"}`, "NUL character"},
		"not UTF-8":   {"{\"family\": \"\xff\"}", "not UTF-8"},
		"UTF-16":      {"\xff\xfe{\x00}\x00", "not UTF-8"},
		"blank":       {" \n\t ", "empty"},
		"only a mark": {"\ufeff", "empty"},
		"null":        {"null", "is null"},
		"comment":     {"# nothing\n", "is null"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := Parse("f", []byte(c.src))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %.300q, want it to say %q", fmt.Sprint(err), c.want)
			}
		})
	}
}

func TestHostileOverridesMeetABound(t *testing.T) {
	t.Parallel()
	for name, src := range map[string]string{
		"too long":       strings.Repeat("nonsense ", 10<<20/9),
		"alias bomb":     aliasBomb(30),
		"many overrides": `{"containerOverrides": [` + strings.Repeat(`{"name": "a"},`, 20_000) + `{}]}`,
		"deep":           strings.Repeat("[", 100_000),
		"blank":          "",
	} {
		if _, _, err := (Settings{}).ParseOverride("o", []byte(src)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func FuzzParseOverride(f *testing.F) {
	for _, src := range []string{
		`{"cpu": "1 vCPU", "memory": "2 GB", "containerOverrides": [{"name": "web", "command": ["x"], "environment": [{"name": "A", "value": "b"}], "cpu": 1, "memory": 64}]}`,
		`{"containerOverrides": [{"environmentFiles": [{"type": "s3", "value": "arn:aws:s3:::b/a.env"}]}], "taskRoleArn": "x"}`,
		"containerOverrides:\n- name: web\n  memoryReservation: 6\n", aliasBomb(5),
	} {
		f.Add([]byte(src))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		o, _, err := Settings{}.ParseOverride("o", src)
		var invalid *InvalidError
		if err != nil && (!errors.As(err, &invalid) || len(invalid.Problems) == 0) {
			t.Fatalf("error is %v", err)
		}
		task, report, err := Settings{Override: o}.Parse("d", []byte(overridden))
		if err == nil && len(report.Needs) == 0 {
			checkStored(t, task)
		}
	})
}

func FuzzParseSecretValue(f *testing.F) {
	const arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:db-AbCdEf"
	for _, s := range []string{arn, arn + ":key::", arn + ":a:b:c", "arn:aws:ssm:r:1:parameter/a", "/a/b", "podman:x", "", "::::"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := ParseSecretValue(s)
		if err == nil && (v.ValueFrom != s || (v.ID == "") == (v.Source == "") || !strings.HasPrefix(s, v.ID)) {
			t.Errorf("%q is %+v", s, v)
		}
	})
}

func TestMessagesCannotSteerATerminal(t *testing.T) {
	t.Parallel()
	src := "{\"family\": \"\\u001b[31m\", \"\\u001b[2J\": 1, \"containerDefinitions\": [{\"name\": \"\\u001b[1m\", \"image\": \"\\u009b0m\", " +
		"\"dependsOn\": [{\"containerName\": \"\\u001b[1m\", \"condition\": \"\\u202e\"}]}]}"
	_, report, err := Parse("f", []byte(src))
	if err == nil {
		t.Fatal("accepted")
	}
	if out := err.Error() + lines(report.Warnings); strings.ContainsAny(out, "\x1b\u009b\u202e") {
		t.Errorf("control characters in %q", out)
	}
}

func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/valid/*", "testdata/invalid/*"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			if src, err := os.ReadFile(file); err == nil && !strings.HasSuffix(file, ".want") {
				f.Add(src)
			}
		}
	}
	f.Add([]byte(aliasBomb(5)))
	schema := compiled(f, Schema(false))
	f.Fuzz(func(t *testing.T, src []byte) {
		for _, name := range []string{"f.json", "f.yaml"} {
			task, report, err := Parse(name, src)
			for _, p := range report.Warnings {
				if p.Line < 1 || p.Column < 1 || p.Message == "" {
					t.Errorf("warning without a place: %+v", p)
				}
			}
			var invalid *InvalidError
			if errors.As(err, &invalid) {
				for _, p := range invalid.Problems {
					if p.Line < 1 || p.Column < 1 || p.Message == "" {
						t.Errorf("problem without a place: %+v", p)
					}
				}
				if len(invalid.Problems) == 0 {
					t.Error("invalid without a problem")
				}
				continue
			}
			if err != nil {
				t.Fatalf("error is no InvalidError: %v", err)
			}
			if docs, err := doctree.JSON(src, limits); err == nil && len(docs) == 1 && docs[0].Kind == doctree.Object && !bytes.HasPrefix(src, []byte("\ufeff")) {
				if err := schema.Validate(instance(t, "f.json", src)); err != nil && name == "f.json" {
					t.Errorf("Parse accepts what the schema does not: %v", err)
				}
			}
			if len(report.Needs) == 0 {
				checkStored(t, task)
			}
		}
	})
}

// checkStored asserts that a parsed task is valid and survives its JSON form.
func checkStored(t *testing.T, task Task) {
	t.Helper()
	if err := task.Check(); err != nil {
		t.Errorf("the parsed task fails Check: %v", err)
	}
	j, err := json.Marshal(task)
	if err != nil {
		t.Fatal(err)
	}
	var back Task
	if err := json.Unmarshal(j, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(task, back, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the task changes when it is stored:\n%s", diff)
	}
}
