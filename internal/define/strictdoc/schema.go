package strictdoc

import (
	"encoding"
	"reflect"
	"time"
)

// Describer is a type that is written as text, with the schema of that text.
type Describer interface {
	encoding.TextUnmarshaler
	Schema() map[string]any
}

// Schema returns the JSON Schema (2020-12) of what Decode reads into a struct, ready for encoding/json.
func Schema(id, title, description string, of any) map[string]any {
	s := schemaOf(reflect.TypeOf(of))
	s["$schema"], s["$id"], s["title"], s["description"] = "https://json-schema.org/draft/2020-12/schema", id, title, description
	return s
}

func schemaOf(t reflect.Type) map[string]any {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if d, ok := reflect.New(t).Interface().(Describer); ok {
		return d.Schema()
	}
	if t == reflect.TypeFor[time.Time]() {
		return map[string]any{"type": "string", "format": "date-time"}
	}
	switch t.Kind() {
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int:
		return map[string]any{"type": "integer"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Slice:
		items := schemaOf(t.Elem())
		list := map[string]any{"type": "array", "items": items}
		if t.Elem().Kind() == reflect.String {
			return map[string]any{"anyOf": []any{list, items}}
		}
		return list
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": schemaOf(t.Elem())}
	case reflect.Struct:
		return objectSchema(t)
	}
	return map[string]any{"type": []string{"string", "number", "boolean"}} // all of them are read as text
}

func objectSchema(t reflect.Type) map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, m := range fieldsOf(t) {
		s := schemaOf(m.field.Type)
		if text := m.field.Tag.Get("doc"); text != "" {
			s["description"] = text
		}
		if words := enum(&m.field); words != nil {
			s = map[string]any{"enum": words, "description": m.field.Tag.Get("doc")}
		}
		if least, most, ok := bounds(&m.field); ok {
			s["minimum"], s["maximum"] = least, most
		}
		properties[m.name] = s
		if m.field.Tag.Get("need") == "true" {
			required = append(required, m.name)
		}
	}
	s := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}
