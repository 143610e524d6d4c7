package short

import "maps"

// SchemaID is the address of the schema of short definitions.
const SchemaID = "https://raw.githubusercontent.com/podtask/podtask/main/docs/short-definition.schema.json"

type schema = map[string]any

// Schema returns the JSON Schema (2020-12) of a short definition.
func Schema() map[string]any {
	properties := Properties(TaskKeys)
	properties["containers"] = schema{
		"type": "object", "minProperties": 1, "maxProperties": 10, "description": "containers by their names",
		"additionalProperties": schema{"type": "object", "additionalProperties": false, "required": []string{"image"}, "properties": Properties(ContainerKeys)},
	}
	return schema{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SchemaID, "title": "A short task definition of podtask",
		"type": "object", "additionalProperties": false, "required": []string{"containers"}, "properties": properties,
	}
}

// Properties returns the schemas of keys, by their names and the other words for them.
func Properties(keys []Key) map[string]any {
	all := schema{}
	for _, k := range keys {
		s := schemas[k.Kind]
		if k.Kind == Health {
			s = anyOf(schema{"type": "string"}, texts, schema{"type": "object", "additionalProperties": false, "required": []string{"test"}, "properties": Properties(HealthKeys)})
		}
		one := schema{"description": k.What}
		maps.Copy(one, s)
		all[k.Name] = one
		if word := k.Also(); word != "" {
			all[word] = one
		}
	}
	return all
}

var (
	scalars = schema{"type": []string{"string", "number", "boolean"}}
	texts   = schema{"type": "array", "items": scalars}
)

func anyOf(all ...any) schema { return schema{"anyOf": all} }

// schemas has the schema of each kind of values.
var schemas = map[Kind]schema{
	Text: scalars, Number: {"type": []string{"number", "string"}}, Flag: {"type": "boolean"}, Size: {"type": []string{"string", "number"}}, Duration: {"type": []string{"string", "number"}},
	Words: anyOf(schema{"type": "string"}, texts), List: anyOf(scalars, texts),
	Pairs: anyOf(texts, schema{"type": "object", "additionalProperties": scalars}),
	Order: anyOf(schema{"type": "array", "items": schema{"type": "string"}}, schema{"type": "object", "additionalProperties": schema{"enum": Conditions}}),
}
