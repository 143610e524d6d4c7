package taskdef

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

// compiled makes a validator of a schema, which also holds it against the
// specification's own schema.
func compiled(t interface {
	Helper()
	Fatal(args ...any)
}, schema map[string]any,
) *jsonschema.Schema {
	t.Helper()
	src, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(src))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("podtask.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("podtask.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// instance reads a document as programs do that know nothing of podtask.
func instance(t testing.TB, name string, src []byte) any {
	t.Helper()
	if filepath.Ext(name) == ".yaml" {
		var v any
		if err := yaml.Unmarshal(src, &v); err != nil {
			t.Fatal(err)
		}
		var err error
		if src, err = json.Marshal(v); err != nil {
			t.Fatal(err)
		}
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(src))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestWhatParseAcceptsIsValidBySchema(t *testing.T) {
	t.Parallel()
	schema, strict := compiled(t, Schema(false)), compiled(t, Schema(true))
	fixtures(t, "valid", func(t *testing.T, name string, src []byte) {
		v := instance(t, name, src)
		if err := schema.Validate(v); err != nil {
			t.Error(err)
		}
		if _, _, err := (Settings{Lenient: true}).Parse(name, src); err != nil {
			t.Fatal(err)
		}
		_, _, parsed := Parse(name, src)
		if err := strict.Validate(v); (err != nil) != (parsed != nil) {
			t.Errorf("Parse says %v; the strict schema says %v", parsed, err)
		}
	})
}

// TestSchemaKnowsTheKindOfEachMember gives each honoured member a value of a
// kind that it cannot have.
func TestSchemaKnowsTheKindOfEachMember(t *testing.T) {
	t.Parallel()
	schema := compiled(t, Schema(false))
	for _, m := range slices.Concat(members, extensions) {
		if m.answer != honoured || m.path == "containerDefinitions" || m.path == inContainer+"image" || m.path == inContainer+"name" || m.path == "family" {
			continue // those that the definition around the value has already
		}
		for _, value := range []string{`[{"x": [[]]}]`, `{"x": {"y": {}}}`, `"x"`} {
			src, pointer := with(m.path, value)
			_, _, err := Parse("f", src)
			problems, _ := err.(*InvalidError)
			wrongKind := problems != nil && slices.ContainsFunc(problems.Problems, func(p Problem) bool {
				return strings.HasPrefix(p.Message, "this must be") && strings.HasPrefix(p.Pointer, pointer)
			})
			switch invalid := schema.Validate(instance(t, "f", src)); {
			case wrongKind && invalid == nil:
				t.Errorf("%s: %s passes the schema; Parse says %v", m.path, value, err)
			case err == nil && invalid != nil:
				t.Errorf("%s: %s is fine for Parse; the schema says %v", m.path, value, invalid)
			}
		}
	}
}

func TestSchemaHoldsLimitsAndWords(t *testing.T) {
	t.Parallel()
	schema := compiled(t, Schema(false))
	for _, tt := range []struct{ task, container string }{
		{`"networkMode": "bridges",`, ``},
		{`"ipcMode": "none", "pidMode": "none",`, ``},
		{`"volumes": [{"host": {}}],`, ``},
		{``, `"memory": 5,`},
		{``, `"cpu": -1,`},
		{``, `"healthCheck": {"command": ["CMD", "x"], "interval": 301},`},
		{``, `"portMappings": [{"containerPort": 65536}],`},
		{``, `"portMappings": [{"containerPortRange": "80"}],`},
		{``, `"dependsOn": [{"containerName": "x"}],`},
		{``, `"ulimits": [{"name": "files", "softLimit": 1, "hardLimit": 1}],`},
		{``, `"resourceRequirements": [{"type": "GPU", "sharingStrategy": "x"}],`},
		{``, `"restartPolicy": {"enabled": true, "ignoredExitCodes": [256]},`},
	} {
		src := []byte(minimal(tt.task, tt.container))
		if err := schema.Validate(instance(t, "f", src)); err == nil {
			t.Errorf("%s passes", src)
		}
		if _, _, err := Parse("f", src); err == nil {
			t.Errorf("%s: Parse accepts what the schema refuses", src)
		}
	}
	for _, src := range []string{`{}`, `[]`, `{"family": "f"}`, `{"taskDefinition": {}}`} {
		if err := schema.Validate(instance(t, "f", []byte(src))); err == nil {
			t.Errorf("%s passes", src)
		}
	}
}

func TestEveryShapeIsThatOfAHonouredMember(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		shapes map[string]shape
		table  memberTable
	}{{shapes(), definitionTable}, {overrideShapes(), overrideTable}} {
		for path, s := range tt.shapes {
			if m, known := tt.table.rows[path]; path != "" && (!known || m.answer != honoured) {
				t.Errorf("%s has a shape and is no honoured member", path)
			}
			for _, name := range s.required {
				below := strings.TrimPrefix(path+"[]."+name, "[].")
				if _, known := tt.table.rows[below]; !known {
					t.Errorf("%s is required and not known", below)
				}
			}
		}
	}
}

func TestOverrideSchema(t *testing.T) {
	t.Parallel()
	schema := compiled(t, OverrideSchema(true))
	for src, want := range map[string]bool{
		`{}`: true,
		`{"cpu": "1 vCPU", "containerOverrides": [{"name": "a", "command": ["x"], "memory": "64"}]}`: true,
		`{"containerOverrides": [{"command": ["x"]}]}`:                                               false,
		`{"containerOverrides": [{"name": "a", "command": "x"}]}`:                                    false,
		`{"containerOverride": []}`:                                                                  false,
	} {
		if err := schema.Validate(instance(t, "f", []byte(src))); (err == nil) != want {
			t.Errorf("%s: %v", src, err)
		}
	}
}

func TestSchemaFile(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(Schema(false)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(schemaFile); err != nil && !*update {
		t.Fatal(err)
	}
	golden(t, schemaFile, b.String())
}

const schemaFile = "../../docs/task-definition.schema.json"
