package taskdef

import (
	"strings"

	"github.com/podtask/podtask/internal/lazy"
)

// Schema returns a JSON Schema (2020-12) of what Parse reads, ready for
// encoding/json, for editors and other programs. It is made from the table of
// members. Whatever Parse accepts is valid; what Parse finds wrong across
// members, such as a dependency on no container, is beyond a schema.
//
// With strict, members that the ECS model does not have are errors, as they are
// for Parse in the eyes of --strict.
func Schema(strict bool) map[string]any {
	s := schemaWriter{definitionTable, shapes(), strict}
	return map[string]any{
		"$id":         schemaID("task-definition", strict),
		"$schema":     "https://json-schema.org/draft/2020-12/schema",
		"title":       "ECS task definition, as podtask reads it",
		"$defs":       map[string]any{"definition": s.object(""), "placeholder": placeholderSchema},
		"if":          map[string]any{"required": []string{"taskDefinition"}},
		"then":        map[string]any{"properties": map[string]any{"taskDefinition": ref("definition"), "tags": map[string]any{}}, "type": "object"},
		"else":        ref("definition"),
		"description": "As given to RegisterTaskDefinition or printed by DescribeTaskDefinition, where it lies under taskDefinition.",
	}
}

// OverrideSchema returns a JSON Schema of what ParseOverride reads, as Schema does.
func OverrideSchema(strict bool) map[string]any {
	s := schemaWriter{overrideTable, overrideShapes(), strict}
	return map[string]any{
		"$id":     schemaID("task-override", strict),
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"title":   "ECS TaskOverride, as podtask reads it",
		"$defs":   map[string]any{"override": s.object(""), "placeholder": placeholderSchema},
		"$ref":    "#/$defs/override",
	}
}

// schemaID is the address of a schema; that of the definition is a file of the repository.
func schemaID(name string, strict bool) string {
	if strict {
		name += ".strict"
	}
	return "https://raw.githubusercontent.com/podtask/podtask/main/docs/" + name + ".schema.json"
}

func ref(def string) map[string]any { return map[string]any{"$ref": "#/$defs/" + def} }

var placeholderSchema = map[string]any{"type": "string", "pattern": `\$\{[A-Za-z_][A-Za-z0-9_.-]*\}|<[A-Za-z_][A-Za-z0-9_.-]*>`}

// shape is the JSON Schema of a member without members of its own. Text is the usual one and needs no row.
type shape struct {
	kind        shapeKind
	least, most int64    // of a number; most 0 means no bound
	zero        bool     // 0 is fine too, whatever least says
	words       []string // of a text or the items of a list; nil means any
	pattern     string   // of a text
	required    []string // of an object, or of the items of a list of objects
}

type shapeKind uint8

const (
	aText shapeKind = iota
	aNumber
	aFraction
	aFlag
	aList   // of texts
	numbers // a list of whole numbers
	aMap    // of texts by name
)

func whole(least, most int64) shape { return shape{kind: aNumber, least: least, most: most} }
func one(words ...string) shape     { return shape{words: words} }
func must(required ...string) shape { return shape{required: required} }
func listOf(words ...string) shape  { return shape{kind: aList, words: words} }
func matching(pattern string) shape { return shape{pattern: pattern} }

const linux = inContainer + "linuxParameters."

