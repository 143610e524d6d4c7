package foreign

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/define/foreign/copilot"
	"github.com/podtask/podtask/internal/define/foreign/ecspresso"
	"github.com/podtask/podtask/internal/define/foreign/toolfile"
)

// decidedBy returns the row about a member: its own, that of a member above it that is not honored, or that of the closest
// member above it whose parts are read as one. It is nil where none is.
func decidedBy(t toolfile.Table, path string) *toolfile.Member {
	if m := t.Find(path); m != nil {
		return m
	}
	all := t.Rows()
	for i := len(path) - 1; i > 0; i-- {
		k := slices.IndexFunc(all, func(m toolfile.Member) bool { return m.Path == path[:i] })
		if path[i] != '.' || k < 0 {
			continue
		}
		if slices.ContainsFunc(all, func(m toolfile.Member) bool { return strings.HasPrefix(m.Path, path[:i+1]) }) {
			return nil
		}
		return &all[k]
	}
	return nil
}

func TestEveryMemberOfOtherToolsHasADecision(t *testing.T) {
	t.Parallel()
	for file, rows := range map[string]toolfile.Table{"copilot.txt": copilot.Members, "ecspresso.txt": ecspresso.Members} {
		counts := map[toolfile.Decision]int{}
		for _, m := range schemaOf(t, file) {
			row := decidedBy(rows, m.path)
			if row == nil {
				t.Errorf("%s: %s has no row", file, m.path)
				continue
			}
			counts[row.Decision]++
		}
		t.Log(file, counts)
	}
}

// copilotExamples are values that are legal where that of the type is not.
var copilotExamples = map[string]any{
	"storage.volumes.*.read_only": false, "type": "Static Site", "name": "other", "image.port": 81, "image.depends_on": map[string]any{"y": "start"}, "sidecars.*.depends_on": map[string]any{"web": "start"},
	"on.schedule": "@daily", "timeout": "5m", "platform": "linux/arm64", "platform.architecture": "arm64", "image.location": "localhost/other:1", "sidecars.*.image": "localhost/other:1",
	"sidecars.*.port": "81/udp", "taskdef_overrides": []any{map[string]any{"path": "Tags[-]", "value": map[string]any{"Key": "a", "Value": "b"}}},
	"entrypoint": "x y", "command": "x y", "sidecars.*.entrypoint": "x y", "sidecars.*.command": "x y", "storage.ephemeral": 40, "deployment.rolling": "recreate",
	"variables.*": "v", "sidecars.*.variables.*": "v", "secrets.*": "/path", "sidecars.*.secrets.*": "/path", "count": 3, "cpu": 512, "memory": 1024, "sidecars.*.essential": false,
	"image.credentials": "arn:aws:secretsmanager:eu-central-1:000000000000:secret:c", "env_file": "x.env", "sidecars.*.env_file": "x.env", "storage.volumes.*.efs": true,
	"exec": true, "image.labels": map[string]any{"a": "b"}, "sidecars.*.labels": map[string]any{"a": "b"}, "image.build": "x",
}

// copilotPart returns a value of a member in an object of the schema, with what it needs beside it.
func copilotPart(m schemaMember) any {
	if v, ok := copilotExamples[m.path]; ok {
		return v
	}
	last := m.path[strings.LastIndexByte(m.path, '.')+1:]
	switch {
	case slices.Contains([]string{"interval", "start_period", "timeout", "deregistration_delay", "stickiness", "in", "out", "delay", "retention", "acceptable_latency", "msg_processing_time"}, last):
		return "17s"
	case last == "command":
		return []any{"CMD", "other"}
	}
	switch m.kind {
	case "n":
		return 7
	case "t":
		return true
	case "l":
		return []any{"x"}
	case "m", "b":
		return map[string]any{}
	}
	return "x"
}

