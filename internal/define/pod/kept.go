package pod

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef"
)

// keptAnnotation is what Strip leaves in a Secret in place of its content: JSON of kept.
const keptAnnotation = "podtask.kept"

// kept says where the content of a Secret is.
type kept struct {
	// Keys are sources podman:NAME by key.
	Keys map[string]string `json:"keys,omitempty"`
	// Logins are those of a Secret of one of the types for logins.
	Logins keptLogins `json:"logins,omitzero"`
}

// keptLogins are logins of registries as containers-auth.json(5).
type keptLogins struct {
	Source     string   `json:"source"`
	Registries []string `json:"registries"`
}

// keptOf reads the annotation of a Secret; zero if there is none, or another than Strip
// writes.
func keptOf(doc value) (k kept) {
	text := doc.at("metadata").at("annotations").at(keptAnnotation).str()
	if text == "" || json.Unmarshal([]byte(text), &k) != nil || !strings.HasPrefix(k.Logins.Source, "podman:") && k.Logins.Source != "" {
		return kept{}
	}
	for _, source := range k.Keys {
		if !strings.HasPrefix(source, "podman:") {
			return kept{}
		}
	}
	return k
}

// Strip takes the content of Secrets out of a manifest that Parse accepts. It returns the
// manifest, as JSON, and the contents, of which number n is from then on found at source(n),
// which is podman:NAME. Parse makes the same task of both, apart from these sources.
func Strip(src []byte, source func(n int) string) (stripped []byte, contents [][]byte, err error) {
	nodes, err := taskdef.ReadSource("manifest", src).Documents()
	if err != nil {
		return nil, nil, err
	}
	keep := func(content []byte) string {
		contents = append(contents, content)
		return source(len(contents) - 1)
	}
	var out bytes.Buffer
	for _, n := range nodes {
		for _, doc := range documents(value{&report{}, n, "", n.Line, n.Col}) {
			text := doc.node.JSON()
			if doc.at("kind").str() == "Secret" {
				if text, err = withoutContent(doc, keep); err != nil {
					return nil, nil, err
				}
			}
			if out.Len() > 0 {
				out.WriteString("---\n")
			}
			if err := json.Indent(&out, text, "", "  "); err != nil {
				return nil, nil, err
			}
			out.WriteByte('\n')
		}
	}
	return out.Bytes(), contents, nil
}

// withoutContent is a Secret without its content. Its other annotations are left out too: one of
// kubectl has the content.
func withoutContent(doc value, keep func([]byte) string) ([]byte, error) {
	k, data := keptOf(doc), secretData(doc)
	empty := map[string]string{}
	if entries, isLogins := loginsOf(doc); isLogins && len(entries) > 0 {
		auths := make(map[string]json.RawMessage)
		for _, key := range slices.Sorted(maps.Keys(entries)) {
			host, place := loginPlace(key)
			auths[place] = entries[key]
			if !slices.Contains(k.Logins.Registries, host) {
				k.Logins.Registries = append(k.Logins.Registries, host)
			}
		}
		file, err := json.Marshal(map[string]any{"auths": auths})
		if err != nil {
			return nil, err
		}
		k.Logins.Source = keep(file)
	}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		switch c := data[key]; {
		case c.empty():
			empty[key] = ""
		case c.source == "":
			if k.Keys == nil {
				k.Keys = make(map[string]string)
			}
			k.Keys[key] = keep(c.bytes)
		}
	}
	note, err := json.Marshal(k)
	if err != nil {
		return nil, err
	}
	meta := map[string]any{"name": doc.at("metadata").at("name").str(), "annotations": map[string]string{keptAnnotation: string(note)}}
	secret := map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": meta}
	if len(empty) > 0 {
		secret["stringData"] = empty
	}
	if typ := doc.at("type").str(); typ != "" {
		secret["type"] = typ
	}
	return json.Marshal(secret)
}