// shapes lists the honored members of a definition.
var shapes = lazy.Value(func() map[string]shape {
	return map[string]shape{
		"":                           must("family", "containerDefinitions"),
		"family":                     matching(nameText),
		"networkMode":                one("bridge", "awsvpc", "host", "none"),
		extensionMember + ".network": matching(networkName.String()),
		"ipcMode":                    one("host", "task", "none"),
		"pidMode":                    one("host", "task"),
		"trustedExecutionConfiguration.isolationMode": one("SHARED"),
		"requiresCompatibilities":                     listOf(compatibilities...),

		"runtimePlatform.cpuArchitecture":       one("X86_64", "ARM64"),
		"runtimePlatform.operatingSystemFamily": one("LINUX"),

		"volumes":        must("name"),
		"volumes[].name": matching(nameText),
		"volumes[].dockerVolumeConfiguration.autoprovision": {kind: aFlag},
		"volumes[].dockerVolumeConfiguration.driverOpts":    {kind: aMap},
		"volumes[].dockerVolumeConfiguration.labels":        {kind: aMap},
		"volumes[].dockerVolumeConfiguration.scope":         one("task", "shared"),
		"volumes[]." + extensionMember + ".selinuxRelabel":  one("shared", "private"),

		extensionMember + ".stopWhenUnhealthy": {kind: aFlag},
		extensionMember + ".watchDependencies": {kind: aFlag},
		extensionMember + ".timeout":           whole(0, 31536000),
		extensionMember + ".sleepAfter":        whole(0, 2592000),

		extensionMember + ".ingress":                 must("url", "containerName", "containerPort"),
		extensionMember + ".ingress[].url":           matching("^https?://[^/]"),
		extensionMember + ".ingress[].containerPort": whole(1, 65535),
		extensionMember + ".ingress[].protocol":      one(ProtocolHTTP1, ProtocolH2C),
		extensionMember + ".ingress[].readTimeout":   whole(0, 86400),
		extensionMember + ".ingress[].idleTimeout":   whole(0, 86400),
		extensionMember + ".ingress[].maxBody":       matching("^([0-9]+[kmgKMG]?)?$"),

		"containerDefinitions":                                               must("name", "image"),
		inContainer + "name":                                                 matching(nameText),
		inContainer + "command":                                              {kind: aList},
		inContainer + "entryPoint":                                           {kind: aList},
		"enableFaultInjection":                                               {kind: aFlag},
		inContainer + "cpu":                                                  whole(0, maxUnits),
		inContainer + "memory":                                               {kind: aNumber, least: 6, zero: true},
		inContainer + "memoryReservation":                                    {kind: aNumber, least: 6, zero: true},
		inContainer + "startTimeout":                                         whole(0, 86400),
		inContainer + "stopTimeout":                                          whole(0, 86400),
		inContainer + "essential":                                            {kind: aFlag},
		inContainer + "interactive":                                          {kind: aFlag},
		inContainer + "pseudoTerminal":                                       {kind: aFlag},
		inContainer + "privileged":                                           {kind: aFlag},
		inContainer + "readonlyRootFilesystem":                               {kind: aFlag},
		inContainer + "disableNetworking":                                    {kind: aFlag},
		inContainer + "workingDirectory":                                     matching("^(/.*)?$"),
		inContainer + "versionConsistency":                                   one("enabled", "disabled"),
		inContainer + "dockerLabels":                                         {kind: aMap},
		inContainer + "dockerSecurityOptions":                                {kind: aList},
		inContainer + "dnsServers":                                           {kind: aList},
		inContainer + "dnsSearchDomains":                                     {kind: aList},
		inContainer + "links":                                                {kind: aList},
		inContainer + "dependsOn":                                            must("containerName", "condition"),
		inContainer + "dependsOn[].condition":                                one("START", "COMPLETE", "SUCCESS", "HEALTHY"),
		inContainer + "environment":                                          must("name"),
		inContainer + "environmentFiles":                                     must("value"),
		inContainer + "environmentFiles[].type":                              one("s3"),
		inContainer + "extraHosts":                                           must("hostname", "ipAddress"),
		inContainer + "healthCheck." + extensionMember + ".action":           one("restart"),
		inContainer + "healthCheck.command":                                  {kind: aList},
		inContainer + "healthCheck.interval":                                 whole(5, 300),
		inContainer + "healthCheck.retries":                                  whole(1, 10),
		inContainer + "healthCheck.startPeriod":                              whole(0, 300),
		inContainer + "healthCheck.timeout":                                  whole(2, 60),
		inContainer + "logConfiguration.logDriver":                           one(logDriverNames()...),
		inContainer + "logConfiguration.options":                             {kind: aMap},
		inContainer + "firelensConfiguration.options":                        {kind: aMap},
		inContainer + "logConfiguration.secretOptions":                       must("name", "valueFrom"),
		inContainer + "mountPoints":                                          must("sourceVolume", "containerPath"),
		inContainer + "mountPoints[].containerPath":                          matching("^/"),
		inContainer + "mountPoints[].readOnly":                               {kind: aFlag},
		inContainer + "portMappings[].containerPort":                         whole(0, 65535),
		inContainer + "portMappings[].hostPort":                              whole(0, 65535),
		inContainer + "portMappings[].protocol":                              one("tcp", "udp"),
		inContainer + "portMappings[].containerPortRange":                    matching("^([0-9]+ *- *[0-9]+)?$"),
		inContainer + "portMappings[]." + extensionMember + ".hostPortRange": matching("^([0-9]+ *- *[0-9]+)?$"),
		inContainer + "restartPolicy.enabled":                                {kind: aFlag},
		inContainer + "restartPolicy.ignoredExitCodes":                       {kind: numbers, most: 255},
		inContainer + "restartPolicy.restartAttemptPeriod":                   whole(60, 1800),
		inContainer + "restartPolicy." + extensionMember + ".backOff":        whole(0, 300),
		inContainer + "restartPolicy." + extensionMember + ".maxCount":       whole(0, 0),
		inContainer + "secrets":                                              must("name", "valueFrom"),
		inContainer + "systemControls":                                       must("namespace"),
		inContainer + "ulimits":                                              must("name", "softLimit", "hardLimit"),
		inContainer + "ulimits[].name":                                       one(ulimitNames...),
		inContainer + "ulimits[].softLimit":                                  whole(-1, 0),
		inContainer + "ulimits[].hardLimit":                                  whole(-1, 0),
		inContainer + "volumesFrom":                                          must("sourceContainer"),
		inContainer + "volumesFrom[].readOnly":                               {kind: aFlag},

		linux + "capabilities.add":      {kind: aList},
		linux + "capabilities.drop":     {kind: aList},
		linux + "devices":               must("hostPath"),
		linux + "devices[].hostPath":    matching("^/"),
		linux + "devices[].permissions": listOf(devicePermissions...),
		linux + "initProcessEnabled":    {kind: aFlag},
		linux + "maxSwap":               whole(0, 0),
		linux + "sharedMemorySize":      whole(0, 0),
		linux + "tmpfs":                 must("containerPath", "size"),
		linux + "tmpfs[].containerPath": matching("^/"),
		linux + "tmpfs[].mountOptions":  {kind: aList},
		linux + "tmpfs[].size":          whole(1, 0),

		inContainer + extensionMember + ".cpuLimit":           {kind: aFraction, most: maxUnits / unitsPerVCPU},
		inContainer + extensionMember + ".emptyCommand":       {kind: aFlag},
		inContainer + extensionMember + ".httpHealthCheck":    matching(healthURL.String()),
		inContainer + extensionMember + ".imageHealthCheck":   {kind: aFlag},
		inContainer + extensionMember + ".stopSignal":         matching(signalName.String()),
		inContainer + extensionMember + ".secretFiles":        must("path", "valueFrom"),
		inContainer + extensionMember + ".secretFiles[].gid":  whole(0, 0),
		inContainer + extensionMember + ".secretFiles[].path": matching("^/"),
		inContainer + extensionMember + ".secretFiles[].uid":  whole(0, 0),
	}
})

