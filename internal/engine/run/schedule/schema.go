package schedule

// SchemaID is the address of the schema of what commands print about schedules.
const SchemaID = "https://raw.githubusercontent.com/podtask/podtask/main/docs/schedule.schema.json"

// Schema returns the JSON Schema (2020-12) of what `podtask schedule ls --format json` prints. Its definition
// "history" is that of `podtask schedule history --format json`.
func Schema() map[string]any {
	type object = map[string]any
	text := func(description string) object { return object{"type": "string", "description": description} }
	maybe := func(kind, description string) object {
		return object{"type": []string{kind, "null"}, "description": description}
	}
	moment := func(o object) object { o["format"] = "date-time"; return o }
	list := func(of, description string) object {
		return object{"type": "array", "items": object{"$ref": "#/$defs/" + of}, "description": description}
	}
	run := object{
		"type": "object", "additionalProperties": false, "required": []string{"due", "manual", "status", "exitCode", "seconds", "missed"},
		"properties": object{
			"due":      moment(text("when it was due; of a run by hand, when it was asked for")),
			"manual":   object{"type": "boolean", "description": "it was asked for by podtask schedule run"},
			"status":   object{"enum": []Status{Starting, Running, Ended, Skipped, Missed, Failed}, "description": "what became of it"},
			"exitCode": maybe("integer", "that of its task; null until the task has ended"),
			"seconds":  maybe("number", "how long it has taken so far; null if nothing ran"),
			"task":     text("the ID of its task"),
			"missed":   object{"type": "integer", "minimum": 0, "description": "how many earlier times had no run of their own"},
			"reason":   text("why there was no run, or why the task stopped"),
		},
	}
	schedule := object{
		"type": "object", "additionalProperties": false, "required": []string{"name", "state", "at", "overlap", "catchUp", "family", "next", "last"},
		"properties": object{
			"name":    text("its name"),
			"state":   object{"enum": []string{"active", "paused", "no-timer"}, "description": "no-timer: systemd has no timer for it, or does not answer"},
			"at":      text("its times, as they were given"),
			"overlap": object{"enum": Overlaps, "description": "what happens while an earlier run has not ended"},
			"catchUp": object{"type": "boolean", "description": "missed times are made up for by one run"},
			"family":  text("the family of its definition"),
			"next":    moment(maybe("string", "when it is due next; null if it is paused or never due again")),
			"last":    object{"anyOf": []any{object{"$ref": "#/$defs/run"}, object{"type": "null"}}, "description": "its latest run; null if there is none"},
		},
	}
	s := list("schedule", "What podtask schedule ls --format json prints; $defs/history is what podtask schedule history prints.")
	s["$schema"], s["$id"], s["title"] = "https://json-schema.org/draft/2020-12/schema", SchemaID, "Schedules of podtask"
	s["$defs"] = object{"schedule": schedule, "run": run, "history": list("run", "The runs of a schedule, the newest first.")}
	return s
}