// copilotWith returns a manifest with a member, and the same without it.
func copilotWith(m schemaMember, kind string) (with, without map[string]any) {
	make := func() map[string]any {
		doc := map[string]any{
			"name": "web", "type": kind, "image": map[string]any{"location": "localhost/bb:1", "port": 80, "healthcheck": map[string]any{"command": []any{"CMD", "x"}}}, "cpu": 256, "memory": 512,
			"sidecars": map[string]any{"y": map[string]any{"image": "localhost/side:1", "healthcheck": map[string]any{"command": []any{"CMD", "x"}}}},
			"storage":  map[string]any{"volumes": map[string]any{"v": map[string]any{"path": "/v"}}},
		}
		if kind == "Scheduled Job" {
			doc["on"] = map[string]any{"schedule": "@hourly"}
		}
		return doc
	}
	put := func(doc map[string]any, value any) {
		parts, at := strings.Split(m.path, "."), doc
		for i, part := range parts {
			if part == "*" {
				part = map[bool]string{true: "y", false: "v"}[parts[0] == "sidecars" && i == 1]
			}
			if i == len(parts)-1 {
				if value == nil {
					delete(at, part)
				} else {
					at[part] = value
				}
				return
			}
			next, _ := at[part].(map[string]any)
			if next == nil {
				next = map[string]any{}
				at[part] = next
				if list := strings.Join(parts[:i+1], "."); list == "sidecars.*.mount_points" || strings.HasSuffix(list, "topics") {
					next["source_volume"], next["path"] = "v", "/m"
					at[part] = []any{next}
				}
			}
			at = next
		}
	}
	with, without = make(), make()
	put(with, copilotPart(m))
	if m.path != "image.location" && m.path != "sidecars.*.image" && m.path != "type" && m.path != "name" && m.path != "cpu" && m.path != "memory" && m.path != "on.schedule" {
		put(without, map[string]any{}) // the objects above it
		put(without, nil)
	}
	return with, without
}

func copilotOutcome(t *testing.T, doc map[string]any) string {
	t.Helper()
	src, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Read(toolfile.Request{File: "manifest.yml", Source: src})
	if err != nil {
		return "refused: " + err.Error()
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s %v %v\n", r.Name, r.Definition.JSON(), r.Schedules, r.Service)
	if r.Service != nil {
		fmt.Fprintln(&b, r.Service.Flags)
	}
	for _, l := range r.Lost {
		fmt.Fprintln(&b, l.Message)
	}
	return b.String()
}

// Each member of a manifest of Copilot is set alone to a value that is not its default: it changes what comes out, is listed or
// is refused.
func TestNoMemberOfCopilotIsIgnoredInSilence(t *testing.T) {
	t.Parallel()
	all := schemaOf(t, "copilot.txt")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rand.New(rand.NewPCG(seed, seed)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	tried := 0
	for _, m := range all {
		row := decidedBy(copilot.Members, m.path)
		if row == nil || row.Decision == toolfile.NoMeaning || (m.kind == "b" || m.kind == "m") && copilotExamples[m.path] == nil {
			continue
		}
		if row.Decision == toolfile.Dropped && row.Path != m.path {
			continue // what is lost is the member above it
		}
		if strings.HasSuffix(m.path, ".from_cfn") || strings.Contains(m.path, "image.build") || strings.HasPrefix(m.path, "taskdef_overrides.") {
			continue // asked for: see TestFiles
		}
		tried++
		kind := "Load Balanced Web Service"
		if strings.HasPrefix(m.path, "on.") || m.path == "timeout" || m.path == "retries" {
			kind = "Scheduled Job"
		}
		with, without := copilotWith(m, kind)
		if got := copilotOutcome(t, with); got == copilotOutcome(t, without) {
			text, _ := json.Marshal(with)
			t.Errorf("%s is %s, and nothing is said or done about it:\n%s\n%s", m.path, row.Decision, text, got)
		}
	}
	if tried < 50 {
		t.Errorf("%d members were tried", tried)
	}
	t.Logf("%d members", tried)
}