// overrideShapes lists the honored members of an override.
var overrideShapes = lazy.Value(func() map[string]shape {
	return map[string]shape{
		"containerOverrides":                           must("name"),
		"containerOverrides[].command":                 {kind: aList},
		"containerOverrides[].cpu":                     whole(0, maxUnits),
		"containerOverrides[].memory":                  {kind: aNumber, least: 6, zero: true},
		"containerOverrides[].memoryReservation":       {kind: aNumber, least: 6, zero: true},
		"containerOverrides[].environment":             must("name"),
		"containerOverrides[].environmentFiles":        must("value"),
		"containerOverrides[].environmentFiles[].type": one("s3"),
	}
})

// schemaWriter writes the schema of a table.
type schemaWriter struct {
	table  memberTable
	shapes map[string]shape
	strict bool
}

// object writes the schema of the object at a path.
func (w schemaWriter) object(path string) map[string]any {
	below := path
	if path != "" {
		below = path + "."
	}
	properties := make(map[string]any)
	for _, name := range w.table.names[path] {
		properties[name] = w.member(w.table.rows[below+name])
	}
	out := map[string]any{"type": orNull("object"), "properties": properties}
	if required := w.shapes[strings.TrimSuffix(path, "[]")].required; required != nil {
		out["required"] = required
	}
	if w.strict && path == "" {
		properties["$schema"] = map[string]any{"type": "string"}
	}
	if w.strict {
		out["additionalProperties"] = false
	}
	return out
}

func (w schemaWriter) member(m member) map[string]any {
	var out map[string]any
	switch {
	case m.answer == refused:
		out = map[string]any{"enum": []any{nil, "", []any{}, map[string]any{}}}
	case m.answer != honoured:
		out = map[string]any{}
	case w.table.names[m.path+"[]"] != nil:
		out = map[string]any{"type": orNull("array"), "items": w.object(m.path + "[]")}
	case w.table.names[m.path] != nil:
		out = w.object(m.path)
	default:
		out = w.shapes[m.path].schema()
	}
	if m.note != "" {
		note := strings.ReplaceAll(m.note, "`", "")
		if m.answer == warned || m.answer == refused {
			note = map[answer]string{warned: "no effect: ", refused: "refused: "}[m.answer] + note
		}
		out["description"] = note
	}
	return out
}

// schema writes what a value may look like. Values that tools write for nothing,
// and numbers and flags as text, are fine.
func (s shape) schema() map[string]any {
	text := map[string]any{"type": []string{"string", "number", "boolean", "null"}}
	switch {
	case s.words != nil:
		words := []any{nil, ""}
		for _, word := range s.words {
			words = append(words, word)
		}
		text = map[string]any{"anyOf": []any{map[string]any{"enum": words}, ref("placeholder")}}
	case s.pattern != "":
		text["anyOf"] = []any{map[string]any{"pattern": s.pattern}, ref("placeholder")}
	}
	number := map[string]any{"type": []string{"integer", "string", "null"}}
	if s.kind == aFraction {
		number["type"] = []string{"number", "string", "null"}
	}
	if s.kind == aNumber || s.kind == aFraction || s.kind == numbers {
		number["minimum"] = s.least
	}
	if s.most > 0 {
		number["maximum"] = s.most
	}
	switch s.kind {
	case aNumber, aFraction:
		if s.zero {
			return map[string]any{"anyOf": []any{map[string]any{"const": 0}, number}}
		}
		return number
	case aFlag:
		return map[string]any{"anyOf": []any{map[string]any{"enum": []any{true, false, nil, "true", "false"}}, ref("placeholder")}}
	case aList:
		return map[string]any{"type": orNull("array"), "items": text}
	case numbers:
		return map[string]any{"type": orNull("array"), "items": number}
	case aMap:
		return map[string]any{"type": orNull("object"), "additionalProperties": text}
	}
	return text
}

func orNull(kind string) []string { return []string{kind, "null"} }
