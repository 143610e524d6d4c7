package taskdef

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef/refs"
)

// Resolved is a reference of a document and what answers it. It holds no value.
type Resolved struct {
	Kind refs.Kind `json:"kind"`
	// Pointer is the place in the document.
	Pointer string `json:"pointer"`
	// Reference is the name in the document, in the spelling that a rule matches.
	Reference string `json:"reference"`
	// Source is its place on this host, and Origin the place of the rule that says so. They are empty if no rule
	// matches.
	Source string `json:"source,omitempty"`
	Origin string `json:"origin,omitempty"`

	rule int // the index of the rule; -1 for none
}

// sourcesOf are the kinds of sources that can answer a kind of reference.
var sourcesOf = map[refs.Kind][]string{
	refs.Secret: secretSources,
	refs.File:   secretSources,
	refs.Volume: {"file:", "podman:", "tree:"},
	refs.Role:   {"podman:", "file:", "env:", "credential:", "command:", "tree:"},
}

// Resolve looks a reference at a place of a document up. Ok is false if nothing answers it.
// The error says which rule answers with a source that cannot be such a thing.
func Resolve(table refs.Table, kind refs.Kind, r refs.Reference, pointer string) (answer refs.Answer, seen Resolved, ok bool, err error) {
	answer, ok = table.Find(r)
	seen = Resolved{Kind: kind, Pointer: pointer, Reference: r.Name(), rule: -1}
	if !ok {
		return answer, seen, false, nil
	}
	rule := table[answer.Rule]
	seen.Source, seen.Origin, seen.rule = answer.Source, rule.Origin, answer.Rule
	if !slices.ContainsFunc(sourcesOf[kind], func(s string) bool { return strings.HasPrefix(answer.Source, s) }) {
		err = fmt.Errorf("%s answers %s with %s, which cannot be a %s: its source must be %s",
			rule.Origin, quote(r.Name()), quote(answer.Source), kind, orList(sourcesOf[kind]))
	}
	return answer, seen, true, err
}

// lookUp looks a reference up and notes what answers it. A source that cannot answer it is a
// problem.
func lookUp(c cursor, kind refs.Kind, r refs.Reference) (refs.Answer, bool) {
	found, seen, ok, err := Resolve(c.p.settings.Refs, kind, r, c.ptr)
	if err != nil {
		c.wrong(err.Error(), "put a rule for this reference in front of it")
	}
	if ok {
		c.p.used[found.Rule] = true
	}
	c.p.resolved = append(c.p.resolved, seen)
	return found, ok
}

// lookUpRoles finds the credentials of the task's roles. What no rule answers is no reference: a
// credentials helper may answer it.
func lookUpRoles(def cursor, t *Task) {
	who := &t.Identity
	who.TaskRoleSource = lookUpRole(def, "taskRoleArn", who.TaskRoleARN, refs.OfRole(who.TaskRoleARN))
	who.ExecutionRoleSource = lookUpRole(def, "executionRoleArn", who.ExecutionRoleARN, refs.OfExecutionRole(who.ExecutionRoleARN))
}

// lookUpRole returns the source of the credentials of the role that a member names; empty for none.
func lookUpRole(def cursor, member, role string, r refs.Reference) (source string) {
	if _, ok := def.p.settings.Refs.Find(r); !ok || role == "" {
		return ""
	}
	at := def.at(member)
	if at.node == nil {
		at = def // it comes from an override
	}
	found, _ := lookUp(at, refs.Role, r)
	return found.Source
}

// orList is "a, b or c".
func orList(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// RuleFor returns an entry of podtask.toml that would match a reference.
func RuleFor(kind refs.Kind, reference string) string {
	source := map[refs.Kind]string{refs.Secret: "SOURCE", refs.File: "file:/PATH", refs.Volume: "file:/DIRECTORY", refs.Role: "SOURCE"}[kind]
	return fmt.Sprintf("[[reference]] with match = %q and source = %q", reference, source)
}

// needRule reports a reference that nothing answers: flag is what answers it for one task.
func needRule(r rules, flag string, kind refs.Kind, reference, message string) {
	r.need("give "+flag+", or add to podtask.toml: "+RuleFor(kind, reference), "%s", message)
}

// ref returns the reference of a secret that is on AWS.
func (v SecretValue) ref() refs.Reference {
	if s3ARN.MatchString(v.ID) {
		return refs.OfObject(v.ID)
	}
	return refs.OfSecret(v.ID, v.ValueFrom, v.VersionStage, v.VersionID)
}

// ref returns the reference of a volume; Remote names are those of its configuration.
func (v Volume) ref() refs.Reference { return refs.OfVolume(v.Name, v.Reference) }

// MappedVolume returns a volume that a source of this host stands in for.
func MappedVolume(name, source string) Volume {
	m := Volume{Name: name, Kind: VolumeBind, HostPath: strings.TrimPrefix(source, "file:")}
	if root, place, ok := refs.SplitTree(source); ok {
		m.HostPath = path.Join(root, place)
	}
	if external, ok := strings.CutPrefix(source, "podman:"); ok {
		m.Kind, m.HostPath, m.External = VolumeShared, "", external
	}
	return m
}

// remoteRef spells the reference of a volume that this host cannot mount.
func remoteRef(c cursor, member string) string {
	in := c.at(member)
	text := func(names ...string) string {
		at := in
		for _, n := range names {
			at = at.at(n)
		}
		if at.node == nil {
			return ""
		}
		return at.node.Text
	}
	switch member {
	case "efsVolumeConfiguration":
		return "efs:" + path.Join(text("fileSystemId"), text("authorizationConfig", "accessPointId"), text("rootDirectory"))
	case "fsxWindowsFileServerVolumeConfiguration":
		return "fsx:" + path.Join(text("fileSystemId"), strings.ReplaceAll(text("rootDirectory"), `\`, "/"))
	case "s3filesVolumeConfiguration":
		return "s3files:" + path.Join(text("fileSystemArn"), text("rootDirectory"))
	}
	return ""
}

// networkRef spells the reference of a network file system: TYPE:SERVER:PATH, where the
// server is that of the device or of the mount options.
func networkRef(fs string, options map[string]string) string {
	device, server := options["device"], ""
	for _, o := range strings.Split(options["o"], ",") {
		if addr, ok := strings.CutPrefix(o, "addr="); ok {
			server = addr
		}
	}
	kind := strings.TrimSuffix(fs, "4")
	if before, after, ok := strings.Cut(device, ":"); ok && (before == "" || !strings.HasPrefix(device, "/")) {
		if before != "" {
			server = before
		}
		return kind + ":" + server + ":" + after
	}
	return kind + ":" + server + ":" + device
}
